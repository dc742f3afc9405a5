"""What the kernel language leaves out, and why: said before anything runs."""

import ast

from gpulab.kernels.errors import CompileError
from gpulab.kernels.simt.source import Source

_NO_MEMORY = "Numba has no Python objects on a GPU, and a kernel cannot allocate them"
_NUMBA_REFUSES: dict[type, str] = {
    ast.Dict: f"a dict: {_NO_MEMORY}. Use an array",
    ast.DictComp: f"a dict: {_NO_MEMORY}. Use an array",
    ast.Set: f"a set: {_NO_MEMORY}. Use an array",
    ast.SetComp: f"a set: {_NO_MEMORY}. Use an array",
    ast.List: f"a list: {_NO_MEMORY}. Use cuda.local.array or cuda.shared.array",
    ast.ListComp: f"a list comprehension: {_NO_MEMORY}. Use a for loop over cuda.local.array",
    ast.GeneratorExp: f"a generator: {_NO_MEMORY}. Use a for loop",
    ast.JoinedStr: "an f-string: a GPU builds no strings. print takes values separated by commas",
    ast.Try: "try: a GPU has no exceptions to catch. Test the index before you use it",
    ast.With: "with: there are no context managers on a GPU",
    ast.AsyncFunctionDef: "async def: a kernel is a plain function",
    ast.ClassDef: "a class",
    ast.Import: "import: import at the top of the file",
    ast.ImportFrom: "import: import at the top of the file",
    ast.Nonlocal: "nonlocal: a kernel changes arrays only",
    ast.Delete: "del: a kernel's variables end with the thread",
    ast.Yield: "yield: a kernel runs to its end",
    ast.YieldFrom: "yield: a kernel runs to its end",
    ast.Await: "await: use cuda.syncthreads() to wait for the block",
    ast.Starred: "a starred expression: a kernel's tuples have a fixed length",
}
_NOT_FOLLOWED: dict[type, str] = {
    ast.Raise: "raise: it reaches nobody without debug=True. Write an error code into an array",
    ast.Assert: "assert: it is checked only with debug=True. Test with if and write a flag into an array",
    ast.Lambda: "lambda: write a device function with @cuda.jit(device=True)",
    ast.FunctionDef: "a function inside a kernel: define it outside, with @cuda.jit(device=True)",
    ast.Global: "global: globals are constants to a kernel, and need no declaration",
    ast.Match: "match: use if and elif",
    ast.NamedExpr: "an assignment inside an expression: give it a line of its own",
}


def check(source: Source) -> None:
    """Raises CompileError at the first construct that is outside the language."""
    for node in _in_order(source.tree.body):
        reason = _reason(node)
        if reason is not None:
            raise CompileError(reason, source.line(node))


def _reason(node: ast.AST) -> str | None:
    if type(node) in _NUMBA_REFUSES:
        return f"Numba cannot compile {_NUMBA_REFUSES[type(node)]}"
    if isinstance(node, (ast.While, ast.For)) and node.orelse:
        return "the interpreter does not follow a loop's else: set a flag instead"
    if type(node) in _NOT_FOLLOWED:
        return f"the interpreter does not follow {_NOT_FOLLOWED[type(node)]}"
    return None


def _in_order(body: list):
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        yield from ast.walk(statement)


def refuse_result(source: Source) -> None:
    """A kernel, unlike a device function, gives nothing back."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                raise CompileError(
                    "a kernel returns nothing (Numba: 'must have void return type'): write into an array",
                    source.line(node),
                )
