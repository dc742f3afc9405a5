"""E17.4 spike_guard: cases and judge. What is due is worked out by PyTorch's own optimizers, which make the steps that are due."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem, type_name
from autograder.judge.ranks import launches_of, stopped

_OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
_KINDS = (("adam", {"weight_decay": 0.01}), ("sgd", {"momentum": 0.9, "nesterov": True}), ("adamw", {"amsgrad": True}))
_DEFAULTS = {"window": 16, "threshold": 6.0, "patience": 3}


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Case]:
    """Runs that are about the same and have as many ranks are played one behind the other, by the same ranks."""
    alike: dict[tuple, list[Case]] = {}
    for make in (_usual, _local, _robust, _levels, _middles, _untouched, _giving_up, _groups):
        for case in make(sampler):
            alike.setdefault((*case.criteria, case.ranks, str(case.inputs)), []).append(case)
    for cases in sampler.permutation([*alike.values()]):
        runs = [sum((case.per_rank_inputs[rank]["runs"] for case in cases), []) for rank in range(cases[0].ranks)]
        yield Case(
            cases[0].criteria,
            cases[0].inputs,
            ranks=cases[0].ranks,
            per_rank_inputs=tuple({"refused": [], "runs": own} for own in runs),
        )
    yield from _refused(sampler)


def _calm(sampler: Sampler, count: int, level: float = 2.0) -> list[float]:
    """So many losses within a twentieth of a level, no two alike."""
    return [
        level * (1 + (place + sampler.integer(1, 9) / 10) / (20 * count))
        for place in sampler.permutation(range(-count // 2, count - count // 2))
    ]


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    losses: list[list[float]],
    groups: tuple = (),
    kind: tuple = _KINDS[1],
    **named: Any,
) -> Case:
    """``losses``: a list for each call, with one for each rank."""
    ranks, values = len(losses[0]), [sampler.within_one(3), sampler.within_one(2, 2)]
    grads = [[sampler.within_one(3) + 0.1, sampler.within_one(2, 2) - 0.1] for _ in losses]
    guard = {"kind": kind[0], "values": values, "options": kind[1], "named": named}
    each = tuple(
        {
            "runs": [
                {
                    "guards": [guard],
                    "calls": [
                        {"of": 0, "loss": float(of[rank]), "grads": own} for of, own in zip(losses, grads, strict=True)
                    ],
                }
            ]
        }
        for rank in range(ranks)
    )
    return Case(
        criteria, {"world": ranks, "groups": [list(group) for group in groups]}, ranks=ranks, per_rank_inputs=each
    )


def _alike(losses: list[float], ranks: int) -> list[list[float]]:
    """Every rank has the same mean over all, and a part of its own that the others' undo."""
    shares = [rank - (ranks - 1) / 2 for rank in range(ranks)]
    return [[loss + share / 8 for share in shares] for loss in losses]


def _usual(sampler: Sampler) -> Iterator[Case]:
    """By default and with numbers of one's own; spikes and what is not quite one; falls."""
    for ranks, window, threshold in sampler.shuffled((1, 16, 6.0), (3, 8, 4.0), (3, 5, 8.0)):
        named = {} if window == 16 else {"window": window, "threshold": threshold, "patience": 5}
        calm = _calm(sampler, window)
        early = [9.0, *calm[1:-1], 0.01]  # while the window fills, nothing is a spike
        then = [*_calm(sampler, window), 40.0, 2.01, 0.001, 2.0, 9.0, *_calm(sampler, 2)]
        yield _case(sampler, ("decision",), _alike(early + then, ranks), **named)
    for share, window in sampler.shuffled((0.9, 7), (1.1, 7), (0.9, 8), (1.1, 8)):
        calm = _calm(sampler, window)
        middle, spread = _spread(calm)
        yield _case(
            sampler, ("decision",), _alike([*calm, middle + 5 * spread * share, middle], 1), window=window, threshold=5
        )


def _local(sampler: Sampler) -> Iterator[Case]:
    """One rank's loss is a spike of its own and not of the mean; another's is enough for all; NaN and infinity in one rank."""
    calm = [[loss, loss + 0.5, loss - 0.4] for loss in _calm(sampler, 6)]
    alone = [[2.0, 2.0 + 0.9, 2.0 - 0.85], [1.7, 2.3, 2.1]]
    spike = sampler.permutation([90.0, 2.0, 2.1])
    bad = [sampler.permutation([value, 2.0, 2.1]) for value in sampler.shuffled(math.nan, math.inf, -math.inf)]
    good = [[2.0, 2.5, 1.6]]
    losses = [*calm, *alone, spike, *good, bad[0], *good, bad[1], *good, bad[2], *good]
    yield _case(sampler, ("together",), losses, kind=sampler.choice(_KINDS), window=6)
    yield _case(
        sampler,
        ("together",),
        [sampler.permutation([math.nan, 1.0]), [1.0, 2.0], [math.inf, -math.inf], [2.0, 1.0]],
        window=3,
    )
    undone = [[1.0 + 10 * k, 3.0 - 10 * k] for k in range(6)]  # means of 2, far from what a rank sees
    yield _case(sampler, ("together",), [*undone, [1.0, 3.3], [40.0, 1.0], [3.0, 1.0]], window=6)


def _robust(sampler: Sampler) -> Iterator[Case]:
    """A giant that was let in while the window filled, and spikes behind it; spikes that grow and would get used to each other."""
    window = sampler.choice([7, 9])
    giant = _calm(sampler, window)
    giant[sampler.integer(0, 2)] = 1000.0
    yield _case(sampler, ("robust",), _alike([*giant, 50.0, *_calm(sampler, 2), 30.0, 2.0], 2), window=window)
    waves = [loss for spike in (8.0, 12.0, 9.0, 14.0, 8.0, 11.0) for loss in (spike, spike + 1, 2.0 + spike / 100)]
    yield _case(sampler, ("robust",), _alike([*_calm(sampler, 6), *waves], 2), window=6)


def _levels(sampler: Sampler) -> Iterator[Case]:
    """Losses that are all alike, rises of a little and of more; means below 0; a level that fell long ago."""
    for level in sampler.shuffled(2.0, -3.0):
        rises = [level + abs(level) * share for share in (0.05, -0.05, 0.0, 0.07, 0.0, 0.0)]
        yield _case(sampler, ("decision",), _alike([level] * 5 + rises, 1), window=5)
    fell = [20.0, 19.0, 18.0, 16.0, 12.0, *_calm(sampler, 6), 9.0, 2.0]
    yield _case(sampler, ("decision",), _alike(fell, 1), window=5)
    yield _case(sampler, ("decision",), [[3.0], [2.9], [4.0], [3.9], [0.0], [0.5]], window=1)
    drift = [2.0 * 1.03**k for k in range(30)]
    yield _case(sampler, ("decision",), _alike(drift, 1), window=6, threshold=6)


def _middles(sampler: Sampler) -> Iterator[Case]:
    """Even numbers of means, of which the two in the middle lie far from each other."""
    yield _case(sampler, ("decision",), [[1.0], [3.0], [4.5], [6.5]], window=2, threshold=2)
    yield _case(sampler, ("decision",), _alike([1.0, 5.0, 1.1, 5.1, 8.5, 5.0], 1), window=4, threshold=2.5)


def _untouched(sampler: Sampler) -> Iterator[Case]:
    """Optimizers of every kind with spikes, also as the first call; two guards in turn."""
    for kind in sampler.shuffled(*_KINDS):
        losses = [math.nan, *_calm(sampler, 4), 50.0, 2.0, math.inf, 2.0, 70.0, 60.0, 2.0]
        yield _case(sampler, ("untouched",), _alike(losses, 2), kind=kind, window=4)
    two = _case(sampler, ("decision",), _alike([*_calm(sampler, 4), 50.0, 2.0], 1), window=4)
    (run,) = two.per_rank_inputs[0]["runs"]
    guards = [run["guards"][0], run["guards"][0] | {"named": {"window": 4, "patience": 2}}]
    calls = [call | {"of": of} for call in run["calls"] for of in (0, 1)]
    calls[0] |= {"loss": 30.0}
    yield Case(two.criteria, two.inputs, ranks=1, per_rank_inputs=({"runs": [{"guards": guards, "calls": calls}]},))


def _giving_up(sampler: Sampler) -> Iterator[Case]:
    """Never in a row, then in a row; NaN from the start; a patience of 1; giants that come on and on."""
    calm = _calm(sampler, 4)
    apart = [50.0, 60.0, 2.0, 70.0, 50.0, 2.0, math.nan, 2.0, 50.0, math.nan, 80.0, 2.0]
    yield _case(sampler, ("gives up",), _alike([*calm, *apart], 2), window=4)
    yield _case(
        sampler, ("gives up",), _alike([math.nan] * 4, 2), window=4, patience=sampler.choice([2, 4]), kind=_KINDS[0]
    )
    yield _case(sampler, ("gives up",), _alike([*calm, 50.0, 2.0], 2), window=4, patience=1, kind=_KINDS[0])
    yield _case(sampler, ("gives up",), _alike([*calm, *[50.0] * 5], 2), window=4, patience=sampler.choice([4, 5]))
    one_rank = [[loss, loss] for loss in calm] + [sampler.permutation([90.0, 2.0]) for _ in range(3)]
    yield _case(sampler, ("gives up",), one_rank, window=4)


def _groups(sampler: Sampler) -> Iterator[Case]:
    """Two groups that meet different losses."""
    losses = [[loss, 3 * loss, loss + 0.1, 3 * loss - 0.1] for loss in _calm(sampler, 4)]
    losses += [[50.0, 6.0, 2.0, 6.0], [2.0, 6.0, 2.0, 6.0], [2.0, 6.0, 2.0, 90.0]]
    yield _case(sampler, ("together",), losses, groups=((0, 2), (1, 3)), window=4)


def _refused(sampler: Sampler) -> Iterator[Case]:
    wrong = [
        {"window": 0},
        {"window": -3},
        {"patience": 0},
        {"patience": -1},
        {"threshold": 0},
        {"threshold": -2.0},
        {"threshold": math.nan},
    ]
    each = ({"refused": sampler.permutation(wrong), "runs": []},)
    yield Case(("errors",), {"world": 1, "groups": []}, "ValueError", ranks=1, per_rank_inputs=each)


# ---- what is due


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _spread(values: list[float]) -> tuple[float, float]:
    middle = _median(values)
    return middle, max(1.4826 * _median([abs(value - middle) for value in values]), abs(middle) / 100)


class Played:
    """A guard as it is due: an optimizer of PyTorch's, and the means whose steps were made."""

    def __init__(self, spec: dict) -> None:
        self.parameters = [torch.nn.Parameter(value.clone()) for value in spec["values"]]
        self.optimizer = _OPTIMIZERS[spec["kind"]](self.parameters, **{"lr": 0.1} | spec["options"])
        self.numbers = _DEFAULTS | spec["named"]
        self.made: list[float] = []
        self.skipped = 0

    def call(self, mean: float, grads: list) -> str:
        """What becomes of it: ``made``, ``skipped`` or ``given up``."""
        if self._is_spike(mean):
            self.skipped += 1
            return "given up" if self.skipped == self.numbers["patience"] else "skipped"
        self.skipped = 0
        self.made.append(mean)
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = grad.clone()
        self.optimizer.step()
        return "made"

    def _is_spike(self, mean: float) -> bool:
        window = self.numbers["window"]
        if not math.isfinite(mean) or len(self.made) < window:
            return not math.isfinite(mean)
        middle, spread = _spread(self.made[-window:])
        return mean - middle > self.numbers["threshold"] * spread

    def state(self) -> list:
        by_parameter = self.optimizer.state_dict()["state"]
        states = [by_parameter[number] for number in sorted(by_parameter)]
        return [
            state[name].clone() for state in states for name in sorted(state) if isinstance(state[name], torch.Tensor)
        ]


# ---- what is wrong


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := stopped(evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    if case.raises:
        for answer in evidence["results"][0]["refused"]:
            if problem := error_problem(answer, case.raises):
                yield Failure("errors", problem)
                return
        return
    for rank in range(case.ranks):
        if found := _rank_problem(case, rank, evidence["results"][rank], evidence["traffic"]):
            criterion, problem = found
            yield Failure(criterion or case.criteria[0], problem)
            return


def _members(case: Case, rank: int) -> list[int]:
    return next((ranks for ranks in case.inputs["groups"] if rank in ranks), list(range(case.ranks)))


def _rank_problem(case: Case, rank: int, result: dict, traffic: Traffic) -> tuple[str, str] | None:
    """The criterion that is lost, empty for that of the case, and the sentence."""
    members, handed = _members(case, rank), []
    if problem := count_problem(result["runs"], len(case.per_rank_inputs[rank]["runs"])):
        return "", problem
    for number, (run, found) in enumerate(zip(case.per_rank_inputs[rank]["runs"], result["runs"], strict=True)):
        everyones = [
            [call["loss"] for call in case.per_rank_inputs[member]["runs"][number]["calls"]] for member in members
        ]
        means = [sum(losses) / len(losses) for losses in zip(*everyones, strict=True)]
        if problem := _run_problem(run, means, found):
            return problem
        handed += [call["loss"] for call, _ in zip(run["calls"], found)]
    problem = _traffic_problem(rank, members, handed, traffic)
    return ("together", problem) if problem else None


def _run_problem(run: dict, means: list[float], found: list[dict]) -> tuple[str, str] | None:
    guards, expected = [Played(spec) for spec in run["guards"]], []
    for call, mean in zip(run["calls"], means, strict=True):
        guard = guards[call["of"]]
        expected.append(guard.call(mean, call["grads"]))
        if len(found) < len(expected):
            return "", "A call that is none of the last raised an exception."
        if problem := _call_problem(expected[-1], guard, found[len(expected) - 1]):
            return problem
        if expected[-1] == "given up":
            break
    problem = count_problem(found, len(expected))
    return ("", problem) if problem else None


def _call_problem(expected: str, guard: Played, found: dict) -> tuple[str, str] | None:
    if expected == "given up":
        if problem := error_problem(found, "RuntimeError"):
            return "gives up", f"{problem} So many spikes in a row do not end by themselves."
    elif "error" in found:
        return "", raised_problem(found["error"])
    elif found["returned"] is not (expected == "made"):
        if not isinstance(found["returned"], bool):
            return "", f"A call returned {type_name(found['returned'])}; expected True or False."
        return "", _WRONG[expected]
    if not _is_alike(found["values"], [parameter.detach() for parameter in guard.parameters]):
        return (
            "untouched",
            "The weights are not those of the steps that are due: a step is the optimizer's, once, and a skip leaves all as it was.",
        )
    if not _is_alike(found["state"], guard.state()):
        return (
            "untouched",
            "The optimizer's state is not that of the steps that are due: a step with gradients of 0 moves Adam's moments and its count.",
        )
    if found["dropped"] is not True:
        return "untouched", "A gradient is left after a call: the next batch's would be added to it."
    return None


_WRONG = {
    "made": (
        "A step is skipped that is due: a spike lies above the median of the last means by more than the threshold's spreads, and "
        "the ranks' mean is what counts."
    ),
    "skipped": (
        "A spike is not skipped: its mean over the ranks is not finite, or far above the median of the means whose steps were made, "
        "of which neither spikes nor a single giant move the threshold."
    ),
}


def _is_alike(found: Any, expected: list) -> bool:
    if count_problem(found, len(expected)):
        return False
    return all(
        not tensor_problem(one, other) and torch.allclose(one, other, rtol=1e-5, atol=1e-6)
        for one, other in zip(found, expected, strict=True)
    )


def _traffic_problem(rank: int, members: list[int], losses: list[float], traffic: Traffic) -> str | None:
    launches = launches_of(traffic.collectives, rank)
    if len(launches) != len(losses):
        return "In each call one collective is due, and nothing else."
    for launch, loss in zip(launches, losses, strict=True):
        entry = launch.collective.entry
        if (entry.operation, entry.dtype, entry.bytes) != ("all_reduce", "float64", 8) or entry.reduces not in (
            "SUM",
            "AVG",
        ):
            return "What crosses is not an all-reduce of one element, float64, that sums or averages."
        if entry.ranks != tuple(members):
            return "What crosses does not cross between the ranks of the group."
        given = float(torch.frombuffer(bytearray(launch.given), dtype=torch.float64))
        if not any(_same(given, one) for one in (loss, loss / len(members))):
            return "What a rank hands in is not the loss of its own batch."
    return None


def _same(one: float, other: float) -> bool:
    return math.isnan(one) and math.isnan(other) or math.isclose(one, other, rel_tol=1e-12)


exercise = Exercise(
    criteria=(
        Criterion("decision", 2, "a spike is told from what is none by the last means whose steps were made"),
        Criterion(
            "together", 2, "all ranks decide alike, on their mean, by one all-reduce of one number", ("decision",)
        ),
        Criterion(
            "untouched",
            2,
            "a step is the optimizer's own, and a skip leaves weights and state as they were",
            ("decision",),
        ),
        Criterion("robust", 1, "neither a giant among the means nor a skipped spike hides the next one", ("decision",)),
        Criterion(
            "gives up", 1, "so many spikes in a row as are one too many end the run, in every rank", ("decision",)
        ),
        Criterion("errors", 1, "numbers that make no sense are refused with ValueError", ("decision",)),
    ),
    cases=_cases,
    judge=_judge,
)
