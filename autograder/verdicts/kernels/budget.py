"""E7.1 fuse_budget: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import type_name

_FLOAT_BYTES = 4
_VIEWS = ("view", "transposed twice")
_KEYS = ("kernels", "bytes", "fused_bytes")


def _fuse_budget_cases(draw: Draw) -> Iterator[Case]:
    every = ("kernels", "bytes", "fused")
    yield _case(every, draw, ["bias", "relu", "gate"])
    yield _case(("kernels",), draw, ["double", "view", "gate", "transposed twice", "sigmoid"])
    yield _case(every, draw, ["double", *draw.shuffled(["in place", "gate", "bias", "relu"]), "row sum"])
    yield _case(("once",), draw, ["gate", "in place", "view", "bias"])


def _case(about: tuple[str, ...], draw: Draw, steps: list[str]) -> Case:
    rows, columns = draw.integer(11, 30), draw.integer(31, 60)
    x, gate = draw.tensor(rows, columns), draw.tensor(rows, columns)
    return Case(about, {"x": x, "gate": gate, "bias": draw.tensor(columns), "steps": steps})


def _due(inputs: dict) -> dict[str, int]:
    x, bias = inputs["x"].nbytes, inputs["bias"].nbytes
    row = inputs["x"].shape[0] * _FLOAT_BYTES
    moved = {"bias": 2 * x + bias, "gate": 3 * x, "row sum": x + row}
    steps = [step for step in inputs["steps"] if step not in _VIEWS]
    result = row if steps[-1] == "row sum" else x
    return {
        "kernels": len(steps),
        "bytes": sum(moved.get(step, 2 * x) for step in steps),
        "fused_bytes": 2 * x + bias + result,
    }


def _judge_fuse_budget(case: Case, evidence: dict) -> Iterator[Lost]:
    found = evidence["result"]
    if problem := _shape_problem(found):
        yield from (Lost(criterion, problem) for criterion in case.about)
        return
    due = _due(case.inputs)
    for criterion in case.about:
        if problem := _PROBLEM[criterion](due, found, evidence):
            yield Lost(criterion, problem)


def _shape_problem(found: object) -> str | None:
    if not isinstance(found, dict) or set(found) != set(_KEYS):
        return f"The function returned {type_name(found)}; a dictionary of {', '.join(_KEYS)} is due."
    for key in _KEYS:
        if type(found[key]) is not int:
            return f"{key} is {type_name(found[key])}; an int is due."
    return None


def _kernels_problem(due: dict, found: dict, evidence: dict) -> str | None:
    if found["kernels"] == due["kernels"]:
        return None
    ops = len(evidence["seen"]["ops"])
    if found["kernels"] == ops:
        return "Operations are counted, those that only make a view among them: a view launches nothing."
    return "That is not how many kernels one call launches: a line can launch several, and a view launches none."


def _bytes_problem(due: dict, found: dict, evidence: dict) -> str | None:
    if found["bytes"] == due["bytes"]:
        return None
    if found["bytes"] < due["bytes"]:
        return "Bytes are missing: every kernel reads its inputs from memory and writes its output to memory, intermediates too."
    return "More bytes than the kernels move: each kernel reads each of its inputs once and writes its output once."


def _fused_problem(due: dict, found: dict, evidence: dict) -> str | None:
    if found["fused_bytes"] == due["fused_bytes"]:
        return None
    return "One kernel for the whole chain would read each input once and write the result once, and nothing else."


def _once_problem(due: dict, found: dict, evidence: dict) -> str | None:
    # The number of calls is in the notebook's reach; the card's kernels are counted elsewhere.
    if evidence["calls"] == 1 and len(evidence["seen"]["kernels"]) < 2 * due["kernels"]:
        return None
    return "The chain is to be called once: a chain may write to what it is given, and a second call then works on something else."


_PROBLEM = {"kernels": _kernels_problem, "bytes": _bytes_problem, "fused": _fused_problem, "once": _once_problem}

fuse_budget = Exercise(
    "kernels.fuse_budget",
    criteria=(
        Criterion("kernels", 1, "the kernels of one call are counted, views not among them"),
        Criterion("bytes", 2, "the bytes that they read and write are counted", ("kernels",)),
        Criterion("fused", 1, "the bytes that one kernel would leave are right", ("kernels",)),
        Criterion("once", 1, "the chain is called once", ("kernels",)),
    ),
    cases=_fuse_budget_cases,
    judge=_judge_fuse_budget,
)
