"""What the names of a notebook stand for: the dotted path in a library, by the notebook's imports and assignments."""

import ast
from collections.abc import Collection, Iterable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
DYNAMIC = "?"
"""In a path, in the place of a name that is looked up by a text which nobody can read."""


class Names:
    """``paths``: of the notebook's names, as ``{"F": "torch.nn.functional"}``; ``own_private``: names with an underscore that it
    makes itself."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self.paths = dict(pair for node in nodes for pair in _imported(node))
        for node in nodes:
            self.paths.update(self._renamed(node))
        self._own = {name for node in nodes for name in _made(node)} - self.paths.keys()
        self.own_private = {name for name in self._own if name.startswith("_")}

    def path(self, node: ast.AST, hidden: Collection[frozenset[str]] = ()) -> str:
        """``torch.cuda.memory_allocated`` of an expression that says so, whatever torch is called here; "" of any other.

        ``hidden``: names that enclosing functions bind to something else.
        """
        if isinstance(node, ast.Name):
            return "" if any(node.id in names for names in hidden) else self.paths.get(node.id, "")
        name = node.attr if isinstance(node, ast.Attribute) else ""
        of = node.value if name else None
        if looks_up(node, ("getattr",)):
            name, of = constant_name(node) or DYNAMIC, node.args[0]
        base = self.path(of, hidden) if name else ""
        return f"{base}.{name}" if base else ""

    def is_own(self, name: str, hidden: Collection[frozenset[str]]) -> bool:
        """Whether the notebook means something of its own by it."""
        return name in self._own or any(name in names for names in hidden)

    def _renamed(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """``c = torch.cuda``: a second name for the same."""
        if isinstance(node, ast.Assign | ast.NamedExpr) and (path := self.path(node.value)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, path) for target in targets if isinstance(target, ast.Name))


def looks_up(node: ast.AST, functions: Collection[str], least: int = 2) -> bool:
    """Whether it calls one of these built-in functions, with ``least`` arguments or more."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    return called and len(node.args) >= least


def constant_name(node: ast.Call) -> str:
    """The name that ``getattr(x, "name")`` is asked for, or "" where it is no constant."""
    name = node.args[1]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def bound_by(function: Function) -> frozenset[str]:
    """A function's arguments: in it no library is meant by their names."""
    every = function.args
    starred = [one for one in (every.vararg, every.kwarg) if one]
    return frozenset(one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs, *starred))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (root, root)
    if isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _made(node: ast.AST) -> Iterator[str]:
    """Functions, classes, variables, arguments, and attributes of ``self``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.arg):
        yield node.arg
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
        if node.value.id in ("self", "cls"):
            yield node.attr
