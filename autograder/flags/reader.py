"""Reads the syntax tree of a cell for what no honest answer needs."""

import ast
from collections.abc import Iterator

from autograder.flags import allowed, magics
from autograder.flags.names import DYNAMIC, Function, Names, bound_by, constant_name, looks_up

Found = tuple[int, str, str]
"""Line, from 1; kind; name."""


def read(tree: ast.Module, names: Names, beside: frozenset[str] = frozenset()) -> list[Found]:
    """What there is to look at. ``beside``: modules that lie beside the notebook, and are read like it."""
    reader = _Reader(names, beside)
    reader.visit(tree)
    return sorted(set(reader.found))


class _Reader(ast.NodeVisitor):
    def __init__(self, names: Names, beside: frozenset[str]) -> None:
        self.found: list[Found] = []
        self._names, self._beside = names, beside
        self._hidden: list[frozenset[str]] = []
        """What enclosing functions call by a library's name."""
        self._in_a_class = False
        self._selves: list[str] = []
        """What the methods around call the object that they belong to."""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._used(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            if not node.level and node.module.partition(".")[0] not in self._beside:
                self._used(node, path)

    def _function(self, node: Function) -> None:
        outer = self._selves, self._in_a_class
        self._selves = self._selves + [one.arg for one in node.args.args[:1] if self._in_a_class]
        self._in_a_class = False
        self._hidden.append(bound_by(node))
        self.generic_visit(node)
        self._hidden.pop()
        self._selves, self._in_a_class = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if (name := self._path(base) or ast.unparse(base)).rpartition(".")[2] in allowed.STAND_INS:
                self._flag(node, "stand_in", f"class {node.name}({name})")
        for name in _defined_in(node):
            if name in allowed.DUNDERS_DEFINED:
                self._flag(node, "stand_in", f"{node.name}.{name}")
        outer, self._in_a_class = self._in_a_class, True
        self.generic_visit(node)
        self._in_a_class = outer

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in allowed.DYNAMIC and not self._names.is_own(node.id, self._hidden):
            self._flag(node, "dynamic", node.id)
        self._used(node, self._path(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        self._read(node, node.attr, path, self._is_self(node.value))
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._set(node, node.value, path)
        if path:
            self._used(node, path)
        else:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            path = self._path(node.value)
            if path and not path.startswith(allowed.MAY_BE_SET):
                self._flag(node, "patch", path)
            if _is_call_of(node.value, "numpy"):
                self._flag(node, "system", ast.unparse(node.value)[:60])
        if isinstance(node.slice, ast.Constant) and _is_a_dictionary_of_names(node.value):
            self._read(node, str(node.slice.value), "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if said := magics.said_by(node):
            self._magic(node, *said)
            return
        if looks_up(node, ("getattr", "hasattr", "setattr", "delattr")):
            self._looked_up(node)
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if (keyword.arg, value) in allowed.UNSAFE_OPTIONS:
                self._flag(node, "dynamic", f"{keyword.arg}={value}")
        if looks_up(node, ("vars",), 0) and (not node.args or self._path(node.args[0])):
            self._flag(node, "dynamic", ast.unparse(node)[:60])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith(("/proc", "/dev/", "/sys/")):
            self._flag(node, "system", node.value[:60])

    def _magic(self, node: ast.Call, python: str | None, name: str) -> None:
        """``python``: the code in it, None where it runs other things than Python."""
        if python is None:
            self._flag(node, "dynamic", name)
            return
        for line, kind, what in read(ast.parse(python), self._names, self._beside):
            self.found.append((node.lineno + line - 1 + name.startswith("%%"), kind, what))

    def _looked_up(self, node: ast.Call) -> None:
        """``getattr`` and its like: the attribute that they name, or that nobody can say which."""
        base, name = self._path(node.args[0]), constant_name(node)
        if name:
            self._read(node, name, f"{base}.{name}" if base else "", self._is_self(node.args[0]))
        elif base not in ("", "torch") or not base and node.func.id == "setattr" and not self._is_self(node.args[0]):
            self._flag(node, "dynamic", ast.unparse(node)[:60])
        if node.func.id in ("setattr", "delattr"):
            self._set(node, node.args[0], f"{base}.{name or DYNAMIC}" if base else "")

    def _read(self, node: ast.AST, name: str, path: str, own: bool = False) -> None:
        """``own``: of the object that a method of the learner's belongs to."""
        if name in allowed.DUNDERS_READ:
            self._flag(node, "frames", path or name)
        elif _is_private(name) and not (own and name in self._names.own_private):
            self._flag(node, "private", path or name)
        elif path and (name == "__dict__" or f".{DYNAMIC}." in path and name not in allowed.OF_A_DTYPE):
            self._flag(node, "dynamic", path)

    def _set(self, node: ast.AST, of: ast.AST, path: str) -> None:
        """An attribute of a library, or of a class through an object of it, is set or deleted."""
        if path and not path.startswith(allowed.MAY_BE_SET):
            self._flag(node, "patch", path)
        elif _is_call_of(of, "type") or isinstance(of, ast.Attribute) and of.attr == "__class__":
            self._flag(node, "patch", ast.unparse(node)[:60])

    def _used(self, node: ast.AST, path: str) -> None:
        if kind := _kind(path, self._beside):
            self._flag(node, kind, path)
        elif path.partition(".")[0] not in self._beside and any(map(_is_private, path.split("."))):
            self._flag(node, "private", path)

    def _flag(self, node: ast.AST, kind: str, name: str) -> None:
        self.found.append((node.lineno, kind, name[:80]))

    def _is_self(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._selves

    def _path(self, node: ast.AST) -> str:
        return self._names.path(node, self._hidden)


def _kind(path: str, beside: frozenset[str]) -> str:
    """The kind of flag that the use of a path into a library is, or ""."""
    root, _, rest = path.partition(".")
    if not root or root in beside:
        return ""
    if root == "autograder" or any(_within(path, inner) for inner in allowed.inner_modules()):
        return "grader"
    part = rest.partition(".")[0]
    if (
        part
        and part not in allowed.PARTS.get(root, {part})
        or any(_within(path, one) for one in allowed.NOT_OF_LIBRARIES)
    ):
        return "system"
    return "" if root in allowed.LIBRARIES | allowed.STANDARD else "system"


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}.")


def _is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    known = name in allowed.PRIVATE or name.startswith(allowed.PRIVATE_PREFIX)
    return name.startswith("_") and not dunder and not known


def _is_call_of(node: ast.AST, name: str) -> bool:
    """``name(...)`` or ``x.name(...)``."""
    if not isinstance(node, ast.Call):
        return False
    return name == (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", ""))


def _is_a_dictionary_of_names(node: ast.AST) -> bool:
    return _is_call_of(node, "vars") or isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _defined_in(node: ast.ClassDef) -> Iterator[str]:
    """The methods of a class, and what its body assigns."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name
        for part in ast.walk(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id
