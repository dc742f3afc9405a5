"""What the names of a notebook stand for: dotted paths in libraries, by the notebook's imports and assignments."""

import ast
from collections.abc import Collection, Iterable, Iterator

from autograder.flags import allowed
from autograder.flags.modules import through_modules

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Hidden = Collection[frozenset[str]]
"""What enclosing functions call by a library's name."""
MOST_ROUNDS = 8
"""How often a name may be another's, in the wrong order: what is renamed more often is a matter of minutes, and of no one's."""
_BINDS = (ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.withitem)
DYNAMIC = "?"
"""In a path, in the place of a name that is looked up by a text which nobody can read."""


class Names:
    """``own_private``: names with an underscore that the notebook makes itself; ``methods``: as ``Mine.step``."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self._paths: dict[str, set[str]] = {}
        self._bind(pair for node in nodes for pair in _imported(node))
        renaming = [node for node in nodes if any(_names_given(node))]
        for _ in range(MOST_ROUNDS):
            if not self._bind(pair for node in renaming for pair in self._renamed(node)):
                break
        self.renamed = {
            name: node.value.id
            for node in nodes
            if isinstance(getattr(node, "value", None), ast.Name)
            for name in _names_given(node)
        }
        self._own = {name for node in nodes for name in _made(node)}
        self.own_private = {name for name in self._own if name.startswith("_")}
        self.functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        self._types = {name for node in nodes if _gives_a_type(node) for name in _names_given(node)}
        self.methods = {
            f"{node.name}.{method}" for node in nodes if isinstance(node, ast.ClassDef) for method in _methods(node)
        }
        self._memory: set[str] = set()
        bound = [pair for node in nodes if isinstance(node, _BINDS) for pair in _bound(node)]
        for _ in range(MOST_ROUNDS):
            found = {name for names, values in bound if any(map(self.is_memory, values)) for name in names}
            if found <= self._memory:
                break
            self._memory |= found

    def paths(self, node: ast.AST | None, hidden: Hidden = ()) -> set[str]:
        """``{"torch.cuda.memory_allocated"}`` of an expression that says so, whatever torch is called here; none of any other.

        Several where the notebook calls two things by one name.
        """
        if isinstance(node, ast.Name):
            return set() if any(node.id in names for names in hidden) else self._paths.get(node.id, set())
        if isinstance(node, ast.Attribute):
            name, of = node.attr, node.value
        elif looks_up(node, ("getattr",)):
            name, of = constant_name(node) or DYNAMIC, node.args[0]
        else:
            return set()
        return {through_modules(f"{base}.{name}") for base in self.paths(of, hidden)}

    def is_own(self, node: ast.AST) -> bool:
        """Whether the notebook calls something of its own by a name that is a module's too."""
        return isinstance(node, ast.Name) and node.id in self._own

    def is_type(self, node: ast.AST) -> bool:
        """Whether an expression is the class of some object: what is set there is set for every object of it."""
        return isinstance(node, ast.Name) and node.id in self._types or is_type_of(node)

    def is_memory(self, node: ast.AST) -> bool:
        """Whether an expression is a tensor's memory as NumPy sees it, ``x.numpy()`` or a view of it, perhaps by another name."""
        if isinstance(node, ast.Name):
            return node.id in self._memory
        if isinstance(node, ast.Attribute):
            return node.attr in self._memory or self.is_memory(node.value)
        if isinstance(node, ast.Call):
            return self._gives_memory(node)
        inner = isinstance(node, ast.Subscript | ast.Starred | ast.Tuple | ast.List | ast.IfExp | ast.NamedExpr)
        return inner and any(map(self.is_memory, ast.iter_child_nodes(node)))

    def _gives_memory(self, call: ast.Call) -> bool:
        method = call.func
        if isinstance(method, ast.Name):
            return method.id in self._memory
        if not isinstance(method, ast.Attribute):
            return False
        if method.attr in allowed.VIEWS:
            return not call.args or not isinstance(call.args[0], ast.List | ast.Tuple | ast.Constant)
        return method.attr in allowed.SAME_MEMORY and any(map(self.is_memory, (method.value, *call.args)))

    def _bind(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether any of them says something new."""
        new = [(name, path) for name, path in pairs if path not in self._paths.get(name, ()) and path.count(".") < 9]
        for name, path in new:
            self._paths.setdefault(name, set()).add(path)
        return bool(new)

    def _renamed(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """``c = torch.cuda``: a second name for the same."""
        for name in _names_given(node):
            yield from ((name, path) for path in self.paths(node.value))


def looks_up(node: ast.AST, functions: Collection[str], least: int = 2) -> bool:
    """Whether it calls one of these built-in functions, with ``least`` arguments or more."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    return called and len(node.args) >= least


def called_later(call: ast.Call) -> Iterator[ast.Call]:
    """``setattr(x, "name", 1)`` of ``stack.callback(setattr, x, "name", 1)``."""
    for at, argument in enumerate(call.args[:-2]):
        if isinstance(argument, ast.Name) and argument.id in allowed.SETTERS:
            yield ast.copy_location(ast.Call(argument, call.args[at + 1 :], []), call)


def constant_name(node: ast.Call) -> str:
    """The name that ``getattr(x, "name")`` is asked for, or "" where it is no constant."""
    name = node.args[1]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def bound_by(function: Function) -> frozenset[str]:
    """A function's arguments: in it no library is meant by their names."""
    every = function.args
    starred = [one for one in (every.vararg, every.kwarg) if one]
    return frozenset(one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs, *starred))


def is_type_of(node: ast.AST) -> bool:
    """``type(x)`` and ``x.__class__``."""
    return looks_up(node, ("type",), 1) or isinstance(node, ast.Attribute) and node.attr == "__class__"


def _gives_a_type(node: ast.AST) -> bool:
    return is_type_of(getattr(node, "value", None))


def _methods(node: ast.ClassDef) -> Iterator[str]:
    """Those that are called with an object of the class."""
    yield from (part.name for part in node.body if isinstance(part, ast.FunctionDef) and not part.decorator_list)
    for part in node.body:
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Lambda):
            yield from _names_given(part)


def _bound(node: ast.AST) -> Iterator[tuple[list[str], list[ast.AST]]]:
    """Names and attributes that a statement binds, a function's own name too, and the expressions that they may stand for."""
    if isinstance(node, ast.FunctionDef):
        yield [node.name], [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value]
    for targets, value in _bindings(node):
        names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        yield names + [target.attr for target in targets if isinstance(target, ast.Attribute)], [value]


def _bindings(node: ast.AST) -> Iterator[tuple[list[ast.AST], ast.AST]]:
    """Targets of a statement, and what they are made of."""
    if isinstance(node, ast.Assign):
        yield [one for one in node.targets if not isinstance(one, ast.Subscript)], node.value
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
        yield [node.target], node.value
    if isinstance(node, ast.For | ast.comprehension):
        yield [node.target], node.iter
    if isinstance(node, ast.withitem) and node.optional_vars:
        yield [node.optional_vars], node.context_expr


def _names_given(node: ast.AST) -> Iterator[str]:
    """The names to which a statement gives its ``value`` as it is."""
    if isinstance(node, ast.Assign | ast.NamedExpr | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (root, root)
    if isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, through_modules(f"{node.module}.{alias.name}")


def _made(node: ast.AST) -> Iterator[str]:
    """Functions, classes, variables, arguments, and attributes of ``self``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.arg):
        yield node.arg
    if isinstance(node, ast.Call) and node.args and _registers(node.func):
        yield str(getattr(node.args[0], "value", ""))
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
        yield node.attr


def _registers(function: ast.expr) -> bool:
    """``self.register_buffer`` and its like: the text names an attribute."""
    if not isinstance(function, ast.Attribute) or not function.attr.startswith("register_"):
        return False
    return isinstance(function.value, ast.Name) and function.value.id == "self"
