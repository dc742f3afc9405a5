"""Triton's interpreter with a counter in every operation, and with what it computes wrongly refused."""

import dataclasses
import sys

import numpy as np
import triton.language as tl
from triton.backends.nvidia.compiler import min_dot_size
from triton.runtime import interpreter

from gpulab.kernels.errors import CompileError
from gpulab.kernels.tiles.bfloat16 import rounded, widened
from gpulab.kernels.tiles.errors import DeviceAssertion
from gpulab.kernels.tiles.rewrite import is_kernel_code
from gpulab.observe.lines import source_line
from gpulab.observe.records import SourceLine

TensorHandle = interpreter.TensorHandle
_ARITHMETIC = {np.add, np.subtract, np.multiply, np.divide, np.fmod, np.minimum, np.maximum, np.fmin, np.fmax}
_BITWISE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.where}


class CountingBuilder(interpreter.InterpreterBuilder):
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
        dtype = interpreter._get_np_dtype(kind)
        lanes = _lanes(mask, ptrs.data.shape)
        # What a GPU leaves in a register that nothing was loaded into is no value to rely on.
        result = np.full(ptrs.data.shape, _poison(dtype, kind)) if other is None else other.data.astype(dtype)
        result = np.array(np.broadcast_to(result, ptrs.data.shape))
        for access in self._accesses("loads", ptrs, lanes, dtype.itemsize):
            found = interpreter._interpreter.load(access.real, access.inside, result, dtype)
            result = np.where(access.asked & ~access.inside, _poison(dtype, kind), found)
        return TensorHandle(result, kind)

    def create_masked_store(self, ptrs, value, mask, *policy, **named_policy):
        dtype = interpreter._get_np_dtype(ptrs.get_element_ty())
        lanes = _lanes(mask, ptrs.data.shape)
        values = np.ascontiguousarray(np.broadcast_to(value.data, ptrs.data.shape), dtype)
        for access in self._accesses("stores", ptrs, lanes, dtype.itemsize):
            if self.run.counts is not None:
                self.run.counts.same_element_twice(self.line(), access, values)
            interpreter._interpreter.store(access.real, values, access.inside)

    def create_atomic_rmw(self, operation, ptr, value, mask, sem, scope):
        self._refuse_bfloat16(value)
        lanes, result = _lanes(mask, ptr.data.shape), np.zeros(ptr.data.shape, value.data.dtype)
        for access in self._accesses("atomic", ptr, lanes, value.data.itemsize):
            inside = TensorHandle(access.inside, tl.int1)
            real = TensorHandle(access.real, ptr.dtype)
            done = super().create_atomic_rmw(operation, real, value, inside, sem, scope)
            result = np.where(access.inside, done.data, result)
        return TensorHandle(result, value.dtype.scalar)

    def create_atomic_cas(self, ptr, compare, value, sem, scope):
        self._refuse_bfloat16(value)
        lanes = np.ones(ptr.data.shape, bool)
        for access in self._accesses("atomic", ptr, lanes, value.data.itemsize):
            if access.inside.all():
                return super().create_atomic_cas(TensorHandle(access.real, ptr.dtype), compare, value, sem, scope)
        return TensorHandle(np.zeros(ptr.data.shape, value.data.dtype), value.dtype.scalar)

    def _accesses(self, kind: str, ptrs, lanes: np.ndarray, itemsize: int):
        line, run = self.line(), self.run
        if run.counts is not None:
            run.counts.instruction(line, lanes, ptrs.data, itemsize, kind)
        for access in run.space.accesses(ptrs.data, lanes, itemsize):
            run.faults.check(access, self.grid_idx, line)
            if run.counts is not None:
                run.counts.access(line, access, kind)
            yield access

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

    def create_fabs(self, arg):
        self._count_flops(arg)
        return super().create_fabs(arg)

    def create_erf(self, arg):
        self._refuse_bfloat16(arg)
        self._count_flops(arg)
        return super().create_erf(arg)

    def create_rsqrt(self, arg):
        self._refuse_bfloat16(arg)
        self._count_flops(arg)
        return super().create_rsqrt(arg)

    def create_fma(self, x, y, z):
        self._refuse_bfloat16(x)
        self._count_flops(z, each=2)
        return super().create_fma(x, y, z)

    def create_dot(self, a, b, d, *precision):
        if self.run.counts is not None:
            matrix = {"fp16": "fp16", "bf16": "bf16", "fp32": "tf32"}.get(str(a.dtype.scalar), str(a.dtype.scalar))
            self.run.counts.flops(self.line(), 2 * d.data.size * a.data.shape[-1], matrix)
        a, b = (TensorHandle(widened(x.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b))
        return super().create_dot(a, b, d, *precision)

    def cast_impl(self, src, dst_type):
        have, want = src.dtype.scalar, dst_type.scalar
        if have == want or tl.bfloat16 not in (have, want):
            return super().cast_impl(src, dst_type)
        if want == tl.bfloat16:
            return TensorHandle(rounded(src.data.astype(np.float32)), want)
        return super().cast_impl(TensorHandle(widened(src.data), tl.float32), dst_type)

    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        if tl.bfloat16 in (src.dtype.scalar, dst_type.scalar):
            return self.cast_impl(src, dst_type)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

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

    def create_extern_elementwise(self, *args):
        raise CompileError("a library function of the GPU's (libdevice) runs on a GPU only", self.line())

    def create_assert(self, condition, message):
        if not condition.data.all():
            raise DeviceAssertion(self.line(), self.grid_idx, message)

    def line(self) -> SourceLine:
        """The line of the learner's kernel that is running."""
        frame = sys._getframe(1)
        while not is_kernel_code(frame.f_code):
            frame = frame.f_back
        return source_line(frame)


def _lanes(mask, shape: tuple[int, ...]) -> np.ndarray:
    data = mask.data if isinstance(mask, TensorHandle) else mask
    return np.ascontiguousarray(np.broadcast_to(data, shape), bool)


def _poison(dtype: np.dtype, kind) -> np.generic:
    if kind == tl.bfloat16:
        return rounded(np.array([np.nan], np.float32))[0]
    if dtype.kind == "f":
        return dtype.type(np.nan)
    return np.frombuffer(b"\xa5" * dtype.itemsize, dtype)[0] if dtype != bool else np.bool_(False)


_NEW_HERE = {"reduced", "line", "get_bf16"}
for _name in vars(CountingBuilder):
    if not _name.startswith("_") and _name not in _NEW_HERE and not hasattr(interpreter.InterpreterBuilder, _name):
        raise ImportError(f"Triton's interpreter has no {_name} to count: pip install 'triton==3.7.1'")
