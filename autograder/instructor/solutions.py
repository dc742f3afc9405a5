"""A learner's solution cell as code for a corpus: what it does, and nothing of who wrote it."""

import ast
import builtins
import keyword
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from autograder.intake.names import PARSED_CHARACTERS

_WORD = re.compile(r"[^\W\d_]{2,}")
_PYTHON = frozenset(word for name in (*dir(builtins), *keyword.kwlist) for word in _WORD.findall(name.lower()))


class LeftOut(Exception):
    """Why a solution is no candidate, as ``that Python cannot read``."""


@dataclass(frozen=True)
class Solution:
    """``source``: without comments and docstrings. ``shape``: equal for solutions that differ in names of their own alone."""

    source: str
    shape: str


def solution(source: str, function: str) -> Solution:
    """Raises LeftOut."""
    try:
        tree = _without_docstrings(_parsed(source))
        written = Solution(ast.unparse(tree) + "\n", ast.dump(_renamed(tree, function)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LeftOut("that Python cannot read") from None
    if function not in _defined(tree):
        raise LeftOut("that define their function elsewhere")
    return written


def words(text: str) -> set[str]:
    """Of letters, two at least, in small ones: ``adas_patch`` holds ``adas`` and ``patch``."""
    return set(_WORD.findall(text.lower()))


class Names:
    """Those of a class; a word that is Python's or ``usual`` tells nobody."""

    def __init__(self, names: Collection[str], usual: Collection[str]) -> None:
        self._usual = _PYTHON | set(usual)
        self._words = {word for name in names for word in words(name)} - self._usual
        self._with_figures = [name.lower() for name in names if any(letter.isdigit() for letter in name)]

    def are_in(self, source: str) -> bool:
        """Whether it holds one, or a word of one."""
        told = words(source) - self._usual
        return any(_tells(word, name) for word in told for name in self._words) or any(
            name in source.lower() for name in self._with_figures
        )


def _tells(word: str, name: str) -> bool:
    """``adas`` tells ``ada``; a longer name is found within a word, too."""
    return name in word if len(name) > 3 else word in (name, f"{name}s")


def _parsed(source: str) -> ast.Module:
    if len(source) > PARSED_CHARACTERS:
        raise ValueError
    return ast.parse(source)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """Also without other texts that stand alone."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [one for one in body if not _is_text(one)] or ([ast.Pass()] if body else [])
    return tree


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _defined(tree: ast.Module) -> set[str]:
    """Names that its top level binds by a definition, an assignment or an import."""
    return {name for statement in tree.body for name in _bound_by(statement)}


def _renamed(tree: ast.Module, function: str) -> ast.Module:
    """Another tree, in which names of its own are numbers in the order of their first use."""
    own = {name for node in ast.walk(tree) for name in _bound_by(node)} - {function}
    numbers: dict[str, str] = {}
    copy = ast.parse(ast.unparse(tree))
    for node in ast.walk(copy):
        for attribute in _NAMES.get(type(node), ()):
            if (name := getattr(node, attribute)) in own:
                setattr(node, attribute, numbers.setdefault(name, f"name {len(numbers)}"))
    return copy


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)


_NAMES = {
    ast.FunctionDef: ("name",),
    ast.AsyncFunctionDef: ("name",),
    ast.ClassDef: ("name",),
    ast.arg: ("arg",),
    ast.Name: ("id",),
    ast.alias: ("asname",),
}
