"""Which operations are copies: they move elements and compute nothing."""

import torch

_KIND_BY_OP = {
    "aten.clone": "clone",
    "aten.copy": "clone",
    "aten.copy_": "copy_",
    "aten._to_copy": "clone",
    "aten.cat": "cat",
    "aten.stack": "cat",
    "aten.repeat": "cat",
    "aten.tile": "cat",
    "aten.index": "gather",
    "aten.index_select": "gather",
    "aten.gather": "gather",
    "aten.take": "gather",
    "aten.masked_select": "gather",
    "aten.repeat_interleave": "gather",
    "aten.flip": "gather",
    "aten.roll": "gather",
    "aten.im2col": "gather",
    "aten.pixel_shuffle": "gather",
    "aten.pixel_unshuffle": "gather",
    "aten.constant_pad_nd": "pad",
}


def copy_kind(op: str, tensors_in: list[torch.Tensor], result: torch.Tensor) -> str | None:
    """The kind of copy that ``op`` made of ``tensors_in``, or None when it is no copy.

    ``tensors_in`` are the operation's tensor arguments, for an in-place operation the
    destination first; ``result`` is what it returned.
    """
    kind = _KIND_BY_OP.get(op)
    if kind is None and op.startswith("aten.") and op.endswith("_copy"):
        kind = "clone"
    if kind in ("clone", "copy_") and any(t.dtype != result.dtype for t in tensors_in):
        return "cast"
    return kind
