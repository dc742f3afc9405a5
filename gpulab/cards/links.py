"""The links between GPUs: what their makers print, and the same in bytes a second in one direction.

Makers count in three ways: bits (networks: ``Gb/s``), bytes of both directions together (NVLink: ``GB/s``)
and transfers of one lane (PCIe: ``GT/s``). ``bytes_per_s`` is always one direction, in bytes.
"""

from dataclasses import dataclass
from typing import Literal

from gpulab.cards import constants as assumed

Medium = Literal["NVLink", "PCIe", "network"]
PCIE_LANES = 16


@dataclass(frozen=True)
class Link:
    """One kind of link, as it leaves one GPU or one network port.

    ``printed``: the maker's figure with ``unit``. ``share``: of ``bytes_per_s``, what NCCL's kernels reach; ``share_from`` says
    who says so. ``extra_latency_us``: of one hop, on top of what NCCL's model has for the medium.
    """

    key: str
    medium: Medium
    printed: float
    unit: Literal["GB/s both ways", "Gb/s", "GT/s a lane"]
    source: str
    share: float
    share_from: str
    extra_latency_us: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        """One direction, before encoding and headers."""
        if self.unit == "GB/s both ways":
            return self.printed * 1e9 / 2
        lanes = PCIE_LANES if self.unit == "GT/s a lane" else 1
        return self.printed * 1e9 * lanes / 8

    @property
    def reached_bytes_per_s(self) -> float:
        """One direction, as collectives reach it."""
        return self.bytes_per_s * self.share


PCIE_PLANNED = {3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
"""GB/s of 16 lanes, as NCCL counts them: 60, 120, 240 and 480 for a lane, divided by 80."""
_TOPO = "NVIDIA/nccl (5067397), src/graph/topo.h: "
_TOPO_CC = "NVIDIA/nccl (5067397), src/graph/topo.cc, net.bw and kvDictPciGen: "
_NVLINK_PAGE = "nvidia.com/en-us/data-center/nvlink, specifications"


def _nvlink(generation: int, both_ways: float, links: int, reached: float, constant: str, source: str) -> Link:
    """``reached``: GB/s that NCCL's topology search counts for one of the ``links``."""
    return Link(
        f"NVLink {generation}",
        "NVLink",
        both_ways,
        "GB/s both ways",
        f"{source}: {links} links a GPU",
        2 * links * reached / both_ways,
        f"{_TOPO}{constant} {reached:g} GB/s a link",
    )


def _pcie(generation: int, transfers: float) -> Link:
    return Link(
        f"PCIe {generation}",
        "PCIe",
        transfers,
        "GT/s a lane",
        f"PCI-SIG, PCI Express Base Specification {generation}.0, data rate; {PCIE_LANES} lanes",
        8 * PCIE_PLANNED[generation] / transfers / PCIE_LANES,
        f"{_TOPO_CC}{PCIE_PLANNED[generation]:g} GB/s for {PCIE_LANES} lanes",
    )


def _port(key: str, gbit: float, source: str, pcie: int, extra_latency_us: float = 0.0) -> Link:
    """``pcie``: the generation of the 16 lanes behind the port. NCCL plans with the slower of the two."""
    port, lanes = gbit / 8, PCIE_PLANNED[pcie]
    slower = f"the port's own speed, {gbit:g} Gb/s / 8" if port <= lanes else f"the lanes behind it, {lanes:g} GB/s"
    share = min(port, lanes) / port
    return Link(key, "network", gbit, "Gb/s", source, share, f"{_TOPO_CC}{slower}", extra_latency_us)


_OFED = "NVIDIA MLNX_OFED documentation 5.9, release notes, uplink speeds: "
_CX6, _CX7 = _OFED + "ConnectX-6", _OFED + "ConnectX-7"
_CX8 = "NVIDIA ConnectX-8 SuperNIC user manual, introduction"
_HOST = assumed.PLUGIN_HOP_US
_ALL = (
    _pcie(3, 8), _pcie(4, 16), _pcie(5, 32), _pcie(6, 64),
    _nvlink(1, 160, 4, 18.0, "SM60_NVLINK_BW", "NVIDIA Tesla P100 whitepaper, NVLink"),
    _nvlink(2, 300, 6, 20.0, "SM70_NVLINK_BW", "NVIDIA Tesla V100 whitepaper, NVLink"),
    _nvlink(3, 600, 12, 20.0, "SM80_NVLINK_BW", "NVIDIA A100 whitepaper, third-generation NVLink"),
    _nvlink(4, 900, 18, 20.6, "SM90_NVLINK_BW", "NVIDIA H100 whitepaper, fourth-generation NVLink"),
    _nvlink(5, 1800, 18, 40.1, "SM100_NVLINK_BW", _NVLINK_PAGE),
    Link(
        "NVLink 4, H800", "NVLink", 400, "GB/s both ways", "DeepSeek-AI, DeepEP README (ebfe47e) and DeepSeek-V3 technical report: H800",
        0.8, "DeepEP README (ebfe47e): about 160 GB/s at most",
    ),
    Link(
        "NVLink 6", "NVLink", 3600, "GB/s both ways",
        "developer.nvidia.com/blog/inside-the-nvidia-rubin-platform-six-new-chips-one-ai-supercomputer", 0.8,
        "assumed: about what NCCL counts for generations 2 to 5",
    ),
    _port("Omni-Path 100", 100, "Intel Omni-Path host fabric interface 100 series, product brief", 3),
    _port("InfiniBand HDR", 200, _CX6, 4), _port("InfiniBand NDR", 400, _CX7, 5), _port("InfiniBand XDR", 800, _CX8, 6),
    _port("RoCE 100", 100, _CX6, 4), _port("RoCE 200", 200, _CX6, 4), _port("RoCE 400", 400, _CX7, 5), _port("RoCE 800", 800, _CX8, 6),
    _port("Ethernet 10", 10, "IEEE 802.3ae", 3, _HOST), _port("Ethernet 25", 25, "IEEE 802.3by", 3, _HOST),
    _port("Ethernet 100", 100, "IEEE 802.3bj", 4, _HOST), _port("Ethernet 200", 200, "IEEE 802.3bs", 5, _HOST),
    _port("Ethernet 400", 400, "IEEE 802.3bs", 5, _HOST),
)  # fmt: skip

LINKS = {link.key: link for link in _ALL}


def link_named(key: str) -> Link:
    """Raises ValueError that lists the links there are."""
    if key not in LINKS:
        raise ValueError(f"no link is called {key!r}: choose one of {', '.join(LINKS)}")
    return LINKS[key]
