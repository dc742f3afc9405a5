"""Chapter "Asynchronous execution": what the learner's functions made the device do.

All cases run on a virtual card, where a race is found whether or not it strikes."""

import torch

from gpulab.cuda.device import state

CALLERS_PRIORITY = -2
"""Of streams that cases call from: PyTorch hands out 32 of each priority in turn, and a function's
own are of another, so they are never the caller's."""


def spin(us: float) -> None:
    """Keep one multiprocessor of the virtual card busy."""
    torch.cuda._sleep(round(us * state.device_on().card.clock_hz / 1e6))


def callers_stream(side: bool) -> torch.cuda.Stream:
    return torch.cuda.Stream(priority=CALLERS_PRIORITY) if side else torch.cuda.default_stream()


def plain(value: object) -> object:
    """A number of a class derived from float, such as NumPy's, as a float; all else as it is."""
    return float.__add__(value, 0.0) if isinstance(value, float) else value
