"""Which Python a Triton kernel may hold: asked of Triton's own compiler, before a line runs.

Triton's interpreter runs any Python, so a kernel that works under it may not compile for a GPU.
"""

import ast
import builtins
import inspect
import linecache
import textwrap
from types import FunctionType, ModuleType

import triton.language as tl

from gpulab.compat.triton import CodeGenerator, ConstexprFunction, JITFunction
from gpulab.kernels.errors import CompileError
from gpulab.observe.records import SourceLine

_LOOPS = ("range", "static_range")


def parsed(fn: FunctionType) -> ast.FunctionDef:
    """The definition of ``fn`` with the line numbers of its file. Raises ValueError without source."""
    try:
        lines, first = inspect.getsourcelines(fn)
    except OSError as error:
        raise ValueError(f"no source of {fn.__name__}: define a kernel in a file or a notebook cell") from error
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    return tree.body[0]


def check(fn: FunctionType, tree: ast.FunctionDef) -> None:
    """Raise CompileError for the first line that Triton's compiler would refuse."""
    local = _local_names(tree)
    scope = names_in_scope(fn)
    for node in (inner for statement in tree.body for inner in ast.walk(statement)):
        reason = _syntax(node) or _name(node, local, scope)
        if reason:
            raise CompileError(reason, _source_line(fn, node.lineno))


def names_in_scope(fn: FunctionType) -> dict:
    """What the names of ``fn`` that are not its own stand for: globals, then its closure."""
    return {**fn.__globals__, **inspect.getclosurevars(fn).nonlocals}


def _source_line(fn: FunctionType, number: int) -> SourceLine:
    file = fn.__code__.co_filename
    return SourceLine(file, number, linecache.getline(file, number).strip(), fn.__name__)


def _local_names(tree: ast.FunctionDef) -> set[str]:
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return stored | {argument.arg for argument in tree.args.args}


def _syntax(node: ast.AST) -> str:
    if not isinstance(node, (ast.stmt, ast.expr)) or isinstance(node, (ast.Starred, ast.FormattedValue)):
        return ""
    kind = type(node).__name__
    if not hasattr(CodeGenerator, f"visit_{kind}"):
        return f"Triton does not compile {kind}"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return "Triton does not compile a chained comparison: write (a < b) & (b < c)"
    if isinstance(node, (ast.For, ast.While)) and any(isinstance(inner, ast.Return) for inner in ast.walk(node)):
        return "Triton does not compile a return inside a loop"
    if isinstance(node, ast.For) and not _is_range(node.iter):
        return "a loop runs over range, tl.range or tl.static_range, and over nothing else"
    return ""


def _is_range(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _LOOPS


def _name(node: ast.AST, local: set[str], scope: dict) -> str:
    if not isinstance(node, ast.Name) or node.id in local:
        return ""
    if node.id not in scope:
        return _builtin(node.id)
    value = scope[node.id]
    if isinstance(value, ModuleType):
        return "" if value.__name__.startswith("triton") else _foreign(node.id, f"the module {value.__name__}")
    return "" if _compiles(node.id, value) else _foreign(node.id, f"a {type(value).__name__} of Python's")


def _builtin(name: str) -> str:
    if name in CodeGenerator.builtin_namespace:
        return ""
    if hasattr(builtins, name):
        return f"Triton has no built-in {name}(): use what triton.language offers"
    return f"name {name!r} is not defined"


def _compiles(name: str, value: object) -> bool:
    return (
        name in CodeGenerator.builtin_namespace
        or isinstance(value, (JITFunction, ConstexprFunction, tl.constexpr, tl.dtype))
        or getattr(value, "__triton_builtin__", False)
        or str(getattr(value, "__module__", "")).startswith("triton.language")
    )


def _foreign(name: str, what: str) -> str:
    return (
        f"{name} is {what}, which does not exist on a GPU. A kernel reaches its arguments, "
        "triton.language, other @triton.jit functions, and globals made with tl.constexpr(...)"
    )
