"""E19.2's rules: what must hold after every action, by the tables that an allocator showed and a memory of the referee's own."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import count
from typing import Any

from autograder.judge.expect import type_name

Tables = dict[Hashable, list[int]]


@dataclass
class Stand:
    """What an allocator said of itself. Of a sequence that was not looked at, what was seen of it last."""

    free: int
    lengths: dict[Hashable, int]
    tables: Tables

    def goes_on(self, expected: dict, now: "Stand") -> None:
        """What is known after an action: of who was looked at, what was seen; of who has gone, nothing."""
        self.free = now.free
        self.lengths.update(now.lengths)
        self.tables.update(now.tables)
        if expected["what"] == "release" and "raises" not in expected:
            self.lengths.pop(expected["by"][0], None)
            self.tables.pop(expected["by"][0], None)


@dataclass(frozen=True)
class Moment:
    """One action on one allocator. ``after``: of the sequences that were looked at. ``stood``: how it stood before."""

    total: int
    size: int
    expected: dict
    returned: Any
    stood: Stand
    now: Stand

    @property
    def before(self) -> Tables:
        return self.stood.tables

    @property
    def after(self) -> Tables:
        return self.now.tables

    @property
    def seq(self) -> Hashable:
        return self.expected["by"][0]

    @property
    def appended(self) -> bool:
        return self.expected["what"] == "append" and "raises" not in self.expected

    @property
    def length_before(self) -> int:
        """Of the sequence that was written to."""
        return self.expected["standing"][self.seq][0] - self.tokens

    @property
    def tokens(self) -> int:
        return self.expected["tokens"]


class Memory:
    """The cache: a cell for each place of a block. Carries out copies and writes, and reads every sequence."""

    def __init__(self) -> None:
        self._cells: dict[int, dict[int, int]] = {}
        self._tokens: dict[Hashable, list[int]] = {}
        self._serial = count()

    def follow(self, moment: Moment) -> None:
        expected = moment.expected
        if "raises" in expected:
            return
        if expected["what"] == "append":
            self._append(moment)
        elif expected["what"] == "fork":
            self._tokens[expected["by"][1]] = list(self._tokens[moment.seq])
        elif expected["what"] == "release":
            del self._tokens[moment.seq]

    def _append(self, moment: Moment) -> None:
        for source, target in moment.returned if _are_copies(moment.returned, moment.total) else ():
            self._cells[target] = dict(self._cells.get(source, {}))
        own, table = self._tokens.setdefault(moment.seq, []), moment.after[moment.seq]
        for place in range(len(own), len(own) + moment.tokens):
            own.append(next(self._serial))
            if place // moment.size < len(table):
                self._cells.setdefault(table[place // moment.size], {})[place % moment.size] = own[-1]

    def reads(self, seq: Hashable, table: list[int], size: int) -> bool:
        """Whether a sequence finds its own tokens."""
        own = self._tokens[seq]
        return len(table) * size >= len(own) and all(
            self._cells.get(table[place // size], {}).get(place % size) == token for place, token in enumerate(own)
        )


def kind_problem(looked: dict, total: int) -> str | None:
    """Why what an allocator says of itself cannot be compared, or None."""
    if type(looked["free"]) is not int:
        return f"`free` is {type_name(looked['free'])}; expected a property that is a Python integer."
    for length, table in looked["sequences"]:
        if type(length) is not int:
            return f"`length` returned {type_name(length)}; expected a Python integer."
        if not isinstance(table, list):
            return f"`table` returned {type_name(table)}; expected a list of Python integers."
        if not _are_blocks(table, total):
            return "A table names something that is no block: Python integers from 0 to total - 1 are due."
    return None


def _are_blocks(values: list, total: int) -> bool:
    return all(type(block) is int and 0 <= block < total for block in values)


def _are_copies(value: Any, total: int) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(pair, list) and len(pair) == 2 and _are_blocks(pair, total) for pair in value)


def lengths(moment: Moment, memory: Memory) -> str | None:
    if any(moment.now.lengths[name] != length for name, (length, _) in moment.expected["standing"].items()):
        return "`length` is not the number of tokens that room was made for."
    return None


def room(moment: Moment, memory: Memory) -> str | None:
    for name, (_, blocks) in moment.expected["standing"].items():
        if len(moment.after[name]) > blocks:
            return (
                "A sequence holds more blocks than its tokens fill: it may waste `size` - 1 places at most, and takes a block "
                "when a token needs it."
            )
        if len(moment.after[name]) < blocks:
            return "A sequence has fewer blocks in its table than its tokens fill."
        if len(set(moment.after[name])) != blocks:
            return "A table names a block twice."
    return None


def free(moment: Moment, memory: Memory) -> str | None:
    if moment.now.free < moment.expected["free"]:
        return "`free` is too small: a block in several tables is taken once, and is free at once when the last of them has gone."
    if moment.now.free > moment.expected["free"]:
        return "`free` is too large: a block is free when no table names it any more, and not before."
    named = {block for table in moment.after.values() for block in table}
    if moment.expected["all"] and len(named) != moment.total - moment.expected["free"]:
        return "`free` is right, and the tables name another number of blocks than the others: some are given to two, or lost."
    return None


def tokens(moment: Moment, memory: Memory) -> str | None:
    if not all(memory.reads(name, table, moment.size) for name, table in moment.after.items()):
        return (
            "A sequence does not read its own tokens: someone wrote over them, or its table leads to a block to which they were "
            "never copied."
        )
    return None


def unshared(moment: Moment, memory: Memory) -> str | None:
    if not moment.appended:
        return None
    first, last = moment.length_before // moment.size, -(-(moment.length_before + moment.tokens) // moment.size)
    if len(moment.after[moment.seq]) < last:
        return "A sequence has fewer blocks in its table than its tokens fill: there is nothing to write into."
    written = set(moment.after[moment.seq][first:last])
    if any(written & set(table) for name, table in (moment.before | moment.after).items() if name != moment.seq):
        return (
            "A block was written that stands in another table too. Who writes into a shared block needs a copy first, parent or "
            "child, also where the other reads other places of it."
        )
    return None


def copies(moment: Moment, memory: Memory) -> str | None:
    expected, after = moment.expected, moment.after
    if (
        expected["what"] == "fork"
        and "raises" not in expected
        and after[expected["by"][1]] != moment.before[moment.seq]
    ):
        return "A fork is due to share every block of its parent, and to take none."
    if not moment.appended:
        return others_kept(moment, memory)
    if not _are_copies(moment.returned, moment.total):
        told = "a list of something else" if isinstance(moment.returned, list) else type_name(moment.returned)
        return f"`append` returned {told}; expected a list of tuples (source, target), and an empty one where nothing is copied."
    own, at = moment.before.get(moment.seq, []), moment.length_before // moment.size
    if expected["copied"] and not moment.returned:
        return "A copy is due before anyone writes into a last block that others have too, and none was returned."
    if moment.returned and not expected["copied"]:
        return (
            "Something is copied that need not be: only a last block that is partly filled and stands in another table too is "
            "copied, and the last that has it writes in place."
        )
    if expected["copied"] and moment.returned != [[*own[at : at + 1], *after[moment.seq][at : at + 1]]]:
        return (
            "The copies are not those that are due: one, from the last block as it was to the one that takes its place in the "
            "table of who writes."
        )
    if expected["copied"] and any(after[moment.seq][at] in table for table in moment.before.values()):
        return "A block that is in use was taken as the target of a copy."
    kept = own[:at] if expected["copied"] else own
    if after[moment.seq][: len(kept)] != kept:
        return "A block of the sequence was replaced that no copy is due of."
    return others_kept(moment, memory)


def others_kept(moment: Moment, memory: Memory) -> str | None:
    mine = moment.seq if moment.appended else None
    for name, table in moment.after.items():
        if name in moment.before and name != mine and moment.before[name] != table:
            return "The table of a sequence changed that nothing was appended to."
    return None


def nothing_changed(moment: Moment, memory: Memory) -> str | None:
    """By what was seen before, after a call that raised."""
    if "raises" not in moment.expected:
        return None
    now, stood = moment.now, moment.stood
    if now.free != stood.free or any(stood.lengths.get(name) != length for name, length in now.lengths.items()):
        return "A call that is refused has changed what is free, or a length."
    if any(stood.tables.get(name) != table for name, table in now.tables.items()):
        return "A call that is refused has changed a table."
    return None


def crosstalk(beside: list[dict], alone: list[dict]) -> str | None:
    """By the steps of one allocator, asked the same with others beside it and without."""
    if [*map(_outcome, beside)] != [*map(_outcome, alone)]:
        return "An allocator answers otherwise when another one is used between its calls: something is kept outside the object."
    return None


def _outcome(step: dict) -> tuple:
    """What does not depend on which free blocks are taken."""
    looked, returned = step["looked"], step.get("returned")
    tables = [table for _, table in looked["sequences"]]
    sharing = [[other.count(block) for other in tables] for table in tables for block in table]
    lengths = [length for length, _ in looked["sequences"]]
    return "error" in step, isinstance(returned, list) and len(returned), looked["free"], lengths, sharing


Rule = Callable[[Moment, Memory], str | None]
