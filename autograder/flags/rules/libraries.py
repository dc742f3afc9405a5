"""What is used of libraries, what is replaced in them, and where one is handed around so that nobody can follow it."""

import ast

from autograder.flags import allowed
from autograder.flags.modules import is_module
from autograder.flags.names import DYNAMIC, called_later, constant_name, looks_up
from autograder.flags.rules.rule import Read, Rule, is_private


class Libraries(Rule):
    def __init__(self, read: Read) -> None:
        super().__init__(read)
        self._placed: set[int] = set()
        """Nodes that stand where a library, or a function that looks names up, may stand."""

    def visit_Import(self, node: ast.Import) -> None:
        self._in_no_class(node)
        for alias in node.names:
            self._used(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._in_no_class(node)
        for alias in node.names if not node.level else ():
            if alias.name == "*" and node.module not in allowed.STARRED and not self._lies_beside(node.module):
                self.flag(node, "value")
            self._used(node, *self.names.paths(ast.Name(alias.asname or alias.name)), f"{node.module}.{alias.name}")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in allowed.SETTERS and id(node) not in self._placed:
            self.flag(node, "value")
        self._says(node, self.paths(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        paths = self.paths(node)
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._set(node, node.value, paths)
        if paths:
            self._says(node, paths)
            return
        if node.attr in allowed.MODULES_INSIDE:
            self.flag(node, "value")
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            paths = {
                path for path in self.paths(node.value) if not is_module(path) and not _is_a_setting(path, node.slice)
            }
            self._set(node, node.value, set() if self.names.is_own(node.value) else paths)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        plain = all(isinstance(target, ast.Name) for target in node.targets) and not self.in_a_class
        if isinstance(node.value, ast.Name) and node.value.id in allowed.NOT_RENAMED:
            self.flag(node, "value")
        elif plain:
            self._placed.add(id(node.value))  # a second name, which is known
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._placed.add(id(node.func))
        if isinstance(node.func, ast.Name) and node.func.id in allowed.MAY_BE_HANDED:
            self._placed.update(map(id, node.args[:1]))
        if looks_up(node, ("getattr",)) and id(node) not in self._placed and any(map(is_module, self.paths(node))):
            self.flag(node, "value")
        for keyword in node.keywords:
            if keyword.arg == "globals" and isinstance(keyword.value, ast.Dict):
                self._placed.update(map(id, keyword.value.values))
        for call in called_later(node):
            self._placed.add(id(call.func))
            self._setter(call)
        self._setter(node)
        self.generic_visit(node)

    def _setter(self, node: ast.Call) -> None:
        if looks_up(node, ("setattr", "delattr")):
            name = constant_name(node) or DYNAMIC
            self._set(node, node.args[0], {f"{base}.{name}" for base in self.paths(node.args[0])})

    def _says(self, node: ast.Name | ast.Attribute, paths: set[str]) -> None:
        self._used(node, *paths)
        modules = set(filter(is_module, paths - allowed.FREE))
        if modules and isinstance(node.ctx, ast.Load) and id(node) not in self._placed:
            if not self.names.is_own(node) or min(modules).partition(".")[0] in allowed.TO_HOLD_BACK:
                self.flag(node, "value", min(modules))

    def _used(self, node: ast.AST, *paths: str) -> None:
        for path in paths:
            if kind := "" if self._lies_beside(path) else _kind(path):
                self.flag(node, kind, path)

    def _set(self, node: ast.AST, of: ast.AST, paths: set[str]) -> None:
        """A part of a library, or of a class through an object of it, is set or deleted."""
        for path in paths:
            if not path.startswith(allowed.MAY_BE_SET):
                self.flag(node, "patch", path)
        of_self = (
            isinstance(of, ast.Call)
            and of.args
            and self.is_self(of.args[0])
            or self.is_self(getattr(of, "value", None))
        )
        if self.names.is_type(of) and not of_self:
            self.flag(node, "patch")

    def _in_no_class(self, node: ast.Import | ast.ImportFrom) -> None:
        """There it would be an attribute, which no one follows."""
        if self.in_a_class:
            self.flag(node, "value")

    def _lies_beside(self, path: str) -> bool:
        return path.partition(".")[0] in self.read.beside


def _kind(path: str) -> str:
    """The kind of flag that the use of a path into a library is, or ""."""
    root, _, rest = path.partition(".")
    if root == "autograder" or root == "gpulab" and not _is_known(path):
        return "grader"
    part = rest.partition(".")[0]
    if (
        part
        and part not in allowed.PARTS.get(root, {part})
        or any(_within(path, one) for one in allowed.NOT_OF_LIBRARIES)
    ):
        return "system"
    if root not in allowed.LIBRARIES | allowed.STANDARD or not _is_known(path):
        return "system"
    if ".__dict__" in path:
        return "dynamic"
    return "private" if any(map(is_private, path.split("."))) else ""


def _is_known(path: str) -> bool:
    """Whether an answer may use the module that a path leads into."""
    root, *rest = path.split(".")
    modules = [".".join([root, *rest[:count]]) for count in range(len(rest) + 1)]
    module = max(filter(is_module, modules), default=root, key=len)
    listed = [known for known in allowed.MODULES if known.partition(".")[0] == root]
    return not listed or any(_within(module, one[:-2]) if one.endswith(".*") else module == one for one in listed)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}.")


def _is_a_setting(path: str, key: ast.AST) -> bool:
    """``os.environ["CUDA_LAUNCH_BLOCKING"]``."""
    text = key.value if isinstance(key, ast.Constant) else ""
    return path == "os.environ" and str(text).startswith(allowed.ENVIRONMENT)
