"""E2.2 evaluate: cases and judge."""

import math
from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, raised_problem, tensor_problem, type_name
from autograder.judge.notes import counted_before, noted
from gpulab import Observation

_EXACT = 1e-9
_NEAR = 1e-4
_SCALARS = 3072
"""Bytes that a batch may leave behind: six scalars, each of which takes 512."""
_MODULES = ("", "body", "body.0", "body.1", "body.2", "head", "head.0")
_ALL = ("values", "modes", "memory", "host", "untouched")


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(_ALL, sampler, [48] * 3, loader="list", asleep=("body.2",))
    yield _case(
        _ALL,
        sampler,
        [48] * 6,
        placed=False,
        asleep=("", "head", sampler.choice(("body.0", "head.0"))),
        gradients=True,
        frozen=True,
    )
    on_host = {"device": "cpu", "gradients": True, "grad_mode": False, "loader": "generator"}
    yield _case(("values", "modes", "untouched"), sampler, [7] * 2, asleep=_some(sampler), **on_host)
    yield _case(
        ("weights", "memory", "host"), sampler, [48] * 6 + [sampler.integer(1, 4)], one_element=True, gradients=True
    )
    yield _case(
        ("weights", "host"),
        sampler,
        [sampler.integer(9, 16), 3, 12, 1, sampler.integer(5, 8)],
        huge=1e6,
        loader="generator",
    )
    without = {"grad_mode": False, "asleep": _MODULES, "gradients": True}
    yield _case(("weights", "untouched"), sampler, [sampler.integer(2, 9), 16], torch.float64, **without)
    yield _case(("weights", "modes"), sampler, [8, 0, 5, 0], asleep=_some(sampler, "body.1"))
    yield _case(("weights",), sampler, [5, sampler.integer(6, 9), 3], in_columns=True)
    yield _case(("weights",), sampler, [4, sampler.integer(5, 9), 0, 6], huge=math.nan)
    for stops, kind in sampler.shuffled(
        ({"loss": -2}, "StopIteration"),
        ({"model": 2}, "KeyboardInterrupt"),
        ({"loss": 1}, "LookupError"),
        ({"loader": 3}, "OSError"),
    ):
        asleep = _some(sampler, sampler.choice(("body.2", "head.0")))
        yield _case(("modes", "untouched"), sampler, [6, 6, 2], stops=stops, asleep=asleep, raises=kind, gradients=True)
    for sizes in sampler.shuffled([], [0, 0]):
        kind = sampler.choice(("list", "generator"))
        yield _case(("errors", "modes"), sampler, sizes, asleep=_some(sampler), loader=kind, raises="ValueError")


def _some(sampler: Sampler, *named: str) -> tuple[str, ...]:
    """Modules that are in evaluation mode already, some of those that are within others among them."""
    return (*named, *sampler.permutation([module for module in _MODULES[1:] if module not in named])[:2])


def _case(
    criteria: tuple[str, ...], sampler: Sampler, sizes: list[int], dtype=torch.float32, huge=1.0, raises="", **others
) -> Case:
    """``huge``: by how much the first batch's inputs are larger; NaN makes its loss NaN."""
    width, hidden, classes = 24, sampler.integer(20, 28), 64
    xs = [
        sampler.within_one(rows, width, dtype=dtype) * (huge if number == 0 else 3 + number)
        for number, rows in enumerate(sizes)
    ]
    ys = [torch.tensor([sampler.integer(0, classes - 1) for _ in range(rows)], dtype=torch.int64) for rows in sizes]
    weights = [sampler.within_one(hidden, width, dtype=dtype), 4 * sampler.within_one(classes, hidden, dtype=dtype)]
    for x, y in zip(xs, ys, strict=True):
        right = _logits(weights, x).argmax(-1)
        y[::2] = right[::2]
    inputs = {"xs": xs, "ys": ys, "weights": weights, "stops": {}, "asleep": (), "device": "cuda", "placed": True}
    usual = {"loader": "noting", "one_element": False, "frozen": False, "gradients": False, "grad_mode": True}
    usual |= {"in_columns": False}
    if others.get("in_columns"):
        inputs["xs"] = [x.T.contiguous() for x in xs]
    return Case(criteria, inputs | usual | others, raises)


def _logits(weights: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """In evaluation mode, with the mean that has been learned."""
    return torch.tanh(x @ weights[0].T - 0.25) @ weights[1].T


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        yield from _judge_of_an_error(case, evidence)
        return
    if "error" in evidence:
        yield from (Failure(criterion, raised_problem(evidence["error"])) for criterion in case.criteria)
        return
    problems = {
        "values": _numbers_problem(case.inputs, evidence, _NEAR) or _calls_problem(case.inputs, evidence),
        "weights": _numbers_problem(case.inputs, evidence, _EXACT),
        "modes": _modes_problem(case.inputs, evidence),
        "memory": _memory_problem(case.inputs, evidence),
        "host": _host_problem(case.inputs, evidence, Observation.from_dict(evidence["seen"])),
        "untouched": _untouched_problem(evidence),
    }
    yield from (Failure(criterion, problems[criterion]) for criterion in case.criteria if problems[criterion])


def _judge_of_an_error(case: Case, evidence: dict) -> Iterator[Failure]:
    expected = error_problem(evidence, case.raises)
    problems = {
        "errors": expected and f"{expected} Of no samples there is no mean.",
        "modes": (None if "errors" in case.criteria else expected) or _restored_problem(case.inputs, evidence),
        "untouched": _untouched_problem(evidence),
    }
    yield from (Failure(criterion, problems[criterion]) for criterion in case.criteria if problems[criterion])


def _reference(inputs: dict) -> tuple[list[list], float]:
    """Rows and loss of each batch that has samples, and the share of samples that are classified right."""
    batches = [
        (_logits(inputs["weights"], x.T if inputs["in_columns"] else x), y)
        for x, y in zip(inputs["xs"], inputs["ys"], strict=True)
        if len(y)
    ]
    right = sum(int((logits.argmax(-1) == y).sum()) for logits, y in batches)
    return [[len(y), cross_entropy(logits, y).item()] for logits, y in batches], right / sum(len(y) for _, y in batches)


def _numbers_problem(inputs: dict, evidence: dict, tolerance: float) -> str | None:
    found = evidence["returned"]
    if not isinstance(found, dict):
        return f"The function returned {type_name(found)}; expected a dictionary."
    if set(found) != {"loss", "accuracy"}:
        return "The dictionary has other keys than `loss` and `accuracy`."
    if not all(isinstance(value, float) for value in found.values()):
        return "The dictionary holds something else than Python floats."
    batches, accuracy = _reference(inputs)
    met = [[rows, loss] for rows, loss, _ in noted(evidence, "loss") if rows]
    if len(met) != len(batches) or not all(
        one[0] == two[0] and _close(one[1], two[1], _NEAR) for one, two in zip(met, batches)
    ):
        return "The losses are not those of the batches, each taken once and in evaluation mode."
    loss = math.fsum(rows * value for rows, value in met) / sum(rows for rows, _ in met)
    if not _close(found["loss"], loss, tolerance):
        return (
            "The loss is not the mean over the samples: a batch's mean counts as often as it has samples, and sums are "
            "kept in float64."
        )
    if not _close(found["accuracy"], accuracy, tolerance):
        return "The accuracy is not the share of all samples whose largest logit is that of their class."
    return None


def _close(found: float, expected: float, tolerance: float) -> bool:
    return math.isnan(found) if math.isnan(expected) else abs(found - expected) <= tolerance * abs(expected)


def _calls_problem(inputs: dict, evidence: dict) -> str | None:
    filled = sum(len(y) > 0 for y in inputs["ys"])
    forwards = len(noted(evidence, "forward"))
    if not filled <= forwards <= len(inputs["ys"]):
        return "The model was not called once with each batch."
    if len(noted(evidence, "called")) != forwards:
        return "The model's hooks did not run: they belong to `model(x)`."
    return None


def _modes_problem(inputs: dict, evidence: dict) -> str | None:
    if any(call["training"] for call in noted(evidence, "called")) or not noted(evidence, "called"):
        return (
            "A module was in training mode when the model was called: a dropout drops there, and a norm learns from what "
            "it is to be tested on."
        )
    return _restored_problem(inputs, evidence)


def _restored_problem(inputs: dict, evidence: dict) -> str | None:
    if evidence["after"]["modes"] != [module not in inputs["asleep"] for module in _MODULES]:
        return (
            "A module is not in the mode it was in before: each has its own, and an exception leaves by another door than "
            "the last line."
        )
    return None


def _memory_problem(inputs: dict, evidence: dict) -> str | None:
    calls = noted(evidence, "called")
    if evidence["packs"] or _graphs(evidence) or any(call["grad"] for call in calls) or not calls:
        return "Autograd saved tensors for a backward pass that never comes."
    if any(before < number for number, before in enumerate(counted_before(evidence, "forward", each="asked"))):
        return "A batch was asked for before the one before it had been dealt with."
    logits = len(inputs["weights"][1]) * inputs["weights"][1].itemsize
    batch = max(len(x) for x in inputs["xs"]) * (logits + inputs["xs"][0].shape[1] * inputs["xs"][0].itemsize + 8)
    if any(call["held"] > calls[0]["held"] + 2 * batch + number * _SCALARS for number, call in enumerate(calls)):
        return "What the model gave for earlier batches is still held: sums are enough for a mean."
    return None


def _graphs(evidence: dict) -> bool:
    return any(graph for *_, graph in noted(evidence, "loss"))


def _host_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    waits = [wait for wait in seen.waits if not wait.reason.startswith("copy HtoD")]
    if not seen.kernels or not noted(evidence, "called"):
        return "No work of the device was seen."
    if len(waits) != 1:
        return "The host reads the device once, when all is summed up: each number that is read on the way is a wait."
    if waits[0].start_us < noted(evidence, "called")[-1]["us"]:
        return "The host read the device before the last batch."
    return None


def _untouched_problem(evidence: dict) -> str | None:
    before, after = evidence["before"], evidence["after"]
    if not evidence["stays"]:
        return "The caller's grad mode is another one after the call."
    if before["trained"] != after["trained"] or not evidence["same"]:
        return "A parameter requires gradients where it did not, or holds another gradient: an evaluation leaves both alone."
    for kind in ("tensors", "gradients"):
        if len(before[kind]) != len(after[kind]) or not all(map(_equal, after[kind], before[kind])):
            return "A parameter, a buffer or a gradient changed: an evaluation only reads."
    return None


def _equal(found: object, expected: object) -> bool:
    return (
        found is expected
        if expected is None
        else tensor_problem(found, expected) is None and torch.equal(found, expected)
    )


exercise = Exercise(
    criteria=(
        Criterion("values", 1, "loss and accuracy are right where all batches have one size"),
        Criterion("weights", 2, "every sample counts the same, to the last digit of a float64 sum", ("values",)),
        Criterion(
            "modes",
            2,
            "every module is in evaluation mode meanwhile, and in its own afterwards, whatever happens",
            ("values",),
        ),
        Criterion("memory", 1, "autograd saves nothing, and no batch's results are held for later", ("values",)),
        Criterion("host", 1, "the host reads the device once, at the end", ("values",)),
        Criterion(
            "untouched", 1, "parameters, buffers, gradients and the caller's grad mode are left alone", ("values",)
        ),
        Criterion("errors", 1, "no samples are refused with ValueError", ("values",)),
    ),
    cases=_cases,
    judge=_judge,
)
