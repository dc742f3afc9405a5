"""Requests of servers in production, from public traces: lengths, times and opaque ids, no text.

The files beside this one are excerpts; ``README.md`` there says of what, by whom and under which licence. What a client
asked for at most is in no trace: ``most`` is ours.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from gpulab.serving.requests import Request

FOLDER = Path(__file__).parent


def azure(kind: str, most: int = 2048) -> list[Request]:
    """The first 1,000 requests of Azure's trace of 2023, of "conversation" or "code". CC BY 4.0; cite Patel et al.,
    "Splitwise", ISCA 2024. Raises ValueError for another kind."""
    if kind not in ("conversation", "code"):
        raise ValueError(f"{kind!r}: Azure's traces are 'conversation' and 'code'")
    return [
        Request(f"{kind} {number}", float(us), int(prompt), max(most, int(writes)), int(writes))
        for number, (us, prompt, writes) in enumerate(_rows(f"azure-2023-{kind}.csv"))
    ]


def mooncake(most: int = 2048) -> list[Request]:
    """The first 900 requests of Mooncake's conversation trace, with the ids of shared prompt blocks. Arrivals are in steps
    of seconds. Apache 2.0; cite Qin et al., "Mooncake", FAST 2025."""
    return [
        Request(
            f"conversation {number}",
            1e3 * float(ms),
            int(prompt),
            max(most, int(writes)),
            int(writes),
            prefix=_ids(ranges),
        )
        for number, (ms, prompt, writes, ranges) in enumerate(_rows("mooncake-conversation.csv"))
    ]


def _rows(name: str) -> Iterator[list[str]]:
    """The lines under the head."""
    with open(FOLDER / name, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        yield from rows


def _ids(ranges: str) -> tuple[int, ...]:
    """``"0-2 7"`` is 0, 1, 2, 7."""
    ends = [[int(end) for end in piece.split("-")] for piece in ranges.split()]
    return tuple(number for piece in ends for number in range(piece[0], piece[-1] + 1))
