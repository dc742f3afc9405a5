"""What a marking found, as a terminal shows it. Imports nothing: the client of a marking service has no more than Python."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Mark:
    """One function's points, and a sentence for each thing that lost some."""

    function: str
    score: float
    max_score: float
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"  {self.function:<16} {self.score:>4g} of {self.max_score:g}"


@dataclass(frozen=True)
class Marks:
    """Those of a notebook. ``notes``: sentences on what happened on the way."""

    of: tuple[Mark, ...]
    notes: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        return sum(mark.score for mark in self.of)

    @property
    def max_score(self) -> float:
        return sum(mark.max_score for mark in self.of)

    def summary(self, columns: int) -> Iterator[str]:
        """Lines: the sum, the notes, what was lost."""
        yield f"{self.score:g} of {self.max_score:g} points"
        for note in self.notes:
            yield wrapped(note, columns)
        for mark in self.of:
            for sentence in mark.lost:
                yield wrapped(f"{mark.function}: {sentence}", columns)

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Marks":
        of = (Mark(one["function"], one["score"], one["max_score"], tuple(one["lost"])) for one in data["of"])
        return cls(tuple(of), tuple(data["notes"]))


def wrapped(sentence: str, columns: int) -> str:
    return textwrap.fill(sentence, columns, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
