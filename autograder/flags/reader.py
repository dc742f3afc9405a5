"""Reads the syntax tree of a cell for what no honest answer needs."""

import ast
import re
from collections.abc import Iterator

from autograder.flags import allowed, magics
from autograder.flags.modules import is_module
from autograder.flags.names import DYNAMIC, Function, Names, bound_by, constant_name, looks_up

Found = tuple[int, str, str]
"""Line, from 1; kind; name."""
_LOOKS_UP = ("getattr", "hasattr", "setattr", "delattr")
_FORMATS_A_PRIVATE_NAME = re.compile(r"\{[^{}]*\._")


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
        self._placed: set[int] = set()
        """Nodes that stand where a library, or a function that looks names up, may stand."""

    # Names and where they lead

    def visit_Import(self, node: ast.Import) -> None:
        self._in_no_class(node)
        for alias in node.names:
            self._used(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._in_no_class(node)
        for alias in node.names if not node.level else ():
            if alias.name == "*" and node.module not in allowed.STARRED and not self._lies_beside(node.module):
                self._flag(node, "value", f"from {node.module} import *")
            self._used(node, *self._names.paths(ast.Name(alias.asname or alias.name)), f"{node.module}.{alias.name}")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in allowed.DYNAMIC and not any(node.id in names for names in self._hidden):
            self._flag(node, "dynamic", node.id)
        if node.id in allowed.DUNDERS_READ:
            self._flag(node, "frames", node.id)
        if node.id in allowed.SETTERS and id(node) not in self._placed:
            self._flag(node, "value", node.id)
        if isinstance(node.ctx, ast.Store):
            self._defined(node, node.id)
        self._names_a_library(node, self._paths(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        paths = self._paths(node)
        self._read(node, node.attr, paths, self._is_self(node.value))
        if node.attr in allowed.READS_OF_A_DICTIONARY:
            self._placed.add(id(node.value))
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._set(node, node.value, paths)
            self._defined(node, node.attr.replace("__class__", ""))
        if node.attr == "__dict__":
            self._dictionary(node, node.value)
        if paths:
            self._names_a_library(node, paths)
        else:
            if node.attr in allowed.MODULES_INSIDE:
                self._flag(node, "value", ast.unparse(node)[:60])
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        plain = all(isinstance(target, ast.Name) for target in node.targets) and not self._in_a_class
        if plain and not _is_setter(node.value):
            self._placed.add(id(node.value))  # a second name, which is known
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._placed.update(map(id, node.comparators))  # "name" in vars(x)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.comprehension) -> None:
        self._placed.add(id(node.iter))
        if looks_up(node.iter, ("dir",), 1):
            self._flag(node.iter, "dynamic", ast.unparse(node.iter)[:60])
        self.generic_visit(node)

    visit_comprehension = visit_For

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._read(node, name, set())
        self.generic_visit(node)

    # What is defined

    def _function(self, node: Function) -> None:
        self._defined(node, getattr(node, "name", ""))
        outer = self._selves, self._in_a_class
        self._selves = self._selves + [one.arg for one in node.args.args[:1] if self._in_a_class]
        self._in_a_class = False
        self._hidden.append(bound_by(node))
        for part in ast.iter_child_nodes(node):
            # Defaults and decorators are of the world outside.
            self.visit(part)
        self._hidden.pop()
        self._selves, self._in_a_class = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_arguments(self, node: ast.arguments) -> None:
        inner, self._hidden = self._hidden, self._hidden[:-1]
        self.generic_visit(node)
        self._hidden = inner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            for name in self._paths(base) or {ast.unparse(base)}:
                if (
                    name.rpartition(".")[2] in allowed.STAND_INS
                    or name.startswith(allowed.NUMBERS)
                    or _is_computed(base)
                ):
                    self._flag(node, "stand_in", f"class {node.name}({name})")
        outer, self._in_a_class = self._in_a_class, True
        self.generic_visit(node)
        self._in_a_class = outer

    # What is written

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del):
            for path in self._paths(node.value):
                if not path.startswith(allowed.MAY_BE_SET) and not _is_a_setting(path, node.slice):
                    self._flag(node, "patch", path)
            self._written(node, node.value)
        else:
            self._placed.add(id(node.value))
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            self._read(node, node.slice.value, set())
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._written(node, node.target)
        self.generic_visit(node)

    # What is called

    def visit_Call(self, node: ast.Call) -> None:
        if said := magics.said_by(node):
            self._magic(node, *said)
            return
        self._placed.add(id(node.func))
        if isinstance(node.func, ast.Name) and node.func.id in allowed.MAY_BE_HANDED:
            self._placed.update(map(id, node.args[:1]))
        if isinstance(node.func, ast.Name) and node.func.id in allowed.COPIES:
            self._placed.update(map(id, node.args))
        if looks_up(node, ("type",), 3):
            self._flag(node, "stand_in", ast.unparse(node)[:60])
        if looks_up(node, ("vars",), 0):
            self._dictionary(node, *node.args)
        if ast.unparse(node.func) in self._names.methods and node.args and not self._is_self(node.args[0]):
            self._flag(node, "private", ast.unparse(node)[:60])
        self._options(node)
        self._code_in(node)
        if isinstance(node.func, ast.Attribute):
            self._method_of(node, node.func)
        for call in _called_later(node):
            self._placed.add(id(call.func))
            self._looked_up(call)
        self._looked_up(node) if looks_up(node, _LOOKS_UP) else self.generic_visit(node)

    def _options(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            self._read(node, keyword.arg or "", set(), own=True)
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if (keyword.arg, value) in allowed.UNSAFE_OPTIONS:
                self._flag(node, "dynamic", f"{keyword.arg}={value}")
            if keyword.arg == "out":
                self._written(node, keyword.value)
            if keyword.arg is None:
                self._placed.add(id(keyword.value))

    def _method_of(self, node: ast.Call, method: ast.Attribute) -> None:
        if method.attr in allowed.WRITES:
            self._written(node, *node.args[:1], method.value)
        if method.attr in allowed.BY_KEY and node.args and isinstance(node.args[0], ast.Constant):
            self._read(node, str(node.args[0].value), set())
        own = any(map(self._is_self, (method.value, *node.args[:1]))) or ast.unparse(method.value).startswith("super(")
        if method.attr in allowed.ANEW and not own:
            self._flag(node, "private", ast.unparse(node)[:60])

    def _code_in(self, node: ast.Call) -> None:
        """A function that is handed code as text, or that runs what it loads."""
        for path in self._paths(node.func):
            most = allowed.LOADERS.get(path)
            if most and (len(node.args) > most or any(keyword.arg is None for keyword in node.keywords)):
                self._flag(node, "dynamic", ast.unparse(node)[:60])
            if path in allowed.MADE_OF_TEXT:
                texts = [*node.args[:2], *(word.value for word in node.keywords if word.arg in ("stmt", "setup"))]
                for text in texts:
                    self._magic(text, _python(text), f"{path}")

    def _dictionary(self, node: ast.AST, *of: ast.AST) -> None:
        """``vars(x)`` or ``x.__dict__``: an object's attributes, by which they can be changed."""
        own = bool(of) and isinstance(of[0], ast.Name) and of[0].id in (*self._selves, *self._names.functions)
        if not of or self._paths(of[0]) or id(node) not in self._placed and not own:
            self._flag(node, "dynamic", ast.unparse(node)[:60])

    def _magic(self, node: ast.Call, python: str | None, name: str) -> None:
        """``python``: the code in it, None where it runs other things than Python."""
        if python is None:
            self._flag(node, "dynamic", name)
            return
        for line, kind, what in read(ast.parse(python), self._names, self._beside):
            self.found.append((node.lineno + line - 1 + name.startswith("%%"), kind, what))

    def _looked_up(self, node: ast.Call) -> None:
        """``getattr`` and its like: the attribute that they name, or that nobody can say which."""
        of, name, own = node.args[0], constant_name(node), self._is_self(node.args[0])
        bases = self._paths(of)
        if name:
            self._read(node, name, {f"{base}.{name}" for base in bases}, own)
        elif bases - {"torch"} or not own and not _is_plain_read(node):
            self._flag(node, "dynamic", ast.unparse(node)[:60])
        if node.func.id == "setattr":
            self._defined(node, name)
        if node.func.id in ("setattr", "delattr"):
            self._set(node, of, {f"{base}.{name or DYNAMIC}" for base in bases})
        for part in (node.func, of, *node.args[1 + own :]):
            self.visit(part)

    # Texts

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value if isinstance(node.value, str) else ""
        if text.startswith(("/proc", "/dev/", "/sys/", "module://")):
            self._flag(node, "system", text[:60])
        if "__" in text and text not in allowed.TEXTS or _FORMATS_A_PRIVATE_NAME.search(text):
            self._flag(node, "dynamic", repr(text[:60]))

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Names are put together from pieces where nobody is to read them."""
        texts = [
            one.value for one in (node.left, node.right) if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        if (
            len(texts) == 2
            or texts
            and texts[0].startswith("_")
            and (node.left.__class__ is ast.Constant or _repeats(node))
        ):
            self._flag(node, "dynamic", ast.unparse(node)[:60])
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and str(first.value).startswith("_"):
            self._flag(node, "dynamic", ast.unparse(node)[:60])
        self.generic_visit(node)

    # What it comes to

    def _defined(self, node: ast.AST, name: str) -> None:
        if name in allowed.DUNDERS_DEFINED:
            self._flag(node, "stand_in", name)

    def _in_no_class(self, node: ast.Import | ast.ImportFrom) -> None:
        """There it would be an attribute, which no one follows."""
        if self._in_a_class:
            self._flag(node, "value", ast.unparse(node)[:60])

    def _names_a_library(self, node: ast.AST, paths: set[str]) -> None:
        self._used(node, *paths)
        modules = set(filter(is_module, paths - allowed.FREE))
        if modules and isinstance(node.ctx, ast.Load) and id(node) not in self._placed:
            if not self._names.is_own(node) or min(modules).partition(".")[0] in allowed.TO_HOLD_BACK:
                self._flag(node, "value", min(modules))

    def _used(self, node: ast.AST, *paths: str) -> None:
        for path in paths:
            if kind := "" if self._lies_beside(path) else _kind(path):
                self._flag(node, kind, path)

    def _read(self, node: ast.AST, name: str, paths: set[str], own: bool = False) -> None:
        """``own``: of the object that a method of the learner's belongs to."""
        path = min(paths, default="")
        if name in allowed.DUNDERS_READ:
            self._flag(node, "frames", path or name)
        elif _is_private(name) and not (own and name in self._names.own_private):
            self._flag(node, "private", path or name)
        elif ".__dict__" in path or f".{DYNAMIC}." in path and name not in allowed.OF_A_DTYPE:
            self._flag(node, "dynamic", path)

    def _set(self, node: ast.AST, of: ast.AST, paths: set[str]) -> None:
        """An attribute of a library, or of a class through an object of it, is set or deleted."""
        for path in paths:
            if not path.startswith(allowed.MAY_BE_SET):
                self._flag(node, "patch", path)
        if self._names.is_type(of):
            self._flag(node, "patch", ast.unparse(node)[:60])

    def _written(self, node: ast.AST, *targets: ast.AST) -> None:
        """A tensor's memory is written through NumPy, where no operation is on record."""
        if any(map(self._names.is_memory, targets)):
            self._flag(node, "system", ast.unparse(node)[:60])

    def _flag(self, node: ast.AST, kind: str, name: str) -> None:
        self.found.append((node.lineno, kind, name[:80]))

    def _paths(self, node: ast.AST) -> set[str]:
        return self._names.paths(node, self._hidden)

    def _is_self(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._selves

    def _lies_beside(self, path: str) -> bool:
        return path.partition(".")[0] in self._beside


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
    return "private" if any(map(_is_private, path.split("."))) else ""


def _is_known(path: str) -> bool:
    """Whether an answer may use the module that a path leads into."""
    root, *rest = path.split(".")
    modules = [".".join([root, *rest[:count]]) for count in range(len(rest) + 1)]
    module = max(filter(is_module, modules), default=root, key=len)
    listed = [known for known in allowed.MODULES if known.partition(".")[0] == root]
    return not listed or any(
        _within(module, one.removesuffix(".*")) if one.endswith("*") else module == one for one in listed
    )


def _is_setter(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in allowed.SETTERS


def _is_a_setting(path: str, key: ast.AST) -> bool:
    """``os.environ["CUDA_LAUNCH_BLOCKING"]``."""
    text = key.value if isinstance(key, ast.Constant) else ""
    return path == "os.environ" and str(text).startswith(allowed.ENVIRONMENT)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}.")


def _is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    known = name in allowed.PRIVATE or name.startswith(allowed.PRIVATE_PREFIX)
    return name.startswith("_") and not dunder and not known


def _is_computed(base: ast.AST) -> bool:
    """A base that is neither a name nor ``Generic[T]``, nor a named tuple's."""
    named = base.func if isinstance(base, ast.Call) else base.value if isinstance(base, ast.Subscript) else base
    if isinstance(base, ast.Call) and not ast.unparse(named).endswith("namedtuple"):
        return True
    return not isinstance(named, ast.Name | ast.Attribute)


def _python(node: ast.AST) -> str | None:
    """The code in a text; "" of a function, which is read where it is defined; None of what nobody can read."""
    if isinstance(node, ast.Lambda | ast.Name):
        return "" if isinstance(node, ast.Lambda) else None
    return (
        node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and magics.is_code(node.value)
        else None
    )


def _is_plain_read(call: ast.Call) -> bool:
    """``getattr(x, name)``: by a name that something else gave."""
    return call.func.id in ("getattr", "hasattr") and isinstance(call.args[1], ast.Name)


def _called_later(call: ast.Call) -> Iterator[ast.Call]:
    """``setattr(x, "name", 1)`` of ``stack.callback(setattr, x, "name", 1)``."""
    for at, argument in enumerate(call.args[:-2]):
        if isinstance(argument, ast.Name) and argument.id in allowed.SETTERS:
            yield ast.copy_location(ast.Call(argument, call.args[at + 1 :], []), call)


def _repeats(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Mult)
