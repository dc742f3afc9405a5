"""Bit fields of a number, and what a format keeps of gradients, in the reader's hand."""

from collections.abc import Iterable, Mapping

import anywidget
import torch
import traitlets
from torch import Tensor

from gpulab.formats import BLOCK_FORMATS, E4M3, FORMATS, Format
from gpulab.widgets._source import module, style

SHOWN = ("fp32", "tf32", "bf16", "fp16", "fp8 e4m3", "fp8 e5m2", "fp6 e3m2", "fp6 e2m3", "fp4 e2m1")
_TINY = 2.0**-23
EDGES = torch.tensor([1, 1 + _TINY, 1.75, 1.8125 + _TINY, 1.875, 1.9375, 2 - 2**-8, 2 - 2**-11], dtype=torch.float64)
"""Where an octave is divided: what becomes zero or too large in any of these formats begins at one of them."""
_MX, _NV = BLOCK_FORMATS["MXFP4"], BLOCK_FORMATS["NVFP4"]
_LOST_WITH_ITS_SCALE = 2.0**-40
"""Stands for a number whose block's scale became zero: far below anything that FP4 holds."""


class FloatFormats(anywidget.AnyWidget):
    """A number's bits in a format, and a histogram of gradients under the format's range.

    Args:
        gradients: by a name that the reader chooses, tensors of float32. Each is laid out in blocks along its
            last dimension, where blocks share a scale.
        fmt: one of ``SHOWN``. number: what is in the box at first.
        scaling: ``none``, ``mx`` (blocks of 32, a power of two each; FP8, FP6, FP4) or ``nv`` (blocks of 16,
            an FP8 number each, and one float32; FP4).
        loss_scale: exponent of the loss's factor, 0 to 32; without blocks only.

    Raises:
        ValueError: for an unknown format or scaling, and where there is no gradient that is not zero.
    """

    _esm = module("float_formats")
    _css = style("float_formats")
    fmt = traitlets.Unicode().tag(sync=True)
    number = traitlets.Unicode().tag(sync=True)
    data = traitlets.Unicode().tag(sync=True)
    scaling = traitlets.Unicode().tag(sync=True)
    loss_scale = traitlets.Int().tag(sync=True)
    formats = traitlets.Dict().tag(sync=True)
    edges = traitlets.List().tag(sync=True)
    counts = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        gradients: Mapping[str, Iterable[Tensor]],
        fmt: str = "fp16",
        number: str = "0.1",
        scaling: str = "none",
        loss_scale: int = 0,
    ):
        if fmt not in SHOWN or scaling not in scalings(fmt):
            raise ValueError(
                f"choose one of {', '.join(SHOWN)} and a scaling that it has, not {fmt!r} with {scaling!r}"
            )
        if not 0 <= loss_scale <= 32:
            raise ValueError(f"the loss is scaled by a power of two from 0 to 32, not {loss_scale}")
        counts = {name: _counts(list(tensors)) for name, tensors in gradients.items()}
        super().__init__(
            fmt=fmt,
            number=number,
            scaling=scaling,
            loss_scale=loss_scale,
            data=next(iter(counts)),
            formats={name: _told(FORMATS[name]) for name in SHOWN},
            edges=EDGES.tolist(),
            counts=counts,
        )


def scalings(fmt: str) -> list[str]:
    """How numbers of this format are scaled in blocks, besides not at all."""
    return ["none"] + ["mx"] * fmt.startswith(("fp8", "fp6", "fp4")) + ["nv"] * fmt.startswith("fp4")


def _told(fmt: Format) -> dict:
    return {
        "exponent": fmt.exponent_bits,
        "mantissa": fmt.mantissa_bits,
        "reserved": fmt.reserved,
        "stored": fmt.stored_bits,
        "scalings": scalings(fmt.name),
    }


def _counts(tensors: list[Tensor]) -> dict:
    flat = torch.cat([t.detach().flatten() for t in tensors])
    zeros = int((flat == 0).sum())
    if zeros == len(flat):
        raise ValueError("there is no gradient that is not zero")
    return {
        "zeros": zeros,
        "none": _histogram(flat),
        "mx": _histogram(torch.cat([mx_scaled(t).flatten() for t in tensors])),
        "nv": _histogram(torch.cat([nv_scaled(t).flatten() for t in tensors])),
    }


def mx_scaled(gradient: Tensor) -> Tensor:
    """Every number divided by the power of two at or below the largest of its block of 32, in float32."""
    blocks, largest = _blocks(gradient.float(), _MX.block)
    exponent = torch.frexp(largest).exponent - 1
    return torch.ldexp(blocks, -exponent)


def nv_scaled(gradient: Tensor) -> Tensor:
    """Every number as FP4 gets it: over its block's scale in FP8 and the tensor's in float32, in float32."""
    blocks, largest = _blocks(gradient.float(), _NV.block)
    tensor_scale = largest.max() / (_NV.element.largest * E4M3.largest)
    scale = (largest / _NV.element.largest / tensor_scale).to(E4M3.dtype).float() * tensor_scale
    lost = torch.where(blocks == 0, 0.0, _LOST_WITH_ITS_SCALE)
    return torch.where(scale == 0, lost, blocks / scale)


def _blocks(gradient: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Blocks of neighbours in the last dimension, padded with zeros, and the largest magnitude of each."""
    rows = gradient.detach().reshape(-1, gradient.shape[-1])
    rows = torch.nn.functional.pad(rows, (0, -rows.shape[-1] % size))
    blocks = rows.unflatten(-1, (-1, size))
    return blocks, blocks.abs().amax(-1, keepdim=True)


def _histogram(values: Tensor) -> dict:
    """``first``: the octave (exponent of two) of the first eight counts; eight more for each further octave."""
    magnitude = values[values != 0].abs().double()
    mantissa, exponent = torch.frexp(magnitude)
    part = torch.bucketize(mantissa * 2, EDGES, right=True) - 1
    octave = exponent.long() - 1
    first = int(octave.min())
    return {"first": first, "counts": torch.bincount((octave - first) * len(EDGES) + part).tolist()}
