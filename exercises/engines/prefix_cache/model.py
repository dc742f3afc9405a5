"""What an allocator that shares beginnings is due to answer, and sequences of calls on which it is asked."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

_UIDS = itertools.count()


@dataclass(eq=False)
class Block:
    """holders: requests whose tables it is in. key: what it can be found by. released: when, and how far back in its table."""

    holders: set[int] = field(default_factory=set)
    key: tuple | None = None
    released: tuple[int, int] = (0, 0)
    uid: int = field(default_factory=_UIDS.__next__)


@dataclass
class Asked:
    """A request, as far as it was told. fresh: blocks in front of its table that need not be looked at any more."""

    ids: list[int]
    tokens: int
    whole: bool
    image: str | None
    computed: int = 0
    table: list[Block] | None = None
    fresh: int = 0


class Model:
    """One cache. Requests are known by number."""

    def __init__(self, total: int, size: int) -> None:
        self.total, self.size, self.clock = total, size, 0
        self.requests: dict[int, Asked] = {}
        self.index: dict[tuple, Block] = {}
        self.due: list[tuple[int, int]] = []
        self.evicted = self.refused = self.partly = self.twins = self.copied = self.taken = 0

    @property
    def free(self) -> int:
        return self.total - len(self._held())

    def standing(self) -> dict:
        """Tables, what is free, and every block that is held or can be found."""
        tables = {n: [block.uid for block in live.table] for n, live in self.requests.items() if live.table is not None}
        return {
            "free": self.free,
            "tables": tables,
            "alive": self._held() | {block.uid for block in self.index.values()},
        }

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
        room = self.free - sum(not block.holders for block in shared)
        if mine is None or need - len(shared) > room:
            self.refused += 1
            self.partly += live.table is not None and 0 < room
            return False
        if live.table is None:
            live.table, live.fresh = [*shared], len(shared) - (written is not None and not copied)
        for block in live.table:
            block.holders.add(number)
        if written is not None and not copied:
            del self.index[written.key]
            written.key = None
            self.taken += 1
        while len(live.table) < need:
            live.table.append(self._new(number))
        if copied:
            self.copied += 1
            self.due.append((written.uid, live.table[len(shared)].uid))
        return True

    def release(self, number: int) -> None:
        self._see()
        live = self.requests[number]
        self.clock += 1
        for place, block in enumerate(live.table or ()):
            block.holders.discard(number)
            if not block.holders:
                block.released = (self.clock, -place)
        live.table = None

    def copies(self) -> list[tuple[int, int]]:
        due, self.due = self.due, []
        return due

    def _held(self) -> set[int]:
        return {block.uid for live in self.requests.values() for block in live.table or ()}

    def _begun(self, live: Asked) -> tuple[list[Block] | None, Block | None]:
        """The blocks of what it has computed, and the one of them that will be written; None where one has gone."""
        there = -(-live.computed // self.size)
        chain = self._chain(live, there * self.size)
        if len(chain) < there:
            return None, None
        return chain, chain[-1] if live.computed % self.size else None

    def _new(self, number: int) -> Block:
        idle = [block for block in self.index.values() if not block.holders]
        if len(idle) == self.free:
            del self.index[min(idle, key=lambda block: block.released).key]
            self.evicted += 1
        return Block({number})

    def _see(self) -> None:
        """What was computed can be found."""
        for live in self.requests.values():
            if live.table is None or live.whole:
                continue
            for at in range(live.fresh, min(live.computed, len(live.ids)) // self.size):
                live.fresh = at + 1
                if (key := self._key(live, at)) in self.index:
                    self.twins += 1
                    continue
                self.index[key], live.table[at].key = live.table[at], key

    def _chain(self, live: Asked, upto: int) -> list[Block]:
        chain: list[Block] = []
        for at in range(0 if live.whole else min(upto, len(live.ids)) // self.size):
            if (block := self.index.get(self._key(live, at))) is None:
                break
            chain.append(block)
        return chain

    def _key(self, live: Asked, at: int) -> tuple:
        return live.image, tuple(live.ids[: (at + 1) * self.size])


class Script:
    """A sequence of calls under way, with what is due of each.

    ``own``: what goes wrong here by the fault that the sequence is for: an answer of "found", "all" or "" for what shows it
    by its kind. ``control``: calls without what the sequence is for; if these go right, whatever goes wrong here is its own.
    """

    def __init__(self, *caches: tuple[int, int], about: str, own: str = "") -> None:
        self.caches, self.about, self.own = caches, about, own
        self.models = [Model(*sizes) if min(sizes) > 0 else None for sizes in caches]
        self.requests: list[dict] = []
        self.of: list[int] = []
        self.events: list[list] = []
        self.expected: list[dict] = []
        self.control: Script | None = None

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
        """An output token; without an id where tokens are only counted."""
        live = self.live(number)
        live.tokens += 1
        live.ids += ids
        self._note(self.of[number], "tell", number, None, *ids)

    def leaves(self, number: int) -> None:
        """It is preempted: it holds nothing, and waits again."""
        self.release(number)
        self.live(number).computed = 0
        self._note(self.of[number], "waits", number, None)

    def probe(self, ids: Sequence[int], of: int = 0, **fields) -> int:
        """What someone who waits is told, and is gone."""
        return self.found(self.comes(ids, of, **fields))

    def let_in(self, number: int, tokens: int | None = None, ahead: int = 0) -> bool:
        """All that is left of it is computed, or so many tokens; False if there is no room."""
        self.found(number)
        return self.goes_on(number, tokens, ahead)

    def goes_on(self, number: int, tokens: int | None = None, ahead: int = 0) -> bool:
        """``ahead``: tokens for which room is made beyond those that are computed."""
        live = self.live(number)
        tokens = live.tokens - live.computed if tokens is None else tokens
        if not self.reserve(number, tokens + ahead):
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
        return {"caches": caches, "requests": self.requests, "of": self.of, "events": self.events}

    def without_refusals(self, about: str) -> "Script":
        """The same without the calls of ``reserve`` that are refused."""
        other = Script(*self.caches, about=about)
        other.requests, other.of = self.requests, self.of
        kept = [pair for pair in zip(self.events, self.expected) if pair[0][1] != "reserve" or pair[1]["returned"]]
        other.events, other.expected = [event for event, _ in kept], [expected for _, expected in kept]
        return other

    def with_fields(self, **fields: Sequence) -> "Script":
        """The same with other fields of its requests, in turn, that are to play no part."""
        other = Script(*self.caches, about=self.about)
        other.requests = [
            request | {name: values[n % len(values)] for name, values in fields.items()}
            for n, request in enumerate(self.requests)
        ]
        other.of, other.events, other.expected = self.of, self.events, self.expected
        return other

    def _call(self, what: str, number: int, *by: int):
        model = self.models[self.of[number]]
        hits = model.copied + model.taken
        came = getattr(model, what)(number, *by)
        self._note(self.of[number], what, number, came, *by)
        self.expected[-1] |= {
            "found": what == "found",
            "hit": model.copied + model.taken > hits,
            "hits": hits,
            **model.standing(),
        }
        return came

    def _note(self, of: int, what: str, number: int | None, came, *by: int) -> None:
        self.events.append([of, what, number, *by])
        self.expected.append({"returned": came})
