"""Shape, strides and offset over one storage, in the reader's hand."""

from collections.abc import Sequence
from math import prod

import anywidget
import torch
import traitlets

from gpulab.widgets._source import module, style

MAX_ELEMENTS = 64
MAX_DIMS = 4
MAX_STORAGE = 64


class StrideExplorer(anywidget.AnyWidget):
    """A strided view of `torch.arange(storage)` that the reader changes by hand.

    Args:
        shape: sizes, at most 4 of them, at most 64 elements in all.
        stride: strides in elements, one a dimension; the contiguous ones when omitted.
        offset: storage offset in elements.
        storage: elements in the storage, at most 64; as many as the view needs when omitted.
        quiz: start in quiz mode.
        seed: repeat the same questions; 0 draws new ones on each visit.

    Raises:
        ValueError: for a view that the picture cannot hold, or strides that torch refuses.
    """

    _esm = module("stride_explorer")
    _css = style("stride_explorer")
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    stride = traitlets.List(traitlets.Int()).tag(sync=True)
    offset = traitlets.Int(0).tag(sync=True)
    storage = traitlets.Int(1).tag(sync=True)
    mode = traitlets.Enum(["explore", "quiz"], "explore").tag(sync=True)
    seed = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        stride: Sequence[int] | None = None,
        offset: int = 0,
        storage: int | None = None,
        quiz: bool = False,
        seed: int = 0,
    ):
        stride = _contiguous(shape) if stride is None else stride
        _check(shape, stride, offset)
        storage = max(1, _needed(shape, stride, offset)) if storage is None else storage
        if not 1 <= storage <= MAX_STORAGE:
            raise ValueError(f"a storage of {storage} elements: the picture holds 1 to {MAX_STORAGE}")
        super().__init__(
            shape=list(shape),
            stride=list(stride),
            offset=offset,
            storage=storage,
            mode="quiz" if quiz else "explore",
            seed=seed,
        )

    def tensor(self) -> torch.Tensor:
        """The view on show, int64. Raises torch's RuntimeError when it leaves the storage."""
        return torch.arange(self.storage).as_strided(self.shape, self.stride, self.offset)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(tuple(shape), device="meta").stride()


def _needed(shape: Sequence[int], stride: Sequence[int], offset: int) -> int:
    if prod(shape) == 0:
        return 0
    return 1 + offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _check(shape: Sequence[int], stride: Sequence[int], offset: int) -> None:
    if len(shape) != len(stride):
        raise ValueError(f"shape {tuple(shape)} and stride {tuple(stride)} differ in length")
    if len(shape) > MAX_DIMS or prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"shape {tuple(shape)} is too large: at most {MAX_DIMS} dimensions, {MAX_ELEMENTS} elements")
    if min([*shape, *stride, offset]) < 0:
        raise ValueError("sizes, strides and offset are 0 or more: torch has no negative strides")
