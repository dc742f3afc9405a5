"""``gpulab.observe`` with every event sent to the referee as it is recorded."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import gpulab
from autograder.protocol.event_sink import emit_input_addresses, observation_sink
from gpulab import Observation


@contextmanager
def observe(saved: bool = False) -> Iterator[Observation]:
    """As :func:`gpulab.observe`, with each record sent to the referee's event log, except ``kept`` of ``saved``.

    Once per case. Any code in the process can edit the lists of an observation: one that does not match the event log
    loses the case.
    """
    with gpulab.observe(observation_sink(), saved=saved) as seen:
        yield seen


def record_inputs(*tensors: torch.Tensor) -> None:
    """Log the storage addresses of these tensors before they are passed to the learner's function."""
    emit_input_addresses([storage_address(tensor) for tensor in tensors])


def storage_address(value: object) -> int:
    """The address of a tensor's storage; 0 for anything else."""
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else 0
