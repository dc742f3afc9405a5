"""Chapter "Kernels from Python": what the learner's functions launched, moved and compiled.

Kernels run on a virtual card, whose interpreter counts what they load and store."""

from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.kernels_ran import kernels_ran, on_host, same_memory, tiles, work_of
from autograder.runner.observed import observe

PRELOAD = ("gpulab.kernels.tiles.facade", "gpulab.kernels.fusion.compiled")
"""What these scenarios and their notebooks import on first use."""


def part_of(owner: torch.Tensor, columns: int | None, first: int = 0) -> torch.Tensor:
    """``owner``, or the part of it that is ``columns`` wide."""
    return owner[..., first : None if columns is None else first + columns]


def launched(
    function: Callable, inputs: list[torch.Tensor], again: bool = False, columns: int | None = None, first: int = 0
) -> dict:
    """Call ``function`` on the card, watched; once more where ``again`` is asked for.

    ``columns``: the first input is that many of a wider matrix's, from ``first`` on. ``inputs`` in
    the evidence: what they hold afterwards. ``is_an_input``: the result lies where one of them does;
    ``handed_out_twice``: a second result lies where the first does.
    """
    with idle_card():
        owners = [tensor.cuda() for tensor in inputs]
        given = [part_of(owners[0], columns, first), *owners[1:]]
        torch.cuda.synchronize()
        with kernels_ran(*given, interpreter=tiles) as ran, observe() as seen:
            result = function(*given)
        work = work_of(result, ran, seen)
        torch.cuda.synchronize()
        return {
            "result": on_host(result),
            "inputs": [tensor.cpu() for tensor in owners],
            "contiguous": isinstance(result, torch.Tensor) and result.is_contiguous(),
            "is_an_input": any(same_memory(result, tensor) for tensor in given),
            "handed_out_twice": again and same_memory(result, function(*given)),
            **work,
        }
