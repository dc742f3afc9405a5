"""Closed forms: how many hops an algorithm takes one after another, and how many bytes it puts on the busiest link.

``nbytes`` is what nccl-tests calls the size: the whole, unsharded tensor (of ``all_gather`` what each rank has in the end, of
``reduce_scatter`` what each begins with, of ``all_to_all`` what each sends in all, its own part included).
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpulab.collectives.network.protocols import DIRECT, HIERARCHICAL, IN_SWITCH, IN_SWITCH_TREE, PAT, RING, TREE


@dataclass(frozen=True)
class Shape:
    """How a group lies on the nodes: ``nodes`` of them with ``each`` ranks. One node, or one rank a node, is flat."""

    nodes: int
    each: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.each


@dataclass(frozen=True)
class Cost:
    """Hops one after another inside and between nodes; bytes that the busiest GPU sends inside its node, and that
    the busiest node sends through its network ports, one direction each."""

    hops_inside: int = 0
    hops_between: int = 0
    bytes_inside: float = 0.0
    bytes_between: float = 0.0

    def time_s(self, inside: tuple[float, float], between: tuple[float, float]) -> float:
        """Seconds, for (seconds a hop, bytes a second) inside a node and between nodes."""
        return self.latency(inside[0], between[0]) + self.transfer_s(inside[1], between[1])

    def latency(self, inside: float, between: float) -> float:
        """All hops, in the unit of one."""
        return self.hops_inside * inside + self.hops_between * between

    def transfer_s(self, inside: float, between: float) -> float:
        """Seconds. Chunks follow each other through the hops, so the bytes inside and between move at the same time."""
        return max(self.bytes_inside / inside, self.bytes_between / between)


def rounds(ranks: int) -> int:
    """Of a tree, or of doubling, over so many: the smallest r with 2**r >= ranks."""
    return (ranks - 1).bit_length()


def ring(kind: str, nbytes: float, shape: Shape) -> Cost:
    """Every rank sends to the next one only; a node is entered once and left once in a lap."""
    n = shape.ranks
    laps = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "reduce": 1}.get(kind)
    if laps is None:
        raise LookupError(kind)
    moved = nbytes if kind in ("broadcast", "reduce") else laps * (n - 1) / n * nbytes
    between = shape.nodes - 1 if kind in ("broadcast", "reduce") else _crossings(shape, laps * (n - 1))
    return _cost(shape, laps * (n - 1) - between, between, moved, moved)


def _crossings(shape: Shape, hops: int) -> int:
    """The most hops between nodes that one chunk meets on a way of so many hops round the ring."""
    return -(-hops // shape.each) if shape.nodes > 1 else 0


def tree(kind: str, nbytes: float, shape: Shape) -> Cost:
    """Two binary trees over the nodes, each with half of the bytes, a chain inside each node; every rank is a leaf in one of them.

    Up and down again. Between two nodes there is one hop up and one down, half as many bytes. NCCL sums to all by it and
    does nothing else.
    """
    if kind != "all_reduce":
        raise LookupError(kind)
    inside, between = (nbytes if count == 2 else 2 * nbytes for count in (shape.ranks, shape.nodes))
    return _cost(shape, 2 * (shape.each - 1), 2 * rounds(shape.nodes), inside, between)


def pat(kind: str, nbytes: float, shape: Shape) -> Cost:
    """One GPU a node: what each holds doubles in every round, or halves. (NCCL: parallel aggregated trees.)"""
    if kind not in ("all_gather", "reduce_scatter") or shape.each > 1:
        raise LookupError(kind)
    rest = _rest(shape.ranks, nbytes)
    return _cost(shape, 0, rounds(shape.nodes), rest, rest)


def hierarchical(kind: str, nbytes: float, shape: Shape) -> Cost:
    """Inside the nodes first, then between nodes: rank i of a node with the ranks i of the others, and back.

    Raises LookupError on a flat group, too.
    """
    k, m = shape.each, shape.nodes
    if k == 1 or m == 1:
        raise LookupError("one level")
    inside, between = _rest(k, nbytes), _rest(m, nbytes)
    if kind == "all_reduce":
        return _cost(shape, 2 * (k - 1), 2 * (m - 1), 2 * inside, 2 * between)
    if kind in ("all_gather", "reduce_scatter"):
        return _cost(shape, k - 1, m - 1, inside, between)
    if kind in ("broadcast", "reduce"):
        return _cost(shape, 2 * (k - 1), m - 1, 2 * inside, nbytes)
    if kind == "all_to_all":
        return _cost(shape, k - 1, m - 1, inside, k * between)
    raise LookupError(kind)


def in_switch(kind: str, nbytes: float, shape: Shape) -> Cost:
    """The NVSwitch adds: each rank reads its part already reduced and writes it once to all.

    So a rank sends everything once, and its part of the result once more.
    """
    if kind != "all_reduce" or shape.nodes > 1:
        raise LookupError(kind)
    return Cost(hops_inside=1, bytes_inside=nbytes * (1 + 1 / shape.ranks))


def in_switch_tree(kind: str, nbytes: float, shape: Shape) -> Cost:
    """The switches add inside the nodes, and two trees over the nodes sum what the ranks then have in parts."""
    if kind != "all_reduce" or shape.nodes == 1 or shape.each == 1:
        raise LookupError(kind)
    between = nbytes if shape.nodes == 2 else 2 * nbytes
    return Cost(1, 2 * rounds(shape.nodes), nbytes * (1 + 1 / shape.each), between)


def direct(kind: str, nbytes: float, shape: Shape) -> Cost:
    """No algorithm: each pair that has something to say to each other does, one after another."""
    k, n = shape.each, shape.ranks
    if kind == "send":
        return Cost(0, 1, 0, nbytes) if shape.nodes > 1 else Cost(1, 0, nbytes, 0)
    if kind in ("gather", "scatter"):
        return _cost(shape, k - 1, n - k, (k - 1) / n * nbytes, (n - k) / n * nbytes)
    if kind == "all_to_all":
        return _cost(shape, k - 1, n - k, (k - 1) / n * nbytes, k * (n - k) / n * nbytes)
    raise LookupError(kind)


def _rest(parts: int, nbytes: float) -> float:
    return (parts - 1) / parts * nbytes


def _cost(shape: Shape, hops_inside: int, hops_between: int, inside: float, between: float) -> Cost:
    return Cost(hops_inside, hops_between, inside if shape.each > 1 else 0.0, between if shape.nodes > 1 else 0.0)


ALGORITHMS: dict[str, Callable[[str, float, Shape], Cost]] = {
    RING: ring,
    TREE: tree,
    HIERARCHICAL: hierarchical,
    IN_SWITCH: in_switch,
    IN_SWITCH_TREE: in_switch_tree,
    PAT: pat,
    DIRECT: direct,
}
