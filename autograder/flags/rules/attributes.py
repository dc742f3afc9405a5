"""Attributes that lead behind an object: private ones, frames and code, and those that are looked up by a text."""

import ast

from autograder.flags import allowed
from autograder.flags.names import DYNAMIC, called_later, constant_name, looks_up
from autograder.flags.rules.rule import Read, Rule, is_private

_LOOKS_UP = ("getattr", "hasattr", "setattr", "delattr")


class Attributes(Rule):
    def __init__(self, read: Read) -> None:
        super().__init__(read)
        self._left_alone: set[int] = set()
        """Dictionaries of attributes that are read where they stand."""
        self._called: set[int] = set()
        self._of_self: set[int] = set()
        """Functions that are called with the object that a method belongs to."""

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in allowed.DUNDERS_READ:
            self.flag(node, "frames")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._sets_own(node):
            self._read(node, node.attr, self.paths(node), self.is_self(node.value))
        if ast.unparse(node) in self.names.methods and id(node) not in self._called:
            self.flag(node, "private")  # a method of one's own, on its way to another object
        if node.attr in allowed.READS_OF_A_DICTIONARY:
            self._left_alone.add(id(node.value))
        if node.attr == "__dict__":
            self._dictionary(node, node.value)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load):
            self._left_alone.add(id(node.value))
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            self._read(node, node.slice.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._left_alone.update(map(id, node.comparators))  # "name" in vars(x)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.comprehension) -> None:
        self._left_alone.add(id(node.iter))
        if self.hidden and looks_up(node.iter, ("dir",), 1):
            self.flag(node.iter, "dynamic")
        self.generic_visit(node)

    visit_comprehension = visit_For

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._read(node, name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._called.add(id(node.func))
        if node.args and self.is_self(node.args[0]):
            self._of_self.add(id(node.func))
        self._called.update(id(keyword.value) for keyword in node.keywords if keyword.arg == "key")
        for keyword in node.keywords:
            self._read(node, keyword.arg or "", own=True)
            if keyword.arg is None:
                self._left_alone.add(id(keyword.value))
        if isinstance(node.func, ast.Name) and node.func.id in allowed.COPIES:
            self._left_alone.update(map(id, node.args))
        if looks_up(node, ("super",)) and self.paths(node.args[0]):
            self.flag(node, "private")  # a library's method behind the one that takes its place
        if looks_up(node, ("vars",), 0):
            self._dictionary(node, *node.args)
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        for call in (node, *called_later(node)):
            if looks_up(call, _LOOKS_UP):
                self._looked_up(call)
        self.generic_visit(node)

    def _sets_own(self, node: ast.Attribute) -> bool:
        """``object.__setattr__(self, "n", 1)``, as a frozen dataclass does."""
        return node.attr == "__setattr__" and ast.unparse(node.value) == "object" and id(node) in self._of_self

    def _method(self, node: ast.Call, method: ast.Attribute) -> None:
        """``d.get("_met")``; ``Mine.forget(handed)``; ``handed.__init__()``."""
        if method.attr in allowed.BY_KEY and node.args and isinstance(node.args[0], ast.Constant):
            self._read(node, str(node.args[0].value))
        of_own = any(map(self.is_self, (method.value, *node.args[:1]))) or ast.unparse(method.value).startswith(
            "super("
        )
        anew = method.attr in allowed.ANEW
        if not of_own and (anew or node.args and ast.unparse(method) in self.names.methods):
            self.flag(node, "private")

    def _looked_up(self, node: ast.Call) -> None:
        """``getattr`` and its like: the attribute that they name, or that nobody can say which."""
        of, name, own = node.args[0], constant_name(node), self.is_self(node.args[0])
        bases = self.paths(of)
        if name:
            self._read(node, name, {f"{base}.{name}" for base in bases}, own)
        elif bases - allowed.BY_NAME or not own and not _is_plain(node.args[1]):
            self.flag(node, "dynamic")

    def _read(self, node: ast.AST, name: str, paths: set[str] = frozenset(), own: bool = False) -> None:
        """``own``: of the object that a method of the learner's belongs to."""
        path = min(paths, default="")
        if name in allowed.DUNDERS_READ:
            self.flag(node, "frames", path or name)
        elif is_private(name) and not ((own or not self.hidden) and name in self.names.own_private):
            self.flag(node, "private", path or name)
        elif f".{DYNAMIC}." in path and name not in allowed.OF_A_DTYPE:
            self.flag(node, "dynamic", path)

    def _dictionary(self, node: ast.AST, *of: ast.AST) -> None:
        """``vars(x)`` or ``x.__dict__``: an object's attributes, by which they can be changed."""
        own = bool(of) and isinstance(of[0], ast.Name) and of[0].id in (*self.selves, *self.names.functions)
        if not of or self.paths(of[0]) or id(node) not in self._left_alone and not own:
            self.flag(node, "dynamic")


def _is_plain(name: ast.AST) -> bool:
    """``getattr(x, name)``, ``getattr(x, field.name)`` and ``getattr(torch, f"float{bits}")``: nobody hides anything."""
    if isinstance(name, ast.BinOp):
        return isinstance(name.left, ast.Constant) and not str(name.left.value).startswith("_")
    if isinstance(name, ast.JoinedStr):
        return (
            bool(name.values)
            and isinstance(name.values[0], ast.Constant)
            and not str(name.values[0].value).startswith("_")
        )
    return isinstance(name, ast.Name | ast.Attribute)
