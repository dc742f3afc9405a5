"""The forms of an exercise's misconceptions as functions that can be called where nothing of a learner's runs.

A form is a cell: what it names of the cells above it comes from the chapter's notebook, and only that is executed.
"""

import ast
import builtins
import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from symtable import symtable
from typing import Any, NoReturn

from autograder.core.exercise import Outline
from autograder.core.layout import NOTEBOOK, ROOT
from autograder.misconceptions.corpus import CORPUS, Attempt, attempts_at
from autograder.protocol.absent import absent, missing


def forms(chapter: Path, function: str) -> list[Attempt]:
    """The wrong attempts at a function that say a misconception, in the order of the corpus; none where it is not there."""
    path = chapter / CORPUS
    return [one for one in attempts_at(path, function) if one.says] if path.is_file() else []


def lost_by_itself(exercise: Outline, form: Attempt) -> set[str]:
    """The criteria that a form loses by what it does: of others, which require one of these, nobody knows."""
    requires = {criterion.name: criterion.requires for criterion in exercise.criteria}
    return {name for name in form.loses if not {*form.loses} & {*requires[name]}}


def chapter_of(exercise: Outline) -> Path:
    """The folder of its chapter."""
    return ROOT / "exercises" / exercise.name.partition(".")[0]


def forms_to_ask(exercise: Outline, lost: Collection[str], own: Collection[str]) -> list[Attempt]:
    """Those of its corpus that are :func:`worth_asking`."""
    return worth_asking(exercise, forms(chapter_of(exercise), exercise.name.partition(".")[2]), lost, own)


def worth_asking(exercise: Outline, forms: list[Attempt], lost: Collection[str], own: Collection[str]) -> list[Attempt]:
    """Those that lose nothing which was earned, if together they lose all that was lost: else no name is certain.

    ``lost``: what was not earned; ``own``: those of it that a judge saw lost, not only what they require.
    """
    found = [form for form in forms if {*form.loses} <= {*lost} and lost_by_itself(exercise, form) <= {*own}]
    return found if {*own} <= {name for form in found for name in form.loses} else []


def as_function(form: Attempt, chapter: Path, libraries: Collection[str] | None = None) -> Callable:
    """The form, with names of its own: nothing that it changes is seen by another. Raises what its cell raises.

    ``libraries``: the only ones that are there when it is called, beside Python's own modules; None: all.
    """
    there = dict(vars(builtins))
    namespace: dict = {"__name__": "__main__", "__builtins__": there}
    tree = ast.parse(form.source)
    above = ast.Module(_needed(form, tree, chapter), [])
    there["__import__"] = _importing(libraries, absent)
    for part in (above, tree):
        exec(compile(part, f"<{form.name}>", "exec"), namespace)
    there["__import__"] = _importing(libraries, _refuse)
    return namespace[form.function]


def _importing(libraries: Collection[str] | None, else_: Callable[[str], Any]) -> Callable:
    """What imports there. A notebook that imports others is no fault: only to use them is, or to import them when called."""

    def import_(name: str, *further: Any) -> Any:
        top = name.partition(".")[0]
        if libraries is None or top in libraries or top in sys.stdlib_module_names:
            return __import__(name, *further)
        return else_(top)

    return import_


def _refuse(name: str) -> NoReturn:
    raise missing(name)


def _needed(form: Attempt, tree: ast.Module, chapter: Path) -> list[ast.stmt]:
    """The notebook's statements above the function that bind what the form names, and what those name in turn."""
    chosen, todo = set[int](), _names(form.source) - _binds(tree)
    above = _above(chapter, form.function) if todo else []
    while todo:
        found = {at for at, statement in enumerate(above) if _binds(statement) & todo} - chosen
        chosen |= found
        todo = {name for at in found for name in _names(ast.unparse(above[at]))}
    return [above[at] for at in sorted(chosen)]


def _above(chapter: Path, function: str) -> list[ast.stmt]:
    statements = _statements(chapter)
    defined = [at for at, one in enumerate(statements) if isinstance(one, ast.FunctionDef) and one.name == function]
    return statements[: defined[0]] if defined else []


@cache
def _statements(chapter: Path) -> list[ast.stmt]:
    """Those of the chapter's notebook: its text, or in a marker's wheel the notebook that was made of it."""
    if (text := chapter / NOTEBOOK).is_file():
        return ast.parse(text.read_text("utf-8")).body
    notebook = json.loads((chapter / f"{chapter.name}.ipynb").read_text("utf-8"))
    sources = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return [statement for source in sources for statement in _parsed(source)]


def _parsed(source: str) -> Iterator[ast.stmt]:
    """None of a cell that is no Python, as one with a magic command is."""
    with contextlib.suppress(SyntaxError):
        yield from ast.parse(source).body


def _names(source: str) -> set[str]:
    """The global names that a cell asks for, in a function's body too."""
    tables, asked = [symtable(source, "<cell>", "exec")], set[str]()
    for table in tables:
        tables += table.get_children()
        here = table.get_type() == "module"
        asked |= {one.get_name() for one in table.get_symbols() if one.is_referenced() and (here or one.is_global())}
    return {name for name in asked if not hasattr(builtins, name)}


def _binds(tree: ast.AST) -> set[str]:
    """The names that statements bind where they stand: those inside a function or a class are its own."""
    if isinstance(tree, ast.FunctionDef | ast.ClassDef):
        return {tree.name}
    if isinstance(tree, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in tree.names}
    if isinstance(tree, ast.Name):
        return {tree.id} if isinstance(tree.ctx, ast.Store) else set()
    if isinstance(tree, ast.Lambda):
        return set()
    return {name for child in ast.iter_child_nodes(tree) for name in _binds(child)}
