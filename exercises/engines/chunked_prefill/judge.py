"""E19.3 chunked_prefill: cases and judge."""

from collections.abc import Callable, Iterator

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem
from exercises.engines.chunked_prefill import traffic
from exercises.engines.chunked_prefill.faults import Fault, faults
from exercises.engines.chunked_prefill.step import Step
from exercises.engines.replay import replayed

_MOST_CALLS = 40


def _cases(sampler: Sampler) -> Iterator[Case]:
    """A case for each criterion; its plays take turns, a step each. The first of a criterion's makes its scheduler last."""
    for criteria in sampler.shuffled(*_PLAYS):
        last, *others = [make(sampler) for make in _PLAYS[criteria]]
        yield Case((criteria,), {"plays": [*sampler.permutation(others), last]})


def _of(make: Callable[..., dict], *arguments: float) -> Callable[[Sampler], dict]:
    return lambda sampler: make(sampler, *arguments)


_APART = (traffic.context_counts, traffic.nobody_decodes)
"""Prompts that are not whole, in a cache with room for all: what goes wrong with these too is no fault of the others' rules."""

_PLAYS = {
    "gap": [
        traffic.in_tiles,
        traffic.context_counts,
        traffic.hang_up,
        traffic.stuck,
        *(_of(traffic.never_beside, gap) for gap in (0, 700)),
        *(_of(traffic.at_the_edge, 0, beyond) for beyond in (0, 1, 2**-10)),
        *(_of(traffic.crowded, over) for over in (-0.5, 0, 9)),
    ],
    "decodes": [_of(traffic.tight_budget, 10**6), traffic.context_counts, _of(traffic.crowded, 9)],
    "chunks": [
        *(traffic.nobody_decodes, traffic.context_counts, traffic.in_tiles, traffic.just_reached, traffic.one_left),
        *(traffic.few_places, traffic.places_taken, traffic.hang_up, traffic.told_before, traffic.thousands),
        _of(traffic.tight_budget, float("inf")),
        *(_of(traffic.at_the_edge, *edge) for edge in ((0, 0), (0.5, 0), (0, 1))),
    ],
    "order": [traffic.short_after_long, traffic.long_waits_for_room, traffic.hang_up],
    "room": [
        *(traffic.crunch, traffic.no_room_beside, traffic.exact_fit, traffic.swapped, *_APART),
        *(_of(traffic.short_of_room, size) for size in (1, 4)),
    ],
    "whole": [
        traffic.images,
        traffic.images_again,
        traffic.images_in_time,
        traffic.images_wait,
        traffic.told_before,
        *_APART,
    ],
    "calls": [traffic.huge_budget, _of(traffic.many_at_once, 500), _of(traffic.many_at_once, 0)],
}


class _Shown:
    """What a play shows. faults: each with its step's number, from 1. problem: why it did not come to its end."""

    def __init__(self, play: dict, record: dict) -> None:
        again, tight = replayed(play, record), play["blocks"] not in (traffic.PLENTY, traffic.PLENTY_LARGE)
        self.problem, self.tight, self.steps = again.problem, tight, len(again.decisions)
        self.faults = [
            (number, fault)
            for number, decision in enumerate(again.decisions, 1)
            for fault in faults(Step(decision, play), tight)
        ]

    def without_room(self) -> None:
        """Leave out all that follows from a fault of room."""
        if self.tight and (first := next((number for number, fault in self.faults if fault.criterion == "room"), 0)):
            self.faults, self.problem = [pair for pair in self.faults if pair[0] < first], None

    def at_the_end(self) -> list[Fault]:
        return [fault for number, fault in self.faults if number == self.steps]


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criterion,) = case.criteria
    problem = count_problem(evidence["records"], len(case.inputs["plays"]))
    if not problem and criterion == "calls":
        problem = _calls_problem(evidence["notes"])
    if not problem:
        plays = zip(case.inputs["plays"], evidence["records"], strict=True)
        problem = _problem(criterion, [_Shown(*play) for play in plays])
    if problem:
        yield Failure(criterion, problem)


def _problem(criterion: str, shown: list[_Shown]) -> str | None:
    if criterion != "room":
        for play in shown:
            play.without_room()
    everybodys = {fault.criterion for play in shown for _, fault in play.faults if not fault.of}
    for play in shown:
        for number, fault in play.faults:
            if _counts(fault, criterion, everybodys):
                return f"Step {number}: {fault.says}"
    ended = any(play.problem is None for play in shown)
    for play in shown:
        others = [fault for fault in play.at_the_end() if not fault.of or fault.criterion in everybodys]
        if play.problem and not (ended and any(fault.criterion != criterion for fault in others)):
            return play.problem
    return None


def _counts(fault: Fault, criterion: str, everybodys: set[str]) -> bool:
    if fault.of:
        return fault.of == criterion and fault.criterion not in everybodys
    return fault.criterion == criterion


def _calls_problem(notes: list[str]) -> str | None:
    """Each note is what happened, in order; one plan is made at a time, and whose clock it asks is no matter."""
    asked, inside = [0], False
    for what in notes:
        if what != "asks":
            inside = what == "begins"
            asked.append(0)
        elif not inside:
            return "step_us was asked outside of plan: contexts are known only when a step is planned."
        else:
            asked[-1] += 1
    most = max(asked)
    if not most:
        return "step_us was never asked: nothing else says how long a step takes."
    if most > _MOST_CALLS:
        return (
            f"One call of plan asked step_us {most} times, {_MOST_CALLS} are allowed: halve the range of all prompts' tokens "
            "together, as many as they have left at most, and neither try them one by one nor search for each prompt anew."
        )
    return None


exercise = Exercise(
    criteria=(
        Criterion("gap", 2, "no step in which somebody decodes lasts longer than the gap, unless the decodes alone do"),
        Criterion("decodes", 1, "everybody who decodes gets a token in every step"),
        Criterion("chunks", 2, "prompts get as many tokens as gap and budget allow"),
        Criterion("order", 1, "prompts are computed in the order in which they came, one after the other"),
        Criterion("room", 1, "who is let in has room for its prompt, and who came last is preempted"),
        Criterion("whole", 1, "whole prompts are not cut, wait until they fit and are not overtaken"),
        Criterion("calls", 1, "plan asks step_us, 40 times at most"),
    ),
    cases=_cases,
    judge=_judge,
)
