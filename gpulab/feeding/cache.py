"""What the second epoch finds in memory: a cache of a part of the data, the least recently used thrown out."""

from math import log1p

ORDERS = ("reshuffled", "the same order")


def hit_rate(cached: float, order: str = "reshuffled") -> float:
    """The share of an epoch's reads that are hits, in every epoch but the first; many samples of one size.

    ``cached``: the share of the data that the cache holds, 0 or more. ``order``: of :data:`ORDERS`. In the same order
    the sample that is thrown out is always the one that comes next, and nothing is found until all of it fits.
    Reshuffled, a sample read at the point u of one epoch and v of the next (both 0 to 1) is still there when the others
    between the two reads, a share 1 - u (1 - v), fit; over all u and v that has the probability c + (1 - c) ln(1 - c).
    """
    if order not in ORDERS or cached < 0:
        raise ValueError(f"no hit rate for {cached} cached, {order!r}; the order is one of {', '.join(ORDERS)}")
    if cached >= 1:
        return 1.0
    return cached + (1 - cached) * log1p(-cached) if order == "reshuffled" else 0.0
