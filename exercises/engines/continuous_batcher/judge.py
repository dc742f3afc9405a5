"""E19.1 continuous_batcher: cases and judge."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem
from exercises.engines.continuous_batcher.batches import UNLIMITED, Held
from exercises.engines.continuous_batcher.cases import drawn, trace
from exercises.engines.replay import replayed

_STEP = ("decodes", "busy", "overtakes", "patience", "order")
_SAYS = {
    "decodes": "A request that decodes was left out of a step. Whoever runs and has one token left gets it in every step: "
    "nobody waits for the prompt of another, nor for a batch to drain.",
    "busy": "Places stood idle: a request fitted, all who came before it were in, and it was not let in.",
    "overtakes": "A request that fits was held up by one before it that does not. It may pass.",
    "patience": "The count of who was overtaken is not kept: a request is overtaken once for every later one that is let in "
    "while it waits, in all its life and as often as patience says, and by nobody after that.",
    "order": "One that arrived later was let in and an earlier one that fitted was not. The order is that of arrival, in "
    "which those who were preempted keep their place; waiting and running may stand in another.",
    "preemption": "The wrong requests were preempted, or not treated as is due then: out of blocks, who arrived last goes, as "
    "few as suffice, and in such a step nobody is let in; who comes back is computed whole, with what it was told.",
    "long": "A prompt was cut that fits into a step, or one that fits into none did not get on: it reserves all its blocks, takes "
    "what a step has left and goes on until it is done.",
    "state": "What is kept of a request outlived it, or got into another scheduler: keep it by request, in the object, for "
    "those who are there.",
}
_NEEDS = {
    "decodes": ("refilled", "The batch was never refilled: nobody was let in beside those who decode."),
    "overtakes": ("overtook", "Nobody ever overtook anybody, though requests fitted behind one that did not."),
    "patience": ("barred", "Nobody was ever overtaken as often as patience allows, though there was occasion."),
    "preemption": (
        "preemption",
        "The cache never got full, though more requests fitted than it can hold to their end.",
    ),
}


@dataclass(frozen=True)
class Plays(Case):
    """``broken``: what a play loses that does not come to its end."""

    broken: tuple[str, ...] = ()


def _cases(sampler: Sampler) -> Iterator[Case]:
    for make in sampler.permutation((_ample, _tight, _long, _leaving, _together, _errors)):
        yield from make(sampler)


def _plays(sampler: Sampler, make: Callable[[Sampler], dict], wanted: dict[int, tuple[str, ...]]) -> list[dict]:
    """A play for each patience, in which what is wanted comes about."""

    def play(patience: int) -> dict:
        return drawn(sampler, lambda sampler: make(sampler) | {"patience": patience}, *wanted[patience])

    return [play(patience) for patience in sampler.permutation(list(wanted))]


def _case(plays: list[dict], criteria: tuple[str, ...], broken: tuple[str, ...], together: bool = False) -> Plays:
    return Plays(criteria, {"plays": plays, "together": together}, broken=broken)


def _roomy(sampler: Sampler, leaves: bool = False) -> dict:
    """Blocks for all; long prompts wait for tokens, many for a place."""
    big = [40, sampler.integer(26, 33), sampler.integer(34, 39)]
    requests = trace(
        sampler, 16, lambda n: sampler.choice(big) if n % 4 == 1 else sampler.integer(1, 12), (2, 12), 2000, 4, leaves
    )
    return {"trace": requests, "blocks": [400, 4], "budget": [40, 6], "clock": [1000.0, 10.0, 0.0]}


def _narrow(sampler: Sampler, tokens: int = 128) -> dict:
    """Blocks for few."""
    requests = trace(
        sampler, 16, lambda n: sampler.integer(30, 50) if n % 4 == 1 else sampler.integer(1, 16), (4, 20), 3000, 4
    )
    return {
        "trace": requests,
        "blocks": [sampler.integer(18, 20), 4],
        "budget": [tokens, 8],
        "clock": [1000.0, 10.0, 0.0],
    }


def _ample(sampler: Sampler) -> Iterator[Case]:
    wanted = {
        UNLIMITED: ("overtook", "refilled", "exact tokens", "last place"),
        0: ("barred",),
        1: ("barred", "overtook"),
        2: ("barred", "overtook"),
        3: ("barred", "overtook"),
    }
    yield _case(_plays(sampler, _roomy, wanted), _STEP, _STEP)


def _tight(sampler: Sampler) -> Iterator[Case]:
    out = ("preemption", "out: one would fit")
    wanted = {
        UNLIMITED: ("overtook", "refilled", "waiting is mixed", "exact blocks", *out),
        1: ("barred", "came back before another", "before one at its limit", "out: was overtaken", *out),
        2: ("barred", "overtook again", "out: not who was let in last", "barred, not by the first", *out),
        4: ("barred", "waiting is mixed at a tie", "out: at a tie", "out: several"),
    }
    yield _case(_plays(sampler, _narrow, wanted), (*_STEP, "preemption"), (*_STEP, "preemption"))


def _long(sampler: Sampler) -> Iterator[Case]:
    wanted = {
        UNLIMITED: ("long", "long: overtaken", "out: a long one"),
        1: ("long", "barred", "long: came back"),
        3: ("long", "barred", "out: a long one goes on"),
    }
    yield _case(
        _plays(sampler, lambda sampler: _narrow(sampler, tokens=20), wanted), (*_STEP, "preemption", "long"), ("long",)
    )


def _leaving(sampler: Sampler) -> Iterator[Case]:
    wanted = {1: ("left at its limit", "barred"), 2: ("left at its limit", "barred")}
    yield _case(_plays(sampler, lambda sampler: _roomy(sampler, leaves=True), wanted), ("state",), ("state",))


def _together(sampler: Sampler) -> Iterator[Case]:
    """Two traces of the same names in another order, with another patience."""
    first, second = _plays(sampler, _narrow, {1: ("barred", "overtook"), 3: ("barred", "overtook")})
    names = [fields["name"] for fields in first["trace"]]
    renamed = [
        fields | {"name": name} for fields, name in zip(second["trace"], sampler.permutation(names), strict=True)
    ]
    yield _case([first, second | {"trace": renamed}], ("state",), ("state",), together=True)


def _errors(sampler: Sampler) -> Iterator[Case]:
    for patience in sampler.shuffled(-1, -sampler.integer(2, 90), True, False, 2.0, float("inf"), "3", None):
        yield Case(("errors",), {"patience": patience}, raises="ValueError")


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        if problem := error_problem(evidence, case.raises):
            yield Failure("errors", f"{problem} patience is an int, 0 or more, and no bool.")
        return
    plays = case.inputs["plays"]
    if problem := count_problem(evidence.get("plays"), len(plays)):
        yield from (Failure(name, problem) for name in case.criteria)
        return
    yield from (
        _judge_together(plays, evidence) if case.inputs["together"] else _judge_apart(case, plays, evidence["plays"])
    )


def _judge_apart(case: Plays, plays: list[dict], records: list[dict]) -> Iterator[Failure]:
    seen, lost, problems = Counter(), Counter(), []
    for play, record in zip(plays, records, strict=True):
        again, held = replayed(play, record), Held(play)
        for decision in again.decisions:
            lost.update(held.step(decision))
        seen.update(held.seen)
        problems += [again.problem] if again.problem else []
    if case.criteria == ("state",):
        lost = Counter({"state": sum(lost.values())})
    yield from (Failure(name, problem) for problem in problems[:1] for name in case.broken)
    yield from (Failure(name, _SAYS[name]) for name in case.criteria if lost[name])
    for name, (what, says) in _NEEDS.items():
        if name in case.broken and not seen[what]:
            yield Failure(name, says)


def _judge_together(plays: list[dict], evidence: dict) -> Iterator[Failure]:
    """What a scheduler does beside another, or in its second trace, is what it does alone."""
    alone = [_planned(play, record) for play, record in zip(plays, evidence["plays"], strict=True)]
    for how, expected in (("beside", alone), ("again", [alone[0], alone[0]])):
        played = [plays[0], plays[0]] if how == "again" else plays
        if count_problem(evidence.get(how), 2):
            yield Failure("state", "The record does not hold every call.")
        elif (
            None in expected
            or [_planned(play, record) for play, record in zip(played, evidence[how], strict=True)] != expected
        ):
            yield Failure("state", _SAYS["state"])


def _planned(play: dict, record: dict) -> Any:
    """Who got how many tokens, step by step; None of a play that did not come to its end."""
    again = replayed(play, record)
    return None if again.problem else [(decision.tokens, set(decision.preempt)) for decision in again.decisions]


exercise = Exercise(
    criteria=(
        Criterion("decodes", 1, "in every step all who decode get a token, and others are let in beside them"),
        Criterion("busy", 1, "who fits is let in at once", ("overtakes",)),
        Criterion("overtakes", 1, "one that does not fit holds up nobody who does", ("decodes",)),
        Criterion(
            "patience", 1, "nobody is overtaken more often than patience says, nor held up before", ("overtakes",)
        ),
        Criterion("order", 1, "all are let in in the order of arrival, the preempted too", ("overtakes",)),
        Criterion("preemption", 1, "out of blocks, who arrived last goes, and no more than suffice", ("overtakes",)),
        Criterion("long", 1, "prompts that fit into no step are computed in several, and no others", ("decodes",)),
        Criterion(
            "state", 1, "schedulers, traces and requests that left have no part in what is planned", ("patience",)
        ),
        Criterion("errors", 1, "a patience that is none is refused with ValueError", ("decodes",)),
    ),
    cases=_cases,
    judge=_judge,
)
