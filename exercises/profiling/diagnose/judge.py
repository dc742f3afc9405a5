"""E12.2 diagnose: cases and judge. Traces and what they come to are drawn in ``drawer``."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.profiling.diagnose.cases import (
    CAUSES,
    COMPUTE,
    LOADERS,
    LOSSES,
    MEMORY,
    NCCL,
    Found,
    Span,
    Work,
    found,
    microseconds,
    step,
    work,
    written,
)

_US = 1000
_NEAR_US = 1.0
_ORIGIN = 4_458_676_522_690_000
"""Nanoseconds: as in traces of 2024, whose microseconds a float64 holds to a thousandth."""


_COMPARED = {
    "work": ("compute", "memory"),
    "communication": ("communication",),
    "input": ("input",),
    "idle": ("sync", "launch"),
    "errors": (),
}
"""The times that are to be right; all of them for other criteria."""


class Asked(NamedTuple):
    """A trace, the table of work and the ridge; and what the trace comes to."""

    trace: dict
    table: Work
    expected: Found


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("work", sampler.permutation(list(_working(sampler))))
    for cause in ("communication", "input"):
        yield ask(cause, sampler.permutation(list(_mostly(sampler, cause))))
    idle = [*_mostly(sampler, "sync"), *_mostly(sampler, "launch"), *_touching(sampler), _hairline(sampler)]
    yield ask("idle", sampler.permutation(idle))
    yield ask("formats", sampler.permutation(list(_formats(sampler))))
    yield ask("window", sampler.permutation(list(_windows(sampler))))
    yield ask("verdict", sampler.permutation(list(_verdicts(sampler))))
    yield ask("errors", sampler.permutation(list(_just_enough(sampler))))
    yield ask("errors", sampler.permutation(list(_without_window(sampler))), raises="ValueError")


def _asked(
    spans: list[Span], table: Work, style: str = "today", origin: int = _ORIGIN, change: Callable = lambda trace: trace
) -> Asked:
    trace = change(written(spans, style, origin if style == "today" else origin // _US * _US))
    return Asked(trace, table, found(spans, table))


def _amounts(sampler: Sampler, low_us: int = 9, high_us: int = 20, unit: int = 1, **more: int) -> dict[str, int]:
    """Nanoseconds of each cause. ``more``: times what is usual."""
    return {cause: sampler.integer(low_us * _US, high_us * _US) * more.get(cause, 1) // unit * unit for cause in CAUSES}


def _mostly(sampler: Sampler, cause: str) -> Iterator[Asked]:
    for share in sampler.shuffled(1, 6):
        yield _asked(step(sampler, _amounts(sampler, 20, 40, **{cause: share})), work(sampler))


def _working(sampler: Sampler) -> Iterator[Asked]:
    """Usual ones; kernels that nobody counted, that move nothing, that lie on the ridge or a FLOP below; short and nested ones."""
    for cause in sampler.shuffled("compute", "memory"):
        yield _asked(step(sampler, _amounts(sampler, 20, 40, **{cause: 4})), work(sampler))
    table = work(sampler)
    nbytes = sampler.integer(10**6, 10**8)
    ridge = table.ridge
    counts = {
        "on the ridge": [ridge * nbytes, nbytes],
        "below it": [ridge * nbytes - 1, nbytes],
        "in registers": [nbytes, 0],
        "NCCL_like_gemm": [ridge * nbytes * 2, nbytes],
        "nothing": [0, 0],
    }
    names = sampler.permutation([*counts, "triton_poi_fused_0", "at::native::barrier_before_nccl_bucket"])
    spans, at = [], 0
    for name in names:
        spans.append(
            Span("kernel", name, at, at := at + sampler.integer(9, 90) * _US + sampler.integer(1, 999), "main")
        )
    spans.append(Span("copy", NCCL[0], at, at := at + sampler.integer(9, 90) * _US, "copies"))
    for _ in range(60):  # too short to be seen in whole microseconds
        at += sampler.integer(1, 3) * _US
        spans.append(Span("kernel", MEMORY[0], at, at := at + sampler.integer(600, 950), "main"))
    long = Span("kernel", MEMORY[1], at + 20 * _US, at + 99 * _US, "main")
    spans += [
        long,
        Span("kernel", MEMORY[0], at + 30 * _US, at + 40 * _US, "beside"),
        Span("range", "ProfilerStep#1", 0, long.end),
    ]
    yield _asked(spans, Work(table.counts | counts, ridge))


def _touching(sampler: Sampler) -> Iterator[Asked]:
    """In whole microseconds: a wait ends or starts when the card runs dry, or a microsecond from it; one that lasts throughout.

    The kernel that started last is over before the one that ends last.
    """
    for starts, ends in sampler.shuffled((-9, 0), (0, 9), (-9, -1), (1, 9), (-9, 40), (5, 35)):
        first, gap = sampler.integer(20, 40), 40
        last = sampler.integer(20, 40)
        spans = [
            Span("kernel", COMPUTE[0], 0, first, "main"),
            Span("kernel", MEMORY[1], 5, first - 5, "copies"),
            Span("kernel", MEMORY[0], first + gap, first + gap + last, "beside"),
            Span(
                "call", sampler.choice(("cuStreamSynchronize", "cudaDeviceSynchronize")), first + starts, first + ends
            ),
            Span("range", LOADERS[0], first + 10, first + 20),
            Span("range", "ProfilerStep#1", 0, first + gap + last),
        ]
        yield _asked([span._replace(start=span.start * _US, end=span.end * _US) for span in spans], work(sampler))
    # Two idle times, of which the wait that ends in the first one is nothing to the second; a kernel of another stream between.
    edges = [0, 30, 60, 65, sampler.integer(100, 120)]
    spans = [Span("kernel", COMPUTE[0], 0, 30, "main"), Span("kernel", COMPUTE[0], 60, 65, "beside")]
    spans += [
        Span("kernel", COMPUTE[0], edges[-1], edges[-1] + 9, "main"),
        Span("call", "cudaStreamSynchronize", 20, 58),
    ]
    spans += [Span("range", "ProfilerStep#1", 0, edges[-1] + 9)]
    yield _asked([span._replace(start=span.start * _US, end=span.end * _US) for span in spans], work(sampler))


def _cut_off(sampler: Sampler) -> Iterator[Asked]:
    """In whole microseconds: the card runs dry before the window begins, in a wait or in none; so it does at the window's start.

    Of two waits the first ends, and the second begins, there or a microsecond from it.
    """
    for wait in sampler.shuffled((-60, -20), (-60, 0), (-30, -1), (-30, 9), (0, 9), (1, 9)):
        start = sampler.integer(30, 60)
        spans = [
            Span("kernel", COMPUTE[0], -200, -40, "main"),
            Span("kernel", COMPUTE[0], start, 200, "main"),
            Span("call", "cudaStreamSynchronize", *wait),
            Span("range", "ProfilerStep#1", 0, 200),
        ]
        yield _asked([span._replace(start=span.start * _US, end=span.end * _US) for span in spans], work(sampler))


def _hairline(sampler: Sampler) -> Asked:
    """Idle times shorter than a microsecond, as between kernels that are launched as fast as they run; every third in a wait."""
    spans, at = [], 0
    for number in range(60):
        at += (busy := sampler.integer(700, 990))
        spans.append(Span("kernel", MEMORY[0], at - busy, at, "main"))
        if number % 3 == 0:
            spans.append(Span("call", "cudaEventSynchronize", at - busy, at))
        at += sampler.integer(300, 600)
    return _asked([*spans, Span("range", "ProfilerStep#1", 0, at)], work(sampler))


def _formats(sampler: Sampler) -> Iterator[Asked]:
    """Old names and new ones, no order, other events between; what has no duration. Two steps, that an order would tell apart."""
    for style in sampler.shuffled("today", "2021"):
        table, spans = work(sampler), _as_operations(_with_drivers(_steps(sampler, 2, 0, _US)))
        end = max(span.end for span in spans)
        nothing = [
            Span("kernel", COMPUTE[0], 0, 0, "main"),
            Span("call", "cudaStreamSynchronize", end // 2, end // 2),
            Span("range", LOADERS[0], end // 3, end // 3),
            Span("range", "ProfilerStep#0", -50 * _US, -50 * _US),
        ]
        yield _asked(
            spans + nothing, table, style, change=lambda trace, style=style, end=end: _mixed(sampler, trace, style, end)
        )
    table, spans = work(sampler), _steps(sampler, 2, 0)
    yield _asked(
        spans,
        table,
        "today",
        change=lambda trace: _mixed(sampler, _without_arguments(trace), "today", max(s.end for s in spans)),
    )


def _steps(sampler: Sampler, count: int, hole_us: int, unit: int = 1) -> list[Span]:
    """Steps one after the other, with a hole after each."""
    spans: list[Span] = []
    for _ in range(count):
        at = max((span.end for span in spans), default=-hole_us * _US) + hole_us * _US
        spans += [span.moved(at) for span in step(sampler, _amounts(sampler, 20, 40, unit), unit)]
    return spans


def _with_drivers(spans: list[Span]) -> list[Span]:
    """Waits called by the driver's names instead of the runtime's."""
    names = {"cudaStreamSynchronize": "cuStreamSynchronize", "cudaEventSynchronize": "cuEventSynchronize"}
    return [span._replace(what="driver", name=names[span.name]) if span.name in names else span for span in spans]


def _as_operations(spans: list[Span]) -> list[Span]:
    """The last step and one kind of loader as operations, which a range may be, too."""
    last = max((span for span in spans if span.name.startswith("ProfilerStep#")), key=lambda span: span.end)
    return [span._replace(what="op") if span is last or span.name == LOADERS[0] else span for span in spans]


def _without_arguments(trace: dict) -> dict:
    for event in trace["traceEvents"]:
        del event["args"]
    return trace


def _mixed(sampler: Sampler, trace: dict, style: str, end: int) -> dict:
    """With events that count for nothing, all over the trace and beyond its ends, in random order; the first step is the last."""
    origin = _ORIGIN // _US * _US if style == "2021" else _ORIGIN
    at = lambda nanoseconds: microseconds(origin + nanoseconds, style)
    whole = {"ts": at(-20 * _US), "dur": microseconds(end + 60 * _US, style)}
    card, host = {"pid": 0, "tid": 7}, {"pid": 4242, "tid": 4242}
    others = [
        {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#7", **card, **whole},
        {"ph": "X", "cat": "gpu_user_annotation", "name": LOADERS[0], **card, **whole},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "nccl:all_reduce", **card, **whole},
        {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", **host, **whole, "args": {"External id": 3}},
        {"ph": "X", "cat": "cuda_sync", "name": "Stream Synchronize", **card, **whole, "args": {"stream": 7}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::Synchronize", **host, **whole},
        {"ph": "X", "cat": "python_function", "name": "torch/cuda/__init__.py(1): ProfilerStep#", **host, **whole},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", **whole},
        {"ph": "X", "name": "cudaDeviceSynchronize", **host, **whole},
        *({"ph": "X", "cat": category, "name": COMPUTE[0], **card, **whole} for category in _NEARLY_ON_CARD),
        *({"ph": "X", "cat": category, "name": "cudaDeviceSynchronize", **host, **whole} for category in _NEARLY_CALLS),
        *({"ph": "X", "cat": category, "name": "ProfilerStep#9", **host, **whole} for category in _NEARLY_RANGES),
        *({"ph": "X", "cat": "user_annotation", "name": name, **host, **whole} for name in _NEARLY_NAMED),
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaSynchronizeHelper", **host, **whole},
        {"ph": "X", "cat": "kernel", "name": COMPUTE[0], **card, "ts": at(-40 * _US)},
        {"ph": "X", "name": "ProfilerStep#8", **host, "ts": at(-40 * _US)},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": at(0), "args": {"name": "python"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 4242, "tid": 4242},
        {"ph": "i", "s": "t", "name": "[memory]", **host, "ts": at(end // 2), "args": {"Bytes": 4}},
        {"ph": "s", "id": 7, "cat": "ac2g", "name": "ac2g", **host, "ts": at(9)},
        {"ph": "b", "id": 8, "cat": "kernel", "name": COMPUTE[0], **card, **whole},
        {
            "ph": "i",
            "s": "g",
            "name": "Iteration Start: PyTorch Profiler",
            "pid": "Traces",
            "tid": "Trace",
            "ts": at(-99 * _US),
        },
    ]
    first, *rest = sorted(
        trace["traceEvents"], key=lambda event: not (event["name"].startswith("ProfilerStep#") and event["dur"])
    )
    return trace | {"traceEvents": [*sampler.permutation(rest + others), first]}


_NEARLY_ON_CARD = ("KERNEL", "kernels", "Gpu_memcpy", "gpu_memory", "memcpy", "Memory")
_NEARLY_CALLS = ("runtime", "cuda_runtime_sync", "Cuda_Driver", "cuda")
_NEARLY_RANGES = ("operator", "cpu_operator", "User_Annotation", "annotation")
_NEARLY_NAMED = (
    "ProfilerStep",
    "ProfilerStep_warmup",
    "profilerstep#3",
    "a ProfilerStep#3",
    "DataLoader.reset",
    "enumerate(DataLoader)",
    "enumerate(dataloader)#next",
    "an enumerate(DataLoader)#next",
)
"""Categories and names that are none of those that count, and like them."""


def _windows(sampler: Sampler) -> Iterator[Asked]:
    """Several steps with holes between them, work beyond both ends, no step at all, no work at all."""
    table, spans = work(sampler), _steps(sampler, 2, sampler.integer(40, 60))
    end = max(span.end for span in spans)
    beyond = sampler.integer(30, 60) * _US
    outside = [
        Span("kernel", MEMORY[0], -beyond, beyond // 3, "beside"),
        Span("kernel", COMPUTE[1], end - beyond // 4, end + beyond, "beside"),
        Span("range", LOADERS[1], -3 * beyond, -beyond),
        Span("call", "cudaDeviceSynchronize", end - beyond, end + beyond),
        Span("kernel", NCCL[0], end + 2 * beyond, end + 3 * beyond, "nccl"),
        Span("range", "validation", -3 * beyond, end + 4 * beyond),
        Span("range", "my ProfilerStep#", -3 * beyond, end + 4 * beyond),
    ]
    yield _asked(spans + outside, table)
    # The card is idle at both ends of the window, of which the first begins in a wait.
    wait = Span("call", "cudaStreamSynchronize", -beyond, beyond // 3)
    around = Span("range", "ProfilerStep#1", -beyond // 2, end + beyond)
    yield _asked([*spans, wait, around], table)
    without = [span for span in spans if not span.name.startswith("ProfilerStep#")]
    host = [Span("range", LOADERS[0], -beyond, 0), Span("op", "aten::item", -beyond, end + beyond)]
    yield _asked([*without, *host], table)
    yield from _cut_off(sampler)
    loader = Span("range", LOADERS[0], beyond // 3, beyond)
    yield _asked([Span("range", "ProfilerStep#1", 0, 3 * beyond), loader, Span("op", "aten::mm", 0, beyond)], table)


def _verdicts(sampler: Sampler) -> Iterator[Asked]:
    for cause in sampler.shuffled(*LOSSES):
        yield _asked(step(sampler, _amounts(sampler, 20, 40, **{cause: 6})), work(sampler))
        # Busy nine tenths of the time, and the longest cause is a kernel.
        yield _asked(step(sampler, _amounts(sampler, 8, 9, compute=14, memory=10, **{cause: 2})), work(sampler))
    for cause, other in sampler.shuffled(("compute", "memory"), ("memory", "compute")):
        # All losses together are less than a tenth.
        yield _asked(step(sampler, _amounts(sampler, 8, 9, **{cause: 40, other: 16})), work(sampler))
        only = {cause: sampler.integer(500, 900) * _US, other: sampler.integer(100, 300) * _US}
        yield _asked(step(sampler, only), work(sampler))
    yield from _at_a_tenth(sampler)
    yield from _equal(sampler)


def _at_a_tenth(sampler: Sampler) -> Iterator[Asked]:
    """In whole microseconds: exactly a tenth, of four causes that have much less each; and a microsecond less."""
    for cause in sampler.shuffled(*LOSSES):
        for less in sampler.shuffled(0, 1):
            amounts = dict.fromkeys(LOSSES, sampler.integer(16, 20)) | {cause: sampler.integer(24, 30) - less}
            lost = sum(amounts.values()) + less
            amounts |= {"compute": 5 * lost, "memory": 4 * lost + less}
            yield _asked(
                step(sampler, {key: amount * _US for key, amount in amounts.items()}, _US), work(sampler), "2021"
            )


def _equal(sampler: Sampler) -> Iterator[Asked]:
    """Each cause is as long as the next one, in whole microseconds."""
    for first, second in sampler.shuffled(
        *zip(LOSSES, LOSSES[1:]), ("input", "communication"), ("sync", "communication")
    ):
        amounts = (
            {"compute": 90, "memory": 80}
            | dict.fromkeys(LOSSES, 16)
            | dict.fromkeys((first, second), sampler.integer(40, 60))
        )
        yield _asked(step(sampler, {key: amount * _US for key, amount in amounts.items()}, _US), work(sampler), "2021")
    both = sampler.integer(200, 400) * _US
    yield _asked(step(sampler, {"compute": both, "memory": both}, _US), work(sampler), "2021")


def _without_window(sampler: Sampler) -> Iterator[Asked]:
    """Nothing; the host alone; work without duration; a step without one; what counts for nothing."""
    table = work(sampler)
    end = sampler.integer(50, 90) * _US
    host = [
        Span("op", "aten::mm", 0, end),
        Span("call", "cudaDeviceSynchronize", 0, end),
        Span("range", LOADERS[0], 0, end),
    ]
    nothing = [Span("range", "ProfilerStep#1", 0, 0), Span("kernel", COMPUTE[0], 9, 9, "main")]
    for spans in sampler.shuffled([], host, nothing, host + nothing):
        yield _asked(spans, table)
    only_others = lambda trace: {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 0}]}
    yield _asked([], table, change=only_others)


def _just_enough(sampler: Sampler) -> Iterator[Asked]:
    """A step and nothing on the card; something on the card and no step."""
    end = sampler.integer(50, 90) * _US
    for span in sampler.shuffled(
        Span("range", "ProfilerStep#1", 0, end), Span("kernel", NCCL[0], 0, end, "nccl"), Span("fill", "Memset", 0, end)
    ):
        yield _asked([span, Span("op", "aten::mm", 0, end)], work(sampler))


# ---- what is wrong


def _wrong(criterion: str, asked: Asked, value: Any) -> str | None:
    expected = asked.expected
    if not isinstance(value, list) or len(value) != 2:
        return f"The function returned {type_name(value)}; expected a tuple of a verdict and a dictionary."
    verdict, times = value
    if not isinstance(times, dict) or set(times) != set(CAUSES):
        return "The second entry is a dictionary of the six times, by cause."
    if criterion == "verdict":
        return None if verdict == expected.verdict else _verdict_problem(verdict, expected)
    if strange := [time for time in times.values() if type(time) not in (int, float)]:
        return f"A time is {type_name(strange[0])}; expected a number of microseconds."
    compared = _COMPARED.get(criterion, CAUSES)
    wrong = [cause for cause in compared if not abs(times[cause] - expected.times[cause] / _US) <= _NEAR_US]
    return _time_problem(criterion, wrong[0], times, expected) if wrong else None


def _verdict_problem(told: Any, expected: Found) -> str:
    if told not in CAUSES:
        return "The verdict is none of the six causes."
    lost = sum(expected.times[cause] for cause in LOSSES) * 10 >= sum(expected.times.values())
    if lost and told in CAUSES[4:]:
        return "The verdict is of a card that is busy, where a tenth of the time or more is lost: kernels may well be the longest then."
    if not lost and told in LOSSES:
        return "The verdict is a loss, where all losses together are less than a tenth of the window: then the card is what limits."
    return "The verdict is not the longest of its kind, or of equal ones not the first."


def _time_problem(criterion: str, cause: str, times: dict[str, float], expected: Found) -> str:
    many = "short" if times[cause] < expected.times[cause] / _US else "long"
    sentence = _SENTENCES.get(criterion) or _SENTENCES[cause]
    if criterion == "window" and abs(sum(times.values()) - sum(expected.times.values()) / _US) <= _NEAR_US:
        sentence = f"The times add up to the window, so what divides it is wrong. {_SENTENCES[cause]}"
    elif criterion in ("formats", "window"):
        sentence = f"Where this time is wrong in plain traces of whole steps, too, begin there. Else: {sentence}"
    return f"The time of {cause} is too {many}. {sentence}"


_SENTENCES = {
    "work": "While a kernel of compute runs on any stream it is compute, once, however many run; else memory, if any kernel, copy "
    "or fill does. A kernel computes by its FLOPs, its bytes and the ridge.",
    "compute": "While a kernel of compute runs on any stream it is compute, once, however many run.",
    "memory": "Memory is what runs while nothing computes, kernels, copies and fills alike.",
    "communication": "Communication counts while nothing else runs on the card: what is hidden costs nothing, and what overlaps counts once.",
    "input": "A loader costs the time in which the card is idle, and none in which it works.",
    "idle": "How an idle time began says whether all of it, but for the loader's part, is the host's wait or the host's lateness.",
    "sync": "An idle time is a wait's if the host was in the call when the card ran dry.",
    "launch": "An idle time is a late launch's if the host was in no call that waits when the card ran dry.",
    "formats": "What an event is, its category says, by the names of today or of 2021; not its row, its name or its place in the list.",
    "window": "The window goes from the first step's start to the last one's end, with what is between, and without steps over the card's work.",
}

exercise = answers(
    criteria=(
        Criterion("work", 2, "each moment at which the card works is compute or memory, once"),
        Criterion("communication", 2, "communication counts where nothing hides it"),
        Criterion("input", 1, "a loader counts where the card is idle"),
        Criterion("idle", 3, "an idle time is told by how it began: the host waited, or was late by itself"),
        Criterion(
            "formats", 2, "events are known by their category, of today and of 2021, in any order and among others"
        ),
        Criterion("window", 1, "the window is that of the steps, or of the card's work where there are none"),
        Criterion("verdict", 2, "the verdict is the longest loss from a tenth on, else what limits the card"),
        Criterion("errors", 1, "a trace without a window is refused with ValueError, and no other is"),
    ),
    cases=_cases,
    arguments=lambda asked: (
        asked.trace,
        {name: tuple(counts) for name, counts in asked.table.counts.items()},
        asked.table.ridge,
    ),
    wrong=_wrong,
    kept="The function changed the trace, or the table of work, that it was given: the caller still needs them.",
    libraries=("numpy", "torch"),
)
