"""E19.2's traces: what is asked of allocators, and what is due of it, whichever free blocks they take."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from autograder.core.sampler import Sampler


@dataclass(frozen=True)
class Stand:
    """How an allocator stands: for each sequence its length and its blocks, which are known by serial numbers never used again."""

    free: int
    sequences: dict[Hashable, tuple[int, tuple[int, ...]]]


@dataclass
class Books:
    """One allocator by numbers alone."""

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

    def stand(self) -> Stand:
        return Stand(self.free, {name: (self.lengths[name], tuple(table)) for name, table in self.tables.items()})

    def append(self, seq: Hashable, n: int = 1) -> str:
        """The exception that is due, or nothing; so of all calls."""
        if n < 1:
            return "ValueError"
        length, table = self.lengths.get(seq, 0), self.tables.get(seq, [])
        copied = length % self.size > 0 and self.users[table[-1]] > 1
        blocks = -(-(length + n) // self.size) - len(table) + copied
        if blocks > self.free:
            return "MemoryError"
        table = self.tables.setdefault(seq, [])
        if copied:
            self._leave(table.pop())
        new = [next(self._serial) for _ in range(blocks)]
        self.users.update(new)
        table += new
        self.lengths[seq] = length + n
        return ""

    def fork(self, parent: Hashable, child: Hashable) -> str:
        if parent not in self.tables:
            return "KeyError"
        if child in self.tables:
            return "ValueError"
        self.users.update(self.tables[parent])
        self.tables[child], self.lengths[child] = list(self.tables[parent]), self.lengths[parent]
        return ""

    def release(self, seq: Hashable) -> str:
        if seq not in self.tables:
            return "KeyError"
        for block in self.tables.pop(seq):
            self._leave(block)
        del self.lengths[seq]
        return ""

    def _leave(self, block: int) -> None:
        self.users[block] -= 1
        if not self.users[block]:
            del self.users[block]

    def table(self, seq: Hashable) -> str:
        return "" if seq in self.tables else "KeyError"

    length = table


@dataclass(frozen=True)
class Asked:
    """A call, the exception that is due of it, and how its allocator stands before and after."""

    of: int
    what: str
    by: tuple
    named: dict
    raises: str
    before: Stand
    after: Stand


class Script:
    """A trace: calls, and what is due of each.

    ``topics``: the criteria that it can earn. ``made``: total and size of each of its allocators. ``lists``: what the caller
    does to the lists that come back: nothing, ``spoils`` them at once, or ``keeps`` them to the end. ``twins``: the same calls
    without what is tried here; where they go right and this does not, it is for what is tried, and ``topics[0]`` is lost.
    """

    def __init__(self, topics: tuple[str, ...], *made: tuple[int, int], lists: str = "", says: str = "") -> None:
        self.topics, self.made, self.lists, self.says = topics, made, lists, says
        self.twins: tuple[Script, ...] = ()
        self.asked: list[Asked] = []
        self.needed: int | None = None
        """Calls that have to go right for the topics to be earned; then every sequence is released."""
        self.books = [Books(*sizes) for sizes in made]

    def append(self, seq: Hashable, *n: int, of: int = 0, **named: int) -> None:
        """``n`` by place, by name, or not at all."""
        self._ask(of, "append", seq, *n, **named)

    def fork(self, parent: Hashable, child: Hashable, of: int = 0) -> None:
        self._ask(of, "fork", parent, child)

    def release(self, seq: Hashable, of: int = 0) -> None:
        self._ask(of, "release", seq)

    def table(self, seq: Hashable, of: int = 0) -> None:
        self._ask(of, "table", seq)

    def length(self, seq: Hashable, of: int = 0) -> None:
        self._ask(of, "length", seq)

    def in_place(self, seq: Hashable) -> int:
        """Tokens that still go into the last block of a sequence."""
        return -self.books[0].lengths[seq] % self.books[0].size

    def _ask(self, of: int, what: str, *by: Any, **named: int) -> None:
        before = self.books[of].stand()
        raises = getattr(self.books[of], what)(*by, **named)
        self.asked.append(Asked(of, what, by, named, raises, before, self.books[of].stand()))

    def end(self, sampler: Sampler) -> "Script":
        """Release everybody: what is kept in a class by mistake then spoils no other trace."""
        self.needed = len(self.asked)
        for of, books in enumerate(self.books):
            for name in sampler.permutation(list(books.tables)):
                self.release(name, of)
        return self

    def beside(self, sampler: Sampler, *twins: "Script") -> list["Script"]:
        """This trace and its twins."""
        self.twins = tuple(twin.end(sampler) for twin in twins)
        return [*self.twins, self]

    def again(
        self,
        *made: tuple[int, int],
        which: Callable[[Asked], bool] = lambda asked: True,
        name: Callable[[Hashable], Hashable] = lambda name: name,
    ) -> "Script":
        """A twin, not yet at its end: those of its calls, by other names, on the allocator that is made."""
        twin = Script((), *made)
        for asked in self.asked[: self.needed]:
            if which(asked):
                names = 2 if asked.what == "fork" else 1
                twin._ask(0, asked.what, *map(name, asked.by[:names]), *asked.by[names:], **asked.named)
        return twin

    def inputs(self) -> dict:
        actions = [{"of": one.of, "what": one.what, "by": list(one.by), "named": one.named} for one in self.asked]
        for action, one in zip(actions, self.asked):
            action["look"] = list(one.after.sequences)
        return {"made": [list(sizes) for sizes in self.made], "actions": actions, "lists": self.lists}
