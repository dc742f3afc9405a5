"""The network model against what others measured: ``python -m gpulab.collectives.network.validation``.

Every entry of the group ``collective`` in ``evidence/published.yml`` is run on the machines that its source names, and
compared as time. Constants were fitted to whole runs (``use: fit``); the other runs were not looked at for that.
"""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpulab.cards import constants as assumed
from gpulab.cards.links import link_named
from gpulab.collectives.network.bandwidth import bus_bandwidth
from gpulab.collectives.network.network import Choice, Network
from gpulab.collectives.network.protocols import IN_SWITCH, IN_SWITCH_TREE, RING, TREE
from gpulab.collectives.network.systems import Node, system_named
from gpulab.published import Measurement, measurements

LARGE = 8 << 30
"""Bytes, where a source says that the payload was large and no more."""
SIZES = {"up to 1 KiB": 1 << 10, "to 512 KiB": 512 << 10, "to 32 MiB": 32 << 20, "larger": float("inf")}
"""Classes, by the most bytes of each."""
ALLOWED = 0.8, 1.25
"""A size class is modelled where the median of model over measured time, of those held out, is between."""


def _like(system: str, name: str, ports: int, between: str) -> Node:
    return replace(system_named(system), name=name, ports=ports, between=link_named(between))


_FOUR_PORTS = _like("DGX A100", "8 x A100, 4 ports", 4, "InfiniBand HDR")
_OCI_A100 = _like("DGX A100", "OCI BM.GPU4.8", 16, "RoCE 100")
_P4, _P5 = _like("DGX A100", "AWS P4", 4, "Ethernet 100"), _like("DGX H100", "AWS P5", 32, "Ethernet 100")
_P5EN, _P6 = _like("DGX H100", "AWS P5en", 16, "Ethernet 200"), _like("DGX B200", "AWS P6", 8, "Ethernet 400")
_MACHINES = {
    "ar-p5en-": _P5EN, "ar-p5-": _P5, "ar-p4de-": _P4, "ar-b200-": _P6, "ar-oke-": _OCI_A100, "ar-a100-256-": _FOUR_PORTS,
    "ar-a100-24-": _FOUR_PORTS, **{start: system_named(name) for start, name in {
        "ar-h200-": "DGX H100", "ag-h200-": "DGX H100", "rs-h200-": "DGX H100", "ar-h100-": "DGX H100", "ar-h20-": "DGX H100",
        "ar-nebius-": "DGX H100", "ar-mysore-": "DGX H100", "ar-oci-": "DGX H100", "ar-together-": "DGX B200",
        "ag-together-": "DGX B200", "ar-nvl72-": "GB200 NVL72", "ar-a100-8": "DGX A100", "sendrecv-a100-": "DGX A100",
        "ar-jz-v100-": "Jean Zay V100", "ar-a3-": "A3 Mega", "deepep-": "H800",
    }.items()},
}  # fmt: skip
"""By the beginning of an id. Amazon's ports are in the table of the ML Engineering book, network/README.md."""
_FABRIC = "the source says that its fabric was not fully used; the model takes all four ports for used"
_SWITCH = "NCCL counts on more latency for a tree of switches than the machines have; without NCCL_ALGO it would not be taken here"
_ONE_PROCESS = (
    "no reason is known: 2 and 4 MiB take no longer than 1 on this machine, and one thread launches for eight GPUs"
)
WHY = {
    "ar-jz-v100-16": _FABRIC,
    "ar-jz-v100-64": _FABRIC,
    "ar-h20-16-nvlstree-8": _SWITCH,
    "ar-h20-16-nvlstree-128": _SWITCH,
    "ar-a100-8-524288": _ONE_PROCESS,
    "ar-a100-8-1048576": _ONE_PROCESS,
    "ar-nvl72-536870912": "72 GPUs at one switch take longer to get going than eight; the ramp was fitted to eight",
    "sendrecv-a100-134217728": "the time is 0.65 ms longer than the bytes need; the source does not say why",
}
"""For each that was held out and is off by more than half as much again: what the source says, or what is left out of the model."""
FAR = 1.5
_ALGORITHMS = {"ring": RING, "tree": TREE, "NVLS": IN_SWITCH, "NVLSTree": IN_SWITCH_TREE}


@dataclass(frozen=True)
class Row:
    """One measurement beside the model's value, in the measurement's unit."""

    measurement: Measurement
    model: float
    way: str
    nbytes: float

    @property
    def ratio(self) -> float:
        """The model's time over the measured one: below 1 the model is too fast."""
        ratio = self.model / self.measurement.value
        return ratio if self.measurement.unit == "us" else 1 / ratio

    @property
    def far(self) -> bool:
        return not 1 / FAR <= self.ratio <= FAR

    @property
    def size(self) -> str:
        """Its class."""
        return next(name for name, most in SIZES.items() if self.nbytes <= most)


@dataclass(frozen=True)
class Summary:
    """Ratios of some rows."""

    count: int
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, found: Iterable[Row]) -> "Summary":
        """Raises ValueError where there are none."""
        ratios = [row.ratio for row in found]
        if not ratios:
            raise ValueError("no measurement to sum up")
        return cls(len(ratios), statistics.median(ratios), min(ratios), max(ratios))


def rows() -> list[Row]:
    """Every published collective. Raises LookupError for an entry whose machines no rule knows."""
    return [_row(m) for m in measurements() if m.group == "collective"]


def by_size(found: list[Row], use: str) -> dict[str, Summary]:
    """The entries of this use, by size class."""
    return {size: Summary.of(row for row in found if row.size == size and row.measurement.use == use) for size in SIZES}


def modelled(found: list[Row]) -> set[str]:
    """The size classes that the entries held out allow to speak of."""
    low, high = ALLOWED
    return {size for size, summary in by_size(found, "hold").items() if low <= summary.median <= high}


def reasons(found: list[Row]) -> dict[str, str]:
    """Why, for each that was held out and is far off. Raises LookupError where nothing is written about it."""
    return {row.measurement.id: WHY[row.measurement.id] for row in found if row.far and row.measurement.use == "hold"}


def summary(found: list[Row] | None = None) -> str:
    """The table of size classes, in 79 columns."""
    found = rows() if found is None else found
    fitted, held, said = by_size(found, "fit"), by_size(found, "hold"), modelled(found)
    heads = f"{'model / measured time':25}" + "".join(f"{head:>27}" for head in ("fitted to", "held out"))
    lines = [heads, f"{'':25}" + 2 * f"{'number':>9}{'median':>8}{'range':>10}"]
    for size in SIZES:
        cells = "".join(f"{s.count:9}{s.median:8.2f}{s.least:5.2f}-{s.most:.2f}" for s in (fitted[size], held[size]))
        lines.append(f"{size if size in said else size + ', not modelled':25}{cells}")
    return "\n".join(lines)


def table(found: list[Row] | None = None) -> str:
    """Published, modelled and the ratio of times, the nearest first; 80 columns."""
    found = sorted(rows() if found is None else found, key=lambda row: abs(row.ratio - 1))
    lines = [f"{'measurement':27}{'published':>10}{'model':>10}{'ratio':>7}  {'unit':14}way"]
    for row in found:
        m = row.measurement
        fitted = " fit" if m.use == "fit" else ""
        lines.append(
            f"{m.id:27}{m.value:10.5g}{row.model:10.5g}{row.ratio:7.2f}  {m.unit[:13]:14}{row.way[:6]}{fitted}"
        )
    return "\n".join(lines)


def _row(m: Measurement) -> Row:
    network, work = _network(m), m.workload
    if m.id.startswith("deepep"):
        return Row(m, *_experts(network, work))
    kind = {"sendrecv": "send"}.get(work["op"], work["op"])
    ranks = 2 if kind == "send" else work["ranks"]
    nbytes = work["bytes"] if isinstance(work["bytes"], int) else LARGE
    way = _way(network, kind, nbytes, ranks, _ALGORITHMS.get(work.get("algorithm")))
    us = _timed(way.duration_us, ranks, work)
    model = us if m.unit == "us" else bus_bandwidth(kind, nbytes, ranks, us / 1e6) / 1e9
    return Row(m, model, way.algorithm, nbytes)


def _way(network: Network, kind: str, nbytes: int, ranks: int, wanted: str | None) -> Choice:
    ways = [way for way in network.choices(kind, nbytes, ranks) if wanted in (None, way.algorithm)]
    return min(ways, key=lambda way: way.planned_us)


def _timed(us: float, ranks: int, work: dict) -> float:
    """What the benchmark times: beside the collective, a call in Python; and no less than one process needs to launch for all."""
    us += assumed.PYTHON_CALL_US if work.get("timed") == "a call from Python" else 0.0
    return max(us, ranks * assumed.LAUNCH_US) if work.get("processes") == 1 else us


def _experts(network: Network, work: dict) -> tuple[float, str, float]:
    """Bytes a second over the slower of the two kinds of link, each token in one byte a number, to each of its experts."""
    nbytes = work["tokens"] * work["hidden"] * work["top_k"]
    best = min(network.choices("all_to_all", nbytes, work["ranks"]), key=lambda way: way.duration_us)
    moved = best.cost.bytes_between / network.node.ports if network.nodes > 1 else best.cost.bytes_inside
    return moved / best.duration_us / 1e3, best.algorithm, nbytes


def _network(m: Measurement) -> Network:
    for start, node in _MACHINES.items():
        if m.id.startswith(start):
            nodes = -(-m.workload["ranks"] // node.gpus)
            return Network(node, nodes, hierarchical=m.id.partition("-")[0] == "deepep")
    raise LookupError(f"no machines for {m.id}")


if __name__ == "__main__":
    print(table())
    print()
    print(summary())
