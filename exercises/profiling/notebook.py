# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: nbgrader,tags
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Profiling: finding the bottleneck: exercises
#
# A profile is a list of intervals, and what is wrong with a step is found by arithmetic on them. What you write is graded on
# traces that are drawn afresh, in the form in which PyTorch writes them, and, where a profiler runs, by what it recorded.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import gpulab.cuda
import torch

# %% [markdown]
# ## E12.1 `self_times`
#
# An operation calls others, and each of them is in the profile with its whole time. What it did itself is what its
# children leave. A table that is sorted by whole time shows the outermost function at the top, and never the guilty one.
#
# Write `self_times(events)`:
#
# - [c1] `events`: a list of dictionaries in **any order**, children before parents too. [c2] Each has a `"name"`, a `"device"`
#   (`"cpu"` or `"cuda"`), `"pid"`, `"tid"`, `"start_ns"` and `"duration_ns"`, and ends at the sum of the last two. [c3] All but name
#   and device are integers. [c4] Times count nanoseconds since 1970, and a float64 does not hold them. [c5] Names repeat;
# - [c6] on `"cpu"`, `pid` and `tid` **together** are a thread: [c7] two processes may have a `tid` in common. [c8] What runs in another thread
#   is nobody's child, however the times lie;
# - [c9] an event is inside another of its thread if it starts no earlier and ends no later. [c10] Of two with equal start and equal
#   end, the one that comes first in the list is the outer one. [c11] The **parent** of an event is the innermost of those that it is
#   inside of. [c12] One of duration 0 where two neighbours meet is inside both: [c13] either is its parent, and no self time tells which;
# - [c14] the **self time** of an event is its duration less the durations of its **children**. [c15] What a child calls is in the child's
#   duration already;
# - [c16] one event may end exactly where the next one starts, and a duration may be 0. [c17] Events may be nested 1,200 deep, which is
#   deeper than Python lets functions call each other;
# - [c18] an event on `"cuda"` is a kernel or a copy that the host has queued. [c19] It runs while the host goes on, so it is **nobody's
#   child and nobody's parent**, and may overlap anything. [c20] There `pid` is the card and `tid` the stream, and both may be numbers
#   that a process or a thread has, too. [c21] Its duration is not looked at: [c22] clocks that disagree make some of them negative;
# - [c23] returns a list with one entry for each event, in the order of `events`: [c24] its self time as an integer in nanoseconds, and
#   `None` for an event on `"cuda"`. [c25] In each thread the self times add up to the durations of the events without a parent;
# - [c26] `events` and the dictionaries in it are left as they are;
# - [c27] raises `ValueError` for a negative duration on the host, and where two events of one thread **overlap in part**: [c28] the second
#   starts inside the first and ends after it. [c29] No tree has such a self time, not even where the sums still fit;
# - [c30] you write it without gpulab, which reads traces, too: [c31] a call of it loses the points. [c32] PyTorch and NumPy may help.

# %% nbgrader={"grade": false, "grade_id": "self_times", "locked": false, "schema_version": 3, "solution": true, "task": false}
def self_times(events):
    """The self time of each event on the host, in nanoseconds; None for those on the device."""
    ### BEGIN SOLUTION
    times, threads = [None] * len(events), {}
    for number, event in enumerate(events):
        if event["device"] == "cpu":
            threads.setdefault((event["pid"], event["tid"]), []).append(number)
    for numbers in threads.values():
        around = []  # the ends and numbers of events that are under way, the innermost last
        # The outer one of two that start together is the longer one, or the earlier one in the list.
        for number in sorted(numbers, key=lambda number: (events[number]["start_ns"], -events[number]["duration_ns"])):
            start, duration = events[number]["start_ns"], events[number]["duration_ns"]
            if duration < 0:
                raise ValueError(f"{events[number]['name']} lasts {duration} ns")
            while around and around[-1][0] <= start:
                around.pop()
            if around:
                end, parent = around[-1]
                if end < start + duration:
                    raise ValueError(f"{events[number]['name']} ends after {events[parent]['name']}, inside of which it starts")
                times[parent] -= duration
            times[number] = duration
            around.append((start + duration, number))
    return times
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "self_times_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_self_times():
    """A real profile, and PyTorch's own table beside yours; then trees that are written down."""
    from collections import Counter

    from torch.profiler import ProfilerActivity, profile, record_function

    layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
    with profile(activities=[ProfilerActivity.CPU]) as prof, record_function("the whole step"):
        layers(torch.randn(32, 64)).square().mean().backward()

    recorded = []
    for e in prof.events():
        device = "cpu" if e.device_type == torch.autograd.DeviceType.CPU else "cuda"
        start, end = round(1000 * e.time_range.start), round(1000 * e.time_range.end)
        place = {"device": device, "pid": 1, "tid": e.thread}
        recorded.append({"name": e.name, **place, "start_ns": start, "duration_ns": end - start})
    whole, own, due = Counter(), Counter(), Counter()
    for event, time, theirs in zip(recorded, self_times(recorded), prof.events(), strict=True):
        whole[event["name"]] += event["duration_ns"]
        own[event["name"]] += time
        due[event["name"]] += theirs.self_cpu_time_total
    print(f"{'operation':44}{'total us':>12}{'self us':>12}{'PyTorch says':>14}")
    for name, _ in whole.most_common(12):
        print(f"{name:44}{whole[name] / 1e3:12.1f}{own[name] / 1e3:12.1f}{due[name]:14.1f}")
    for name in whole:
        assert abs(own[name] / 1e3 - due[name]) < 0.1, f"{name}: PyTorch's own table says {due[name]:.1f} us of self time"

    def on_host(name, start, duration, tid=7):
        return {"name": name, "device": "cpu", "pid": 1, "tid": tid, "start_ns": start, "duration_ns": duration}

    tree = [
        on_host("mm", 10, 30), {**on_host("kernel", 10, 500), "device": "cuda"},
        on_host("linear", 5, 45), on_host("forward", 0, 60), on_host("loader", 8, 40, tid=8),
    ]
    found = self_times(tree)
    assert found == [30, None, 15, 15, 40], f"of forward(linear(mm)), a kernel and another thread: {found}"

    # From the interview notes: forward_pass takes 100 ms, its children take 50, 40 and 10, and it is said to have 10 itself.
    notes = [on_host("forward_pass", 0, 100), on_host("layer1", 0, 50), on_host("layer2", 50, 40), on_host("loss", 90, 10)]
    print("the notes' forward_pass itself:", self_times(notes)[0], "and not 10")
    assert self_times(notes) == [0, 50, 40, 10]
    for late in notes[1:]:
        late["start_ns"] += 5
    try:
        self_times(notes)
    except ValueError as error:
        print("with 5 before the children:", error)
    else:
        raise AssertionError("with 5 before them the loss ends after the pass that it starts in: ValueError is due")


_see_self_times()

# %% nbgrader={"grade": true, "grade_id": "self_times_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of self_times: nested 2, threads 1, device 1, ties 2, exact 1, errors 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("profiling.self_times")
### END HIDDEN TESTS

# %% [markdown]
# ## E12.2 `diagnose`
#
# `nvidia-smi` at 99 % says that some kernel was running. It does not say that the kernel computed anything, or that the
# card did not wait for a network. A trace does: each moment of it can be given to one cause.
#
# Write `diagnose(trace, work, ridge)`:
#
# - [c1] `trace`: the dictionary that `json.load` gives of a trace of one process and one card, in the format that Kineto writes.
#   [c2] `trace["traceEvents"]` is a list in **any order**. [c3] Only events with `"ph"` equal to `"X"` and a `"dur"` above 0 count. [c4] Of the
#   others, some have no `"cat"`, no `"dur"` or no `"args"`. [c5] An event runs from `"ts"` to `"ts"` + `"dur"`, in microseconds. [c6] What
#   an event is, its `"cat"` says, by these names and no others:
#
#   | | `cat` today | `cat` in 2021 |
#   | --- | --- | --- |
#   | a kernel | `kernel` | `Kernel` |
#   | a copy, a fill | `gpu_memcpy`, `gpu_memset` | `Memcpy`, `Memset` |
#   | a call of CUDA's | `cuda_runtime`, `cuda_driver` | `Runtime` |
#   | a range or an operation on the host | `user_annotation`, `cpu_op` | `Operator` |
#
# - [c7] `work`: a dictionary from a kernel's name to a pair `(flops, bytes)` of one launch. [c8] A trace holds neither; [c9] they are
#   counted by hand, or by Nsight Compute. [c10] `ridge`: the FLOP/byte at which the card's peak and its bandwidth meet;
# - [c11] **communication** is a kernel whose name begins with `nccl`. [c12] Every other kernel is **compute** where its FLOPs are at least
#   `ridge` times its bytes, else **memory**. [c13] Bytes may be 0, and FLOPs may be, too. [c14] A kernel that is not in `work` is memory, as
#   most are that nobody counts, and so are copies and fills, whatever they are called;
# - [c15] the **window** goes from the start of the first to the end of the last range on the host whose name begins with
#   `ProfilerStep#`, and what is between two of them is in it. [c16] Where there is none, it goes from the start of the first to the end
#   of the last kernel, copy or fill. [c17] What is outside of the window, or the part of it, does not count;
# - [c18] each moment of the window has **one** cause. [c19] While at least one kernel of compute runs, on whatever stream, it is
#   `"compute"`; [c20] else, while memory does, `"memory"`; [c21] else, while communication does, `"communication"`. [c22] So communication that
#   is hidden behind other work costs nothing;
# - [c23] else the card is idle. [c24] Of an idle time, whatever is inside a range on the host whose name begins with
#   `enumerate(DataLoader)#`, in whatever thread, is `"input"`. [c25] A loader that works while the card does costs nothing;
# - [c26] the rest of the idle time is `"sync"` or `"launch"`, **all of it**, by how it began: [c27] `"sync"` if at the moment when the card
#   ran dry the host was, in whatever thread, in a call of CUDA's whose name ends in `Synchronize`. [c28] That moment may be the call's
#   first or last. [c29] Else the host was late by itself: [c30] `"launch"`. An idle time, be it ever so short, goes from where no kernel,
#   copy or fill runs any more to where the next one starts, or from and to the ends of the window. [c31] Where the window cuts it, its
#   moment is the window's start. [c32] **Of a call all counts**, also what is outside of the window;
# - [c33] returns a tuple of a string, the **verdict**, and a dictionary of the six times in microseconds, numbers that add up to
#   the window. [c34] Each is right to a microsecond;
# - [c35] where input, sync, launch and communication **together** take a tenth of the window or more, the verdict is the longest of
#   these four. [c36] Else the card is what limits, and it is the longer one of compute and memory. [c37] Of equal ones it is the first in the
#   order input, sync, launch, communication, compute, memory;
# - [c38] `trace` and `work` are left as they are;
# - [c39] raises `ValueError` where there is no window;
# - [c40] you write it without gpulab, which reads traces and divides their time, too: [c41] a call of it loses the points.

# %% nbgrader={"grade": false, "grade_id": "diagnose", "locked": false, "schema_version": 3, "solution": true, "task": false}
def diagnose(trace, work, ridge):
    """What limits the steps of a trace, and the time in microseconds that each of the six causes takes."""
    ### BEGIN SOLUTION
    spans = {kind: [] for kind in ("compute", "memory", "communication", "step", "loader", "wait")}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("dur", 0) > 0:
            kind = kind_of(event, work, ridge)
            if kind in spans:
                spans[kind].append((event["ts"], event["ts"] + event["dur"]))
    ends = spans["step"] or spans["compute"] + spans["memory"] + spans["communication"]
    if not ends:
        raise ValueError("the trace has no step, and nothing that ran on the card")
    window = min(start for start, _ in ends), max(end for _, end in ends)

    times, running = {"input": 0.0, "sync": 0.0, "launch": 0.0}, []
    for kind in ("compute", "memory", "communication"):
        before = length(union(running, window))
        running += spans[kind]
        times[kind] = length(union(running, window)) - before
    edges = [window[0], *(edge for busy in union(running, window) for edge in busy), window[1]]
    for idle in zip(edges[::2], edges[1::2]):
        if idle[0] < idle[1]:
            loading = length(union(spans["loader"], idle))
            times["input"] += loading
            waited = any(start <= idle[0] <= end for start, end in spans["wait"])
            times["sync" if waited else "launch"] += length([idle]) - loading

    lost = ("input", "sync", "launch", "communication")
    limits = lost if 10 * sum(times[kind] for kind in lost) >= length([window]) else ("compute", "memory")
    return max(limits, key=times.get), times


def kind_of(event, work, ridge):
    """What an event of a trace is, by its category; None for what does not count."""
    category, name = event.get("cat"), event["name"]
    if category in ("kernel", "Kernel"):
        if name.startswith("nccl"):
            return "communication"
        flops, nbytes = work.get(name, (0, 1))
        return "compute" if flops >= ridge * nbytes else "memory"
    if category in ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset"):
        return "memory"
    if category in ("cuda_runtime", "cuda_driver", "Runtime"):
        return "wait" if name.endswith("Synchronize") else None
    if category in ("user_annotation", "cpu_op", "Operator"):
        if name.startswith("ProfilerStep#"):
            return "step"
        return "loader" if name.startswith("enumerate(DataLoader)#") else None
    return None


def union(spans, window):
    """The parts of a window that at least one of the spans covers: disjoint and in order."""
    covered = []
    for start, end in sorted(spans):
        start, end = max(start, window[0]), min(end, window[1])
        if start >= end:
            continue
        if covered and start <= covered[-1][1]:
            covered[-1] = (covered[-1][0], max(covered[-1][1], end))
        else:
            covered.append((start, end))
    return covered


def length(intervals):
    return sum(end - start for start, end in intervals)
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "diagnose_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_diagnose():
    """Steps of 100 us that are written down: what each draws, the verdict, and the times that are not 0."""

    def drawn(*rows):
        """Events of a trace as Kineto writes them today, from rows (category, name, start, duration) in microseconds."""
        card, host = {"pid": 0, "tid": 7}, {"pid": 4242, "tid": 4242}
        on_card = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
        return [
            {"ph": "X", "cat": category, "name": name, "ts": float(ts), "dur": float(dur), **(card if category in on_card else host)}
            for category, name, ts, dur in rows
        ]

    def reduce(start, duration):
        return ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, duration)

    def wait(start, duration):
        return ("cuda_runtime", "cudaStreamSynchronize", start, duration)

    work = {"gemm": (5_000_000_000, 30_000_000), "add": (1_000_000, 12_000_000)}
    step = ("user_annotation", "ProfilerStep#7", 1000, 100)
    gemm, add = ("kernel", "gemm", 1000, 60), ("kernel", "add", 1060, 40)
    twice = [gemm, ("kernel", "gemm", 1010, 50), add]
    moved = [("kernel", "add", 1000, 70), ("gpu_memcpy", "Memcpy DtoD", 1060, 40)]
    late = ("kernel", "add", 1090, 10)  # the card is idle from 1060 to 1090
    loader = ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1020, 65)
    busy, idle = {"compute": 60, "memory": 40}, {"compute": 60, "memory": 10}
    expected = [
        ("busy all the time, compute", [gemm, add], "compute", busy),
        ("the same on two streams", twice, "compute", busy),
        ("busy all the time, memory", moved, "memory", {"memory": 100}),
        ("what is outside of the step", [("kernel", "add", 900, 300), gemm], "compute", busy),
        ("an all-reduce that is hidden", [gemm, add, reduce(1000, 100)], "compute", busy),
        ("one that is exposed", [gemm, reduce(1040, 60)], "communication", {"compute": 60, "communication": 40}),
        ("the loader, hidden and not", [gemm, late, loader], "input", {**idle, "input": 25, "launch": 5}),
        ("the host waits, and launches", [gemm, late, wait(1020, 42)], "sync", {**idle, "sync": 30}),
        ("the host is late by itself", [gemm, late, wait(1066, 10)], "launch", {**idle, "launch": 30}),
    ]
    for what, rows, verdict, due in expected:
        events = drawn(step, *rows) + [{"ph": "M", "name": "process_name", "pid": 0}]
        told, times = diagnose({"schemaVersion": 1, "traceEvents": events}, work, 100)
        print(f"{what:32}{told:15}" + "  ".join(f"{kind} {time:g}" for kind, time in times.items() if time))
        six = ["communication", "compute", "input", "launch", "memory", "sync"]
        assert sorted(times) == six, f"six times are due, not {sorted(times)}"
        wrong = {kind: time for kind, time in times.items() if abs(time - due.get(kind, 0)) > 1}
        assert not wrong, f"{what}: {wrong} is wrong; due are {due}, and 0 of the others"
        assert told == verdict, f"{what}: the verdict is {verdict!r} and not {told!r}"


_see_diagnose()

# %% nbgrader={"grade": true, "grade_id": "diagnose_hidden", "locked": true, "points": 14, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of diagnose: the card's work 2, communication 2, input 1, idle times 3, formats 2, window 1, verdict 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("profiling.diagnose")
### END HIDDEN TESTS

# %% [markdown]
# ## E12.3 `profile_steps`
#
# A profile of several epochs is gigabytes of the same step, and slows down what it measures. A few steps are enough, after
# the first ones, in which memory is first taken and kernels are first loaded; and a profiler warms up, too.
#
# Write `profile_steps(step, n, wait, warmup, active, path)`:
#
# - [c1] `step`: a function without arguments, a training step on the host or on a card. [c2] It is called **exactly `n` times**, one call
#   after the other, in the thread that called `profile_steps`;
# - [c3] during the first `wait` steps, which may be 0, PyTorch's profiler (`torch.profiler`) is off;
# - [c4] it is prepared when they are over, before the next step begins, and warms up during `warmup` steps, which may be 0: [c5] what
#   they do is not recorded;
# - [c6] the next `active` steps, 1 or more, are **recorded: [c7] these and no others**, in one recording. [c8] When they are over it stops,
#   before another step begins, and is neither prepared nor started again, however many steps follow;
# - [c9] the operations on the host are recorded and, where PyTorch sees a card, what the card does. [c10] The step decides which it uses;
# - [c11] the trace is written to `path`, a string that ends in `.json`, in Chrome's format. [c12] In it **each recorded step is inside a range
#   of its own** on the host, `ProfilerStep#` and the number of the step, counted from 0 over all steps. [c13] Such ranges there are
#   `active`, and no other file is written;
# - [c14] returns a dictionary: for each operation of PyTorch's by its name, such as `"aten::mm"`, a pair of how often it ran in the
#   recorded steps, whatever the shapes, an integer, and of its **self time on the device** in microseconds. [c15] That is 0 where there
#   is no card, and of an operation whose kernels are those of the operations that it calls. [c16] It may have other names in it, too;
# - [c17] what `step` raises comes out as it is, and `step` is not called again. [c18] No profiler is on then, so that another can be
#   started;
# - [c19] raises `ValueError` before the first call where `n` is less than `wait + warmup + active`, `wait` or `warmup` less than 0, or
#   `active` less than 1.

# %% nbgrader={"grade": false, "grade_id": "profile_steps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def profile_steps(step, n, wait, warmup, active, path):
    """Record the active ones of n steps; calls and self time on the device by operation."""
    ### BEGIN SOLUTION
    if min(wait, warmup) < 0 or active < 1 or n < wait + warmup + active:
        raise ValueError(f"of {n} steps, {wait} + {warmup} + {active} cannot be waited for, warmed up in and recorded")
    plan = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    with torch.profiler.profile(schedule=plan, on_trace_ready=lambda prof: prof.export_chrome_trace(path)) as prof:
        for _ in range(n):
            step()
            prof.step()
    on_host = torch.autograd.DeviceType.CPU
    rows = [row for row in prof.key_averages() if row.device_type == on_host]
    return {row.key: (row.count, row.self_device_time_total) for row in rows}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "profile_steps_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_profile_steps():
    """Twelve steps on the host, and on a card; what the file and the table hold of them."""
    import json
    import tempfile
    from pathlib import Path

    from torch.profiler import record_function

    class Steps:
        """Step number k, counted from 0, multiplies k + 1 times, in a range that bears its number."""

        def __init__(self, device):
            self.x, self.calls = torch.randn(64, 64, device=device), 0

        def __call__(self):
            with record_function(f"step {self.calls}"):
                self.calls += 1
                for _ in range(self.calls):
                    self.x @ self.x

    for runtime, device in ("off", "cpu"), ("virtual:H100", "cuda"):
        with gpulab.cuda.use(runtime), tempfile.TemporaryDirectory() as folder:
            step, path = Steps(device), Path(folder) / "trace.json"
            table = profile_steps(step, 12, wait=2, warmup=1, active=2, path=str(path))
            assert step.calls == 12, f"the step was called {step.calls} times, not 12"
            assert path.exists(), "no trace was written to path"
            trace = json.loads(path.read_text())
        ranges = sorted({e["name"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"})
        print(f"{len(trace['traceEvents'])} events; ranges on the host: {', '.join(ranges)}")
        print(f"aten::mm: {table['aten::mm'][0]} calls, {table['aten::mm'][1]:.1f} us itself on the device")
        due = ["ProfilerStep#3", "ProfilerStep#4", "step 3", "step 4"]
        assert ranges == due, "steps 3 and 4 are due in the trace, each in a ProfilerStep#"
        assert table["aten::mm"][0] == 4 + 5, f"steps 3 and 4 multiply 4 and 5 times, and the table says {table['aten::mm'][0]}"
        assert (table["aten::mm"][1] > 0) == (device == "cuda"), f"on {device} the device's time is {table['aten::mm'][1]}"


_see_profile_steps()

# %% nbgrader={"grade": true, "grade_id": "profile_steps_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of profile_steps: calls 1, recorded 3, warm-up 1, the file 2, the table 1, the device 1, exceptions 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("profiling.profile_steps")
### END HIDDEN TESTS

# %% [markdown]
# ## E12.4 `mfu`
#
# A loop that says tokens per second does not say whether that is much. Model FLOPs utilisation does: what the training needs,
# of what the cards could do. The numbers in it are simple, and each is often taken twice or half as large.
#
# Write `mfu(tokens_per_s, n_params, gpu, n_gpus, dtype, layers, width, seq, n_lookup=0, again=0.0)`:
#
# - [c1] `tokens_per_s`: how many tokens the **whole job** trains on in a second, on all its cards together, 0 or more;
# - [c2] each parameter that a token is multiplied with takes 6 FLOPs for it: [c3] a multiply-add, which is 2, in the forward pass, and
#   twice that in the backward pass. [c4] `n_params` counts all of them; [c5] `n_lookup` of these, 0 or more and fewer than `n_params`, lie
#   in tables from which a row is looked up. [c6] **They take no FLOPs**. [c7] A table that is also the output head multiplies, and is not
#   counted in `n_lookup`;
# - [c8] attention takes `12 * layers * width * seq` FLOPs for each token besides: [c9] two products of forward and twice that of backward,
#   with each of `seq` tokens in every one of `layers`. [c10] `width` is that of all heads of queries together. [c11] Pairs that a causal mask
#   leaves out are counted as well, as the authors of PaLM did, who defined the number;
# - [c12] `gpu`: a name of a card as `gpulab.cards.cards.card_named` takes it. [c13] `dtype`: the number format of the products, one of those
#   in the card's `flops_per_s`. [c14] What is in there are **dense** peaks, in FLOP/s; [c15] the job has `n_gpus` such cards;
# - [c16] `again`: with activation checkpointing a share of the forward pass, from 0 to 1, runs a second time. [c17] A forward pass is a third
#   of the FLOPs;
# - [c18] returns a tuple of two floats, `(mfu, hfu)`, shares of what all cards' peak allows in a second. [c19] **MFU counts what the model
#   needs, once**, and not what runs again. [c20] HFU, hardware FLOPs utilisation, counts that, too. [c21] Both are right to a billionth of
#   themselves, as they are where nothing is rounded;
# - [c22] raises `ValueError` for a card that is not known, and for a format that the card has no peak of; [c23] for `n_gpus`, `n_params`,
#   `layers`, `width` or `seq` less than 1, for an `n_lookup` that is negative or not less than `n_params`, and for a number
#   `tokens_per_s` or `again` that is not in its range, as infinity and NaN are not. [c24] Names are strings, all else is numbers;
# - [c25] raises `ValueError`, too, where HFU would be **greater than 1**: [c26] no card is faster than its peak, so one of the numbers is wrong.
#   [c27] Within a billionth of 1 rounding decides, and either is right.

# %% nbgrader={"grade": false, "grade_id": "mfu", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mfu(tokens_per_s, n_params, gpu, n_gpus, dtype, layers, width, seq, n_lookup=0, again=0.0):
    """Model and hardware FLOPs utilisation of a training job, as shares of the dense peak."""
    ### BEGIN SOLUTION
    from math import inf

    from gpulab.cards.cards import card_named

    peaks = card_named(gpu).flops_per_s
    if dtype not in peaks:
        raise ValueError(f"{gpu} has no peak for {dtype}, only for {', '.join(peaks)}")
    if min(n_gpus, n_params, layers, width, seq) < 1 or not 0 <= n_lookup < n_params:
        raise ValueError("a model has parameters that multiply, layers, a width and a length, and a job has a card")
    if not 0 <= tokens_per_s < inf or not 0 <= again <= 1:
        raise ValueError(f"{tokens_per_s} tokens/s, of which {again} of the forward pass runs again, is no rate")
    per_token = 6 * (n_params - n_lookup) + 12 * layers * width * seq
    useful = tokens_per_s * per_token / (n_gpus * peaks[dtype])
    with_what_runs_again = useful * (1 + again / 3)
    if with_what_runs_again > 1:
        raise ValueError(f"{with_what_runs_again:.0%} of the peak: a rate, a size or the number of cards is wrong")
    return useful, with_what_runs_again
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mfu_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_mfu():
    """FLOPs of a real forward and backward pass, counted, beside those that your shares come from."""
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    from torch.utils.flop_counter import FlopCounterMode

    from gpulab.cards.cards import CARDS

    class Decoder(torch.nn.Module):
        """Layers of 4 heads without biases, between a table and a head of its own. Scores of all pairs are computed."""

        def __init__(self, layers, width, vocabulary):
            super().__init__()
            linear = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
            self.table, self.head = torch.nn.Embedding(vocabulary, width), linear(width, vocabulary)
            sizes = (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)
            self.layers = torch.nn.ModuleList(torch.nn.ModuleList(linear(*size) for size in sizes) for _ in range(layers))

        def forward(self, x):
            for qkv, out, up, down in self.layers:
                q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in qkv(x).chunk(3, -1))
                scores = (q @ k.transpose(-2, -1)).softmax(-1)
                x = x + out((scores @ v).transpose(1, 2).flatten(2))
                x = x + down(up(x).relu())
            return self.head(x)

    decoder = Decoder(layers=2, width=64, vocabulary=256)
    n_params, n_lookup = sum(p.numel() for p in decoder.parameters()), decoder.table.weight.numel()

    def counted(runs_again):
        """FLOPs for each of 3 x 48 tokens of a real forward and backward pass."""
        with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
            x = decoder.table(torch.randint(256, (3, 48)))
            y = checkpoint(decoder, x, use_reentrant=False) if runs_again else decoder(x)
            y.sum().backward()
        return counter.get_total_flops() / (3 * 48)

    useful, everything = counted(runs_again=False), counted(runs_again=True)
    print(f"{n_params} parameters, {n_lookup} of them looked up")
    print(f"counted for a token: {useful:.0f} FLOPs, with checkpoints {everything:.0f}")
    for gpu, dtype in ("A100", "bf16"), ("H100", "bf16"), ("rtx 4090", "tf32"):
        peak = CARDS[gpu.replace(" ", "").upper()].flops_per_s[dtype]
        share, with_again = mfu(1e8, n_params, gpu, 8, dtype, layers=2, width=64, seq=48, n_lookup=n_lookup, again=1.0)
        once, twice = share * 8 * peak / 1e8, with_again * 8 * peak / 1e8
        print(f"10^8 tokens/s on 8 {gpu}, {dtype}: MFU {share:.4f}, HFU {with_again:.4f}; FLOPs for a token: {once:.0f}")
        assert abs(once - useful) < 1e-6 * useful, f"a real pass without checkpoints takes {useful:.0f} FLOPs for a token"
        assert abs(twice - everything) < 1e-6 * everything, f"and with them {everything:.0f}"
    try:
        mfu(1e13, n_params, "H100", 8, "bf16", layers=2, width=64, seq=48)
    except ValueError as error:
        print("refused:", error)
    else:
        raise AssertionError("8 cards are not that fast: ValueError is due")


_see_mfu()

# %% nbgrader={"grade": true, "grade_id": "mfu_hidden", "locked": true, "points": 11, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mfu: parameters 2, attention 2, the peak 2, the job 1, what runs again 1, the value 1, errors 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("profiling.mfu")
### END HIDDEN TESTS
