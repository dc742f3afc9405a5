"""What every rule knows while it walks through a syntax tree."""

import ast
from dataclasses import dataclass, field

from autograder.flags import allowed
from autograder.flags.names import Function, Names, bound_by

Found = tuple[int, str, str]
"""Line, from 1; kind; name."""


@dataclass(frozen=True)
class Read:
    """One tree. ``beside``: modules that lie beside the notebook, and are read like it."""

    names: Names
    beside: frozenset[str] = frozenset()
    found: list[Found] = field(default_factory=list)


class Rule(ast.NodeVisitor):
    """Walks a tree and adds what it finds to ``read.found``."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.names = read.names
        self.in_a_class = False
        self.selves: list[str] = []
        """What the methods around call the object that they belong to."""
        self.hidden: list[frozenset[str]] = []
        """What enclosing functions call by a library's name."""

    def flag(self, node: ast.AST, kind: str, name: str = "") -> None:
        """``name``: by default the code."""
        self.read.found.append((node.lineno, kind, (name or ast.unparse(node))[:80]))

    def paths(self, node: ast.AST) -> set[str]:
        return self.names.paths(node, self.hidden)

    def is_self(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.selves

    def visit_function(self, node: Function) -> None:
        outer = self.selves, self.in_a_class
        self.selves = self.selves + [one for one in own_object_of(node) if self.in_a_class]
        self.in_a_class = False
        self.hidden.append(bound_by(node))
        ast.NodeVisitor.generic_visit(self, node)
        self.hidden.pop()
        self.selves, self.in_a_class = outer

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, Function):
            self.visit_function(node)
        elif isinstance(node, ast.ClassDef):
            outer, self.in_a_class = self.in_a_class, True
            super().generic_visit(node)
            self.in_a_class = outer
        elif isinstance(node, ast.arguments):  # defaults are of the world outside
            inner, self.hidden = self.hidden, self.hidden[:-1]
            super().generic_visit(node)
            self.hidden = inner
        else:
            super().generic_visit(node)


def own_object_of(function: Function) -> list[str]:
    """What a method calls its own object; nothing where it gives the name to another, or is no method of an object."""
    plain = not any(ast.unparse(one) == "staticmethod" for one in getattr(function, "decorator_list", ()))
    given = {part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return [one.arg for one in function.args.args[:1] if plain and one.arg not in given]


def is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    known = name in allowed.PRIVATE or name.startswith(allowed.PRIVATE_PREFIX)
    return name.startswith("_") and not dunder and not known


def is_docstring(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant)
