"""Matrix products by number format, by rows, and with weights in 4 bits."""

from collections.abc import Callable

import torch

import gpulab.cuda
from evidence.studies import Figures, Rows, Study
from evidence.timing import behind_a_busy_device_us, device_us
from gpulab.compat.operators import convert_weight_to_int4pack, scaled_mm, weight_int4pack_mm

F = torch.nn.functional
_WIDE, _COPIES = 4096, 16  # so many weights that none is in the L2 cache when its turn comes again
_ROWS = (1, 8, 16, 32, 64, 128, 192, 256, 320, 384, 512, 1024, 2048, 4096)


def _float8(n: int, fast: bool) -> Callable[[], torch.Tensor]:
    """e4m3 times e4m3, one scale for each matrix, the result in bfloat16."""
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    if gpulab.cuda.current() != "real":
        raise gpulab.cuda.NotModelled("float8")
    one = torch.ones((), device="cuda")
    return lambda: scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)


def _product(n: int, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    return lambda: a @ b


def _rate(n: int, call: Callable, tf32: bool = False) -> Figures:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        us = device_us(call)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return {"us": us, "flops_per_s": 2 * n**3 / (us / 1e6)}


def formats() -> Rows:
    for n in (4096, 8192):
        yield f"{n}, fp32", lambda: _rate(n, _product(n, torch.float32))
        yield f"{n}, TF32", lambda: _rate(n, _product(n, torch.float32), tf32=True)
        yield f"{n}, fp16", lambda: _rate(n, _product(n, torch.float16))
        yield f"{n}, bf16", lambda: _rate(n, _product(n, torch.bfloat16))
        yield f"{n}, fp8 e4m3", lambda: _rate(n, _float8(n, fast=False))
        yield f"{n}, fp8 e4m3, fast accumulation", lambda: _rate(n, _float8(n, fast=True))


def _in_turn(calls: list[Callable]) -> Figures:
    """A call's time, each with a weight of its own, once the host is ahead."""

    def every() -> None:
        for call in calls:
            call()

    return {"us": behind_a_busy_device_us(every, calls=3) / len(calls)}


def _sixteen_bits(rows: int, weights: list[torch.Tensor]) -> Figures:
    x = torch.randn(rows, _WIDE, device="cuda", dtype=torch.bfloat16)
    return _in_turn([lambda w=w: F.linear(x, w) for w in weights])


def _four_bits(rows: int, packed: list[torch.Tensor], scales: torch.Tensor) -> Figures:
    x = torch.randn(rows, _WIDE, device="cuda", dtype=torch.bfloat16)
    return _in_turn([lambda w=w: weight_int4pack_mm(x, w, 64, scales) for w in packed])


def linear_by_rows() -> Rows:
    weights = [torch.randn(_WIDE, _WIDE, device="cuda", dtype=torch.bfloat16) for _ in range(_COPIES)]
    for rows in _ROWS:
        yield f"{rows} rows", lambda: _sixteen_bits(rows, weights)


def four_bits() -> Rows:
    codes = [torch.randint(0, 256, (_WIDE, _WIDE // 2), dtype=torch.uint8, device="cuda") for _ in range(_COPIES)]
    packed = [convert_weight_to_int4pack(code, 8) for code in codes]
    scales = torch.rand(_WIDE // 64, _WIDE, 2, device="cuda").to(torch.bfloat16)
    for rows in (1, 8, 16, 32, 64, 128, 256, 1024, 4096):
        yield f"{rows} rows", lambda: _four_bits(rows, packed, scales)


STUDIES = {
    "matrix products by format": Study(
        formats,
        "A square product of random values, the median of five rounds.",
        ("one_gpu/precision", "one_gpu/eight_bits"),
        "ghost",
    ),
    "a linear layer by rows": Study(
        linear_by_rows,
        "bfloat16, 4096 x 4096, sixteen weights in turn so that each comes from device memory; the host is ahead.",
        ("one_gpu/memory", "serving/inference"),
        "ghost",
    ),
    "a linear layer in 4 bits": Study(
        four_bits,
        "PyTorch's _weight_int4pack_mm with a scale and a zero for 64 weights, sixteen weights of 4096 x 4096 in turn.",
        ("one_gpu/memory",),
    ),
}
