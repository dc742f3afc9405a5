"""An MLP cut over a few ranks: by columns or by rows, and what each choice makes them send."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.tensor_split.layouts import CUTS

RANKS = (2, 4, 8)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384)
WIDTHS = (1024, 2048, 4096, 8192, 12288, 16384)
TIMES = 4
"""The hidden layer is so many times as wide."""


class TensorSplit(anywidget.AnyWidget):
    """``y = gelu(x A) B`` in bf16 over a few ranks; the reader chooses how A and B are cut.

    Args:
        first, second: "columns" or "rows", of A and of B. gather: whether z is made whole in between. sequence: whether x
        and y are split along the tokens. ranks, tokens, width: of :data:`RANKS`, :data:`TOKENS`, :data:`WIDTHS`.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("tensor_split")
    _css = style("tensor_split")
    first = traitlets.Unicode().tag(sync=True)
    second = traitlets.Unicode().tag(sync=True)
    gather = traitlets.Bool().tag(sync=True)
    sequence = traitlets.Bool().tag(sync=True)
    ranks = traitlets.Int().tag(sync=True)
    tokens = traitlets.Int().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        first: str = "columns",
        second: str = "columns",
        gather: bool = False,
        sequence: bool = False,
        ranks: int = 4,
        tokens: int = 8192,
        width: int = 4096,
    ):
        given = (("first", first, CUTS), ("second", second, CUTS), ("ranks", ranks, RANKS))
        for name, value, choices in (*given, ("tokens", tokens, TOKENS), ("width", width, WIDTHS)):
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        known = {"ranks": list(RANKS), "tokens": list(TOKENS), "widths": list(WIDTHS), "times": TIMES}
        moved = {"ranks": ranks, "tokens": tokens, "width": width}
        super().__init__(first=first, second=second, gather=gather, sequence=sequence, known=known, **moved)
