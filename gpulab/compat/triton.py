"""Triton: its jit functions, its compiler, its drivers, its language's modules."""

import triton.testing
from triton.backends.compiler import GPUTarget as GPUTarget
from triton.backends.nvidia.compiler import min_dot_size as min_dot_size
from triton.compiler.code_generator import CodeGenerator as CodeGenerator
from triton.language import core as core
from triton.language import math as math
from triton.language.semantic import TritonSemantic as TritonSemantic
from triton.runtime import driver as driver
from triton.runtime.jit import ConstexprFunction as ConstexprFunction
from triton.runtime.jit import JITFunction as JITFunction
from triton.runtime.jit import TensorWrapper as TensorWrapper

OLDEST, TOO_NEW = (3, 6), (3, 10)
"""Versions whose interpreter is known."""
_FOUND = tuple(int(part) for part in triton.__version__.split(".")[:2])
if not OLDEST <= _FOUND < TOO_NEW:
    raise ImportError(
        f"gpulab.kernels knows the interpreters of Triton {OLDEST[0]}.{OLDEST[1]} to "
        f"{TOO_NEW[0]}.{TOO_NEW[1] - 1}, and this is {triton.__version__}: pip install 'triton==3.7.1'"
    )

summarize_statistics = triton.testing._summarize_statistics
