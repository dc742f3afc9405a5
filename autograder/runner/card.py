"""The virtual card that ``run.py`` calls a learner's functions on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import gpulab.cuda
from gpulab.cuda.device import state

_CARD = "virtual:H100"


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


def host_us() -> float:
    """The host's clock beside the card, in microseconds."""
    return state.device_on().machine.host_us


def work_until_us(us: float) -> float:
    """Give the current stream work for so many microseconds; when it is over.

    A host that comes back later than that has waited, by whatever name.
    """
    device = state.device_on()
    torch.cuda._sleep(round(us * device.card.clock_hz / 1e6))
    return device.machine.current.ready_us
