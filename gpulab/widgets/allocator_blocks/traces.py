"""Traces of the caching allocator, written out: what is asked for and freed, on a card so small that a trace is short."""

import re
from dataclasses import dataclass

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MALLOC = re.compile(r"(?P<name>\w+) = (?P<count>\d+) (?P<unit>B|KiB|MiB|GiB)(?: \+ (?P<more>\d+) B)?")


@dataclass(frozen=True)
class Trace:
    """actions: ``{"kind": "malloc", "bytes", "name"}``, ``{"kind": "free", "of": number of the malloc}`` or
    ``{"kind": "empty_cache"}``, each with its ``phase`` or none. capacity: bytes of the card. about: for the reader.
    """

    about: str
    capacity: int
    actions: tuple[dict, ...]

    def plain(self) -> dict:
        return {"about": self.about, "capacity": self.capacity, "actions": [dict(action) for action in self.actions]}


def written(about: str, capacity: int, lines: str) -> Trace:
    """A trace of statements between semicolons: ``a = 8 MiB``, ``b = 1 MiB + 1 B``, ``del a`` and ``empty_cache()``.

    Raises:
        ValueError: for another statement. KeyError: for a ``del`` of what no statement before it made.
    """
    actions, made = [], {}
    for number, line in enumerate(line.strip() for line in lines.split(";")):
        found = _MALLOC.fullmatch(line)
        if found:
            made[found["name"]] = number
            nbytes = int(found["count"]) * UNITS[found["unit"]] + int(found["more"] or 0)
            actions.append({"kind": "malloc", "bytes": nbytes, "name": found["name"]})
        elif line.startswith("del "):
            actions.append({"kind": "free", "of": made.pop(line.removeprefix("del "))})
        elif line == "empty_cache()":
            actions.append({"kind": "empty_cache"})
        else:
            raise ValueError(f"{line!r} is no action of a trace")
    return Trace(about, capacity, tuple(actions))


MIB = UNITS["MiB"]
WRITTEN = {
    "rounding and pools": written(
        "Requests are rounded up to 512 B. Up to 1 MiB they share segments of 2 MiB in the small pool; "
        "above it the large pool has them.",
        80 * MIB,
        "a = 1 B; b = 700 B; c = 200 KiB; d = 1 MiB; e = 1 MiB; f = 1 MiB + 1 B; g = 9 MiB; h = 10 MiB; "
        "i = 10 MiB + 1 B; j = 11 MiB + 1 B; del b; k = 513 B",
    ),
    "split and merge": written(
        "A free block is split when enough of it remains, and merged with a free neighbour. "
        "A segment is never merged with another.",
        80 * MIB,
        "a = 8 MiB; b = 4 MiB; c = 6 MiB; d = 2 MiB; del a; del c; e = 5 MiB; del b; del e; del d; f = 12 MiB",
    ),
    "fragmentation": written(
        "A card of 40 MiB is full of tensors of 5 MiB. Every other one is freed, then 8 MiB are asked for.",
        40 * MIB,
        "a = 5 MiB; b = 5 MiB; c = 5 MiB; d = 5 MiB; e = 5 MiB; f = 5 MiB; g = 5 MiB; h = 5 MiB; "
        "del a; del c; del e; del g; i = 8 MiB; empty_cache(); del b; i = 8 MiB",
    ),
    "what empty_cache returns": written(
        "empty_cache() gives back segments that hold no live block, and no part of another. "
        "A malloc that finds no room does the same by itself.",
        60 * MIB,
        "a = 24 MiB; b = 4 MiB; c = 6 MiB; d = 100 KiB; del a; del c; empty_cache(); del b; empty_cache(); "
        "e = 30 MiB; del e; f = 40 MiB",
    ),
    "lengths that grow": written(
        "Each of five batches is longer than the one before it and is freed before the next comes: "
        "no cached segment holds it. The sixth is shorter.",
        400 * MIB,
        "w = 12 MiB; a = 22 MiB; del a; b = 24 MiB; del b; c = 26 MiB; del c; d = 28 MiB; del d; e = 30 MiB; del e; "
        "f = 23 MiB; del f; empty_cache()",
    ),
}
