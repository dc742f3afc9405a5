"""A kernel's source as a Python function that the interpreter can run, lines kept."""

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType

import triton.language as tl

from gpulab.compat.triton import CodeGenerator, TritonSemantic, core
from gpulab.kernels.tiles import language, libdevice

# What the rewritten source calls; the names cannot clash with a learner's.
_TENSOR, _TRUTH, _TURN = "__gpulab_tensor", "__gpulab_truth", "__gpulab_turn"
_code_of_kernels: set[CodeType] = set()


def is_kernel_code(code: CodeType) -> bool:
    """Whether ``code`` is the body of a learner's kernel, as :func:`interpretable` made it."""
    return code in _code_of_kernels


class _Rewriter(ast.NodeTransformer):
    """Assigned values become tensors, as in Triton; a condition must be one value."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call(_TENSOR, node.value)
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        node.test = _call(_TRUTH, node.test)
        return node

    visit_IfExp = visit_If

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.test = _call(_TURN, _call(_TRUTH, node.test))
        return node


def _call(name: str, value: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [value], []), value)


@dataclass(frozen=True, eq=False)
class Language:
    """What a kernel's names stand for under the interpreter.

    ``semantic``: the interpreter's TritonSemantic. ``library``: libdevice's functions by name.
    ``turn``: called with the condition of a while loop on each turn; gives it back.
    """

    semantic: TritonSemantic
    library: dict[str, Callable]
    turn: Callable


@functools.cache
def interpretable(fn: FunctionType, spoken: Language, checked: bool) -> FunctionType:
    """``fn`` rewritten; its globals are its own, and nothing is added to them.

    ``checked``: whether ``fn`` is a learner's, whose lines are checked against Triton's language
    and counted. Raises CompileError, ValueError.
    """
    tree = language.parsed(fn)
    if checked:
        language.check(fn, tree)
    scope = language.names_in_scope(fn)
    helpers = {
        _TENSOR: lambda value: spoken.semantic.to_tensor(value, False),
        _TRUTH: _truth,
        _TURN: spoken.turn,
        **_builtins_of_triton(fn),
        **{name: value for name, value in scope.items() if name in fn.__code__.co_freevars},
        **{name: spoken.library[known] for name, known in libdevice.names_of(scope).items() if known in spoken.library},
    }
    made = _compiled(_bare(_Rewriter().visit(tree)), fn, helpers)
    made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    if checked:
        _code_of_kernels.add(made.__code__)
    return made


def _bare(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Without what was evaluated at its definition: decorators, defaults' values, annotations."""
    tree.decorator_list, tree.returns = [], None
    tree.args.defaults = [ast.copy_location(ast.Constant(None), value) for value in tree.args.defaults]
    for argument in tree.args.args:
        argument.annotation = None
    return tree


def _compiled(tree: ast.FunctionDef, fn: FunctionType, helpers: dict) -> FunctionType:
    names = [ast.arg(name) for name in helpers]
    arguments = ast.arguments([], names, None, [], [], None, [])
    inner = ast.Return(ast.Name(tree.name, ast.Load()))
    factory = ast.FunctionDef("__gpulab_factory", arguments, [tree, inner], [], None, None)
    if "type_params" in ast.FunctionDef._fields:
        factory.type_params = []
    module = ast.fix_missing_locations(ast.Module([factory], []))
    made: dict = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), fn.__globals__, made)
    return made["__gpulab_factory"](**helpers)


def _builtins_of_triton(fn: FunctionType) -> dict:
    """min, max and print are not Python's in a kernel."""
    return {
        name: functools.partial(_patched, value.__name__)
        for name, value in CodeGenerator.builtin_namespace.items()
        if getattr(value, "__triton_builtin__", False) and name not in fn.__globals__
    }


def _patched(name: str, *args, **kwargs):
    return getattr(core, name)(*args, **kwargs)


def _truth(value):
    if isinstance(value, tl.tensor) and value.handle.data.size > 1:
        raise ValueError(
            f"a condition needs one value, and this is a block of shape {value.handle.data.shape}: "
            "use tl.where, or a mask"
        )
    return value
