"""From logits to the next token: the place for a sampler of your own."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from gpulab.serving.requests import Live


class Sampler(Protocol):
    def __call__(self, logits: Tensor, lives: Sequence[Live]) -> Tensor:
        """Token ids int64 (requests,) of logits (requests, vocabulary), whose rows belong to ``lives``."""
        ...


def greedy(logits: Tensor, lives: Sequence[Live]) -> Tensor:
    """The likeliest, the first one of equals."""
    return logits.argmax(-1)
