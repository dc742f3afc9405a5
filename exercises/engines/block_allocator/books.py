"""E19.2's traces: what is asked of allocators, and what is due of it, whichever free blocks they take."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any


@dataclass
class Books:
    """One allocator by numbers alone. Blocks are known by serial numbers that are never used again."""

    total: int
    size: int
    tables: dict[Hashable, list[int]] = field(default_factory=dict)
    lengths: dict[Hashable, int] = field(default_factory=dict)
    users: Counter = field(default_factory=Counter)
    """In how many tables each block stands."""
    _serial: Any = field(default_factory=count)

    @property
    def free(self) -> int:
        return self.total - len(self.users)

    def needs(self, seq: Hashable, n: int) -> tuple[int, bool]:
        """Blocks that an append takes, and whether one of them is a copy's target."""
        length, table = self.lengths.get(seq, 0), self.tables.get(seq, [])
        copied = length % self.size > 0 and self.users[table[-1]] > 1
        return -(-(length + n) // self.size) - len(table) + copied, copied

    def append(self, seq: Hashable, n: int = 1) -> dict:
        if n < 1:
            return {"raises": "ValueError"}
        blocks, copied = self.needs(seq, n)
        if blocks > self.free:
            return {"raises": "MemoryError"}
        table = self.tables.setdefault(seq, [])
        if copied:
            self._leave(table.pop())
        new = [next(self._serial) for _ in range(blocks)]
        self.users.update(new)
        table += new
        self.lengths[seq] = self.lengths.get(seq, 0) + n
        return {"copied": copied}

    def fork(self, parent: Hashable, child: Hashable) -> dict:
        if parent not in self.tables:
            return {"raises": "KeyError"}
        if child in self.tables:
            return {"raises": "ValueError"}
        self.users.update(self.tables[parent])
        self.tables[child], self.lengths[child] = list(self.tables[parent]), self.lengths[parent]
        return {}

    def release(self, seq: Hashable) -> dict:
        if seq not in self.tables:
            return {"raises": "KeyError"}
        for block in self.tables.pop(seq):
            self._leave(block)
        del self.lengths[seq]
        return {}

    def _leave(self, block: int) -> None:
        self.users[block] -= 1
        if not self.users[block]:
            del self.users[block]

    def table(self, seq: Hashable) -> dict:
        return {} if seq in self.tables else {"raises": "KeyError"}

    length = table


class Script:
    """A trace under way: its actions so far, and what is due of each.

    ``made``: total and size of each of its allocators. ``sees``: whether every sequence is looked at after every action, or
    only the one that was written to, as an engine would. ``spoils``: whether the lists that come back are overwritten.
    ``alone``: for each allocator a trace of what is asked of it, without the others.
    """

    alone: tuple["Script", ...] = ()

    def __init__(self, *made: tuple[int, int], sees: bool = True, spoils: bool = False) -> None:
        self.made, self._sees, self._spoils = made, sees, spoils
        self.books = [Books(*sizes) for sizes in made]
        self._actions: list[dict] = []
        self.expected: list[dict] = []

    def append(self, seq: Hashable, *n: int, of: int = 0, **named: int) -> None:
        """``n`` by place, by name, or not at all."""
        self._note(of, "append", self.books[of].append(seq, *n, **named), (seq, *n), named)

    def fork(self, parent: Hashable, child: Hashable, of: int = 0) -> None:
        self._note(of, "fork", self.books[of].fork(parent, child), (parent, child))

    def release(self, seq: Hashable, of: int = 0) -> None:
        self._note(of, "release", self.books[of].release(seq), (seq,))

    def table(self, seq: Hashable, of: int = 0) -> None:
        self._note(of, "table", self.books[of].table(seq), (seq,))

    def length(self, seq: Hashable, of: int = 0) -> None:
        self._note(of, "length", self.books[of].length(seq), (seq,))

    def in_place(self, seq: Hashable, of: int = 0) -> int:
        """Tokens that still go into the last block of a sequence."""
        return -self.books[of].lengths[seq] % self.books[of].size

    def _note(self, of: int, what: str, expected: dict, by: Sequence, named: dict | None = None) -> None:
        books = self.books[of]
        seen = (
            list(books.tables) if self._sees else [name for name in by[-1:] if what == "fork" and name in books.tables]
        )
        if what == "append" and not self._sees:
            seen = [name for name in by[:1] if name in books.tables]
        self._actions.append({"of": of, "what": what, "by": list(by), "named": named or {}, "look": seen})
        standing = {name: (books.lengths[name], len(books.tables[name])) for name in seen}
        tokens = (named or {}).get("n", (*by, 1)[1])
        seen_all = len(seen) == len(books.tables)
        self.expected.append(
            expected
            | {"of": of, "what": what, "by": by, "tokens": tokens, "free": books.free, "standing": standing}
            | {"all": seen_all}
        )

    def look_at_all(self) -> "Script":
        """At the end of a trace that sees little: the next action is one that looks at everything."""
        self._sees = True
        for of, books in enumerate(self.books):
            for name in list(books.tables)[:1]:
                self.length(name, of)
        return self

    def each_alone(self) -> list["Script"]:
        """This trace, and one for each of its allocators in which that one alone is asked, the same."""
        self.alone = tuple(self._of(number) for number in range(len(self.made)))
        return [self, *self.alone]

    def _of(self, number: int) -> "Script":
        alone = Script(self.made[number], sees=self._sees, spoils=self._spoils)
        for action in self._actions:
            if action["of"] == number:
                getattr(alone, action["what"])(*action["by"], **action["named"])
        return alone

    def inputs(self) -> dict:
        return {"made": [list(sizes) for sizes in self.made], "actions": self._actions, "spoils": self._spoils}
