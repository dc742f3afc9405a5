"""The GPU's mathematical library as Triton reaches it, ``triton.language.extra.libdevice``, on NumPy.

Values are computed in float64 and rounded once; a GPU's differ from them by the few units in the
last place that NVIDIA states for each (CUDA C++ Programming Guide, Mathematical Functions). The
functions of reduced accuracy, ``fast_*``, give the exact function's value here.
"""

import functools
import math
from collections.abc import Callable
from types import FunctionType, ModuleType

import numpy as np
import torch
import triton.language.extra.libdevice as stubs
from triton.language.extra.cuda import libdevice as cuda

_STUBS_AND_CUDA = (stubs, cuda)


def _torch(name: str) -> Callable:
    return lambda *args: getattr(torch.special, name)(
        *(torch.from_numpy(np.array(x, np.float64)) for x in args)
    ).numpy()


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.copysign(math.inf, x) if x == 0 else math.nan


def _remainder(x: float, y: float) -> float:
    return math.nan if y == 0 or math.isinf(x) else math.remainder(x, y)


def _half_away(x):
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


def _norm(*parts):
    return np.sqrt(sum(np.square(part) for part in parts))


def _inverse(function: Callable) -> Callable:
    return lambda *args: 1 / function(*args)


_FLOATS: dict[str, Callable] = {
    **{name: getattr(np, name) for name in (
        "floor", "ceil", "trunc", "rint", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
        "cos", "tan", "sinh", "cosh", "tanh", "hypot", "copysign", "fmod", "ldexp",
    )},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    **{name: _torch(name) for name in ("erf", "erfc", "erfinv", "erfcx")},
    "fabs": np.abs, "nearbyint": np.rint, "round": _half_away, "scalbn": np.ldexp, "pow": np.power, "powi": np.power,
    "rsqrt": _inverse(np.sqrt), "rcbrt": _inverse(np.cbrt), "rhypot": _inverse(np.hypot), "exp10": lambda x: np.power(10.0, x),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)), "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "norm3d": _norm, "norm4d": _norm, "rnorm3d": _inverse(_norm), "rnorm4d": _inverse(_norm),
    "lgamma": _torch("gammaln"), "tgamma": np.vectorize(_gamma, otypes=[np.float64]),
    "normcdf": _torch("ndtr"), "normcdfinv": _torch("ndtri"), "erfcinv": lambda x: _torch("erfinv")(1 - x),
    "cyl_bessel_i0": _torch("i0"), "cyl_bessel_i1": _torch("i1"),
    **{name: _torch(f"bessel_{name}") for name in ("j0", "j1", "y0", "y1")},
    "remainder": np.vectorize(_remainder, otypes=[np.float64]),
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), np.nan, 0.0)),
    "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0),
    "fma": lambda x, y, z: x * y + z, "fma_rn": lambda x, y, z: x * y + z,
    **{f"{name}_rn": function for name, function in (
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("rcp", np.reciprocal), ("sqrt", np.sqrt),
        ("rsqrt", _inverse(np.sqrt)),
    )},
    "fdividef": np.divide, "fast_fdividef": np.divide,
}  # fmt: skip
_TESTS: dict[str, Callable] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
}
_ROUNDED = {
    "llrint": np.rint,
    "llround": _half_away,
    "float2int_rn": np.rint,
    "float2int_rz": np.trunc,
    "float2ll_rn": np.rint,
    "float2ll_rz": np.trunc,
}
_BITS = {"int_as_float", "float_as_int", "uint_as_float", "float_as_uint", "longlong_as_double", "double_as_longlong"}


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.itemsize}")


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    return 8 * x.itemsize - np.vectorize(lambda bits: int(bits).bit_length(), otypes=[np.int32])(_unsigned(x))


def _first_set(x: np.ndarray) -> np.ndarray:
    lowest = _unsigned(x) & (~_unsigned(x) + np.array(1).astype(_unsigned(x).dtype))
    return 8 * x.itemsize - _leading_zeros(lowest)


_INTEGERS: dict[str, Callable] = {
    "abs": np.abs,
    "llabs": np.abs,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "ffs": _first_set,
    "ffsll": _first_set,
    "popc": lambda x: np.bitwise_count(_unsigned(x)),
    "popcll": lambda x: np.bitwise_count(_unsigned(x)),
}


def computed(symbol: str, args: list[np.ndarray], dtype: np.dtype) -> np.ndarray | None:
    """What the library's ``symbol`` gives for ``args``, as ``dtype``; None when it is not known here."""
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    if name in _BITS:
        return args[0].view(dtype)
    if name in _INTEGERS:
        return _INTEGERS[name](*args).astype(dtype)
    if name.removesuffix("f") == "nextafter":
        return np.nextafter(*args)
    plain = _plain(name)
    return None if plain is None else np.asarray(_found(plain)(*(_widened(x) for x in args))).astype(dtype)


def _plain(name: str) -> str | None:
    """The table's name of a symbol: of sinf, isnand, fdiv_rn, ddiv_rn."""
    shorter = (name, name[:-1], name[1:], name.replace("f_", "_"))
    return next((known for known in shorter if _found(known)), None)


def _found(name: str) -> Callable | None:
    return _FLOATS.get(name) or _TESTS.get(name) or _ROUNDED.get(name)


def _widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def bound(semantic, refuse: Callable) -> dict[str, Callable]:
    """Triton's functions of the library by name, run by ``semantic``; ``refuse(sentence)`` raises."""

    def of(name: str, function: FunctionType) -> Callable:
        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                return function(*args, **{**kwargs, "_semantic": semantic})
            except KeyError as error:
                refuse(f"libdevice.{name} does not take {error.args[0]}: convert with .to(tl.float32) first")

        return call

    return {name: of(name, function) for name, function in vars(cuda).items() if isinstance(function, FunctionType)}


def modules() -> tuple[ModuleType, ...]:
    """Where a kernel finds the library's functions."""
    return _STUBS_AND_CUDA


def names_of(scope: dict) -> dict[str, str]:
    """Names in a kernel's scope that are functions of the library, and the library's names for them."""
    homes = {module.__name__ for module in _STUBS_AND_CUDA}
    return {
        name: value.__name__
        for name, value in scope.items()
        if getattr(value, "__module__", "") in homes and callable(value)
    }
