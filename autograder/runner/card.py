"""The virtual card that ``run.py`` calls a learner's functions on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import gpulab.cuda

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
