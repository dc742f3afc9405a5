"""E10.1 choose_segments: cases and judge."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, type_name
from autograder.judge.questions import ask, judge_questions

_ITEM = 64
"""Bytes in whose multiples the chains that are run save: whole numbers of elements."""
_RUN_FOR = ("peak", "last", "fewest")
"""Criteria of whose questions one is about a chain that is really run."""


class Plan(NamedTuple):
    """What one number of segments costs, so that the least is the best. Bytes ``held`` are those of the worst moment."""

    again: int
    held: int
    k: int


class Chain(NamedTuple):
    """Layers, bytes that each saves, bytes of an input."""

    n: int
    act: int
    ckpt: int


@cache
def _plans(chain: Chain) -> list[Plan]:
    return [_plan(chain, k) for k in range(1, chain.n + 1)]


def _plan(chain: Chain, k: int) -> Plan:
    """At the moments at which most is held: forward ends, and each checkpointed segment has run again."""
    size = chain.n // k
    moments = [(k - 1) * chain.ckpt + (chain.n - size * (k - 1)) * chain.act]
    moments += [inputs * chain.ckpt + size * chain.act for inputs in range(1, k)]
    return Plan(size * (k - 1), max(moments), k)


def _fitting(chain: Chain, budget: int) -> list[Plan]:
    """The plans within the budget, the best first."""
    return sorted(plan for plan in _plans(chain) if plan.held <= budget)


# Cases


def _cases(sampler: Sampler) -> Iterator[Case]:
    questions: dict[str, list[dict]] = {criteria: [] for criteria in ("peak", "last", "fewest", "ties", "none")}
    for chain, run in [*_real(sampler), *((chain, False) for chain in (*_small(sampler), *_left_over(sampler)))]:
        for budget in _budgets(sampler, chain):
            criteria = _criteria(chain, budget)
            first = run and criteria in _RUN_FOR and not any(question["run"] for question in questions[criteria])
            questions[criteria].append(_ask(chain, budget, first))
    for chain, budget in _long(sampler):
        questions[_criteria(chain, budget)].append(_ask(chain, budget))
    yield from (ask(criteria, sampler.permutation(asked)) for criteria, asked in questions.items())
    yield ask("exact", list(_exact(sampler)))
    yield ask("errors", list(_refused(sampler)), raises="ValueError")


def _ask(chain: Chain, budget: int, run: bool = False, shift: int = 0) -> dict:
    """``shift``: all bytes are asked about times two to that power, which no message holds; the answer is the same."""
    return {"asked": [*chain, budget], "run": run, "shift": shift}


def _criteria(chain: Chain, budget: int) -> str:
    """What a question finds out: the only number within the budget, which divides the layers or not; or which of several."""
    fits = _fitting(chain, budget)
    if len(fits) <= 1:
        return "none" if not fits else "last" if chain.n % fits[0].k else "peak"
    return "ties" if fits[0].again == fits[1].again else "fewest"


def _real(sampler: Sampler) -> Iterator[tuple[Chain, bool]]:
    """Chains of a few layers of which each saves its input and more: they can be run."""
    ckpt = sampler.integer(1, 4)
    yield Chain(11, 2 * ckpt * _ITEM, ckpt * _ITEM), True  # least is held with 5 segments
    for n in sampler.shuffled(4, 6, 7, 9, sampler.integer(10, 12)):
        for act in sampler.shuffled(ckpt * 2, ckpt * sampler.integer(5, 8)):
            yield Chain(n, (act + sampler.integer(0, 1)) * _ITEM, ckpt * _ITEM), True


def _small(sampler: Sampler) -> Iterator[Chain]:
    """Each length to 12, and longer ones: even, odd, prime, square; inputs of nothing to more than all layers save."""
    for n in sampler.shuffled(
        *range(1, 14), 16, 17, 18, 19, 20, 23, 24, sampler.choice((25, 36)), sampler.integer(26, 40)
    ):
        size = sampler.integer(3, 2000)
        yield from sampler.shuffled(
            Chain(n, size, 0),
            Chain(n, 0, size),
            Chain(n, size, size),
            Chain(n, size, max(size // sampler.integer(2, 3), 1)),
            Chain(n, size * sampler.integer(2, 4) + sampler.integer(0, 2), size),
            Chain(n, size * sampler.integer(5, 12) + sampler.integer(0, 2), size),
            Chain(n, size * sampler.integer(20, 90) + sampler.integer(0, 2), size),
            Chain(n, size, size * sampler.integer(2, 4)),
            Chain(n, size, size * (n // 2 + sampler.integer(1, 9))),
        )
    yield Chain(sampler.integer(2, 9), 0, 0)


def _left_over(sampler: Sampler) -> Iterator[Chain]:
    """Least is held with a number of segments that does not divide the layers."""
    for n in sampler.shuffled(5, 7, 11, 13, 17, 19, 23, sampler.choice((29, 31, 37))):
        ckpt = sampler.integer(40, 4000)
        chains = [
            Chain(n, ckpt * quarters // 4 + sampler.integer(0, 2), ckpt)
            for quarters in sampler.permutation(range(3, 4 * n))
        ]
        yield from [chain for chain in chains if n % min(_plans(chain), key=lambda plan: plan.held).k][:3]


def _long(sampler: Sampler) -> Iterator[tuple[Chain, int]]:
    """Some hundred layers, the most that there may be among them, of gigabytes; every layer a segment, none, and between."""
    for n in sampler.shuffled(sampler.integer(101, 200), 256, 500):
        ckpt = sampler.integer(10**7, 10**8)
        chain = Chain(n, ckpt * sampler.integer(8, 30) + sampler.integer(0, 2), ckpt)
        yield from ((chain, budget) for budget in (n * chain.act, *_at_ties(sampler, chain, 1)))
        yield chain._replace(ckpt=0), chain.act


def _budgets(sampler: Sampler, chain: Chain) -> list[int]:
    """On both sides of the least that is enough, of the next, and of some others; nothing, a byte, and more than all."""
    held = sorted({plan.held for plan in _plans(chain)})
    ends = [held[0] - 1, held[0], held[-1], held[-1] + sampler.integer(1, 10**6), sampler.choice((0, 1)), chain.act]
    if len(held) > 1:
        ends += [held[1] - 1, held[1]]
    return sorted(
        {budget for budget in (*ends, *_at_boundaries(sampler, chain, 3), *_at_ties(sampler, chain, 2)) if budget >= 0}
    )


def _at_boundaries(sampler: Sampler, chain: Chain, count: int) -> list[int]:
    """Some of the bytes with which another number of segments is the answer than with one byte less, and these."""
    held = [plan.held for plan in _plans(chain) if _fitting(chain, plan.held)[0] == plan]
    return [budget for most in sampler.permutation(held)[:count] for budget in (most, most - 1)]


def _at_ties(sampler: Sampler, chain: Chain, count: int) -> list[int]:
    """Some of the bytes with which the answer is one of several with equally few layers, and all that some of these hold."""
    held = [plan.held for plan in _plans(chain) if _criteria(chain, plan.held) == "ties"]
    return sampler.permutation(held)[:count]


def _exact(sampler: Sampler) -> Iterator[dict]:
    """Sums between what a float holds and what 64 bits do, of which one is within the budget; and sums that wrap around."""
    for n in sampler.shuffled(*range(3, 19)):
        for bits in sampler.shuffled(54, 56, 58):
            act = 2**bits + sampler.integer(1, 2**50)
            for parts in sampler.shuffled(sampler.integer(1, 3), sampler.integer(4, 9), sampler.integer(10, 30)):
                yield from _with_one_within(Chain(n, act, act // parts - sampler.integer(1, 999)))
    act = 2**57 + sampler.integer(1, 2**50)
    for budget in sampler.shuffled(2 * act, 2 * act - 1):  # room for both layers, and a byte less
        yield from (_ask(Chain(2, act, act // 3), budget, shift=shift) for shift in (0, 20))
    for n, parts in sampler.shuffled((sampler.integer(100, 120), 60), (sampler.integer(150, 200), 100)):
        yield from _with_one_within(Chain(n, act, act // parts))


def _with_one_within(chain: Chain) -> Iterator[dict]:
    """The least and the most with which only one number of segments is within the budget."""
    least, above, *_ = sorted(plan.held for plan in _plans(chain))
    if least < above < 2**63:
        yield from (_ask(chain, budget, shift=shift) for budget in (least, above - 1) for shift in (0, 20))


def _refused(sampler: Sampler) -> Iterator[dict]:
    """One number too small at a time, among numbers that would do, and among zeros."""
    for n in sampler.shuffled(0, -1, -sampler.integer(2, 99)):
        yield _ask(Chain(n, sampler.integer(1, 99), sampler.integer(1, 99)), sampler.integer(10**5, 10**6))
        yield _ask(Chain(n, 0, 0), 0)
    for less in sampler.shuffled(-1, -sampler.integer(2, 10**6)):
        for n in sampler.shuffled(1, sampler.integer(2, 20)):
            size = sampler.integer(1, 99)
            for act, ckpt, budget in sampler.shuffled((less, size, 10**9), (size, less, 10**9), (size, size, less)):
                yield _ask(Chain(n, act, ckpt), budget)
            for act, ckpt, budget in sampler.shuffled((less, 0, 0), (0, less, 0), (0, 0, less)):
                yield _ask(Chain(n, act, ckpt), budget)


# Judge

_TOO_MUCH = (
    "More is held than the budget: forward ends with the inputs of all segments but the last, and with what the last one's "
    "layers saved."
)
_TOO_MUCH_LEFT = (
    "More is held than the budget: what does not come out even is in the last segment, which is not checkpointed."
)
_REFUSED = {
    "peak": "There is a number of segments that stays within the budget: at no moment is more held than when forward ends.",
    "last": "There is a number of segments that stays within the budget, though it does not divide the layers: the rest is in "
    "the last one.",
    "exact": "There is a number of segments that stays within the budget, by less than a float or 64 bits can tell: integers "
    "of Python are exact.",
}
_NOT_FEWEST = (
    "Fewer layers run again with another number of segments that stays within the budget. From each k to the next they "
    "may become fewer, and what is held may grow: the rest decides."
)
_NOT_LEAST = (
    "As few layers run again with another number of segments, which holds fewer bytes, or as many and is smaller."
)
_UNLIKE = (
    "A real chain did not run again, or hold, what the right number of segments does: were torch or the course's files "
    "changed in the notebook?"
)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    lost = list(judge_questions(_wrong)(case, evidence))
    if problem := count_problem(evidence["measured"], len(case.inputs["questions"])):
        lost.append(Failure(criteria, problem))
    elif not all(map(_as_planned, case.inputs["questions"], evidence["measured"])):
        lost.append(Failure(criteria, _UNLIKE))
    yield from lost[:1]


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    *of_chain, budget = question["asked"]
    chain = Chain(*of_chain)
    fits = _fitting(chain, budget)
    if value is None:
        return (
            _REFUSED.get(criteria, "Several numbers of segments stay within the budget, of all from 1 to n.")
            if fits
            else None
        )
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected an int, or None."
    if not 1 <= value <= chain.n:
        return "The number of segments is none from 1 to n."
    found = _plans(chain)[value - 1]
    if found.held > budget:
        return _TOO_MUCH_LEFT if chain.n % value else _TOO_MUCH
    if found.again > fits[0].again:
        return _NOT_FEWEST
    return None if found == fits[0] else _NOT_LEAST


def _as_planned(question: dict, measured: Any) -> bool:
    """Whether the real chain did what the plan with the right number says, where one was run."""
    if not question["run"]:
        return True
    *of_chain, budget = question["asked"]
    best = _fitting(Chain(*of_chain), budget)[0]
    return measured == {"again": best.again, "held": best.held}


exercise = Exercise(
    criteria=(
        Criterion("peak", 1, "the bytes that are held where they are most decide what stays within the budget"),
        Criterion("last", 2, "what does not come out even is in the last segment, which is not checkpointed"),
        Criterion(
            "fewest",
            2,
            "of all numbers that stay within the budget it is the one with which the fewest layers run again",
        ),
        Criterion("ties", 1, "of several with equally few it is the one that holds fewest bytes, and the smallest"),
        Criterion("none", 1, "None comes back where nothing stays within the budget", ("peak",)),
        Criterion("exact", 1, "sums are exact beyond what a float or 64 bits hold"),
        Criterion("errors", 1, "what is no chain or budget is refused with ValueError", ("peak",)),
    ),
    cases=_cases,
    judge=_judge,
)
