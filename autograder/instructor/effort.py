"""Estimates the minutes that an exercise takes, by one rule from its text and criteria (not measured)."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from autograder.core.exercise import find
from autograder.notebooks.cells import exercises_of, solution_of
from autograder.selfcheck.chapters import Chapter
from gpulab.book.length import WORDS_A_MINUTE

MINUTES_A_STATEMENT = 2
"""Of the reference solution, to find it and to write it."""
MINUTES_A_CRITERION = 3
"""To find out that it is not met, and why."""
STEP = 5


@dataclass(frozen=True)
class Effort:
    """One exercise: ``minutes`` by the rule, rounded up to five, its points, and the section that it needs."""

    name: str
    minutes: int
    points: float
    needs: str


def efforts(folder: Path) -> list[Effort]:
    """Of the exercises of a chapter, in the order of its notebook. ``folder``: ``exercises/<chapter>``."""
    chapter = Chapter(folder)
    return [
        Effort(name, minutes(chapter.notebook, name), points, chapter.help(name.partition(".")[2]).read)
        for _, name, points in exercises_of(chapter.notebook)
    ]


def minutes(notebook: NotebookNode, name: str) -> int:
    """To read the statement, to write what the reference holds, and to meet each criterion."""
    function = name.partition(".")[2]
    work = (
        words_of(notebook, function) / WORDS_A_MINUTE
        + MINUTES_A_STATEMENT * statements(solution_of(notebook, function))
        + MINUTES_A_CRITERION * len(find(name).criteria)
    )
    return STEP * -(-int(work) // STEP)


def statements(source: str) -> int:
    """Of Python, docstrings aside."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def words_of(notebook: NotebookNode, function: str) -> int:
    """Of the text cells that stand before a solution and after the cell of code before it."""
    place = next(
        at for at, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == function
    )
    words = 0
    while place and notebook.cells[place - 1].cell_type == "markdown":
        place -= 1
        words += len(re.findall(r"\w+", notebook.cells[place].source))
    return words
