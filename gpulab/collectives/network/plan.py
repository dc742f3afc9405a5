"""One way to run a collective, and what NCCL counts on for it: latencies, and bytes at the rate that is reached."""

from dataclasses import dataclass
from functools import cached_property

from gpulab.collectives.network import tuning
from gpulab.collectives.network.algorithms import ALGORITHMS, Cost, Shape
from gpulab.collectives.network.protocols import PAT, RING, SIMPLE, Protocol
from gpulab.collectives.network.systems import Node


@dataclass(frozen=True)
class Way:
    """An algorithm in a protocol, for a group that lies so on machines of one kind. ``cost`` raises LookupError where that
    algorithm cannot run that collective."""

    node: Node
    shape: Shape
    kind: str
    nbytes: int
    algorithm: str
    protocol: Protocol

    @cached_property
    def cost(self) -> Cost:
        return ALGORITHMS[self.algorithm](self.kind, self.nbytes, self.shape)

    @property
    def possible(self) -> bool:
        try:
            return self.cost is not None
        except LookupError:
            return False

    @property
    def latency_us(self) -> float:
        """Microseconds before the first byte counts."""
        between = self.protocol.hop(self.algorithm, self.node.between, exposed=self.shape.each == 1)
        us = self.protocol.base(self.algorithm) + self.cost.latency(self._hop_inside_us, between)
        us += tuning.PAT_RANK_US * self.shape.ranks if self.algorithm == PAT else 0.0
        return us * (tuning.PLATEAU if self._on_the_plateau else 1)

    def transfer_us(self, inside_bytes_per_s: float, between_bytes_per_s: float) -> float:
        """Microseconds, for what the group's links and ports reach."""
        limits, nodes = tuning.limits(self.node.inside.key), self.shape.nodes
        inside, between = tuning.share(self.algorithm, self.protocol, limits, nodes)
        seconds = self.cost.transfer_s(inside_bytes_per_s * inside, between_bytes_per_s * between)
        most = tuning.limit(self.algorithm, self.protocol, limits, nodes, self._channels, self.node.host)
        seconds = max(seconds, tuning.bus_bytes(self.algorithm, self.kind, self.nbytes, self.shape.ranks) / most)
        return 1e6 * seconds / tuning.medium_size(self.algorithm, self.kind, self.protocol, self.nbytes)

    @property
    def _hop_inside_us(self) -> float:
        hop = self.protocol.hop(self.algorithm, self.node.inside)
        if self.algorithm == RING and self.shape.nodes > 1:
            return max(hop, tuning.OVERHEAD_US[self.node.host] * (3 if self.protocol is SIMPLE else 1))
        return hop

    @property
    def _on_the_plateau(self) -> bool:
        ring = self.algorithm == RING and self.protocol is SIMPLE and self.kind == "all_reduce"
        return ring and self.shape.nodes > 1 and self.nbytes // (self._channels * self.shape.ranks) >= 64

    @property
    def _channels(self) -> int:
        """Over several nodes one for each GPU, or for each port where there are more."""
        return min(max(self.node.ports, self.node.gpus), tuning.MAX_CHANNELS)
