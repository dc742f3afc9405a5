"""What a marker knows of each chapter: its notebook with solutions, its hints, what to read again."""

import re
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

from autograder.core.layout import NOTEBOOK, ROOT
from autograder.core.published import site_address
from autograder.notebooks.cells import exercises_of, solution_of
from autograder.selfcheck.packed import SITE, is_packed


@dataclass(frozen=True)
class Help:
    """For one function: the title of the section to read again, and the hints, the gentler first."""

    read: str
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Chapter:
    """One chapter's exercises; ``folder`` holds its notebook and its ``hints.yml``."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def notebook(self) -> NotebookNode:
        """The author's: solutions and hidden tests included."""
        packed = self.folder / f"{self.name}.ipynb"
        if packed.exists():
            return nbformat.read(packed, as_version=4)
        from autograder.authoring.text import read_text_notebook

        return read_text_notebook(self.folder / NOTEBOOK)

    @cached_property
    def said(self) -> dict:
        """What stands in ``hints.yml``."""
        return yaml.safe_load((self.folder / "hints.yml").read_text("utf-8"))

    @property
    def title(self) -> str:
        return self.said["title"]

    @property
    def functions(self) -> dict[str, str]:
        """The graded functions' names by the grade_id of the cell that grades them, in order."""
        return {grade_id: name.partition(".")[2] for grade_id, name, _ in exercises_of(self.notebook)}

    def help(self, function: str) -> Help:
        said = self.said["functions"][function]
        return Help(said["read"], tuple(said["hints"]))

    def solution(self, function: str) -> str:
        return solution_of(self.notebook, function)

    def released(self) -> dict[str, NotebookNode]:
        """Fresh copies of the cells that carry a grade_id, in order, hidden tests included."""
        cells = [deepcopy(cell) for cell in self.notebook.cells if "nbgrader" in cell.metadata]
        return {cell.metadata["nbgrader"]["grade_id"]: cell for cell in cells}

    def where(self, section: str, published: bool = False) -> str:
        """The address of a section of the chapter's page; empty where no site is known. ``published``: not on this disk."""
        page, anchor = f"chapters/{self.said['page']}.html", anchor_of(section)
        if site := _site():
            return f"{site.rstrip('/')}/{page}#{anchor}"
        built = ROOT / "_build" / "html" / page
        return f"{built.as_uri()}#{anchor}" if built.exists() and not published else ""


def anchor_of(section: str) -> str:
    """The id that the site gives to a heading."""
    return re.sub(r"[^a-z0-9]+", "-", section.lower()).strip("-")


def chapters() -> list[Chapter]:
    """Those that this installation can mark, by name."""
    return [Chapter(path.parent) for path in sorted((ROOT / "exercises").glob("*/hints.yml"))]


def chapters_in_the_book() -> list[Chapter]:
    """Those of the repository that are no drafts, by name."""
    from autograder.authoring.drafts import in_the_book

    shown = in_the_book(ROOT / "exercises")
    return [chapter for chapter in chapters() if chapter.name in shown]


def _site() -> str:
    """The address of the published book, from the wheel or from ``_config.yml``; empty while there is none."""
    if is_packed():
        return SITE.read_text("utf-8").strip()
    return site_address(ROOT)
