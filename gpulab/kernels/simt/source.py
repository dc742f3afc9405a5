"""Reads a kernel: its syntax tree, its lines, and what its names mean."""

import ast
import builtins
import inspect
import textwrap
from types import FunctionType

from gpulab.kernels.errors import CompileError
from gpulab.kernels.simt.values import literal
from gpulab.observe.records import SourceLine


class Places:
    """The source lines of a kernel and of what it calls, each with a number.

    ``fences``: whether one of them has a fence; ``may_spin``: whether a loop may wait for memory.
    """

    def __init__(self) -> None:
        self.fences = self.may_spin = False
        self.lines: list[SourceLine] = []
        self._numbers: dict[SourceLine, int] = {}

    def number(self, line: SourceLine) -> int:
        if line not in self._numbers:
            self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._numbers[line]


class Source:
    """One Python function as its author wrote it."""

    def __init__(self, function: FunctionType) -> None:
        if not isinstance(function, FunctionType):
            raise CompileError(f"a kernel is a Python function with a body, not {function!r}")
        self.function = function
        self.name = function.__name__
        self.file = function.__code__.co_filename
        self._first = function.__code__.co_firstlineno
        self._text = _text_of(function).splitlines()
        self.tree = self._definition()
        self.arguments = self._argument_names()

    def _definition(self) -> ast.FunctionDef:
        tree = ast.parse("\n".join(self._text))
        ast.increment_lineno(tree, self._first - 1)
        found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == self.name]
        if not found:
            raise CompileError(f"{self.name}: a kernel is made with def, not with lambda or async def")
        return found[0]

    def _argument_names(self) -> list[str]:
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            raise CompileError("a kernel takes plain positional arguments: no * and no **", self.line(self.tree))
        return [argument.arg for argument in arguments.posonlyargs + arguments.args]

    def defaults(self) -> dict[str, object]:
        """By argument, the number that it has when none is given. Raises CompileError for no number."""
        values = self.function.__defaults__ or ()
        found = dict(zip(self.arguments[len(self.arguments) - len(values) :], values))
        for name, value in found.items():
            if literal(value) is None:
                raise CompileError(f"the default of {name} is no number: {value!r}", self.line(self.tree))
        return found

    def line(self, node: ast.AST) -> SourceLine:
        """The source line at which ``node`` begins."""
        offset = node.lineno - self._first
        text = self._text[offset].strip() if 0 <= offset < len(self._text) else ""
        return SourceLine(self.file, node.lineno, text, self.name)

    def local_names(self) -> set[str]:
        """Names that the function assigns, its arguments among them."""
        stored = {n.id for n in ast.walk(self.tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        return stored | set(self.arguments)

    def meaning(self, name: str):
        """What a name that is not local stands for: a closure's cell, a global or a builtin.

        Raises KeyError.
        """
        free = self.function.__code__.co_freevars
        if name in free:
            cell = self.function.__closure__[free.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return vars(builtins)[name]


def _text_of(function: FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise CompileError(
            f"the source of {function.__name__} cannot be read: define it in a file or a notebook cell"
        ) from None
