"""Chapter "The memory hierarchy": what the learner's functions answered, and what their kernels did.

Kernels run on a virtual card, where work that the host does instead shows as copies.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from autograder.scenario_runner import Learner
from autograder.scenarios.card import idle_card
from autograder.scenarios.kernels_ran import kernels_ran, work_of
from autograder.scenarios.observed import observe
from autograder.scenarios.outcome import outcome
from autograder.scenarios.unwritten import unwritten_is_nan
from gpulab.kernels.simt import launcher


def sectors(learner: Learner, case: dict) -> dict:
    """Ask for each request of a warp."""
    return {"answers": [_asked(learner.sectors, q["addresses"], q["item_bytes"]) for q in case["questions"]]}


def row_sums(learner: Learner, case: dict) -> dict:
    """Add up the rows: watched, of several matrices one by one, or launched for one that is too tall to interpret."""
    if "tall" in case:
        return _launched_only(learner.row_sums, case["tall"])
    return _watched(learner.row_sums, case, "x")


def tiled_matmul(learner: Learner, case: dict) -> dict:
    """Multiply: watched, or several pairs one by one."""
    return _watched(learner.tiled_matmul, case, "a", "b")


def _asked(function: Callable, *arguments: object) -> dict:
    """What the function answered, and whether the arguments stayed as they were."""
    handed = copy.deepcopy(arguments)
    return {**outcome(lambda: _plain(function(*handed))), "kept": handed == arguments}


def _plain(value: object) -> object:
    """The value with NumPy's numbers as Python's: which of them counted does not matter."""
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _watched(function: Callable, case: dict, *names: str) -> dict:
    """What a call did, or the exception that it raised; see :func:`_call`. Of ``calls`` only their results."""
    with idle_card(), unwritten_is_nan():
        if "calls" in case:
            return {
                "answers": [outcome(lambda inputs=inputs: _unwatched(function, inputs)) for inputs in case["calls"]]
            }
        told = outcome(lambda: _call(function, case, [case[name] for name in names]))
    return told["returned"] if "returned" in told else told


def _call(function: Callable, case: dict, inputs: list[torch.Tensor]) -> dict:
    """One call, watched; then one with the inputs ``again``, where there are such, of which only the result is told.

    Inputs have yet to be written when the function is called, in the stream that is current: one of the
    caller's own where the case says so.
    """
    with torch.cuda.stream(torch.cuda.Stream() if case.get("side_stream") else torch.cuda.current_stream()):
        handed = [_within(tensor, case.get("offset", 0)) for tensor in inputs]
        with kernels_ran(*handed) as ran, observe() as seen:
            result = function(*handed)
        told = work_of(result, ran, seen)
        again = function(*(tensor.cuda() for tensor in case["again"])) if "again" in case else None
        return {
            **_told(result),
            "again": _on_the_host(again),
            "inputs_kept": all(torch.equal(old, new.cpu()) for old, new in zip(inputs, handed, strict=True)),
            **told,
        }


def _within(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """It on the card, written by a kernel, its first element ``offset`` elements into the storage."""
    whole = torch.cat([torch.full((offset,), 7.0), tensor.flatten()]).cuda() + 0
    return whole[offset:].view(tensor.shape)


def _unwatched(function: Callable, inputs: list[torch.Tensor]) -> dict:
    return _told(function(*(tensor.cuda() for tensor in inputs)))


def _told(result: object) -> dict:
    return {"result": _on_the_host(result), "device": result.device.type if isinstance(result, torch.Tensor) else ""}


def _launched_only(function: Callable, shape: list[int]) -> dict:
    """Whether the function's launches are such as a card takes; their kernels do not run."""
    with idle_card(), not_run():
        return {"answers": [outcome(lambda: function(torch.zeros(shape, device="cuda")) is None)]}


@contextmanager
def not_run() -> Iterator[None]:
    """Launches in the block are compiled and looked at, as a driver would, and that is all: the interpreter needs seconds."""
    run = launcher.Configured.__call__

    def looked_at(self: launcher.Configured, *arguments: object) -> None:
        launcher.check_launch(self.grid, self.block)
        self.kernel.compiled()

    launcher.Configured.__call__ = looked_at
    try:
        yield
    finally:
        launcher.Configured.__call__ = run


def _on_the_host(result: object) -> object:
    return result.cpu() if isinstance(result, torch.Tensor) else result


def work(learner: Learner, case: dict) -> dict:
    """Ask for each operation, its dictionary the same in every format."""
    answers = []
    for question in case["questions"]:
        operation = dict(question["operation"])
        asked = [outcome(lambda dtype=dtype: _plain(learner.work(operation, dtype))) for dtype in question["dtypes"]]
        answers += [{**answer, "kept": operation == question["operation"]} for answer in asked]
    return {"answers": answers}


def roofline(learner: Learner, case: dict) -> dict:
    """Ask for each piece of work, on a card as a datasheet prints it."""
    return {"answers": [_asked(learner.roofline, *_arguments(q)) for q in case["questions"]]}


def _arguments(question: dict) -> tuple:
    card = dict(question["card"])
    card["memory"] = tuple(card["memory"])
    card["peaks"] = {name: tuple(peak) for name, peak in card["peaks"].items()}
    return question["flops"], question["nbytes"], card, question["dtype"]
