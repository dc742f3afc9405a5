"""One step of a chunked scheduler, as the statement of E19.3 speaks of it."""

from collections.abc import Iterator

from exercises.engines.replay import Decision, Stood
from exercises.engines.shared import clock_of
from gpulab.serving.blocks.blocks import blocks_for


class Step:
    """Who decoded and who stood in line before a step, and what each was given.

    line: all who do not decode, first come first. gone: who has to be preempted for want of room, the last of ``running`` first.
    """

    def __init__(self, decision: Decision, play: dict) -> None:
        self._decision, self._play, self._step_us = decision, play, clock_of(play).step_us
        self._size, (self._most_tokens, self._most_requests) = play["blocks"][1], play["budget"]
        trace = sorted(play["trace"], key=lambda request: request["arrival_us"])
        self._came = {request["name"]: number for number, request in enumerate(trace)}
        self._whole = {request["name"] for request in trace if request.get("whole")}
        self.given, self.preempted = decision.tokens, decision.preempt
        self.decodes = [one for one in decision.running if one.told and one.left == 1]
        others = [one for one in decision.running if one not in self.decodes]
        self.line = sorted([*others, *decision.waiting], key=self._place)
        self._there = {one.name: one for one in (*decision.running, *decision.waiting)}
        self._waits = {one.name for one in decision.waiting}
        self.gone = self._goes()

    def _place(self, one: Stood) -> int:
        return self._came[one.name]

    def _goes(self) -> tuple[str, ...]:
        stay, gone, free = list(self._decision.running), [], self._decision.free
        while self._growth(stay) > free and stay:
            gone.append(stay.pop())
            free += gone[-1].blocks
        return tuple(one.name for one in gone)

    def _growth(self, stay: list[Stood]) -> int:
        """Blocks that the decodes among them need for one token each."""
        return sum(max(0, blocks_for(one.computed + 1, self._size) - one.blocks) for one in stay if one in self.decodes)

    @property
    def let_in(self) -> list[Stood]:
        return [one for one in self.line if one.name in self._waits and self.part(one)]

    def part(self, one: Stood) -> int:
        return self.given.get(one.name, 0)

    def whole(self, one: Stood) -> bool:
        return one.name in self._whole

    def us(self, tokens: dict[str, int]) -> float:
        return self._step_us([(new, self._there[name].computed) for name, new in tokens.items()])

    @property
    def too_long(self) -> bool:
        """Somebody decodes, a prompt has a part, and the gap is broken."""
        prompts = sum(map(self.part, self.line))
        return bool(self.decodes and prompts) and self.us(self.given) > self._play["gap_us"]

    @property
    def in_no_hurry(self) -> bool:
        """No gap bounds it."""
        return not self.decodes or self._play["gap_us"] == float("inf")

    def fits(self, one: Stood, more: int) -> bool:
        """Whether ``more`` tokens for it break neither gap nor budget nor places nor room, on top of what was given."""
        tokens = {live.name: 1 for live in self.decodes} | self.given
        tokens[one.name] = tokens.get(one.name, 0) + more
        if sum(tokens.values()) > self._most_tokens or (self.decodes and self.us(tokens) > self._play["gap_us"]):
            return False
        return one.name not in self._waits or bool(self.part(one)) or self._has_place(one)

    def _has_place(self, one: Stood) -> bool:
        running, let_in = self._decision.running, self.let_in
        taken = self._growth(list(running)) + sum(blocks_for(other.left, self._size) for other in let_in)
        room = self._decision.free - taken >= blocks_for(one.left, self._size)
        return room and len(running) + len(let_in) < self._most_requests

    def least(self, one: Stood) -> int:
        """The fewest tokens that may be given on top: of a whole prompt that has not begun, all."""
        return one.prompt_tokens if self.whole(one) and not one.computed and not self.part(one) else 1

    def next_ones(self) -> Iterator[Stood]:
        """Who would get one token more: the prompts that were cut; if there are none, the first that got nothing."""
        cut = [one for one in self.line if 0 < self.part(one) < one.left]
        yield from cut or [one for one in self.line if not self.part(one)][:1]

    @property
    def shorter(self) -> bool:
        """More would have fitted."""
        return not self.gone and any(self.fits(one, self.least(one)) for one in self.next_ones())

    @property
    def cut_by_the_gap(self) -> bool:
        """A prompt got a part, and with a token more the step would last longer than the gap."""
        cut = [one.name for one in self.line if 0 < self.part(one) < one.left]
        longer = [self.us(self.given | {name: self.given[name] + 1}) for name in cut]
        return bool(self.decodes) and any(us > self._play["gap_us"] for us in longer)

    @property
    def overtaken(self) -> Stood | None:
        """Who is not finished with its prompt while somebody behind it got a part of the step."""
        open_ = None
        for one in self.line:
            if open_ is not None and self.part(one):
                return open_
            open_ = open_ or (one if self.part(one) < one.left else None)
        return None

    def odd_room(self) -> Iterator[tuple[Stood, bool]]:
        """Who runs with more (True) or fewer blocks than its tokens so far take; a decode's next may or may not have its own."""
        for one in self._decision.running:
            expected = blocks_for(one.computed + one.left, self._size)
            if one.blocks > expected or (one not in self.decodes and one.blocks < expected):
                yield one, one.blocks > expected
