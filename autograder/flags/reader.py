"""Reads the syntax tree of a cell for what no honest answer needs, the code in its magics and texts included."""

import ast
from collections.abc import Iterator

from autograder.flags import allowed, magics
from autograder.flags.names import Names
from autograder.flags.rules.attributes import Attributes
from autograder.flags.rules.classes import Classes
from autograder.flags.rules.libraries import Libraries
from autograder.flags.rules.memory import Memory
from autograder.flags.rules.rule import Found, Read
from autograder.flags.rules.texts import Texts

RULES = (Libraries, Attributes, Classes, Memory, Texts)


def read(tree: ast.Module, names: Names, beside: frozenset[str] = frozenset()) -> list[Found]:
    """What there is to look at. ``beside``: modules that lie beside the notebook, and are read like it."""
    found = list(_inside(tree, names, beside))
    for rule in RULES:
        reading = Read(names, beside)
        rule(reading).visit(tree)
        found += reading.found
    return sorted(set(found))


def in_magics(tree: ast.Module) -> list[ast.Module]:
    """The trees of the code in its magics, which binds names of the notebook's."""
    said = (magics.said_by(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [ast.parse(code) for code, _ in filter(None, said) if code]


def _inside(tree: ast.Module, names: Names, beside: frozenset[str]) -> Iterator[Found]:
    """What is found in code that stands in a text; a text that is to be run and cannot be read is found itself."""
    for node, first, code, name in _codes(tree, names):
        if code is None:
            yield node.lineno, "dynamic", name
            continue
        for line, kind, what in read(ast.parse(code), names, beside):
            yield node.lineno + first + line - 1, kind, what


def _codes(tree: ast.Module, names: Names) -> Iterator[tuple[ast.AST, int, str | None, str]]:
    """Node, how many of its lines come before the code, the code (None: other than Python, or nobody knows), its name."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if said := magics.said_by(call):
            code, name = said
            yield call, int(name.startswith("%%")), code, name
        for path in names.paths(call.func) & allowed.MADE_OF_TEXT:
            yield from ((text, 0, _code(text), path) for text in _texts(call))
    for part in ast.walk(tree):
        annotation = getattr(part, "annotation", None) or getattr(part, "returns", None)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            yield annotation, 0, _code(annotation), annotation.value


def _texts(call: ast.Call) -> list[ast.AST]:
    return [*call.args[:2], *(word.value for word in call.keywords if word.arg in ("stmt", "setup"))]


def _code(node: ast.AST) -> str | None:
    """Of a function, which is read where it is defined, none."""
    if isinstance(node, ast.Lambda):
        return ""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text and magics.is_code(node.value) else None
