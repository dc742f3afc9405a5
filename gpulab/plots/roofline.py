"""The roofline figure: what a card allows a kernel, by its arithmetic and its bytes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from gpulab.cards.cards import Card, card_named
from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

if TYPE_CHECKING:
    from gpulab.observe import Kernel, Launch

_SECTOR_BYTES = 32
_WIDTH_TO_THE_LEFT = 16


@dataclass(frozen=True)
class Point:
    """A kernel on the roofline: its work, and where it was timed how long it took.

    flops: floating-point operations. bytes: moved between the chip and its memory. ``fmt``: the number
    format whose roof is over it, a key of ``Card.flops_per_s``. ``us``: microseconds measured on that
    card; None when nobody measured.
    """

    name: str
    flops: int
    bytes: int
    fmt: str = "fp32"
    us: float | None = None

    def __post_init__(self) -> None:
        if self.flops <= 0 or self.bytes <= 0:
            raise ValueError(f"{self.name}: {self.flops} flops on {self.bytes} bytes have no place on a roofline")

    @classmethod
    def of_launch(cls, launch: "Launch", fmt: str = "fp32", us: float | None = None) -> "Point":
        """A kernel written in Python, with the bytes of the 32-byte sectors that it asked of L1.

        Caches let fewer cross to device memory, so its place is as far left as the kernel can stand.
        """
        return cls(launch.name, launch.total("flops"), _SECTOR_BYTES * launch.sectors, fmt, us)

    @classmethod
    def of_kernel(cls, kernel: "Kernel", fmt: str = "fp32", us: float | None = None) -> "Point":
        """A kernel of an Observation. Its times are not taken over: on a virtual card they are modelled."""
        return cls(kernel.name, kernel.flops, kernel.bytes_read + kernel.bytes_written, fmt, us)

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes

    @property
    def flops_per_s(self) -> float | None:
        """What was measured; None when nothing was."""
        return None if self.us is None else self.flops / self.us * 1e6


def ridge(card: Card, fmt: str) -> float:
    """FLOP per byte at which the roofs of memory and of compute meet."""
    return card.flops_per_s[fmt] / card.bytes_per_s


def attainable(card: Card, point: Point) -> float:
    """FLOP/s that the card's peak and its bandwidth allow the kernel at most."""
    return min(card.flops_per_s[point.fmt], point.intensity * card.bytes_per_s)


def bound(card: Card, point: Point) -> str:
    """``memory`` or ``compute``: the roof that the kernel meets first."""
    return "memory" if point.intensity < ridge(card, point.fmt) else "compute"


def roofline(card: Card | str, points: Iterable[Point], formats: Sequence[str] = ("fp32", "bf16")) -> Figure:
    """A card's roofs with kernels under them, both axes logarithmic.

    card: a card or its key, as in ``gpulab.cuda.CARDS``. formats: number formats whose roofs are drawn
    besides those of the points. A kernel that was not measured is an open circle on its roof, the most
    that it can reach; a measured one is a filled circle where it was. Raises ValueError for a format
    that the card has no peak for.
    """
    card, points = card_named(card) if isinstance(card, str) else card, list(points)
    drawn = list(dict.fromkeys([*formats, *(point.fmt for point in points)]))
    for fmt in drawn:
        if fmt not in card.flops_per_s:
            raise ValueError(f"the {card.name} has no peak for {fmt!r}: say one of {', '.join(card.flops_per_s)}")
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 3.8))
        low, high = _range(card, points, drawn)
        for peak, names in _roofs(card, drawn).items():
            _draw_roof(axes, card, peak, names, low, high)
        for point in points:
            _draw_point(axes, card, point)
        axes.set(xscale="log", yscale="log", xlim=(low, high))
        axes.set_xlabel("FLOP per byte of device memory")
        axes.set_ylabel("FLOP per second")
        figure.tight_layout()
    return Figure.of(figure, alt=_in_words(card, points, drawn), caption=_caption(card, points))


def _range(card: Card, points: list[Point], formats: list[str]) -> tuple[float, float]:
    ridges = [ridge(card, fmt) for fmt in formats]
    at = [point.intensity for point in points]
    return min([*at, min(ridges) / _WIDTH_TO_THE_LEFT]) / 8, max([*at, *ridges]) * 4


def _roofs(card: Card, formats: list[str]) -> dict[float, list[str]]:
    roofs: dict[float, list[str]] = {}
    for fmt in formats:
        roofs.setdefault(card.flops_per_s[fmt], []).append(fmt)
    return roofs


def _draw_roof(axes, card: Card, peak: float, names: list[str], low: float, high: float) -> None:
    meet = peak / card.bytes_per_s
    axes.plot([low, meet, high], [low * card.bytes_per_s, peak, peak], color=INK, linewidth=1.5)
    axes.plot([meet, meet], [low * card.bytes_per_s, peak], color=INK, linewidth=0.8, linestyle=":")
    text = f"{', '.join(names)}: {peak / 1e12:.4g} TFLOP/s, ridge {meet:.3g}"
    # Beside the axes, where no line runs through it.
    axes.annotate(text, (high, peak), xytext=(5, 0), textcoords="offset points", va="center", size=9)


def _draw_point(axes, card: Card, point: Point) -> None:
    measured = point.flops_per_s
    height = attainable(card, point) if measured is None else measured
    filling = "none" if measured is None else WARNING
    axes.plot(point.intensity, height, "o", color=ACCENT if measured is None else WARNING, markerfacecolor=filling)
    # Left of a point and above it the slope leaves room.
    axes.annotate(point.name, (point.intensity, height), xytext=(-7, 3), textcoords="offset points", ha="right", size=9)


def _in_words(card: Card, points: list[Point], formats: list[str]) -> str:
    roofs = ", ".join(
        f"{fmt} {card.flops_per_s[fmt] / 1e12:.4g} TFLOP/s with its ridge at {ridge(card, fmt):.3g} FLOP per byte"
        for fmt in formats
    )
    return f"Roofline of the {card.name}: {roofs}. " + " ".join(_point_in_words(card, point) for point in points)


def _point_in_words(card: Card, point: Point) -> str:
    place = f"{point.name} at {point.intensity:.3g} FLOP per byte, bound by {bound(card, point)}"
    if point.flops_per_s is None:
        return f"{place}, at most {attainable(card, point) / 1e12:.3g} TFLOP/s."
    share = point.flops_per_s / attainable(card, point)
    return f"{place}, measured at {point.flops_per_s / 1e12:.3g} TFLOP/s, {100 * share:.0f} % of its roof."


def _caption(card: Card, points: list[Point]) -> str:
    measured = any(point.us is not None for point in points)
    how = (
        "Open circles: counted work, at its roof; filled: measured."
        if measured
        else "Counted work, each kernel at its roof."
    )
    return f"Modelled ({card.name}): dense peaks and bandwidth are the vendor's. {how}"
