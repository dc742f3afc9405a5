"""Plays for E19.1: traces are drawn until what is due in them meets the situations that a wrong scheduler turns on."""

from collections import Counter
from collections.abc import Callable, Sequence

from autograder.core.sampler import Sampler
from exercises.engines.continuous_batcher.batches import Held
from exercises.engines.replay import Decision, stood
from exercises.engines.shared import engine_of
from gpulab.serving import Blocks, Budget, Live, Plan

_TRIES = 400


class Due:
    """What E19.1 asks for; ``held`` looks at every step."""

    def __init__(self, play: dict) -> None:
        self.held, self._patience = Held(play), play["patience"]
        self._counts: dict[Live, int] = {}

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        groups = [tuple(stood(live, blocks) for live in group) for group in (waiting, running)]
        plan, free = self._planned(waiting, running, blocks, budget), blocks.free
        tokens = {live.name: new for live, new in plan.tokens.items()}
        decision = Decision(0.0, *groups, free, (), tokens, tuple(live.name for live in plan.preempt))
        if faults := list(self.held.step(decision)):
            raise RuntimeError(f"what is due is judged to be wrong: {', '.join(faults)}")
        return plan

    def _planned(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Plan:
        for live in waiting:
            self._counts.setdefault(live, 0)
        plan = Plan()
        stay = [live for live in self._counts if live in set(running)]
        while not all([blocks.reserve(live, 1) for live in stay]):
            plan.preempt.append(stay.pop())
            blocks.release(plan.preempt[-1])
        plan.tokens = {live: 1 for live in stay if live.left == 1}
        for live in stay:
            if live.left > 1:
                plan.tokens[live] = min(live.left, budget.tokens - sum(plan.tokens.values()))
        if not plan.preempt:
            self._let_in(
                [live for live in self._counts if live in set(waiting)],
                budget.requests - len(stay),
                blocks,
                budget,
                plan,
            )
        return plan

    def _let_in(self, waiting: Sequence[Live], places: int, blocks: Blocks, budget: Budget, plan: Plan) -> None:
        behind: list[Live] = []
        for live in waiting:
            left = budget.tokens - sum(plan.tokens.values())
            tokens = min(live.left, left) if live.left > budget.tokens else live.left
            barred = any(self._counts[other] >= self._patience for other in behind)
            if barred or not places or not 0 < tokens <= left or not blocks.reserve(live, live.left):
                behind.append(live)
                continue
            plan.tokens[live], places = tokens, places - 1
            for other in behind:
                self._counts[other] += 1


def seen_in(play: dict) -> Counter:
    """What comes about in a play where all is done as is due."""
    expected = Due(play)
    engine = engine_of(play, expected)
    while engine.busy:
        engine.step()
    return expected.held.seen


def drawn(sampler: Sampler, make: Callable[[Sampler], dict], *wanted: str) -> dict:
    """A play of ``make`` in which each of ``wanted`` comes about."""
    for _ in range(_TRIES):
        play = make(sampler)
        seen = seen_in(play)
        if all(seen[what] for what in wanted):
            return play
    raise RuntimeError(f"{_TRIES} draws without {', '.join(what for what in wanted if not seen[what])}")


def trace(
    sampler: Sampler,
    n: int,
    prompts: Callable[[int], int],
    outputs: tuple[int, int],
    gap: int,
    burst: int,
    leaves: bool = False,
) -> list[dict]:
    """``n`` requests that come in bursts of up to ``burst`` at one time, ``gap`` us apart at most; names in no order.

    prompts: tokens of the n-th. outputs: least and most. leaves: every third hangs up after a while.
    """
    found, now = [], 0.0
    names = [f"{sampler.choice('abcdefgh')}{number}" for number in sampler.permutation(range(100, 100 + n))]
    for number, name in enumerate(names):
        most = sampler.integer(*outputs)
        fields = {"name": name, "arrival_us": now, "prompt": prompts(number), "most": most}
        fields["writes"] = sampler.integer(max(1, most - 2), most)
        if leaves and number % 3 == 1:
            fields["leaves_us"] = 1000.0 * sampler.integer(2, 12)
        found.append(fields)
        if (number + 1) % burst == 0:
            now += 500.0 * sampler.integer(0, gap // 500)
    return found
