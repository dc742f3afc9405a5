"""E19.1 continuous_batcher: cases and judge."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem
from exercises.engines.continuous_batcher import cases
from exercises.engines.continuous_batcher.batches import UNLIMITED, Batches, Fault
from exercises.engines.continuous_batcher.cases import drawn, narrow, roomy
from exercises.engines.replay import replayed

_NEEDS = {
    "decodes": ("refilled", "nobody was let in beside requests that decode"),
    "busy": ("refilled", "nobody was let in beside requests that decode"),
    "overtakes": ("overtook", "nobody overtook anybody, though requests fitted behind one that did not"),
    "patience": ("at its limit", "nobody was overtaken as often as patience allows, though there was occasion"),
    "order": ("overtook", "nobody overtook anybody, so it cannot be seen whose turn it was"),
    "preemption": ("preemption", "the free blocks never ran out"),
    "long": ("long goes on", "no prompt longer than a step was computed in several, beside requests that decode"),
    "state": ("decoded", "no running request was given its one token"),
}
"""What has to come about for a criterion to be judged."""
_EXPLAINED = {
    "overtakes": {"busy"},
    "order": {"busy"},
    "patience": {"busy", "overtakes", "order", "long"},
    "preemption": {"decodes"},
    "out": {"decodes", "order"},
    "long": {"decodes", "busy", "overtakes", "order"},
}
"""Criteria that a request which is let in, or is not, may break through a fault that is another criterion's already."""
_CUT = "answered Plan:"
"""Of a play that came to no harm: the one beside it did, and ended both."""


@dataclass(frozen=True)
class Plays(Case):
    """``strata``: of each group the criterion that it loses when a play does not come to its end."""

    strata: tuple[str, ...] = ()


def _cases(sampler: Sampler) -> Iterator[Case]:
    groups = [(stratum, group) for stratum, make in _STRATA for group in make(sampler)]
    inputs = {"groups": [{"plays": plays, "one": one} for _, (one, *plays) in groups]}
    criteria = tuple(_NEEDS)
    made = [Plays(criteria, inputs, strata=tuple(stratum for stratum, _ in groups))]
    made += [
        Case(("errors",), {"patience": patience}, raises="ValueError")
        for patience in (-1, -sampler.integer(2, 90), True, False, 2.0, float("inf"), "3", None)
    ]
    made += [Case(("errors",), {"patience": patience}) for patience in (0, sampler.integer(1, 9), 10**15)]
    yield from sampler.permutation(made)


def _plain(sampler: Sampler) -> Iterator[list]:
    yield from ([False, play] for play in cases.exact(sampler))
    yield [False, drawn(sampler, roomy, UNLIMITED, "overtook", "refilled", "exact tokens", "last place")]


def _in_order(sampler: Sampler) -> Iterator[list]:
    yield [False, drawn(sampler, lambda sampler: roomy(sampler, ties=True), UNLIMITED, "overtook", "refilled")]
    for _ in range(2):
        tied = ("a tie decides", "out: at a tie", "overtook")
        yield [False, drawn(sampler, lambda sampler: narrow(sampler, ties=True), UNLIMITED, *tied)]


def _tight(sampler: Sampler) -> Iterator[list]:
    out = ("preemption", "out: one would fit")
    yield [False, drawn(sampler, narrow, UNLIMITED, "overtook", "exact blocks", "out: not who was let in last", *out)]
    yield [False, drawn(sampler, narrow, UNLIMITED, "overtook", "came back before another", "out: several", *out)]


def _patient(sampler: Sampler) -> Iterator[list]:
    yield [False, drawn(sampler, roomy, 0, "barred")]
    for patience in sampler.permutation([1, 2, 3]):
        yield [False, drawn(sampler, roomy, patience, "barred", "overtook", "barred, not by the first")]
    yield [False, drawn(sampler, lambda sampler: roomy(sampler, ties=True), 1, "barred at a tie", "overtook at a tie")]
    back = ("barred", "came back before another", "before one at its limit", "out: was overtaken")
    yield [False, drawn(sampler, narrow, 1, *back)]
    yield [False, drawn(sampler, narrow, 2, "barred", "overtook again", "barred, not by the first")]
    yield [False, drawn(sampler, narrow, 0, "barred by a preempted one")]
    yield [False, cases.outlived(sampler)]


def _long(sampler: Sampler) -> Iterator[list]:
    wanted = {
        UNLIMITED: ("long", "long: overtaken", "out: a long one"),
        1: ("long", "barred", "long: came back"),
        3: ("long", "barred", "out: a long one goes on"),
    }
    yield from ([False, play] for play in cases.long_prompts(sampler))
    for patience, what in wanted.items():
        yield [False, drawn(sampler, lambda sampler: narrow(sampler, tokens=20), patience, *what)]


def _kept(sampler: Sampler) -> Iterator[list]:
    """Who hangs up; two schedulers beside each other, with the same names; one for one trace after another."""
    for patience in (1, 2):
        play = drawn(sampler, lambda sampler: roomy(sampler, leaves=True), patience, "left at its limit", "barred")
        yield [False, play]
    yield [False, cases.hangs_up(sampler)]
    yield [False, *(drawn(sampler, narrow, patience, "barred", "overtook") for patience in sampler.permutation([1, 3]))]
    yield [True, drawn(sampler, narrow, 1, "barred", "overtook"), *cases.names_again()]


_STRATA = (
    ("decodes", _plain),
    ("order", _in_order),
    ("preemption", _tight),
    ("patience", _patient),
    ("long", _long),
    ("state", _kept),
)
"""In this order: what is lost in the first explains what is seen in those after it."""


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    yield from _judge_plays(case, evidence) if isinstance(case, Plays) else _judge_patience(case, evidence)


def _judge_patience(case: Case, evidence: dict) -> Iterator[Failure]:
    called = f"continuous_batcher({case.inputs['patience']!r})"
    if case.raises:
        if problem := error_problem(evidence, case.raises):
            yield Failure("errors", f"{called}: {problem} patience is an int, 0 or more, and no bool.")
    elif "error" in evidence:
        yield Failure("errors", f"{called} is to return a scheduler. {raised_problem(evidence['error'])}")


def _judge_plays(case: Plays, evidence: dict) -> Iterator[Failure]:
    groups, lost, broken = case.inputs["groups"], {}, None
    seen, seen_in_state, faults = Counter(), Counter(), []
    if count_problem(evidence.get("groups"), len(groups)):
        yield from (Failure(name, "The record does not hold every call.") for name in case.criteria)
        return
    for stratum, group, records in zip(case.strata, groups, evidence["groups"], strict=True):
        if count_problem(records, len(group["plays"])):
            lost.setdefault(stratum, "The record does not hold every call.")
            continue
        judged = [_judged(play, record) for play, record in zip(group["plays"], records, strict=True)]
        for fault, problem, what in judged:
            (seen_in_state if stratum == "state" else seen).update(what)
            if problem and _CUT in problem and any(other and _CUT not in other for _, other, _ in judged):
                continue
            broken = broken or problem
            if fault or problem:
                faults.append((stratum, fault or Fault("broken", problem), group))
    for stratum, fault, group in sorted(
        faults, key=lambda one: (one[0] == "state", one[1].kind in ("out", "preemption"))
    ):
        _charge(lost, stratum, fault, group)
    for name, (what, says) in _NEEDS.items():
        if name not in lost and not (seen_in_state if name == "state" else seen)[what]:
            lost[name] = f"Not seen in any trace: {says}." + (f" {broken}" if broken else "")
    yield from (Failure(name, says) for name, says in lost.items())


def _judged(play: dict, record: dict) -> tuple[Fault | None, str | None, Counter]:
    """The first step that is wrong; why the trace did not come to its end; what came about in it."""
    again, batches = replayed(play, record), Batches(play)
    faults = [batches.fault(decision) for decision in again.decisions]
    ended = f"After {len(faults)} steps the trace ended too early. {again.problem}"
    return next(filter(None, faults), None), ended if again.problem else None, batches.seen


def _charge(lost: dict[str, str], stratum: str, fault: Fault, group: dict) -> None:
    """One fault costs one criterion: none where it is explained by what is lost already."""
    kind = fault.kind
    if kind == "broken":
        kind, explained = stratum, {"decodes"}
    else:
        kind = "long" if stratum == "long" and kind in ("busy", "overtakes", "order") else kind
        explained = _EXPLAINED.get(kind, set()) | ({"long"} if stratum == "long" else set())
        kind = "preemption" if kind == "out" else kind
    if explained & set(lost) or kind in lost:
        return
    if stratum != "state":
        lost[kind] = fault.says
        return
    where = "A client hangs up in this trace."
    if len(group["plays"]) > 1:
        where = "One scheduler serves several traces." if group["one"] else "Two schedulers run side by side."
    lost["state"] = f"{where} {fault.says}"


exercise = Exercise(
    criteria=(
        Criterion("decodes", 1, "in every step all who decode get a token, and every trace comes to its end"),
        Criterion("busy", 1, "who fits is let in at once, and holds no more blocks than it needs", ("overtakes",)),
        Criterion("overtakes", 1, "one that does not fit holds up nobody who does"),
        Criterion("patience", 1, "nobody is overtaken more often than patience says, nor held up before"),
        Criterion("order", 1, "all are let in in the order of arrival, the preempted too", ("overtakes",)),
        Criterion("preemption", 1, "out of blocks, who arrived last goes, and no more than suffice", ("overtakes",)),
        Criterion("long", 1, "prompts that fit into no step are computed in several, and no others"),
        Criterion(
            "state", 1, "schedulers, traces and requests that left have no part in what is planned", ("overtakes",)
        ),
        Criterion("errors", 1, "a patience that is none is refused with ValueError, any other is taken"),
    ),
    cases=_cases,
    judge=_judge,
)
