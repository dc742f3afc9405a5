"""Explicit signatures: ``@cuda.jit("void(float32[:], int32)")`` gives the arguments their types.

As in Numba, a number becomes the type that the signature names, an array must have it.
"""

import ast
from dataclasses import dataclass

import numpy as np

from gpulab.kernels.errors import CompileError, LaunchError
from gpulab.kernels.simt.values import as_dtype

_OTHER_NAMES = {
    "boolean": "bool", "bool_": "bool", "b1": "bool", "int_": "int64", "intp": "int64", "uint": "uint64",
    "uintp": "uint64", "size_t": "uint64", "ssize_t": "int64", "intc": "int32", "uintc": "uint32", "short": "int16",
    "ushort": "uint16", "long_": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64",
    "char": "int8", "uchar": "uint8", "byte": "uint8", "float_": "float32", "double": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class Typed:
    """One argument's type. ``ndim`` 0: a number. ``layout``: ``C`` or ``F`` when contiguous, else ``A``."""

    dtype: np.dtype
    ndim: int = 0
    layout: str = "A"

    def __str__(self) -> str:
        gaps = [":"] * self.ndim
        if self.ndim and self.layout != "A":
            gaps[-1 if self.layout == "C" else 0] = "::1"
        return f"{self.dtype}[{','.join(gaps)}]" if self.ndim else str(self.dtype)

    def number(self, value):
        """A number, or one for each lane, in this type; whole numbers take no fractions."""
        return value.astype(self.dtype)


@dataclass(frozen=True)
class Signature:
    """``result`` is None for ``void`` and where no result is named."""

    arguments: tuple[Typed, ...]
    result: Typed | None = None

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))})"


def read_signatures(given) -> tuple[Signature, ...]:
    """From what stands in ``@cuda.jit(...)``: a text, Numba's types, a tuple of types, or a list of those.

    Raises TypeError for anything else.
    """
    return tuple(map(_signature, given)) if isinstance(given, list) else (_signature(given),)


def _signature(given) -> Signature:
    if isinstance(given, str):
        return _from_text(given)
    if isinstance(given, tuple):
        return Signature(tuple(map(_type, given)))
    if hasattr(given, "args") and hasattr(given, "return_type"):
        return Signature(tuple(map(_type, given.args)), _result(given.return_type))
    raise TypeError(f"{given!r} is no signature: cuda.jit takes one such as 'void(float32[:], int32)'")


def _from_text(text: str) -> Signature:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise TypeError(f"{text!r} is no signature: cuda.jit takes one such as 'void(float32[:], int32)'") from None
    if isinstance(tree, ast.Call):
        return Signature(tuple(map(_parsed, tree.args)), _result(ast.unparse(tree.func)))
    if isinstance(tree, ast.Tuple):
        return Signature(tuple(map(_parsed, tree.elts)))
    raise TypeError(f"{text!r} is no signature: write 'void({text})'")


def _parsed(node: ast.expr) -> Typed:
    if not isinstance(node, ast.Subscript):
        return Typed(_dtype(ast.unparse(node)))
    axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not all(isinstance(axis, ast.Slice) for axis in axes):
        raise TypeError(f"{ast.unparse(node)}: an array's type is written float32[:] or float32[:, :]")
    layout = "C" if axes[-1].step else "F" if axes[0].step else "A"
    return Typed(_dtype(ast.unparse(node.value)), len(axes), layout)


def _type(thing) -> Typed:
    if hasattr(thing, "ndim") and hasattr(thing, "layout"):
        return Typed(_dtype(str(thing.dtype)), thing.ndim, thing.layout)
    dtype = as_dtype(thing)
    return Typed(_dtype(str(thing)) if dtype is None else dtype)


def _dtype(name: str) -> np.dtype:
    name = name.rpartition(".")[2]
    try:
        dtype = np.dtype(_OTHER_NAMES.get(name, name))
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in "biufc":
        raise TypeError(f"{name} in a signature: the interpreter follows numbers and arrays of numbers")
    return dtype


def _result(thing) -> Typed | None:
    return None if str(thing).rpartition(".")[2] in ("void", "none", "None") else _type_of_text(thing)


def _type_of_text(thing) -> Typed:
    return _parsed(ast.parse(thing, mode="eval").body) if isinstance(thing, str) else _type(thing)


def check_signatures(signatures: tuple[Signature, ...], names: list[str], function: str, device: bool) -> None:
    """Raises CompileError for a signature that does not fit its function."""
    for signature in signatures:
        if len(signature.arguments) != len(names):
            raise CompileError(
                f"{function}({', '.join(names)}) and its signature {signature}: {len(names)} arguments and "
                f"{len(signature.arguments)} types"
            )
        if signature.result is not None and not device:
            raise CompileError(f"{function}: a kernel returns nothing (Numba: 'must have void return type')")


def chosen(signatures: tuple[Signature, ...], values: list, function: str) -> list:
    """The values in the types of the first signature that takes them. Raises LaunchError when none does."""
    complaints = []
    for signature in sorted(signatures, key=lambda s: _casts(s, values)):
        try:
            return [_cast(*pair) for pair in zip(signature.arguments, values)]
        except LaunchError as complaint:
            complaints.append(f"{signature}: {complaint}")
    raise LaunchError(f"{function} takes no such arguments: " + "; ".join(complaints))


def _casts(signature: Signature, values: list) -> int:
    return sum(typed.dtype != getattr(value, "dtype", None) for typed, value in zip(signature.arguments, values))


def _cast(typed: Typed, value):
    if typed.ndim == 0 and isinstance(value, (np.number, np.bool_)):
        if typed.dtype.kind in "biu" and value.dtype.kind in "fc":
            raise LaunchError(f"{value} is no whole number, and the signature says {typed}")
        return typed.number(value)
    memory = getattr(value, "memory", None)
    if memory is None or memory.ndim != typed.ndim or memory.dtype != typed.dtype:
        raise LaunchError(f"{_what(value)} where the signature says {typed}")
    if typed.layout != "A" and not memory.flags[f"{typed.layout}_CONTIGUOUS"]:
        raise LaunchError(f"{value.name} is not contiguous as the signature says ({typed})")
    return value


def _what(value) -> str:
    memory = getattr(value, "memory", None)
    if memory is not None:
        return f"{value.name} is {Typed(memory.dtype, memory.ndim)}"
    return f"a {'tuple' if isinstance(value, tuple) else value.dtype}"
