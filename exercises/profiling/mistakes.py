"""Chapter "Profiling: finding the bottleneck": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E12.1 self_times

ALL_TIMES = ("nested", "threads", "device", "ties", "exact", "errors")
SORTED = 'sorted(numbers, key=lambda number: (events[number]["start_ns"], -events[number]["duration_ns"]))'
RETURN = "    return times"
PLACE = '(event["pid"], event["tid"])'
ON_HOST = '        if event["device"] == "cpu":\n'
NEGATIVE = "            if duration < 0:\n"
OVER = "            while around and around[-1][0] <= start:\n"
ACROSS = "                if end < start + duration:\n"
LESS = "times[parent] -= duration"
OWN = "            times[number] = duration\n"


def timed(edits, loses, because, breaks):
    return edited("self_times", edits, loses, because, breaks)


whole_times = timed(
    {LESS: "pass"},
    ALL_TIMES,
    "total time is taken for self time",
    "In each thread the self times add up to the durations of the events without a parent",
)
all_that_is_inside = timed(
    {LESS: "for _, above in around:\n                    times[above] -= duration"},
    ("nested", "device", "ties", "exact", "errors"),
    "everything below an event is subtracted from it",
    "the self time of an event is its duration less the durations of its children. What a child calls is in the child's duration already",
)
threads_mixed = timed(
    {PLACE: "0"},
    ("threads",),
    "what lies within another interval is thought to have been called from there",
    "What runs in another thread is nobody's child, however the times lie",
)
by_thread_number = timed(
    {PLACE: 'event["tid"]'},
    ("threads",),
    "a thread's number is thought to be unique",
    "two processes may have a `tid` in common",
)
by_process = timed(
    {PLACE: 'event["pid"]'},
    ("threads",),
    "a process is thought to do one thing after the other",
    "`pid` and `tid` together are a thread",
)
kernels_as_children = timed(
    {ON_HOST: "        if True:\n"},
    ("device",),
    "a kernel is thought to belong into the operation that launched it",
    "so it is nobody's child and nobody's parent, and may overlap anything",
)
kernels_with_times = timed(
    {"[None] * len(events), {}": '[event["duration_ns"] for event in events], {}'},
    ("device",),
    "a kernel is thought to have a self time, too",
    "and `None` for an event on `\"cuda\"`",
)
kernels_left_out = timed(
    {RETURN: "    return [time for time in times if time is not None]\n"},
    ("device",),
    "events on the device are thought not to count among the entries",
    "returns a list with one entry for each event, in the order of `events`",
)
in_order_of_time = timed(
    {"    times, threads": '    events = sorted(events, key=lambda event: event["start_ns"])\n    times, threads'},
    ALL_TIMES,
    "a profile is put in order first, and the answer comes in that order",
    "in the order of `events`",
)
sorted_in_place = timed(
    {"    times, threads": '    events.sort(key=lambda event: event["start_ns"])\n    times, threads'},
    ALL_TIMES,
    "the list is thought to be one's own",
    "`events` and the dictionaries in it are left as they are",
)
as_listed = timed(
    {SORTED: "numbers"},
    ALL_TIMES,
    "a profile is thought to be sorted by time",
    "a list of dictionaries in any order, children before parents too",
)
by_start_alone = timed(
    {SORTED: 'sorted(numbers, key=lambda number: events[number]["start_ns"])'},
    ("ties",),
    "of two that start together either may be the outer one",
    "The parent of an event is the innermost of those that it is inside of",
)
last_is_the_outer_one = timed(
    {SORTED: 'sorted(numbers, key=lambda number: (events[number]["start_ns"], -events[number]["duration_ns"], -number))'},
    ("ties",),
    "of equal ones the last is thought to be the outer one, as where calls are listed when they end",
    "the one that comes first in the list is the outer one",
)
equal_ones_side_by_side = timed(
    {LESS: 'times[parent] -= duration if events[parent]["duration_ns"] > duration else 0'},
    ("ties",),
    "a child is thought to be shorter than its parent",
    "Of two with equal start and equal end, the one that comes first in the list is the outer one",
)
border_inside = timed(
    {OVER: "            while around and around[-1][0] < start:\n"},
    ("ties",),
    "what starts where another ends is thought to be inside of it",
    "an event is inside another of its thread if it starts no earlier and ends no later",
)
nothing_refused = timed(
    {NEGATIVE: "            if duration <= 0:\n"},
    ("ties",),
    "an event without duration is thought to be damaged",
    "a duration may be 0",
)
by_name = timed(
    {RETURN: '    sums = {}\n    for event, time in zip(events, times):\n        sums[event["name"]] = sums.get(event["name"], 0) + (time or 0)\n    return sums\n'},
    ALL_TIMES,
    "a table by name is thought to be asked for",
    "Names repeat",
)
in_microseconds = timed(
    {'start, duration = events[number]["start_ns"], events[number]["duration_ns"]': 'start, duration = events[number]["start_ns"] / 1, events[number]["duration_ns"]'},
    ("exact",),
    "a float is thought to hold a time stamp",
    "Times count nanoseconds since 1970, and a float64 does not hold them",
)
as_floats = timed(
    {RETURN: "    return [time if time is None else float(time) for time in times]\n"},
    ALL_TIMES,
    "times are thought to be floats",
    "its self time as an integer in nanoseconds",
)
clipped = timed(
    {ACROSS + '                    raise ValueError(f"{events[number][\'name\']} ends after {events[parent][\'name\']}, inside of which it starts")\n': "",
     RETURN: "    return [time if time is None else max(time, 0) for time in times]\n"},
    ("errors",),
    "less than no self time is thought to be none",
    "raises `ValueError` for a negative duration on the host, and where two events of one thread overlap in part",
)
below_nothing_refused = timed(
    {ACROSS + '                    raise ValueError(f"{events[number][\'name\']} ends after {events[parent][\'name\']}, inside of which it starts")\n': "",
     RETURN: "    if any(time is not None and time < 0 for time in times):\n        raise ValueError('children take longer than their parent')\n    return times\n"},
    ("errors",),
    "a tree is thought to be wrong only where the sums do not fit",
    "No tree has such a self time, not even where the sums still fit",
)
any_duration = timed(
    {NEGATIVE: "            if False:\n"},
    ("errors",),
    "a duration is thought never to be negative",
    "raises `ValueError` for a negative duration on the host",
)
roots_may_overlap = timed(
    {ACROSS: "                if end < start + duration and len(around) > 1:\n"},
    ("errors",),
    "only children of children are looked at",
    "the second starts inside the first and ends after it",
)

side_by_side = timed(
    {PLACE: 'f"{event[\'pid\']}{event[\'tid\']}"'},
    ("threads",),
    "two numbers that are written side by side are thought to be a pair",
    "`pid` and `tid` together are a thread",
)
without_order = timed(
    {PLACE: 'frozenset((event["pid"], event["tid"]))'},
    ("threads",),
    "two numbers are thought to be told apart without their order",
    "`pid` and `tid` together are a thread",
)
packed = timed(
    {PLACE: 'event["pid"] * 100000 + event["tid"]'},
    ("threads",),
    "a thread's number is thought to have five digits",
    "`pid` and `tid` together are a thread",
)
negative_on_the_device = timed(
    {ON_HOST: '        if event["duration_ns"] < 0:\n            raise ValueError("a negative duration")\n' + ON_HOST},
    ("device",),
    "a negative duration is thought to be an error everywhere",
    "Its duration is not looked at: clocks that disagree make some of them negative",
)
told_by_row = timed(
    {ON_HOST: '        if event["pid"] != 0:\n'},
    ("device",),
    "a process numbered 0 is thought to be a card, as Kineto writes it, and nothing else to be one",
    "There `pid` is the card and `tid` the stream, and both may be numbers that a process or a thread has, too",
)
self_times_words = [
    unbreakable("self_times", words, "what is handed in is of that kind")
    for words in (
        'Each has a `"name"`, a `"device"` (`"cpu"` or `"cuda"`), `"pid"`, `"tid"`, `"start_ns"` and `"duration_ns"`',
        "All but name and device are integers",
        'an event on `"cuda"` is a kernel or a copy that the host has queued',
    )
]
self_times_with_libraries = unbreakable("self_times", "PyTorch and NumPy may help", "a permission")
self_times_at_a_border = unbreakable(
    "self_times",
    "One of duration 0 where two neighbours meet is inside both: either is its parent, and no self time tells which",
    "a permission",
)


@mistake(
    "self_times",
    loses=("exact",),
    because="a tree is walked by a function that calls itself",
    breaks="Events may be nested 1,200 deep, which is deeper than Python lets functions call each other",
)
def recursive(events):
    threads = {}
    for number, event in enumerate(events):
        if event["device"] == "cpu":
            start, duration = event["start_ns"], event["duration_ns"]
            if duration < 0:
                raise ValueError("negative")
            threads.setdefault((event["pid"], event["tid"]), []).append((start, -duration, number))
    times = [None] * len(events)

    def take(spans, until):
        """Self times of what starts before `until`; how much of it lies directly inside."""
        inside = 0
        while spans and spans[-1][0] < until:
            start, minus, number = spans.pop()
            if start - minus > until:
                raise ValueError("across")
            times[number] = -minus - take(spans, start - minus)
            inside -= minus
        return inside

    for spans in threads.values():
        take(sorted(spans, reverse=True), float("inf"))
    return times


@mistake(
    "self_times",
    loses=ALL_TIMES,
    because="what reads traces in the book is thought to be at hand",
    breaks="you write it without gpulab, which reads traces, too: a call of it loses the points",
)
def by_gpulabs_nesting(events):
    from types import SimpleNamespace

    from gpulab.traces.self_times import nested

    times, threads = [None] * len(events), {}
    for number, event in enumerate(events):
        if event["device"] == "cpu":
            if event["duration_ns"] < 0:
                raise ValueError("negative")
            start, duration = event["start_ns"], event["duration_ns"]
            span = SimpleNamespace(start=start, end=start + duration, duration=duration, number=number, name=event["name"])
            threads.setdefault((event["pid"], event["tid"]), []).append(span)
    for spans in threads.values():
        for one in nested(sorted(spans, key=lambda span: (span.start, -span.end)), slack=0):
            times[one.event.number] = one.self_time
    return times


@alternative("self_times")
def in_arrays(events):
    """NumPy's integers, put in order by five keys at once."""
    import numpy as np

    own = [None] * len(events)
    host = [n for n, e in enumerate(events) if e["device"] == "cpu"]
    rows = np.array([[events[n][key] for key in ("pid", "tid", "start_ns", "duration_ns")] for n in host], dtype=np.int64).reshape(-1, 4)
    if (rows[:, 3] < 0).any():
        raise ValueError("negative")
    ends, around, place = rows[:, 2] + rows[:, 3], [], None
    for k in np.lexsort((host, -rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0])):
        if place != tuple(rows[k, :2]):
            around, place = [], tuple(rows[k, :2])
        while around and ends[around[-1]] <= rows[k, 2]:
            around.pop()
        if around and ends[k] > ends[around[-1]]:
            raise ValueError("no tree")
        own[host[k]] = rows[k, 3]
        if around:
            own[host[around[-1]]] -= rows[k, 3]
        around.append(k)
    return own


@alternative("self_times")
def innermost_of_all(events):
    """Each event is compared with each of its thread."""
    own, rows = [None] * len(events), {}
    for n, e in enumerate(events):
        if e["device"] == "cpu":
            own[n] = e["duration_ns"]
            rows.setdefault(f"{e['pid']} {e['tid']}", []).append((e["start_ns"], e["start_ns"] + e["duration_ns"], n))
    for row in rows.values():
        for start, end, n in row:
            if end < start or any(low < start < high < end for low, high, _ in row):
                raise ValueError("no tree")
            around = [(high - low, -m) for low, high, m in row if low <= start and end <= high and (high - low > end - start or m < n)]
            if around:
                own[-min(around)[1]] -= end - start
    return own


@alternative("self_times")
def from_edge_to_edge(events):
    """Between two edges the innermost event runs."""
    own, rows = [None] * len(events), {}
    for n, e in enumerate(events):
        if e["device"] == "cpu":
            own[n] = 0
            rows.setdefault((e["pid"], e["tid"]), []).append(n)
    for row in rows.values():
        edges = []
        for n in row:
            start, length = events[n]["start_ns"], events[n]["duration_ns"]
            if length < 0:
                raise ValueError(n)
            if length:
                edges += [(start, 1, -length, n), (start + length, 0, length, -n)]
        running, before = [], None
        for at, begins, _, n in sorted(edges):
            if running:
                own[running[-1]] += at - before
            if begins:
                running.append(n)
            elif running.pop() != -n:
                raise ValueError("another one was to end first")
            before = at
    return own


# E12.2 diagnose

EVERY_TIME = ("work", "communication", "input", "idle", "formats", "window", "verdict", "errors")
COUNTS = 'if event.get("ph") == "X" and event.get("dur", 0) > 0:'
KIND = "if kind in spans:"
ENDS = 'ends = spans["step"] or spans["compute"] + spans["memory"] + spans["communication"]'
WINDOW = "window = min(start for start, _ in ends), max(end for _, end in ends)"
ORDER = 'for kind in ("compute", "memory", "communication"):'
FIRST = 'times, running = {"input": 0.0, "sync": 0.0, "launch": 0.0}, []'
AFTER = "times[kind] = length(union(running, window)) - before"
INSIDE = 'loading = length(union(spans["loader"], idle))'
WAITED = 'any(start <= idle[0] <= end for start, end in spans["wait"])'
REST = 'times["sync" if waited else "launch"] += length([idle]) - loading'
LIMITS = 'limits = lost if 10 * sum(times[kind] for kind in lost) >= length([window]) else ("compute", "memory")'
VERDICT = "return max(limits, key=times.get), times"
LOST = 'lost = ("input", "sync", "launch", "communication")'
NCCL = 'if name.startswith("nccl"):'
KNOWN = "flops, nbytes = work.get(name, (0, 1))"
RIDGE = 'return "compute" if flops >= ridge * nbytes else "memory"'
KERNELS = 'if category in ("kernel", "Kernel"):'
MOVES = 'if category in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"):'
CALLS = 'if category in ("cuda_runtime", "cuda_driver", "Runtime"):'
RANGES = 'if category in ("user_annotation", "cpu_op", "Operator"):'
STEPS = 'name.startswith("ProfilerStep#")'
LOADING = 'name.startswith("enumerate(DataLoader)#")'
OF_STEPS = '    of_steps = {e["tid"] for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#") and e.get("cat") != "gpu_user_annotation"}\n'
SPANS = "    spans = {kind: []"
CLIPPED = "        start, end = max(start, window[0]), min(end, window[1])\n"


def judged(edits, loses, because, breaks):
    return edited("diagnose", edits, loses, because, breaks)


utilisation = judged(
    {VERDICT: 'busy = sum(times[kind] for kind in ("compute", "memory", "communication")) / sum(times.values())\n    return ("compute" if busy > 0.9 else "input" if busy < 0.8 else max(limits, key=times.get)), times'},
    ("verdict",),
    "below 80 % the loader is thought to be at fault, and above 90 % the card to compute",
    "the verdict is the longest of these four",
)
longest_of_all = judged(
    {LIMITS: "limits = (*lost, 'compute', 'memory')"},
    ("verdict",),
    "the longest of the six is thought to be the bottleneck",
    "where input, sync, launch and communication together take a tenth of the window or more",
)
longest_operation = judged(
    {VERDICT: 'longest = max((e for e in trace["traceEvents"] if e.get("dur")), key=lambda e: e["dur"])\n    return kind_of(longest, work, ridge) or "launch", times'},
    ("verdict",),
    "the longest event is thought to be the bottleneck",
    "the verdict is the longest of these four",
)
never_the_card = judged(
    {LIMITS: "limits = lost"},
    ("verdict",),
    "something is thought to be lost always",
    "Else the card is what limits, and it is the longer one of compute and memory",
)
more_than_a_tenth = judged(
    {">= length([window])": "> length([window])"},
    ("verdict",),
    "a tenth is thought to be little",
    "take a tenth of the window or more",
)
each_a_tenth = judged(
    {"10 * sum(times[kind] for kind in lost)": "10 * max(times[kind] for kind in lost)"},
    ("verdict",),
    "each loss is compared with the tenth by itself",
    "where input, sync, launch and communication together take a tenth of the window or more",
)
idle_alone = judged(
    {"10 * sum(times[kind] for kind in lost)": "10 * sum(times[kind] for kind in lost[:3])"},
    ("verdict",),
    "a card that communicates is thought not to lose time",
    "where input, sync, launch and communication together take a tenth of the window or more",
)
last_of_equal_ones = judged(
    {VERDICT: "return max(reversed(limits), key=times.get), times"},
    ("verdict",),
    "where nothing tells two apart any is thought to do",
    "Of equal ones it is the first in the order input, sync, launch, communication, compute, memory",
)
overlaps_summed = judged(
    {AFTER: "times[kind] = sum(length(union([span], window)) for span in spans[kind])"},
    ("work", "communication", "formats", "window", "verdict"),
    "kernels are thought to run one after the other",
    "each moment of the window has one cause",
)
hidden_communication = judged(
    {AFTER: AFTER + "\n    times['communication'] = length(union(spans['communication'], window))"},
    ("communication", "formats", "window", "verdict"),
    "communication is thought to cost what it takes",
    "So communication that is hidden behind other work costs nothing",
)
memory_before_compute = judged(
    {ORDER: 'for kind in ("memory", "compute", "communication"):'},
    ("work", "formats", "window", "verdict"),
    "a kernel that moves is thought to hold up the one that computes",
    "While at least one kernel of compute runs, on whatever stream, it is `\"compute\"`; else, while memory does, `\"memory\"`",
)
communication_before_memory = judged(
    {ORDER: 'for kind in ("compute", "communication", "memory"):'},
    ("work", "communication", "formats", "window", "verdict"),
    "only what computes is thought to hide communication",
    "else, while memory does, `\"memory\"`; else, while communication does, `\"communication\"`",
)
loader_whole = judged(
    {REST: REST + "\n    times['input'] = length(union(spans['loader'], window))"},
    ("input", "formats", "window", "verdict"),
    "a loader is thought to cost what it takes",
    "A loader that works while the card does costs nothing",
)
gap_with_a_loader = judged(
    {INSIDE: 'loading = length([idle]) if union(spans["loader"], idle) else 0'},
    ("input", "idle", "formats", "window", "verdict"),
    "an idle time in which the loader works is thought to be the loader's",
    'the rest of the idle time is `"sync"` or `"launch"`, all of it',
)
waits_whole = judged(
    {REST: REST + "\n    times['sync'] = length(union(spans['wait'], window))"},
    ("idle", "formats", "window", "verdict"),
    "a wait is thought to cost what it takes, while the card works",
    "by how it began",
)
waits_while_they_last = judged(
    {REST: 'waiting = length(union(spans["wait"], idle))\n            times["sync"] += waiting\n            times["launch"] += length([idle]) - loading - waiting'},
    ("idle", "formats", "window", "verdict"),
    "a wait is thought to end where the call returns",
    'the rest of the idle time is `"sync"` or `"launch"`, all of it, by how it began',
)
any_wait_inside = judged(
    {WAITED: 'bool(union(spans["wait"], idle))'},
    ("idle", "formats", "window", "verdict"),
    "a wait anywhere in an idle time is thought to be its cause",
    "`\"sync\"` if at the moment when the card ran dry the host was, in whatever thread, in a call of CUDA's",
)
wait_over_before = judged(
    {WAITED: 'any(start <= idle[0] < end for start, end in spans["wait"])'},
    ("idle", "window"),
    "a call is thought to be over at its last moment",
    "That moment may be the call's first or last",
)
wait_begun_before = judged(
    {WAITED: 'any(start < idle[0] <= end for start, end in spans["wait"])'},
    ("idle", "window"),
    "a call is thought not to have begun at its first moment",
    "That moment may be the call's first or last",
)
any_call = judged(
    {'name.endswith("Synchronize")': 'name.startswith("cuda")'},
    ("idle", "formats", "window", "verdict"),
    "every call of CUDA's is thought to wait",
    "Else the host was late by itself",
)
stream_waits_alone = judged(
    {'name.endswith("Synchronize")': 'name in ("cudaStreamSynchronize", "cudaDeviceSynchronize")'},
    ("idle", "formats", "window", "verdict"),
    "two names are thought to be all",
    "a call of CUDA's whose name ends in `Synchronize`",
)
nccl_anywhere = judged(
    {NCCL: 'if "nccl" in name.lower():'},
    ("work",),
    "what speaks of NCCL is thought to be NCCL",
    "communication is a kernel whose name begins with `nccl`",
)
all_reduce_alone = judged(
    {NCCL: 'if name.startswith("nccl") and "AllReduce" in name:'},
    ("work", "communication", "formats", "window", "verdict"),
    "an all-reduce is thought to be the only collective",
    "communication is a kernel whose name begins with `nccl`",
)
work_before_names = judged(
    {NCCL: 'if name.startswith("nccl") and name not in work:'},
    ("work", "communication", "formats", "window", "verdict"),
    "what is in the table of work is thought to compute or to move",
    "Every other kernel is compute where its FLOPs are at least `ridge` times its bytes, else memory",
)
unknown_computes = judged(
    {KNOWN: "flops, nbytes = work.get(name, (1, 0))"},
    ("work",),
    "a kernel that nobody counted is thought to compute",
    "A kernel that is not in `work` is memory, as most are that nobody counts",
)
unknown_fails = judged(
    {KNOWN: "flops, nbytes = work[name]"},
    ("work",),
    "the table is thought to have every kernel",
    "A kernel that is not in `work` is memory, as most are that nobody counts",
)
divided = judged(
    {RIDGE: 'return "compute" if flops / nbytes >= ridge else "memory"'},
    ("work",),
    "every kernel is thought to move a byte",
    "Bytes may be 0, and FLOPs may be, too",
)
above_the_ridge = judged(
    {RIDGE: 'return "compute" if flops > ridge * nbytes else "memory"'},
    ("work",),
    "the ridge is thought to be memory's side",
    "compute where its FLOPs are at least `ridge` times its bytes",
)
any_flop = judged(
    {RIDGE: 'return "compute" if flops > nbytes else "memory"'},
    ("work", "formats", "window", "verdict"),
    "more FLOPs than bytes are thought to be compute on every card",
    "`ridge`: the FLOP/byte at which the card's peak and its bandwidth meet",
)
last_one_ends_it = judged(
    {"max(covered[-1][1], end))": "max(covered[0][1], end))"},
    ("work",),
    "the interval that was open first is thought to be the one that is",
    "While at least one kernel of compute runs, on whatever stream, it is `\"compute\"`; else, while memory does",
)
copies_left_out = judged(
    {MOVES: "if False:"},
    ("work", "communication", "formats", "window", "verdict", "errors"),
    "only kernels are thought to be work",
    "else the card is idle",
)
names_of_today = judged(
    {KERNELS: 'if category == "kernel":', MOVES: 'if category in ("gpu_memcpy", "gpu_memset"):', CALLS: 'if category in ("cuda_runtime", "cuda_driver"):', RANGES: 'if category in ("user_annotation", "cpu_op"):'},
    ("formats", "verdict"),
    "a format is thought to be what today's version writes",
    "What an event is, its `\"cat\"` says, by these names and no others",
)
runtime_alone = judged(
    {CALLS: 'if category in ("cuda_runtime", "Runtime"):'},
    ("formats",),
    "the driver is thought to be called by the runtime alone",
    "What an event is, its `\"cat\"` says, by these names and no others",
)
whatever_is_on_the_card = judged(
    {KERNELS: 'if event.get("pid") == 0 and category not in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"):'},
    ("formats",),
    "whatever is in a row of the card is thought to run there",
    "What an event is, its `\"cat\"` says, by these names and no others",
)
ranges_of_the_card = judged(
    {RANGES: 'if category in ("user_annotation", "gpu_user_annotation", "cpu_op", "Operator"):'},
    ("formats",),
    "a range's image in the card's rows is taken for the range",
    "the last range on the host whose name begins with `ProfilerStep#`",
)
every_category = judged(
    {'category, name = event.get("cat"), event["name"]': 'category, name = event["cat"], event["name"]'},
    ("formats",),
    "every event is thought to have a category",
    "Of the others, some have no `\"cat\"`, no `\"dur\"` or no `\"args\"`",
)
every_duration = judged(
    {COUNTS: 'if event["dur"] > 0:'},
    ("formats", "errors"),
    "every event is thought to have a duration",
    "Only events with `\"ph\"` equal to `\"X\"` and a `\"dur\"` above 0 count",
)
every_phase = judged(
    {COUNTS: 'if event.get("dur", 0) > 0:'},
    ("formats",),
    "what has a duration is thought to be an event",
    "Only events with `\"ph\"` equal to `\"X\"` and a `\"dur\"` above 0 count",
)
no_duration_counts = judged(
    {COUNTS: 'if event.get("ph") == "X" and "dur" in event:'},
    ("formats", "errors"),
    "an event without duration is thought to be one",
    "Only events with `\"ph\"` equal to `\"X\"` and a `\"dur\"` above 0 count",
)
on_stream_7 = judged(
    {COUNTS: 'if event.get("ph") == "X" and event.get("dur", 0) > 0 and not (event.get("pid") == 0 and event["args"]["stream"] not in (7, 24)):'},
    ("work", "communication", "idle", "formats", "window", "verdict"),
    "work is thought to be on the default stream",
    "on whatever stream",
)
as_they_come = judged(
    {WINDOW: "window = ends[0][0], ends[-1][1]"},
    ("formats", "window"),
    "a trace is thought to be in order",
    "`trace[\"traceEvents\"]` is a list in any order",
)
sorted_in_place_first = judged(
    {"    spans = {kind": '    trace["traceEvents"].sort(key=lambda event: event.get("ts", 0), reverse=True)\n    spans = {kind'},
    EVERY_TIME,
    "the trace is thought to be one's own",
    "`trace` and `work` are left as they are",
)
table_filled = judged(
    {KNOWN: "flops, nbytes = work.setdefault(name, (0, 1))"},
    ("work",),
    "the table is thought to be one's own",
    "`trace` and `work` are left as they are",
)
first_step_alone = judged(
    {ENDS: 'ends = sorted(spans["step"])[:1] or spans["compute"] + spans["memory"] + spans["communication"]'},
    ("formats", "window"),
    "one step is thought to be enough",
    "to the end of the last range on the host whose name begins with `ProfilerStep#`",
)
holes_left_out = judged(
    {'times["input"] += loading': 'if spans["step"] and not union(spans["step"], idle):\n                continue\n            times["input"] += loading'},
    ("window",),
    "what is between two steps is thought to belong to none",
    "and what is between two of them is in it",
)
all_of_the_card = judged(
    {ENDS: 'ends = spans["compute"] + spans["memory"] + spans["communication"] or spans["step"]'},
    ("window",),
    "the window is thought to be what the card recorded",
    "the window goes from the start of the first to the end of the last range on the host",
)
all_of_the_trace = judged(
    {ENDS: "ends = [span for kind in spans.values() for span in kind]"},
    ("window", "errors"),
    "the window is thought to be what was recorded",
    "What is outside of the window, or the part of it, does not count",
)
steps_alone = judged(
    {ENDS: 'ends = spans["step"]'},
    ("window", "errors"),
    "every trace is thought to have steps",
    "Where there is none, it goes from the start of the first to the end of the last kernel, copy or fill",
)
not_clipped = judged(
    {CLIPPED: "        if end <= window[0] or start >= window[1]:\n            continue\n"},
    ("input", "idle", "formats", "window", "verdict"),
    "what begins in the window is thought to end there",
    "What is outside of the window, or the part of it, does not count",
)
steps_anywhere = judged(
    {STEPS: '"ProfilerStep#" in name'},
    ("formats", "window"),
    "a name that has the words is thought to be a step",
    "range on the host whose name begins with `ProfilerStep#`",
)
one_kind_of_loader = judged(
    {LOADING: LOADING + ' and "Single" in name'},
    ("input", "idle", "formats", "window", "verdict"),
    "a loader is thought to run in the main process",
    "a range on the host whose name begins with `enumerate(DataLoader)#`",
)
idle_at_the_ends_left_out = judged(
    {"edges = [window[0], *(edge for busy in union(running, window) for edge in busy), window[1]]": "edges = [edge for busy in union(running, window) for edge in busy][1:-1]"},
    ("window",),
    "idle is thought to be what is between two kernels",
    "or from and to the ends of the window",
)
operations_are_no_ranges = judged(
    {RANGES: 'if category in ("user_annotation", "Operator"):'},
    ("formats",),
    "an operation is thought to be no range",
    "a range or an operation on the host",
)
in_any_case = judged(
    {'category, name = event.get("cat"), event["name"]': 'category, name = event.get("cat", "").lower(), event["name"]', KERNELS: 'if category == "kernel":',
     MOVES: 'if category in ("gpu_memcpy", "gpu_memset", "memcpy", "memset"):', CALLS: 'if category in ("cuda_runtime", "cuda_driver", "runtime"):',
     RANGES: 'if category in ("user_annotation", "cpu_op", "operator"):'},
    ("formats",),
    "the categories of both years are thought to differ by capitals",
    "by these names and no others",
)
whatever_has_memory_in_it = judged(
    {MOVES: 'if category and ("gpu_mem" in category or "Mem" in category):'},
    ("formats",),
    "a category is thought to be told by a part of its name",
    "by these names and no others",
)
any_data_loader = judged(
    {LOADING: '"DataLoader" in name'},
    ("formats",),
    "whatever a loader does is thought to be the wait for it",
    "inside a range on the host whose name begins with `enumerate(DataLoader)#`",
)
step_without_a_number = judged(
    {STEPS: 'name.startswith("ProfilerStep")'},
    ("formats",),
    "whatever begins like a step is thought to be one",
    "range on the host whose name begins with `ProfilerStep#`",
)
nccl_in_any_case = judged(
    {NCCL: 'if name.lower().startswith("nccl"):'},
    ("work",),
    "NCCL is thought to write its name in either way",
    "communication is a kernel whose name begins with `nccl`",
)
synchronize_anywhere = judged(
    {'name.endswith("Synchronize")': '"Synchronize" in name'},
    ("formats",),
    "whatever speaks of it is thought to wait",
    "a call of CUDA's whose name ends in `Synchronize`",
)
nothing_is_memory = judged(
    {RIDGE: 'return "compute" if flops and flops >= ridge * nbytes else "memory"'},
    ("work",),
    "a kernel without FLOPs is thought to move, even nothing",
    "Bytes may be 0, and FLOPs may be, too",
)
copies_have_work = judged(
    {KERNELS: 'if category in ("kernel", "Kernel") or name in work:'},
    ("work", "formats", "window"),
    "whatever is in the table of work is thought to be a kernel",
    "and so are copies and fills, whatever they are called",
)
copies_of_nccl = judged(
    {KERNELS: 'if category in ("kernel", "Kernel") or "gpu_mem" in (category or "") and name.startswith("nccl"):'},
    ("work",),
    "whatever NCCL does is thought to be communication",
    "communication is a kernel whose name begins with `nccl`",
)
waits_of_one_thread = judged(
    {SPANS: OF_STEPS + SPANS, KIND: 'if kind in spans and (kind != "wait" or event["tid"] in of_steps):'},
    ("idle", "formats", "window", "verdict"),
    "only the thread of the steps is thought to wait",
    "the host was, in whatever thread, in a call of CUDA's whose name ends in `Synchronize`",
)
loaders_of_one_thread = judged(
    {SPANS: OF_STEPS + SPANS, KIND: 'if kind in spans and (kind != "loader" or event["tid"] in of_steps):'},
    ("input", "idle", "formats", "window", "verdict"),
    "a loader is thought to be waited for in the thread of the steps alone",
    "whose name begins with `enumerate(DataLoader)#`, in whatever thread",
)
waits_cut_off = judged(
    {WAITED: 'any(start <= idle[0] <= end for start, end in union(spans["wait"], window))'},
    ("window",),
    "a wait that ends where the window begins is thought to be outside of it",
    "Of a call all counts, also what is outside of the window",
)
dry_before_the_window = judged(
    {WAITED: 'any(start <= (max([e for _, e in running if e <= idle[0]], default=idle[0])) <= end for start, end in spans["wait"])'},
    ("window",),
    "the moment at which the card ran dry is looked for before the window",
    "Where the window cuts it, its moment is the window's start",
)
no_short_gaps = judged(
    {"if idle[0] < idle[1]:": "if idle[1] - idle[0] > 1:"},
    ("idle",),
    "a microsecond between two kernels is thought to be nothing",
    "An idle time, be it ever so short, goes from where no kernel, copy or fill runs any more to where the next one starts",
)
from_the_last_started = judged(
    {"for busy in union(running, window) for edge in busy)": "for busy in sorted(running) for edge in busy)"},
    ("idle", "window"),
    "the kernel that started last is thought to be the last to end",
    "goes from where no kernel, copy or fill runs any more to where the next one starts",
)
by_gpulab = judged(
    {"for start, end in sorted(spans):": "from gpulab.traces import intervals\n    for start, end in intervals.union(spans):"},
    EVERY_TIME,
    "what reads traces in the book is thought to be at hand",
    "you write it without gpulab, which reads traces and divides their time, too: a call of it loses the points",
)
nothing_found = judged(
    {"    if not ends:\n        raise ValueError(\"the trace has no step, and nothing that ran on the card\")\n": "    if not ends:\n        return 'launch', dict.fromkeys(('input', 'sync', 'launch', 'communication', 'compute', 'memory'), 0.0)\n"},
    ("errors",),
    "a trace without anything is thought to be a late host",
    "raises `ValueError` where there is no window",
)
in_milliseconds = judged(
    {VERDICT: "return max(limits, key=times.get), {kind: time / 1000 for kind, time in times.items()}"},
    EVERY_TIME[:-2],
    "`displayTimeUnit`, which is in many traces, is thought to say what unit times are in",
    'An event runs from `"ts"` to `"ts"` + `"dur"`, in microseconds',
)
verdict_alone = judged(
    {VERDICT: "return max(limits, key=times.get)"},
    EVERY_TIME,
    "the verdict is thought to be all",
    "returns a tuple of a string, the verdict, and a dictionary of the six times",
)
no_empty_times = judged(
    {VERDICT: "return max(limits, key=times.get), {kind: time for kind, time in times.items() if time}"},
    ("work", "idle", "window", "verdict", "errors"),
    "what takes no time is thought not to be asked for",
    "a dictionary of the six times in microseconds",
)
whole_milliseconds = judged(
    {VERDICT: "return max(limits, key=times.get), {kind: round(time, -3) for kind, time in times.items()}"},
    ("work", "communication", "input", "idle", "formats", "window"),
    "microseconds are thought to be nothing",
    "Each is right to a microsecond",
)


@alternative("diagnose")
def moment_by_moment(trace, work, ridge):
    """A sweep over all edges, which counts what is under way."""
    kinds = {"kernel": "k", "Kernel": "k", "cuda_runtime": "c", "cuda_driver": "c", "Runtime": "c", "user_annotation": "r"}
    kinds |= {"cpu_op": "r", "Operator": "r", "gpu_memcpy": "memory", "gpu_memset": "memory", "Memcpy": "memory", "Memset": "memory"}
    rows = []
    for e in trace["traceEvents"]:
        kind, name = kinds.get(e.get("cat")), e.get("name", "")
        if e.get("ph") != "X" or not e.get("dur") or kind is None:
            continue
        if kind == "k":
            flops, nbytes = work.get(name, (-1, 0))
            kind = "communication" if name[:4] == "nccl" else "memory" if flops < ridge * nbytes or name not in work else "compute"
        elif kind == "c":
            kind = "wait" if name[-11:] == "Synchronize" else ""
        elif kind == "r":
            kind = "loader" if name.startswith("enumerate(DataLoader)#") else "step" if name.startswith("ProfilerStep#") else ""
        rows.append((kind, e["ts"], e["ts"] + e["dur"]))
    card = ("compute", "memory", "communication")
    bounds = [row for row in rows if row[0] == "step"] or [row for row in rows if row[0] in card]
    if not bounds:
        raise ValueError("no window")
    low, high = min(row[1] for row in bounds), max(row[2] for row in bounds)
    edges = sorted([(min(max(row[1], low), high), 1, row[0]) for row in rows] + [(min(max(row[2], low), high), -1, row[0]) for row in rows])
    waits = [row for row in rows if row[0] == "wait"]
    open_now = dict.fromkeys((*card, "loader", "wait", "step", ""), 0)
    times = dict.fromkeys(("input", "sync", "launch", *card[::-1]), 0.0)
    at, how = low, None
    for edge, by, kind in [*edges, (high, 0, "")]:
        if edge > at:
            cause = next((each for each in card if open_now[each]), None)
            if cause:
                how = None
            else:
                how = how or ("sync" if any(row[1] <= at <= row[2] for row in waits) else "launch")
                cause = "input" if open_now["loader"] else how
            times[cause] += edge - at
            at = edge
        open_now[kind] += by
    losses = [times[kind] for kind in ("input", "sync", "launch", "communication")]
    names = ["input", "sync", "launch", "communication"]
    if sum(losses) < (high - low) / 10:
        losses, names = [times["compute"], times["memory"]], ["compute", "memory"]
    return names[losses.index(max(losses))], times


@alternative("diagnose")
def nanosecond_by_nanosecond(trace, work, ridge):
    """Each eighth of a microsecond is painted, what counts most last."""
    paint = {"launch": 1, "communication": 2, "memory": 3, "compute": 4}
    find = {"kernel": 0, "Kernel": 0, "gpu_memcpy": 1, "gpu_memset": 1, "Memcpy": 1, "Memset": 1, "cuda_runtime": 2, "cuda_driver": 2}
    find |= {"Runtime": 2, "user_annotation": 3, "cpu_op": 3, "Operator": 3}
    found = {kind: [] for kind in ("communication", "memory", "compute", "wait", "loader", "step")}
    for e in trace["traceEvents"]:
        if e["ph"] != "X" or e.get("cat") not in find or not e.get("dur"):
            continue
        name, span = e["name"], (e["ts"], e["ts"] + e["dur"])
        number = find[e["cat"]]
        if number == 0 and name.startswith("nccl"):
            found["communication"].append(span)
        elif number == 0 and name in work and work[name][0] >= ridge * work[name][1]:
            found["compute"].append(span)
        elif number < 2:
            found["memory"].append(span)
        elif number == 2 and name.endswith("Synchronize"):
            found["wait"].append(span)
        elif number == 3 and name.startswith(("enumerate(DataLoader)#", "ProfilerStep#")):
            found["loader" if name[0] == "e" else "step"].append(span)
    card = [span for kind in ("communication", "memory", "compute") for span in found[kind]]
    if not (found["step"] or card):
        raise ValueError("nothing there")
    low, high = min(s for s, _ in found["step"] or card), max(e for _, e in found["step"] or card)
    place = lambda time: int((min(max(time, low), high) - low) * 128 + 0.5)
    line = torch.ones(place(high), dtype=torch.int8)
    for kind in ("communication", "memory", "compute"):
        for start, end in found[kind]:
            line[place(start) : place(end)] = torch.clamp(line[place(start) : place(end)], min=paint[kind])
    loading = torch.zeros(place(high), dtype=torch.bool)
    for start, end in found["loader"]:
        loading[place(start) : place(end)] = True
    times = {kind: int((line == number).sum()) / 128 for kind, number in paint.items()}
    idle = line == 1
    times |= {"input": int((idle & loading).sum()) / 128, "sync": 0.0, "launch": 0.0}
    edges = torch.nn.functional.pad(idle.int(), (1, 1)).diff().nonzero().flatten().tolist()
    for start, end in zip(edges[::2], edges[1::2]):
        rest = int((~loading[start:end]).sum()) / 128
        dry = max([e for _, e in card if abs(place(e) - start) <= 1] or [low]) if start else low
        times["sync" if any(s <= dry <= e for s, e in found["wait"]) else "launch"] += rest
    lost = ("input", "sync", "launch", "communication")
    names = lost if sum(times[k] for k in lost) * 10 >= line.numel() / 128 else ("compute", "memory")
    return sorted(names, key=lambda kind: -times[kind])[0], times


@alternative("diagnose")
def on_a_grid(trace, work, ridge):
    """NumPy's masks over all times between two edges, and its numbers in a dictionary that fills itself."""
    from collections import defaultdict

    import numpy as np

    names = {"step": ("ProfilerStep#",), "loader": ("enumerate(DataLoader)#",)}
    rows = defaultdict(list)
    for e in trace["traceEvents"]:
        if e.get("ph") != "X" or e.get("dur", 0) <= 0 or "cat" not in e:
            continue
        kind, flops_and_bytes = None, work.get(e["name"])
        if e["cat"] in {"kernel", "Kernel"}:
            computes = flops_and_bytes is not None and flops_and_bytes[0] >= ridge * flops_and_bytes[1]
            kind = "communication" if e["name"].startswith("nccl") else "compute" if computes else "memory"
        elif e["cat"] in {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}:
            kind = "memory"
        elif e["cat"] in {"cuda_runtime", "cuda_driver", "Runtime"}:
            kind = "wait" if e["name"].endswith("Synchronize") else None
        elif e["cat"] in {"user_annotation", "cpu_op", "Operator"}:
            kind = next((kind for kind, head in names.items() if e["name"].startswith(head)), None)
        rows[kind].append((e["ts"], e["ts"] + e["dur"]))
    bounds = rows["step"] or rows["compute"] + rows["memory"] + rows["communication"]
    if not bounds:
        raise ValueError("no window")
    low, high = np.min(bounds), np.max(bounds)
    edges = np.unique(np.clip([low, high, *(time for spans in rows.values() for span in spans for time in span)], low, high))
    spans = {kind: np.array(rows[kind]).reshape(-1, 2) for kind in ("compute", "memory", "communication", "loader", "wait")}
    under_way = lambda kind: ((spans[kind][:, :1] <= edges[:-1]) & (edges[1:] <= spans[kind][:, 1:])).any(0)
    compute, memory, talk, loader = map(under_way, ("compute", "memory", "communication", "loader"))
    idle = ~(compute | memory | talk)
    begins = idle & ~np.append(False, idle[:-1])
    waited = ((spans["wait"][:, :1] <= edges[:-1]) & (edges[:-1] <= spans["wait"][:, 1:])).any(0)
    waited = waited[np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))]
    times = defaultdict(float)
    times["input"] += np.diff(edges)[idle & loader].sum()
    times["sync"] += np.diff(edges)[idle & ~loader & waited].sum()
    times["launch"] += np.diff(edges)[idle & ~loader & ~waited].sum()
    times["communication"] += np.diff(edges)[talk & ~compute & ~memory].sum()
    lost = sum(times.values())
    times["compute"] += np.diff(edges)[compute].sum()
    times["memory"] += np.diff(edges)[memory & ~compute].sum()
    limits = list(times)[:4] if lost * 10 >= high - low else list(times)[4:]
    return max(limits, key=times.__getitem__), times


diagnose_words = [
    unbreakable("diagnose", words, "what is handed in is of that kind, and where it comes from")
    for words in (
        "`trace`: the dictionary that `json.load` gives of a trace of one process and one card, in the format that Kineto writes",
        "`work`: a dictionary from a kernel's name to a pair `(flops, bytes)` of one launch",
        "A trace holds neither; they are counted by hand, or by Nsight Compute",
    )
]

diagnose_harmless = [
    equivalent_mutant("diagnose", line, becomes, because)
    for line, becomes, because in (
        ('if event.get("ph") == "X" and event.get("dur", 0) > 0:', 'if event.get("ph") == "X" and event.get("dur", (-1)) > 0:', "no duration is left out like one below 0"),
        ('if not ends: raise ValueError("the trace has no step, and nothing that ran on the card")', "pass", "min of nothing raises ValueError"),
        ('raise ValueError("the trace has no step, and nothing that ran on the card")', "pass", "min of nothing raises ValueError"),
        ("if idle[0] < idle[1]:", "if idle[0] <= idle[1]:", "an idle time of no length adds nothing"),
        ("flops, nbytes = work.get(name, (0, 1))", "flops, nbytes = work.get(name, (1, 1))", "below every ridge"),
        ("flops, nbytes = work.get(name, (0, 1))", "flops, nbytes = work.get(name, ((-1), 1))", "below every ridge"),
        ("flops, nbytes = work.get(name, (0, 1))", "flops, nbytes = work.get(name, (0, 2))", "below every ridge"),
        ("return None", "pass", "a function that ends returns None"),
        ("if start >= end:", "if start > end:", "a span of no length at the window's edge covers nothing"),
        ("if covered and start <= covered[-1][1]:", "if covered and start < covered[-1][1]:", "two that touch leave an idle time of no length"),
    )
]

# E12.3 profile_steps

ANY_STEP = ("calls", "recorded", "warmup", "file", "table", "device", "exceptions", "errors")
WHOLE = "if min(wait, warmup) < 0 or active < 1 or n < wait + warmup + active:"
PLAN = "torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)"
WITH = "torch.profiler.profile(schedule=plan, on_trace_ready=lambda prof: prof.export_chrome_trace(path))"
STEP = "            step()\n            prof.step()\n"
ROW = "(row.count, row.self_device_time_total)"
ROWS = "[row for row in prof.key_averages() if row.device_type == on_host]"


def profiled(edits, loses, because, breaks):
    return edited("profile_steps", edits, loses, because, breaks)


schedule_never_told = profiled(
    {STEP: "            step()\n"},
    ANY_STEP,
    "the profiler is thought to see by itself where a step ends",
    "the next `active` steps, 1 or more, are recorded: these and no others",
)
all_of_it = profiled(
    {"schedule=plan, ": ""},
    ANY_STEP,
    "everything is recorded, to be on the safe side",
    "the next `active` steps, 1 or more, are recorded: these and no others",
)
again_and_again = profiled(
    {", repeat=1": ""},
    ANY_STEP,
    "a schedule is thought to end when its steps are over",
    "is neither prepared nor started again, however many steps follow",
)
warmup_recorded = profiled(
    {PLAN: "torch.profiler.schedule(wait=wait, warmup=0, active=warmup + active, repeat=1)"},
    ANY_STEP,
    "what the warm-up does is recorded, too",
    "what they do is not recorded",
)
no_warmup = profiled(
    {PLAN: "torch.profiler.schedule(wait=wait + warmup, warmup=0, active=active, repeat=1)"},
    ("warmup",),
    "warming up is thought to mean that steps run, and not that the profiler does",
    "it is prepared when they are over, before the next step begins",
)
wait_left_out = profiled(
    {PLAN: "torch.profiler.schedule(wait=0, warmup=wait + warmup, active=active, repeat=1)"},
    ("warmup",),
    "waiting and warming up are thought to be the same",
    "during the first `wait` steps, which may be 0, PyTorch's profiler (`torch.profiler`) is off",
)
one_less_recorded = profiled(
    {PLAN: "torch.profiler.schedule(wait=wait, warmup=warmup, active=max(active - 1, 1), repeat=1)"},
    ANY_STEP,
    "the last step of a range is thought not to be in it",
    "the next `active` steps, 1 or more, are recorded",
)
one_too_early = profiled(
    {STEP: "            prof.step()\n            step()\n"},
    ANY_STEP,
    "a step is thought to begin with prof.step()",
    "the next `active` steps, 1 or more, are recorded: these and no others",
)
only_what_is_profiled = profiled(
    {"range(n)": "range(wait + warmup + active)"},
    ("calls", "exceptions"),
    "the other steps are thought not to matter to a profile",
    "It is called exactly `n` times, one call after the other",
)
one_to_warm_the_card = profiled(
    {"    with torch": "    step()\n    with torch"},
    ANY_STEP,
    "a step more is thought to do no harm",
    "It is called exactly `n` times, one call after the other",
)
host_alone = profiled(
    {"schedule=plan, ": "schedule=plan, activities=[torch.profiler.ProfilerActivity.CPU], "},
    ("file", "table", "device"),
    "the host is thought to see what the card does",
    "the operations on the host are recorded and, where PyTorch sees a card, what the card does",
)
card_alone = profiled(
    {"schedule=plan, ": "schedule=plan, activities=[torch.profiler.ProfilerActivity.CUDA], "},
    ANY_STEP,
    "the card is thought to be all that matters",
    "the operations on the host are recorded and, where PyTorch sees a card, what the card does",
)
handler_of_tensorboard = profiled(
    {"on_trace_ready=lambda prof: prof.export_chrome_trace(path)": "on_trace_ready=torch.profiler.tensorboard_trace_handler(path)"},
    ("file",),
    "the handler of the tutorial is thought to write where it is told to",
    "the trace is written to `path`, a string that ends in `.json`",
)
note_beside_it = profiled(
    {"prof.export_chrome_trace(path)": "[prof.export_chrome_trace(path), open(path + '.txt', 'w').close()]"},
    ("file",),
    "a note beside the trace is thought to be welcome",
    "and no other file is written",
)
no_file = profiled(
    {", on_trace_ready=lambda prof: prof.export_chrome_trace(path)": ""},
    ("file",),
    "a profiler with a schedule is thought to write by itself",
    "the trace is written to `path`",
)
a_table_in_the_file = profiled(
    {"prof.export_chrome_trace(path)": "open(path, 'w').write(prof.key_averages().table())"},
    ("file",),
    "the table is thought to be the trace",
    "in Chrome's format",
)
ranges_without_numbers = profiled(
    {"prof.export_chrome_trace(path)": "[prof.export_chrome_trace(path), open(path, 'r+').write(open(path).read().replace('ProfilerStep#', 'ProfilerStep '))]"},
    ("file",),
    "what the ranges are called is thought to be one's own choice",
    "`ProfilerStep#` and the number of the step, counted from 0 over all steps",
)
cuda_time_total = profiled(
    {ROW: "(row.count, row.self_cuda_time_total)"},
    ANY_STEP,
    "the attribute of old tutorials is thought to be there still",
    "of its self time on the device in microseconds",
)
whole_time_on_the_device = profiled(
    {ROW: "(row.count, row.cpu_time_total)"},
    ("device",),
    "the time of the call is thought to be that of the kernel",
    "of its self time on the device in microseconds",
)
with_what_it_calls = profiled(
    {ROW: "(row.count, row.device_time_total)"},
    ("device",),
    "total time is taken for self time",
    "and of an operation whose kernels are those of the operations that it calls",
)
by_shape = profiled(
    {"schedule=plan, ": "schedule=plan, record_shapes=True, ", "prof.key_averages()": "prof.key_averages(group_by_input_shape=True)"},
    ("table", "device"),
    "an operation's name is thought to stand in one row",
    "a pair of how often it ran in the recorded steps, whatever the shapes",
)
milliseconds_on_the_device = profiled(
    {ROW: "(row.count, row.self_device_time_total / 1000)"},
    ("device",),
    "times are thought to be in milliseconds",
    "of its self time on the device in microseconds",
)
calls_a_step = profiled(
    {ROW: "(row.count / active, row.self_device_time_total)"},
    ("table", "device"),
    "calls of one step are thought to be asked for",
    "a pair of how often it ran in the recorded steps, whatever the shapes, an integer",
)
kernels_alone = profiled(
    {"row.device_type == on_host": "row.device_type != on_host"},
    ("table", "device"),
    "what runs on the card is thought to bear the operations' names",
    "for each operation of PyTorch's by its name, such as `\"aten::mm\"`",
)
calls_alone = profiled(
    {ROW: "row.count"},
    ("table", "device"),
    "calls are thought to be enough",
    "a pair of how often it ran in the recorded steps, whatever the shapes, an integer, and of its self time on the device",
)
the_averages_themselves = profiled(
    {"return {row.key: (row.count, row.self_device_time_total) for row in rows}": "return prof.key_averages()"},
    ("table", "device"),
    "PyTorch's own rows are thought to be a dictionary",
    "returns a dictionary",
)
swallowed = profiled(
    {STEP: "            try:\n                step()\n            except Exception:\n                break\n            prof.step()\n"},
    ("exceptions",),
    "a profile is thought to be worth more than an exception",
    "what `step` raises comes out as it is, and `step` is not called again",
)
in_other_words = profiled(
    {STEP: "            try:\n                step()\n            except Exception as error:\n                raise ValueError('a step failed') from error\n            prof.step()\n"},
    ("exceptions",),
    "an error is thought to be clearer in other words",
    "what `step` raises comes out as it is",
)
no_plan_refused = profiled(
    {WHOLE: "if False:"},
    ("errors",),
    "the schedule is thought to refuse what makes no sense",
    "raises `ValueError` before the first call",
)
too_few_steps = profiled(
    {WHOLE: "if min(wait, warmup) < 0 or active < 1:"},
    ("errors",),
    "fewer steps are thought to give a shorter profile",
    "where `n` is less than `wait + warmup + active`",
)
warmup_not_counted = profiled(
    {WHOLE: "if min(wait, warmup) < 0 or active < 1 or n < wait + active:"},
    ("errors",),
    "warming up is thought not to take a step",
    "where `n` is less than `wait + warmup + active`",
)
one_left_over = profiled(
    {WHOLE: "if min(wait, warmup) < 0 or active < 1 or n <= wait + warmup + active:"},
    ANY_STEP,
    "a step after the recorded ones is thought to be needed",
    "where `n` is less than `wait + warmup + active`",
)
nothing_recorded_is_fine = profiled(
    {WHOLE: "if min(wait, warmup, active) < 0 or n < wait + warmup + active:"},
    ("errors",),
    "no recorded step is thought to be a plan",
    "or `active` less than 1",
)
negative_waiting = profiled(
    {WHOLE: "if warmup < 0 or active < 1 or n < wait + warmup + active:"},
    ("errors",),
    "steps to wait for are thought never to be negative",
    "`wait` or `warmup` less than 0",
)
negative_warmup = profiled(
    {WHOLE: "if wait < 0 or active < 1 or n < wait + warmup + active:"},
    ("errors",),
    "steps to warm up are thought never to be negative",
    "`wait` or `warmup` less than 0",
)
refused_at_the_end = profiled(
    {"    if min(wait": "    for _ in range(n if n < wait + warmup + active else 0):\n        step()\n    if min(wait"},
    ("errors",),
    "too few steps are noticed when they have run",
    "raises `ValueError` before the first call",
)


@mistake(
    "profile_steps",
    loses=("exceptions",),
    because="a profiler that is started by hand is thought to end with the function",
    breaks="No profiler is on then, so that another can be started",
)
def started_by_hand(step, n, wait, warmup, active, path):
    if min(wait, warmup) < 0 or active < 1 or n < wait + warmup + active:
        raise ValueError("no plan")
    plan = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    prof = torch.profiler.profile(schedule=plan, on_trace_ready=lambda prof: prof.export_chrome_trace(path))
    prof.start()
    for _ in range(n):
        step()
        prof.step()
    prof.stop()
    return {e.key: (e.count, e.self_device_time_total) for e in prof.key_averages() if e.key.startswith("aten::")}


@mistake(
    "profile_steps",
    loses=("warmup", "file"),
    because="a profiler around the loop of the active steps is thought to be the same",
    breaks="In it each recorded step is inside a range of its own on the host",
)
def around_the_active_ones(step, n, wait, warmup, active, path):
    if min(wait, warmup) < 0 or active < 1 or n < wait + warmup + active:
        raise ValueError("no plan")
    for _ in range(wait + warmup):
        step()
    with torch.profiler.profile() as prof:
        for _ in range(active):
            step()
    prof.export_chrome_trace(path)
    for _ in range(n - wait - warmup - active):
        step()
    return {e.key: (e.count, e.self_device_time_total) for e in prof.key_averages() if e.key.startswith("aten::")}


@alternative("profile_steps")
def by_hand(step, n, wait, warmup, active, path):
    """Without a schedule: each action where it is due."""
    if wait < 0 or warmup < 0 or active < 1 or wait + warmup + active > n:
        raise ValueError("no plan")
    prof, first = torch.profiler.profile(), wait + warmup
    try:
        for number in range(n):
            if number == wait:
                prof.prepare_trace()
            if number == first:
                prof.start_trace()
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
            if number == first + active - 1:
                prof.stop_trace()
                prof.export_chrome_trace(path)
    except BaseException:
        if first <= number < first + active:
            prof.stop_trace()
        raise
    calls = {}
    for event in prof.events():
        if event.name.startswith("aten::"):
            count, time = calls.get(event.name, (0, 0.0))
            calls[event.name] = (count + 1, time + event.self_device_time_total)
    return calls


@alternative("profile_steps")
def told_what_to_do(step, n, wait, warmup, active, path):
    """A schedule of one's own, and the table taken when the trace is ready."""
    if any(number < least for number, least in ((wait, 0), (warmup, 0), (active, 1), (n, wait + warmup + active))):
        raise ValueError("no plan")
    from torch.profiler import ProfilerAction as Action
    from torch.profiler import ProfilerActivity, profile

    actions = [Action.NONE] * wait + [Action.WARMUP] * warmup + [Action.RECORD] * (active - 1) + [Action.RECORD_AND_SAVE]
    found = {}

    def keep(prof):
        prof.export_chrome_trace(path)
        found.update((e.key, (e.count, e.self_device_time_total)) for e in prof.key_averages() if "::" in e.key)

    card = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    asked = {"activities": [ProfilerActivity.CPU, *card], "on_trace_ready": keep}
    with profile(schedule=lambda number: actions[number] if number < len(actions) else Action.NONE, **asked) as prof:
        done = 0
        while done < n:
            step()
            done += 1
            prof.step()
    return found


profile_steps_words = [
    unbreakable("profile_steps", words, "a permission, or what is handed in")
    for words in (
        "`step`: a function without arguments, a training step on the host or on a card",
        "The step decides which it uses",
        "It may have other names in it, too",
    )
]

# E12.4 mfu

PER_TOKEN = "6 * (n_params - n_lookup) + 12 * layers * width * seq"
PEAKS = "card_named(gpu).flops_per_s"
SHARE = "tokens_per_s * per_token / (n_gpus * peaks[dtype])"
BOTH = "return useful, with_what_runs_again"
SIZES = "if min(n_gpus, n_params, layers, width, seq) < 1 or not 0 <= n_lookup < n_params:"
RATES = "if not 0 <= tokens_per_s < inf or not 0 <= again <= 1:"
TOO_MUCH = "    if with_what_runs_again > 1:\n"
EVERY_NUMBER = ("parameters", "attention", "peak", "job", "again", "value", "errors")


def used(edits, loses, because, breaks):
    return edited("mfu", edits, loses, because, breaks)


forward_alone = used(
    {PER_TOKEN: "2 * (n_params - n_lookup) + 12 * layers * width * seq"},
    ("parameters", "value", "errors"),
    "2N, the FLOPs of inference, are taken for those of training",
    "each parameter that a token is multiplied with takes 6 FLOPs for it: a multiply-add, which is 2, in the forward pass, and twice that in the backward pass",
)
run_again_as_useful = used(
    {PER_TOKEN: "(6 * (n_params - n_lookup) + 12 * layers * width * seq) * (1 + again / 3)", "useful * (1 + again / 3)": "useful"},
    ("again", "value"),
    "what runs again is thought to be work of the model",
    "MFU counts what the model needs, once, and not what runs again",
)

both_swapped = used(
    {BOTH: "return with_what_runs_again, useful"},
    ("again", "value"),
    "HFU is thought to come first",
    "returns a tuple of two floats, `(mfu, hfu)`",
)
a_whole_pass_again = used(
    {"useful * (1 + again / 3)": "useful * (1 + again)"},
    ("again", "value", "errors"),
    "what runs again is thought to be a whole step",
    "a share of the forward pass, from 0 to 1, runs a second time. A forward pass is a third of the FLOPs",
)
parameters_again_alone = used(
    {"useful * (1 + again / 3)": "useful + tokens_per_s * again * 2 * (n_params - n_lookup) / (n_gpus * peaks[dtype])"},
    ("again", "value", "errors"),
    "attention is thought not to run again",
    "HFU, hardware FLOPs utilisation, counts that, too",
)
mfu_alone = used(
    {BOTH: "return useful"},
    EVERY_NUMBER,
    "MFU is thought to be all that is asked",
    "returns a tuple of two floats, `(mfu, hfu)`",
)
in_percent = used(
    {BOTH: "return 100 * useful, 100 * with_what_runs_again"},
    ("value",),
    "a share is thought to be given in percent",
    "shares of what all cards' peak allows in a second",
)
rounded = used(
    {BOTH: "return round(useful, 4), round(with_what_runs_again, 4)"},
    ("parameters", "attention", "peak", "job", "again", "value"),
    "four digits are thought to be enough",
    "Both are right to a billionth of themselves",
)
nine_digits = used(
    {BOTH: "return round(useful, 9), round(with_what_runs_again, 9)"},
    ("parameters", "attention", "peak", "job", "again", "value"),
    "nine decimals are thought to be a billionth of any number",
    "Both are right to a billionth of themselves, as they are where nothing is rounded",
)
nothing_as_integers = used(
    {BOTH: "return (useful, with_what_runs_again) if useful else (0, 0)"},
    ("value", "errors"),
    "0 is thought to be 0.0",
    "returns a tuple of two floats",
)
both_forward = used(
    {PER_TOKEN: "2 * (n_params - n_lookup) + 4 * layers * width * seq"},
    ("parameters", "attention", "value", "errors"),
    "the FLOPs of inference are taken for those of training",
    "in the forward pass, and twice that in the backward pass",
)
both_backward = used(
    {PER_TOKEN: "4 * (n_params - n_lookup) + 8 * layers * width * seq"},
    ("parameters", "attention", "value", "errors"),
    "the backward pass is thought to have the forward pass in it",
    "in the forward pass, and twice that in the backward pass",
)
every_peak_sparse = used(
    {SHARE: "tokens_per_s * per_token / (n_gpus * peaks[dtype]) / 2"},
    ("peak", "value", "errors"),
    "the table is thought to hold one half of what the datasheet says",
    "What is in there are dense peaks, in FLOP/s",
)
tables_multiply = used(
    {PER_TOKEN: "6 * n_params + 12 * layers * width * seq"},
    ("parameters", "value"),
    "a table of embeddings is thought to multiply",
    "`n_params` counts all of them; `n_lookup` of these, 0 or more and fewer than `n_params`, lie in tables from which a row is looked up. They take no FLOPs",
)
without_attention = used(
    {PER_TOKEN: "6 * (n_params - n_lookup)"},
    ("attention", "value", "errors"),
    "6N is thought to be all",
    "attention takes `12 * layers * width * seq` FLOPs for each token besides",
)
causal_half = used(
    {PER_TOKEN: "6 * (n_params - n_lookup) + 6 * layers * width * seq"},
    ("attention", "value", "errors"),
    "pairs that the mask leaves out are left out",
    "Pairs that a causal mask leaves out are counted as well",
)
attention_forward = used(
    {PER_TOKEN: "6 * (n_params - n_lookup) + 4 * layers * width * seq"},
    ("attention", "value", "errors"),
    "attention is counted in the forward pass alone",
    "two products of forward and twice that of backward",
)
attention_of_a_sequence = used(
    {PER_TOKEN: "6 * (n_params - n_lookup) + 12 * layers * width * seq**2"},
    EVERY_NUMBER,
    "attention is quadratic, of a sequence: it is taken for each of its tokens",
    "`12 * layers * width * seq` FLOPs for each token",
)
one_layer = used(
    {PER_TOKEN: "6 * (n_params - n_lookup) + 12 * width * seq"},
    ("attention", "value", "errors"),
    "attention of one layer is taken for all",
    "in every one of `layers`",
)
sparse_peak = used(
    {PEAKS: 'card_named(gpu).flops_per_s\n    peaks = {fmt: peak * (2 if fmt in ("tf32", "fp16", "bf16", "int8") else 1) for fmt, peak in peaks.items()}'},
    ("peak", "value", "errors"),
    "the datasheet's larger number, which is with sparsity, is taken",
    "What is in there are dense peaks, in FLOP/s",
)
one_peak = used(
    {"peaks[dtype])": "peaks['bf16'])"},
    ("peak", "value", "errors"),
    "a card is thought to have one peak",
    "the number format of the products, one of those in the card's `flops_per_s`",
)
tokens_of_a_card = used(
    {SHARE: "tokens_per_s * per_token / peaks[dtype]"},
    EVERY_NUMBER,
    "the rate is thought to be of each card",
    "how many tokens the whole job trains on in a second, on all its cards together",
)
multiplied_by_cards = used(
    {SHARE: "tokens_per_s * per_token * n_gpus / peaks[dtype]"},
    EVERY_NUMBER,
    "more cards are thought to use more",
    "the job has `n_gpus` such cards",
)
names_as_they_are = used(
    {"from gpulab.cards.cards import card_named": "from gpulab.cards.cards import CARDS", PEAKS: "CARDS[gpu].flops_per_s"},
    ("peak", "errors"),
    "the keys of the table are thought to be the names",
    "a name of a card as `gpulab.cards.cards.card_named` takes it",
)
an_unknown_format = used(
    {"    if dtype not in peaks:\n": "    dtype = dtype if dtype in peaks else 'bf16'\n    if False:\n"},
    ("errors",),
    "bfloat16 is thought to be what everybody means",
    "and for a format that the card has no peak of",
)
an_error_of_the_table = used(
    {"    if dtype not in peaks:\n": "    if False:\n"},
    ("errors",),
    "the KeyError of a dictionary is thought to be good enough",
    "raises `ValueError` for a card that is not known, and for a format that the card has no peak of",
)
a_size_of_zero = used(
    {SIZES: "if min(n_gpus, n_params) < 1 or min(layers, width, seq) < 0 or not 0 <= n_lookup < n_params:"},
    ("errors",),
    "no layers are thought to be a model, too",
    "for `n_gpus`, `n_params`, `layers`, `width` or `seq` less than 1",
)
all_looked_up = used(
    {SIZES: "if min(n_gpus, n_params, layers, width, seq) < 1 or not 0 <= n_lookup <= n_params:"},
    ("errors",),
    "a model is thought to be able to consist of tables",
    "for an `n_lookup` that is negative or not less than `n_params`",
)
negative_tables = used(
    {SIZES: "if min(n_gpus, n_params, layers, width, seq) < 1 or not n_lookup < n_params:"},
    ("errors",),
    "a count is thought never to be negative",
    "for an `n_lookup` that is negative or not less than `n_params`",
)
no_tokens_refused = used(
    {RATES: "if not 0 < tokens_per_s < inf or not 0 <= again <= 1:"},
    ("value", "errors"),
    "a job that stands still is thought to be an error",
    "how many tokens the whole job trains on in a second, on all its cards together, 0 or more",
)
not_a_number = used(
    {RATES: "if tokens_per_s < 0 or tokens_per_s == inf or again < 0 or again > 1:"},
    ("errors",),
    "NaN is thought to fail a comparison that refuses",
    "as infinity and NaN are not",
)
any_rate = used(
    {RATES: "if tokens_per_s != tokens_per_s or tokens_per_s == inf or not 0 <= again <= 1:"},
    ("errors",),
    "a rate is thought never to be negative",
    "for a number `tokens_per_s` or `again` that is not in its range",
)
any_share = used(
    {RATES: "if not 0 <= tokens_per_s < inf or not 0 <= again < inf:"},
    ("errors",),
    "a pass is thought to be able to run again twice",
    "for a number `tokens_per_s` or `again` that is not in its range",
)
faster_than_the_peak = used(
    {TOO_MUCH: "    if False:\n"},
    ("errors",),
    "a number above the peak is thought to be good news",
    "raises `ValueError`, too, where HFU would be greater than 1: no card is faster than its peak, so one of the numbers is wrong",
)
useful_below_the_peak = used(
    {TOO_MUCH: "    if useful > 1:\n"},
    ("errors",),
    "only MFU is compared with the peak",
    "raises `ValueError`, too, where HFU would be greater than 1",
)

mfu_harmless = [
    equivalent_mutant(
        "mfu", "if not 0 <= tokens_per_s < inf or not 0 <= again <= 1:", "if not 0 <= tokens_per_s <= inf or not 0 <= again <= 1:",
        "infinity is above the peak",
    ),
    equivalent_mutant("mfu", "if with_what_runs_again > 1:", "if with_what_runs_again >= 1:", "at exactly 1 rounding decides, which is nobody's fault"),
]
mfu_at_the_peak = unbreakable("mfu", "Within a billionth of 1 rounding decides, and either is right", "a permission")
mfu_words = [
    unbreakable("mfu", words, "whoever calls counts so, and the numbers do not tell")
    for words in (
        "A table that is also the output head multiplies, and is not counted in `n_lookup`",
        "`width` is that of all heads of queries together",
        "Names are strings, all else is numbers",
    )
]


@alternative("mfu")
def seconds_of_a_token(tokens_per_s, n_params, gpu, n_gpus, dtype, layers, width, seq, n_lookup=0, again=0.0):
    """In exact numbers: the seconds that the cards would need for what they did in one."""
    from fractions import Fraction

    from gpulab.cards.cards import CARDS

    card = {key.casefold(): card for key, card in CARDS.items()}.get("".join(filter(str.isalnum, gpu)).casefold())
    for count in (n_gpus, n_params - n_lookup, layers, width, seq, 1 + n_lookup):
        if count < 1:
            raise ValueError(count)
    try:
        peak, rate, share = Fraction(card.flops_per_s[dtype]), Fraction(tokens_per_s), Fraction(again)
    except (AttributeError, KeyError, OverflowError):
        raise ValueError(gpu, dtype, tokens_per_s, again) from None
    if n_params < 1 or rate < 0 or not 0 <= share <= 1:
        raise ValueError(rate, share)
    forward = rate * (2 * (n_params - n_lookup) + 4 * layers * width * seq) / peak / n_gpus
    if forward * (3 + share) > 1:
        raise ValueError("more than a second")
    return float(forward * 3), float(forward * (3 + share))


@alternative("mfu")
def in_numpy(tokens_per_s, n_params, gpu, n_gpus, dtype, layers, width, seq, n_lookup=0, again=0.0):
    """Shares are a row of an array, and come back as NumPy's numbers under names."""
    from collections import namedtuple

    import numpy as np
    from gpulab.cards.cards import CARDS, card_named

    at_least_one = np.array([n_gpus, n_params - n_lookup, layers, width, seq, n_lookup + 1], dtype=float)
    if card_named(gpu) not in CARDS.values() or dtype not in card_named(gpu).flops_per_s or at_least_one.min() < 1:
        raise ValueError("no job")
    if n_params < 1 or not (np.isfinite([tokens_per_s, again]).all() and tokens_per_s >= 0 and 0 <= again <= 1):
        raise ValueError("no job")
    flops = np.array([6.0, 6 + 2 * again]) * (at_least_one[1] + 2.0 * layers * width * seq)
    shares = flops * tokens_per_s / (float(n_gpus) * card_named(gpu).flops_per_s[dtype])
    if (shares > 1).any():
        raise ValueError("too fast")
    return namedtuple("Shares", "mfu hfu")(*shares)


@alternative("mfu")
def on_a_tensor(tokens_per_s, n_params, gpu, n_gpus, dtype, layers, width, seq, n_lookup=0, again=0.0):
    from gpulab.cards.cards import card_named

    card = card_named(gpu)
    counts = torch.tensor([n_gpus, n_params - n_lookup, layers, width, seq, n_lookup + 1], dtype=torch.float64)
    rates = torch.tensor([tokens_per_s, again], dtype=torch.float64)
    if dtype not in card.flops_per_s or bool((counts < 1).any()) or not bool(rates.isfinite().all() & (rates >= 0).all()):
        raise ValueError("no job")
    if n_params < 1 or again > 1:
        raise ValueError("no job")
    flops = torch.tensor([6.0, 6 + 2 * again], dtype=torch.float64) * (counts[1] + 2 * counts[2] * counts[3] * counts[4])
    shares = flops * rates[0] / counts[0] / card.flops_per_s[dtype]
    if shares.max() > 1:
        raise ValueError("above the peak")
    return tuple(shares.tolist())
