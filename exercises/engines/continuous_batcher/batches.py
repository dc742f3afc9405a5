"""What E19.1 asks of every step: who decodes, who goes, who is let in. Judged from how all stood before it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from exercises.engines.replay import Decision, Stood
from gpulab.serving.blocks.blocks import blocks_for

UNLIMITED = 10**6
"""A patience that no play comes to the end of."""


class Held:
    """One play, step by step. ``step`` yields the criteria that a step breaks.

    ``seen``: how often each situation came that a wrong scheduler can turn on. What was planned, right or wrong, is what the
    next step is judged from. Nothing that the scheduler reserved is believed: ``room`` is what its plans need.
    """

    def __init__(self, play: dict) -> None:
        self._total, self._size = play["blocks"]
        self._tokens, self._requests = play["budget"]
        self._patience = play["patience"]
        self._order: dict[str, int] = {}
        self._arrived = {fields["name"]: fields["arrival_us"] for fields in play["trace"]}
        self.overtaken: Counter = Counter()
        self.room: dict[str, int] = {}
        self._long: set[str] = set()
        self.seen: Counter = Counter()
        self._waited: set[str] = set()

    def step(self, step: Decision) -> Iterator[str]:
        for one in step.waiting:
            self._order.setdefault(one.name, len(self._order))
        waiting, running = (
            sorted(group, key=lambda one: self._order[one.name]) for group in (step.waiting, step.running)
        )
        self.room = {one.name: self.room[one.name] for one in running}
        self._look(step, waiting, running)
        expected_out = self._expected_out(running)
        if set(step.preempt) != expected_out:
            yield "preemption"
        stay = [one for one in running if one.name not in step.preempt]
        left, faults = self._go_on(step, stay)
        yield from faults
        if step.preempt or expected_out:
            self._look_out(step, waiting, running, expected_out)
            yield from self._let_in_regardless(step, waiting)
        else:
            yield from self._let_in(step, waiting, left, self._requests - len(stay))
        self._make_room(step, [*stay, *waiting])

    def _need(self, one: Stood, tokens: int) -> int:
        """Blocks more than it has."""
        return max(0, blocks_for(one.computed + tokens, self._size) - self.room.get(one.name, 0))

    @property
    def _free(self) -> int:
        return self._total - sum(self.room.values())

    def _expected_out(self, running: Sequence[Stood]) -> set[str]:
        """The fewest of the last without whom the others have room for a token each."""
        stay = list(running)
        free = self._free
        while sum(self._need(one, 1) for one in stay) > free:
            free += self.room[stay.pop().name]
        return {one.name for one in running[len(stay) :]}

    def _go_on(self, step: Decision, stay: Sequence[Stood]) -> tuple[int, list[str]]:
        """Tokens that are left of the step, and what is wrong with those who run."""
        faults, left = [], self._tokens
        decoding = [one for one in stay if one.left == 1]
        if any(one.name not in step.tokens for one in decoding):
            faults.append("decodes")
        left -= sum(one.name in step.tokens for one in decoding)
        for one in stay:
            if one.left > 1:
                if one.name in self._long and step.tokens.get(one.name, 0) != min(one.left, left):
                    faults.append("long")
                left -= step.tokens.get(one.name, 0)
        self.seen["refilled"] += bool(decoding and any(one.name in step.tokens for one in step.waiting) and not faults)
        return left, faults

    def _let_in(self, step: Decision, waiting: Sequence[Stood], left: int, places: int) -> Iterator[str]:
        free = self._free - sum(self._need(one, 1) for one in step.running)
        behind: list[Stood] = []
        blamed = False
        for number, one in enumerate(waiting):
            barred = any(self.overtaken[other.name] >= self._patience for other in behind)
            long, need = one.left > self._tokens, blocks_for(one.left, self._size)
            fits = places > 0 and need <= free and (left > 0 if long else one.left <= left)
            if one.name not in step.tokens:
                if fits and not barred and not blamed:
                    blamed = True
                    yield from self._why_not(step, waiting, number, behind)
                self._look_back(behind, fits, barred)
                behind.append(one)
                continue
            later = sum(step.tokens.get(other.name, 0) for other in waiting[number + 1 :])
            yield from self._why(step.tokens[one.name], one, fits, barred, left, left - later)
            self._look_in(one, behind, waiting[number + 1 :], (one.left == left, need == free, places == 1))
            for other in behind:
                self.overtaken[other.name] += 1
            left, places, free = left - step.tokens[one.name], places - 1, free - need
            if long:
                self._long.add(one.name)

    def _let_in_regardless(self, step: Decision, waiting: Sequence[Stood]) -> Iterator[str]:
        """Of a step that preempts."""
        for number, one in enumerate(waiting):
            if one.name in step.tokens:
                yield "preemption"
                self.overtaken.update(other.name for other in waiting[:number] if other.name not in step.tokens)

    def _why(self, got: int, one: Stood, fits: bool, barred: bool, left: int, spare: int) -> Iterator[str]:
        """What is wrong with letting it in. left: tokens at its turn. spare: without those of the ones that came after it."""
        long = one.left > self._tokens
        expected = min(one.left, left) if long else one.left
        if barred:
            yield "patience"
        if got != expected and one.preemptions and (not long or got == one.prompt_tokens):
            yield "preemption"
        elif got != expected and long and got == min(one.left, spare):
            yield "order"
        elif got != expected or not fits:
            yield "long"

    def _why_not(self, step: Decision, waiting: Sequence[Stood], number: int, behind: Sequence[Stood]) -> Iterator[str]:
        """What is wrong with leaving it out. behind: those before it that were left out too."""
        let_in = [place for place, one in enumerate(waiting) if one.name in step.tokens]
        if waiting[number].left > self._tokens:
            if not (let_in or behind or any(one.left > 1 for one in step.running)):
                yield "long"
        elif let_in and let_in[-1] > number:
            yield "order"
        elif not behind:
            yield "busy"
        elif self._patience < UNLIMITED:
            yield "patience"
        else:
            overtook = any(waiting.index(behind[0]) < place for place in let_in)
            yield "busy" if overtook else "overtakes"

    def _make_room(self, step: Decision, there: Sequence[Stood]) -> None:
        for name in step.preempt:
            self.room.pop(name, None)
            self._long.discard(name)
        for one in there:
            if new := step.tokens.get(one.name):
                whole = one.left if one.name in self._long or not self.room.get(one.name) else new
                self.room[one.name] = max(self.room.get(one.name, 0), blocks_for(one.computed + whole, self._size))

    # What the draws look for.

    def _look(self, step: Decision, waiting: Sequence[Stood], running: Sequence[Stood]) -> None:
        there = {one.name for one in (*waiting, *running)}
        self.seen["left at its limit"] += any(self.overtaken[name] == self._patience for name in self._waited - there)
        self._waited, names = {one.name for one in waiting}.difference(step.tokens), [one.name for one in waiting]
        self.seen["waiting is mixed"] += [one.name for one in step.waiting] != names
        by_time = sorted(step.waiting, key=lambda one: self._arrived[one.name])
        self.seen["waiting is mixed at a tie"] += [one.name for one in by_time] != names

    def _look_out(self, step: Decision, waiting: Sequence[Stood], running: Sequence[Stood], out: set[str]) -> None:
        times = {self._arrived[name] for name in out}
        free = self._free - sum(self._need(one, 1) for one in running if one.name not in out)
        last = {one.name for one in step.running[len(step.running) - len(out) :]}
        free += sum(self.room[name] for name in out)
        on = [one.left for one in running if one.name not in out]
        self.seen.update(
            {
                "preemption": 1,
                "out: not who was let in last": last != out,
                "out: several": len(out) > 1,
                "out: a long one": any(one.left > 1 for one in running if one.name in out),
                "out: a long one goes on": 1 in on and max(on) > 1,
                "out: at a tie": any(self._arrived[one.name] in times for one in running if one.name not in out),
                "out: one would fit": any(blocks_for(one.left, self._size) <= free for one in waiting),
                "out: was overtaken": any(self.overtaken[name] for name in out),
            }
        )

    def _look_back(self, behind: Sequence[Stood], fits: bool, barred: bool) -> None:
        self.seen["barred"] += fits and barred
        self.seen["barred, not by the first"] += fits and barred and self.overtaken[behind[0].name] < self._patience

    def _look_in(self, one: Stood, behind: Sequence[Stood], after: Sequence[Stood], exact: tuple[bool, ...]) -> None:
        limited = any(self.overtaken[other.name] >= self._patience for other in after)
        self.seen.update(
            {
                "overtook": bool(behind),
                "overtook again": bool(behind) and one.preemptions > 0,
                "before one at its limit": limited,
                "came back": one.preemptions > 0,
                "came back before another": one.preemptions > 0 and bool(after),
                "long": one.left > self._tokens,
                "long: came back": one.left > self._tokens >= one.prompt_tokens,
                "long: overtaken": any(other.left > self._tokens for other in behind),
            }
            | dict(zip(("exact tokens", "exact blocks", "last place"), exact, strict=True))
        )
