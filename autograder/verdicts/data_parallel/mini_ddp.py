"""E14.1 mini_ddp: cases and judge.

Every rank asks for its own models and batches, which nobody else can know. What it handed in, and when, is on the switchboard's
record; its models after the call and its gradients after ``finish`` are what it says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from autograder.boards import Crossed
from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.data_parallel import launches, replica
from autograder.verdicts.data_parallel.launches import Launch, Told, is_all_reduce, same_in_any_order, told
from autograder.verdicts.data_parallel.replica import Parameter
from autograder.verdicts.expect import tensor_problem

_WIDTH, _ROWS = 3, 2
_SINGLE, _DOUBLE = torch.float32, torch.float64
_ALL = ("values", "buckets", "launched")


# ---- what is drawn


def _cases(draw: Draw) -> Iterator[Case]:
    for case in draw.each(_alone, _two_models, _four_ranks, _apart, _unused, _mixed, _gated):
        yield case(draw)


def _alone(draw: Draw) -> Case:
    """One rank: nobody to hear from, and the gradients are its own."""
    return _case(draw, ("values",), [_model(draw, 2, [draw.choice([_SINGLE, _DOUBLE])])], [_first_two], [[[[0, 1]]], [[[1, 0]]]])


def _two_models(draw: Draw) -> Case:
    """One behind the other, with limits of their own; in the second step the layers come in another order."""
    models = [_model(draw, 3, [_SINGLE]) for _ in range(2)]
    steps = [[[0, 1, 2]] * 2, [_another_order(draw), _another_order(draw)], [[0, 1, 2]] * 2]
    return _case(draw, _ALL, models, draw.shuffled([_first_two, _all_but_the_largest]), [[step] * 2 for step in steps])


def _four_ranks(draw: Draw) -> Case:
    models = [_model(draw, 3, [_DOUBLE]), _model(draw, 2, [_DOUBLE])]
    steps = [[_another_order(draw), [0, 1]], [[0, 1, 2, draw.integer(1, 2)], [1, 0, 1]]]
    return _case(draw, _ALL, models, draw.shuffled([_one_byte, _everything]), [[step] * 4 for step in draw.shuffled(steps)])


def _apart(draw: Draw) -> Case:
    """No rank goes through the layers in another's order."""
    orders = [draw.shuffled([[0, 1, 2], _another_order(draw)]) for _ in range(2)]
    return _case(draw, ("buckets",), [_model(draw, 3, [_SINGLE])], [_first_two], [[[path] for path in order] for order in orders])


def _unused(draw: Draw) -> Case:
    """All layers; each rank without another; one that nobody uses, and a rank that uses none; all again."""
    first, second, third, fourth = draw.shuffled(range(4))
    everything, lacking = [0, 1, 2, 3], [[i for i in range(4) if i != lacked] for lacked in (first, second, third)]
    nothing = [[i for i in range(4) if i != fourth], [], [first, second]]
    steps = [[[everything]] * 3, [[path] for path in lacking], [[path] for path in draw.shuffled(nothing)], [[everything]] * 3]
    return _case(draw, ("unused",), [_model(draw, 4, [_SINGLE])], [draw.choice([_first_two, _all_but_the_largest])], steps)


def _mixed(draw: Draw) -> Case:
    """Both dtypes in turn: a model with frozen parameters among others, one without, and one with no other."""
    dtypes = draw.shuffled([_SINGLE, _DOUBLE])
    some, none, every = _model(draw, 4, dtypes), _model(draw, 3, dtypes), _model(draw, 1, [_SINGLE])
    ends, inner = draw.each([True] * 3, [False] * 3), draw.each([True, False, False], [False, True, False])
    for layer, frozen in zip([*some["layers"], *every["layers"]], [ends[0], *inner, ends[1], [True] * 3], strict=True):
        layer["frozen"] = frozen
    limits, path = [_around_a_frozen_one, _everything, _everything], [[0, 1, 2, 3], [0, 1, 2], [0]]
    return _case(draw, ("mixed", "buckets"), [some, none, every], limits, [[path] * 2] * 2, to_none=True)


def _gated(draw: Draw) -> Case:
    """At the last place one rank waits for what the other sends at the first, when it has launched all."""
    gates = [{rank: (None, "recv", 1 - rank), 1 - rank: (0, "isend", rank)} for rank in draw.each(0, 1)]
    model = _model(draw, 3, [_SINGLE])
    return _case(draw, ("no_waiting",), [model], [_first_two], [[[[0, 1, 2]]] * 2] * 2, gates, to_none=True)


def _case(
    draw: Draw, about: tuple[str, ...], models: list[dict], limits: list, steps: list, gates: Sequence[dict] = (), to_none: bool | None = None
) -> Case:
    """``steps``: of each, of each rank, of each model the path; ``gates``: of each step, by rank, what else it does at a place.

    ``to_none``: how gradients are zeroed after the first step; in turn after those that follow.
    """
    to_none = draw.choice([True, False]) if to_none is None else to_none
    dtype, each = models[0]["layers"][0]["weights"][0].dtype, []
    for rank in range(len(steps[0])):
        mine = [
            {"x": _numbers(draw, _ROWS, _WIDTH, dtype=dtype), "paths": step[rank], "to_none": to_none == (number % 2 == 0), "gates": []}
            for number, step in enumerate(steps)
        ]
        for step, gate in zip(mine, gates):
            place, operation, peer = gate[rank]
            step["gates"] = [[replica.top(step) if place is None else place, operation, peer]]
        each.append({"models": [_own(draw, model) for model in models], "steps": mine})
    rooms = [limit(model) for limit, model in zip(limits, models, strict=True)]
    return Case(about, {"world": len(each), "bucket_bytes": rooms}, ranks=len(each), each=tuple(each))


def _model(draw: Draw, layers: int, dtypes: list[torch.dtype]) -> dict:
    """Layers of unlike sizes, of ``dtypes`` in turn; every parameter ``b`` lies by columns."""
    inner = draw.shuffled(range(1, 6))[:layers]
    made = [_layer(draw, size, dtypes[i % len(dtypes)]) | {"persistent": i % 2 == 0} for i, size in enumerate(inner)]
    return {"layers": made, "count": torch.tensor(0), "on": torch.zeros(2, dtype=torch.bool)}


def _layer(draw: Draw, inner: int, dtype: torch.dtype) -> dict:
    a, b, g = _numbers(draw, inner, _WIDTH, dtype=dtype), _numbers(draw, inner, _WIDTH, dtype=dtype).t(), _numbers(draw, dtype=dtype)
    return {"weights": [0.3 * a, 0.3 * b, g], "frozen": [False] * 3, "scale": 1 + 0.1 * _numbers(draw, _WIDTH, dtype=dtype)}


def _numbers(draw: Draw, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return draw.values(*shape, kind="mixed", dtype=dtype) / 8


def _own(draw: Draw, model: dict) -> dict:
    """The same model as a rank has it before the call: with numbers of its own."""
    layers = [layer | _layer(draw, len(layer["weights"][0]), layer["weights"][0].dtype) | {"frozen": layer["frozen"]} for layer in model["layers"]]
    on = torch.tensor(draw.shuffled([True, False]))
    return {"layers": layers, "count": torch.tensor(draw.integer(1, 2**40)), "on": on}


def _another_order(draw: Draw) -> list[int]:
    return draw.choice([[1, 2, 0], [2, 0, 1], [2, 1, 0]])


def _bytes(model: dict) -> list[int]:
    return [parameter.like.nbytes for parameter in reversed(replica.parameters(model)) if not parameter.frozen]


def _first_two(model: dict) -> int:
    """Two parameters fill the first bucket to the last byte."""
    return sum(_bytes(model)[:2])


def _all_but_the_largest(model: dict) -> int:
    return max(_bytes(model)) - 1


def _around_a_frozen_one(model: dict) -> int:
    """What is not frozen of the layer whose middle parameter is."""
    of = next(layer for layer in model["layers"] if layer["frozen"] == [False, True, False])
    return sum(w.nbytes for w, frozen in zip(of["weights"], of["frozen"], strict=True) if not frozen)


def _one_byte(model: dict) -> int:
    return 1


def _everything(model: dict) -> int:
    return max(1, sum(_bytes(model)))


# ---- what came of it


@dataclass(frozen=True)
class _Played:
    """A case that came to its end: of each rank its models' ``starts``, as objects and as they are ``written``, its ``grads``,
    what it ``told`` and its ``own`` gradients, step by step.
    """

    case: Case
    starts: list
    written: list
    grads: list
    told: list[Told]
    own: list[list]
    near: float
    _elements: dict = field(default_factory=dict)

    @property
    def models(self) -> list[dict]:
        return self.case.each[0]["models"]

    @property
    def steps(self) -> range:
        return range(len(self.case.each[0]["steps"]))

    def buckets(self) -> list[list[list[Parameter]]]:
        """Of each model."""
        rooms = self.case.inputs["bucket_bytes"]
        return [replica.buckets(model, most) for model, most in zip(self.models, rooms, strict=True)]

    def elements(self, rank: int, step: int) -> "_Own":
        if (rank, step) not in self._elements:
            self._elements[rank, step] = _Own.of(self, rank, step)
        return self._elements[rank, step]

    def flat(self, rank: int, step: int, model: int, bucket: list[Parameter]) -> torch.Tensor:
        """What ``rank`` is to hand in for ``bucket``."""
        found = self.own[rank][step][model]
        parts = [found[p.number] if found[p.number] is not None else torch.zeros_like(p.like) for p in bucket]
        return torch.cat([part.reshape(-1).double() for part in parts])


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    crossed: Crossed = evidence["crossed"]
    if problem := _stopped(case, evidence, crossed) or _forged(case, evidence["results"]):
        yield from (Lost(criterion, problem) for criterion in case.about)
        return
    starts, written, grads = ([result[name] for result in evidence["results"]] for name in ("starts", "written", "grads"))
    own = [[replica.gradients(mine["models"], start, step) for step in mine["steps"]] for mine, start in zip(case.each, starts, strict=True)]
    near = 1e-9 if {p.like.dtype for model in case.each[0]["models"] for p in replica.parameters(model)} == {_DOUBLE} else 2e-5
    played = _Played(case, starts, written, grads, [told(crossed.crossings, rank) for rank in range(case.ranks)], own, near)
    for criterion in case.about:
        if problem := _PROBLEMS[criterion](played):
            yield Lost(criterion, problem)


def _stopped(case: Case, evidence: dict, crossed: Crossed) -> str | None:
    """What ended the ranks before their end, or None."""
    if crossed.problem is not None:
        waits = "A rank waits inside the backward pass for what another launches later: launch, and wait in finish. "
        return (waits if case.about == ("no_waiting",) and crossed.problem.kind == "deadlock" else "") + crossed.problem.text
    if evidence["problem"] is not None:
        return str(evidence["problem"]["text"])
    return "A rank did not return." if None in evidence["results"] else None


def _forged(case: Case, results: list[dict]) -> str | None:
    """Why what a rank computes with after the call is neither rank 0's nor its own, or None."""
    for rank, result in enumerate(results):
        for model, own, start in zip(case.each[0]["models"], case.each[rank]["models"], result["starts"], strict=True):
            for one, other, now in zip(replica.held(model), replica.held(own), start, strict=True):
                if problem := tensor_problem(now, one):
                    return problem
                if one.is_floating_point() and not (torch.equal(now, one) or torch.equal(now, other)):
                    return "After the call a parameter or a buffer is neither rank 0's nor what it was before."
    return None


# ---- what each criterion asks


def _values(played: _Played) -> str | None:
    for start in played.starts:
        if any(not all(map(torch.equal, now, replica.held(model))) for model, now in zip(played.models, start, strict=True)):
            return "After the call a rank's parameters and buffers are not rank 0's: the ranks train models of their own."
    for start in played.written:
        if any(not all(map(torch.equal, now, replica.held(model))) for model, now in zip(played.models, start, strict=True)):
            return "Rank 0's values are in new tensors: whoever holds the model's own, as an optimizer does, is to see them."
    if any(launch.given for rank in played.told[1:] for launch in rank.before):
        return "Before the first step another rank than 0 handed something in: a broadcast of rank 0's is due."
    return _means(played)


def _means(played: _Played) -> str | None:
    for step in played.steps:
        for grads in played.grads:
            if problem := _mean_problem(played, step, grads[step]):
                return problem
    return None


def _mean_problem(played: _Played, step: int, grads: list) -> str | None:
    every = [(m, parameter) for m, model in enumerate(played.models) for parameter in replica.parameters(model)]
    for (model, parameter), grad in zip(every, grads, strict=True):
        if parameter.frozen:
            if grad is not None:
                return "A frozen parameter has a gradient after finish: it takes no part."
            continue
        if grad is None:
            return "After finish a parameter has no gradient in a rank: where a rank has none it counts as zeros, and gets the mean too."
        if problem := tensor_problem(grad, parameter.like):
            return problem
        of = [played.flat(rank, step, model, [parameter]) for rank in range(played.case.ranks)]
        size = max(float(one.abs().max()) for one in of)
        if not ((grad.reshape(-1).double() - sum(of) / len(of)).abs() <= played.near * size).all():
            return _why_no_mean(grad.reshape(-1).double(), of, 1e-3 * size)
    return None


def _why_no_mean(grad: torch.Tensor, of: list[torch.Tensor], near: float) -> str:
    def is_near(other: torch.Tensor) -> bool:
        return bool(((grad - other).abs() <= near).all())

    if is_near(sum(of)):
        return "After finish .grad is the sum over all ranks; the mean is due."
    if is_near(sum(of) / len(of) ** 2):
        return "After finish .grad is divided by the number of ranks twice."
    if any(map(is_near, of)):
        return "After finish .grad is a rank's own gradient: the mean over all ranks is due."
    return "After finish .grad is not the mean of all ranks' gradients of this step, zeros of those that have none."


def _bucket_problem(played: _Played) -> str | None:
    for step in played.steps:
        if problem := _step_problem(played, step, played.told[0].launches[step]):
            return problem
    return None


def _step_problem(played: _Played, step: int, crossed: list[Launch]) -> str | None:
    """Why what rank 0 launched in a step, in order, is not every model's buckets."""
    left = played.buckets()
    if any(not is_all_reduce(launch) for launch in crossed):
        return "In a step something else crosses than all-reduces of gradients in their dtype."
    if len(crossed) != sum(map(len, left)):
        which = "more" if len(crossed) > sum(map(len, left)) else "fewer"
        return f"There are {which} all-reduces in a step than buckets: every bucket crosses once, as one flat tensor."
    for launch in crossed:
        model = next((m for m, queue in enumerate(left) if queue and _is(played, step, m, queue[0], launch)), None)
        if model is None:
            return _why_no_bucket([queue[0] for queue in left if queue], launch)
        if not _arranged_alike(played, step, launch):
            return "The ranks have the same gradients at different places of the flat tensor: what is summed does not belong together."
        left[model].pop(0)
    return None


def _is(played: _Played, step: int, model: int, bucket: list[Parameter], launch: Launch) -> bool:
    """Whether in ``launch`` every rank handed in its own gradients of ``bucket``, divided by the number of ranks or not."""
    entry = launch.crossing.entry
    if entry.ranks != tuple(range(played.case.ranks)) or launches.DTYPES[entry.dtype] != bucket[0].like.dtype:
        return False
    for factor in (1, len(entry.ranks)):
        given = [factor * launches.values(Launch(launch.crossing, 0, one)) for one in launch.crossing.given]
        due = [played.flat(rank, step, model, bucket) for rank in entry.ranks]
        if all(same_in_any_order(one, other, played.near) for one, other in zip(given, due, strict=True)):
            return True
    return False


def _arranged_alike(played: _Played, step: int, launch: Launch) -> bool:
    """Whether every rank has the same element of its gradients at each place, where all ranks use all parameters."""
    world = played.case.ranks
    given = [launches.values(Launch(launch.crossing, 0, one)) for one in launch.crossing.given]
    found = [played.elements(rank, step).numbers_in(one, world) for rank, one in enumerate(given)]
    return all(torch.equal(one, found[0]) for one in found)


def _why_no_bucket(next_ones: list[list[Parameter]], launch: Launch) -> str:
    sizes = {(bucket[0].like.dtype, sum(p.like.numel() for p in bucket)) for bucket in next_ones}
    dtype, size = launches.DTYPES[launch.crossing.entry.dtype], len(launches.values(launch))
    if dtype not in {due for due, _ in sizes}:
        return "A bucket crosses in another dtype than its gradients have, or holds two dtypes."
    if (dtype, size) not in sizes:
        return (
            "A bucket has another size than is due, or its turn is another's. From the last parameter to the first each joins the "
            "bucket before it while that stays within bucket_bytes, and buckets cross in this order in every rank."
        )
    return (
        "What a rank handed in are not its own gradients of the bucket's parameters: was it launched before the last of them was "
        "ready, or is it left from another step?"
    )


def _launched(played: _Played) -> str | None:
    for rank, said in enumerate(played.told):
        for step in played.steps:
            if problem := _launch_problem(played, rank, step, said):
                return problem
    return None


def _launch_problem(played: _Played, rank: int, step: int, said: Told) -> str | None:
    """Why a rank launched something later than it could, whatever its buckets are, or None.

    What it handed in says of itself which parameters' gradients it holds. A bucket that has no room left is due for every one
    who begins at the last parameter.
    """
    places, own = said.places[step], played.elements(rank, step)
    since = [replica.top(played.case.each[rank]["steps"][step])] * len(played.models)
    handed: list[tuple[int, torch.Tensor]] = []
    for launch in filter(is_all_reduce, said.launches[step]):
        numbers = own.numbers_in(launches.values(launch), played.case.ranks)
        handed.append((launch.at, numbers))
        for model, place in own.ready(numbers):
            since[model] = min(since[model], place)
            if launch.at > places.get(since[model], 0):
                return _LATE
    if len(torch.cat([torch.zeros(0), *(numbers for _, numbers in handed)]).unique()) < len(own.values):
        return "Not every gradient has crossed when it was ready: an all-reduce holds something else than gradients of this step."
    for model, first in enumerate(queue[0] for queue in played.buckets() if queue):
        due = own.of_bucket(model, first)
        by_then = [numbers for at, numbers in handed if at < places.get(min(place for _, place in own.ready(due)), 0)]
        if _bytes_of(first) == played.case.inputs["bucket_bytes"][model] and not set(due.tolist()) <= set(torch.cat([due[:0], *by_then]).tolist()):
            return _LATE
    return None


_LATE = (
    "A bucket's all-reduce begins later than it could: layers go through their backward pass while it might be under way, and all "
    "of its gradients are ready."
)


def _bytes_of(bucket: list[Parameter]) -> int:
    return sum(parameter.like.nbytes for parameter in bucket)


@dataclass(frozen=True)
class _Own:
    """All elements of a rank's gradients in a step, numbered, and of each its ``model``, its parameter and the ``place`` where it is ready."""

    values: torch.Tensor
    model: torch.Tensor
    parameter: torch.Tensor
    place: torch.Tensor
    near: float

    @classmethod
    def of(cls, played: _Played, rank: int, step: int) -> "_Own":
        step_of = played.case.each[rank]["steps"][step]
        values, rows = [torch.zeros(0, dtype=torch.float64)], [torch.zeros(0, 3, dtype=torch.int64)]
        for number, model in enumerate(played.models):
            for p in replica.parameters(model):
                place = replica.ready_at(number, p.layer, step_of)
                if not p.frozen and place is not None:
                    values.append(played.flat(rank, step, number, [p]))
                    rows.append(torch.tensor([[number, p.number, place]]).expand(p.like.numel(), 3))
        return cls(torch.cat(values), *torch.cat(rows).unbind(1), near=played.near)

    def numbers_in(self, given: torch.Tensor, world: int) -> torch.Tensor:
        """Of the elements that are in ``given``, as they are or divided by the number of ranks."""
        as_it_is = self._found(given)
        return as_it_is if len(as_it_is) == len(given) else max(as_it_is, self._found(world * given), key=len)

    def _found(self, given: torch.Tensor) -> torch.Tensor:
        if not len(given) or not len(self.values):
            return torch.zeros(0, dtype=torch.int64)
        ordered, order = self.values.sort()
        after = torch.searchsorted(ordered, given).clamp(max=len(ordered) - 1)
        before = (after - 1).clamp(min=0)
        number = order[torch.where((given - ordered[before]).abs() < (given - ordered[after]).abs(), before, after)]
        away = (given - self.values[number]).abs()
        sizes = self.values.abs()
        return number[away <= self.near * sizes[number].clamp(min=0.01 * float(sizes.max()))]

    def of_bucket(self, model: int, bucket: list[Parameter]) -> torch.Tensor:
        of = torch.isin(self.parameter, torch.tensor([p.number for p in bucket])) & (self.model == model)
        return of.nonzero()[:, 0]

    def ready(self, numbers: torch.Tensor) -> list[tuple[int, int]]:
        """Of each model among the elements the place where the last of them is ready."""
        models = self.model[numbers]
        return [(int(model), int(self.place[numbers][models == model].min())) for model in models.unique()]


def _mixed_problem(played: _Played) -> str | None:
    for start in played.starts:
        for model, own in zip(played.models, start, strict=True):
            if any(p.frozen and not torch.equal(own[p.number], p.like) for p in replica.parameters(model)):
                return "After the call a frozen parameter is not rank 0's: it has no gradient, and is part of the model all the same."
    if problem := _means(played):
        return problem
    trained = [p.like for model in played.models for p in replica.parameters(model) if not p.frozen]
    for step in played.steps:
        for dtype in (_SINGLE, _DOUBLE):
            due = sum(like.nbytes for like in trained if like.dtype == dtype)
            name = str(dtype).removeprefix("torch.")
            if sum(len(launch.given) for launch in played.told[0].launches[step] if launch.crossing.entry.dtype == name) != due:
                return "More or less crosses of a dtype than it has gradients: frozen parameters have none, and no dtype becomes another."
    return None


_PROBLEMS = {
    "values": _values,
    "buckets": _bucket_problem,
    "launched": _launched,
    "no_waiting": _launched,
    "unused": _means,
    "mixed": _mixed_problem,
}


mini_ddp = Exercise(
    "data_parallel.mini_ddp",
    criteria=(
        Criterion("values", 2, "all ranks begin with rank 0's model, and after finish .grad is the mean over all ranks, in every step"),
        Criterion("buckets", 2, "every bucket crosses once, as one flat tensor of the gradients that are due, in order, and nothing else"),
        Criterion("launched", 2, "every bucket's all-reduce begins inside the backward pass, as soon as its gradients are ready"),
        Criterion("no_waiting", 1, "so it does where a rank goes on only when another has launched all of its own"),
        Criterion("unused", 1, "gradients that a rank does not have count as zeros, and no rank hangs"),
        Criterion("mixed", 1, "frozen parameters have no part, and dtypes stay apart"),
    ),
    cases=_cases,
    judge=_judge,
)
