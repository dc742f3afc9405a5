"""E15.1 zero_adam: its judge.

Every rank asks for its own gradients, which nobody else can know. What it handed in is in the broker's log: its
gradients to a reduce-scatter, and to an all-gather the new values of its share, which it cannot work out before. The
parameters in the ranks after a step, and what they hold, is what they say; parameters are to be what crossed, to the last bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import CollectiveRecord, Traffic
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.ranks import is_of_all, stopped
from exercises.sharding.zero_adam.adam import DEFAULTS, RIVALS, Adam
from exercises.sharding.zero_adam.cases import cases

Tensor = torch.Tensor
_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_NEAR = {torch.float32: 3e-6, torch.float64: 1e-10}
_FREE_BYTES = 256


@dataclass(frozen=True)
class Due:
    """An optimizer: its trained parameters by their places, and how its elements are shared out."""

    places: list[int]
    likes: list[Tensor]
    ranks: int

    @property
    def elements(self) -> int:
        return sum(like.numel() for like in self.likes)

    @property
    def share(self) -> int:
        return -(-self.elements // self.ranks)

    def of_rank(self, rank: int) -> int:
        """How many elements a rank's share has without the padding."""
        return max(0, min(self.share, self.elements - rank * self.share))

    @property
    def dtype(self) -> torch.dtype:
        return self.likes[0].dtype

    def flat(self, tensors: list) -> Tensor:
        """Of all parameters of the optimizer, as float64; what is None counts as zeros."""
        pairs = zip((tensors[place] for place in self.places), self.likes, strict=True)
        parts = [(torch.zeros_like(like) if tensor is None else tensor).detach().double() for tensor, like in pairs]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *(part.flatten() for part in parts)])


@dataclass(frozen=True)
class Step:
    """What is due of one step: each rank's gradients as they are handed in, and all values after it."""

    of: Due
    grads: list[Tensor]
    values: Tensor


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := stopped(evidence) or _record_problem(case, evidence["results"]):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    for criterion in case.criteria:
        if problem := _PROBLEMS[criterion](case, evidence["results"], evidence["traffic"]):
            yield Failure(criterion, problem)
    if problem := _grads_problem(case, evidence["results"]):  # of every case, whatever else it is about
        yield Failure("unused", problem)


def _record_problem(case: Case, results: list[dict]) -> str | None:
    steps = len(case.per_rank_inputs[0]["steps"])
    for result in results:
        if problem := count_problem(result["steps"], steps) or count_problem(result["kept"], steps + 1):
            return problem
    return count_problem(results[0]["answers"], len(case.per_rank_inputs[0]["refused"]))


def _dues(case: Case) -> list[Due]:
    def expected(spec: dict) -> Due:
        places = [place for place, frozen in enumerate(spec["frozen"]) if not frozen]
        return Due(places, [spec["values"][place] for place in places], case.ranks)

    return [expected(spec) for spec in case.per_rank_inputs[0]["optimizers"]]


def _played(case: Case, **otherwise) -> list[Step]:
    """What is due in every step; ``otherwise``: what is done otherwise than right."""
    all_expected, specs = _dues(case), case.per_rank_inputs[0]["optimizers"]
    pairs = zip(all_expected, specs, strict=True)
    made = [Adam(expected.flat(spec["values"]), **DEFAULTS | spec["options"], **otherwise) for expected, spec in pairs]
    found = []
    for every in zip(*(own["steps"] for own in case.per_rank_inputs), strict=True):
        expected, adam = all_expected[every[0]["of"]], made[every[0]["of"]]
        if any(written is not None for written in every[0]["written"]):
            adam.values = expected.flat(every[0]["written"])
        grads = [expected.flat(step["grads"]) for step in every]
        adam.step(grads)
        found.append(Step(expected, grads, adam.values))
    return found


# ---- values


def _values_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    specs, played = case.per_rank_inputs[0]["optimizers"], _played(case)
    now = [list(spec["values"]) for spec in specs]
    for number, step in enumerate(played):
        which = case.per_rank_inputs[0]["steps"][number]["of"]
        flat = step.values
        for place, like in zip(step.of.places, step.of.likes, strict=True):
            now[which][place], flat = flat[: like.numel()].view(like.shape), flat[like.numel() :]
        for result in results:
            if problem := _after_problem(case, number, result["steps"][number], now):
                return problem
    return _unlike_problem(results)


def _after_problem(case: Case, number: int, after: dict, now: list[list[Tensor]]) -> str | None:
    """Why a rank's parameters after a step are not ``now``, or None."""
    for which, (spec, all_expected) in enumerate(zip(case.per_rank_inputs[0]["optimizers"], now, strict=True)):
        found = [after[name][which] if len(after[name]) > which else None for name in ("values", "lies")]
        if any(count_problem(values, len(all_expected)) for values in found):
            return "The record does not hold every parameter."
        for like, frozen, expected, value, lies in zip(
            spec["values"], spec["frozen"], all_expected, *found, strict=True
        ):
            if problem := tensor_problem(value, like):
                return problem
            if frozen and not torch.equal(value, like):
                return "A frozen parameter has changed: no share holds it."
            if not _is_near(value, expected, like.dtype):
                return _why_not(case, number, which, after["values"][which])
            if tensor_problem(lies, like) or not torch.equal(lies, value):
                return "The new values are in new tensors: the memory that the parameters had in the call does not hold them."
    return None


def _is_near(value: Tensor, expected: Tensor, dtype: torch.dtype) -> bool:
    if not dtype.is_floating_point:
        return torch.equal(value, expected)
    return bool(
        ((value.double() - expected.double()).abs() <= _NEAR.get(dtype, 0.0) * (1 + expected.double().abs())).all()
    )


def _why_not(case: Case, number: int, which: int, values: list) -> str:
    expected = _dues(case)[which]
    if case.per_rank_inputs[0]["steps"][number]["of"] != which:
        return "A step has changed parameters of another optimizer."
    if not expected.places or any(
        tensor_problem(values[place], like) for place, like in zip(expected.places, expected.likes, strict=True)
    ):
        return _NOT_ADAM
    flat = expected.flat(values)
    before = next((step.values for step in _played(case)[:number][::-1] if step.of.places is expected.places), None)
    if torch.equal(
        flat, expected.flat(case.per_rank_inputs[0]["optimizers"][which]["values"]) if before is None else before
    ):
        return "After a step a rank's parameters are what they were: new values are written in place in every rank."
    for otherwise, sentence in RIVALS:
        if _is_near(flat, _played(case, **otherwise)[number].values, expected.dtype):
            return sentence
    return _NOT_ADAM


_NOT_ADAM = (
    "After a step the parameters are not what Adam makes of the mean of all ranks' gradients: of this step's, with moments and "
    "a count of steps that belong to these elements and to this optimizer."
)


def _unlike_problem(results: list[dict]) -> str | None:
    for every in zip(*(result["steps"] for result in results), strict=True):
        for values in zip(*(after["values"] for after in every), strict=True):
            if not all(all(map(torch.equal, one, values[0])) for one in values):
                return "After a step the ranks' parameters are not the same to the last bit: all come out of the all-gather."
    return None


# ---- what crossed


def _crossing_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    """In every step two collectives and nothing else."""
    steps = [step for step in _played(case) if step.of.elements]
    operations = [collective.entry.operation for collective in traffic.collectives]
    if operations != ["reduce_scatter", "all_gather"] * len(steps):
        return _why_others(operations, len(steps))
    return _contents_problem(case, steps, traffic.collectives) or _received_problem(case, results, traffic.collectives)


def _why_others(operations: list[str], steps: int) -> str:
    if foreign := sorted(set(operations) - {"reduce_scatter", "all_gather"}):
        return f"Something else crosses than a reduce-scatter and an all-gather: {foreign[0]}."
    for operation in ("reduce_scatter", "all_gather"):
        if operations.count(operation) != steps:
            which = "More" if operations.count(operation) > steps else "Fewer"
            return f"{which} collectives of the kind {operation} cross than there are steps: one a step, of one flat tensor."
    return "In a step the all-gather crosses before the reduce-scatter: what it brings cannot be new."


def _contents_problem(case: Case, steps: list[Step], collectives: tuple[CollectiveRecord, ...]) -> str | None:
    """Why what was handed in to the reduce-scatters and the all-gathers is not what is due, whatever else crosses, or None."""
    for operation, problem_of in (("reduce_scatter", _scatter_problem), ("all_gather", _gather_problem)):
        found = [collective for collective in collectives if collective.entry.operation == operation]
        if len(found) != len(steps):
            return f"One {operation} of one flat tensor is due in a step."
        for step, collective in zip(steps, found, strict=True):
            if problem := _shape_problem(step.of, collective) or problem_of(step, collective):
                return problem
    return None


def _shape_problem(expected: Due, collective: CollectiveRecord) -> str | None:
    entry = collective.entry
    if not is_of_all(collective, expected.ranks):
        return "A collective does not cross between all ranks in the default process group."
    if _DTYPES.get(entry.dtype) != expected.dtype:
        return "What crosses has another dtype than the parameters."
    if entry.bytes != expected.share * expected.ranks * expected.dtype.itemsize:
        return (
            "What crosses is larger or smaller than all elements, padded to the next multiple of the ranks: shares are equal "
            "parts of the elements, whatever the sizes of the tensors."
        )
    return None


def _scatter_problem(step: Step, collective: CollectiveRecord) -> str | None:
    if collective.entry.reduces not in ("SUM", "AVG"):
        return "The reduce-scatter neither sums nor averages."
    factors = (1,) if collective.entry.reduces == "AVG" else (1, 1 / step.of.ranks)
    given = [_decoded(collective, rank)[: step.of.elements] for rank in range(step.of.ranks)]
    if any(
        all(_is_handed(one, factor * own) for one, own in zip(given, step.grads, strict=True)) for factor in factors
    ):
        return None
    return (
        "What a rank hands in to the reduce-scatter are not its own gradients of this step: all elements in the order of the "
        "parameters, row by row, zeros for those that it does not have, and the padding behind them."
    )


def _is_handed(given: Tensor, own: Tensor) -> bool:
    return bool(((given - own).abs() <= 1e-6 * own.abs()).all())


def _gather_problem(step: Step, collective: CollectiveRecord) -> str | None:
    for rank in range(step.of.ranks):
        expected = step.values[rank * step.of.share : (rank + 1) * step.of.share]
        if not _is_near(_decoded(collective, rank)[: len(expected)], expected, step.of.dtype):
            return "What a rank hands in to the all-gather are not the new values of its own share of the elements."
    return None


def _decoded(collective: CollectiveRecord, rank: int) -> Tensor:
    return torch.frombuffer(bytearray(collective.given[rank]), dtype=_DTYPES[collective.entry.dtype]).double()


def _received_problem(case: Case, results: list[dict], collectives: tuple[CollectiveRecord, ...]) -> str | None:
    """Whether the ranks' parameters are what crossed."""
    gathered = [collective for collective in collectives if collective.entry.operation == "all_gather"]
    for number, step in enumerate(_played(case)):
        if not step.of.elements:
            continue
        collective = gathered.pop(0)
        came = torch.cat([_decoded(collective, rank) for rank in range(case.ranks)])[: step.of.elements]
        for result in results:
            values = result["steps"][number]["values"][case.per_rank_inputs[0]["steps"][number]["of"]]
            if not torch.equal(step.of.flat(values), came):
                return "After a step a rank's parameters are not what the all-gather brought."
    return None


def _uneven_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    if problem := _values_problem(case, results, traffic):
        return problem
    return _contents_problem(case, [step for step in _played(case) if step.of.elements], traffic.collectives)


# ---- what is held, what is missing, what is refused


def _state_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    (expected,) = _dues(case)
    moments, all_moments = (2 * elements * expected.dtype.itemsize for elements in (expected.share, expected.elements))
    for rank, result in enumerate(results):
        if min(result["kept"][1:]) < 2 * expected.of_rank(rank) * expected.dtype.itemsize:
            return "After a step a rank holds less in tensors than two moments of its own share take."
    kept = max(number for result in results for number in result["kept"])
    if kept <= moments + _FREE_BYTES:
        return None
    if kept >= all_moments:
        return "A rank holds as much between steps as two moments of all elements take: a slice keeps the whole of its storage."
    return (
        "Between steps a rank holds more than two moments of its own share: gradients, weights, moments in a wider dtype or "
        "another rank's, or shares of unlike sizes."
    )


def _grads_problem(case: Case, results: list[dict]) -> str | None:
    for own, result in zip(case.per_rank_inputs, results, strict=True):
        for step, after in zip(own["steps"], result["steps"], strict=True):
            for was, grad, same in zip(step["grads"], after["grads"], after["same"], strict=True):
                if was is None and grad is not None:
                    return "A gradient that a rank did not have is there after the step: .grad stays None."
                if was is not None and (same is not True or tensor_problem(grad, was) or not torch.equal(grad, was)):
                    return "After the step .grad is not the tensor that it was, with its values: it is each rank's own."
    return None


def _errors_problem(case: Case, results: list[dict], traffic: Traffic) -> str | None:
    for spec, answer in zip(case.per_rank_inputs[0]["refused"], results[0]["answers"], strict=True):
        if _is_sound(spec) and "error" in answer:
            return f"Numbers and dtypes that Adam can work with are refused. {raised_problem(answer['error'])}"
        if not _is_sound(spec) and (problem := error_problem(answer, "ValueError")):
            return problem
    return None


def _is_sound(spec: dict) -> bool:
    numbers = DEFAULTS | spec["options"]
    in_range = min(numbers["lr"], numbers["eps"], *numbers["betas"]) >= 0 and max(numbers["betas"]) < 1
    return in_range and len({value.dtype for value in spec["values"]}) == 1


_PROBLEMS = {
    "values": _values_problem,
    "crossing": _crossing_problem,
    "uneven": _uneven_problem,
    "state": _state_problem,
    "unused": _values_problem,
    "errors": _errors_problem,
}


exercise = Exercise(
    criteria=(
        Criterion(
            "values", 2, "after every step all ranks have the values that Adam makes of the mean gradients, in place"
        ),
        Criterion(
            "crossing", 2, "a step is one reduce-scatter of gradients and one all-gather of new values, and no more"
        ),
        Criterion(
            "uneven", 1, "shares are equal parts of the elements, whatever tensors and ranks there are", ("values",)
        ),
        Criterion("state", 2, "a rank holds two moments of its own share between steps, and no more", ("values",)),
        Criterion(
            "unused",
            1,
            "missing gradients count as zeros, .grad stays, and frozen parameters take no part",
            ("values",),
        ),
        Criterion(
            "errors", 1, "numbers and dtypes that Adam cannot work with are refused with ValueError", ("values",)
        ),
    ),
    cases=cases,
    judge=_judge,
)
