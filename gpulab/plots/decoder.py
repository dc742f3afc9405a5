"""The figure of one decoder layer: what a token's vector passes through, and which of it is weights or cache."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from matplotlib.patches import Ellipse, FancyBboxPatch, Rectangle

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

if TYPE_CHECKING:
    from gpulab.memory.shapes import Shape

_STREAM = 0.7
"""Where the residual stream runs down, in units of the axes."""
_SUMS, _ADDED = (12.1, 18.2), 0.33
"""Where a branch is added to it, and the radius of that sign."""
_Q, _K, _V = 2.9, 5.3, 7.7
_MIDDLE = (_Q + _V) / 2


def decoder_layer(name: str, shape: "Shape") -> Figure:
    """One layer of a decoder with RMSNorm, rotary positions, grouped queries and a gated MLP, from top to bottom.

    ``name`` is the model's, for the caption. Sizes at matrices are elements in and out.
    """
    with style():
        figure, axes = plt.subplots(figsize=(4.3, 7.2))
        axes.set(xlim=(0, 9), ylim=(19.7, -0.2))
        axes.axis("off")
        _stream(axes, shape)
        _attention(axes, shape)
        _mlp(axes, shape)
        figure.tight_layout(pad=0.2)
    return Figure.of(figure, _in_words(shape), _caption(name, shape), narrow=True)


def _stream(axes, shape: "Shape") -> None:
    ends = (0.9, *(at + side * _ADDED for at in _SUMS for side in (-1, 1)), 18.9)
    for start, end in zip(ends[::2], ends[1::2], strict=True):
        axes.plot([_STREAM, _STREAM], [start, end], color=INK, linewidth=4, alpha=0.45, solid_capstyle="butt")
    _arrow(axes, (_STREAM, 18.8), (_STREAM, 19.1))
    _words(axes, 0.1, 0.2, f"residual stream: {shape.width:,} numbers for each token", ha="left")
    _words(axes, 0.1, 19.4, f"to the next of {shape.layers} layers, then RMSNorm and head", ha="left")


def _attention(axes, shape: "Shape") -> None:
    _norm(axes, 1.7, _V)
    for x, matrix in ((_Q, "q_proj"), (_K, "k_proj"), (_V, "v_proj")):
        _arrow(axes, (x, 1.7), (x, 2.5))
        _matrix(axes, x, 3.1, matrix, shape.products[matrix])
    for x in (_Q, _K):
        _arrow(axes, (x, 3.7), (x, 4.2))
        _box(axes, x, 4.6, "RoPE", 1.5)
    _arrow(axes, (_K, 5.0), (_K, 5.6))
    _arrow(axes, (_V, 3.7), (_V, 5.6))
    _box(axes, (_K + _V) / 2, 6.1, "KV cache: all tokens so far", 4.7, WARNING)
    _heads(axes, shape)
    _arrow(axes, (_Q, 5.0), (_Q, 7.2))
    for x in (_K, _V):
        _arrow(axes, (x, 6.6), (x, 7.2))
    _box(axes, _MIDDLE, 9.3, "softmax(q · k / √width of a head) · v", 6.6)
    _arrow(axes, (_MIDDLE, 9.7), (_MIDDLE, 10.3))
    _matrix(axes, _MIDDLE, 10.9, "o_proj", shape.products["o_proj"])
    _back(axes, 11.5, _SUMS[0])


def _heads(axes, shape: "Shape") -> None:
    """Two groups of query heads, each over the one head of keys and of values that it shares."""
    group = shape.heads // shape.kv_heads
    side = 1.1 / group
    for colour, y in ((ACCENT, 7.3), (INK, 7.75)):
        for head in range(group):
            left = _Q - 0.55 + head * side
            axes.add_patch(Rectangle((left, y), 0.8 * side, 0.3, facecolor=colour, alpha=0.6))
        for x in (_K, _V):
            axes.add_patch(Rectangle((x - 0.4 * side, y), 0.8 * side, 0.3, facecolor=colour, alpha=0.6))
    _words(axes, _Q, 8.5, f"{shape.heads} heads")
    for x in (_K, _V):
        _words(axes, x, 8.5, f"{shape.kv_heads} heads")


def _mlp(axes, shape: "Shape") -> None:
    gate, up = _Q + 0.6, _V - 0.6
    _norm(axes, 13.1, up)
    for x, matrix in ((gate, "gate_proj"), (up, "up_proj")):
        _arrow(axes, (x, 13.1), (x, 13.9))
        _matrix(axes, x, 14.5, matrix, shape.products[matrix])
    _arrow(axes, (gate, 15.1), (gate, 15.5))
    _box(axes, gate, 15.85, "SiLU", 1.5, height=0.7)
    axes.plot([gate + 0.75, _MIDDLE - 0.3], [15.85, 15.85], color=INK, linewidth=1)
    axes.plot([up, up, _MIDDLE + 0.3], [15.1, 15.85, 15.85], color=INK, linewidth=1)
    _words(axes, _MIDDLE, 15.85, "×", size=14)
    _arrow(axes, (_MIDDLE, 16.1), (_MIDDLE, 16.5))
    _matrix(axes, _MIDDLE, 17.1, "down_proj", shape.products["down_proj"])
    _back(axes, 17.7, _SUMS[1])


def _norm(axes, y: float, to: float) -> None:
    """A branch: RMSNorm reads the stream, and its result goes to the right."""
    left, width = 0.95, 1.65
    axes.plot([_STREAM, left], [y, y], color=INK, linewidth=1)
    _box(axes, left + width / 2, y, "RMSNorm", width)
    axes.plot([left + width, to], [y, y], color=INK, linewidth=1)


def _back(axes, y: float, at: float) -> None:
    """What a branch ends in is added to the stream."""
    axes.plot([_MIDDLE, _MIDDLE], [y, at], color=INK, linewidth=1)
    _arrow(axes, (_MIDDLE, at), (_STREAM + _ADDED, at))
    axes.add_patch(Ellipse((_STREAM, at), 2 * _ADDED, 2 * _ADDED, facecolor="none", edgecolor=INK))
    _words(axes, _STREAM, at, "+", size=11)


def _matrix(axes, x: float, y: float, name: str, sizes: Iterable[int]) -> None:
    into, out = sizes
    _box(axes, x, y, f"{name}\n{into:,} → {out:,}", 2.25, ACCENT, height=1.2)


def _box(axes, x: float, y: float, words: str, width: float, colour=INK, height=0.8) -> None:
    """Around a middle."""
    place, shape = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.15"
    fill = (colour, 0.12) if colour != INK else "none"
    axes.add_patch(FancyBboxPatch(place, width, height, shape, facecolor=fill, edgecolor=colour))
    _words(axes, x, y, words)


def _words(axes, x: float, y: float, words: str, size: float = 9, ha: str = "center") -> None:
    axes.annotate(words, (x, y), ha=ha, va="center", size=size)


def _arrow(axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
    )


def _in_words(shape: "Shape") -> str:
    sizes = ", ".join(f"{name} from {into:,} to {out:,}" for name, (into, out) in shape.products.items())
    return (
        f"A decoder layer beside its residual stream of {shape.width:,} numbers for each token. First branch: RMSNorm; "
        f"q_proj, k_proj and v_proj; rotary positions for queries and keys; keys and values go into the cache; "
        f"{shape.heads} query heads share {shape.kv_heads} heads of keys and values; softmax of scores times values; "
        f"o_proj; added to the stream. Second branch: RMSNorm; gate_proj and up_proj; SiLU of the gate times the other; "
        f"down_proj; added to the stream. Sizes: {sizes}."
    )


def _caption(name: str, shape: "Shape") -> str:
    return (
        f"One of the {shape.layers} layers of {name}. Boxes with two sizes are matrices of weights. Each group of "
        f"{shape.heads // shape.kv_heads} query heads shares one head of keys and one of values; two of the "
        f"{shape.kv_heads} groups are drawn."
    )
