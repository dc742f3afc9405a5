"""The network model against what others measured: ``python -m gpulab.collectives.network.validation``.

Every entry of the group ``collective`` in ``evidence/published.yml`` is run on the machines that its source names. One
constant was fitted, to one entry (``use: fit``); bandwidths and latencies otherwise are NCCL's and the makers'.
"""

import statistics
from dataclasses import dataclass, replace

from gpulab.cards.links import link_named
from gpulab.collectives.network.bandwidth import bus_bandwidth
from gpulab.collectives.network.network import Network
from gpulab.collectives.network.protocols import HIERARCHICAL, IN_SWITCH, RING
from gpulab.collectives.network.systems import system_named
from gpulab.published import Measurement, measurements

NEAR = 0.1
LARGE = 8 << 30
"""Bytes, where a source says that the payload was large and no more."""

_FOUR_PORTS = replace(system_named("DGX A100"), name="8 x A100, 4 ports", ports=4, between=link_named("InfiniBand HDR"))
_MACHINES = {
    "ar-h200-": "DGX H100", "ar-h100-": "DGX H100", "ag-h200-": "DGX H100", "rs-h200-": "DGX H100", "ar-b200-": "DGX B200",
    "ar-a100-8": "DGX A100", "sendrecv-a100-": "DGX A100", "ar-jz-v100-": "Jean Zay V100", "ar-a3-": "A3 Mega", "deepep-": "H800",
    "ar-a100-256-": _FOUR_PORTS, "ar-a100-24-": _FOUR_PORTS,
}  # fmt: skip
_ALSO = {"NVLS": (IN_SWITCH,), "deepep": (HIERARCHICAL,)}
_MEDIUM = "from 64 KiB to 256 MiB: NCCL's own model slows its trees at medium sizes by 1.1 to 2 times, this one does not; what is more than that has no reason here"
_FABRIC = "the source says that its fabric was not fully used; the model takes all four ports for used"
WHY = {
    "ar-a3-16-65536": _MEDIUM,
    "ar-a3-16-1048576": _MEDIUM,
    "ar-a3-16-16777216": _MEDIUM,
    "ar-a3-16-33554432": _MEDIUM,
    "ar-a3-16-268435456": _MEDIUM,
    "ar-jz-v100-16": _FABRIC,
    "ar-jz-v100-64": _FABRIC,
    "sendrecv-a100-134217728": "the time is 0.65 ms longer than the bytes need; the source does not say why",
    "sendrecv-a100-1073741824": "as with 128 MiB: a millisecond more than the bytes need",
}
"""For those further off than a tenth: what the source says, or what is left out of the model."""


@dataclass(frozen=True)
class Row:
    """One measurement beside the model's value, in the measurement's unit."""

    measurement: Measurement
    model: float
    way: str

    @property
    def ratio(self) -> float:
        """Above 1: the model is higher. Of a time that is too slow, of a bandwidth too fast."""
        return self.model / self.measurement.value

    @property
    def near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR


def rows() -> list[Row]:
    """Every published collective. Raises LookupError for an entry whose machines no rule knows."""
    return [_row(m) for m in measurements() if m.group == "collective"]


def median_error(found: list[Row], use: str = "hold") -> float:
    """The median of |ratio - 1| of the entries of this use."""
    return statistics.median(abs(row.ratio - 1) for row in found if row.measurement.use == use)


def table(found: list[Row] | None = None) -> str:
    """Published, modelled and their ratio, the nearest first; 80 columns."""
    found = sorted(rows() if found is None else found, key=lambda row: abs(row.ratio - 1))
    lines = [f"{'measurement':25}{'published':>10}{'model':>10}{'ratio':>7}  {'unit':17}way"]
    for row in found:
        m = row.measurement
        fitted = " fit" if m.use == "fit" else ""
        lines.append(f"{m.id:25}{m.value:10.5g}{row.model:10.5g}{row.ratio:7.2f}  {m.unit:17}{row.way[:4]}{fitted}")
    near = sum(row.near for row in found)
    lines.append(f"{near} of {len(found)} are within 10 %; median error of those held out {median_error(found):.1%}")
    return "\n".join(lines)


def reasons(found: list[Row] | None = None) -> dict[str, str]:
    """Why, for each that is further off than 10 %. Raises LookupError where no reason is known."""
    return {row.measurement.id: WHY[row.measurement.id] for row in (found or rows()) if not row.near}


def _row(m: Measurement) -> Row:
    network, work = _network(m), m.workload
    if m.id.startswith("deepep"):
        return Row(m, *_experts(network, work))
    kind = {"sendrecv": "send"}.get(work["op"], work["op"])
    ranks = 2 if kind == "send" else work["ranks"]
    nbytes = work["bytes"] if isinstance(work["bytes"], int) else LARGE
    wanted = {"ring": RING, "NVLS": IN_SWITCH}.get(work.get("algorithm"))
    ways = [way for way in network.choices(kind, nbytes, ranks) if wanted in (None, way.algorithm)]
    best = min(ways, key=lambda way: way.duration_us)
    if m.unit == "us":
        return Row(m, best.duration_us, best.algorithm)
    return Row(m, bus_bandwidth(kind, nbytes, ranks, best.duration_us / 1e6) / 1e9, best.algorithm)


def _experts(network: Network, work: dict) -> tuple[float, str]:
    """Bytes a second over the slower of the two kinds of link, each token in one byte a number, to each of its experts."""
    nbytes = work["tokens"] * work["hidden"] * work["top_k"]
    best = network.fastest("all_to_all", nbytes, work["ranks"])
    moved = best.cost.bytes_between / network.node.ports if network.nodes > 1 else best.cost.bytes_inside
    return moved / best.duration_us / 1e3, best.algorithm


def _network(m: Measurement) -> Network:
    for start, machine in _MACHINES.items():
        if m.id.startswith(start):
            node = machine if not isinstance(machine, str) else system_named(machine)
            return Network(
                node,
                -(-m.workload["ranks"] // node.gpus),
                _ALSO.get(m.workload.get("algorithm", m.id.partition("-")[0]), ()),
            )
    raise LookupError(f"no machines for {m.id}")


if __name__ == "__main__":
    print(table())
