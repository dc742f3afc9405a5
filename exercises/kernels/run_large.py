"""Launches of many programs, of which one alone is counted: for sizes whose programs would take minutes."""

from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe

_MOST_ACCESSES = 80
"""Loads and stores of the one program: those of a long loop are not waited for."""


def launched_large(function: Callable, shapes: list[list[int]], dtype: str) -> dict:
    """Call ``function`` with tensors of zeros on the card.

    ``ended``: whether the programs of each launch that ran came to their ends. What ``seen`` counts in
    a launch is what one program did: the first or the last, whichever moves more bytes.
    """
    from gpulab.kernels.tiles.interpret import sampled

    with idle_card():
        inputs = [torch.zeros(*shape, dtype=getattr(torch, dtype), device="cuda") for shape in shapes]
        torch.cuda.synchronize()
        with sampled(_MOST_ACCESSES) as ended, observe() as seen:
            function(*inputs)
        return {"ended": all(ended), "seen": seen.to_dict()}
