"""What a model's bytes cross on their way to a GPU, with the bandwidth of each, from the links' own table.

An NVMe drive is a PCIe device of four lanes: it can give no more than these carry. How much less a drive gives is its maker's
to say, and is not here.
"""

from dataclasses import dataclass

from gpulab.cards.links import LINKS, PCIE_LANES

_DRIVE_LANES = 4


@dataclass(frozen=True)
class Tier:
    """``bytes_per_s``: one direction, as transfers reach it. ``source``: where that is from."""

    name: str
    bytes_per_s: float
    source: str


def _of_link(name: str, key: str, share: float = 1.0, also: str = "") -> Tier:
    link = LINKS[key]
    return Tier(name, link.reached_bytes_per_s * share, "; ".join(filter(None, (link.source, link.share_from, also))))


_DRIVES = f"{_DRIVE_LANES} of {PCIE_LANES} lanes: the most that an NVMe drive's connector carries"
_ALL = (
    _of_link("network, 10 Gb/s", "Ethernet 10"),
    _of_link("network, 25 Gb/s", "Ethernet 25"),
    _of_link("network, 100 Gb/s", "Ethernet 100"),
    _of_link("network, 400 Gb/s", "Ethernet 400"),
    _of_link("NVMe, PCIe 3", "PCIe 3", _DRIVE_LANES / PCIE_LANES, _DRIVES),
    _of_link("NVMe, PCIe 4", "PCIe 4", _DRIVE_LANES / PCIE_LANES, _DRIVES),
    _of_link("NVMe, PCIe 5", "PCIe 5", _DRIVE_LANES / PCIE_LANES, _DRIVES),
    _of_link("PCIe 3 x16", "PCIe 3"),
    _of_link("PCIe 4 x16", "PCIe 4"),
    _of_link("PCIe 5 x16", "PCIe 5"),
)

TIERS = {tier.name: tier for tier in _ALL}


def bandwidths(*names: str) -> dict[str, float]:
    """Bytes a second of these tiers, or of all. Raises KeyError."""
    return {name: TIERS[name].bytes_per_s for name in names or TIERS}
