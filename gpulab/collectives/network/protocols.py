"""The latencies of NCCL's own model: what a call, and each hop of it, costs before the first byte counts.

NCCL sends in one of three protocols. ``LL`` puts a flag beside each four bytes, so a hop is short and half of the link is
flags; ``LL128`` puts eight bytes of flags into 128 and needs NVLink inside the node; ``Simple`` sends whole chunks and waits for each.
Every constant: NVIDIA/nccl (5067397), src/graph/tuning.cc, ``ncclTunerConstantsDefaults`` and ``ncclTopoTuneModel``. NCCL's
corrections beside them (caps by processor, factors for trees of medium size) are left out.
"""

from dataclasses import dataclass

from gpulab.cards.links import Link, Medium

RING, TREE, HIERARCHICAL, IN_SWITCH = "ring", "tree", "hierarchical", "in_switch"


@dataclass(frozen=True)
class Protocol:
    """``base_us``: of a call. ``hop_us``: by medium. ``share``: of what the link reaches. Each for (tree, ring)."""

    name: str
    base_us: tuple[float, float]
    hop_us: dict[Medium, tuple[float, float]]
    share: tuple[float, float]
    over_pcie: bool = True

    def base(self, algorithm: str) -> float:
        return 0.0 if algorithm == IN_SWITCH else self.base_us[algorithm != TREE]

    def hop(self, algorithm: str, link: Link, exposed: bool = False) -> float:
        """Microseconds. ``exposed``: one GPU a node, where nothing hides a ring's hop between nodes."""
        if algorithm == IN_SWITCH:
            return IN_SWITCH_US
        return self.hop_us[link.medium][algorithm != TREE and not exposed] + link.extra_latency_us

    def reached(self, algorithm: str) -> float:
        return self.share[algorithm != TREE]


LL = Protocol("LL", (6.8, 6.6), {"NVLink": (0.6, 0.6), "PCIe": (1.0, 1.0), "network": (5.0, 2.7)}, (0.92 / 3.8, 0.5))
LL128 = Protocol(
    "LL128",
    (14.0, 14.0),
    {"NVLink": (1.25, 1.9), "PCIe": (1.9, 2.5), "network": (8.5, 4.0)},
    (0.92 * 7 / 9, 0.92),
    over_pcie=False,
)
SIMPLE = Protocol(
    "Simple", (8.4, 8.4), {"NVLink": (4.0, 3.4), "PCIe": (4.0, 5.7), "network": (14.0, 14.0)}, (0.92, 1.0)
)
PROTOCOLS = {protocol.name: protocol for protocol in (LL, LL128, SIMPLE)}

IN_SWITCH_US = 25.0
IN_SWITCH_SHARE = {"NVLink 4": 0.85, "NVLink 5": 0.74}
"""Of the link, what a reduction inside the NVSwitch reaches (``nvlsEfficiency``). Older switches cannot reduce."""
