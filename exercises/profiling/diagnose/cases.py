"""Traces in Kineto's Chrome format, drawn with planted causes; and what they come to, in whole nanoseconds."""

from collections.abc import Iterator
from typing import NamedTuple

from autograder.core.sampler import Sampler

STREAMS = {"main": 7, "beside": 13, "copies": 20, "nccl": 24}
LOADERS = (
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
)
COMPUTE = ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "flash_fwd_kernel<cutlass::bfloat16_t, 128>")
MEMORY = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
)
NCCL = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_ReduceScatter_RING_LL_Sum_float",
)
COPIES = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)")
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")
CAUSES = ("input", "sync", "launch", "communication", "compute", "memory")
"""In the order in which the first of equal ones is the verdict."""
ELSEWHERE = "autograd"
"""A thread of the host that takes no steps."""
LOSSES = CAUSES[:4]

_US = 1000


class Span(NamedTuple):
    """An event. ``what``: kernel, copy, fill, call, driver, range or op. Times in nanoseconds from the trace's origin.

    ``stream``: where it ran; of the host, ``ELSEWHERE`` or where the steps are taken.
    """

    what: str
    name: str
    start: int
    end: int
    stream: str = ""

    def moved(self, by: int) -> "Span":
        return self._replace(start=self.start + by, end=self.end + by)


class Work(NamedTuple):
    """FLOPs and bytes of a launch by kernel, and the FLOP/byte where the card's two limits meet."""

    counts: dict[str, list[int]]
    ridge: int


def work(sampler: Sampler) -> Work:
    """Each kernel well on its side. NCCL's are in the table, too, and so are copies, as if they computed."""
    ridge, counts = sampler.integer(40, 300), {}
    for name in COMPUTE + NCCL + COPIES:
        counts[name] = [ridge * (nbytes := sampler.integer(10**6, 10**8)) * sampler.integer(2, 9), nbytes]
    for name in MEMORY:
        counts[name] = [ridge * (nbytes := sampler.integer(10**6, 10**8)) // sampler.integer(3, 9), nbytes]
    return Work(counts, ridge)


# ---- a step with given causes


class Gap(NamedTuple):
    """An idle time: so much while the loader works, and a rest that is ``how``; the call that waits in it."""

    how: str
    loading: int
    rest: int
    wait: str = WAITS[0]


def step(sampler: Sampler, amounts: dict[str, int], unit: int = 1) -> list[Span]:
    """Spans from 0 in which each cause takes as many nanoseconds as ``amounts`` says, in several pieces each.

    A step starts and ends with work of the card. Everything is a multiple of ``unit``, as ``amounts`` are.
    """
    gaps = sampler.permutation(list(_gaps(amounts, unit)))
    pieces = _pieces(sampler, amounts, unit)
    if len(gaps) >= len(pieces):
        raise ValueError(f"{amounts}: no room for {len(gaps)} idle times between {len(pieces)} pieces of work")
    before = sorted(sampler.permutation(range(1, len(pieces)))[: len(gaps)])
    spans: list[Span] = []
    at, previous = 0, 0
    for number, (cause, length) in enumerate(pieces):
        if number in before:
            gap = gaps[before.index(number)]
            spans += _idle(sampler, gap, at, previous, length, unit)
            at, previous = at + gap.loading + gap.rest, 0
        spans += _BUSY[cause](sampler, at, length, previous, unit)
        at, previous = at + length, length
    return [Span("range", f"ProfilerStep#{sampler.integer(3, 99)}", 0, at), *spans]


def _split(amount: int, parts: int, unit: int) -> list[int]:
    """Parts of unlike size that are multiples of ``unit``; none where they would be too small."""
    if amount < 8 * parts * unit:
        return [amount] if amount else []
    weights = range(parts, 2 * parts)
    first = [amount * weight // sum(weights) // unit * unit for weight in weights[1:]]
    return [amount - sum(first), *first]


def _pieces(sampler: Sampler, amounts: dict[str, int], unit: int) -> list[tuple[str, int]]:
    """Work of the card in six pieces or more."""
    kinds = [cause for cause in ("compute", "memory", "communication") if amounts.get(cause)]
    parts = -(-6 // len(kinds))
    return sampler.permutation([(cause, part) for cause in kinds for part in _split(amounts[cause], parts, unit)])


def _gaps(amounts: dict[str, int], unit: int) -> Iterator[Gap]:
    """Idle times of each cause alone, and of the loader and another together."""
    loading = _split(amounts.get("input", 0), 3, unit)
    for how in ("sync", "launch"):
        for rest, wait in zip(_split(amounts.get(how, 0), 2, unit), WAITS):
            yield Gap(how, loading.pop() if len(loading) > 1 and rest >= 4 * unit else 0, rest, wait)
    yield from (Gap("launch", part, 0) for part in loading)


def _idle(sampler: Sampler, gap: Gap, at: int, before: int, after: int, unit: int) -> Iterator[Span]:
    """What the host does meanwhile. ``before``, ``after``: how long the card works there, where the host may be at it, too."""
    end = at + gap.loading + gap.rest
    early, late = _cut(before // 3, unit), _cut(after // 3, unit)
    if gap.loading:
        begins = at + _cut(gap.rest // 2, unit)
        hidden = 0 if gap.rest else early
        name, thread = (LOADERS[1], ELSEWHERE) if gap.rest else (LOADERS[0], "")
        yield Span("range", name, begins - hidden, begins + gap.loading + (0 if gap.rest else late), thread)
        yield Span("op", "aten::stack", begins, begins + gap.loading)
        if gap.rest:  # and again while the card works
            yield Span("range", name, end, end + late)
    if gap.how == "sync" and gap.rest:
        yield Span(
            "call", gap.wait, at - early, at + _cut(gap.rest // 4, unit), ELSEWHERE if gap.wait == WAITS[1] else ""
        )
    elif gap.rest:
        yield Span("call", "cudaStreamWaitEvent", at - early, at + _cut(gap.rest // 2, unit))
        yield Span("op", "aten::item", at - early, end)
        if gap.rest >= 4 * unit:  # it waits for nothing: the card has run dry before
            start = at + _cut(gap.rest // 4, unit)
            yield Span("call", gap.wait, start, max(start + unit, at + _cut(gap.rest // 2, unit)))
    yield Span("call", "cudaLaunchKernel", max(at, end - 4 * unit), end)


def _cut(length: int, unit: int) -> int:
    return length // unit * unit


def _computing(sampler: Sampler, at: int, length: int, before: int, unit: int) -> Iterator[Span]:
    """Two kernels in a row, and beside them one that computes, one that moves, a copy and a collective."""
    half, end = at + _cut(length // 2, unit), at + length
    yield from _row(COMPUTE, at, half, end)
    if length >= 8 * unit:
        yield Span(
            "kernel", sampler.choice(COMPUTE), at + _cut(length // 4, unit), end - _cut(length // 8, unit), "beside"
        )
        yield Span("kernel", sampler.choice(MEMORY), at + _cut(length // 8, unit), half, "copies")
        yield Span("copy", sampler.choice(COPIES), half, end, "copies")
        yield Span("kernel", sampler.choice(NCCL), at, end - _cut(length // 8, unit), "nccl")


def _moving(sampler: Sampler, at: int, length: int, before: int, unit: int) -> Iterator[Span]:
    """A kernel, a copy, a fill and a kernel in a row, beside them another kernel and a collective."""
    third, end = _cut(length // 3, unit), at + length
    half = at + _cut(length // 2, unit)
    if third < 2 * unit:
        yield Span("kernel", sampler.choice(MEMORY), at, end, "main")
        return
    yield Span("kernel", sampler.choice(MEMORY), at, at + third, "main")
    yield Span("copy", sampler.choice(COPIES), at + third, half, "copies")
    yield Span("fill", "Memset (Device)", half, end - third, "main")
    yield Span("kernel", sampler.choice(MEMORY), end - third, end, "main")
    if length >= 8 * unit:
        yield Span("kernel", sampler.choice(MEMORY), at + _cut(length // 8, unit), at + third, "beside")
        yield Span("kernel", sampler.choice(NCCL), at, end - _cut(length // 8, unit), "nccl")


def _sending(sampler: Sampler, at: int, length: int, before: int, unit: int) -> Iterator[Span]:
    """Two collectives that overlap, the first of them hidden for a while before."""
    third, end = _cut(length // 3, unit), at + length
    yield Span("kernel", sampler.choice(NCCL), at - _cut(before // 2, unit), end - third, "nccl")
    yield Span("kernel", sampler.choice(NCCL), at + third, end, "nccl")


def _row(names: tuple[str, ...], at: int, half: int, end: int) -> Iterator[Span]:
    yield from (
        Span("kernel", name, *times, "main")
        for name, times in zip(names, ((at, half), (half, end)))
        if times[0] < times[1]
    )


_BUSY = {"compute": _computing, "memory": _moving, "communication": _sending}


# ---- what it comes to


class Found(NamedTuple):
    """``times``: nanoseconds by cause. ``window``: None where there is none."""

    window: tuple[int, int] | None
    times: dict[str, int]

    @property
    def verdict(self) -> str | None:
        if self.window is None:
            return None
        lost = 10 * sum(self.times[cause] for cause in LOSSES) >= sum(self.times.values())
        return max(LOSSES if lost else CAUSES[4:], key=self.times.__getitem__)


def found(spans: list[Span], table: Work) -> Found:
    """Moment after moment: between two neighbouring edges nothing changes."""
    spans = [span for span in spans if span.start < span.end]
    kinds = [(span, _kind(span, table)) for span in spans]
    ends = [span for span, kind in kinds if kind == "step"] or [span for span, kind in kinds if kind in _BUSY]
    times = dict.fromkeys(CAUSES, 0)
    if not ends:
        return Found(None, times)
    window = min(span.start for span in ends), max(span.end for span in ends)
    edges = sorted({*window, *(edge for span in spans for edge in span[2:4] if window[0] < edge < window[1])})
    began = None
    for low, high in zip(edges, edges[1:]):
        running = {kind for span, kind in kinds if span.start <= low and high <= span.end}
        working = [cause for cause in _BUSY if cause in running]
        if working:
            cause, began = working[0], None
        else:
            if began is None:
                began = (
                    "sync"
                    if any(kind == "wait" and span.start <= low <= span.end for span, kind in kinds)
                    else "launch"
                )
            cause = "input" if "loader" in running else began
        times[cause] += high - low
    return Found(window, times)


def _kind(span: Span, table: Work) -> str | None:
    if span.what == "kernel":
        if span.name.startswith("nccl"):
            return "communication"
        flops, nbytes = table.counts.get(span.name, (-1, 0))
        return "compute" if flops >= table.ridge * nbytes else "memory"
    if span.what in ("copy", "fill"):
        return "memory"
    if span.what in ("call", "driver"):
        return "wait" if span.name.endswith("Synchronize") else None
    if span.what in ("range", "op"):
        return next((kind for head, kind in _HEADS.items() if span.name.startswith(head)), None)
    return None


_HEADS = {"ProfilerStep#": "step", "enumerate(DataLoader)#": "loader"}


# ---- as Kineto writes it

_TODAY = {
    "kernel": "kernel",
    "copy": "gpu_memcpy",
    "fill": "gpu_memset",
    "call": "cuda_runtime",
    "driver": "cuda_driver",
    "range": "user_annotation",
    "op": "cpu_op",
}
_IN_2021 = {
    "kernel": "Kernel",
    "copy": "Memcpy",
    "fill": "Memset",
    "call": "Runtime",
    "driver": "Runtime",
    "range": "Operator",
    "op": "Operator",
}
_ON_CARD = ("kernel", "copy", "fill")


def written(spans: list[Span], style: str = "today", origin: int = 0) -> dict:
    """The trace as ``json.load`` gives it, sorted by start. ``origin``: nanoseconds before the first.

    ``style``: ``today`` with fractions of microseconds; ``2021`` with whole ones and the names of that year.
    """
    spans = sorted(spans, key=lambda span: span.start)
    events = [_event(span, number, style, origin) for number, span in enumerate(spans)]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": events}


def _event(span: Span, number: int, style: str, origin: int) -> dict:
    old = style == "2021"
    stream = STREAMS.get(span.stream, 7)
    if span.what in _ON_CARD:
        place = {"pid": 0, "tid": f"stream {stream}" if old else stream}
        arguments = {"device": 0, "context": 1, "stream": stream, "correlation": number}
    else:
        thread = 4242 + (span.stream == ELSEWHERE)
        place, arguments = {"pid": 4242, "tid": str(thread) if old else thread}, {"correlation": number}
    arguments["external id" if old else "External id"] = number
    category = (_IN_2021 if old else _TODAY)[span.what]
    times = {"ts": microseconds(origin + span.start, style), "dur": microseconds(span.end - span.start, style)}
    return {"ph": "X", "cat": category, "name": span.name, **place, **times, "args": arguments}


def microseconds(nanoseconds: int, style: str) -> int | float:
    return nanoseconds // _US if style == "2021" else nanoseconds / _US
