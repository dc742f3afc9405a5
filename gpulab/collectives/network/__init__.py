"""What moving bytes between GPUs costs: links, machines that share network ports, algorithms, NCCL's latencies.

``Network.of("DGX H100", nodes=2).duration_us("all_reduce", nbytes, ranks=16)`` is the whole of it. It models; it measures nothing.
"""

from gpulab.collectives.network.algorithms import (
    ALGORITHMS,
    Cost,
    Shape,
    direct,
    hierarchical,
    in_switch,
    in_switch_tree,
    pat,
    ring,
    rounds,
    tree,
)
from gpulab.collectives.network.bandwidth import algorithm_bandwidth, bus_bandwidth, bus_factor
from gpulab.collectives.network.network import KINDS, Choice, Network
from gpulab.collectives.network.protocols import PROTOCOLS, Protocol
from gpulab.collectives.network.systems import SYSTEMS, Node, system_named

__all__ = [
    "ALGORITHMS", "KINDS", "PROTOCOLS", "SYSTEMS", "Choice", "Cost", "Network", "Node", "Protocol", "Shape", "algorithm_bandwidth",
    "bus_bandwidth", "bus_factor", "direct", "hierarchical", "in_switch", "in_switch_tree", "pat", "ring", "rounds", "system_named", "tree",
]  # fmt: skip
