"""E11.2 pick_workers: cases and judge."""

from collections.abc import Iterator

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, is_written, raised_problem, type_name

NOISE = 0.00499
"""Of a rate, to either side: what the statement calls half a percent, and two calls differ by more than 1 % at most."""
ADDS = 0.04
"""What each worker up to the knee adds to the rate at least; where calls are not off against it, a little more."""


RAISED = "Too many open files"
"""What ``measure`` says when it raises."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    makers = (_knees, _budgets, _falling, _noisy, _few, _errors, _raising)
    for make in sampler.permutation(makers):
        yield from make(sampler)


# Cases


def _cores(sampler: Sampler, count: int) -> list[int]:
    """Numbers of cores as a container may have been given them."""
    first = sampler.integer(0, 60)
    return sorted(sampler.permutation(range(first, first + count + 9))[:count])


def _curve(sampler: Sampler, knee: int, budget: int, beyond: str = "flat", slowly: bool = False) -> list[float]:
    """Rates of 0 workers to far beyond the budget. Up to the knee each adds ADDS at least, or just that; ``beyond`` it: flat, falling."""
    rates = [float(sampler.integer(90, 900))]
    for number in range(1, 4 * budget + 8):
        if number <= knee:
            grown = 0 if slowly else sampler.choice((1.0, 0.8)) / number if number > 1 else 1.5
            rates.append(rates[-1] * (1 + max(grown, ADDS if slowly else 1.1 * ADDS)))
        else:
            rates.append(rates[-1] * (1 if beyond == "flat" else 1 - sampler.integer(1, 30) / 1e3))
    return rates


def _asked(
    sampler: Sampler, knee: int, budget: int, ranks: int = 1, beyond: str = "flat", noise: float = 0.0, left: int = 0
) -> dict:
    """One node: as many cores for each rank as the budget and its own process take, and ``left`` over."""
    cores = _cores(sampler, (budget + 1) * ranks + left)
    return {
        "cores": cores,
        "ranks_per_node": ranks,
        "rates": _curve(sampler, knee, budget, beyond),
        "noise": [noise * sampler.integer(-100, 100) / 100 if i % 5 else noise * (-1) ** i for i in range(97)],
        "off_by": "call",
        "raises_from": 10**6,
    }


def _opposed(sampler: Sampler, knee: int, budget: int, sign: int) -> dict:
    """Each worker adds just ADDS; even numbers are off to one side as far as they may be, and odd ones to the other."""
    return _asked(sampler, knee, budget) | {
        "rates": _curve(sampler, knee, budget, slowly=True),
        "noise": [sign * NOISE, -sign * NOISE],
        "off_by": "workers",
    }


def _case(criteria: str, asked: list[dict], raises: str = "") -> Case:
    return Case((criteria,), {"nodes": asked}, raises)


def _knees(sampler: Sampler) -> Iterator[Case]:
    """None, one, both sides of 8, in the middle, and the last number that the budget allows."""
    budget = sampler.integer(24, 30)
    knees = sampler.shuffled(0, 1, 2, *range(7, 10), sampler.integer(12, 18))
    yield _case(
        "knee",
        [_asked(sampler, knee, budget) for knee in knees]
        + [_asked(sampler, small, small) for small in sampler.shuffled(1, 2, 5)],
    )


def _budgets(sampler: Sampler) -> Iterator[Case]:
    """The rate still rises where the budget ends: one rank and several, cores left over, and none for a worker."""
    nodes = [
        _asked(sampler, budget + 9, budget, ranks)
        for budget, ranks in sampler.shuffled((1, 1), (5, 1), (3, 4), (11, 2), (2, 8), (0, 1), (0, 4))
    ]
    nodes += [
        _asked(sampler, budget + 9, budget, ranks, left=ranks - 1)
        for budget, ranks in sampler.shuffled((4, 3), (7, 2), (1, 8))
    ]
    crowded = _asked(sampler, 9, 0, 1) | {"cores": _cores(sampler, 2), "ranks_per_node": sampler.integer(3, 8)}
    yield _case("budget", sampler.permutation([*nodes, crowded]))


def _falling(sampler: Sampler) -> Iterator[Case]:
    """Beyond the knee every worker costs: it may be far from the middle of the budget."""
    nodes = [
        _asked(sampler, knee, budget, sampler.choice((1, 2)), "falling")
        for knee, budget in sampler.shuffled((0, 20), (1, 40), (4, 30), (9, 12), (17, 40))
    ]
    yield _case("falling", nodes)


def _noisy(sampler: Sampler) -> Iterator[Case]:
    """Off from call to call; and off to opposite sides where a worker adds as little as it may, or nothing."""
    nodes = [_asked(sampler, knee, sampler.integer(22, 28), 1, "flat", NOISE) for knee in sampler.shuffled(1, 3, 8, 15)]
    nodes += [_asked(sampler, 12, 30, 1, "flat", NOISE)]
    nodes += [
        _opposed(sampler, knee, sampler.integer(22, 28), sign)
        for knee in sampler.shuffled(2, 7, 13, 19)
        for sign in (1, -1)
    ]
    yield _case("noise", sampler.permutation(nodes))


def _few(sampler: Sampler) -> Iterator[Case]:
    """Far knees, and near ones, in large budgets; every knee of one budget; nodes that leave nothing to choose."""
    nodes = [
        _asked(sampler, knee, budget, 1, beyond)
        for knee, budget, beyond in sampler.shuffled((22, 60, "flat"), (21, 63, "falling"), (1, 127, "flat"))
    ]
    nodes += [_asked(sampler, 9, 0), _asked(sampler, 30, 62)]
    nodes += [_asked(sampler, knee, 31) for knee in range(32)]
    yield _case("few", sampler.permutation(nodes))


def _errors(sampler: Sampler) -> Iterator[Case]:
    right = _asked(sampler, 3, 8)
    yield _case(
        "errors",
        [right | change for change in sampler.shuffled({"ranks_per_node": 0}, {"ranks_per_node": -2}, {"cores": []})],
        "ValueError",
    )


def _raising(sampler: Sampler) -> Iterator[Case]:
    """What ``measure`` raises, at its first call or later."""
    yield _case(
        "errors", [_asked(sampler, 12, 20) | {"raises_from": at} for at in sampler.shuffled(1, 2, 4)], "OSError"
    )


# Judge


def budget_of(node: dict) -> int:
    return max(len(node["cores"]) // max(node["ranks_per_node"], 1) - 1, 0)


def knee_of(node: dict) -> int:
    """The number beyond which nothing in the budget is faster."""
    rates = node["rates"][: budget_of(node) + 1]
    return rates.index(max(rates))


def most_calls(budget: int) -> int:
    return 3 * budget.bit_length()


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    for node, found in zip(case.inputs["nodes"], evidence["nodes"], strict=True):
        if problem := _refused(case, node, found) if case.raises else _problem(criteria, node, found):
            yield Failure(criteria, problem)
            return


def _refused(case: Case, node: dict, found: dict) -> str | None:
    if problem := error_problem(found, case.raises):
        return f"{problem} {'What measure raises is for the caller to handle.' if case.raises == 'OSError' else ''}".strip()
    if not is_written(found["error"]):
        return raised_problem(found["error"])
    if case.raises == "OSError" and RAISED not in str(found["error"]["message"]):
        return "What measure raises comes through: another exception of its kind says something else."
    return (
        "A node that cannot be is refused before anything is measured."
        if case.raises == "ValueError" and found["calls"]
        else None
    )


def _problem(criteria: str, node: dict, found: dict) -> str | None:
    if "error" in found:
        return raised_problem(found["error"])
    budget, picked, calls = budget_of(node), found["returned"], found["calls"]
    if type(picked) is not int:
        return f"The function returned {type_name(picked)}; expected an int."
    if not isinstance(calls, list) or not all(type(call) is int for call in calls):
        return "measure was called with something that is no number of workers."
    if any(call < 0 for call in calls):
        return "measure was called with fewer than no workers."
    if criteria == "budget" and any(call > budget for call in calls):
        return "More workers were tried than there are cores for: a try beyond the budget slows the other ranks of the node too."
    if criteria == "few":
        if calls and not budget:
            return _SAYS["none"]
        if len(calls) > most_calls(budget):
            return _SAYS["few"]
    if picked != knee_of(node):
        return _SAYS["knee" if criteria == "few" else criteria]
    return None if _is_measured(picked, budget, calls) else _SAYS["measured"]


def _is_measured(picked: int, budget: int, calls: list[int]) -> bool:
    """Whether a knee is known from calls: one of either side of it, where the budget has two."""
    fewer, more = [call for call in calls if call < picked], [call for call in calls if call > picked]
    return (picked == 0 or 0 < len(fewer) < len(calls)) and (picked == budget or 0 < len(more) < len(calls))


_SAYS = {
    "knee": "The number is not the knee: fewer than it are slower, and more of them use cores and memory for nothing.",
    "budget": (
        "The number is not the most that the cores allow, where the rate rises up to there: the cores that the node's ranks "
        "may run on are shared by them, and the training process of each needs one."
    ),
    "falling": "The knee is missed where the rate falls beyond it: what is slower than the one before may lie on its far side.",
    "noise": "The knee is missed where calls are off by half a percent: then a gain of 4 % can show as 3 %, and none as 1 %.",
    "measured": "The number is right, and was not measured: what tells a knee are calls on both sides of it.",
    "none": "measure was called where no core is left for a worker: there is nothing to choose, and each call costs minutes.",
    "few": "measure was called more often than it takes to halve the range again and again: each call costs minutes.",
}

exercise = Exercise(
    criteria=(
        Criterion("knee", 2, "the fewest workers that are as fast as any are found"),
        Criterion(
            "budget",
            2,
            "the ranks of a node share the cores that they may run on, and nothing beyond is tried",
            ("knee",),
        ),
        Criterion("falling", 1, "the knee is found where more workers are slower", ("knee",)),
        Criterion("noise", 1, "noise is told from gain", ("knee",)),
        Criterion("few", 2, "few calls are enough", ("knee",)),
        Criterion("errors", 1, "no node is refused, and what measure raises comes through", ("knee",)),
    ),
    cases=_cases,
    judge=_judge,
)
