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
# waited, what ran at the same time, and which accesses no stream order separates. Write your
# code where it says `YOUR CODE HERE`, run the cell below it, and read what it prints.
#
# The code is ordinary `torch.cuda` code. Here and in the hidden tests it runs on a virtual card,
# whose values are real and whose times are *modelled*. A race is reported when nothing puts two
# accesses in order, whether or not they collide in this run. If you have a GPU, `gpulab.cuda.use("real")` in a cell of your own
# lets the same functions run there. What only a real GPU shows (clocks that rise and fall, kernels
# that slow each other down) is *not gradable here*.
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
# A matrix product, timed with two looks at the clock, as the chapter's opening does it. Run it.
# How long does the product take?

# %% nbgrader={"grade": false, "grade_id": "naive_time", "locked": true, "schema_version": 3, "solution": false, "task": false}
def naive_time(fn):
    """Microseconds between two looks at the host's clock."""
    begin = time.perf_counter()
    fn()
    return 1e6 * (time.perf_counter() - begin)


a = torch.ones(1024, 1024, device="cuda")
times = [naive_time(lambda: a @ a) for _ in range(4)]
torch.cuda.synchronize()
print("naive:", [f"{t:.1f}" for t in times], "us")

# %% [markdown]
# Write `honest_time(fn, warmup, iters)`, the time that the device takes for one call of `fn`:
#
# - `fn`: a function of no arguments that puts work into the current stream (which need not be
#   the default one) and does not wait for it. That work takes the device 100 us or more, longer
#   than the host takes to launch it (else the device would wait for the host between two calls,
#   and marks in the stream would time that);
# - calls `fn` `warmup` times, unmeasured, and then `iters` times, measured: no more and no
#   fewer. `warmup` may be 0. The caller's current stream is current in every call, and afterwards;
# - returns the **median** over the measured calls, which may differ much: of an even number the
#   mean of the two in the middle. It is a Python `float` in **microseconds** of the device's
#   time;
# - a call's time is that from the end of the call before (or, for the first, from the moment when
#   the stream is free) to the end of this one. A mark of its own before each call is as good,
#   since the queue is full;
# - work that was in the stream before is not charged to `fn`;
# - **the host waits at most twice in all**, however large `iters` is: a wait after every call
#   would empty the queue, and then you time the launch as well. To ask again and again whether
#   the device is done is to wait (once, until it is);
# - raises `ValueError` when `iters` is less than 1 or `warmup` less than 0.
#
# `torch.cuda.Event(enable_timing=True)` is a mark in a stream, and
# `first.elapsed_time(second)` gives **milliseconds** between two marks that are passed.

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
    """Your time of a product, and what the card took."""
    with gpulab.observe() as seen:
        measured = honest_time(lambda: a @ a, warmup=2, iters=5)
    print(seen.table(), "\n")

    assert isinstance(measured, float), f"honest_time returned {measured!r}: a float is due"
    assert len(seen.kernels) == 7, f"fn was called {len(seen.kernels)} times; 2 + 5 are due"
    near = 0.1
    if not seen.counts_work:  # a real card: to be observed costs the host more than a launch does
        measured, near = honest_time(lambda: a @ a, warmup=2, iters=5), 0.5
    product = statistics.median(kernel.end_us - kernel.start_us for kernel in seen.kernels)
    print(f"honest_time {measured:8.1f} us")
    print(f"the kernel  {product:8.1f} us ({seen.device})")

    assert abs(measured - product) < near * product, "that is not the time of the kernel: what did you time, in which unit?"
    assert len(seen.waits) <= 2, f"the host waited {len(seen.waits)} times: see the table"


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
# A training loop that logs. It is right, and its host waits for the device again and again.
# Where? Count the lines that wait before you run the cell.

# %% nbgrader={"grade": false, "grade_id": "first_train", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _first_train(model, optimizer, batches, every, limit):
    """Train, skip the steps whose loss is above limit, log every few steps: right, and slow."""
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
# - `model`: a module on the device, all of whose parameters take part in the loss. They may hold
#   gradients from before. `optimizer`: `torch.optim.SGD` over them, in one group or in several,
#   without momentum or weight decay, so that a gradient of zeros changes nothing. `batches`: a
#   list of pairs `(x, y)` on the device, of different sizes; it may be empty. `every`: 1 or more;
# - work goes into the current stream, which need not be the default one;
# - each step's loss is `mse_loss(model(x), y)`, finite, though the sum of several may be beyond
#   float32. A step whose loss is greater than `limit` **leaves the parameters as they were**;
#   every other step takes one optimizer step;
# - returns the log: a list with one dictionary for each `every` steps, and one for what is left
#   over at the end. Its values are Python numbers over those steps, the skipped ones included:
#   `"mean"` and `"worst"` of their losses, and how many were `"skipped"`;
# - **no more host waits than the log has entries**. To ask again and again whether the device is
#   done is to wait (once, until it is);
# - no number is read before it has arrived.
#
# The device can make the decision itself: a comparison gives a tensor, and a tensor can be
# multiplied.

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
    """The same training as that of the first try: its log, its weights and the host's waits."""
    model, optimizer, batches = _a_job(steps=10)
    with gpulab.observe() as seen:
        log = train(model, optimizer, batches, every=4, limit=100.0)
    print(seen.table().split("\n\n")[-1], "\n")
    assert isinstance(log, list), f"train returned {log!r}: the log is due, a list"
    for due, found in zip(_slow_log, log):
        print(due, "\n", found, sep="")

    numbers = [value for entry in log for value in entry.values()]
    assert all(isinstance(value, (int, float)) for value in numbers), f"{numbers} are not all Python numbers"
    assert len(log) == len(_slow_log), f"the log has {len(log)} entries, {len(_slow_log)} are due"
    for due, found in zip(_slow_log, log):
        assert all(abs(due[key] - found[key]) <= 1e-4 * abs(due[key]) for key in due), f"{found} is not {due}"
    drift = (model.weight - _slow_model.weight).abs().max().item()
    assert drift < 1e-4, f"a weight differs by {drift}: which steps must change nothing?"
    assert len(seen.waits) <= len(_slow_log), f"{len(seen.waits)} host waits: see the lines above"
    assert not seen.races, "a number was read before it had arrived: see the lines above"


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
# Two models of a robot run side by side: one sees, one acts. This is the chapter's sample, as a
# function. Its values come out right here. Run it, and read what the observation says.

# %% nbgrader={"grade": false, "grade_id": "the_sample", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_the_sample():
    """Both models in the sample's way, and what it did."""

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
        """One layer behind a kernel that keeps a single multiprocessor busy for so many cycles."""
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
        """What a control loop does: prepare the inputs, run both models, use what they say."""
        img, state = (camera - 0.5) * 2, joints * 0.1
        outputs = run(image_model, action_model, img, state)
        assert isinstance(outputs, tuple), f"{run.__name__} returned {outputs!r}: a tuple of two outputs is due"
        seen_by, done_by = outputs
        return seen_by.sum() + done_by.sum()

    with torch.no_grad(), gpulab.observe() as seen:
        right = one_tick(the_sample)
    print(seen.table().split("\n\n")[-1])
    return one_tick, right, seen


_one_tick, _right, _seen = _show_the_sample()
_seen.timeline()

# %% [markdown]
# Write `run_two_models(image_model, action_model, image, state)`, which does it safely:
#
# - `image_model`, `action_model`: functions of one device tensor that put work into the current
#   stream and return one device tensor. Each fills only a part of the device. Each is called once;
# - `image`, `state`: device tensors, allocated and written in the **current stream**, which need
#   not be the default one. It may still be writing them;
# - returns the tuple `(image_model(image), action_model(state))`, device tensors both. The caller
#   may use them in its current stream, the same as before, at once or later, and then let go of
#   them, and of the inputs;
# - **no race**: not with whoever writes the inputs, not with whoever reads the outputs, and not
#   with whoever is given their memory next, also when the function is called from one stream
#   after another, and when PyTorch's 32 streams, which it hands out in turn, have come round;
# - the two models **run at the same time** on the device, also when a stream that
#   `torch.cuda.Stream()` hands out is the caller's own;
# - **the host waits for nothing**. To ask again and again whether the device is done is to wait.

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
    torch.cuda.synchronize()  # nothing of an earlier try is still under way
    with torch.no_grad(), gpulab.observe() as seen:
        found = _one_tick(run_two_models)
    print(seen.table().split("\n\n")[-1])

    spins = [kernel for kernel in seen.kernels if "spin_kernel" in kernel.name]
    assert len(spins) == 2, f"the models were called {len(spins)} times: each is called once"
    assert not seen.races, "a race: the lines above say which two accesses no stream order separates"
    assert not seen.waits, "the host waited: the line is above"
    assert spins[0].start_us < spins[1].end_us and spins[1].start_us < spins[0].end_us, "one model ran after the other"
    assert abs(found.item() - _right.item()) < 1e-4, "an output is wrong"
    return seen.timeline()


_see_run_two_models()

# %% nbgrader={"grade": true, "grade_id": "run_two_models_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of run_two_models: values 1, inputs 2, outputs 2, at the same time 1, host 1,
# other streams 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("streams.run_two_models")
### END HIDDEN TESTS
