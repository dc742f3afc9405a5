"""Atomic operations: each lane's happens whole, one after another in the order of the lanes."""

import numpy as np

from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.intrinsics import Operation


def _one_by_one(step):
    """Atomics with ``step(old, *values) -> new``, given as NumPy scalars."""

    def operate(flat, at, columns):
        before = np.empty(len(at), dtype=flat.dtype)
        for lane, element in enumerate(at):
            before[lane] = flat[element]
            flat[element] = step(flat[element], *[column[lane] for column in columns])
        return before

    return operate


def _at_once(ufunc):
    """Atomics that NumPy can do in one go where no two lanes meet; one by one where they do."""
    in_turn = _one_by_one(ufunc)

    def operate(flat, at, columns):
        if len(at) > 1 and len(np.unique(at)) < len(at):
            return in_turn(flat, at, columns)
        before = flat[at]
        flat[at] = ufunc(before, columns[0])
        return before

    return operate


class Atomic(Operation):
    """Says at each call whether the kernel looks at what it gives back."""

    def compile(self, expressions, node):
        call, used = super().compile(expressions, node), not expressions.is_dropped(node)

        def run(frame, mask):
            frame.group.launch.result_used = used
            return call(frame, mask)

        return run


def _atomic(name: str, operate, values: int = 1) -> Operation:
    def implement(group, mask, place, array, index, *given):
        if not isinstance(array, Array):
            raise TypeError(f"cuda.atomic.{name} takes an array, an index and {values} number(s)")
        where = index if isinstance(index, tuple) else (index,)
        if len(where) != array.ndim:
            raise TypeError(f"cuda.atomic.{name}: {array.name} has {array.ndim} dimensions and {len(where)} indices")

        def on(flat, at, positions):
            columns = [np.broadcast_to(v, (group.size,))[positions].astype(flat.dtype) for v in given]
            return operate(flat, at, columns)

        return array.atomic(group, mask, where, on, place)

    return Atomic(f"atomic.{name}", implement, (2 + values,), touches=("atomic",))


def _cas(group, mask, place, array, old, new):
    return compare_and_swap_at(group, mask, place, array, np.int64(0), old, new)


def _wrap_up(old, limit):
    return old.dtype.type(0) if old >= limit else old + old.dtype.type(1)


def _wrap_down(old, limit):
    return limit if old == 0 or old > limit else old - old.dtype.type(1)


add = _atomic("add", _at_once(np.add))
sub = _atomic("sub", _at_once(np.subtract))
max = _atomic("max", _at_once(np.maximum))
min = _atomic("min", _at_once(np.minimum))
nanmax = _atomic("nanmax", _at_once(np.fmax))
nanmin = _atomic("nanmin", _at_once(np.fmin))
and_ = _atomic("and_", _at_once(np.bitwise_and))
or_ = _atomic("or_", _at_once(np.bitwise_or))
xor = _atomic("xor", _at_once(np.bitwise_xor))
exch = _atomic("exch", _one_by_one(lambda old, new: new))
inc = _atomic("inc", _one_by_one(_wrap_up))
dec = _atomic("dec", _one_by_one(_wrap_down))
cas = _atomic("cas", _one_by_one(lambda old, expected, new: new if old == expected else old), values=2)
compare_and_swap_at = cas.implement
compare_and_swap = Atomic("atomic.compare_and_swap", _cas, (3,), touches=("atomic",))
