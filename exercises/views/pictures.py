"""Images and frames for E1.2 and E1.4, in every layout and of every dtype."""

import itertools
from collections.abc import Iterator

import torch

from autograder.core.sampler import Sampler
from autograder.core.strata import laid_out
from autograder.judge.expect import tensor_problem
from gpulab import shares_storage

_WITHIN_FLOAT32 = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.float32)
_BEYOND_FLOAT32 = (torch.int32, torch.int64, torch.float64, torch.complex64, torch.complex128)
DTYPES = _WITHIN_FLOAT32 + _BEYOND_FLOAT32
LAYOUTS = (
    "contiguous",
    "offset",
    "stepped",
    "padded",
    "transposed",
    "channels_last",
    "expanded",
    "repeated",
    "flat",
    "windows",
)

_ONE_OF_ALL = {"repeated": 0, "expanded": 1, "flat": 3}
"""Layouts in which all images, all channels or all columns are one, and which dimension that is."""


def dtypes(sampler: Sampler) -> Iterator[torch.dtype]:
    """Every dtype in turn, for ever; of each two neighbours one holds values that float32 does not (``telling`` draws them)."""
    within, beyond = (
        itertools.cycle(sampler.shuffled(*_WITHIN_FLOAT32)),
        itertools.cycle(sampler.shuffled(*_BEYOND_FLOAT32)),
    )
    while True:
        yield from sampler.shuffled(next(within), next(beyond))


def telling(sampler: Sampler, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Distinct values, where the dtype has as many, that no narrower dtype holds."""
    values = sampler.tensor(*shape, dtype=torch.int64)
    if dtype is torch.bool:
        return values % 3 == 0
    if dtype.is_complex:
        return torch.complex(values.double() + 1 / 3, -values.double()).to(dtype)
    if dtype.is_floating_point:
        return ((values - values.numel() // 2) / 7 + 1 / 3).to(dtype)
    spread = {torch.int64: 2**53 + 1, torch.int32: 2**24 + 1}.get(dtype, 0)
    return (values + spread).to(dtype)


def pictures(sampler: Sampler, layout: str, n: int, c: int, h: int, w: int, dtype: torch.dtype) -> torch.Tensor:
    """(n, c, h, w) in one of ``LAYOUTS``; ``windows``: rows overlap, where they are longer than one step. A dimension that is expanded has two entries or more."""
    if layout in _ONE_OF_ALL:
        shown = [n, c, h, w]
        place = _ONE_OF_ALL[layout]
        shown[place] = max(2, shown[place])
        return telling(sampler, *(1 if d == place else size for d, size in enumerate(shown)), dtype=dtype).expand(shown)
    if layout == "windows":
        step = 2 if w > 2 else 1  # by one step rows and columns could be exchanged unseen
        return telling(sampler, n, c, (h - 1) * step + w, dtype=dtype).unfold(2, w, step)
    return laid_out(telling(sampler, n, c, h, w, dtype=dtype), layout)


def grids(sampler: Sampler) -> Iterator[tuple[int, int, int]]:
    """(patch, rows, columns): one patch and several each way, as many, patches of one pixel, of the whole image, of primes."""
    many, more = sampler.permutation((2, 3, 5))[:2]
    yield from ((1, many, more), (2, many, more), (3, 1, many), (5, many, 1), (4, 1, 1), (2, many, many))


def same_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one dtype hold the same elements, in whatever order."""
    if a.numel() != b.numel():
        return False
    return sorted(map(str, a.flatten().tolist())) == sorted(map(str, b.flatten().tolist()))


def change_problem(before: torch.Tensor, after: object, memory: torch.Tensor) -> str | None:
    """Why the argument is not what it was; ``{}`` stands for its name. memory: what its own memory holds now."""
    if not torch.equal(_bits(memory), _bits(before)):
        return "The function changed the {}."
    if tensor_problem(after, before) or after.stride() != before.stride() or not shares_storage(after, memory):
        return "The function made another tensor of the caller's {}: give a new view and leave the argument alone."
    return None


def _bits(x: torch.Tensor) -> torch.Tensor:
    """Its elements' bytes: NaN is then what it was."""
    return x.flatten().contiguous().view(torch.uint8)


def with_special_values(frames: torch.Tensor) -> torch.Tensor:
    """``frames``, which share no element, with NaN, both infinities and -0.0 in some places."""
    for place, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0)):
        frames[:, place % frames.shape[1], place // frames.shape[1], place % frames.shape[3]] = value
    return frames
