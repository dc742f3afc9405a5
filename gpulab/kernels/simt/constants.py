"""``cuda.const.array_like``: an array of the host, frozen when the kernel is compiled."""

import ast

import numpy as np

from gpulab.kernels.simt.arrays import Array, row_major
from gpulab.kernels.simt.intrinsics import Intrinsic


class ConstantArray(Array):
    """Constant memory: nobody writes it, and it is no traffic of global memory."""

    space = "constant"

    def store(self, group, mask, index, value, place) -> None:
        raise TypeError(f"{self.name} is constant memory: a kernel cannot write it")

    def atomic(self, group, mask, index, operate, place):
        raise TypeError(f"{self.name} is constant memory: a kernel cannot write it")

    def _count(self, group, mask, at, place: int, store: bool) -> None:
        """A cache of its own answers."""


class Constant(Intrinsic):
    """``const.array_like(ndarray)``, with an array that is known outside the kernel."""

    def compile(self, expressions, node: ast.Call):
        given = expressions.static(node.args[0], "the array") if len(node.args) == 1 and not node.keywords else None
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "biufc":
            expressions.fail(node, f"cuda.{self.name} takes a NumPy array from outside the kernel")
        frozen = np.ascontiguousarray(given).copy()
        array = ConstantArray(ast.unparse(node.args[0]), frozen.reshape(-1), frozen.shape, row_major(frozen.shape))
        return lambda frame, mask: array
