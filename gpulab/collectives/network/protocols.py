"""How NCCL sends: its algorithms by name, and what a call and a hop cost in each of its three protocols.

``LL`` puts a flag beside each four bytes, so a hop is short and half of the link is flags; ``LL128`` puts eight bytes of
flags into 128 and needs NVLink inside the node; ``Simple`` sends whole chunks and waits for each.
Every constant: NVIDIA/nccl (5067397, version 2.30.7), src/graph/tuning.cc, ``ncclTunerConstantsDefaults``.
"""

from dataclasses import dataclass

from gpulab.cards.links import Link, Medium

RING, TREE, HIERARCHICAL, DIRECT = "ring", "tree", "hierarchical", "direct"
IN_SWITCH, IN_SWITCH_TREE, PAT = "in_switch", "in_switch_tree", "pat"
"""NCCL's names: NVLS, NVLSTree and PAT (parallel aggregated trees, for one GPU a node)."""


@dataclass(frozen=True)
class Protocol:
    """``base_us``: of a call. ``hop_us``: by medium. Each for (tree, ring). ``ramp``: whether chunks are waited for."""

    name: str
    base_us: tuple[float, float]
    hop_us: dict[Medium, tuple[float, float]]
    ramp: bool = True
    over_pcie: bool = True

    def base(self, algorithm: str) -> float:
        """Microseconds."""
        return BASE_US.get(algorithm, self.base_us[algorithm != TREE])

    def hop(self, algorithm: str, link: Link, exposed: bool = False) -> float:
        """Microseconds. ``exposed``: one GPU a node, where nothing hides a ring's hop between nodes."""
        own = HOP_US.get(algorithm, {}).get(link.medium)
        hop = self.hop_us[link.medium][algorithm != TREE and not exposed] if own is None else own
        return hop + link.extra_latency_us


LL = Protocol("LL", (6.8, 6.6), {"NVLink": (0.6, 0.6), "PCIe": (1.0, 1.0), "network": (5.0, 2.7)}, ramp=False)
LL128 = Protocol(
    "LL128", (14.0, 14.0), {"NVLink": (1.25, 1.9), "PCIe": (1.9, 2.5), "network": (8.5, 4.0)}, over_pcie=False
)
SIMPLE = Protocol("Simple", (8.4, 8.4), {"NVLink": (4.0, 3.4), "PCIe": (4.0, 5.7), "network": (14.0, 14.0)})
PROTOCOLS = {protocol.name: protocol for protocol in (LL, LL128, SIMPLE)}

BASE_US = {IN_SWITCH: 0.0, IN_SWITCH_TREE: 0.0, PAT: 8.0}
HOP_US = {
    IN_SWITCH: {"NVLink": 25.0},
    IN_SWITCH_TREE: {"NVLink": 25.0, "network": 20.9},
    PAT: {"network": 14.0 / 3.5},
}
"""Where an algorithm has latencies of its own; they run in Simple alone."""
