"""Chapter "The memory hierarchy": what the learner's functions answered, and what their kernels did.

Kernels run on a virtual card, where work that the host does instead shows as copies.
"""

from collections.abc import Callable

import torch

from autograder.proctor import Learner
from autograder.scenarios.card import idle_card
from autograder.scenarios.kernels_ran import kernels_ran, work_of
from autograder.scenarios.outcome import outcome
from gpulab import observe


def sectors(learner: Learner, case: dict) -> dict:
    """Ask for each request of a warp."""
    return {"answers": [outcome(lambda: learner.sectors(list(q["addresses"]), q["item_bytes"])) for q in case["questions"]]}


def row_sums(learner: Learner, case: dict) -> dict:
    """Add up the rows, watched."""
    return _watched(learner.row_sums, case["x"])


def tiled_matmul(learner: Learner, case: dict) -> dict:
    """Multiply, watched; or only try to, where it is due to fail."""
    if not case["refused"]:
        return _watched(learner.tiled_matmul, case["a"], case["b"])
    with idle_card():
        a, b = case["a"].cuda(), case["b"].cuda()
        return outcome(lambda: learner.tiled_matmul(a, b))


def _watched(function: Callable, *inputs: torch.Tensor) -> dict:
    with idle_card():
        handed = [tensor.cuda() for tensor in inputs]
        with kernels_ran(*handed) as ran, observe() as seen:
            result = function(*handed)
        return {
            "result": result.cpu() if isinstance(result, torch.Tensor) else result,
            "inputs_kept": all(torch.equal(old, new.cpu()) for old, new in zip(inputs, handed, strict=True)),
            **work_of(result, ran, seen),
        }


def work(learner: Learner, case: dict) -> dict:
    """Ask for each operation."""
    return {"answers": [outcome(lambda: learner.work(dict(q["operation"]), q["dtype"])) for q in case["questions"]]}


def roofline(learner: Learner, case: dict) -> dict:
    """Ask for each piece of work, on a card as a datasheet prints it."""
    return {"answers": [outcome(lambda: learner.roofline(*_arguments(q))) for q in case["questions"]]}


def _arguments(question: dict) -> tuple:
    card = dict(question["card"])
    card["memory"] = tuple(card["memory"])
    card["peaks"] = {name: tuple(peak) for name, peak in card["peaks"].items()}
    return question["flops"], question["nbytes"], card, question["dtype"]
