"""Functions of ``math`` and of Numba's ``libdevice`` that NumPy has under another name, or not at all."""

import math

import numpy as np


def remainder(a, b):
    """IEEE 754: ``a`` less the nearest multiple of ``b``, exact."""
    x, y = np.abs(a), np.abs(b)
    near = np.fmod(x, y)
    far = y - near
    tie = near - 2 * np.fmod(0.5 * (x - near), y)
    found = np.where(near < far, near, np.where(near > far, -far, tie))
    return np.where(np.isinf(y) & np.isfinite(x), a, np.copysign(1.0, a) * found).astype(np.result_type(a, b))


def gamma(a):
    found = np.array([_gamma(float(x)) for x in np.atleast_1d(a)], dtype=a.dtype)
    return found if np.ndim(a) else found[0]


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except ValueError:
        return math.copysign(math.inf, x) if x == 0 else math.nan
    except OverflowError:
        return math.inf


def rounded(x, digits):
    """Python's ``round(x, digits)`` as Numba computes it: scaled, rounded to even, scaled back."""
    digits = digits.astype(np.int64)
    first, second = np.minimum(np.abs(digits), 22), np.maximum(digits - 22, 0)
    up, more = 10.0 ** np.where(digits >= 0, first, -digits).astype(np.float64), 10.0 ** second.astype(np.float64)
    y = np.where(digits >= 0, x * up * more, x / up)
    whole = np.clip(np.rint(y), -(2.0**63), 2.0**63)  # a card rounds to a signed integer of 64 bits
    back = np.where(digits >= 0, whole / more / up, whole * up)
    return np.where(np.isfinite(x) & np.isfinite(y), back, x).astype(x.dtype)


def fraction_and_exponent(a):
    fraction, exponent = np.frexp(a)
    return fraction, exponent.astype(np.int32)
