"""Machines with several GPUs: how many, on which link, and which of them share a network port."""

from dataclasses import dataclass
from typing import Literal

from gpulab.cards.links import Link, link_named


@dataclass(frozen=True)
class Node:
    """One machine, or one rack that a switch makes into one.

    ``ports``: network ports for the GPUs' traffic; where there are fewer than GPUs, neighbours share one. ``host``: whose
    processors the machine has, as NCCL tells them apart.
    """

    name: str
    gpus: int
    inside: Link
    ports: int
    between: Link
    source: str
    host: Literal["Intel", "AMD"] = "Intel"

    def __post_init__(self):
        if self.gpus < 1 or not 1 <= self.ports or (self.gpus % self.ports and self.ports % self.gpus):
            raise ValueError(f"{self.name}: {self.gpus} GPUs cannot share {self.ports} ports evenly")

    def port_of(self, gpu: int) -> int:
        """The port that GPU number ``gpu`` sends through, or the first of its own."""
        return gpu * self.ports // self.gpus

    @property
    def port_bytes_per_s(self) -> float:
        """What one GPU that is alone at its port, or ports, reaches."""
        return self.between.reached_bytes_per_s * max(1, self.ports // self.gpus)


def _node(name: str, gpus: int, inside: str, ports: int, between: str, source: str, host: str = "Intel") -> Node:
    return Node(name, gpus, link_named(inside), ports, link_named(between), source, host)


_ALL = (
    _node("4 x PCIe 4", 4, "PCIe 4", 1, "Ethernet 100", "no product: a workstation with four cards and one port"),
    _node(
        "Jean Zay V100",
        4,
        "NVLink 2",
        4,
        "Omni-Path 100",
        "BigScience, training chronicles, machine of the measurements",
    ),
    _node("DGX A100", 8, "NVLink 3", 8, "InfiniBand HDR", "NVIDIA DGX A100 user guide, hardware overview", "AMD"),
    _node("DGX H100", 8, "NVLink 4", 8, "InfiniBand NDR", "NVIDIA DGX H100/H200 user guide, hardware overview"),
    _node(
        "A3 Mega",
        8,
        "NVLink 4",
        8,
        "Ethernet 200",
        "Google Cloud, GPU machine types: a3-megagpu-8g, 1,600 Gb/s for GPUs",
    ),
    _node("H800", 8, "NVLink 4, H800", 8, "InfiniBand NDR", "DeepSeek-AI, DeepSeek-V3 technical report, section 3.1"),
    _node("DGX B200", 8, "NVLink 5", 8, "InfiniBand NDR", "NVIDIA DGX B200 user guide, hardware overview"),
    _node("GB200 NVL72", 72, "NVLink 5", 72, "InfiniBand NDR", "NVIDIA DGX GB200 user guide, hardware overview"),
    _node(
        "VR NVL72", 72, "NVLink 6", 144, "InfiniBand XDR", "developer.nvidia.com/blog/inside-the-nvidia-rubin-platform"
    ),
    _node("two nodes, one cable", 8, "NVLink 4", 1, "InfiniBand NDR", "no product: the figure of the interview notes"),
)
SYSTEMS = {node.name: node for node in _ALL}


def system_named(name: str) -> Node:
    """Raises ValueError that lists the systems there are."""
    if name not in SYSTEMS:
        raise ValueError(f"no system is called {name!r}: choose one of {', '.join(SYSTEMS)}")
    return SYSTEMS[name]
