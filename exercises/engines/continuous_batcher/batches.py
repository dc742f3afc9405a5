"""What E19.1 asks of every step: who decodes, who goes, who is let in. Judged from how all stood before it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exercises.engines.replay import Decision, Stood
from gpulab.serving.blocks.blocks import blocks_for

UNLIMITED = 10**6
"""A patience that no play comes to the end of."""


class Fault(NamedTuple):
    """``kind``: the criterion that it breaks by itself; ``out``: preemption of as many as are due, but of others."""

    kind: str
    says: str


class Turn(NamedTuple):
    """One who waits, when it is its turn. due: tokens, 0 where it is not to be let in. left, places, free: of the step.
    need: its blocks. bar: who was overtaken as often as may be. behind: all before it who wait on."""

    one: Stood
    due: int
    left: int
    places: int
    free: int
    need: int
    bar: Stood | None
    behind: tuple[Stood, ...]


class Batches:
    """One play, step by step. What was planned, right or wrong, is what the next step is judged from.

    ``seen``: how often each situation came that a wrong scheduler can turn on. Nothing that the scheduler reserved is
    believed: ``room`` is what its plans need.
    """

    def __init__(self, play: dict) -> None:
        self._total, self._size = play["blocks"]
        self._tokens, self._requests = play["budget"]
        self._patience = play["patience"]
        self._arrived = {fields["name"]: fields["arrival_us"] for fields in play["trace"]}
        self._order: dict[str, int] = {}
        self._overtaken: Counter = Counter()
        self._room: dict[str, int] = {}
        self._long: set[str] = set()
        self._waited: set[str] = set()
        self._outlived: set[str] = set()
        self._number = 0
        self.seen: Counter = Counter()

    def due(self, step: Decision) -> tuple[dict[str, int], list[str]]:
        """What is to be planned: tokens and preempt."""
        self._meet(step)
        return self._tokens_due, self._out

    def fault(self, step: Decision) -> Fault | None:
        """What is wrong with the step, if anything is: the first that is found. Then the step is taken as it is."""
        self._meet(step)
        self._number += 1
        found = self._first(step)
        self.take(step)
        return found and Fault(found.kind, f"Step {self._number} {self._where}: {found.says}")

    def take(self, step: Decision) -> None:
        """The step that was last met, as it was planned."""
        self._look(step)
        self._carry(step)

    @property
    def _where(self) -> str:
        patience = "" if self._patience == UNLIMITED else f"patience {self._patience}, "
        return f"({patience}{self._tokens} tokens and {self._requests} requests a step, {self._total} blocks of {self._size})"

    def _meet(self, step: Decision) -> None:
        for one in step.waiting:
            self._order.setdefault(one.name, len(self._order))
        self._waiting, self._running = (
            sorted(group, key=lambda one: self._order[one.name]) for group in (step.waiting, step.running)
        )
        self._room = {one.name: self._room[one.name] for one in self._running}
        stay, free = list(self._running), self._total - sum(self._room.values())
        while sum(self._need(one, 1) for one in stay) > free:
            free += self._room[stay.pop().name]
        self._out = [one.name for one in self._running[len(stay) :]]
        left, self._tokens_due = self._tokens, {}
        for one in sorted(stay, key=lambda one: one.left > 1):
            self._tokens_due[one.name] = min(one.left, left)
            left -= min(one.left, left)
        free -= sum(self._need(one, 1) for one in stay)
        has = (left, self._requests - len(stay), free)
        self._turns = [] if self._out else list(self._take_turns(self._waiting, *has))
        by_time = sorted(step.waiting, key=lambda one: self._arrived[one.name])
        self._listed = {turn.one.name for turn in self._take_turns(by_time, *has) if turn.due and self._turns}
        self._tokens_due |= {turn.one.name: turn.due for turn in self._turns if turn.due}

    def _need(self, one: Stood, tokens: int) -> int:
        """Blocks more than it has."""
        return max(0, blocks_for(one.computed + tokens, self._size) - self._room.get(one.name, 0))

    def _take_turns(self, waiting: Sequence[Stood], left: int, places: int, free: int) -> Iterator[Turn]:
        behind, counts = [], Counter(self._overtaken)
        for one in waiting:
            bar = next((other for other in behind if counts[other.name] >= self._patience), None)
            due = min(one.left, left) if one.left > self._tokens else one.left if one.left <= left else 0
            need = self._need(one, one.left)
            if bar or not places or need > free:
                due = 0
            yield Turn(one, due, left, places, free, need, bar, tuple(behind))
            if due:
                left, places, free = left - due, places - 1, free - need
                counts.update(other.name for other in behind)
            else:
                behind.append(one)

    def _first(self, step: Decision) -> Fault | None:
        runs = {one.name for one in self._running}
        for what, name, *_ in step.asked:
            if what == "release" and name in runs and name not in step.preempt:
                return Fault("preemption", f"{name} runs on, and its blocks were released: what is in them is lost.")
        for one in self._running:
            if one.blocks > self._room[one.name]:
                most = f"{self._room[one.name]} are enough for its {one.computed} computed tokens"
                ahead = " and those that are left of its prompt" if one.name in self._long else ""
                return Fault("busy", f"{one.name} holds {one.blocks} blocks when the step begins; {most}{ahead}.")
        if set(step.preempt) != set(self._out):
            kind = "out" if len(step.preempt) == len(self._out) else "preemption"
            return Fault(kind, f"preempted: {_names(step.preempt)}; due: {_names(self._out)}. {self._why_out()}")
        for one in self._running:
            got, due = step.tokens.get(one.name, 0), self._tokens_due.get(one.name, 0)
            if got != due and one.left == 1:
                return Fault("decodes", f"{one.name} runs, has one token left, and does not get it.")
            if got != due:
                said = f"{one.name} runs and has {one.left} tokens left of a long prompt. It got {got}"
                return Fault("long", f"{said}; due: {due}, as many as the decodes leave.")
        for one in self._waiting if self._out else ():
            if one.name in step.tokens:
                said = f"{one.name} was let in, and {_names(self._out)} preempted in the same step"
                return Fault("preemption", f"{said}: a step that preempts lets nobody in.")
        for number, turn in enumerate(self._turns):
            if (got := step.tokens.get(turn.one.name, 0)) != turn.due:
                later = [other.one.name for other in self._turns[number + 1 :] if other.one.name in step.tokens]
                return self._refused(turn, later) if not got else self._let_in(turn, got)
        return None

    def _why_out(self) -> str:
        if not self._out:
            return "The free blocks are enough for all decodes."
        by_arrival = ", ".join(one.name for one in self._running)
        return f"By arrival, {by_arrival} run: the last of these go, until the free blocks are enough for the decodes left."

    def _refused(self, turn: Turn, later: list[str]) -> Fault:
        one, long = turn.one, turn.one.left > self._tokens
        said = (
            f"{one.name} was not let in ({self._has(turn)}{': one token is enough for a long prompt' if long else ''})."
        )
        if turn.behind and self._patience < UNLIMITED:
            counts = self._counts_of(turn)
            said += f" Before it wait, with their counts: {', '.join(f'{name} {n}' for name, n in counts.items())}."
        elif turn.behind:
            said += f" It may overtake {_names([other.name for other in turn.behind])}."
        if later:
            said += f" Let in was {_names(later)}, which arrived later."
        if self._patience < UNLIMITED:
            return Fault("patience", said)
        return Fault("long" if long else "order" if later else "overtakes" if turn.behind else "busy", said)

    def _let_in(self, turn: Turn, got: int) -> Fault:
        one, long = turn.one, turn.one.left > self._tokens
        said = f"{one.name} was let in with {got} of the {one.left} that it has left"
        if turn.bar:
            name, count = turn.bar.name, self._counts_of(turn)[turn.bar.name]
            return Fault(
                "patience", f"{one.name} was let in. {name}, which arrived earlier, waits, and its count is {count}."
            )
        if turn.due:
            kind = "preemption" if one.preemptions and got == one.prompt_tokens else "long"
            told = f", output tokens among them: {one.told}" if one.told else ""
            return Fault(kind, f"{said}{told}; due: {turn.due}{', all that this step has left' if long else ''}.")
        if got < one.left and not long:
            return Fault("long", f"{said}: only a prompt longer than a step is cut ({self._has(turn)}).")
        return Fault("long" if long else "busy", f"{said}, and it does not fit ({self._has(turn)}).")

    def _has(self, turn: Turn) -> str:
        needs = f"it needs tokens: {turn.one.left}, blocks: {turn.need}"
        return f"{needs}; left at its turn are places: {turn.places}, tokens: {turn.left}, blocks: {turn.free}"

    def _counts_of(self, turn: Turn) -> dict[str, int]:
        """Of each that waits before it, at its turn."""
        counts = Counter(self._overtaken)
        for other in self._turns[: self._turns.index(turn)]:
            if other.due:
                counts.update(before.name for before in other.behind)
        return {before.name: counts[before.name] for before in turn.behind}

    def _carry(self, step: Decision) -> None:
        for number, one in enumerate(self._waiting):
            if one.name in step.tokens:
                self._overtaken.update(other.name for other in self._waiting[:number] if other.name not in step.tokens)
        for name in step.preempt:
            self._room.pop(name, None)
            self._long.discard(name)
        self._long |= {one.name for one in self._waiting if one.name in step.tokens and one.left > self._tokens}
        for one in (*self._running, *self._waiting):
            if new := 0 if one.name in step.preempt else step.tokens.get(one.name, 0):
                whole = one.left if one.name in self._long or not self._room.get(one.name) else new
                room = blocks_for(one.computed + whole, self._size)
                self._room[one.name] = max(self._room.get(one.name, 0), room)

    # What draws look for, and what has to come about for a criterion to be judged.

    def _look(self, step: Decision) -> None:
        there = {one.name for one in (*self._waiting, *self._running)}
        names = [one.name for one in self._waiting]
        new = [number for number, one in enumerate(self._waiting) if one.name in step.tokens]
        limited = {name for name in self._waited | there if self._overtaken[name] >= max(1, self._patience)}
        if not self._waiting:
            self._outlived |= {one.name for one in self._running if self._overtaken[one.name]}
        decodes = any(one.left == 1 and one.name in step.tokens for one in self._running)
        self.seen.update(
            {
                "decoded": decodes,
                "refilled": decodes and bool(new),
                "overtook": any(names[n] not in step.tokens for n in range(new[-1])) if new else False,
                "at its limit": bool(limited),
                "long goes on": decodes and any(one.left > 1 and one.name in step.tokens for one in self._running),
                "left at its limit": bool(limited & self._waited - there),
                "a tie decides": self._listed != {turn.one.name for turn in self._turns if turn.due},
            }
        )
        self._waited = set(names).difference(step.tokens)
        if self._out:
            self._look_out(step)
        for number, turn in enumerate(self._turns):
            self._look_at(turn, self._turns[number + 1 :])

    def _look_out(self, step: Decision) -> None:
        out, on = ([one for one in self._running if (one.name in self._out) == gone] for gone in (True, False))
        times = {self._arrived[one.name] for one in out}
        free = self._total - sum(self._room[one.name] + self._need(one, 1) for one in on)
        last = {one.name for one in step.running[len(on) :]}
        lefts = [one.left for one in on]
        self.seen.update(
            {
                "preemption": 1,
                "out: not who was let in last": last != set(self._out),
                "out: several": len(out) > 1,
                "out: a long one": any(one.left > 1 for one in out),
                "out: a long one goes on": 1 in lefts and max(lefts) > 1,
                "out: at a tie": any(self._arrived[one.name] in times for one in on),
                "out: one would fit": any(blocks_for(one.left, self._size) <= free for one in self._waiting),
                "out: was overtaken": any(self._overtaken[one.name] for one in out),
            }
        )

    def _look_at(self, turn: Turn, after: Sequence[Turn]) -> None:
        one, long = turn.one, turn.one.left > self._tokens
        fits = turn.places and turn.need <= turn.free and (turn.left if long else one.left <= turn.left)
        if turn.bar:
            first = turn.behind[0].name
            self.seen.update(
                {
                    "barred": bool(fits),
                    "barred, not by the first": fits and self._overtaken[first] < self._patience,
                    "barred at a tie": fits and self._arrived[turn.bar.name] == self._arrived[one.name],
                    "barred by a preempted one": fits and turn.bar.preemptions > 0,
                    "barred by a count that outlived": fits and turn.bar.name in self._outlived,
                }
            )
        if turn.due:
            back = one.preemptions > 0
            self.seen.update(
                {
                    "overtook at a tie": any(
                        self._arrived[other.name] == self._arrived[one.name] for other in turn.behind
                    ),
                    "overtook again": bool(turn.behind) and back,
                    "before one at its limit": any(
                        self._overtaken[other.one.name] >= self._patience for other in after
                    ),
                    "came back before another": back and bool(after),
                    "exact tokens": one.left == turn.left,
                    "exact blocks": turn.need == turn.free,
                    "last place": turn.places == 1,
                    "long": long,
                    "long: came back": one.left > self._tokens >= one.prompt_tokens,
                    "long: overtaken": any(other.left > self._tokens for other in turn.behind),
                }
            )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"
