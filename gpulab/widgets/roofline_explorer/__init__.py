"""A card's roofs and one operation under them: what bounds it, in the reader's hand."""

import anywidget
import torch
import traitlets

import gpulab.cuda
from gpulab.cards.cards import CARDS, card_named
from gpulab.observe import Kernel, observe
from gpulab.widgets._source import module, style

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_OPERATIONS = ("chain", "fused", "linear")
_LARGEST = {"rows": 2**13, "width": 2**14, "steps": 2**7}


class RooflineExplorer(anywidget.AnyWidget):
    """An operation on a card's roofline; the reader moves card, number format and sizes.

    Args:
        card: key of one of ``gpulab.cuda.CARDS``.
        fmt: ``fp32``, ``tf32``, ``fp16`` or ``bf16``.
        operation: ``chain``, elementwise operations of a kernel each; ``fused``, the same in one
            kernel; ``linear``, a layer of width x width weights.
        rows, width: elements that it works on. steps: operations of the chain. Powers of two.
        seed: of the quiz; 0 asks other questions each time.

    Raises:
        ValueError: for an unknown card, format or operation, or a size that the sliders do not have.
    """

    _esm = module("roofline_explorer")
    _css = style("roofline_explorer")
    card = traitlets.Unicode().tag(sync=True)
    fmt = traitlets.Unicode().tag(sync=True)
    operation = traitlets.Unicode().tag(sync=True)
    rows = traitlets.Int().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    steps = traitlets.Int().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    cards = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        card: str = "H100",
        fmt: str = "bf16",
        operation: str = "linear",
        rows: int = 64,
        width: int = 4096,
        steps: int = 8,
        seed: int = 0,
    ):
        if fmt not in _DTYPES or operation not in _OPERATIONS:
            raise ValueError(
                f"choose one of {', '.join(_DTYPES)} and one of {', '.join(_OPERATIONS)}, not {fmt}, {operation}"
            )
        for name, size in (("rows", rows), ("width", width), ("steps", steps)):
            if not 1 <= size <= _LARGEST[name] or size & (size - 1):
                raise ValueError(f"{name} is a power of two from 1 to {_LARGEST[name]}, not {size}")
        super().__init__(
            card=card_named(card).key,
            fmt=fmt,
            operation=operation,
            rows=rows,
            width=width,
            steps=steps,
            seed=seed,
            cards={
                key: {"bytes_per_s": known.bytes_per_s, "flops_per_s": {f: known.flops_per_s[f] for f in _DTYPES}}
                for key, known in CARDS.items()
            },
        )

    def observed(self) -> tuple[Kernel, ...]:
        """The kernels that PyTorch launches for this operation, on a card without values.

        PyTorch fuses nothing by itself: raises ValueError for ``fused``.
        """
        if self.operation == "fused":
            raise ValueError("eager PyTorch has no fused chain: see gpulab.kernels.fusion")
        with gpulab.cuda.use(f"ghost:{self.card}", quiet=True):
            x = torch.empty(self.rows, self.width, dtype=_DTYPES[self.fmt], device="cuda")
            weight = (
                torch.empty(self.width, self.width, dtype=x.dtype, device="cuda")
                if self.operation == "linear"
                else None
            )
            with observe() as seen:
                for _ in range(1 if weight is not None else self.steps):
                    x = x * 2 if weight is None else torch.nn.functional.linear(x, weight)
        return seen.kernels
