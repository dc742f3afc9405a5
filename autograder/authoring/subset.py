"""``python -m autograder source --only``: some of a chapter's exercises as an assignment of their own."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from autograder.authoring.pipeline import as_source, chapters
from autograder.authoring.text import read_text_notebook
from autograder.core.layout import NOTEBOOK
from autograder.notebooks.cells import exercises_of


def write_subset(exercises: Path, names: list[str], assignment: str, course: Path) -> Path:
    """Write ``source/<assignment>/`` with the exercises ``<chapter>.<function>`` of one chapter alone.

    An exercise is what stands after the graded cell before it, up to its own. Raises LookupError for a name that the
    chapter does not grade, and for names of more chapters than one.
    """
    if not names or not re.fullmatch(r"[A-Za-z0-9_-]+", assignment):
        raise LookupError(
            "--only CHAPTER.EXERCISE ... and --name NAME are needed, the name of letters, digits, _ and -"
        )
    chapter, *others = dict.fromkeys(name.partition(".")[0] for name in names)
    if others:
        raise LookupError(f"the exercises are of {chapter} and {', '.join(others)}: an assignment has one chapter's")
    if assignment in chapters(exercises):
        raise LookupError(f"{assignment!r} is a chapter: give the assignment a name of its own")
    path = exercises / chapter / NOTEBOOK
    notebook = read_text_notebook(path) if path.exists() else nbformat.v4.new_notebook()
    graded = {grade_id: name for grade_id, name, _ in exercises_of(notebook)}
    if unknown := [name for name in names if name not in graded.values()]:
        raise LookupError(f"no exercise {', '.join(unknown)}; there are: {', '.join(graded.values()) or 'none'}")
    notebook.cells = list(_kept(notebook.cells, graded, names))
    target = course / "source" / assignment / f"{assignment}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(nbformat.writes(as_source(notebook, exercises / chapter)))
    return target


def _kept(cells: list, graded: dict[str, str], names: list[str]) -> Iterator:
    """The cells before the first exercise's heading, and those of the exercises with these names."""
    group: list = []
    begun = False
    for cell in cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            if not begun:
                yield from group
                group = []
            begun = True
        group.append(cell)
        name = graded.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if name:
            yield from group if name in names else ()
            group = []
