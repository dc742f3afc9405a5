"""What a collective takes on machines that are joined by a network, by the algorithm and the protocol that NCCL takes.

NCCL estimates the time of each and takes the shortest (``tuning``). What machines then take is longer (``measured``).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpulab.collectives.network import tuning
from gpulab.collectives.network.algorithms import ALGORITHMS, Cost, Shape
from gpulab.collectives.network.bandwidth import bus_bandwidth
from gpulab.collectives.network.measured import duration_us
from gpulab.collectives.network.plan import Way
from gpulab.collectives.network.protocols import (
    HIERARCHICAL,
    IN_SWITCH,
    IN_SWITCH_TREE,
    PAT,
    PROTOCOLS,
    SIMPLE,
    Protocol,
)
from gpulab.collectives.network.systems import Node, system_named

KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "send",
    "barrier",
)
Ranks = int | Sequence[int]


@dataclass(frozen=True)
class Choice:
    """One way to run a collective, and what it takes, in microseconds. ``planned_us``: NCCL's own estimate."""

    duration_us: float
    planned_us: float
    algorithm: str
    protocol: str
    cost: Cost


@dataclass(frozen=True)
class Network:
    """``nodes`` machines of one kind. Rank r is GPU r of them all, counted node by node.

    ``nvls``: whether the NVSwitches may add up, where they can (``NCCL_NVLS_ENABLE``). ``hierarchical``: whether libraries may
    build a collective of several, as for mixtures of experts.
    """

    node: Node
    nodes: int = 1
    nvls: bool = True
    hierarchical: bool = False

    def __post_init__(self):
        if self.nodes < 1:
            raise ValueError(f"{self.nodes} nodes")

    @classmethod
    def of(cls, system: str, nodes: int = 1, nvls: bool = True, hierarchical: bool = False) -> "Network":
        """Machines of ``SYSTEMS``, by name. Raises ValueError for a name that is not there."""
        return cls(system_named(system), nodes, nvls, hierarchical)

    @classmethod
    def for_ranks(cls, world_size: int, system: str = "DGX H100") -> "Network":
        """As many machines as so many ranks need."""
        node = system_named(system)
        return cls(node, -(-world_size // node.gpus))

    @property
    def gpus(self) -> int:
        return self.node.gpus * self.nodes

    def node_of(self, rank: int) -> int:
        return rank // self.node.gpus

    def port_of(self, rank: int) -> tuple[int, int]:
        """(node, port) that rank sends through when it leaves its node."""
        return self.node_of(rank), self.node.port_of(rank % self.node.gpus)

    def duration_us(self, kind: str, nbytes: int, ranks: Ranks, beside: Iterable[Sequence[int]] = ()) -> float:
        """Microseconds from the moment when the last of ``ranks`` is ready.

        kind: one of ``KINDS``. nbytes: the whole tensor, as nccl-tests counts. ranks: how many, the first ones, or which.
        beside: other groups that communicate at the same time; a port, or a GPU, that is in several has that share of
        its bandwidth for each. Raises ValueError for an unknown kind, negative bytes or ranks that are not there.
        """
        return self.chosen(kind, nbytes, ranks, beside).duration_us

    def bus_bandwidth(self, kind: str, nbytes: int, ranks: int) -> float:
        """Bytes a second, as nccl-tests defines them; raises as ``duration_us``."""
        return bus_bandwidth(kind, nbytes, ranks, self.duration_us(kind, nbytes, ranks) / 1e6)

    def chosen(self, kind: str, nbytes: int, ranks: Ranks, beside: Iterable[Sequence[int]] = ()) -> Choice:
        """The way that NCCL takes, the shortest by its own estimate; raises as ``duration_us``."""
        return min(self.choices(kind, nbytes, ranks, beside), key=lambda choice: choice.planned_us)

    def choices(self, kind: str, nbytes: int, ranks: Ranks, beside: Iterable[Sequence[int]] = ()) -> list[Choice]:
        """Every algorithm with every protocol that can run it, in microseconds; raises as ``duration_us``."""
        group = _Group(self, self._ranks(kind, nbytes, ranks), tuple(tuple(other) for other in beside))
        kind = {"recv": "send"}.get(kind, kind)
        if kind == "barrier":
            kind, nbytes = "all_reduce", 0
        if len(group.ranks) == 1:
            return [Choice(0.0, 0.0, "none", "none", Cost())]
        found = [
            self._choice(group, kind, nbytes, name, protocol) for name in ALGORITHMS for protocol in PROTOCOLS.values()
        ]
        return [choice for choice in found if choice]

    def _ranks(self, kind: str, nbytes: int, ranks: Ranks) -> tuple[int, ...]:
        chosen = tuple(range(ranks)) if isinstance(ranks, int) else tuple(sorted(ranks))
        if kind not in (*KINDS, "recv"):
            raise ValueError(f"no collective is called {kind!r}: choose one of {', '.join(KINDS)}")
        if nbytes < 0 or not chosen or chosen[0] < 0 or chosen[-1] >= self.gpus or len(set(chosen)) != len(chosen):
            raise ValueError(f"{kind} of {nbytes} bytes among ranks {chosen} of {self.gpus}")
        if kind in ("send", "recv") and len(chosen) != 2:
            raise ValueError(f"{kind} is between two ranks, not {len(chosen)}")
        return chosen

    def _choice(self, group: "_Group", kind: str, nbytes: int, algorithm: str, protocol: Protocol) -> Choice | None:
        way = Way(self.node, group.shape, kind, nbytes, algorithm, protocol)
        if not self._can(way):
            return None
        latency, transfer = way.latency_us, way.transfer_us(group.inside_bytes_per_s, group.between_bytes_per_s)
        us = duration_us(latency, transfer, crosses=group.shape.nodes > 1, waits=protocol.ramp)
        return Choice(us, latency + transfer, algorithm, protocol.name, way.cost)

    def _can(self, way: Way) -> bool:
        if not way.possible:
            return False
        if way.algorithm in (IN_SWITCH, IN_SWITCH_TREE, PAT, HIERARCHICAL) and way.protocol is not SIMPLE:
            return False
        if way.algorithm in (IN_SWITCH, IN_SWITCH_TREE):
            return self.nvls and tuning.limits(self.node.inside.key).in_switch is not None
        nvlink = way.protocol.over_pcie or self.node.inside.medium == "NVLink"
        return nvlink and (self.hierarchical or way.algorithm != HIERARCHICAL)


@dataclass(frozen=True)
class _Group:
    """Some ranks on a network, and who communicates beside them."""

    network: Network
    ranks: tuple[int, ...]
    beside: tuple[tuple[int, ...], ...]

    @cached_property
    def by_node(self) -> Counter:
        return Counter(self.network.node_of(rank) for rank in self.ranks)

    @cached_property
    def shape(self) -> Shape:
        """Nodes with different numbers of ranks count as the fullest."""
        return Shape(len(self.by_node), max(self.by_node.values()))

    @property
    def inside_bytes_per_s(self) -> float:
        busiest = max(1 + sum(rank in other for other in self.beside) for rank in self.ranks)
        return self.network.node.inside.reached_bytes_per_s / busiest

    @property
    def between_bytes_per_s(self) -> float:
        """What the group's ports of one node reach together, at the node that has least."""
        network, crossing = (
            self.network,
            [other for other in self.beside if len({self.network.node_of(r) for r in other}) > 1],
        )
        users = Counter(port for other in crossing for port in {network.port_of(rank) for rank in other})
        ports = {network.port_of(rank) for rank in self.ranks}
        reached = Counter()
        for node, port in ports:
            reached[node] += network.node.port_bytes_per_s / (1 + users[node, port])
        return min(reached.values())
