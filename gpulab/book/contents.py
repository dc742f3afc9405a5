"""The book's table of contents: which chapters stand in it, and which are drafts.

A draft has its number in ``meta: chapters:`` of ``_toc.yml``, or stands in ``meta: unnumbered:`` where it is a page without
one, and has no place among its ``parts:``. Its files lie where every chapter's lie; neither the site, nor the demo, nor the
tests, nor the wheels take them up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpulab.yaml_files import read_yaml

FILE = "_toc.yml"


@dataclass(frozen=True)
class Contents:
    """``pages``: what the book shows, in its order, as ``chapters/tensors/views``. ``numbers``: of chapters, drafts included.

    ``parts``: of the whole course, in order, each with the number of its first chapter, whether there are chapters of it or not.
    ``unnumbered``: pages among the chapters that have no number, drafts included.
    """

    pages: tuple[str, ...]
    numbers: dict[str, int]
    parts: dict[str, int] = field(default_factory=dict)
    unnumbered: tuple[str, ...] = ()

    @classmethod
    def read(cls, root: Path) -> "Contents":
        """Of the repository in the folder ``root``. Raises FileNotFoundError without a ``_toc.yml``."""
        said = read_yaml(root / FILE)
        shown = [said["root"], *(entry["file"] for part in said["parts"] for entry in part["chapters"])]
        return cls(
            tuple(shown),
            said["meta"]["chapters"],
            said["meta"].get("parts", {}),
            tuple(said["meta"].get("unnumbered", ())),
        )

    @property
    def chapters(self) -> dict[str, int]:
        """The numbers of the chapters in the book by their names, as ``{"views": 1}``."""
        return {Path(page).name: number for page, number in self.numbers.items() if page in self.pages}

    @property
    def drafts(self) -> dict[str, int]:
        """The numbers of the chapters that are not in the book, by their names."""
        return {Path(page).name: number for page, number in self.numbers.items() if page not in self.pages}

    @property
    def draft_pages(self) -> tuple[str, ...]:
        """All pages that are not in the book, as ``chapters/many_gpus/sharding``."""
        return tuple(page for page in (*self.numbers, *self.unnumbered) if page not in self.pages)

    @property
    def draft_names(self) -> frozenset[str]:
        """Their names, as ``sharding``."""
        return frozenset(Path(page).name for page in self.draft_pages)

    def part_of(self, number: int) -> int:
        """The part, from 1 on, that the chapter with this number belongs to."""
        return sum(first <= number for first in self.parts.values())


def in_words(numbers: Iterable[int]) -> str:
    """Of chapters, as ``chapters 1, 3 and 8 to 12``; ``planned`` where there are none."""
    said = spans(numbers)
    return f"chapter{'s' if ' ' in said else ''} {said}" if said else "planned"


def spans(numbers: Iterable[int]) -> str:
    """``1, 3 and 8 to 12``: three numbers or more in a row as one."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [word for run in runs for word in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:])))
