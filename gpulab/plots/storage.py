"""A figure of the order in which a storage holds things, as strips of lettered cells."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from gpulab.plots.figure import INK, Figure, style

_FILLS = ("#d1495b", "#3a9d5d", "#3b7dd8", "#b8860b", "#7d5ba6", "#5c7080")


def storage_strips(strips: Mapping[str, Sequence[str]], alt: str, caption: str = "") -> Figure:
    """Draw each strip's cells in storage order, one colour a letter.

    strips: name of the layout -> one short string a storage element. Colours go to letters in
    the order in which they first appear: red, green, blue, ...

    Raises ValueError when there is nothing to draw or more than six different letters.
    """
    letters = list(dict.fromkeys(letter for cells in strips.values() for letter in cells))
    if not letters or len(letters) > len(_FILLS):
        raise ValueError(f"{len(letters)} different letters: draw one to {len(_FILLS)} of them")
    fill = dict(zip(letters, _FILLS))
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.85 * len(strips)))
        for row, (name, cells) in enumerate(strips.items()):
            _strip(axes, -1.9 * row, name, cells, fill)
        axes.set_xlim(0, max(map(len, strips.values())))
        axes.set_ylim(-1.9 * (len(strips) - 1) - 0.1, 1.8)
        axes.axis("off")
    return Figure.of(figure, alt=alt, caption=caption)


def _strip(axes, bottom: float, name: str, cells: Sequence[str], fill: Mapping[str, str]) -> None:
    axes.text(0, bottom + 1.2, name, va="bottom")
    for at, letter in enumerate(cells):
        axes.add_patch(Rectangle((at, bottom), 1, 1, facecolor=fill[letter], alpha=0.35, edgecolor=INK, linewidth=0.6))
        axes.text(at + 0.5, bottom + 0.48, letter, ha="center", va="center", fontsize=10)
