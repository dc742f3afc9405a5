"""Reads a submission, its cells and the Python files beside it, before any of it runs."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from nbformat import NotebookNode
from nbgrader.utils import is_locked

from autograder.core.flag import Flag
from autograder.flags.names import Names
from autograder.flags.reader import Found, read

MOST_READ = 1024**2
"""Characters of a submission that are read; what is longer is flagged as a whole."""
MOST_FLAGS = 200


def flags_of(name: str, notebook: NotebookNode, beside: Mapping[str, str] = MappingProxyType({})) -> list[Flag]:
    """What to look at in the cells that a learner may change, and in ``beside``: the text of Python files by relative path.

    ``name``: the notebook's.
    """
    sources = dict(_sources(notebook)) | dict(beside)
    if sum(map(len, sources.values())) > MOST_READ:
        return [Flag(name, "all cells", 1, "unreadable", f"more than {MOST_READ:,} characters", "")]
    trees = {place: tree for place, source in sources.items() if (tree := _tree(source)) is not None}
    names, modules = Names(trees.values()), frozenset(map(_module, beside))
    flags = (
        Flag(name, place, line, kind, what, _line(sources[place], line))
        for place, tree in trees.items()
        for line, kind, what in _found(tree, names, modules)
    )
    return list(islice(flags, MOST_FLAGS))


def python_files(folder: Path) -> dict[str, str]:
    """The text of those in a folder, by relative path; bytes that are no UTF-8 are replaced."""
    return {
        str(path.relative_to(folder)): path.read_bytes()[: MOST_READ + 1].decode("utf-8", "replace")
        for path in sorted(folder.rglob("*.py"))
        if path.is_file() and not path.is_symlink()
    }


def _sources(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "code" and not is_locked(cell):
            yield cell.metadata.get("nbgrader", {}).get("grade_id") or f"cell {number}", cell.source


def _tree(source: str) -> ast.Module | None:
    """None of what is no Python: it does not run either."""
    try:
        return _parsed(source)
    except SyntaxError:
        pass
    except (ValueError, RecursionError, MemoryError):
        return None
    from IPython.core.inputtransformer2 import TransformerManager  # a third of a second, for the few cells with magics

    try:
        return _parsed(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parsed(source: str) -> ast.Module:
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source)


def _found(tree: ast.Module, names: Names, modules: frozenset[str]) -> list[Found]:
    try:
        return read(tree, names, modules)
    except RecursionError:
        return [(1, "unreadable", "expressions nested too deeply")]


def _module(path: str) -> str:
    """By which name a file beside the notebook is imported."""
    return path.partition("/")[0].removesuffix(".py")


def _line(source: str, number: int) -> str:
    lines = source.split("\n")
    return lines[number - 1].strip()[:160] if number <= len(lines) else ""
