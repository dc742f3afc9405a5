"""Replays the steps planned by a learner's scheduler in the referee's own serving engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autograder.judge.expect import raised_problem
from exercises.engines.shared import engine_of
from gpulab.serving import Blocks, Budget, Engine, Live, PartError, Plan, Report


class Stood(NamedTuple):
    """A request before a step. left: tokens to compute until its next one comes out; 1 while it decodes."""

    name: str
    prompt_tokens: int
    computed: int
    left: int
    told: int
    preemptions: int
    blocks: int


@dataclass(frozen=True)
class Decision:
    """One step: who was there, what the allocator was asked, and what was planned.

    free: blocks before it. asked: ``("reserve", name, tokens, answer)`` and ``("release", name)``, in their order;
    ``("leaked", name)`` where a run gave back what one held who was left waiting.
    """

    begin_us: float
    waiting: tuple[Stood, ...]
    running: tuple[Stood, ...]
    free: int
    asked: tuple[tuple, ...]
    tokens: dict[str, int]
    preempt: tuple[str, ...]


@dataclass(frozen=True)
class Replayed:
    """What came of a play. problem: the rule that was broken, or what was raised, in a sentence; None if it came to its end.

    ``report`` is of all that happened up to there: of a play with a problem it shows less than its trace.
    """

    decisions: list[Decision]
    report: Report
    problem: str | None


def replayed(play: dict, record: dict) -> Replayed:
    """play: as the case has it. record: one of what :func:`exercises.engines.run_played.played` gave."""
    again = _Again(record["steps"])
    again.engine = engine_of(play, again)
    problem = _run(again.engine) or again.engine.busy and _why(record) or None
    return Replayed(again.decisions, again.engine.report(), problem)


def _run(engine: Engine) -> str | None:
    try:
        while engine.busy:
            engine.step()
    except _Ended:
        return None
    except PartError as broken:
        return f"{str(broken)[0].upper()}{str(broken)[1:]}."
    return None


def _why(record: dict) -> str:
    """Steps end before the trace does."""
    if "error" in record:
        return raised_problem(record["error"])
    answered = record["steps"][-1]["answered"] if record["steps"] else None
    return f"The scheduler answered {answered}: a gpulab.serving.Plan is due."


class _Ended(Exception):
    """The record holds no more plans."""


class _Again:
    """A scheduler that does what was recorded. Steps are the learner's: nothing of them is believed but what they ask for."""

    engine: Engine

    def __init__(self, steps: list[dict]) -> None:
        self._steps, self.decisions = iter(steps), []

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        there = {live.name: live for live in (*running, *waiting)}
        groups = [tuple(stood(live, blocks) for live in group) for group in (waiting, running)]
        free, step = blocks.free, next(self._steps, {})
        if "tokens" not in step:
            raise _Ended
        asked = tuple(_ask(call, there, blocks) for call in step["asked"])
        plan = Plan(
            {_known(there, name): new for name, new in step["tokens"]},
            [_known(there, name) for name in step["preempt"]],
        )
        if len(plan.tokens) < len(step["tokens"]):
            raise PartError("the plan names a request twice")
        tokens, preempt = (
            {live.name: new for live, new in plan.tokens.items()},
            tuple(live.name for live in plan.preempt),
        )
        self.decisions.append(Decision(self.engine.now_us, *groups, free, asked, tokens, preempt))
        return plan


def stood(live: Live, blocks: Blocks) -> Stood:
    held = len(blocks.table(live))
    return Stood(live.name, live.prompt_tokens, live.computed, live.left, live.told, live.preemptions, held)


def _ask(call: list, there: dict[str, Live], blocks: Blocks) -> tuple:
    what, name, *tokens = call
    live = _known(there, name)
    if what != "reserve":
        blocks.release(live)
        return what, name
    if type(tokens[0]) is not int or tokens[0] < 0:
        raise PartError(f"room for {tokens[0]!r} tokens of {name} is reserved: a whole number is due")
    return what, name, tokens[0], blocks.reserve(live, tokens[0])


def _known(there: dict[str, Live], name: object) -> Live:
    if not isinstance(name, str) or name not in there:
        raise PartError(f"the plan, or a call of the allocator, names {name}, which neither waits nor runs")
    return there[name]
