"""Calls and answers as text and plain data: what a judge asks of a function, and what the function gave.

Of Python's own modules alone, since the interpreter that has no library reads and writes them too.
"""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, nan
from numbers import Real
from types import CodeType, SimpleNamespace
from typing import Any

_MARK = "\0"
"""The one key of a dictionary that stands for what plain data does not hold."""
_BEYOND_FLOATS = 2**1023
"""Exact counts of operations and bytes have a few hundred bits. A judge that compares a larger number with a float would fail."""
_MOST_OF_A_FRACTION = 2**4096
"""Its denominator. Python writes no number of more than 4,300 digits."""
_NAMES = {"__builtins__": {}, "namespace": SimpleNamespace, "inf": inf, "nan": nan, "set": set, "frozenset": frozenset}


@dataclass(frozen=True)
class Other:
    """Stands for an object of a class that does not cross; only the class's name does."""

    type_name: str


def written(calls: list[tuple]) -> str:
    """The arguments of each call, for :func:`read`. Raises ValueError where it would read something else."""
    text = repr(calls)
    try:
        if repr(read(text)) == text:
            return text
    except (SyntaxError, NameError):  # the repr of another object
        pass
    raise ValueError("a call's arguments are numbers, texts, Python's own containers and SimpleNamespace")


def read(calls: str) -> list[tuple]:
    """The arguments of each call. ``calls`` is from the grader: it is evaluated."""
    return eval(_compiled(calls), dict(_NAMES))


@lru_cache(maxsize=64)
def _compiled(calls: str) -> CodeType:
    """To read the same text again, as it is for each form of a misconception, makes everything in it anew."""
    return compile(calls, "<calls>", "eval")


def plain(value: Any) -> Any:
    """``value`` as it is now, in None, bool, int, float, str, list and dict; see :func:`value_of`.

    A number of NumPy's is Python's: which of them counted does not matter. Raises RecursionError where it holds itself.
    """
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, Real) and type(value).__module__ == "numpy":
        return plain(value.item())
    if isinstance(value, float):
        return float.__add__(value, 0.0)
    if type(value) is int:
        return value if -(2**63) <= value < 2**64 else _wide(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return _plain_dict(value)
    if type(value) is Fraction:
        return _fraction(value)
    if isinstance(value, Set):
        return {_MARK: ["set", [plain(item) for item in value]]}
    return other(value)


def _wide(value: int) -> dict:
    """A whole number that JSON's readers would round or refuse."""
    return {_MARK: ["int", hex(value)]} if abs(value) < _BEYOND_FLOATS else other(value, _BEYOND)


def _fraction(value: Fraction) -> dict:
    if abs(value) >= _BEYOND_FLOATS:
        return other(value, _BEYOND)
    if value.denominator >= _MOST_OF_A_FRACTION:
        return other(value, " too fine to be read")
    return {_MARK: ["fraction", str(value)]}


_BEYOND = " beyond the range of floats"


def other(value: Any, more: str = "") -> dict:
    """What stands for a value that does not cross. ``more``: to say after its class."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"[:200]
    return {_MARK: ["other", name.removeprefix("builtins.").removeprefix("fractions.") + more]}


def _plain_dict(value: dict) -> dict:
    if all(type(key) is str and key != _MARK for key in value):
        return {key: plain(item) for key, item in value.items()}
    return {_MARK: ["dict", [[plain(key), plain(item)] for key, item in value.items()]]}


def value_of(data: Any) -> Any:
    """The value that :func:`plain` was given: an object of another class as :class:`Other`, tuples as lists.

    In sets and as keys, where no list can be, they are tuples.

    Raises ValueError or TypeError on what it did not write.
    """
    if isinstance(data, list):
        return [value_of(item) for item in data]
    if not isinstance(data, dict):
        return data
    if _MARK not in data:
        return {key: value_of(item) for key, item in data.items()}
    kind, content = data[_MARK]
    return _READERS[kind](content)


def _fraction_of(numerator: int, denominator: int = 1) -> Fraction:
    """Not ``Fraction(text)``, which takes an exponent that fills the memory."""
    if not denominator:
        raise ValueError("a fraction by 0")
    return Fraction(numerator, denominator)


def _in_range(value: int | Fraction) -> int | Fraction:
    if abs(value) >= _BEYOND_FLOATS:
        raise ValueError(f"a number{_BEYOND}")
    return value


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return frozenset(value) if isinstance(value, set) else value


_READERS = {
    "fraction": lambda text: _in_range(_fraction_of(*map(int, text.split("/")))),
    "int": lambda digits: _in_range(int(digits, 16)),
    "other": Other,
    "set": lambda items: {_hashable(value_of(item)) for item in items},
    "dict": lambda items: {_hashable(value_of(key)): value_of(item) for key, item in items},
}
