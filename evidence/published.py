"""The virtual card against what others measured: ``python -m evidence.published``.

Every measurement that the model can run is run on it: the same sizes, the same way of timing.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

import gpulab.cuda
from gpulab.cards.cards import CARDS
from gpulab.cuda.machine.machine import Machine
from gpulab.published import Measurement, measurements

_TRITON = (
    "A100-class, not named on the page (cuBLAS fp16 peaks at 232 TFLOP/s, vector add at 1,686 GB/s: "
    "an A100 80GB by both)"
)
# Whose model runs it. A V100 stands for its link alone, PCIe 3.0, which is the T4's.
_CARDS = {
    "A100 80GB": "A100", "A100 SXM 80GB": "A100", "A100 SXM": "A100", "A100 SXM4 80GB (DGX A100)": "A100",
    _TRITON: "A100", "H100 SXM": "H100", "H100 SXM 80GB": "H100", "H200": "H200",
    "H200 SXM": "H200", "RTX 4090": "RTX4090", "T4": "T4",
}  # fmt: skip
_LINKS = {
    "A100 PCIe 40GB (Della cluster; the README names A100)": "A100",
    "A100 PCIe 80GB (Dell)": "A100",
    "A100 SXM4 40GB": "A100",
    "V100 PCIe 16GB": "T4",
    "V100 SXM2 16GB": "T4",
}
_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tf32": torch.float32,
}
MEMORY, MATMUL, COPIES, LAUNCHES = "bound by memory", "products", "copies over the link", "launches"
ELSEWHERE = ("peak-memory", "collective", "serving", "inference")
"""Groups that gpulab.memory.validation, gpulab.collectives.network.validation, gpulab.serving.validation and chapter 18's page compare."""
NOT_MODELLED = (
    ("latency and bandwidth of L1, L2 and shared memory", ("lat", "bw-l1", "bw-l2", "bw-rtx", "l1-stride", "bw3")),
    ("memory bandwidth at low occupancy", ("stream-scale-a100-80-occ", "stream-scale-v100-occ")),
    ("float8 products", ("mamf-h100sxm-fp8", "mamf-h200-fp8", "deepgemm")),
    ("kernels written step by step", ("sgemm", "roofline")),
    ("managed memory, and copies from card to card", ("um-", "mli-p2p", "nvlink", "nvbw")),
    ("whole models: BERT, Llama", ("bertbase", "mli-bert", "mli-3090ti-bert", "b200")),
    ("rate and memory of training", ("bert-pre", "rn50-train", "train-", "rate-", "mem-", "ao-8b")),
)


@dataclass(frozen=True)
class Row:
    """One measurement beside the model's value, in the measurement's unit."""

    measurement: Measurement
    group: str
    model: float

    @property
    def ratio(self) -> float:
        return self.model / self.measurement.value


def rows() -> list[Row]:
    """Every measurement that the model can run, run."""
    found = []
    for measured in measurements():
        group, run = _runner(measured)
        if run is not None:
            found.append(Row(measured, group, run(measured)))
    return found


def errors(found: list[Row], use: str = "hold") -> dict[str, tuple[float, int]]:
    """By group: the median of |ratio - 1| of the entries of this use, and how many they are."""
    groups = {row.group: [] for row in found}
    for row in found:
        if row.measurement.use == use:
            groups[row.group].append(abs(row.ratio - 1))
    return {group: (statistics.median(of), len(of)) for group, of in groups.items() if of}


def _runner(m: Measurement) -> tuple[str, Callable[[Measurement], float] | None]:
    if m.group == "copy" and m.workload.get("direction") in ("h2d", "d2h") and (m.card in _CARDS or m.card in _LINKS):
        return COPIES, _copy
    if m.card not in _CARDS:
        return "", None
    if m.group == "matmul" and m.workload.get("m") and m.workload["dtype"] in _DTYPES:
        return MATMUL, _product
    if m.id.startswith("launch-"):
        return LAUNCHES, _launches
    for start, run in _ELEMENTWISE.items():
        if m.id.startswith(start) and "-occ" not in m.id:
            return MEMORY, run
    return "", None


def _microseconds(card: str, prepare: Callable[[], Callable], flush: bool = False) -> float:
    """One call between two events, as ``triton.testing.do_bench`` times it."""
    with gpulab.cuda.use(f"ghost:{card}", quiet=True), torch.no_grad():
        function = prepare()
        function()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3


def _product(m: Measurement) -> float:
    rows, columns, inner = (m.workload[name] for name in "mnk")
    dtype, before = _DTYPES[m.workload["dtype"]], torch.backends.cuda.matmul.allow_tf32

    def prepare():
        a = torch.empty(rows, inner, device="cuda", dtype=dtype)
        b = torch.empty(inner, columns, device="cuda", dtype=dtype)
        return lambda: a @ b

    torch.backends.cuda.matmul.allow_tf32 = m.workload["dtype"] == "tf32"
    try:
        return 2 * rows * columns * inner / _microseconds(_CARDS[m.card], prepare) / 1e6
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _rate(m: Measurement, nbytes: int, prepare: Callable[[], Callable]) -> float:
    """GB/s of ``nbytes`` bytes, whatever was moved."""
    return nbytes / _microseconds(_CARDS[m.card], prepare) / 1e3


def _vector(count: int, dtype=torch.float32) -> torch.Tensor:
    return torch.empty(count, device="cuda", dtype=dtype)


def _add(m: Measurement) -> float:
    def prepare():
        x, y = (_vector(m.workload["elements"]) for _ in range(2))
        return lambda: x + y

    return _rate(m, m.workload["bytes_moved"], prepare)


def _scale(m: Measurement) -> float:
    dtype = torch.float64 if m.workload["dtype"] == "float64" else torch.float32
    count = m.workload["elements"]

    def prepare():
        x = _vector(count, dtype)
        return lambda: x * 2.0

    return _rate(m, 2 * count * dtype.itemsize, prepare)


def _read(m: Measurement) -> float:
    count = m.workload.get("elements") or m.workload["dataset_kib"] * 128

    def prepare():
        x = _vector(count, torch.float64)
        return lambda: x.sum()

    return _rate(m, 8 * count, prepare)


def _within(m: Measurement) -> float:
    def prepare():
        x, y = (_vector(m.workload["bytes"], torch.uint8) for _ in range(2))
        return lambda: y.copy_(x)

    return _rate(m, 2 * m.workload["bytes"], prepare)


def _softmax(m: Measurement) -> float:
    def prepare():
        x = _vector(m.workload["rows"] * m.workload["cols"]).view(m.workload["rows"], -1)
        return (lambda: _naive_softmax(x)) if "naive" in m.id else (lambda: torch.softmax(x, -1))

    return _rate(m, m.workload["bytes_counted"], prepare)


def _naive_softmax(x: torch.Tensor) -> torch.Tensor:
    shifted = x - x.max(dim=1)[0][:, None]
    numerator = torch.exp(shifted)
    return numerator / numerator.sum(dim=1)[:, None]


_ELEMENTWISE: dict[str, Callable[[Measurement], float]] = {
    "triton-add-": _add,
    "stream-scale-": _scale,
    "mli-vec-": _scale,
    "stream-read-": _read,
    "bw-drambig-": _read,
    "bwtest-t4-d2d": _within,
    "triton-softmax-": _softmax,
}


def _copy(m: Measurement) -> float:
    """GB/s. What bandwidthTest times: the copy engine for pinned memory, the host for pageable."""
    machine = Machine(CARDS[_CARDS.get(m.card) or _LINKS[m.card]])
    kind = {"h2d": "HtoD", "d2h": "DtoH"}[m.workload["direction"]]
    nbytes, pinned = m.workload["bytes"], m.workload.get("host_memory", "pinned") == "pinned"
    blocking = not pinned or "cudaMemcpy " in m.what
    machine.copy(kind, nbytes, pinned, blocking)
    us = machine.host_us if blocking else machine.copy_us(nbytes, pinned)
    return nbytes / us / 1e3


def _launches(m: Measurement) -> float:
    """Microseconds a kernel of many in a row."""
    with gpulab.cuda.use(f"virtual:{_CARDS[m.card]}", quiet=True):
        x, calls = _vector(m.workload["elements"], torch.float64), 100
        run = _graph(x, calls) if m.id.endswith("graph") else lambda: [x.mul_(2.0) for _ in range(calls)]
        run()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / calls


def _graph(x: torch.Tensor, calls: int) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            x.mul_(2.0)
    return graph.replay


def table(found: list[Row]) -> str:
    """The rows by group, the largest error last."""
    lines = [f"{'measurement':30}{'published':>11}{'model':>11}{'ratio':>7}  {'unit':8}"]
    for group in dict.fromkeys(row.group for row in found):
        lines.append(f"-- {group}")
        for row in sorted((r for r in found if r.group == group), key=lambda r: abs(r.ratio - 1)):
            m = row.measurement
            fitted = " fitted" if m.use == "fit" else ""
            lines.append(f"{m.id:30}{m.value:11.5g}{row.model:11.5g}{row.ratio:7.2f}  {m.unit:8}{fitted}")
    return "\n".join(lines)


def summary(found: list[Row]) -> str:
    """The median error of the held-out ones, group by group, and what the model cannot run."""
    lines = [
        f"{group:22} median error {100 * error:4.1f} % of {count} held out"
        for group, (error, count) in errors(found).items()
    ]
    known = [m for m in measurements() if m.group not in ELSEWHERE]
    for what, starts in NOT_MODELLED:
        lines.append(f"not modelled: {what} ({sum(m.id.startswith(starts) for m in known)} measurements)")
    others = len(known) - len(found) - sum(m.id.startswith(s) for _, s in NOT_MODELLED for m in known)
    lines.append(f"of cards that are not modelled: {others}")
    return "\n".join(lines)


if __name__ == "__main__":
    seen = rows()
    print(table(seen), summary(seen), sep="\n\n")
