"""Triton's own compiler, which needs no GPU, takes and refuses the kernels that the interpreter does."""

import pytest
import triton as real_triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError

from gpulab.kernels import tl, triton
from tests.kernels.tiles import kernels, test_autotune, test_bfloat16, test_language, test_races

HOPPER = GPUTarget("cuda", 90, 32)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel, **types):
    """PTX of a kernel for an H100. types: of each argument; a number is a constant."""
    signature = {name: kind if isinstance(kind, str) else "constexpr" for name, kind in types.items()}
    constants = {name: kind for name, kind in types.items() if not isinstance(kind, str)}
    source = ASTSource(kernel, signature=signature, constexprs=constants)
    return real_triton.compile(source, target=HOPPER).asm["ptx"]


@pytest.mark.parametrize(
    ("kernel", "types"),
    [
        (kernels.add, dict(x_ptr="*fp32", y_ptr="*fp32", out_ptr="*fp32", n="i32", BLOCK=1024)),
        (kernels.copy, dict(x_ptr="*fp32", out_ptr="*fp32", n="i32", BLOCK=1024)),
        (kernels.copy_unmasked, dict(x_ptr="*fp32", out_ptr="*fp32", BLOCK=1024)),
        (kernels.softmax, dict(x_ptr="*fp32", out_ptr="*fp32", row_stride="i32", columns="i32", BLOCK=128)),
        (
            kernels.linear_relu,
            dict(
                a_ptr="*fp16",
                b_ptr="*fp16",
                bias_ptr="*fp16",
                c_ptr="*fp16",
                M="i32",
                N="i32",
                K="i32",
                BM=64,
                BN=64,
                BK=32,
            ),
        ),
        (kernels.total, dict(x_ptr="*fp32", out_ptr="*fp32", n="i32", BLOCK=256)),
        (test_autotune.copy.fn, dict(x_ptr="*fp32", out_ptr="*fp32", n="i32", BLOCK=64)),
        (test_bfloat16.scaled, dict(x_ptr="*bf16", out_ptr="*bf16", n="i32", BLOCK=64)),
        (test_races.locked, dict(lock_ptr="*i32", out_ptr="*fp32")),
        (test_races.last_adds_up, dict(x_ptr="*fp32", partial_ptr="*fp32", count_ptr="*i32", out_ptr="*fp32", N=8)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_runs_here_compiles_for_a_gpu(kernel, types):
    assert f".entry {kernel.__name__}" in compiled(kernel, **types)


@triton.jit
def counts_blocks(out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out_ptr, triton.cdiv(N, BLOCK))


def test_a_kernel_reaches_triton_by_the_name_that_we_give_it():
    assert ".entry counts_blocks" in compiled(counts_blocks, out_ptr="*i32", N=100, BLOCK=32)


@pytest.mark.parametrize(
    "kernel",
    [
        test_language.calls_numpy,
        test_language.calls_torch,
        test_language.reads_a_global,
        test_language.breaks,
        test_language.returns_in_a_loop,
        test_language.chains,
        test_language.tries,
        test_language.loops_over_a_list,
        test_language.sums_with_python,
        test_language.calls_a_plain_function,
        test_language.misspells,
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_what_is_refused_here_does_not_compile(kernel):
    # A function that is not Triton's stops it before it compiles.
    with pytest.raises((CompilationError, RuntimeError)):
        compiled(kernel, out_ptr="*fp32")
