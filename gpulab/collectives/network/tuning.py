"""What NCCL counts on: how many bytes a second each algorithm reaches in each protocol, on which generation of GPUs.

NVIDIA/nccl (5067397, version 2.30.7), src/graph/tuning.cc: ``ncclTunerConstantsDefaults``, the refinements of
``ncclTopoTuneModel``, and ``ncclTopoGetAlgoTime``. Bandwidths are bus bandwidths in GB/s. Left out: CollNet, which NCCL
leaves out as long as nobody enables it, and whatever a tuner plugin decides in NCCL's place.
"""

from dataclasses import dataclass
from math import inf

from gpulab.collectives.network.protocols import (
    IN_SWITCH,
    IN_SWITCH_TREE,
    LL,
    LL128,
    PAT,
    RING,
    SIMPLE,
    TREE,
    Protocol,
)

MAX_CHANNELS = 64
RING_SHARE = {LL.name: 0.5, LL128.name: 0.92, SIMPLE.name: 1.0}
"""Of a link, what a ring's bytes have of it."""


@dataclass(frozen=True)
class Limits:
    """Of one generation of GPUs, each for (one node, two, more). ``ll``: a ring or a tree in LL, in one node. The others: of a
    channel. ``in_switch``: of the link, what a sum inside the NVSwitch reaches; None where the switch cannot add."""

    ll: float
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree: tuple[float, float, float]
    in_switch_tree: tuple[float, float, float] = (0.0, 0.0, 0.0)
    in_switch: float | None = None


VOLTA = Limits(39.0, (20.0,) * 3, (20.0,) * 3, (26.5, 18.5, 10.0))
AMPERE = Limits(87.7, (20.0,) * 3, (20.0,) * 3, (24.0, 23.6, 17.8))
HOPPER = Limits(141.0, (36.7,) * 3, (36.7, 36.7, 29.0), (38.7, 41.4, 36.0), (0.0, 57.7, 45.5), 0.85)
BLACKWELL = Limits(282.0, (40.0,) * 3, (55.6, 31.67, 20.0), (70.0, 42.8, 24.0), (0.0, 96.0, 80.0), 0.74)
LIMITS = {
    "NVLink 1": VOLTA, "NVLink 2": VOLTA, "NVLink 3": AMPERE, "NVLink 4": HOPPER, "NVLink 4, H800": HOPPER,
    "NVLink 5": BLACKWELL, "NVLink 6": BLACKWELL,
}  # fmt: skip
"""By the link inside the node. NCCL's table ends with Blackwell."""
LL_BETWEEN = {"Intel": (39.0, 20.4), "AMD": (22.5, 19.0)}
"""Over several nodes LL is bound by the host's processors: two nodes, and more."""
OVERHEAD_US = {"Intel": 1.0, "AMD": 2.0}
"""What posting to the network costs a ring's hop, over several nodes; three times that in Simple."""
PLATEAU = 1.4
"""A ring over several nodes in Simple, as soon as a channel has 64 bytes for each rank: this many times its latency."""
PAT_RANK_US = 2.8
"""PAT, for each rank, beside its hops."""

_MEDIUM_SIZES = {
    LL.name: (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    LL128.name: (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    SIMPLE.name: (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9,
    ),
}  # fmt: skip
"""``treeCorrectionFactor``: a tree's bandwidth from 64 bytes on, by powers of two."""


def limits(inside: str) -> Limits:
    """Of the GPUs that are joined by this link; of cards on PCIe those of Ampere, which nothing there comes near."""
    return LIMITS.get(inside, AMPERE)


def share(algorithm: str, protocol: Protocol, limits: Limits, nodes: int) -> tuple[float, float]:
    """Of what the links inside a node and between nodes reach."""
    if algorithm in (IN_SWITCH, IN_SWITCH_TREE):
        return limits.in_switch or 0.0, 1.0
    if algorithm == TREE:
        reached = 0.92 * {LL.name: 1 / 3.8, LL128.name: _tree_ll128(nodes), SIMPLE.name: 1.0}[protocol.name]
    else:
        reached = 0.75 if algorithm == PAT else RING_SHARE[protocol.name]
    return reached, reached


def limit(algorithm: str, protocol: Protocol, limits: Limits, nodes: int, channels: int, host: str) -> float:
    """Bytes a second of bus bandwidth that no link makes more of: of LL by the processors, of others by the channels.

    Inside one node NCCL finds as many channels as the links carry, and they limit nothing.
    """
    of_ll = limits.ll if nodes == 1 else LL_BETWEEN[host][min(nodes, 3) - 2]
    found = {LL.name: of_ll} if algorithm in (RING, TREE) else {}
    if nodes > 1:
        each = _of_a_channel(algorithm, limits, min(nodes, 3) - 1)
        found = {name: min(channels * each.get(name, inf), found.get(name, inf)) for name in (*found, *each)}
    return 1e9 * found.get(protocol.name, inf)


def _of_a_channel(algorithm: str, limits: Limits, few: int) -> dict[str, float]:
    if algorithm == RING:
        return {LL128.name: limits.ring_ll128[few]}
    if algorithm == IN_SWITCH_TREE:
        return {SIMPLE.name: limits.in_switch_tree[few]}
    simple, ll128 = limits.tree[few], limits.tree_ll128[few]
    trees = {LL.name: simple / 3.8, LL128.name: min(ll128, simple * _tree_ll128(few + 1)), SIMPLE.name: simple}
    return trees if algorithm == TREE else {}


def _tree_ll128(nodes: int) -> float:
    return 7 / 9 if nodes == 1 else 120 / 128


def bus_bytes(algorithm: str, kind: str, nbytes: float, ranks: int) -> float:
    """The bytes that NCCL divides a bus bandwidth by."""
    laps = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(kind)
    if laps is None or algorithm == TREE:
        return nbytes * (2 if kind == "all_reduce" else 1)
    return laps * (ranks - 1) / ranks * nbytes


def medium_size(algorithm: str, kind: str, protocol: Protocol, nbytes: float) -> float:
    """Of its bandwidth, what a tree keeps at this size: all of it below 64 bytes and from half a GiB on."""
    power = int(nbytes // 64).bit_length() - 1
    factors = _MEDIUM_SIZES[protocol.name]
    return factors[power] if algorithm == TREE and kind == "all_reduce" and 0 <= power < len(factors) else 1.0
