"""E7.1 fuse_budget: cases and judge."""

import math
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, type_name

_VIEWS = ("view", "transposed twice", "every other")
_KEYS = ("kernels", "bytes", "fused_bytes")
_EVERY = ("kernels", "bytes", "fused", "once")


def _fuse_budget_cases(sampler: Sampler) -> Iterator[Case]:
    middle = sampler.permutation(["in place", "gate", "bias", "relu"])
    yield _case(sampler, ["bias", "relu", "gate"], torch.float32)
    yield _case(sampler, ["double", "view", "gate", "transposed twice", "sigmoid"], torch.float16)
    yield _case(sampler, ["double", *middle, "row sum"], torch.float64)
    yield _case(sampler, ["in place", "in place"], torch.float32)  # the result is the input itself
    yield _case(sampler, ["bias", "choice", "every other"], torch.float32)
    yield _case(sampler, ["relu", "gate"], torch.float32, more=sampler.integer(1, 9))
    yield _case(sampler, ["relu", "gate", "above"], torch.float32, more=sampler.integer(1, 9), apart=False)
    yield _case(sampler, ["bias", "doubling", "relu"], torch.float32)
    yield _case(sampler, ["gate", "bias", "sigmoid"], torch.float32, outer=(sampler.integer(2, 3),), gate=torch.float16)
    yield _case(
        sampler, ["bias", "gate"], torch.float32, outer=(1, 2), gate=torch.float64
    )  # the result has the dtype of the gate


def _case(
    sampler: Sampler,
    steps: list[str],
    dtype: torch.dtype,
    more: int = 0,
    apart: bool = True,
    outer: tuple[int, ...] = (),
    gate: torch.dtype | None = None,
) -> Case:
    """``more``: columns that the matrix has beyond x, which is a part of it; the gate is another where not ``apart``.

    ``outer``: the dimensions of x before those of a matrix; the gate is one matrix, for all of them.
    ``gate``: its dtype, where that is not x's.
    """
    rows, columns = sampler.integer(11, 20), sampler.integer(21, 40)
    others = {"gate": (rows, columns), "bias": (columns,)}
    dtypes = {"gate": gate or dtype, "bias": dtype}
    used = {name: sampler.tensor(*shape, dtype=dtypes[name]) for name, shape in others.items() if name in steps}
    x = sampler.tensor(*outer, rows, columns + more + (0 if apart else columns), dtype=dtype)
    return Case(_EVERY, {"x": x, "columns": columns, "steps": steps, **used} | ({} if apart else {"gate": None}))


def _expected(inputs: dict) -> dict[str, int]:
    """By following the chain: how many elements, of how many bytes, each step reads and leaves."""
    shape, size = [*inputs["x"].shape[:-1], inputs["columns"]], inputs["x"].element_size()
    whole = math.prod(shape) * size
    others = {
        name: inputs[name].nbytes if inputs[name] is not None else whole for name in ("gate", "bias") if name in inputs
    }
    kernels = moved = 0
    for step in inputs["steps"]:
        before = math.prod(shape) * size
        if step == "every other":
            shape[-1] = -(-shape[-1] // 2)
        if step in _VIEWS:
            continue
        if step == "row sum":
            shape.pop()
        if step == "gate" and inputs["gate"] is not None:
            size = max(size, inputs["gate"].element_size())
        if step == "choice":
            # A comparison writes a byte for each element, which the choice reads.
            kernels, moved = kernels + 1, moved + before + 2 * math.prod(shape)
        if step == "above":
            size = 1
        kernels, moved = kernels + 1, moved + before + others.get(step, 0) + math.prod(shape) * size
    return {"kernels": kernels, "bytes": moved, "fused_bytes": whole + sum(others.values()) + math.prod(shape) * size}


def _judge_fuse_budget(case: Case, evidence: dict) -> Iterator[Failure]:
    expected, results = _expected(case.inputs), evidence["results"]
    if problem := count_problem(results, 2) or next(filter(None, map(_shape_problem, results)), None):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    for criterion in case.criteria:
        problems = (_PROBLEM[criterion](expected, found, evidence) for found in results)
        if problem := next(filter(None, problems), None):
            yield Failure(criterion, problem)


def _shape_problem(found: object) -> str | None:
    if not isinstance(found, dict) or set(found) != set(_KEYS):
        return f"The function returned {type_name(found)}; expected a dictionary of {', '.join(_KEYS)}."
    for key in _KEYS:
        if type(found[key]) is not int:
            return f"{key} is {type_name(found[key])}; expected an int."
    return None


def _kernels_problem(expected: dict, found: dict, evidence: dict) -> str | None:
    if found["kernels"] == expected["kernels"]:
        return None
    ops = len(evidence["seen"]["ops"])
    if found["kernels"] == ops:
        return "Operations are counted, those that only make a view among them: a view launches nothing."
    return "That is not how many kernels one call launches: a line can launch several, and a view launches none."


def _bytes_problem(expected: dict, found: dict, evidence: dict) -> str | None:
    if found["bytes"] == expected["bytes"]:
        return None
    if found["bytes"] < expected["bytes"]:
        return "Bytes are missing: every kernel reads its inputs from memory and writes its output to memory, intermediates too."
    return "More bytes than the kernels move: each kernel reads each of its inputs once and writes its output once."


def _fused_problem(expected: dict, found: dict, evidence: dict) -> str | None:
    if found["fused_bytes"] == expected["fused_bytes"]:
        return None
    return "One kernel for the whole chain would read each input once and write the result once, and nothing else."


def _once_problem(expected: dict, found: dict, evidence: dict) -> str | None:
    if evidence["strangers"]:
        return "The chain is called with other tensors than the inputs: making them is work that it does not do."
    # The number of calls is in the notebook's reach; the card's kernels are counted elsewhere.
    if evidence["calls"] == [1, 1] and len(evidence["seen"]["kernels"]) < 2 * expected["kernels"]:
        return None
    return "The chain is to be called once: a chain may write to what it is given, and a second call then works on something else."


_PROBLEM = {"kernels": _kernels_problem, "bytes": _bytes_problem, "fused": _fused_problem, "once": _once_problem}

exercise = Exercise(
    criteria=(
        Criterion("kernels", 1, "the kernels of one call are counted, without views"),
        Criterion("bytes", 2, "the bytes that they read and write are counted", ("kernels",)),
        Criterion("fused", 1, "the bytes of one fused kernel are right", ("kernels",)),
        Criterion("once", 1, "the chain is called once", ("kernels",)),
    ),
    cases=_fuse_budget_cases,
    judge=_judge_fuse_budget,
)
