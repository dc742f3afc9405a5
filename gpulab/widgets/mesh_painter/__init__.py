"""A mesh of three dimensions laid over eight nodes of eight GPUs, and the three groups of one of them."""

import itertools

import anywidget
import traitlets

from gpulab.widgets._source import module, style

WORLD, NODE = 64, 8
DIMENSIONS = ("dp", "pp", "tp")
ORDERS = tuple(" ".join(order) for order in itertools.permutations(DIMENSIONS))
"""The outermost dimension first: ranks that differ by 1 are neighbours in the last."""


class MeshPainter(anywidget.AnyWidget):
    """64 ranks on nodes of eight; the reader sets sizes and order of the dimensions and chooses a rank.

    Args:
        pp, tp: powers of two; dp is what they leave of 64. order: one of :data:`ORDERS`. rank: whose groups are painted.
        paint: "groups", or the dimension by whose coordinate every rank is painted.

    Raises:
        ValueError: for sizes that do not divide 64 so, another order, a rank that is not there.
    """

    _esm = module("mesh_painter")
    _css = style("mesh_painter")
    pp = traitlets.Int().tag(sync=True)
    tp = traitlets.Int().tag(sync=True)
    order = traitlets.Unicode().tag(sync=True)
    rank = traitlets.Int().tag(sync=True)
    paint = traitlets.Unicode().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(self, pp: int = 4, tp: int = 2, order: str = "dp pp tp", rank: int = 13, paint: str = "groups"):
        if not (pp > 0 < tp and WORLD % (pp * tp) == 0 and max(pp, tp) <= 16):
            raise ValueError(f"pp and tp are powers of two up to 16, and pp x tp divides {WORLD}: not {pp} and {tp}")
        for name, value, choices in (
            ("order", order, ORDERS),
            ("paint", paint, ("groups", *DIMENSIONS)),
            ("rank", rank, range(WORLD)),
        ):
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        known = {"world": WORLD, "node": NODE, "orders": list(ORDERS)}
        super().__init__(pp=pp, tp=tp, order=order, rank=rank, paint=paint, known=known)

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions, the outermost first: what ``gpulab.parallel.mesh_groups`` takes."""
        of = {"dp": WORLD // (self.pp * self.tp), "pp": self.pp, "tp": self.tp}
        return {name: of[name] for name in self.order.split()}
