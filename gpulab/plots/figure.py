"""A matplotlib figure as inline SVG whose ink is the page's own text colour."""

import html
import io
import itertools
import re
from dataclasses import dataclass, field

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure as MatplotlibFigure

# Matplotlib draws in these colours; the page decides what they are.
INK = "#010203"
ACCENT = "#0b62a4"
WARNING = "#b3470b"
_CSS_BY_COLOUR = {
    INK: "currentColor",
    ACCENT: f"var(--gpulab-accent, {ACCENT})",
    WARNING: f"var(--gpulab-warning, {WARNING})",
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gpulab",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_serial = itertools.count(1)


def style():
    """A context manager: matplotlib draws in the house style inside it."""
    return matplotlib.rc_context(_STYLE)


@dataclass(frozen=True)
class Figure:
    """An SVG picture with the words that stand for it (``alt``) and below it (``caption``).

    ``narrow``: it is drawn for the width of a phone, and no wider anywhere.
    """

    svg: str
    alt: str
    caption: str = ""
    narrow: bool = False
    number: int = field(default_factory=lambda: next(_serial))

    @classmethod
    def of(cls, figure: MatplotlibFigure, alt: str, caption: str = "", narrow: bool = False) -> "Figure":
        """Render ``figure`` (drawn inside :func:`style`) and close it.

        Raises ValueError without ``alt``: a picture that says nothing to a screen reader
        is not finished.
        """
        if not alt.strip():
            raise ValueError("give the figure an alt text: what does a reader see in it?")
        buffer = io.StringIO()
        with style():
            figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        return cls(_themed(buffer.getvalue()), alt, caption, narrow)

    def _repr_html_(self) -> str:
        # Ids in inline SVG are global to the page: keep those of each figure apart.
        svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>f{self.number}-", self.svg)
        label = html.escape(self.alt, quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        width = " narrow" if self.narrow else ""
        return f'<figure class="gpulab-figure{width}">{svg}{caption}</figure>'

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"


def _themed(svg: str) -> str:
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r'<svg (.*?)width="[\d.]+pt" height="[\d.]+pt"', r"<svg \1", svg, count=1, flags=re.S)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for colour, css in _CSS_BY_COLOUR.items():
        svg = svg.replace(colour, css)
    return svg
