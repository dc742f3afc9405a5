"""The book's table of contents: which chapters stand in it, and which are drafts.

A draft has its number in ``meta: chapters:`` of ``_toc.yml`` and no place among its ``parts:``. Its files lie where every
chapter's lie; neither the site, nor the demo, nor the tests, nor the wheels take them up.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

FILE = "_toc.yml"


@dataclass(frozen=True)
class Contents:
    """``pages``: what the book shows, in its order, as ``chapters/tensors/views``. ``numbers``: of chapters, drafts included."""

    pages: tuple[str, ...]
    numbers: dict[str, int]

    @classmethod
    def read(cls, root: Path) -> "Contents":
        """Of the repository in the folder ``root``. Raises FileNotFoundError without a ``_toc.yml``."""
        said = yaml.safe_load((root / FILE).read_text("utf-8"))
        shown = [said["root"], *(entry["file"] for part in said["parts"] for entry in part["chapters"])]
        return cls(tuple(shown), said["meta"]["chapters"])

    @property
    def chapters(self) -> dict[str, int]:
        """The numbers of the chapters in the book by their names, as ``{"views": 1}``."""
        return {Path(page).name: number for page, number in self.numbers.items() if page in self.pages}

    @property
    def drafts(self) -> dict[str, int]:
        """The numbers of the chapters that are not in the book, by their names."""
        return {Path(page).name: number for page, number in self.numbers.items() if page not in self.pages}
