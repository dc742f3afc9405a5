"""What a ``for`` loop runs over: ``range``, tuples, arrays, ``enumerate`` and ``zip``."""

import ast

import numpy as np

from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.intrinsics import Iteration
from gpulab.kernels.simt.values import literal, widen
from gpulab.kernels.simt.views import part_of


class RangeIteration:
    """``range`` of numbers, or of one for each lane. ``condition()``: which lanes have a further item."""

    __slots__ = ("_at", "_stop", "_step")

    def __init__(self, *found) -> None:
        found = [widen(part) for part in found]
        self._at, self._stop, self._step = (
            (literal(0), found[0], literal(1))
            if len(found) == 1
            else (*found, literal(1))
            if len(found) == 2
            else found
        )

    def condition(self):
        if np.ndim(self._step) == 0:
            return self._at < self._stop if self._step > 0 else self._at > self._stop
        return np.where(self._step > 0, self._at < self._stop, self._at > self._stop)

    def item(self, frame, mask):
        return self._at

    def advance(self) -> None:
        self._at = self._at + self._step


class ValueIteration:
    """The elements of a tuple, or of an array's first axis."""

    def __init__(self, value, place: int) -> None:
        self._value, self._place, self._turn = value, place, 0
        self._length = len(value) if isinstance(value, tuple) else value.shape[0]

    def condition(self):
        return self._turn < self._length

    def item(self, frame, mask):
        if isinstance(self._value, tuple):
            return self._value[self._turn]
        index = (np.int64(self._turn),)
        if self._value.ndim > 1:
            return part_of(self._value, index, f"{self._value.name}[{self._turn}]")
        return self._value.load(frame.group, mask, index, self._place)

    def advance(self) -> None:
        self._turn += 1


class Enumerated:
    def __init__(self, walk, start) -> None:
        self._walk, self._number = walk, start
        self.condition = walk.condition

    def item(self, frame, mask):
        return self._number, self._walk.item(frame, mask)

    def advance(self) -> None:
        self._number = self._number + 1
        self._walk.advance()


class Zipped:
    def __init__(self, walks: list) -> None:
        self._walks = walks

    def condition(self):
        found = self._walks[0].condition()
        for walk in self._walks[1:]:
            found = found & walk.condition()
        return found

    def item(self, frame, mask):
        return tuple(walk.item(frame, mask) for walk in self._walks)

    def advance(self) -> None:
        for walk in self._walks:
            walk.advance()


def compile_iteration(expressions, node: ast.expr):
    """A closure for the walk over what stands behind ``in``. Raises CompileError."""
    if isinstance(node, ast.Call):
        function = getattr(expressions.static_or_closure(node.func), "thing", None)
        if isinstance(function, Iteration):
            return _CALLS[function.name](expressions, node)
    value, place = expressions.compile(node), expressions.place(node)

    def run(frame, mask):
        found = value(frame, mask)
        if isinstance(found, tuple) and _alike(found) or isinstance(found, Array) and found.ndim:
            return ValueIteration(found, place)
        if isinstance(found, tuple):
            expressions.fail(node, "Numba cannot compile a loop over a tuple with parts of different kinds")
        expressions.fail(node, "a for loop runs over range(...), an array, a tuple, enumerate or zip")

    return run


def _alike(found: tuple) -> bool:
    return len({_kind(part) for part in found}) <= 1


def _kind(part) -> tuple:
    # A number may be a vector here, one for each lane: its kind is its dtype.
    return isinstance(part, Array), part.ndim if isinstance(part, Array) else 0, getattr(part, "dtype", tuple)


def _range(expressions, node: ast.Call):
    if node.keywords or not 1 <= len(node.args) <= 3:
        expressions.fail(node, "range takes one to three numbers")
    arguments = [expressions.compile(argument) for argument in node.args]

    def run(frame, mask):
        found = [argument(frame, mask) for argument in arguments]
        if any(getattr(part, "dtype", np.dtype(float)).kind not in "biu" for part in found):
            expressions.fail(node, "range takes whole numbers: use // or int()")
        return RangeIteration(*found)

    return run


def _enumerate(expressions, node: ast.Call):
    given = node.args + [keyword.value for keyword in node.keywords if keyword.arg == "start"]
    if not 1 <= len(given) <= 2 or len(given) != len(node.args) + len(node.keywords):
        expressions.fail(node, "enumerate takes what it numbers, and a start")
    walk = compile_iteration(expressions, given[0])
    start = expressions.compile(given[1]) if len(given) == 2 else lambda frame, mask: np.int64(0)
    return lambda frame, mask: Enumerated(walk(frame, mask), start(frame, mask))


def _zip(expressions, node: ast.Call):
    if node.keywords or not node.args:
        expressions.fail(node, "zip takes at least one thing to run over, and no keywords")
    walks = [compile_iteration(expressions, argument) for argument in node.args]
    return lambda frame, mask: Zipped([walk(frame, mask) for walk in walks])


_CALLS = {"range": _range, "enumerate": _enumerate, "zip": _zip}
