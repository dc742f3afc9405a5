"""What crosses between ranks when the two matrices of an MLP are cut: ``y = gelu(x A) B``.

``x`` and ``y`` are (tokens, width), ``z = x A`` is (tokens, hidden). How each lies on the ranks: ``whole`` on every rank,
``split`` along its last dimension, ``tokens`` along its first, ``partial`` where every rank has a summand of it. The collectives are
those of ``torch.distributed.tensor.parallel`` with the same cuts.
"""

from dataclasses import dataclass

from gpulab.collectives.network.algorithms import Shape, direct, ring

CUTS = ("columns", "rows")

CHANGES = {
    ("whole", "columns"): (None, "all_reduce"),
    ("tokens", "columns"): ("all_gather", "reduce_scatter"),
    ("split", "columns"): ("all_gather", "reduce_scatter"),
    ("whole", "rows"): (None, "all_gather"),
    ("tokens", "rows"): ("all_to_all", "all_to_all"),
    ("split", "rows"): (None, None),
    ("split", "whole"): ("all_gather", None),
    ("split", "tokens"): ("all_to_all", "all_to_all"),
    ("partial", "whole"): ("all_reduce", None),
    ("partial", "tokens"): ("reduce_scatter", "all_gather"),
}
"""(how a tensor lies, who takes it): the collective of the forward pass, and that of its gradient in the backward pass.

A matrix cut by columns takes its input whole, and each rank's gradient of it is a summand. One cut by rows takes its
input split.
"""


@dataclass(frozen=True)
class Cut:
    """How the MLP is cut. ``first`` and ``second``: of :data:`CUTS`. ``gather``: z is made whole in between.

    ``sequence``: x and y are split along the tokens, and not whole on every rank.
    """

    first: str = "columns"
    second: str = "rows"
    gather: bool = False
    sequence: bool = False


@dataclass(frozen=True)
class Crossing:
    """One collective: of which tensor (``x``, ``z``, ``y``), in which pass (``forward``, ``backward``), which kind."""

    tensor: str
    passing: str
    kind: str


def crossings(cut: Cut) -> list[Crossing]:
    """All of a step, in order. What each rank sends of them: :func:`sent`."""
    ends = "tokens" if cut.sequence else "whole"
    changes = [("x", CHANGES[ends, cut.first])]
    lies = _after(cut.first)
    if lies == "partial" or cut.gather:  # gelu(a + b) is not gelu(a) + gelu(b)
        changes.append(("z", CHANGES[lies, "whole"]))
        lies = "whole"
    changes += [("z", CHANGES[lies, cut.second]), ("y", CHANGES[_after(cut.second), ends])]
    forward = [Crossing(tensor, "forward", pair[0]) for tensor, pair in changes if pair[0]]
    return forward + [Crossing(tensor, "backward", pair[1]) for tensor, pair in reversed(changes) if pair[1]]


def _after(cut: str) -> str:
    """How the product lies."""
    return "split" if cut == "columns" else "partial"


def sent(crossing: Crossing, tokens: int, width: int, hidden: int, ranks: int, element: int = 2) -> float:
    """Bytes that each rank sends: by a ring, or of an all-to-all directly. ``element``: bytes of an element."""
    nbytes = tokens * (hidden if crossing.tensor == "z" else width) * element
    group = Shape(1, ranks)
    if crossing.kind == "all_to_all":
        return direct(crossing.kind, nbytes / ranks, group).bytes_inside
    return ring(crossing.kind, nbytes, group).bytes_inside


def held(cut: Cut, tokens: int, width: int, hidden: int, ranks: int, element: int = 2) -> dict[str, float]:
    """Bytes of a rank: its part of A and B, and of x, z and y as they lie between the products."""
    ends = ranks if cut.sequence else 1
    inside = 1 if cut.first == "rows" or cut.gather else ranks
    return {
        "weights": 2 * width * hidden * element / ranks,
        "x and y": 2 * tokens * width * element / ends,
        "z": tokens * hidden * element / inside,
    }
