"""What an allocator that shares beginnings is due to answer, and traces on which it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field


class Unclear(Exception):
    """What is due from here on turns on what the statement leaves open."""


@dataclass(eq=False)
class Block:
    """number: only for an engine to read. holders: requests whose tables it is in. key: what it can be found by. released: when, and how far back in its table."""

    number: int
    holders: set[int] = field(default_factory=set)
    key: tuple | None = None
    released: tuple[int, int] = (0, 0)


@dataclass
class Asked:
    """A request, as far as it was told."""

    ids: list[int]
    tokens: int
    whole: bool
    image: str | None
    computed: int = 0
    table: list[Block] | None = None
    fresh: int = 0
    """Blocks in front of its table that need not be looked at: they could be found when it was let in, or were seen since."""


class Model:
    """One cache. Requests are known by number. Raises Unclear where two right answers part, if ``strict``."""

    def __init__(self, total: int, size: int) -> None:
        self.total, self.size, self.clock, self.strict = total, size, 0, True
        self.requests: dict[int, Asked] = {}
        self.order: list[int] = []
        self.index: dict[tuple, Block] = {}
        self.blank = list(range(total))
        self.expected: list[int] = []
        self.evicted = self.refused = 0

    @property
    def free(self) -> int:
        return self.total - len({id(block) for live in self.requests.values() for block in live.table or ()})

    def lengths(self) -> dict[int, int]:
        return {number: len(live.table) for number, live in self.requests.items() if live.table is not None}

    def found(self, number: int) -> int:
        self._see()
        live = self.requests[number]
        live.computed = min(self.size * len(self._chain(live, live.tokens)), live.tokens - 1)
        return live.computed

    def reserve(self, number: int, tokens: int) -> bool:
        self._see()
        live = self.requests[number]
        need = -(-(live.computed + tokens) // self.size)
        mine, written = (live.table, None) if live.table is not None else self._begun(live)
        copied = bool(written and written.holders)
        shared = [] if mine is None else mine[:-1] if copied else mine
        gone = mine is None
        idle = sum(not block.holders for block in shared)
        if gone or need - len(shared) > self.free - idle:
            self.refused += 1
            return False
        self._take(live, number, shared, written if not copied else None)
        more = [self._new(number) for _ in range(need - len(live.table))]
        live.table += more
        if copied:
            self.expected.append(number)
        return True

    def release(self, number: int) -> None:
        self._see()
        live = self.requests[number]
        if live.table is None:
            return
        self.clock += 1
        for place, block in enumerate(live.table):
            block.holders.discard(number)
            if not block.holders:
                block.released = (self.clock, -place)
                self.blank += [block.number] if block.key is None else []
        live.table = None
        self.order.remove(number)

    def copies(self) -> list[int]:
        """Of which requests copies are due."""
        expected, self.expected = self.expected, []
        return expected

    def _take(self, live: Asked, number: int, shared: list[Block], rewritten: Block | None) -> None:
        if live.table is None:
            self.order.append(number)
            live.table, live.fresh = [*shared], len(shared) - (rewritten is not None)
        for block in live.table:
            block.holders.add(number)
        if rewritten is not None:
            self._forget(rewritten)

    def _begun(self, live: Asked) -> tuple[list[Block] | None, Block | None]:
        """The blocks of what it has computed, the one of them that will be written; None where one has gone."""
        there = -(-live.computed // self.size)
        chain = self._chain(live, there * self.size)
        if len(chain) < there:
            return None, None
        return chain, chain[-1] if live.computed % self.size else None

    def _new(self, number: int) -> Block:
        if self.blank:
            return Block(self.blank.pop(), {number})
        oldest = min((block for block in self.index.values() if not block.holders), key=lambda block: block.released)
        self._forget(oldest)
        self.evicted += 1
        return Block(oldest.number, {number})

    def _forget(self, block: Block) -> None:
        """It can be found no more. Whether another with the same tokens then can is left open."""
        at = len(block.key[1]) // self.size
        others = (live for live in self._computing() if live.computed >= at * self.size and block not in live.table)
        if any(self._key(live, at - 1) == block.key for live in others):
            raise Unclear
        del self.index[block.key]
        block.key = None

    def _see(self) -> None:
        """What was computed can be found."""
        new: set[tuple] = set()
        for live in self._computing():
            for at in range(live.fresh, min(live.computed, len(live.ids)) // self.size):
                key = self._key(live, at)
                if key in new and self.strict:
                    raise Unclear
                if key not in self.index:
                    self.index[key] = live.table[at]
                    live.table[at].key = key
                    new.add(key)
                live.fresh = at + 1

    def _computing(self) -> Sequence[Asked]:
        """Whoever holds blocks that can be found once they are computed, in the order of being let in."""
        return [live for number in self.order if (live := self.requests[number]).ids and not live.whole]

    def _chain(self, live: Asked, upto: int) -> list[Block]:
        chain: list[Block] = []
        if live.whole:
            return chain
        for at in range(min(upto, len(live.ids)) // self.size):
            if (block := self.index.get(self._key(live, at))) is None:
                break
            chain.append(block)
        return chain

    def _key(self, live: Asked, at: int) -> tuple:
        return live.image, tuple(live.ids[: (at + 1) * self.size])


class Script:
    """A trace under way: what happens, and what is due of it. ``look``: whether tables are looked at after each call."""

    def __init__(self, *caches: tuple[int, int], look: bool = True) -> None:
        self.caches, self.look = caches, look
        self.models = [Model(*sizes) if min(sizes) > 0 else None for sizes in caches]
        self.requests: list[dict] = []
        self.of: list[int] = []
        self.events: list[list] = []
        self.expected: list[dict] = []

    def comes(self, ids: Sequence[int] = (), of: int = 0, counted: int = 0, **fields) -> int:
        """A request's number; ``counted``: its tokens where they have no ids."""
        self.requests.append({"ids": list(ids), **({"prompt_tokens": counted} if counted else {}), **fields})
        self.of.append(of)
        live = Asked(list(ids), counted or len(ids), fields.get("whole", False), fields.get("image"))
        self.models[of].requests[len(self.of) - 1] = live
        return len(self.of) - 1

    def live(self, number: int) -> Asked:
        return self.models[self.of[number]].requests[number]

    def found(self, number: int) -> int:
        return self._call("found", number)

    def reserve(self, number: int, tokens: int) -> bool:
        return self._call("reserve", number, tokens)

    def release(self, number: int) -> None:
        self._call("release", number)

    def copies(self, of: int = 0) -> None:
        self._note(of, "copies", None, self.models[of].copies())

    def compute(self, number: int, tokens: int) -> None:
        self.live(number).computed += tokens
        self._note(self.of[number], "compute", number, None, tokens)

    def tell(self, number: int, *ids: int) -> None:
        live = self.live(number)
        live.tokens += 1
        live.ids += ids
        self._note(self.of[number], "tell", number, None, *ids)

    def waits(self, number: int) -> None:
        self.live(number).computed = 0
        self._note(self.of[number], "waits", number, None)

    def let_in(self, number: int, tokens: int | None = None) -> bool:
        """All that is left of it is computed, or so many tokens; False if there is no room."""
        self.found(number)
        return self.goes_on(number, tokens)

    def goes_on(self, number: int, tokens: int | None = None) -> bool:
        live = self.live(number)
        tokens = live.tokens - live.computed if tokens is None else tokens
        if not self.reserve(number, tokens):
            return False
        self.copies(self.of[number])
        self.compute(number, tokens)
        return True

    def came(self, ids: Sequence[int], of: int = 0, **fields) -> int:
        """One that was computed and released."""
        number = self.comes(ids, of, **fields)
        self.let_in(number)
        self.release(number)
        return number

    def writes(self, number: int, *ids: int) -> None:
        """Output, a token a step; the last is computed too."""
        for token in ids:
            self.tell(number, token)
            self.goes_on(number)

    def inputs(self) -> dict:
        caches = [list(sizes) for sizes in self.caches]
        return {"caches": caches, "requests": self.requests, "of": self.of, "events": self.events, "look": self.look}

    def _call(self, what: str, number: int, *by: int):
        came = getattr(self.models[self.of[number]], what)(number, *by)
        self._note(self.of[number], what, number, came, *by)
        return came

    def _note(self, of: int, what: str, number: int | None, came, *by: int) -> None:
        model = self.models[of]
        looks = what == "copies" or (self.look and what in ("found", "reserve", "release"))
        stood = {"free": model.free, "lengths": model.lengths()} if looks else {}
        self.events.append([of, what, number, *by])
        self.expected.append({"returned": came, **stood})
