"""Chapter "Asynchronous execution": wrong solutions, and right ones written another way."""

import itertools
import statistics

import torch
from torch.nn.functional import mse_loss

from autograder.authoring import alternative, edited, mistake

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
)

waits_after_every_call = edited(
    "honest_time",
    {MARKS: CLOCK_FOR_EACH_CALL},
    loses=("waits",),
    because="every call is thought to need a wait of its own",
)

mean_between_two_waits = edited(
    "honest_time",
    {MARKS: CLOCK_FOR_ALL_CALLS},
    loses=("median",),
    because="the mean is taken for what one call takes",
)

no_first_wait = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n": "", MARKS: CLOCK_FOR_ALL_CALLS},
    loses=NO_TIME,
    because="only the last wait is thought to matter",
)

waits_for_its_own_warm_up_alone = edited(
    "honest_time",
    {"    torch.cuda.synchronize()\n": "    if warmup:\n        torch.cuda.synchronize()\n", MARKS: CLOCK_FOR_ALL_CALLS},
    loses=("earlier", "median"),
    because="the stream is thought to be empty where nothing was warmed up",
)

first_calls_count = edited(
    "honest_time",
    {"for _ in range(warmup):": "for _ in range(0):"},
    loses=NO_TIME,
    because="the first call is thought to be like the others",
)

warms_up_inside_the_measurement = edited(
    "honest_time",
    {
        "    for _ in range(warmup):\n        fn()\n": "",
        "range(iters + 1)": "range(warmup + iters + 1)",
    },
    loses=("cold",),
    because="the median is trusted to hide the first calls",
)

milliseconds = edited(
    "honest_time",
    {"1e3 * statistics": "statistics"},
    loses=NO_TIME,
    because="elapsed_time is taken to give microseconds",
)

marks_the_default_stream = edited(
    "honest_time",
    {
        "marks[0].record()": "marks[0].record(torch.cuda.default_stream())",
        "        mark.record()": "        mark.record(torch.cuda.default_stream())",
    },
    loses=("stream",),
    because="all work is thought to be in the default stream",
)

measures_nothing_gladly = edited(
    "honest_time",
    {
        "    if warmup < 0 or iters < 1:\n": "    if iters < 1:\n        return 0.0\n    if False:\n",
    },
    loses=("errors",),
    because="no calls are taken to take no time",
)


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


# E6.2 train -------------------------------------------------------------------------------

item_every_step = edited(
    "train",
    {"loss.detach()": "loss.item()", "torch.stack(losses).tolist()": "losses"},
    loses=("waits",),
    because="item() is taken for a look at a number that is there already",
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
)

formats_the_loss = edited(
    "train",
    {"        losses.append": "        message = f'{step}: {loss:.3f}'\n        losses.append"},
    loses=("waits",),
    because="formatting a tensor is not seen as reading it",
)

three_reads_an_entry = edited(
    "train",
    {
        "entry(torch.stack(losses).tolist(), limit)": (
            "{'mean': torch.stack(losses).mean().item(), 'worst': torch.stack(losses).max().item(), "
            "'skipped': (torch.stack(losses) > limit).sum().item()}"
        )
    },
    loses=("waits",),
    because="three small reads are thought to cost what one does",
)

reads_before_it_arrives = edited(
    "train",
    {"torch.stack(losses).tolist()": "torch.stack(losses).to('cpu', non_blocking=True).tolist()"},
    loses=("metrics", "waits", "edges"),
    because="non_blocking is taken for a faster way to wait",
)

trains_on_everything = edited(
    "train",
    {"(loss * (loss <= limit)).backward()": "loss.backward()"},
    loses=("metrics", "updates", "waits", "edges"),
    because="the condition is dropped with the wait",
)

skips_what_is_fine = edited(
    "train",
    {"(loss * (loss <= limit)).backward()": "(loss * (loss > limit)).backward()"},
    loses=("metrics", "updates", "waits", "edges"),
    because="the mask is turned round",
)

forgets_to_zero = edited(
    "train",
    {"        optimizer.zero_grad()\n": ""},
    loses=("metrics", "updates", "waits", "edges"),
    because="gradients are thought to start from zero at each step",
)

divides_by_every = edited(
    "train",
    {"torch.stack(losses).tolist()": "(torch.stack(losses).tolist() + every * [0.0])[:every]"},
    loses=("edges",),
    because="every entry is thought to stand for the same number of steps",
)

forgets_the_rest = edited(
    "train",
    {" or step == len(batches)": ""},
    loses=("edges",),
    because="the number of steps is taken for a multiple of every",
)

never_starts_again = edited(
    "train",
    {"            losses = []\n": ""},
    loses=("metrics", "waits", "edges"),
    because="an entry is taken to stand for all steps so far",
)

steps_after_the_last_entry = edited(
    "train",
    {"        optimizer.step()\n": "        if step < len(batches):\n            optimizer.step()\n"},
    loses=("updates", "waits"),
    because="the last step is thought to be there for its loss alone",
)


@alternative("train")
def running_numbers_on_the_device(model, optimizer, batches, every, limit):
    """Accumulates in one device tensor; one copy into pinned memory and one event an entry."""
    log = []
    totals = torch.zeros(3, device="cuda")
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
            totals[1] = torch.maximum(totals[1], loss.detach())
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


# E6.3 run_two_models ----------------------------------------------------------------------

NO_PAIR = ("values", "inputs", "outputs", "overlap", "host", "caller")


@mistake("run_two_models", loses=("inputs", "host", "caller"), because="a stream is thought to know what it reads")
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
)

waits_on_the_host_at_the_end = edited(
    "run_two_models",
    {"here.wait_stream(side)": "side.synchronize()"},
    loses=("host",),
    because="only the host is thought to be able to wait",
)

one_after_the_other = edited(
    "run_two_models",
    {"    with torch.cuda.stream(side):\n        seen_by = image_model(image)\n": "    seen_by = image_model(image)\n"},
    loses=("inputs", "outputs", "overlap", "host", "caller"),
    because="two calls are thought to be two streams",
)

event_of_the_wrong_stream = edited(
    "run_two_models",
    {"side.wait_stream(here)": "side.wait_event(side.record_event())"},
    loses=("inputs", "caller"),
    because="an event is thought to mark the whole device and not one stream",
)

event_recorded_too_early = edited(
    "run_two_models",
    {
        "    side.wait_stream(here)\n": "    side.wait_stream(here)\n    done = side.record_event()\n",
        "here.wait_stream(side)": "here.wait_event(done)",
    },
    loses=("outputs", "caller"),
    because="an event is thought to stand for what comes after it",
)

forgets_the_inputs = edited(
    "run_two_models",
    {"    side.wait_stream(here)\n": ""},
    loses=("inputs", "caller"),
    because="a stream is thought to start where the one before stands",
)

forgets_the_outputs = edited(
    "run_two_models",
    {"    here.wait_stream(side)\n": ""},
    loses=("outputs", "caller"),
    because="the end of the with block is thought to wait",
)

recording_is_thought_to_order = edited(
    "run_two_models",
    {"    here.wait_stream(side)\n": "", "side.wait_stream(here)": "image.record_stream(side)"},
    loses=("inputs", "outputs", "caller"),
    because="record_stream is taken for a wait; it only keeps memory back",
)

waits_for_the_default_stream = edited(
    "run_two_models",
    {"torch.cuda.current_stream()": "torch.cuda.default_stream()"},
    loses=("caller",),
    because="the caller is thought to work in the default stream",
)

waits_for_each_other = edited(
    "run_two_models",
    {"    done_by = action_model": "    here.wait_stream(side)\n    done_by = action_model"},
    loses=("overlap",),
    because="the way back is made before the other model has started",
)

swapped = edited(
    "run_two_models",
    {"return seen_by, done_by": "return done_by, seen_by"},
    loses=NO_PAIR,
    because="the pair is given in the order in which the models end",
)

keeps_its_stream_and_records_nothing = edited(
    "run_two_models",
    {
        "image, state):": "image, state, kept=[]):",
        "    here, side = torch.cuda.current_stream(), torch.cuda.Stream()\n": "    kept.append(torch.cuda.Stream())\n"
        "    here, side = torch.cuda.current_stream(), kept[0]\n",
        "    seen_by.record_stream(here)\n": "",
    },
    loses=("caller",),
    because="memory is thought to be free when Python lets go of it",
)


@alternative("run_two_models")
def two_side_streams_and_events(image_model, action_model, image, state):
    current = torch.cuda.current_stream()
    ready = current.record_event()
    outputs = []
    for model, x in ((image_model, image), (action_model, state)):
        lane = torch.cuda.Stream()
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
    return [y for y, done in outputs]


@alternative("run_two_models")
def the_other_model_on_the_side(image_model, action_model, image, state, kept=[]):
    if not kept:
        kept.append(torch.cuda.Stream(priority=-1))
    side, here = kept[0], torch.cuda.current_stream()
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
