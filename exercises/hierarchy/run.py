"""Chapter "The memory hierarchy": what the learner's kernels did.

Kernels run on a virtual card, where work that the host does instead shows as copies."""

from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.kernels_ran import kernels_ran, work_of
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from exercises.hierarchy.run_unwritten import unwritten_is_nan


def watched(function: Callable, case: dict, *names: str) -> dict:
    """What a call did, or the exception that it raised; see :func:`call`. Of ``calls`` only their results."""
    with idle_card(), unwritten_is_nan():
        if "calls" in case:
            return {"answers": [outcome(lambda inputs=inputs: unwatched(function, inputs)) for inputs in case["calls"]]}
        told = outcome(lambda: call(function, case, [case[name] for name in names]))
    return told["returned"] if "returned" in told else told


def call(function: Callable, case: dict, inputs: list[torch.Tensor]) -> dict:
    """One call, watched; then one with the inputs ``again``, where there are such, of which only the result is told.

    Inputs have yet to be written when the function is called, in the stream that is current: one of the
    caller's own where the case says so.
    """
    with torch.cuda.stream(torch.cuda.Stream() if case.get("side_stream") else torch.cuda.current_stream()):
        handed = [within(tensor, case.get("offset", 0)) for tensor in inputs]
        with kernels_ran(*handed) as ran, observe() as seen:
            result = function(*handed)
        told = work_of(result, ran, seen)
        again = function(*(tensor.cuda() for tensor in case["again"])) if "again" in case else None
        return {
            **described(result),
            "again": on_the_host(again),
            "inputs_kept": all(torch.equal(old, new.cpu()) for old, new in zip(inputs, handed, strict=True)),
            **told,
        }


def within(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """It on the card, written by a kernel, its first element ``offset`` elements into the storage."""
    whole = torch.cat([torch.full((offset,), 7.0), tensor.flatten()]).cuda() + 0
    return whole[offset:].view(tensor.shape)


def unwatched(function: Callable, inputs: list[torch.Tensor]) -> dict:
    return described(function(*(tensor.cuda() for tensor in inputs)))


def described(result: object) -> dict:
    return {"result": on_the_host(result), "device": result.device.type if isinstance(result, torch.Tensor) else ""}


def on_the_host(result: object) -> object:
    return result.cpu() if isinstance(result, torch.Tensor) else result
