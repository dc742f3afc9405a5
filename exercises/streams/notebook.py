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
# # Asynchronous execution: exercises
#
# Three functions. Each is graded for its result and for what the machine did: where the host
# waited, what ran concurrently, and which memory accesses raced. Write your code where it says
# `YOUR CODE HERE`, run the cell below it, and read what it prints.
#
# The code is ordinary `torch.cuda` code. Here and in the hidden tests it runs on a virtual card,
# whose values are real and whose times are *modelled*. A race is reported when no stream order,
# event or wait orders two accesses to the same memory, whether or not they collide in this run.
# If you have a GPU, `gpulab.cuda.use("real")` in a cell of your own lets the same functions run
# there. What only a real GPU shows (clocks that rise and fall, kernels that slow each other down)
# is *not gradable here*.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools
import statistics
import time

import gpulab
import gpulab.cuda
import torch
from torch.nn.functional import mse_loss

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E6.1 `honest_time`
#
# A matrix product (GEMM), timed with two readings of the host's clock, as at the beginning of the
# chapter. Run it. How long does the product take?

# %% nbgrader={"grade": false, "grade_id": "naive_time", "locked": true, "schema_version": 3, "solution": false, "task": false}
def naive_time(fn):
    """Microseconds between two readings of the host's clock."""
    begin = time.perf_counter()
    fn()
    return 1e6 * (time.perf_counter() - begin)


a = torch.ones(1024, 1024, device="cuda")
times = [naive_time(lambda: a @ a) for _ in range(4)]
torch.cuda.synchronize()
print("naive:", [f"{t:.1f}" for t in times], "us")

# %% [markdown]
# Write `honest_time(fn, warmup, iters)`, which measures the device time of one call of `fn`:
#
# - [c1] `fn`: a function without arguments that launches work on the current stream (which need not be
#   the default one) and does not wait for it. That work takes the device 100 us or more, longer
#   than the host takes to launch it (otherwise the loop would be launch-bound, and events would
#   also time the gaps in which the device waits for the host);
# - [c2] calls `fn` `warmup` times, unmeasured, and then `iters` times, measured: no more and no
#   fewer. `warmup` may be 0. [c3] The caller's current stream is current in every call, and afterwards;
# - [c4] returns the **median** over the measured calls, whose times may differ much: for an even number
#   of calls the mean of the two middle times. [c5] It is a Python `float` in **microseconds** of device
#   time;
# - [c6] a call's time is that from the end of the previous call (or, for the first, from the moment
#   when the stream is idle) to the end of this one. A separate event before each call is as good,
#   since the queue never runs empty;
# - [c7] work that was already queued in the stream is not charged to `fn`;
# - [c8] **the host waits at most twice in all**, however large `iters` is: a wait after every call
#   would empty the queue, and then you time the launch as well. Polling until the device is done
#   counts as a wait (one wait, however often you ask);
# - [c9] raises `ValueError` when `iters` is less than 1 or `warmup` less than 0.
#
# `torch.cuda.Event(enable_timing=True)` marks a point in the stream in which it is recorded, and
# `first.elapsed_time(second)` gives the **milliseconds** between two events that are complete.

# %% nbgrader={"grade": false, "grade_id": "honest_time", "locked": false, "schema_version": 3, "solution": true, "task": false}
def honest_time(fn, warmup, iters):
    """Median microseconds that the device takes for one of iters calls, after warmup others."""
    ### BEGIN SOLUTION
    if warmup < 0 or iters < 1:
        raise ValueError(f"{warmup} calls to warm up and {iters} to measure: 0 and 1 are the least")
    for _ in range(warmup):
        fn()
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(iters + 1)]
    marks[0].record()
    for mark in marks[1:]:
        fn()
        mark.record()
    marks[-1].synchronize()
    return 1e3 * statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks))
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "honest_time_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_honest_time():
    """Your time of a matrix product, and the time of its kernel."""
    with gpulab.observe() as seen:
        measured = honest_time(lambda: a @ a, warmup=2, iters=5)
    print(seen.table(), "\n")

    assert isinstance(measured, float), f"expected a float, honest_time returned {measured!r}"
    assert len(seen.kernels) == 7, f"expected 2 + 5 calls of fn, found {len(seen.kernels)}"
    near = 0.1
    if not seen.counts_work:  # on a real card, observing costs the host more than a launch
        measured, near = honest_time(lambda: a @ a, warmup=2, iters=5), 0.5
    product = statistics.median(kernel.end_us - kernel.start_us for kernel in seen.kernels)
    print(f"honest_time {measured:8.1f} us")
    print(f"the kernel  {product:8.1f} us ({seen.device})")

    assert abs(measured - product) < near * product, (
        f"expected the kernel's {product:.1f} us, found {measured:.1f}: what did you time, in which unit?"
    )
    assert len(seen.waits) <= 2, f"expected at most 2 host waits, found {len(seen.waits)}: see the table"


_see_honest_time()

# %% nbgrader={"grade": true, "grade_id": "honest_time_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of honest_time: device time 2, work before 1, warm-up 1, median 1, host waits 1,
# current stream 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("streams.honest_time")
### END HIDDEN TESTS

# %% [markdown]
# ## E6.2 `train`
#
# A training loop that logs. It is correct, but the host waits for the device (synchronizes) again
# and again. Where? Count the lines that wait before you run the cell.

# %% nbgrader={"grade": false, "grade_id": "first_train", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _first_train(model, optimizer, batches, every, limit):
    """Train, skip the steps whose loss is above limit, log every few steps: correct, but slow."""
    log, losses = [], []
    for step, (x, y) in enumerate(batches, 1):
        loss = mse_loss(model(x), y)
        losses.append(loss.item())
        if loss <= limit:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % every == 0 or step == len(batches):
            skipped = sum(value > limit for value in losses)
            log.append({"mean": sum(losses) / len(losses), "worst": max(losses), "skipped": skipped})
            losses = []
    return log


def _a_job(steps):
    """A model, its optimizer and batches on the device, one of them with broken targets."""
    torch.manual_seed(7)
    model = torch.nn.Linear(16, 4).cuda()
    batches = [(torch.randn(32, 16).cuda(), torch.randn(32, 4).cuda()) for _ in range(steps)]
    batches[2][1].add_(1000)
    torch.cuda.synchronize()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), batches


_slow_model, _optimizer, _batches = _a_job(steps=10)
with gpulab.observe() as _seen:
    _slow_log = _first_train(_slow_model, _optimizer, _batches, every=4, limit=100.0)
print(f"{len(_seen.waits)} host waits for {len(_slow_log)} entries of the log")
for _line, _waits in itertools.groupby(sorted(_seen.waits, key=lambda w: w.line.number), key=lambda w: w.line):
    print(f"{len(list(_waits)):4} x  {_line}")

# %% [markdown]
# Write `train(model, optimizer, batches, every, limit)`, with the same log and the same
# parameters, in which the host runs ahead of the device:
#
# - [c1] `model`: a module on the device, all of whose parameters contribute to the loss. They may hold
#   gradients of earlier backward passes. [c2] `optimizer`: `torch.optim.SGD` over them, in one parameter
#   group or in several, without momentum or weight decay, so that a gradient of zeros changes
#   nothing. [c3] `batches`: a list of pairs `(x, y)` on the device, of different sizes; it may be
#   empty. `every`: 1 or more;
# - [c4] work is launched on the current stream, which need not be the default one;
# - [c5] each step's loss is `mse_loss(model(x), y)`, finite, though the sum of several may overflow
#   float32. [c6] A step whose loss is greater than `limit` **leaves the parameters unchanged**; every
#   other step takes one optimizer step;
# - [c7] returns the log: a list with one dictionary for each `every` steps, and one for the remaining
#   steps at the end. Its values are Python numbers over those steps, skipped steps included:
#   [c8] `"mean"` and `"worst"` (the largest) of their losses, and the number of `"skipped"` steps;
# - [c9] **no more host waits than the log has entries**. Polling until the device is done counts as a
#   wait (one wait, however often you ask);
# - [c10] no number is read before its copy to the host is complete.
#
# The device can make the decision itself: a comparison gives a tensor (a mask), and a tensor can
# be multiplied.

# %% nbgrader={"grade": false, "grade_id": "train", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train(model, optimizer, batches, every, limit):
    """Train without the steps whose loss is above limit; one host wait for each entry of the log."""
    ### BEGIN SOLUTION
    log, losses = [], []
    for step, (x, y) in enumerate(batches, 1):
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        (loss * (loss <= limit)).backward()
        optimizer.step()
        losses.append(loss.detach())
        if step % every == 0 or step == len(batches):
            log.append(entry(torch.stack(losses).tolist(), limit))
            losses = []
    return log


def entry(losses, limit):
    """One entry of the log, from losses that are on the host."""
    skipped = sum(loss > limit for loss in losses)
    return {"mean": statistics.fmean(losses), "worst": max(losses), "skipped": skipped}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "train_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_train():
    """The same training as in the first try: the log, the weights and the host waits."""
    model, optimizer, batches = _a_job(steps=10)
    with gpulab.observe() as seen:
        log = train(model, optimizer, batches, every=4, limit=100.0)
    print(seen.table().split("\n\n")[-1], "\n")
    assert isinstance(log, list), f"expected the log as a list, train returned {log!r}"
    for due, found in zip(_slow_log, log):
        print(due, "\n", found, sep="")

    numbers = [value for entry in log for value in entry.values()]
    assert all(isinstance(value, (int, float)) for value in numbers), f"expected Python numbers in the log, found {numbers}"
    assert len(log) == len(_slow_log), f"expected {len(_slow_log)} entries in the log, found {len(log)}"
    for due, found in zip(_slow_log, log):
        assert all(abs(due[key] - found[key]) <= 1e-4 * abs(due[key]) for key in due), f"expected the entry {due}, found {found}"
    drift = (model.weight - _slow_model.weight).abs().max().item()
    assert drift < 1e-4, f"a weight differs by {drift}: which steps must leave the parameters unchanged?"
    assert len(seen.waits) <= len(_slow_log), f"expected at most {len(_slow_log)} host waits, found {len(seen.waits)}: see the lines above"
    assert not seen.races, "a race: a number was read before its copy to the host was complete, see the lines above"


_see_train()

# %% nbgrader={"grade": true, "grade_id": "train_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of train: the log 2, the parameters 2, host waits 3, leftover steps and empty
# lists 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("streams.train")
### END HIDDEN TESTS

# %% [markdown]
# ## E6.3 `run_two_models`
#
# Two models of a robot run concurrently: one for perception, one for control. This is the
# chapter's sample, as a function. Its values happen to be right here. Run it, and read what was
# observed.

# %% nbgrader={"grade": false, "grade_id": "the_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_the_sample():
    """Both models as the sample runs them, and what was observed."""

    def the_sample(image_model, action_model, img, state):
        """The chapter's two-stream sample."""
        s1 = torch.cuda.Stream()
        s2 = torch.cuda.Stream()
        with torch.cuda.stream(s1):
            output_image = image_model(img)
        with torch.cuda.stream(s2):
            output_action = action_model(state)
        torch.cuda.synchronize()
        return output_image, output_action

    def a_model(width, cycles):
        """One layer behind a kernel that keeps a single multiprocessor busy for ``cycles`` cycles."""
        layer = torch.nn.Linear(width, width).cuda()

        def model(x):
            torch.cuda._sleep(cycles)
            return layer(x).tanh()

        return model

    torch.manual_seed(7)
    image_model, action_model = a_model(48, 1_500_000), a_model(16, 1_000_000)
    camera, joints = torch.randn(8, 48).cuda(), torch.randn(8, 16).cuda()
    torch.cuda.synchronize()

    def one_tick(run):
        """One iteration of a control loop: prepare the inputs, run both models, use their outputs."""
        img, state = (camera - 0.5) * 2, joints * 0.1
        outputs = run(image_model, action_model, img, state)
        assert isinstance(outputs, tuple), f"expected a tuple of two outputs, {run.__name__} returned {outputs!r}"
        seen_by, done_by = outputs
        return seen_by.sum() + done_by.sum()

    with torch.no_grad(), gpulab.observe() as seen:
        right = one_tick(the_sample)
    print(seen.table().split("\n\n")[-1])
    return one_tick, right, seen


_one_tick, _right, _seen = _show_the_sample()
_seen.timeline()

# %% [markdown]
# Write `run_two_models(image_model, action_model, image, state)`, which does it without a race:
#
# - [c1] `image_model`, `action_model`: functions of one device tensor that launch work on the
#   current stream, occupy a part of the device, and return one device tensor. Each is called
#   once;
# - [c2] `image`, `state`: device tensors, allocated and written on the **current stream**, which
#   need not be the default one and may still be writing them;
# - [c3] returns the tuple `(image_model(image), action_model(state))`, two device tensors;
# - [c4] the stream that was current before the call is current after it. There the caller may use
#   the outputs, immediately or later, and it may drop inputs and outputs at any time;
# - [c5] **no race**: not with the work that writes the inputs or reads the outputs, and not with
#   the next tensor to which the caching allocator gives their memory. The function may be called
#   from one stream after another, also when PyTorch's pool of 32 streams, used round-robin, has
#   wrapped around;
# - [c6] the two models **run concurrently** on the device, also when a stream that
#   `torch.cuda.Stream()` returns is the caller's own;
# - [c7] **the host never waits**. Polling until the device is done counts as a wait.

# %% nbgrader={"grade": false, "grade_id": "run_two_models", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_two_models(image_model, action_model, image, state):
    """Both models at the same time, each ordered after its input and before the caller's next work."""
    ### BEGIN SOLUTION
    here, side = torch.cuda.current_stream(), torch.cuda.Stream()
    if side == here:
        side = torch.cuda.Stream()
    side.wait_stream(here)
    with torch.cuda.stream(side):
        seen_by = image_model(image)
    done_by = action_model(state)
    # From here on the caller's stream is behind the side stream, so the inputs may be freed.
    here.wait_stream(side)
    # seen_by is from the side stream's memory: it goes back there when this stream is done.
    seen_by.record_stream(here)
    return seen_by, done_by
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "run_two_models_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_run_two_models():
    """One tick of the loop with your function."""
    torch.cuda.synchronize()  # no work of an earlier try is pending
    with torch.no_grad(), gpulab.observe() as seen:
        found = _one_tick(run_two_models)
    print(seen.table().split("\n\n")[-1])

    spins = [kernel for kernel in seen.kernels if "spin_kernel" in kernel.name]
    assert len(spins) == 2, f"expected one call of each model, found {len(spins)} calls in all"
    assert not seen.races, "a race: the lines above show two accesses that no stream order, event or wait separates"
    assert not seen.waits, "expected no host wait: see the line above"
    assert spins[0].start_us < spins[1].end_us and spins[1].start_us < spins[0].end_us, (
        "the two models did not overlap on the device: one ran after the other"
    )
    assert abs(found.item() - _right.item()) < 1e-4, f"an output is wrong: expected a sum of {_right.item():.4f}, found {found.item():.4f}"
    return seen.timeline()


_see_run_two_models()

# %% nbgrader={"grade": true, "grade_id": "run_two_models_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of run_two_models: values 1, inputs 2, outputs 2, concurrency 1, host waits 1,
# other streams 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("streams.run_two_models")
### END HIDDEN TESTS
