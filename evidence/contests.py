"""The reference kernels at full size, each beside the vendor's library and ``torch.compile``."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from evidence.solutions import solutions

F = torch.nn.functional
Call = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Contest:
    """One job, prepared: calls that do it and give the result.

    kernel: the exercise's solution. plain: the job in PyTorch, and its arguments: the library's time,
    and what ``torch.compile`` gets. exact: the result in float64. bytes: those that must move.
    flops: floating-point operations of a matrix product, 0 for others. more: further calls to time.
    """

    kernel: Call
    plain: tuple[Callable, tuple]
    exact: Call
    bytes: int
    flops: int = 0
    more: dict[str, Call] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What is prepared, of which size. ``small``: the size of a dry run, which an interpreter runs.

    tolerance: of the largest error, as a share of the largest element of the result.
    """

    chapter: str
    language: str
    dtype: str
    tolerance: float
    prepare: Callable[..., Contest]
    size: tuple[int, ...]
    small: tuple[int, ...]

    @property
    def source(self) -> str:
        return f"exercises/{self.chapter}/notebook.py"


def _random(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def _add(n: int) -> Contest:
    add_vectors, (a, b) = solutions("execution").add_vectors, (_random(n), _random(n))
    out = torch.empty_like(a)

    def kernel() -> torch.Tensor:
        add_vectors(a, b, out, 256)
        return out

    return Contest(kernel, (torch.add, (a, b)), lambda: a.double() + b.double(), 3 * a.nbytes)


def _shade(height: int, width: int) -> Contest:
    shade, image, gain = solutions("execution").shade, _random(height, width), _random(width)
    out = torch.empty_like(image)

    def kernel() -> torch.Tensor:
        shade(image, gain, out, (32, 8))
        return out

    return Contest(kernel, (torch.mul, (image, gain)), lambda: image.double() * gain.double(), 2 * image.nbytes)


def _row_sums(rows: int, columns: int) -> Contest:
    row_sums, x = solutions("hierarchy").row_sums, _random(rows, columns)
    return Contest(lambda: row_sums(x), (torch.sum, (x, 1)), lambda: x.double().sum(1), x.nbytes + 4 * rows)


def _tiled_product(n: int) -> Contest:
    tiled_matmul, (a, b) = solutions("hierarchy").tiled_matmul, (_random(n, n), _random(n, n))
    plain = torch.matmul, (a, b)
    return Contest(lambda: tiled_matmul(a, b), plain, lambda: a.double() @ b.double(), 3 * a.nbytes, 2 * n**3)


def _gate(rows: int, columns: int) -> Contest:
    of, x, gate, bias = solutions("kernels"), _random(rows, columns), _random(rows, columns), _random(columns)
    inputs = x, gate, bias
    return Contest(
        lambda: of.fused_gate(*inputs),
        (of.plain_gate, inputs),
        lambda: of.plain_gate(*(tensor.double() for tensor in inputs)),
        3 * x.nbytes + bias.nbytes,
    )


def _softmax(rows: int, columns: int) -> Contest:
    row_softmax, x = solutions("kernels").row_softmax, _random(rows, columns)
    plain = torch.softmax, (x, 1)
    return Contest(lambda: row_softmax(x), plain, lambda: torch.softmax(x.double(), 1), 2 * x.nbytes)


def _linear_silu(tile: tuple[int, int, int] | None = None, warps: int = 0, stages: int = 0) -> Callable[..., Contest]:
    """The layer of E7.4: as the exercise launches it, or its kernel with other tiles, (M, N, K)."""

    def prepare(m: int, n: int, k: int) -> Contest:
        of = solutions("kernels")
        x, weight = _random(m, k, dtype=torch.float16) / k**0.5, _random(n, k, dtype=torch.float16)
        layer = x, weight, _random(n, dtype=torch.float16)

        def with_tile() -> torch.Tensor:
            out = torch.empty(m, n, dtype=x.dtype, device=x.device)
            grid, names = (-(-m // tile[0]), -(-n // tile[1])), dict(zip(("BM", "BN", "BK"), tile))
            of.linear_silu_kernel[grid](*layer, out, m, n, k, **names, num_warps=warps, num_stages=stages)
            return out

        return Contest(
            with_tile if tile else lambda: of.linear_silu(*layer),
            (of.plain_linear, layer),
            lambda: of.plain_linear(*(tensor.double() for tensor in layer)),
            sum(tensor.nbytes for tensor in layer) + 2 * m * n,
            2 * m * n * k,
            {"cuBLAS, product and bias alone": lambda: F.linear(*layer)},
        )

    return prepare


TILES = (((64, 64, 64), 4, 4), ((128, 128, 64), 4, 3), ((128, 128, 64), 8, 3), ((128, 256, 64), 8, 3))
"""Rows, columns and depth of a tile, warps and stages, with which the layer's kernel runs too."""


def _layer_job(*tile) -> Job:
    return Job("kernels", "triton", "fp16", 2e-3, _linear_silu(*tile), (8192, 4096, 4096), (80, 48, 72))


def _name(tile: tuple[int, int, int], warps: int, stages: int) -> str:
    return f"linear_silu, tiles {tile[0]} x {tile[1]} x {tile[2]}, {warps} warps"


JOBS: dict[str, Job] = {
    "add_vectors": Job("execution", "numba", "fp32", 1e-6, _add, (1 << 26,), (1000,)),
    "shade": Job("execution", "numba", "fp32", 1e-6, _shade, (8192, 8192), (40, 70)),
    "row_sums": Job("hierarchy", "numba", "fp32", 1e-5, _row_sums, (16384, 4096), (10, 200)),
    "tiled_matmul": Job("hierarchy", "numba", "fp32", 1e-5, _tiled_product, (4096,), (40,)),
    "fused_gate": Job("kernels", "triton", "fp32", 1e-5, _gate, (8192, 8192), (16, 100)),
    "row_softmax": Job("kernels", "triton", "fp32", 1e-5, _softmax, (16384, 4096), (16, 200)),
    "linear_silu": _layer_job(),
    **{_name(*tile): _layer_job(*tile) for tile in TILES},
}
