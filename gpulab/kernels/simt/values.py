"""Numbers as Numba types them: what an operation on two kinds of number gives.

Vectors and scalars are NumPy's, so every value carries its dtype. What differs from NumPy:
integers narrower than 64 bits widen before arithmetic; signed with unsigned gives int64; a
shift keeps the kind of its left side; ``float32 ** integer`` stays float32; division by zero
raises nothing, as on a GPU.
"""

import ast

import numpy as np

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


def widen(value):
    """An integer or bool as the 64-bit integer that Numba computes with."""
    dtype = value.dtype
    if dtype.kind in "bi":
        return value if dtype is _INT64 else value.astype(_INT64)
    if dtype.kind == "u":
        return value if dtype is _UINT64 else value.astype(_UINT64)
    return value


def _paired(a, b):
    # With a float beside it an integer is promoted as it is; float32 with int8 is float32.
    if a.dtype.kind in "fc" or b.dtype.kind in "fc":
        return a, b
    a, b = widen(a), widen(b)
    if a.dtype is not b.dtype:
        return a.astype(_INT64), b.astype(_INT64)
    return a, b


def _arithmetic(ufunc):
    def operate(a, b):
        return ufunc(*_paired(a, b))

    return operate


def _bitwise(ufunc):
    def operate(a, b):
        if a.dtype == bool and b.dtype == bool:
            return ufunc(a, b)
        return ufunc(*_paired(a, b))

    return operate


def _shift(ufunc):
    def operate(a, b):
        if b.dtype.kind not in "biu":
            raise TypeError("a shift by something that is no whole number")
        a = widen(a)
        return ufunc(a, b.astype(a.dtype))

    return operate


def power(a, b):
    """``a ** b``; a negative integer power of an integer is 0 or 1, as integer division gives it."""
    if a.dtype.kind == "f" and b.dtype.kind in "biu":
        return np.power(a, b.astype(a.dtype))
    a, b = _paired(a, b)
    if b.dtype.kind != "i":
        return np.power(a, b)
    positive = np.power(a, np.maximum(b, 0))
    return np.where(b < 0, np.where(a == 1, 1, 0), positive).astype(positive.dtype)


def select(condition, a, b):
    """``a`` where ``condition`` holds, else ``b``, in the kind of number that holds both."""
    return np.where(condition, a, b)


def _divided(a, b):
    # Each becomes a float by itself: -1 and an unsigned number have no integer kind in common.
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        a, b = a.astype(np.float64), b.astype(np.float64)
    return np.true_divide(a, b)


def _negated(a):
    return widen(np.negative(widen(a) if a.dtype == bool else a))


def _inverted(a):
    # In its own width, then widened, as the minus above; a truth value stays one.
    found = np.invert(a)
    return found if a.dtype == bool else widen(found)


BINARY = {
    ast.Add: _arithmetic(np.add),
    ast.Sub: _arithmetic(np.subtract),
    ast.Mult: _arithmetic(np.multiply),
    ast.Div: _divided,
    ast.FloorDiv: _arithmetic(np.floor_divide),
    ast.Mod: _arithmetic(np.remainder),
    ast.Pow: power,
    ast.BitAnd: _bitwise(np.bitwise_and),
    ast.BitOr: _bitwise(np.bitwise_or),
    ast.BitXor: _bitwise(np.bitwise_xor),
    ast.LShift: _shift(np.left_shift),
    ast.RShift: _shift(np.right_shift),
}
# NumPy compares signed with unsigned by value, as Numba does.
COMPARE = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
UNARY = {
    ast.USub: _negated,
    ast.UAdd: widen,
    ast.Invert: _inverted,
    ast.Not: lambda a: np.equal(a, 0),
}


def literal(value):
    """A Python number as Numba types it: int64, float64, bool. None for anything else."""
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value) if value < 2**63 else np.uint64(value)
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, (np.number, np.bool_)):
        return value
    return None


def poison(dtype: np.dtype):
    """What memory that nobody wrote reads as: no number that a kernel would miss."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return dtype.type(True)
    return np.iinfo(dtype).max


def as_dtype(thing) -> np.dtype | None:
    """The dtype that ``thing`` names: NumPy's, Numba's (by its name) or Python's; None if none."""
    if isinstance(thing, np.dtype):
        return thing
    if isinstance(thing, type):
        if issubclass(thing, (np.number, np.bool_)):
            return np.dtype(thing)
        return {float: np.dtype(np.float64), int: _INT64, bool: np.dtype(bool)}.get(thing)
    name = str(thing)
    if type(thing).__module__.startswith(("numba", "torch")):
        name = name.removeprefix("torch.").removesuffix("_")
        try:
            return np.dtype(name)
        except TypeError:
            return None
    return None
