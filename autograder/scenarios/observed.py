"""What ran, from records that leave the process before the learner's code goes on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import gpulab
from autograder.event_sink import emit_input_addresses, observation_sink
from gpulab import Observation


@contextmanager
def observe(saved: bool = False) -> Iterator[Observation]:
    """As :func:`gpulab.observe`; the referee is told each record as it is made, but not what is ``kept`` of ``saved``.

    Once for each case. The lists of an observation are any code's in the process to edit: one that
    is not what was told loses the case.
    """
    with gpulab.observe(observation_sink(), saved=saved) as seen:
        yield seen


def record_inputs(*tensors: torch.Tensor) -> None:
    """Tell the referee where these tensors lie, before the learner's function gets hold of them."""
    emit_input_addresses([place(tensor) for tensor in tensors])


def place(value: object) -> int:
    """The address of a tensor's storage; 0 for anything else."""
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else 0
