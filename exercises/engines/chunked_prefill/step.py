"""One step of a chunked scheduler, as the statement of E19.3 speaks of it."""

from collections.abc import Iterator

from exercises.engines.replay import Decision, Stood
from exercises.engines.shared import clock_of
from gpulab.serving.blocks.blocks import blocks_for


class Step:
    """Who decoded and who stood in line before a step, and what each was given.

    line: all who do not decode, in their order. gone: who has to be preempted for want of room, the last of ``running`` first.
    """

    def __init__(self, decision: Decision, play: dict) -> None:
        self._decision, self._step_us, self.gap_us = decision, clock_of(play).step_us, play["gap_us"]
        self._size, (self._most_tokens, self._most_requests) = play["blocks"][1], play["budget"]
        self._whole = {request["name"] for request in play["trace"] if request.get("whole")}
        self.given, self.preempted = decision.tokens, decision.preempt
        self.decodes = [one for one in decision.running if one.told and one.left == 1]
        self.line = [*(one for one in decision.running if one not in self.decodes), *decision.waiting]
        self._there = {one.name: one for one in (*decision.running, *decision.waiting)}
        self._waits = {one.name for one in decision.waiting}
        self.gone = self._goes()

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

    def waits(self, one: Stood) -> bool:
        return one.name in self._waits and not self.part(one)

    def whole(self, one: Stood) -> bool:
        return one.name in self._whole

    def begun_whole(self) -> list[Stood]:
        """Whole prompts that this step computes."""
        return [one for one in self.line if self.whole(one) and self.part(one) and not one.computed]

    def lasts(self, more: dict[str, int] | None = None, alone: list[Stood] | None = None) -> float:
        """By the clock, with so many tokens more, or with these prompts alone beside the decodes."""
        names = self.given if alone is None else {one.name for one in (*self.decodes, *alone)}
        tokens = {name: self.given.get(name, 0) for name in names}
        tokens |= {name: tokens.get(name, 0) + new for name, new in (more or {}).items()}
        return self._step_us([(new, self._there[name].computed) for name, new in tokens.items() if new])

    @property
    def full(self) -> bool:
        return sum(self.given.values()) >= self._most_tokens

    @property
    def beyond_budget(self) -> str:
        """What is more than the budget allows, in a sentence."""
        tokens, requests = (
            sum(self.given.values()),
            len(self._decision.running) + len(self.let_in) - len(self.preempted),
        )
        if tokens > self._most_tokens:
            return f"The plan computes {tokens} tokens, budget.tokens is {self._most_tokens}: decodes count too."
        if requests > self._most_requests:
            return f"By the plan {requests} requests run, budget.requests is {self._most_requests}."
        return ""

    @property
    def too_long(self) -> bool:
        """Somebody decodes, a prompt has a part, and the gap is broken."""
        return bool(self.decodes and any(map(self.part, self.line))) and self.lasts() > self.gap_us

    @property
    def too_long_by_whole(self) -> bool:
        """With its whole prompts and what stands before them the step is too long, with what stands before alone it is not."""
        at = [self.line.index(one) for one in self.begun_whole()]
        return bool(at) and self.lasts(alone=self.line[: at[0]]) <= self.gap_us < self.lasts(
            alone=self.line[: at[-1] + 1]
        )

    @property
    def idle_decodes(self) -> list[Stood]:
        return [one for one in self.decodes if self.part(one) != 1 and one.name not in (*self.gone, *self.preempted)]

    def fits(self, one: Stood) -> bool:
        """Whether the least that may be given to it on top breaks neither gap nor budget nor places nor room."""
        more = {live.name: 1 for live in self.decodes if not self.part(live)} | {one.name: self.least(one)}
        if sum(self.given.values()) + sum(more.values()) > self._most_tokens:
            return False
        if self.decodes and self.lasts(more) > self.gap_us:
            return False
        return not self.waits(one) or self._has_place(one)

    def _has_place(self, one: Stood) -> bool:
        running, let_in = self._decision.running, self.let_in
        taken = self._growth(list(running)) + sum(blocks_for(other.left, self._size) for other in let_in)
        room = self._decision.free - taken >= blocks_for(one.left, self._size)
        return room and len(running) + len(let_in) < self._most_requests

    def least(self, one: Stood) -> int:
        """The fewest tokens that may be given on top: of a whole prompt that has not begun, all."""
        return one.prompt_tokens if self.whole(one) and not one.computed and not self.part(one) else 1

    def short(self) -> Iterator[Stood]:
        """Who could have had more: a prompt that was cut; where none was, the first that got nothing."""
        cut = [one for one in self.line if 0 < self.part(one) < one.left]
        for one in cut or [one for one in self.line if not self.part(one)][:1]:
            if not (self.gone or self.preempted) and self.fits(one):
                yield one

    @property
    def overtaken(self) -> tuple[Stood, Stood] | None:
        """Who is not finished with its prompt, and somebody behind it who got a part of the step."""
        open_ = None
        for one in self.line:
            if open_ is not None and self.part(one):
                return open_, one
            open_ = open_ or (one if self.part(one) < one.left else None)
        return None

    def odd_room(self) -> Iterator[tuple[Stood, int]]:
        """Who runs with other blocks than its tokens so far take, and how many those are; a decode's next may have its own."""
        for one in self._decision.running:
            due = blocks_for(one.computed + one.left, self._size)
            if one.blocks > due or (one not in self.decodes and one.blocks < due):
                yield one, due

    def calls(self, what: str) -> list[str]:
        """Whom the allocator was asked to do this with."""
        return [call[1] for call in self._decision.asked if call[0] == what]

    def runs_on(self, name: str) -> bool:
        return name not in self._waits and name not in self.preempted
