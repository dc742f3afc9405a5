"""Triton's interpreter with a counter in every operation, and with what it computes wrongly refused."""

import dataclasses
import sys

import numpy as np
import triton.language as tl

from gpulab.compat.triton import min_dot_size
from gpulab.compat.triton_interpreter import InterpreterBuilder, TensorHandle, enums, memory, numpy_dtype
from gpulab.kernels.errors import CompileError, EndlessLoop
from gpulab.kernels.tiles import libdevice
from gpulab.kernels.tiles.bfloat16 import rounded, widened
from gpulab.kernels.tiles.errors import DeviceAssertion, EnoughAccesses
from gpulab.kernels.tiles.order import both
from gpulab.kernels.tiles.rewrite import is_kernel_code
from gpulab.kernels.tiles.taint import carrying, is_carried, marked, seen, undefined
from gpulab.observe.lines import source_line
from gpulab.observe.records import SourceLine

MAX_TURNS = 100_000
_SEM = enums.MEM_SEMANTIC
_RELEASES = (_SEM.RELEASE, _SEM.ACQUIRE_RELEASE)
_ACQUIRES = (_SEM.ACQUIRE, _SEM.ACQUIRE_RELEASE)
_BLOCK_ONLY = enums.MEM_SYNC_SCOPE.CTA
_ARITHMETIC = {np.add, np.subtract, np.multiply, np.divide, np.fmod, np.minimum, np.maximum, np.fmin, np.fmax}
_BITWISE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.where}


class CountingBuilder(InterpreterBuilder):
    """Runs a kernel's operations. ``run``: the launch under way, to which it reports.

    What it overrides must be there to be overridden: a Triton that renamed one is an ImportError.
    """

    def __init__(self) -> None:
        super().__init__()
        # debug: device_assert asserts. Its integer overflow checks would cost more than the rest.
        self.options = dataclasses.replace(self.options, debug=True, sanitize_overflow=False)
        self.codegen_fns["min_dot_size"] = min_dot_size(None)
        self.run = None

    # ---- memory

    def create_masked_load(self, ptrs, mask, other, *policy, **named_policy):
        kind = ptrs.get_element_ty()
        dtype = numpy_dtype(kind)
        lanes = self._lanes(ptrs, mask)
        # What a GPU leaves in a register that nothing was loaded into is no value to rely on.
        result = np.full(ptrs.data.shape, _poison(dtype, kind)) if other is None else other.data.astype(dtype)
        result = np.array(np.broadcast_to(result, ptrs.data.shape))
        for access in self._accesses("loads", ptrs, lanes, dtype.itemsize, mask):
            found = memory.load(access.real, access.inside, result, dtype)
            result = np.where(access.asked & ~access.inside, _poison(dtype, kind), found)
        return marked(TensorHandle(result, kind), self._switched_off(ptrs, lanes, other))

    def create_masked_store(self, ptrs, value, mask, *policy, **named_policy):
        dtype = numpy_dtype(ptrs.get_element_ty())
        lanes = self._lanes(ptrs, mask)
        self.uses(value, lanes)
        values = np.ascontiguousarray(np.broadcast_to(value.data, ptrs.data.shape), dtype)
        for access in self._accesses("stores", ptrs, lanes, dtype.itemsize, mask):
            if self.run.counts is not None:
                self.run.counts.same_element_twice(self.line(), access, values)
            memory.store(access.real, values, access.inside)

    def create_barrier(self):
        if self.run.counts is not None:
            self.run.counts.barrier(self.line())

    def create_atomic_rmw(self, operation, ptr, value, mask, sem, scope):
        self._refuse_bfloat16(value)
        self._order_threads(sem)
        lanes, result = self._lanes(ptr, mask), np.zeros(ptr.data.shape, value.data.dtype)
        self.uses(value, lanes)
        clock = None
        for access in self._accesses("atomic", ptr, lanes, value.data.itemsize, mask):
            inside = TensorHandle(access.inside, tl.int1)
            real = TensorHandle(access.real, ptr.dtype)
            done = super().create_atomic_rmw(operation, real, value, inside, sem, scope)
            result = np.where(access.inside, done.data, result)
            clock = both(clock, self._synchronised(access, sem, scope))
        return marked(TensorHandle(result, value.dtype.scalar), None, clock)

    def create_atomic_cas(self, ptr, compare, value, sem, scope):
        self._refuse_bfloat16(value)
        self._order_threads(sem)
        lanes = self._lanes(ptr, True)
        self.uses(value, lanes)
        self.uses(compare, lanes)
        for access in self._accesses("atomic", ptr, lanes, value.data.itemsize, True):
            if access.inside.all():
                real = TensorHandle(access.real, ptr.dtype)
                done = super().create_atomic_cas(real, compare, value, sem, scope)
                swapped = bool((done.data == compare.data).all())
                return marked(done, None, self._synchronised(access, sem, scope, swapped))
        return TensorHandle(np.zeros(ptr.data.shape, value.data.dtype), value.dtype.scalar)

    def _accesses(self, kind: str, ptrs, lanes: np.ndarray, itemsize: int, mask):
        line, run = self.line(), self.run
        run.accesses += 1
        if run.accesses > run.most_accesses:
            raise EnoughAccesses
        if run.counts is not None:
            run.counts.instruction(line, lanes, ptrs.data, itemsize, kind)
        for access in run.space.accesses(ptrs.data, lanes, itemsize):
            run.faults.check(access, self.grid_idx, line)
            if run.counts is not None:
                run.counts.order.guard(seen(mask))
                run.counts.access(line, access, kind)
                run.counts.order.guard(None)
            yield access

    def _order_threads(self, sem) -> None:
        """An atomic that acquires or releases does so for its whole program: Triton, pull request 10816."""
        if self.run.counts is not None and sem != _SEM.RELAXED:
            self.run.counts.order.barrier()

    def _synchronised(self, access, sem, scope, wrote: bool = True):
        """What an atomic's result tells of others, once it decides something."""
        if self.run.counts is None or scope == _BLOCK_ONLY:
            return None
        clock = self.run.counts.synchronise(access, releases=wrote and sem in _RELEASES)
        return clock if sem in _ACQUIRES else None

    # ---- lanes that nothing was loaded into

    def _lanes(self, ptrs, mask) -> np.ndarray:
        """bool: the lanes that a mask leaves on. One with an undefined address makes no access."""
        lanes = _lanes(mask, ptrs.data.shape)
        self.uses(mask, np.ones(ptrs.data.shape, bool))
        marks = undefined(ptrs)
        if marks is None:
            return lanes
        self.uses(ptrs, lanes)
        return lanes & (marks == 0)

    def _switched_off(self, ptrs, lanes: np.ndarray, other) -> np.ndarray | None:
        """Marks of a load's result, see :mod:`gpulab.kernels.tiles.taint`."""
        if lanes.all():
            return None
        if other is None:
            return np.where(
                lanes, 0, self.run.faults.switched_off(self.line(), *self.run.space.place(ptrs.data[~lanes][0]))
            )
        marks = undefined(other)
        return None if marks is None else np.where(lanes, 0, marks)

    def uses(self, handle, lanes: np.ndarray) -> None:
        """The value leaves the program, or decides something, in these lanes."""
        marks = undefined(handle)
        if marks is not None:
            self.run.faults.uses(np.broadcast_to(marks, lanes.shape)[lanes], self.grid_idx)

    def decides(self, handle) -> None:
        """A branch or a loop goes the way that a value says."""
        self.uses(handle, np.ones(np.shape(handle.data), bool))
        if self.run.counts is not None and seen(handle) is not None:
            self.run.counts.order.acquire(seen(handle))

    # ---- arithmetic

    def binary_op(self, lhs, rhs, op):
        if op not in _BITWISE:
            self._refuse_bfloat16(lhs, rhs)
        result = super().binary_op(lhs, rhs, op)
        if op in _ARITHMETIC:
            self._count_flops(result)
        return result

    def ternary_op(self, lhs, rhs, other, op):
        if op not in _BITWISE:
            self._refuse_bfloat16(rhs, other)
            self._count_flops(other)
        return super().ternary_op(lhs, rhs, other, op)

    def unary_op(self, arg, op):
        self._refuse_bfloat16(arg)
        self._count_flops(arg)
        return super().unary_op(arg, op)

    # The default of tl.maximum and its kin takes the number when the other is NaN.

    def create_maxnumf(self, lhs, rhs):
        return self.binary_op(lhs, rhs, np.fmax)

    def create_minnumf(self, lhs, rhs):
        return self.binary_op(lhs, rhs, np.fmin)

    def create_clampf(self, arg, low, high, propagate_nan):
        if propagate_nan == enums.PROPAGATE_NAN.ALL:
            return super().create_clampf(arg, low, high, propagate_nan)
        return self.ternary_op(arg, low, high, lambda x, a, b: np.fmin(np.fmax(x, a), b))

    # A shift keeps its left side's type; the interpreter's own mixes signs, and changes its operands.

    def create_shl(self, lhs, rhs):
        return TensorHandle(np.left_shift(lhs.data, _as(lhs, rhs)), lhs.dtype.scalar)

    def create_lshr(self, lhs, rhs):
        unsigned = lhs.data.view(f"u{lhs.data.itemsize}")
        return TensorHandle(np.right_shift(unsigned, _as(unsigned, rhs)).view(lhs.data.dtype), lhs.dtype.scalar)

    def create_ashr(self, lhs, rhs):
        signed = lhs.data.view(f"i{lhs.data.itemsize}")
        return TensorHandle(np.right_shift(signed, _as(signed, rhs)).view(lhs.data.dtype), lhs.dtype.scalar)

    def create_umulhi(self, lhs, rhs):
        a, b = (x.data.view(f"u{x.data.itemsize}") for x in (lhs, rhs))
        high = _high_64(a, b) if a.itemsize == 8 else (a.astype(np.uint64) * b) >> np.uint64(8 * a.itemsize)
        return TensorHandle(high.astype(a.dtype).view(lhs.data.dtype), lhs.dtype.scalar)

    def create_histogram(self, data, bins, mask):
        counted = data.data if mask is None else data.data[np.broadcast_to(mask.data, data.data.shape)]
        inside = counted[(counted >= 0) & (counted < bins)].astype(np.int64)
        return TensorHandle(np.bincount(inside, minlength=bins).astype(np.int32), tl.int32)

    def create_fabs(self, arg):
        self._count_flops(arg)
        return super().create_fabs(arg)

    def create_erf(self, arg):
        self._refuse_bfloat16(arg)
        self._count_flops(arg)
        return TensorHandle(libdevice.computed("__nv_erf", [arg.data], arg.data.dtype), arg.dtype.scalar)

    def create_rsqrt(self, arg):
        self._refuse_bfloat16(arg)
        self._count_flops(arg)
        return super().create_rsqrt(arg)

    def create_fma(self, x, y, z):
        self._refuse_bfloat16(x)
        self._count_flops(z, each=2)
        return TensorHandle(libdevice.computed("__nv_fma", [x.data, y.data, z.data], z.data.dtype), z.dtype.scalar)

    def create_dot(self, a, b, d, *precision):
        if self.run.counts is not None:
            matrix = {"fp16": "fp16", "bf16": "bf16", "fp32": "tf32"}.get(str(a.dtype.scalar), str(a.dtype.scalar))
            self.run.counts.flops(self.line(), 2 * d.data.size * a.data.shape[-1], matrix)
        a, b = (TensorHandle(widened(x.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b))
        return super().create_dot(a, b, d, *precision)

    def cast_impl(self, src, dst_type):
        have, want = src.dtype.scalar, dst_type.scalar
        if have.is_fp8() or want.is_fp8():
            self.refuse("float8 is not modelled by Triton's interpreter, which rounds it otherwise: run it on a GPU")
        if have == want or tl.bfloat16 not in (have, want):
            return super().cast_impl(src, dst_type)
        if want == tl.bfloat16:
            return TensorHandle(rounded(src.data.astype(np.float32)), want)
        return super().cast_impl(TensorHandle(widened(src.data), tl.float32), dst_type)

    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        near = self.cast_impl(src, dst_type)
        if rounding_mode != enums.ROUNDING_MODE.RTZ:
            return near
        return TensorHandle(_towards_zero(self.cast_impl(src, tl.float32).data, near, self), dst_type.scalar)

    def get_bf16(self, value):
        return TensorHandle(rounded(np.array([value], np.float32)), tl.bfloat16)

    def reduced(self, source, result) -> None:
        """A reduction or a scan of the interpreter's own took place."""
        self._refuse_bfloat16(source)
        self._count_flops(source, less=result.data.size)

    def _count_flops(self, handle, each: int = 1, less: int = 0) -> None:
        if self.run.counts is not None and handle.dtype.scalar.is_floating():
            self.run.counts.flops(self.line(), each * (handle.data.size - less))

    # ---- what is refused

    def _refuse_bfloat16(self, *handles) -> None:
        if any(handle.dtype.scalar == tl.bfloat16 for handle in handles):
            raise CompileError(
                "arithmetic in bfloat16 needs a GPU: Triton's interpreter would compute with its bit "
                "patterns. Load, then .to(tl.float32); .to(tl.bfloat16) before the store",
                self.line(),
            )

    def create_inline_asm(self, *args):
        raise CompileError("inline assembly runs on a GPU only", self.line())

    def create_extern_elementwise(self, library, path, symbol, args, result_type, *pure):
        self._refuse_bfloat16(*args)
        kind = result_type.scalar
        found = libdevice.computed(symbol, [arg.data for arg in args], numpy_dtype(kind))
        if found is None:
            self.refuse(f"{symbol}, a function of the GPU's library (libdevice), runs on a GPU only")
        result = TensorHandle(found, kind)
        self._count_flops(result)
        return result

    def refuse(self, reason: str):
        """Raise CompileError for the line that is running."""
        raise CompileError(reason, self.line())

    def create_print(self, *args):
        if self.run.prints:
            super().create_print(*args)

    def create_assert(self, condition, message):
        if not condition.data.all():
            raise DeviceAssertion(self.line(), self.grid_idx, message)

    def refuse_unordered(self, handle) -> None:
        """argmax and argmin of NaN: what a GPU returns depends on the order of its comparisons."""
        data, marks = handle.data, undefined(handle)
        if data.dtype.kind == "f" and (np.isnan(data) & (True if marks is None else marks == 0)).any():
            self.refuse(
                "argmax or argmin of a block with NaN: what it gives on a GPU depends on the order of its comparisons"
            )

    def turn(self, goes_on):
        """A while loop asks whether to go on. Raises EndlessLoop."""
        self.run.turns += 1
        if self.run.turns > self.run.most_turns:
            line = self.line()
            raise EndlessLoop(
                f"a program's while loops went round {self.run.most_turns:,} times. Programs run one after another here, and on a GPU "
                "nothing says which comes first: one that waits for a later one waits for ever\n"
                f"  {line.function}, line {line.number}: {line.text}"
            )
        return goes_on

    def line(self) -> SourceLine:
        """The line of the learner's kernel that is running."""
        frame = sys._getframe(1)
        while not is_kernel_code(frame.f_code):
            frame = frame.f_back
        return source_line(frame)


def _as(left, right) -> np.ndarray:
    """The right side of a shift in the left one's type; NumPy gives 0, or the sign, past its width, as PTX does."""
    data = left.data if isinstance(left, TensorHandle) else left
    return right.data.astype(data.dtype)


def _high_64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper halves of the 128-bit products of uint64."""
    return np.vectorize(lambda x, y: int(x) * int(y) >> 64, otypes=[np.uint64])(a, b)


def _towards_zero(exact: np.ndarray, near: TensorHandle, builder) -> np.ndarray:
    """``near``, float32 rounded to nearest, one step closer to 0 where it lies beyond ``exact``."""
    back = builder.cast_impl(near, tl.float32).data
    bits = near.data.view(f"u{near.data.itemsize}")
    return np.where(np.abs(back) > np.abs(exact), bits - bits.dtype.type(1), bits).view(near.data.dtype)


def _lanes(mask, shape: tuple[int, ...]) -> np.ndarray:
    data = mask.data if isinstance(mask, TensorHandle) else mask
    return np.ascontiguousarray(np.broadcast_to(data, shape), bool)


def _poison(dtype: np.dtype, kind) -> np.generic:
    if kind == tl.bfloat16:
        return rounded(np.array([np.nan], np.float32))[0]
    if dtype.kind == "f":
        return dtype.type(np.nan)
    return np.frombuffer(b"\xa5" * dtype.itemsize, dtype)[0] if dtype != bool else np.bool_(False)  # noqa: E721 (a dtype of NumPy equals Python's type)


for _name in dir(CountingBuilder):
    if is_carried(_name):
        setattr(CountingBuilder, _name, carrying(_name, getattr(CountingBuilder, _name)))

_NEW_HERE = {"reduced", "line", "get_bf16", "uses", "decides", "refuse", "refuse_unordered", "turn"}
for _name in vars(CountingBuilder):
    if not _name.startswith("_") and _name not in _NEW_HERE and not hasattr(InterpreterBuilder, _name):
        raise ImportError(f"Triton's interpreter has no {_name} to count: pip install 'triton==3.7.1'")
