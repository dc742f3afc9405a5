"""Reads a submission, its cells and the Python files beside it, before any of it runs."""

import ast
import warnings
from collections.abc import Iterator
from itertools import chain, islice

from nbformat import NotebookNode

from autograder.core.flag import Flag
from autograder.flags.beside import Beside
from autograder.flags.names import Names
from autograder.flags.reader import in_magics, read
from autograder.flags.rules.rule import Found
from autograder.protocol.channel import MOST_CODE

MOST_READ = 256 * 1024
"""Characters of a submission that are read; what is longer is flagged as a whole."""
MOST_FLAGS = 200
_TOO_DEEP = "expressions nested too deeply"


def flags_of(name: str, notebook: NotebookNode, beside: Beside | None = None) -> list[Flag]:
    """What to look at in the cells that a learner may change and in the files beside. ``name``: the notebook's."""
    beside = beside or Beside()
    sources: dict[str, str | bytes] = sources_of(notebook) | dict(beside.sources)
    if sum(map(len, sources.values())) > MOST_READ:
        return [Flag(name, "all cells", 1, "unreadable", f"more than {MOST_READ:,} characters", "")]
    found = islice(chain(_of_files(beside), _of_code(sources, _courses(notebook), beside.modules)), MOST_FLAGS)
    return [
        Flag(name, place, line, kind, what, _line(sources.get(place, ""), line)) for place, (line, kind, what) in found
    ]


def sources_of(notebook: NotebookNode) -> dict[str, str]:
    """The text of each cell of code that a learner may change, by its grade_id, or as ``cell 3``, from 1."""
    return {
        cell.metadata.get("nbgrader", {}).get("grade_id") or f"cell {number}": cell.source
        for number, cell in enumerate(notebook.cells, 1)
        if cell.cell_type == "code" and not _is_the_courses(cell)
    }


def _courses(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and _is_the_courses(cell)]


def _of_files(beside: Beside) -> Iterator[tuple[str, Found]]:
    for path in beside.compiled:
        yield path, (1, "unreadable", path)
    for path in beside.namesakes:
        yield path, (1, "patch", path)


def _of_code(
    sources: dict[str, str | bytes], courses: list[str], modules: frozenset[str]
) -> Iterator[tuple[str, Found]]:
    """Place, and what was found there. What is no Python is left out: it does not run either.

    ``courses``: cells that are the course's own. They are not read, and say what a name stands for.
    """
    trees: dict[str, ast.Module] = {}
    for place, source in sources.items():
        try:
            trees[place] = _tree(source)
        except (SyntaxError, ValueError):
            continue
        except (RecursionError, MemoryError):
            yield place, (1, "unreadable", _TOO_DEEP)
    try:
        every = [*map(_tree, courses), *trees.values()]
        names = Names([*every, *(inner for tree in every for inner in in_magics(tree))])
        yield from ((place, one) for place, tree in trees.items() for one in read(tree, names, modules))
    except RecursionError:
        yield next(iter(trees)), (1, "unreadable", _TOO_DEEP)


def _tree(source: str | bytes) -> ast.Module:
    """Of a file's bytes as Python decodes them, by the encoding that they name. Raises SyntaxError and what ``ast`` raises."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(source)
        except SyntaxError:
            if isinstance(source, bytes):
                raise
        # A third of a second, for the few cells with magics.
        from IPython.core.inputtransformer2 import TransformerManager

        return ast.parse(TransformerManager().transform_cell(source))


def _is_the_courses(cell: NotebookNode) -> bool:
    """Whether it was put back as it was released."""
    nbgrader = cell.metadata.get("nbgrader", {})
    return not nbgrader.get("solution") and bool(nbgrader.get("grade") or nbgrader.get("locked"))


def _line(source: str | bytes, number: int) -> str:
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    return "".join(text.split("\n")[number - 1 : number]).strip()[:MOST_CODE]
