"""The virtual card that ``run.py`` calls a learner's functions on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

import gpulab.cuda
from gpulab.cuda.device import state

_CARD = "virtual:H100"
FAR_BEHIND_US = 1e5
"""More than any function of a learner's takes the host, unless it waits."""


@contextmanager
def idle_card() -> Iterator[None]:
    """The virtual card with nothing under way; the learner's own, whose tensors live on, if it is one.

    Its default stream is the current one, whichever an earlier cell has left there.
    """
    if gpulab.cuda.current() == _CARD:
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.default_stream()):
            yield
        torch.cuda.synchronize()
        return
    with gpulab.cuda.use(_CARD, quiet=True):
        yield


def at_work() -> Callable[[], bool]:
    """Give the current stream work for FAR_BEHIND_US; returns a function that says whether the card is still at it.

    A host that comes back later has waited, by whatever name.
    """
    device = state.device_on()
    torch.cuda._sleep(round(FAR_BEHIND_US * device.card.clock_hz / 1e6))
    until_us = device.machine.current.ready_us
    return lambda: device.machine.host_us < until_us
