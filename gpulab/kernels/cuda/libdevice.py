"""Functions of ``numba.cuda.libdevice`` that are plain arithmetic: ``sinf`` of float32, ``sin`` of float64.

The ``fast_`` ones compute the same here: their rounding on a GPU is not followed.
"""

import math
from collections.abc import Callable

import numpy as np

from gpulab.kernels.simt.intrinsics import MATH_FUNCTIONS, Operation
from gpulab.kernels.simt.mathematics import remainder

_ONE: dict[str, Callable] = {
    **{name: MATH_FUNCTIONS[name] for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs",
        "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
    )},
    "tgamma": MATH_FUNCTIONS["gamma"],
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": lambda a: np.trunc(a + np.copysign(0.5, a)),
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "rcbrt": lambda a: 1 / np.cbrt(a),
    "exp10": lambda a: np.power(a.dtype.type(10), a),
    "cospi": lambda a: np.cos(a.dtype.type(math.pi) * a),
    "sinpi": lambda a: np.sin(a.dtype.type(math.pi) * a),
    "logb": lambda a: np.floor(np.log2(np.abs(a))),
}  # fmt: skip
_TWO: dict[str, Callable] = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fdim": lambda a, b: np.maximum(a - b, 0),
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "nextafter": np.nextafter,
    "pow": np.power,
    "remainder": remainder,
}
_FAST = ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
_OF_FLOAT32_ONLY: dict[str, Callable] = {
    "saturatef": lambda a: np.clip(a, 0, 1),
    "fast_fdividef": np.true_divide,
    "frcp_rn": lambda a: 1 / a,
    "fsqrt_rn": np.sqrt,
    "fadd_rn": np.add,
    "fmul_rn": np.multiply,
    "fdiv_rn": np.true_divide,
}
_WHOLE: dict[str, tuple[Callable, type]] = {
    "abs": (np.abs, np.int32),
    "max": (np.maximum, np.int32),
    "min": (np.minimum, np.int32),
    "umax": (np.maximum, np.uint32),
    "umin": (np.minimum, np.uint32),
    "llabs": (np.abs, np.int64),
    "llmax": (np.maximum, np.int64),
    "llmin": (np.minimum, np.int64),
}


def _in(dtype, function: Callable, name: str, counts: int, flops: int = 1) -> Operation:
    def implement(group, mask, place, *found):
        return function(*(value.astype(dtype) for value in found)).astype(dtype)

    return Operation(f"libdevice.{name}", implement, (counts,), flops=flops)


def _fma(a, b, c):
    return (a.astype(np.float64) * b + c).astype(a.dtype)


def _functions() -> dict[str, Operation]:
    found = {}
    for table, counts in ((_ONE, 1), (_TWO, 2), ({"fma": _fma}, 3)):
        for name, function in table.items():
            found[name] = _in(np.float64, function, name, counts)
            found[f"{name}f"] = _in(np.float32, function, f"{name}f", counts)
            if name in _FAST:
                found[f"fast_{name}f"] = _in(np.float32, function, f"fast_{name}f", counts)
    for name, function in _OF_FLOAT32_ONLY.items():
        found[name] = _in(np.float32, function, name, 1 if name in ("saturatef", "frcp_rn", "fsqrt_rn") else 2)
    for name, (function, dtype) in _WHOLE.items():
        found[name] = _in(dtype, function, name, 1 if name.endswith("abs") else 2)
    return found


globals().update(_functions())


def __getattr__(name: str):
    raise AttributeError(f"libdevice.{name}: the interpreter has no such function", name=name)
