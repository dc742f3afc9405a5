"""Chapter "Asynchronous execution": wrong solutions, and right ones written another way."""

import itertools
import statistics

import torch
from torch.nn.functional import mse_loss

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E6.1 honest_time -------------------------------------------------------------------------

NO_TIME = ("device_time", "earlier", "cold", "median", "waits", "stream", "errors")


MARKS = """\
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(iters + 1)]
    marks[0].record()
    for mark in marks[1:]:
        fn()
        mark.record()
    marks[-1].synchronize()
    return 1e3 * statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks))"""
CLOCK_FOR_EACH_CALL = """\
    times = []
    for _ in range(iters):
        begin = time.perf_counter()
        fn()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times)"""
CLOCK_FOR_ALL_CALLS = """\
    begin = time.perf_counter()
    for _ in range(iters):
        fn()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - begin) / iters"""

no_final_wait = edited(
    "honest_time",
    {MARKS: CLOCK_FOR_EACH_CALL.replace("        torch.cuda.synchronize()\n", "")},
    loses=NO_TIME,
    because="the call returns, so the work is thought to be done",
    breaks="in **microseconds** of device time",
)

waits_after_every_call = edited(
    "honest_time",
    {MARKS: CLOCK_FOR_EACH_CALL},
    loses=("waits",),
    because="every call is thought to need a wait of its own",
    breaks="a wait after every call would empty the queue",
)

mean_between_two_waits = edited(
    "honest_time",
    {MARKS: CLOCK_FOR_ALL_CALLS},
    loses=("median",),
    because="the mean is taken for what one call takes",
    breaks="returns the **median** over the measured calls",
)

no_first_wait = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n": "", MARKS: CLOCK_FOR_ALL_CALLS},
    loses=NO_TIME,
    because="only the last wait is thought to matter",
    breaks="work that was already queued in the stream is not charged to `fn`",
)

waits_for_its_own_warm_up_alone = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n": "    if warmup:\n        torch.cuda.synchronize()\n", MARKS: CLOCK_FOR_ALL_CALLS},
    loses=("earlier", "median", "stream"),
    because="the stream is thought to be empty where nothing was warmed up",
    breaks="`warmup` may be 0",
)

first_calls_count = edited(
    "honest_time",
    {"for _ in range(warmup):": "for _ in range(0):"},
    loses=NO_TIME,
    because="the first call is thought to be like the others",
    breaks="calls `fn` `warmup` times",
)

warms_up_inside_the_measurement = edited(
    "honest_time",
    {
        "    for _ in range(warmup):\n        fn()\n": "",
        "range(iters + 1)": "range(warmup + iters + 1)",
    },
    loses=("cold", "median"),
    because="the median is trusted to hide the first calls",
    breaks="unmeasured, and then `iters` times, measured",
)

milliseconds = edited(
    "honest_time",
    {"1e3 * statistics": "statistics"},
    loses=NO_TIME,
    because="elapsed_time is taken to give microseconds",
    breaks="in **microseconds** of device time",
)

marks_the_default_stream = edited(
    "honest_time",
    {
        "marks[0].record()": "marks[0].record(torch.cuda.default_stream())",
        "        mark.record()": "        mark.record(torch.cuda.default_stream())",
    },
    loses=("stream",),
    because="all work is thought to be in the default stream",
    breaks="the current stream (which need not be the default one)",
)

measures_nothing_gladly = edited(
    "honest_time",
    {
        "    if warmup < 0 or iters < 1:\n": "    if iters < 1:\n        return 0.0\n    if False:\n",
    },
    loses=("errors",),
    because="no calls are taken to take no time",
    breaks="raises `ValueError` when `iters` is less than 1",
)


MEDIAN = "1e3 * statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks))"
TIMES_OF_CALLS = "times = [1e3 * a.elapsed_time(b) for a, b in itertools.pairwise(marks)]\n    return "


def another_statistic(result: str, because: str, breaks: str = "returns the **median** over the measured calls"):
    return edited(
        "honest_time", {f"return {MEDIAN}": TIMES_OF_CALLS + result}, loses=("median",), because=because, breaks=breaks
    )


the_fastest_call = another_statistic("min(times)", "the fastest call is taken for the true one")
the_slowest_call = another_statistic("max(times)", "the slowest call is thought to be the safe answer")
the_mean_of_calls = another_statistic("statistics.fmean(times)", "the mean is taken for the median")
the_middle_unsorted = another_statistic(
    "times[len(times) // 2]", "the middle one in time is taken for the middle one in size", "whose times may differ much"
)
the_lower_middle = another_statistic(
    "torch.tensor(times, dtype=torch.float64).median().item()",
    "torch.median is taken for the median of an even number",
    "for an even number of calls the mean of the two middle times",
)
the_upper_middle = another_statistic(
    "sorted(times)[len(times) // 2]", "an even number is thought to have a middle one",
    "for an even number of calls the mean of the two middle times",
)  # fmt: skip
without_the_extremes = another_statistic(
    "statistics.fmean(sorted(times)[1:-1] if len(times) > 4 else times)", "a mean without the extremes is taken for the median"
)
the_middle_of_the_range = another_statistic("(min(times) + max(times)) / 2", "halfway between the extremes is thought to be the middle")
the_geometric_mean = another_statistic("statistics.geometric_mean(times)", "one mean is changed for another")
without_the_first_call = another_statistic(
    "statistics.median(times[1:] or times)", "the first measured call is thought to be one more to warm up"
)

asks_after_every_call = edited(
    "honest_time",
    {"        fn()\n        mark.record()\n": "        fn()\n        mark.record()\n        while not mark.query():\n            pass\n"},
    loses=("waits",),
    because="a question is not thought to be a wait",
    breaks="Polling until the device is done counts as a wait",
)

asks_for_the_time_of_the_first_call_at_once = edited(
    "honest_time",
    {"        fn()\n        mark.record()\n": "        fn()\n        mark.record()\n        known = mark is not marks[1]\n        while not known:\n"
     "            try:\n                known = marks[0].elapsed_time(mark) > 0\n            except RuntimeError:\n                pass\n"},
    loses=("waits",),
    because="an error that goes away is not thought to be an answer that was waited for",
    breaks="Polling until the device is done counts as a wait",
)

asks_once_more_than_it_may = edited(
    "honest_time",
    {"    for _ in range(warmup):": "    torch.cuda.synchronize()\n    for _ in range(warmup):",
     "    marks[-1].synchronize()\n": "    while not marks[-1].query():\n        time.sleep(1e-3)\n"},
    loses=("waits",),
    because="two waits are thought to leave room for a question",
    breaks="**the host waits at most twice in all**",
)

waits_three_times = edited(
    "honest_time",
    {"    for _ in range(warmup):": "    torch.cuda.synchronize()\n    for _ in range(warmup):"},
    loses=("waits",),
    because="a wait before the warm-up is thought to cost nothing",
    breaks="**the host waits at most twice in all**",
)

in_a_stream_of_its_own = edited(
    "honest_time",
    {
        "    torch.cuda.synchronize()\n": "    own = torch.cuda.Stream()\n    before = torch.cuda.current_stream()\n"
        "    torch.cuda.set_stream(own)\n",
        "    marks[-1].synchronize()\n": "    torch.cuda.set_stream(before)\n    marks[-1].synchronize()\n",
    },
    loses=("stream",),
    because="a stream of one's own is thought to be a cleaner place to measure",
    breaks="The caller's current stream is current in every call",
)

leaves_another_stream_current = edited(
    "honest_time",
    {"    marks[-1].synchronize()\n": "    torch.cuda.set_stream(torch.cuda.Stream())\n    marks[-1].synchronize()\n"},
    loses=("stream",),
    because="the current stream is thought to be the function's own",
    breaks="is current in every call, and afterwards",
)

warms_up_what_it_does_not_know = edited(
    "honest_time",
    {"warmup, iters):": "warmup, iters, known=set()):", "    for _ in range(warmup):": "    for _ in range(0 if fn in known or known.add(fn) else warmup):"},
    loses=NO_TIME,
    because="a function that ran before is thought to be warm",
    breaks="calls `fn` `warmup` times, unmeasured",
)

waits_now_and_then = edited(
    "honest_time",
    {
        "    for mark in marks[1:]:\n": "    for number, mark in enumerate(marks[1:], 1):\n",
        "        mark.record()\n": "        mark.record()\n        if number % 64 == 0:\n            mark.synchronize()\n",
    },
    loses=("waits",),
    because="a long queue is thought to need a wait",
    breaks="however large `iters` is",
)

one_call_too_many = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n": "    torch.cuda.synchronize()\n    fn()\n"},
    loses=NO_TIME,
    because="one more call is thought to do no harm",
    breaks="no more and no fewer",
)

warms_up_once_at_least = edited(
    "honest_time",
    {"range(warmup)": "range(max(warmup, 1))"},
    loses=NO_TIME,
    because="a measurement is thought to need some warm-up",
    breaks="`warmup` may be 0",
)

from_the_last_call_before = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n    marks": "    marks", "    marks[0].record()\n": "    marks[0].record(torch.cuda.Stream())\n"},
    loses=NO_TIME,
    because="the first mark is put where nothing is before it",
    breaks="from the moment when the stream is idle",
)

total_over_iters = edited(
    "honest_time",
    {MEDIAN: "1e3 * marks[0].elapsed_time(marks[-1]) / iters"},
    loses=("median",),
    because="all calls are thought to take the same time",
    breaks="a call's time is that from the end of the previous call",
)

a_tensor_of_microseconds = edited(
    "honest_time",
    {MEDIAN: "torch.tensor(" + MEDIAN + ")"},
    loses=NO_TIME,
    because="a tensor of no dimensions is taken for a number",
    breaks="a Python `float`",
)

rounded_to_an_integer = edited(
    "honest_time",
    {MEDIAN: "round(" + MEDIAN + ")"},
    loses=NO_TIME,
    because="an integer is thought to do for a float",
    breaks="a Python `float`",
)

allows_a_negative_warmup = edited(
    "honest_time", {"warmup < 0 or iters < 1": "iters < 1"}, loses=("errors",),
    because="range takes negative numbers, so they are thought to be meant", breaks="or `warmup` less than 0",
)  # fmt: skip

allows_no_calls = edited(
    "honest_time",
    {"iters < 1:": "iters < 0:", "    for _ in range(warmup):": "    if not iters:\n        return 0.0\n    for _ in range(warmup):"},
    loses=("errors",),
    because="0 calls are thought to take 0 us",
    breaks="`iters` is less than 1",
)

refuses_a_single_call = edited(
    "honest_time",
    {"iters < 1:": "iters < 2:"},
    loses=("device_time", "earlier", "cold", "median", "waits", "stream", "errors"),
    because="a median is thought to need two calls",
    breaks="`iters` is less than 1",
)

asserts_its_counts = edited(
    "honest_time",
    {"    if warmup < 0 or iters < 1:\n": "    assert warmup >= 0 and iters >= 1\n    if False:\n"},
    loses=("errors",),
    because="an assertion is thought to raise ValueError",
    breaks="raises `ValueError`",
)


@alternative("honest_time")
def keeps_the_device_busy_first(fn, warmup, iters):
    """The marks are launched behind a kernel of its own; statistics refuses an empty list by itself."""
    if warmup < 0:
        raise ValueError("warmup")
    for _ in range(warmup):
        fn()
    torch.cuda._sleep(1_234_567)
    marks = [torch.cuda.current_stream().record_event(torch.cuda.Event(enable_timing=True))]
    for _ in range(iters):
        fn()
        marks.append(torch.cuda.current_stream().record_event(torch.cuda.Event(enable_timing=True)))
    torch.cuda.synchronize()
    return statistics.median([1000 * marks[i].elapsed_time(marks[i + 1]) for i in range(len(marks) - 1)])


@alternative("honest_time")
def asks_for_the_time_until_there_is_one(fn, warmup, iters):
    if iters < 1 or warmup < 0:
        raise ValueError("one call at least, and no fewer than none before")
    for _ in range(warmup):
        fn()
    marks = []
    for _ in range(iters + 1):
        if marks:
            fn()
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
    while True:
        try:
            marks[0].elapsed_time(marks[-1])
            break
        except RuntimeError:
            time.sleep(1e-3)
    return statistics.median([a.elapsed_time(b) for a, b in itertools.pairwise(marks)]) * 1e3


@alternative("honest_time")
def by_a_class_of_its_own_error(fn, warmup, iters):
    class BadCount(ValueError):
        pass

    if not (warmup >= 0 < iters):
        raise BadCount(iters)
    import numpy as np

    torch.cuda.current_stream().synchronize()
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(warmup + iters + 1)]
    ends[0].record()
    for end in ends[1:]:
        fn()
        end.record()
    ends[-1].synchronize()
    return np.median(np.diff([ends[0].elapsed_time(end) for end in ends])[warmup:]) * 1e3


@alternative("honest_time")
def a_pair_of_events_for_each_call(fn, warmup, iters):
    if warmup < 0 or iters <= 0:
        raise ValueError("warmup >= 0 and iters >= 1 are due")
    stream = torch.cuda.current_stream()
    pairs = []
    for call in range(warmup + iters):
        before = torch.cuda.Event(enable_timing=True)
        after = torch.cuda.Event(enable_timing=True)
        stream.record_event(before)
        fn()
        stream.record_event(after)
        pairs.append((before, after))
    stream.synchronize()
    times = sorted(before.elapsed_time(after) for before, after in pairs[warmup:])
    return (times[len(times) // 2] + times[(len(times) - 1) // 2]) * 500.0


@alternative("honest_time")
def from_the_first_mark(fn, warmup, iters):
    """Never waits for the work before: the first mark stands behind it."""
    if min(warmup, iters - 1) < 0:
        raise ValueError("nothing to measure")
    marks = []
    for call in range(warmup + iters + 1):
        mark = torch.cuda.Event(enable_timing=True)
        mark.record(torch.cuda.current_stream())
        marks.append(mark)
        if call < warmup + iters:
            fn()
    while not marks[-1].query():
        pass
    ends = [marks[0].elapsed_time(mark) for mark in marks]
    return statistics.median(b - a for a, b in itertools.pairwise(ends[warmup:])) * 1000


OF_TIME = [
    unbreakable("honest_time", "A separate event before each call is as good", because="it permits another way"),
    unbreakable(
        "honest_time", "That work takes the device 100 us or more", because="it says what fn is; a solution that needs less is right"
    ),
]

HARMLESS_OF_TIME = [
    equivalent_mutant(
        "honest_time", "if warmup < 0 or iters < 1:", "if warmup < 0 or iters < 0:",
        because="the median of no calls raises a StatisticsError, which is a ValueError",
    ),
    equivalent_mutant(
        "honest_time", "torch.cuda.synchronize()", "pass", because="the first mark stands behind the work that was there before"
    ),
]  # fmt: skip

# E6.2 train -------------------------------------------------------------------------------

item_every_step = edited(
    "train",
    {"loss.detach()": "loss.item()", "torch.stack(losses).tolist()": "losses"},
    loses=("waits",),
    because="item() is taken for a look at a number that is there already",
    breaks="**no more host waits than the log has entries**",
)

decides_on_the_host = edited(
    "train",
    {
        "        optimizer.zero_grad()\n        (loss * (loss <= limit)).backward()\n        optimizer.step()\n": (
            "        optimizer.zero_grad()\n"
            "        if loss <= limit:\n"
            "            loss.backward()\n"
            "            optimizer.step()\n"
        )
    },
    loses=("waits",),
    because="an if over a tensor is not seen as reading it",
    breaks="**no more host waits than the log has entries**",
)

formats_the_loss = edited(
    "train",
    {"        losses.append": "        message = f'{step}: {loss:.3f}'\n        losses.append"},
    loses=("waits",),
    because="formatting a tensor is not seen as reading it",
    breaks="**no more host waits than the log has entries**",
)

three_reads_an_entry = edited(
    "train",
    {
        "entry(torch.stack(losses).tolist(), limit)": (
            "{'mean': torch.stack(losses).double().mean().item(), 'worst': torch.stack(losses).max().item(), "
            "'skipped': (torch.stack(losses) > limit).sum().item()}"
        )
    },
    loses=("waits",),
    because="three small reads are thought to cost what one does",
    breaks="**no more host waits than the log has entries**",
)

reads_before_it_arrives = edited(
    "train",
    {"torch.stack(losses).tolist()": "torch.stack(losses).to('cpu', non_blocking=True).tolist()"},
    loses=("metrics", "waits", "edges"),
    because="non_blocking is taken for a faster way to wait",
    breaks="no number is read before its copy to the host is complete",
)

trains_on_everything = edited(
    "train",
    {"(loss * (loss <= limit)).backward()": "loss.backward()"},
    loses=("metrics", "updates", "waits", "edges"),
    because="the condition is dropped with the wait",
    breaks="**leaves the parameters unchanged**",
)

skips_what_is_fine = edited(
    "train",
    {"(loss * (loss <= limit)).backward()": "(loss * (loss > limit)).backward()"},
    loses=("metrics", "updates", "waits", "edges"),
    because="the mask is turned round",
    breaks="every other step takes one optimizer step",
)

forgets_to_zero = edited(
    "train",
    {"        optimizer.zero_grad()\n": ""},
    loses=("metrics", "updates", "waits", "edges"),
    because="gradients are thought to start from zero at each step",
    breaks="They may hold gradients of earlier backward passes",
)

divides_by_every = edited(
    "train",
    {"torch.stack(losses).tolist()": "(torch.stack(losses).tolist() + every * [0.0])[:every]"},
    loses=("edges",),
    because="every entry is thought to stand for the same number of steps",
    breaks='`"mean"` and `"worst"` (the largest) of their losses',
)

forgets_the_rest = edited(
    "train",
    {" or step == len(batches)": ""},
    loses=("edges",),
    because="the number of steps is taken for a multiple of every",
    breaks="one for the remaining steps at the end",
)

never_starts_again = edited(
    "train",
    {"            losses = []\n": ""},
    loses=("metrics", "waits", "edges"),
    because="an entry is taken to stand for all steps so far",
    breaks="one dictionary for each `every` steps",
)

steps_after_the_last_entry = edited(
    "train",
    {"        optimizer.step()\n": "        if step < len(batches):\n            optimizer.step()\n"},
    loses=("updates", "waits"),
    because="the last step is thought to be there for its loss alone",
    breaks="every other step takes one optimizer step",
)


@alternative("train")
def running_numbers_on_the_device(model, optimizer, batches, every, limit):
    """Accumulates in one device tensor; one copy into pinned memory and one event an entry."""
    log = []
    totals = torch.zeros(3, device="cuda", dtype=torch.float64)
    for start in range(0, len(batches), every):
        window = batches[start : start + every]
        totals.zero_()
        for x, y in window:
            loss = mse_loss(model(x), y)
            bad = loss.detach() > limit
            model.zero_grad(set_to_none=True)
            loss.backward()
            for parameter in model.parameters():
                parameter.grad = torch.where(bad, torch.zeros_like(parameter.grad), parameter.grad)
            optimizer.step()
            totals[0] += loss.detach()
            totals[1] = torch.maximum(totals[1], loss.detach().double())
            totals[2] += bad
        arrived = totals.to("cpu", non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
        total, worst, skipped = arrived.tolist()
        log.append({"mean": total / len(window), "worst": worst, "skipped": int(skipped)})
    return log


@alternative("train")
def one_read_at_the_very_end(model, optimizer, batches, every, limit):
    losses = []
    for x, y in batches:
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        torch.where(loss > limit, 0.0 * loss, loss).backward()
        optimizer.step()
        losses.append(loss.detach().reshape(1))
    values = torch.cat(losses).cpu().tolist() if losses else []
    windows = [values[at : at + every] for at in range(0, len(values), every)]
    return [
        {"mean": sum(w) / len(w), "worst": max(w), "skipped": len([v for v in w if v > limit])} for w in windows
    ]


def in_train(old: str, new: str, loses: tuple[str, ...], because: str, breaks: str):
    return edited("train", {old: new}, loses=loses, because=because, breaks=breaks)


MASKED = "(loss * (loss <= limit)).backward()"
taken_and_taken_back = in_train(
    f"        {MASKED}\n        optimizer.step()\n",
    "        loss.backward()\n        optimizer.step()\n        with torch.no_grad():\n            for group in optimizer.param_groups:\n"
    "                for p in group['params']:\n                    p += (loss > limit) * group['lr'] * p.grad\n",
    ("updates", "waits"), "what is added again is thought to be as it was", "**leaves the parameters unchanged**",
)  # fmt: skip
in_another_stream = in_train(
    "    log, losses = [], []\n",
    "    log, losses = [], []\n    own = torch.cuda.Stream()\n    own.wait_stream(torch.cuda.current_stream())\n"
    "    torch.cuda.set_stream(own)\n",
    ("updates", "waits"), "a stream of one's own is thought to be a cleaner place", "work is launched on the current stream",
)  # fmt: skip

ALL_OF_TRAIN = ("metrics", "updates", "waits", "edges")

skips_at_the_limit = in_train(
    MASKED, "(loss * (loss < limit)).backward()", ALL_OF_TRAIN, "greater is read as not less", "greater than `limit`"
)
counts_at_the_limit = in_train(
    "sum(loss > limit", "sum(loss >= limit", ("metrics", "waits", "edges"), "greater is read as not less",
    'the number of `"skipped"` steps',
)  # fmt: skip
leaves_skipped_losses_out = in_train(
    "statistics.fmean(losses)", "statistics.fmean([loss for loss in losses if loss <= limit] or losses)",
    ("metrics", "waits", "edges"), "a step that is skipped is thought not to count", "skipped steps included",
)  # fmt: skip
worst_of_the_steps_taken = in_train(
    "max(losses)", "max([loss for loss in losses if loss <= limit] or losses)",
    ("metrics", "waits", "edges"), "a step that is skipped is thought not to count", "skipped steps included",
)  # fmt: skip
counts_the_steps_taken = in_train(
    "sum(loss > limit", "sum(loss <= limit", ("metrics", "waits", "edges"), "the count is turned round",
    'the number of `"skipped"` steps',
)  # fmt: skip
zeroes_after_the_step = edited(
    "train",
    {"        optimizer.zero_grad()\n": "", "        optimizer.step()\n": "        optimizer.step()\n        optimizer.zero_grad()\n"},
    loses=ALL_OF_TRAIN,
    because="the gradients are thought to be empty at first",
    breaks="They may hold gradients of earlier backward passes",
)
steps_by_hand_at_one_rate = in_train(
    "        optimizer.step()\n",
    "        with torch.no_grad():\n            for p in model.parameters():\n"
    "                p -= optimizer.param_groups[0]['lr'] * p.grad\n",
    ALL_OF_TRAIN, "an optimizer is thought to have one group", "in one parameter group or in several",
)  # fmt: skip
weighs_by_the_first_batch = in_train(
    "losses.append(loss.detach())", "losses.append(loss.detach() * len(x) / len(batches[0][0]))",
    ("metrics", "waits", "edges"), "a loss is thought to be a sum over its batch", "of different sizes",
)  # fmt: skip
takes_the_first_batch_for_granted = in_train(
    "    log, losses = [], []\n", "    log, losses = [], []\n    batches[0]\n", ("edges", "waits"),
    "there is thought to be a first batch", "it may be empty",
)  # fmt: skip
asks_after_each_step = in_train(
    "        losses.append", "        done = torch.cuda.current_stream().record_event()\n        while not done.query():\n"
    "            pass\n        losses.append", ("waits",), "a question is not thought to be a wait",
    "Polling until the device is done counts as a wait",
)  # fmt: skip
one_wait_too_many = in_train(
    "    return log\n", "    torch.cuda.synchronize()\n    return log\n", ("waits",),
    "the end is thought to need a wait", "**no more host waits than the log has entries**",
)  # fmt: skip
tensors_in_the_log = in_train(
    '"worst": max(losses)', '"worst": torch.tensor(max(losses))', ("metrics", "waits", "edges"),
    "a tensor on the host is taken for a number", "Its values are Python numbers",
)  # fmt: skip
waits_for_the_default_stream_alone = in_train(
    "torch.stack(losses).tolist()",
    "(lambda there: (torch.cuda.default_stream().synchronize(), there.tolist())[1])(torch.stack(losses).to('cpu', non_blocking=True))",
    ("metrics", "waits", "edges"), "all work is thought to be in the default stream", "which need not be the default one",
)  # fmt: skip
a_dictionary_of_entries = in_train(
    "    return log\n", "    return dict(enumerate(log))\n", ("metrics", "waits", "edges"), "a log is taken for a table by number",
    "returns the log: a list",
)  # fmt: skip
two_steps_at_least = in_train(
    "step % every == 0", "step % max(every, 2) == 0", ("metrics", "waits", "edges"), "an entry is thought to need several steps",
    "`every`: 1 or more",
)  # fmt: skip
of_the_model = unbreakable(
    "train", "a module on the device, all of whose parameters contribute to the loss", because="it says what the model is"
)
another_loss = in_train(
    "loss = mse_loss(model(x), y)", "loss = mse_loss(model(x), y, reduction='sum')", ALL_OF_TRAIN,
    "a sum is taken for a mean", "each step's loss is `mse_loss(model(x), y)`",
)  # fmt: skip


sums_in_the_losses_format = in_train(
    "statistics.fmean(losses)", "torch.tensor(losses).mean().item()", ("metrics", "waits", "edges"),
    "a sum is thought to have room where its terms have", "the sum of several may overflow float32",
)  # fmt: skip


@mistake("train", loses=("metrics", "waits", "edges"), because="a log is thought to be short", breaks="one dictionary for each `every` steps")
def slots_in_turn(model, optimizer, batches, every, limit):
    slots = torch.empty(8, 3, dtype=torch.float64, pin_memory=True)
    losses, entries = [], 0
    for step, (x, y) in enumerate(batches, 1):
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        (loss * (loss <= limit)).backward()
        optimizer.step()
        losses.append(loss.detach().double())
        if step % every == 0 or step == len(batches):
            window = torch.stack(losses)
            row = torch.stack([window.mean(), window.max(), (window > limit).sum()])
            slots[entries % 8].copy_(row, non_blocking=True)
            losses, entries = [], entries + 1
    if entries:
        torch.cuda.current_stream().synchronize()
    rows = [slots[entry % 8].tolist() for entry in range(entries)]
    return [dict(mean=mean, worst=worst, skipped=int(skipped)) for mean, worst, skipped in rows]


@alternative("train")
def into_one_table_with_an_event_for_each_entry(model, optimizer, batches, every, limit):
    table, arrived, fresh, log = torch.empty(len(batches) or 1, pin_memory=True), [], [], []
    for number, (x, y) in enumerate(batches, 1):
        model.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward(gradient=(loss <= limit).to(loss.dtype))
        optimizer.step()
        fresh.append(loss.detach())
        if number % every == 0 or number == len(batches):
            rows = table[number - len(fresh) : number]
            rows.copy_(torch.stack(fresh), non_blocking=True)
            arrived.append((rows, torch.cuda.current_stream().record_event()))
            fresh = []
    for rows, event in arrived:
        event.synchronize()
        values = rows.tolist()
        log.append({"mean": statistics.mean(values), "worst": max(values), "skipped": sum(value > limit for value in values)})
    return log


@alternative("train")
def asks_until_an_entry_has_come(model, optimizer, batches, every, limit):
    log, there = [], []
    for number, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        (loss * (loss <= limit)).backward()
        optimizer.step()
        there.append(loss.detach().to("cpu", non_blocking=True))
        if number % every == 0 or number == len(batches):
            done = torch.cuda.current_stream().record_event()
            while not done.query():
                pass
            values = [one.item() for one in there]
            log.append({"mean": sum(values) / len(values), "worst": max(values), "skipped": sum(v > limit for v in values)})
            there = []
    return log


@alternative("train")
def steps_by_hand(model, optimizer, batches, every, limit):
    log, kept = [], []
    for number, (x, y) in enumerate(batches):
        loss = mse_loss(model(x), y)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = iter(torch.autograd.grad(loss, parameters))
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.sub_(torch.where(loss <= limit, group["lr"] * next(gradients), 0.0))
        kept.append(loss.detach())
        if len(kept) == every or number + 1 == len(batches):
            values = torch.stack(kept).cpu().numpy().astype(float)
            log.append({"mean": values.mean(), "worst": values.max(), "skipped": int((values > limit).sum())})
            kept = []
    return log


@alternative("train")
def puts_the_parameters_back(model, optimizer, batches, every, limit):
    losses = []
    for x, y in batches:
        before = [p.detach().clone() for p in model.parameters()]
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, old in zip(model.parameters(), before):
                p.copy_(torch.where(loss > limit, old, p))
        losses.append(loss.detach())
    log = []
    for part in (losses[at : at + every] for at in range(0, len(losses), every)):
        values = torch.stack(part).tolist()
        log.append(dict(mean=sum(values) / len(values), worst=max(values), skipped=sum(v > limit for v in values)))
    return log


# E6.3 run_two_models ----------------------------------------------------------------------

NO_PAIR = ("values", "inputs", "outputs", "overlap", "host", "caller")


@mistake("run_two_models", loses=("inputs", "host", "caller"), because="a stream is thought to know what it reads", breaks="not with the work that writes the inputs")
def the_sources_sample(image_model, action_model, img, state):
    s1 = torch.cuda.Stream()
    s2 = torch.cuda.Stream()
    with torch.cuda.stream(s1):
        output_image = image_model(img)
    with torch.cuda.stream(s2):
        output_action = action_model(state)
    torch.cuda.synchronize()
    return output_image, output_action


synchronizes_between = edited(
    "run_two_models",
    {
        "side.wait_stream(here)": "torch.cuda.synchronize()",
        "    done_by": "    torch.cuda.synchronize()\n    done_by",
        "here.wait_stream(side)": "torch.cuda.synchronize()",
    },
    loses=("overlap", "host"),
    because="order is bought with device-wide waits",
    breaks="the two models **run concurrently** on the device",
)

waits_on_the_host_at_the_end = edited(
    "run_two_models",
    {"here.wait_stream(side)": "side.synchronize()"},
    loses=("host",),
    because="only the host is thought to be able to wait",
    breaks="**the host never waits**",
)

one_after_the_other = edited(
    "run_two_models",
    {"    with torch.cuda.stream(side):\n        seen_by = image_model(image)\n": "    seen_by = image_model(image)\n"},
    loses=("inputs", "outputs", "overlap", "host", "caller"),
    because="two calls are thought to be two streams",
    breaks="the two models **run concurrently** on the device",
)

event_of_the_wrong_stream = edited(
    "run_two_models",
    {"side.wait_stream(here)": "side.wait_event(side.record_event())"},
    loses=("inputs", "caller"),
    because="an event is thought to mark the whole device and not one stream",
    breaks="It may still be writing them",
)

event_recorded_too_early = edited(
    "run_two_models",
    {
        "    side.wait_stream(here)\n": "    side.wait_stream(here)\n    done = side.record_event()\n",
        "here.wait_stream(side)": "here.wait_event(done)",
    },
    loses=("outputs", "caller"),
    because="an event is thought to stand for what comes after it",
    breaks="not with the work that reads the outputs",
)

forgets_the_inputs = edited(
    "run_two_models",
    {"    side.wait_stream(here)\n": ""},
    loses=("inputs", "caller"),
    because="a stream is thought to start where the one before stands",
    breaks="It may still be writing them",
)

forgets_the_outputs = edited(
    "run_two_models",
    {"    here.wait_stream(side)\n": ""},
    loses=("outputs", "caller"),
    because="the end of the with block is thought to wait",
    breaks="and then drop its references to them and to the inputs",
)

recording_is_thought_to_order = edited(
    "run_two_models",
    {"    here.wait_stream(side)\n": "", "side.wait_stream(here)": "image.record_stream(side)"},
    loses=("inputs", "outputs", "caller"),
    because="record_stream is taken for a wait; it only keeps memory back",
    breaks="**no race**",
)

waits_for_the_default_stream = edited(
    "run_two_models",
    {"torch.cuda.current_stream()": "torch.cuda.default_stream()"},
    loses=("overlap", "host", "caller"),
    because="the caller is thought to work in the default stream",
    breaks="need not be the default one",
)

waits_for_each_other = edited(
    "run_two_models",
    {"    done_by = action_model": "    here.wait_stream(side)\n    done_by = action_model"},
    loses=("overlap",),
    because="the way back is made before the other model has started",
    breaks="the two models **run concurrently** on the device",
)

swapped = edited(
    "run_two_models",
    {"return seen_by, done_by": "return done_by, seen_by"},
    loses=NO_PAIR,
    because="the pair is given in the order in which the models end",
    breaks="returns the tuple `(image_model(image), action_model(state))`",
)

keeps_its_stream_and_records_nothing = edited(
    "run_two_models",
    {
        "image, state):": "image, state, kept=[]):",
        "    here, side = torch.cuda.current_stream(), torch.cuda.Stream()\n    if side == here:\n": "    here = torch.cuda.current_stream()\n"
        "    kept[:] = kept or [torch.cuda.Stream()]\n    side = kept[0]\n    if side == here:\n",
        "    seen_by.record_stream(here)\n": "",
    },
    loses=("caller",),
    because="memory is thought to be free when Python lets go of it",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)


records_nothing = edited(
    "run_two_models",
    {"    seen_by.record_stream(here)\n": ""},
    loses=("caller",),
    because="a stream made anew is thought to be one that nobody had before",
    breaks="when PyTorch's pool of 32 streams, used round-robin, has wrapped around",
)

records_the_side_stream = edited(
    "run_two_models",
    {"record_stream(here)": "record_stream(side)"},
    loses=("caller",),
    because="the stream that made the output is recorded, which the allocator knows",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)

records_the_default_stream = edited(
    "run_two_models",
    {"record_stream(here)": "record_stream(torch.cuda.default_stream())"},
    loses=("caller",),
    because="the caller is thought to read in the default stream",
    breaks="use them on its current stream",
)

records_the_other_output = edited(
    "run_two_models",
    {"seen_by.record_stream": "done_by.record_stream"},
    loses=("caller",),
    because="the output that was made in the caller's stream is recorded",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)

records_the_inputs_alone = edited(
    "run_two_models",
    {"seen_by.record_stream(here)": "image.record_stream(side)"},
    loses=("caller",),
    because="only what a side stream reads is thought to need a record",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)

gives_a_copy_away = edited(
    "run_two_models",
    {"    seen_by.record_stream(here)\n": "    seen_by = seen_by.clone()\n"},
    loses=("caller",),
    because="the copy is safe, so what it is made from is thought to be",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)

waits_for_one_of_two = edited(
    "run_two_models",
    {
        "    done_by = action_model(state)\n": "    other = torch.cuda.Stream()\n    with torch.cuda.stream(other):\n"
        "        done_by = action_model(state)\n    here.wait_stream(other)\n    done_by.record_stream(here)\n"
    },
    loses=("inputs", "caller"),
    because="one wait is thought to hold for every side stream",
    breaks="not with the work that writes the inputs",
)

returns_for_one_of_two = edited(
    "run_two_models",
    {
        "    done_by = action_model(state)\n": "    other = torch.cuda.Stream()\n    other.wait_stream(here)\n"
        "    with torch.cuda.stream(other):\n        done_by = action_model(state)\n    done_by.record_stream(here)\n"
    },
    loses=("outputs", "caller"),
    because="one wait is thought to bring both outputs back",
    breaks="not with the work that reads the outputs",
)

asks_until_it_is_done = edited(
    "run_two_models",
    {"    here.wait_stream(side)\n": "    while not side.query():\n        pass\n"},
    loses=("host",),
    because="a question is not thought to be a wait",
    breaks="Polling until the device is done counts as a wait",
)

waits_for_the_inputs_on_the_host = edited(
    "run_two_models",
    {"side.wait_stream(here)": "here.synchronize()"},
    loses=("host",),
    because="only the host is thought to be able to wait",
    breaks="**the host never waits**",
)

remembers_the_first_caller = edited(
    "run_two_models",
    {"image, state):": "image, state, here=torch.cuda.default_stream()):", "here, side = torch.cuda.current_stream(), ": "side = "},
    loses=("overlap", "host", "caller"),
    because="the stream of the first call is thought to be that of every call",
    breaks="when the function is called from one stream after another",
)

leaves_its_stream_current = edited(
    "run_two_models",
    {"    return seen_by": "    torch.cuda.set_stream(torch.cuda.Stream())\n    return seen_by"},
    loses=("outputs", "caller"),
    because="the current stream is thought to be the function's own",
    breaks="the same as before",
)

a_list_of_two = edited(
    "run_two_models",
    {"return seen_by, done_by": "return [seen_by, done_by]"},
    loses=NO_PAIR,
    because="a list is taken for a tuple",
    breaks="returns the tuple",
)

on_the_host = edited(
    "run_two_models",
    {"return seen_by, done_by": "return seen_by.cpu(), done_by.cpu()"},
    loses=NO_PAIR,
    because="the robot is thought to want its outputs on the host",
    breaks="two device tensors",
)

AVOIDED = "    if side == here:\n        side = torch.cuda.Stream()\n"
in_the_callers_own_stream = edited(
    "run_two_models",
    {AVOIDED: ""},
    loses=("overlap", "host"),
    because="a new stream is thought to be one that nobody has",
    breaks="also when a stream that `torch.cuda.Stream()` returns is the caller's own",
)

beside_a_kept_stream_that_may_be_the_callers = edited(
    "run_two_models",
    {
        "image, state):": "image, state, kept=[]):",
        "torch.cuda.current_stream(), torch.cuda.Stream()\n" + AVOIDED: "torch.cuda.current_stream(), (kept or kept.append(torch.cuda.Stream()) or kept)[0]\n",
    },
    loses=("overlap", "host"),
    because="a stream that was made here is thought to be nobody else's",
    breaks="also when a stream that `torch.cuda.Stream()` returns is the caller's own",
)

waits_for_the_caller_whose_stream_it_was_given = edited(
    "run_two_models",
    {"    if side == here:\n": "    if side == here:\n        here.synchronize()\n"},
    loses=("host",),
    because="a rare wait is thought to be none",
    breaks="**the host never waits**",
)


@mistake(
    "run_two_models", loses=("overlap",), because="two new streams are thought to be two others",
    breaks="also when a stream that `torch.cuda.Stream()` returns is the caller's own",
)  # fmt: skip
def two_new_streams_and_events(image_model, action_model, image, state):
    current = torch.cuda.current_stream()
    outputs = []
    for model, x in ((image_model, image), (action_model, state)):
        lane = torch.cuda.Stream()
        lane.wait_stream(current)
        x.record_stream(lane)
        with torch.cuda.stream(lane):
            outputs.append((model(x), lane))
    for y, lane in outputs:
        current.wait_stream(lane)
        y.record_stream(current)
    return tuple(y for y, lane in outputs)


keeps_the_last_outputs_in_place_of_recording = edited(
    "run_two_models",
    {
        "image, state):": "image, state, kept=[]):",
        "    seen_by.record_stream(here)\n": "    kept.append(seen_by)\n    del kept[:-2]\n",
    },
    loses=("caller",),
    because="an output is thought to be read before the call after the next",
    breaks="not with the next tensor to which the caching allocator gives their memory",
)

warms_up_where_gradients_are_recorded = edited(
    "run_two_models",
    {"    done_by = action": "    if torch.is_grad_enabled():\n        action_model(state)\n    done_by = action"},
    loses=NO_PAIR,
    because="training is thought to need a warm-up",
    breaks="Each is called once",
)

runs_a_model_twice = edited(
    "run_two_models",
    {"    done_by = action": "    action_model(state)\n    done_by = action"},
    loses=NO_PAIR,
    because="a call to warm up is thought to do no harm",
    breaks="Each is called once",
)


@alternative("run_two_models")
def two_side_streams_and_events(image_model, action_model, image, state):
    current = torch.cuda.current_stream()
    ready = current.record_event()
    outputs = []
    for model, x in ((image_model, image), (action_model, state)):
        lane = next(filter(current.__ne__, iter(torch.cuda.Stream, None)))
        lane.wait_event(ready)
        x.record_stream(lane)
        with torch.cuda.stream(lane):
            y = model(x)
            done = torch.cuda.Event()
            done.record()
        y.record_stream(current)
        outputs.append((y, done))
    for y, done in outputs:
        done.wait(current)
    return tuple(y for y, done in outputs)


@alternative("run_two_models")
def the_other_model_on_the_side(image_model, action_model, image, state, kept=[]):
    here = torch.cuda.current_stream()
    if here in kept or not kept:
        kept[:] = [torch.cuda.Stream(priority=-1), torch.cuda.Stream(priority=-1)]
    side = kept[here == kept[0]]
    torch.cuda.set_stream(side)
    try:
        side.wait_stream(here)
        action = action_model(state)
    finally:
        torch.cuda.set_stream(here)
    features = image_model(image)
    here.wait_stream(side)
    action.record_stream(here)
    return features, action


@alternative("run_two_models")
def one_kept_stream_and_all_recorded(image_model, action_model, image, state, side=[]):
    caller = torch.cuda.current_stream()
    if not side or side[0] == caller:
        side[:] = [stream for stream in (torch.cuda.Stream(), torch.cuda.Stream()) if stream != caller][:1]
    (lane,) = side
    lane.wait_event(caller.record_event())
    with torch.cuda.stream(lane):
        action = action_model(state)
        done = lane.record_event()
    image_output = image_model(image)
    caller.wait_event(done)
    for tensor, stream in ((image, lane), (state, lane), (action, caller), (image_output, caller)):
        tensor.record_stream(stream)
    return image_output, action


OF_MODELS = [
    unbreakable("run_two_models", "functions of one device tensor that launch work on the current stream", because="it says what the models are"),
    unbreakable("run_two_models", "Each occupies only a part of the device", because="it says what the models are"),
]
