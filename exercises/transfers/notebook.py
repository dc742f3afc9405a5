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
# # Host and device, moving bytes: exercises
#
# Three functions. Each is graded for its values and for what the machine did: when copies and
# kernels ran, which memory they used, where the host waited, which accesses raced. Write your
# code where it says `YOUR CODE HERE`, run the cell below it, and read what it shows.
#
# The code is ordinary `torch.cuda` code. The cell below selects a virtual Tesla T4: the values
# are computed on the CPU, while time, streams and memory are modelled. Your functions run
# unchanged on a GPU (`gpulab.cuda.use("real")`). The hidden tests always use the virtual card,
# which gives every learner the same times; the speed of a copy on your own GPU is *not gradable
# here*.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from collections import OrderedDict, namedtuple

import gpulab
import gpulab.cuda
import torch

runtime = gpulab.cuda.use("virtual:T4")

# %% [markdown]
# ## E5.1 `overlapped`
#
# A loop that copies a batch, then computes, then copies the next leaves the card idle during
# every copy, and the link idle during every step. Each of `pin_memory`, `non_blocking` and a
# second stream is recommended as the remedy. Which of them overlaps the copies with the steps?
#
# Write `overlapped(batches, step)`:
#
# - [c1] `batches`: an iterable of host tensors in ordinary, *pageable* memory, a list or a
#   generator that can be read once, perhaps empty;
# - [c2] the tensors have one dtype, any, and one shape, of two dimensions or more. Only the last
#   may have fewer rows, at least one, and each may be non-contiguous, with gaps;
# - [c3] `step(x)` takes a batch on the device, launches kernels on the current stream without
#   waiting, and returns a new device tensor that shares no memory with `x`. It does not modify `x`.
#   Call it once for each batch, in order;
# - [c4] returns the list of results as **host tensors that can be read immediately**;
# - [c5] **copies are hidden**: while one step runs, the next batch is copied to the device, from
#   pinned (page-locked) memory. After the first, each batch takes the time of its copy or of its
#   step, whichever is longer, and not their sum;
# - [c6] **no race**: no memory is read before it is written, or overwritten or reused by the
#   caching allocator while a copy or a kernel may still need it;
# - [c7] any stream may be current, with work pending in it, and what the function allocates may be
#   memory that this work still uses and the caller has freed. No other code uses the stream that
#   `torch.cuda.Stream()` returns;
# - [c8] **host memory is bounded**: the call allocates at most **two** pinned buffers of one batch
#   each (results do not count), and at any time at most **three** batches taken from `batches` wait
#   for their step;
# - [c9] **device memory is bounded**: at most **three** batches are alive at a time, beside what
#   `step` itself allocates;
# - [c10] all streams, events and buffers are created inside the call.
#
# Staging is your own copy from pageable to pinned memory. Its time is not modelled here; with a
# real GPU it is the reason why a data loader pins batches in another thread.

# %% nbgrader={"grade": false, "grade_id": "overlapped", "locked": false, "schema_version": 3, "solution": true, "task": false}
def overlapped(batches, step):
    """step(batch) of every host batch, as host tensors; copies run behind the steps."""
    ### BEGIN SOLUTION
    compute, copies = torch.cuda.current_stream(), torch.cuda.Stream()
    slots, results = [], []
    for i, batch in enumerate(batches):
        if len(slots) < 2:
            slots.append(Slot(batch))
        slot = slots[i % 2]
        x = slot.send(batch, copies)
        compute.wait_event(slot.arrived)
        results.append(step(x))
        slot.used.record(compute)
    return [result.cpu() for result in results]


class Slot:
    """A page-locked buffer, its twin on the device, and the events that say when each is free."""

    def __init__(self, like):
        self.host = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        self.device = torch.empty(like.shape, dtype=like.dtype, device="cuda")
        self.arrived, self.used = torch.cuda.Event(), torch.cuda.Event()
        self.used.record()

    def send(self, batch, copies):
        """Put the batch under way on the stream copies; returns where on the device it arrives."""
        n = len(batch)
        self.arrived.synchronize()
        self.host[:n].copy_(batch)
        with torch.cuda.stream(copies):
            copies.wait_event(self.used)
            self.device[:n].copy_(self.host[:n], non_blocking=True)
            self.arrived.record(copies)
        return self.device[:n]
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "overlapped_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_overlapped():
    """Six batches: when copies and kernels ran, and how much of the copies was hidden."""
    from IPython.display import display

    def step(x):
        for _ in range(14):
            x = x * 1.01
        return x.sum(1)

    batches = [torch.arange(768 * 1024.0).view(768, 1024) + i for i in range(6)]
    torch.cuda.synchronize()  # no work of an earlier try is pending
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    with gpulab.observe() as seen:
        results = overlapped(batches, step)
        assert isinstance(results, list), f"expected a list, overlapped returned {results!r}"
        values = [result.clone() for result in results]  # the caller reads them immediately
    peak = torch.cuda.memory_stats()["active_bytes.all.peak"] - before

    moved = [copy for copy in seen.copies if copy.kind == "HtoD"]
    copying, computing = (sum(a.end_us - a.start_us for a in some) for some in (moved, seen.kernels))
    print(f"copies {copying:.0f} us ({sum(copy.pinned for copy in moved)} of {len(moved)} from pinned memory)")
    print(f"kernels {computing:.0f} us, {len(seen.races)} races, {peak / batches[0].nbytes:.1f} batches on the device at the peak")
    total = max(k.end_us for k in seen.kernels) - min(copy.start_us for copy in moved)
    print(f"first copy to last kernel {total:.0f} us, modelled: their sum is {copying + computing:.0f}")
    for race in seen.races:
        print(f"race, {race.kind}: {race.first_line or race.first_op}  and  {race.second_line or race.second_op}")

    display(seen.timeline())
    assert all(not r.is_cuda for r in results), "a result is still on the device"
    for x, value in zip(batches, values, strict=True):
        assert torch.allclose(value, step(x), rtol=1e-4), "a result is wrong: was it read before its copy was complete?"
    assert not seen.races, "a race: no stream order, event or wait separates two accesses to the same memory, see above"
    third = sorted(copy.start_us for copy in moved)[2 * len(moved) // len(batches)]  # both buffers exist by now
    rest = max(k.end_us for k in seen.kernels) - third
    due = (4 * max(copying, computing) + copying + computing) / 6
    print(f"third copy to last kernel {rest:.0f} us; expected {due:.0f} if each batch takes the longer of copy and step")
    if seen.device.endswith("measured"):
        print("The sizes are chosen for a T4: on another card the overlap depends on the host, and it was not checked.")
        return
    assert rest < 1.1 * due, f"the copies are not hidden behind the steps: expected at most {1.1 * due:.0f} us, found {rest:.0f}"


_see_overlapped()

# %% nbgrader={"grade": true, "grade_id": "overlapped_hidden", "locked": true, "points": 13, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of overlapped: values 2, hidden copies 4, no race 3, host memory 1, device memory 2,
# no batches, one batch and a shorter last batch 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("transfers.overlapped")
### END HIDDEN TESTS

# %% [markdown]
# ## E5.2 `transfer_time`
#
# A colleague divides 450 GB by "NVLink, 900 GB/s" and promises half a second. Another divides
# 50 GB by "InfiniBand, 400 Gb/s" and promises an eighth of a second. Both are wrong by more than
# a rounding error. How long does each transfer take?
#
# Write `transfer_time(nbytes, link, messages=1)`:
#
# - [c1] `nbytes`: the bytes sent **one way**, an integer, 0 or more;
# - [c2] `link`: a line of a datasheet, a dictionary, which is not modified:
#   - [c3] `"rate"`, a number greater than 0, integer or not, and its `"unit"`: `"GB/s"` (10^9 bytes
#     a second), `"Gb/s"` (10^9 bits a second) or `"GT/s"` (10^9 transfers a second on **each
#     lane**, one bit each);
#   - [c4] `"counts"`: `"one way"`, or `"both ways"` (bidirectional) when the rate is the sum of
#     both directions, which are equally fast;
#   - [c5] `"latency_us"`: microseconds that every message takes before its first byte arrives, a
#     message of zero bytes too;
#   - [c6] for `"GT/s"` also `"lanes"`, and `"encoding"`, a pair: of every `encoding[1]` bits on the
#     wire `encoding[0]` are data, (128, 130) in PCIe 4.0;
# - [c7] `messages`: the number of messages that carry the bytes, each sent when the previous one
#   has arrived;
# - [c8] returns **seconds**, a `float`;
# - [c9] raises `ValueError` for a unit or `counts` that is not spelt exactly as above, a rate of 0
#   or less, negative bytes, or fewer than 1 message.

# %% nbgrader={"grade": false, "grade_id": "transfer_time", "locked": false, "schema_version": 3, "solution": true, "task": false}
def transfer_time(nbytes, link, messages=1):
    """Seconds for nbytes bytes to go one way over a link, in that many messages."""
    ### BEGIN SOLUTION
    if nbytes < 0 or messages < 1 or link["rate"] <= 0:
        raise ValueError("bytes are 0 or more, messages 1 or more, a rate is greater than 0")
    if link["counts"] not in ("one way", "both ways"):
        raise ValueError(f"a rate counts 'one way' or 'both ways', not {link['counts']!r}")
    ways = 2 if link["counts"] == "both ways" else 1
    return messages * link["latency_us"] * 1e-6 + nbytes / (bytes_per_second(link) / ways)


def bytes_per_second(link):
    """What the datasheet's line says, in bytes a second."""
    rate = link["rate"] * 1e9
    if link["unit"] == "GB/s":
        return rate
    if link["unit"] == "Gb/s":
        return rate / 8
    if link["unit"] == "GT/s":
        data, sent = link["encoding"]
        return rate * link["lanes"] * data / sent / 8
    raise ValueError(f"the unit is GB/s, Gb/s or GT/s, not {link['unit']!r}")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "transfer_time_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_transfer_time():
    """One gigabyte and one page on three links."""
    LINKS = {
        "NVLink 4, one H100": {"rate": 900, "unit": "GB/s", "counts": "both ways", "latency_us": 1.0},
        "InfiniBand NDR": {"rate": 400, "unit": "Gb/s", "counts": "one way", "latency_us": 2.0},
        "PCIe 4.0 x16": {
            "rate": 16, "unit": "GT/s", "counts": "one way", "latency_us": 8.0, "lanes": 16, "encoding": (128, 130),
        },
    }  # the latencies are round numbers for this exercise
    print(f"{'':20}{'1 GB':>12}{'4 KB':>12}{'1 GB in 4 KB messages':>24}")
    for name, link in LINKS.items():
        large, small = transfer_time(10**9, link), transfer_time(4096, link)
        assert isinstance(large, float), f"expected seconds as a float, transfer_time returned {large!r}"
        many = transfer_time(10**9, link, messages=244_141)
        print(f"{name:20}{large * 1e3:>9.2f} ms{small * 1e6:>9.2f} us{many * 1e3:>21.0f} ms")

    assert abs(transfer_time(450 * 10**9, LINKS["NVLink 4, one H100"]) - 1.000001) < 1e-9, "900 GB/s counts both directions"
    assert abs(transfer_time(50 * 10**9, LINKS["InfiniBand NDR"]) - 1.000002) < 1e-9, "400 Gb/s are bits"


_see_transfer_time()

# %% nbgrader={"grade": true, "grade_id": "transfer_time_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of transfer_time: units 2, directions 1, lanes and encoding 1, latency 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("transfers.transfer_time")
### END HIDDEN TESTS

# %% [markdown]
# ## E5.3 `move_to`
#
# `model.to("cuda")` moves a model. A batch is a dictionary of tensors, lists and a string or
# two, and has no `.to`. Every training library has a function for it. What can go wrong:
# buffers stay on the host, a namedtuple comes back as a list, an optimizer updates parameters that
# the model no longer uses.
#
# Write `move_to(obj, device, non_blocking=False)`:
#
# - [c1] `obj`: a tensor, a `torch.nn.Module`, or any nesting of lists, tuples, namedtuples,
#   dictionaries and `OrderedDict`s (no other subclass of these) that contains them. No tensor of a
#   module occurs outside that module;
# - [c2] anything else in it (numbers, strings, None, sets with their elements) is kept as it is;
# - [c3] `device`: a device as `Tensor.to` accepts it, `"cpu"` too: a string, a number or a
#   `torch.device`;
# - [c4] returns the same nesting with every tensor on the device, with its shape, dtype and values.
#   Gradients flow back through a tensor that requires grad;
# - [c5] **containers keep their types** and their order, and those passed in are not modified;
# - [c6] a **module** is moved in place, as `Module.to` does it, and returned itself: parameters
#   *and buffers*, with their existing gradients;
# - [c7] an optimizer created before the move still updates the parameters that the model uses;
# - [c8] **no unnecessary copy**: a tensor that is on the device already is returned itself, and one
#   that occurs several times is copied once and stays one object;
# - [c9] nothing is cached between calls: values may have changed since the last one;
# - [c10] with `non_blocking=True` the host does not wait for copies from pinned memory, those of a
#   module's tensors included. Without it, copies are complete when the function returns.

# %% nbgrader={"grade": false, "grade_id": "move_to", "locked": false, "schema_version": 3, "solution": true, "task": false}
def move_to(obj, device, non_blocking=False):
    """obj with every tensor in it on device; modules are moved in place."""
    ### BEGIN SOLUTION
    return moved(obj, device, non_blocking, {})


def moved(obj, device, non_blocking, known):
    """``known``: what a tensor has become, by its id; the tensors stay alive in obj meanwhile."""
    def again(item):
        return moved(item, device, non_blocking, known)

    if isinstance(obj, (torch.Tensor, torch.nn.Module)):
        if id(obj) not in known:
            known[id(obj)] = obj.to(device, non_blocking=non_blocking)
        return known[id(obj)]
    if isinstance(obj, dict):
        return type(obj)((key, again(value)) for key, value in obj.items())
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*map(again, obj))
    if isinstance(obj, (list, tuple)):
        return type(obj)(map(again, obj))
    return obj
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "move_to_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_move_to():
    """Moves a nested batch to the device, then once more; then a model that has an optimizer."""
    Sample = namedtuple("Sample", "image state")
    shared = torch.ones(4)
    batch = OrderedDict(
        sample=Sample(torch.rand(2, 3, 8, 8).pin_memory(), torch.rand(2, 7).pin_memory()),
        masks=[shared.pin_memory(), None],
        instruction="reach the red cube",
    )
    batch["masks"].append(batch["masks"][0])
    with gpulab.observe() as seen:
        there = move_to(batch, "cuda", non_blocking=True)
    with gpulab.observe() as again:
        still = move_to(there, "cuda")
    for what, did in (("to the device", seen), ("once more", again)):
        sizes = [copy.bytes for copy in did.copies]
        print(f"{what:16}{len(sizes)} copies, {sum(sizes)} B, {len(did.waits)} host waits")

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    move_to({"model": model}, "cuda")
    for name, tensor in model.state_dict(keep_vars=True).items():
        print(f"{name:24}{tensor.device}")

    assert isinstance(there, dict), f"expected a dictionary, move_to returned {there!r}"
    assert type(there) is OrderedDict and type(there["sample"]) is Sample, "a container has lost its type"
    assert there["sample"].image.is_cuda, "a tensor in a namedtuple in a dictionary stayed on the host"
    assert there.get("instruction") == "reach the red cube", "a string in the batch was changed, expected it as it is"
    assert there["masks"][0] is there["masks"][2], "a tensor that occurs twice became two tensors"
    assert not seen.waits, "the host waited for non-blocking copies from pinned memory"
    assert not again.copies and still["masks"][0] is there["masks"][0], "a tensor that is already on the device was copied"
    assert all(t.is_cuda for t in model.state_dict().values()), "a parameter or a buffer of the model stayed on the host"
    live = {id(p) for p in model.parameters()}
    assert all(id(p) in live for p in optimizer.param_groups[0]["params"]), "the optimizer holds parameters that are not the model's"


_see_move_to()

# %% nbgrader={"grade": true, "grade_id": "move_to_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of move_to: nested batches 3, modules 3, no unnecessary copy 2, host waits 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("transfers.move_to")
### END HIDDEN TESTS
