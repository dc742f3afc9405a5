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
# # Data parallelism in depth: exercises
#
# Correct values are half of it. Two of these functions run on several ranks, and a separate process, out of your code's
# reach, records their communication: the number of collectives, their sizes and dtypes, when they were launched, and which
# rank waited. The other functions are local computations, which every rank must get right alone.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import torch

# %% [markdown]
# ## E14.1 `mini_ddp`
#
# Data-parallel ranks hold the same model, and each has its own batch. After the backward pass every rank needs the mean of
# all ranks' gradients. One all-reduce of all gradients after the backward pass leaves the network idle during the backward
# pass and the GPU idle during the all-reduce; one all-reduce per gradient pays a message latency for each. So gradients are
# all-reduced in buckets, and the all-reduce of a bucket overlaps with the backward pass of the layers before it.
#
# The cell below starts two ranks with different weights, and makes the weights equal with a broadcast.

# %% nbgrader={"grade": false, "grade_id": "alike", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch.distributed as dist
from gpulab.collectives import run_ranks
from torch import nn


def alike(rank, world):
    """A weight drawn with this rank's own seed, before and after the broadcast of rank 0's weight."""
    torch.manual_seed(rank)
    weight = torch.rand(2)
    before = weight.tolist()
    dist.broadcast(weight, 0)
    return before, weight.tolist()


broadcast = run_ranks(alike, 2, card="off", backend="gloo")
print(broadcast.table())
for rank, (before, after) in enumerate(broadcast.results):
    print(f"rank {rank} had {before} and has {after}")

# %% [markdown]
# Write `mini_ddp(model, bucket_bytes)`, which makes `model` data parallel. Every rank calls it after the default process
# group is initialized. All tensors are on the CPU:
#
# - [c1] `model`: a module with parameters of `float32` or `float64`, of any shape and strides, and buffers of any dtype, the same in all
#   ranks but for its values. Two of its modules may share a parameter. `bucket_bytes`: an integer, 1 or more;
# - [c2] before it returns, all **parameters and buffers** hold rank 0's values in every rank, written in place, by a broadcast: no other
#   rank contributes anything;
# - [c3] it returns a function `finish`. In a step every rank calls `loss.backward()` once and then `finish()`. After that **`.grad` of
#   every parameter is the mean** over all ranks' gradients. Many steps follow each other, with `optimizer.zero_grad()` between them,
#   whose `set_to_none` is `True` or `False`, and two models may be alive at once, each with its own `finish`;
# - [c4] gradients are all-reduced in **buckets**, which are filled as PyTorch fills them: from the last of `model.parameters()` to the
#   first, each parameter joins the open bucket of its dtype, or opens one where there is none. A bucket is full, and closed, when it
#   holds `bucket_bytes` **or more**;
# - [c5] each bucket is reduced by **one all-reduce of one flat tensor** in each step, in the default process group, in the
#   bucket's dtype and without padding; nothing else is communicated in a step. The elements of the flat tensor may be in
#   any order that is the same in all ranks, and may be divided by the number of ranks before or after the all-reduce. A single rank
#   need not communicate;
# - [c6] a bucket's all-reduce is **launched as soon as** the last of its gradients is ready and all buckets opened before it were
#   launched: inside the backward pass, which it overlaps with. Every rank launches the buckets in the order in which they were opened,
#   whatever the order in which gradients become ready;
# - [c7] **no rank waits** in the backward pass: `finish` waits;
# - [c8] ranks may use different parts of the model, and so have different unused parameters. A gradient that a rank does not
#   have in a step **counts as zeros**, and that rank gets the mean like every other rank, also where no rank has the
#   gradient; a bucket that cannot be launched earlier is launched by `finish`;
# - [c9] a **frozen** parameter, one that does not require gradients, is in no bucket, and its `.grad` stays `None`. None is frozen or
#   thawed after the call.
#
# `parameter.register_post_accumulate_grad_hook(f)` calls `f(parameter)` whenever a backward pass has accumulated into
# `parameter.grad`; `f` returns `None`. `dist.all_reduce(tensor, async_op=True)` returns a work handle at once; the handle's
# `wait()` blocks until the sum is in `tensor`. Here its `get_future()` blocks too; with gloo itself only the future's `wait()` does.

# %% nbgrader={"grade": false, "grade_id": "mini_ddp", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mini_ddp(model, bucket_bytes):
    """Make all ranks' models alike; returns the function that waits until every gradient is the mean."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            first = tensor.contiguous()
            dist.broadcast(first, 0)
            tensor.copy_(first)

    buckets, opened = [], {}
    for parameter in reversed([p for p in model.parameters() if p.requires_grad]):
        if parameter.dtype not in opened:
            opened[parameter.dtype] = []
            buckets.append(opened[parameter.dtype])
        opened[parameter.dtype].append(parameter)
        if sum(p.nbytes for p in opened[parameter.dtype]) >= bucket_bytes:
            del opened[parameter.dtype]
    awaited, launched = [len(bucket) for bucket in buckets], []

    def launch():
        bucket = buckets[len(launched)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in bucket])
        launched.append((flat, dist.all_reduce(flat, async_op=True)))

    def ready(number):
        awaited[number] -= 1
        while len(launched) < len(buckets) and awaited[len(launched)] == 0:
            launch()

    def finish():
        while len(launched) < len(buckets):
            launch()
        for bucket, (flat, work) in zip(buckets, launched):
            work.wait()
            means = (flat / dist.get_world_size()).split([p.numel() for p in bucket])
            for parameter, mean in zip(bucket, means):
                parameter.grad = mean.view(parameter.shape)
        launched.clear()
        awaited[:] = [len(bucket) for bucket in buckets]

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: ready(number))
    return finish
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mini_ddp_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_mini_ddp():
    """Two steps of two ranks: when the all-reduces were launched, and the gradients."""
    BATCH = torch.linspace(-1, 1, 32).view(8, 4)

    def made(seed):
        """Four layers of 80 bytes: 64 of weights, 16 of biases."""
        torch.manual_seed(seed)
        return nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))

    def trained(rank, world):
        """Two steps on this rank's part of the batch: gradients, and the number of all-reduces launched after each layer's backward."""
        model, counts = made(seed=rank), []
        finish = mini_ddp(model, 100)
        begun = dist.group.WORLD._get_sequence_number_for_group()
        for layer in model:
            layer.register_full_backward_hook(lambda *_: counts.append(dist.group.WORLD._get_sequence_number_for_group() - begun))
        for step in range(2):
            model.zero_grad()
            model(BATCH.chunk(world)[rank].clone().requires_grad_()).square().mean().backward()
            finish()
        return [parameter.grad for parameter in model.parameters()], counts

    run = run_ranks(trained, 2, card="off", backend="gloo")
    print(run.table())
    for rank, (_, counts) in enumerate(run.results):
        for step in range(2):
            print(f"rank {rank}, step {step}: all-reduces after the backward of layers 3, 2, 1, 0:", counts[4 * step : 4 * step + 4])

    def alone(rank, world):
        """The gradients of the whole batch, in a rank too: with a GPU, a process cannot fork ranks that run backward after its own backward."""
        whole = made(seed=0)
        whole(BATCH).square().mean().backward()
        return [parameter.grad for parameter in whole.parameters()]

    (due,) = run_ranks(alone, 1, card="off", backend="gloo").results
    reduced = [entry.bytes for entry in run.journal if entry.operation == "all_reduce"]
    for rank, (grads, counts) in enumerate(run.results):
        for grad, right in zip(grads, due):
            assert grad is not None, f"rank {rank} has a parameter whose .grad is None after finish()"
            assert torch.allclose(grad, right, atol=1e-6), (
                f"rank {rank} does not have the gradient of one process with rank 0's weights and the whole batch: "
                "look at the broadcast and at the mean"
            )
        assert counts == [0, 1, 1, 2, 2, 3, 3, 4], (
            f"rank {rank} has launched {counts} all-reduces after each layer, expected [0, 1, 1, 2, 2, 3, 3, 4]: "
            "80 bytes do not fill a bucket of 100 bytes, two layers do, and its all-reduce is launched in the backward of the second one"
        )
    assert reduced == [160] * 4, f"all-reduces of {reduced} bytes, expected two buckets of 160 bytes in each of two steps"


_see_mini_ddp()

# %% nbgrader={"grade": true, "grade_id": "mini_ddp_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mini_ddp: values 2, buckets 2, launched 2, no waiting 1, unused 1, mixed 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.mini_ddp")
### END HIDDEN TESTS


# %% [markdown]
# ## E14.2 `best_bucket`
#
# Gradients are all-reduced while the backward pass still runs, one bucket at a time. Small buckets are sent early, and each
# pays the link's latency. Large buckets pay it less often but are sent late. The best bucket size can be computed before
# anything runs. Write `best_bucket(layers, link, buckets)`:
#
# - [c1] `layers`: a list of dictionaries in the order of the backward pass, which begins with the last layer of the model.
#   `"us"`: the microseconds of its part of the backward pass, 0 or more; `"bytes"`: the bytes of its gradients, an integer, 1 or more;
# - [c2] `link`: a dictionary with `"alpha_us"`, `"bytes_per_us"` and `"ranks"`, here called n; `buckets`: a list of the candidate
#   bucket sizes, integers in bytes, all different, in any order;
# - [c3] layers follow one another without a pause, whatever is being sent. A layer's gradients are ready when its
#   microseconds are over;
# - [c4] buckets are filled in the order of `layers`, as in E14.1: the gradients of one layer are not split, and as soon as a bucket
#   holds the bucket size or more, the next gradients start a new one. The limit is the same for every bucket, including the first,
#   and what is left after the last layer is a bucket too;
# - [c5] a bucket is **ready** as soon as all gradients in it are. Buckets are all-reduced in order, one after another, and each
#   all-reduce begins as soon as its bucket is ready and the link is free;
# - [c6] an all-reduce takes `alpha_us` plus 2 (n - 1) / n times the bucket's bytes divided by `bytes_per_us`. With one rank
#   nothing is sent, which takes no time;
# - [c7] returns a dictionary with three entries. `"step_us"`: a dictionary from each size to the microseconds of the step, which
#   begins with the first layer and ends when the backward pass and the last all-reduce have ended; `"exposed_us"`: a dictionary from
#   each size to the microseconds of the step **after the backward pass ended** (exposed communication). Both are ints or floats,
#   with a rounding error of at most a billionth of the step;
# - [c8] `"best"`: the size with the shortest step, and for a tie the smallest of the tied sizes;
# - [c9] the lists and the dictionaries stay unchanged;
# - [c10] raises `ValueError` when there are no layers or no sizes, for a size or a layer's bytes less than 1, for a layer's
#   microseconds or `alpha_us` less than 0, a `bytes_per_us` of 0 or less, and `"ranks"` less than 1.

# %% nbgrader={"grade": false, "grade_id": "best_bucket", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best_bucket(layers, link, buckets):
    """Microseconds of a step, and of what is exposed of it, by bucket size in bytes; and the best of these sizes."""
    ### BEGIN SOLUTION
    n, alpha, rate = link["ranks"], link["alpha_us"], link["bytes_per_us"]
    if not layers or not buckets or min(buckets) < 1 or n < 1 or alpha < 0 or rate <= 0:
        raise ValueError(f"{len(layers)} layers, {link}, {buckets}")
    if any(layer["us"] < 0 or layer["bytes"] < 1 for layer in layers):
        raise ValueError("a layer takes no less than no time, and has a byte or more")
    backward = sum(layer["us"] for layer in layers)

    def filled(bucket):
        """(ready at, bytes) of each bucket in order."""
        now = held = 0
        for layer in layers:
            now, held = now + layer["us"], held + layer["bytes"]
            if held >= bucket:
                yield now, held
                held = 0
        if held:
            yield now, held

    def step(bucket):
        free = 0
        for ready, held in filled(bucket):
            free = max(free, ready) + alpha + 2 * (n - 1) / n * held / rate
        return float(backward if n == 1 else free)

    steps = {bucket: step(bucket) for bucket in buckets}
    exposed = {bucket: us - backward for bucket, us in steps.items()}
    return {"step_us": steps, "exposed_us": exposed, "best": min(steps, key=lambda bucket: (steps[bucket], bucket))}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "best_bucket_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_best_bucket():
    """The step time of 24 transformer blocks for 22 bucket sizes."""
    width, tokens = 1024, 8192
    block = []
    for rows, columns in ((width, 4 * width), (4 * width, width), (width, width), (3 * width, width)):
        weight = {"us": 4 * tokens * rows * columns / 150e6, "bytes": 4 * rows * columns}
        block += [{"us": 3, "bytes": 4 * rows}, weight]  # a bias, and the matrix before it
    layers = block * 24
    link = {"alpha_us": 200, "bytes_per_us": 50_000, "ranks": 16}
    found = best_bucket(layers, link, [2**power for power in range(10, 32)])

    backward = sum(layer["us"] for layer in layers)
    nbytes = sum(layer["bytes"] for layer in layers)
    print(f"the backward pass takes {backward / 1e3:.1f} ms, its gradients are {nbytes / 1e6:.0f} MB")
    for bucket, us in found["step_us"].items():
        exposed = found["exposed_us"][bucket]
        bar = "#" * round(exposed / 1000) + " best" * (bucket == found["best"])
        print(f"{bucket / 2**20:12.3f} MiB: {us / 1e3:6.1f} ms, exposed {exposed / 1e3:5.1f} ms {bar}")

    steps, last = found["step_us"], max(found["step_us"])
    assert steps[4096] > steps[found["best"]] < steps[last], (
        "expected a U: buckets that are too small pay the latency too often, buckets that are too large are sent too late"
    )
    assert abs(found["exposed_us"][last] - (200 + 30 / 16 * nbytes / 50_000)) < 1e-3, (
        "a single bucket is ready when the backward pass ends: expected its whole all-reduce to be exposed"
    )
    assert all(abs(us - backward - found["exposed_us"][bucket]) < 1e-3 for bucket, us in steps.items()), (
        "expected step_us to be the backward pass plus exposed_us, for every size"
    )
    three = [{"us": 10, "bytes": nbytes} for nbytes in (60, 40, 50)]
    small = best_bucket(three, {"alpha_us": 1, "bytes_per_us": 4, "ranks": 2}, [100, 101])
    assert small["step_us"] == {100: 59.5, 101: 68.5} and small["best"] == 100, (
        "expected 59.5 us for size 100, 68.5 us for size 101, and 100 as the best: 60 + 40 bytes fill a bucket of 100 bytes"
    )


_see_best_bucket()

# %% nbgrader={"grade": true, "grade_id": "best_bucket_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of best_bucket: cost 1, filling 2, overlap 2, exposed 1, best 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.best_bucket")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.3 `epoch_indices`
#
# Ranks shard the dataset without communication: each draws the same permutation and takes its own share of it. The bugs are
# at the edges: at the end of an epoch, at the beginning of the next one, in a job that resumes in the middle of an epoch,
# and in an evaluation that counts a sample twice. Write `epoch_indices(length, world, rank, epoch, seed, start=0,
# drop_last=False)`:
#
# - [c1] `length`: the number of samples, 0 or more; `world`: the number of ranks; `rank`: the number of this rank, from 0;
#   `epoch`: from 0; `seed`: the same in every rank. All are integers;
# - [c2] the order of an epoch is `torch.randperm(length)` with a generator on the CPU that is seeded with `seed + epoch`.
#   It is the same in every rank;
# - [c3] the ranks take turns: rank r reads the samples at positions r, r + world, r + 2 world and so on of the order;
# - [c4] every rank reads the same number of samples. Where `world` does not divide `length`, the order is padded with its own
#   samples from the beginning, several times if necessary, until `world` divides its length;
# - [c5] with `drop_last` the order is not padded: its last samples are dropped, as few as necessary;
# - [c6] `start`: the number of samples of this epoch that this rank has already read. The function returns the rest, in the
#   same order;
# - [c7] returns a dictionary with two entries, lists of Python integers, new in each call. `"indices"`: the samples that this rank
#   reads from `start` on, in order;
# - [c8] `"repeated"`: the positions in `"indices"`, from 0, of the samples with which the order was padded: another position of the
#   order holds them too, and an evaluation does not count them twice;
# - [c9] the global random states of PyTorch (on the CPU), NumPy and Python are unchanged afterwards, also after an error, and the
#   result does not depend on them;
# - [c10] raises `ValueError` for a `length` or an `epoch` less than 0, a `world` less than 1, a `rank` outside the range 0
#   to world - 1, and for a `start` less than 0 or greater than the number of samples that this rank reads in the
#   whole epoch.
#
# With `start` 0, `"indices"` equals what `torch.utils.data.DistributedSampler` yields.

# %% nbgrader={"grade": false, "grade_id": "epoch_indices", "locked": false, "schema_version": 3, "solution": true, "task": false}
def epoch_indices(length, world, rank, epoch, seed, start=0, drop_last=False):
    """What this rank reads in an epoch from its sample ``start`` on, and which of it was read before."""
    ### BEGIN SOLUTION
    if length < 0 or epoch < 0 or not 0 <= rank < world:
        raise ValueError(f"{length} samples for rank {rank} of {world} in epoch {epoch}")
    turns = length // world if drop_last else -(-length // world)
    if not 0 <= start <= turns:
        raise ValueError(f"the rank reads {turns} samples and has had {start}")
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    places = range(rank, turns * world, world)[start:]
    indices = [order[place % length] for place in places]
    return {"indices": indices, "repeated": [position for position, place in enumerate(places) if place >= length]}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "epoch_indices_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_epoch_indices():
    """The samples that each rank reads, compared with DistributedSampler."""
    from torch.utils.data import DistributedSampler

    LENGTH, WORLD = 10, 4
    before = torch.get_rng_state()
    for epoch in range(2):
        for rank in range(WORLD):
            found = epoch_indices(LENGTH, WORLD, rank, epoch, seed=5)
            shown = [f"{index}{'*' * (position in found['repeated'])}" for position, index in enumerate(found["indices"])]
            print(f"epoch {epoch}, rank {rank}: {'  '.join(f'{sample:3}' for sample in shown)}")
    print("* was read before: an evaluation that counts it counts 12 samples where there are 10")

    for length, world in ((10, 4), (12, 4), (3, 8), (1, 3), (0, 2), (1000, 7)):
        for epoch in range(2):
            for drop_last in (False, True):
                for rank in range(world):
                    sampler = DistributedSampler(range(length), world, rank, seed=5, drop_last=drop_last)
                    sampler.set_epoch(epoch)
                    found = epoch_indices(length, world, rank, epoch, 5, drop_last=drop_last)
                    assert found["indices"] == list(sampler), (
                        f"rank {rank} of {world} reads {found['indices']} of {length} samples, expected {list(sampler)} as from DistributedSampler"
                    )

    whole, left = epoch_indices(10, 4, 2, 1, 5), epoch_indices(10, 4, 2, 1, 5, start=2)
    assert left["indices"] == whole["indices"][2:], "expected with start=2 the rest of the same epoch, without its first 2 samples"
    assert whole["repeated"] == [2] and left["repeated"] == [0], (
        "expected [2] for the whole epoch and [0] with start=2: ranks 2 and 3 end with padding, the first samples of ranks 0 and 1"
    )
    assert torch.equal(before, torch.get_rng_state()), "the global random state of PyTorch has changed, expected the same state as before"


_see_epoch_indices()

# %% nbgrader={"grade": true, "grade_id": "epoch_indices_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of epoch_indices: order 2, padding 2, repeated 1, dropped 1, resumed 1, random 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.epoch_indices")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.4 `reduce_metrics`
#
# A job logs its loss and its accuracy at intervals. A rank knows only its own samples, and ranks seldom see the same number of
# them. Gathering objects at rank 0, or one all-reduce per metric, makes the ranks wait each time; all metrics fit into one small
# tensor.

# %% nbgrader={"grade": false, "grade_id": "reduce_metrics_ranks", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math

import torch.distributed as dist
from gpulab.collectives import run_ranks

# %% [markdown]
# Write `reduce_metrics(totals)`, which all ranks call at the same time. They form a process group with the gloo backend, on the
# CPU:
#
# - [c1] `totals`: a dictionary, name to `(sum, count)`: the sum of a metric over this rank's samples since the last report, and the
#   number of these samples, an int. Where this rank saw none, both are 0;
# - [c2] a sum is a float, an int or a zero-dimensional tensor of any floating-point or integer dtype. It may require a gradient;
# - [c3] names are strings. All ranks have the same names, **possibly in a different order**, and another call may have other names;
# - [c4] returns, in every rank, a new dictionary: name to the **mean over all samples of all ranks**, a Python float;
# - [c5] no precision is lost: sums and counts are added in `float64`, which represents every integer up to 2^53, and no total is greater;
# - [c6] the mean is NaN where no rank saw any samples. A sum of NaN or infinity shows in the mean of its own metric, and of no other;
# - [c7] **one collective** in total: an `all_reduce` that sums one `float64` tensor with two elements per name, each rank's sums and
#   counts, in an order that is the same in all ranks. Nothing else is sent, and no rank waits at a barrier;
# - [c8] a single rank may skip the collective. With no names nothing is communicated, and the dictionary is empty;
# - [c9] `totals` and the tensors in it stay unchanged.

# %% nbgrader={"grade": false, "grade_id": "reduce_metrics", "locked": false, "schema_version": 3, "solution": true, "task": false}
def reduce_metrics(totals):
    """Mean of every metric over the samples of all ranks, as floats, by one all-reduce of all sums and counts."""
    ### BEGIN SOLUTION
    if not totals:
        return {}
    names = sorted(totals)
    with torch.no_grad():
        packed = torch.stack([torch.as_tensor(number, dtype=torch.float64) for name in names for number in totals[name]])
    dist.all_reduce(packed)
    sums, counts = packed.view(-1, 2).unbind(1)
    return dict(zip(names, (sums / counts).tolist()))  # of 0 samples: 0 / 0 is NaN
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "reduce_metrics_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_reduce_metrics():
    """The means of two ranks."""
    SEEN = [
        {"loss": (torch.tensor(90.0), 30), "grad_norm": (2.5, 1), "reward": (0.0, 0)},
        {"reward": (0.0, 0), "loss": (torch.tensor(10.0), 10), "grad_norm": (1.5, 1)},
    ]

    def reported(rank, world):
        return reduce_metrics(SEEN[rank])

    run = run_ranks(reported, 2, card="off", backend="gloo")
    print(run.table())
    for rank, means in enumerate(run.results):
        print(f"rank {rank} of its own: loss {float(SEEN[rank]['loss'][0]) / SEEN[rank]['loss'][1]}, of all: {means}")

    for means in run.results:
        assert isinstance(means, dict) and sorted(means) == ["grad_norm", "loss", "reward"], (
            "expected a dictionary with a mean for each name, in every rank"
        )
        assert means["loss"] == 2.5, "expected loss 2.5, 100 over 40 samples: not the mean of the means 3 and 1, nor a sum"
        assert means["grad_norm"] == 2.0, "expected grad_norm 2.0: a name is the same metric in all ranks, in any order of the names"
        assert math.isnan(means["reward"]), "expected NaN: no rank saw a reward, and 0 could be a real mean"
        assert all(type(mean) is float for mean in means.values()), "expected Python floats"
    assert [(entry.operation, entry.dtype, entry.bytes) for entry in run.journal] == [("all_reduce", "float64", 48)], (
        "expected one all_reduce, of 3 sums and 3 counts in float64 (48 bytes): see the table above"
    )


_see_reduce_metrics()

# %% nbgrader={"grade": true, "grade_id": "reduce_metrics_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of reduce_metrics: mean 2, order 1, exact 1, none 1, one collective 2, kept 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.reduce_metrics")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.5 `find_desync`
#
# A job hangs, and every rank waits in some collective. A barrier for debugging adds one more collective in which to hang, and
# prints on rank 0 show only one rank, which may have done nothing wrong. Where the ranks are **now** says little either: they
# went on after they had diverged (a *desync*). The log of the collectives that each rank posted, in order, says more:

# %% nbgrader={"grade": false, "grade_id": "find_desync_logs", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools


def _posted(*calls):
    """The log of a rank: an entry for each (op, bytes, dtype, line)."""
    return [dict(zip(("op", "bytes", "dtype", "line", "us"), (*call, 100.0 * i))) for i, call in enumerate(calls)]


_GRADS = [("all_reduce", 25_000_000, "float32", "train.py:31"), ("all_reduce", 9_000_000, "float32", "train.py:31")]
_METRICS = [("all_reduce", 48, "float64", "metrics.py:8")]
_FINITE = [("all_reduce", 4, "float32", "clip.py:12")]

_LOGS = [
    _posted(*_GRADS, *_METRICS, *_GRADS),
    _posted(*_GRADS, *_METRICS, *_GRADS),
    _posted(*_GRADS, *_FINITE, *_METRICS, *_GRADS),
    _posted(*_GRADS, *_METRICS, *_GRADS),
]
for _rank, _log in enumerate(_LOGS):
    print(f"rank {_rank} has posted {len(_log)}, and waits at {_log[-1]['line']}")

# %% [markdown]
# Write `find_desync(logs)`:
#
# - [c1] `logs`: a list, `logs[rank]` is the log of a rank: a list of the collectives that it posted on one process group, in the order
#   of posting. Logs may be of different lengths, and may be empty: a rank that hangs or has exited posts no more;
# - [c2] an entry is a dictionary: `"op"`, `"dtype"` and `"line"` are strings, `"bytes"` is an int, 0 or more, and `"us"` is a float,
#   the time by the rank's own clock;
# - [c3] entries **agree** when they have the same op, the same bytes and the same dtype. Their lines and times may differ;
# - [c4] returns None where all logs have the same length and agree at every position, as the log of a single rank always does;
# - [c5] otherwise returns a dictionary with three entries. `"index"`: the **first** position, from 0, at which not all ranks have
#   entries that agree. A rank whose log has ended there has no entry;
# - [c6] `"culprits"`: a list of the ranks, ascending, that are not in the largest group at that position. Ranks whose entries agree
#   form a group. Of several groups of equal size, the one that has the lowest rank counts as the largest;
# - [c7] ranks whose logs have ended there form no group, and all of them are culprits, however many they are: the ranks that have posted
#   wait for them;
# - [c8] `"lines"`: a dictionary from every rank to the line of its entry there, or to None where its log has ended;
# - [c9] the logs stay unchanged;
# - [c10] raises `ValueError` where there are no ranks.

# %% nbgrader={"grade": false, "grade_id": "find_desync", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_desync(logs):
    """Where the logs of the ranks part, who is to blame and on which lines; None where they agree."""
    ### BEGIN SOLUTION
    if not logs:
        raise ValueError("there are no ranks")
    for index, entries in enumerate(itertools.zip_longest(*logs)):
        posted = [entry and (entry["op"], entry["bytes"], entry["dtype"]) for entry in entries]
        if len(set(posted)) > 1:
            largest = max(filter(None, posted), key=posted.count)  # the first of equal ones
            culprits = [rank for rank, what in enumerate(posted) if what != largest]
            lines = {rank: entry and entry["line"] for rank, entry in enumerate(entries)}
            return {"index": index, "culprits": culprits, "lines": lines}
    return None
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "find_desync_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_find_desync():
    """Four logs side by side, and the position where they diverge."""
    logs = [[dict(entry) for entry in log] for log in _LOGS]
    found = find_desync(logs)
    print(f"{'':4}" + "".join(f"rank {rank:<18}" for rank in range(4)))
    for index, entries in enumerate(itertools.zip_longest(*_LOGS)):
        cells = [f"{entry['op']} {entry['bytes']:,}" if entry else "nothing" for entry in entries]
        here = "<- here" if found and found["index"] == index else ""
        print(f"{index:<4}" + "".join(f"{cell:<23}" for cell in cells) + here)
    print(found)

    assert logs == _LOGS, "the logs have changed, expected them unchanged"
    assert found is not None, "found None, expected a dictionary: rank 2 posts a collective that the others do not"
    assert found["index"] == 2, "expected index 2: positions 0 and 1 agree, and differences after position 2 follow from it"
    assert found["culprits"] == [2], "expected culprits [2]: three ranks agree at position 2, and rank 2 does not"
    lines = {0: "metrics.py:8", 1: "metrics.py:8", 2: "clip.py:12", 3: "metrics.py:8"}
    assert found["lines"] == lines, "expected the line of every rank's entry at position 2"
    assert find_desync(logs[:2]) is None, "expected None: ranks 0 and 1 agree at every position"
    stopped = find_desync([logs[0][:3], logs[0]])
    lines = {0: None, 1: "train.py:31"}
    assert stopped == {"index": 3, "culprits": [0], "lines": lines}, (
        "expected index 3 and culprits [0]: rank 1 waits for rank 0, which posts no more"
    )


_see_find_desync()

# %% nbgrader={"grade": true, "grade_id": "find_desync_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of find_desync: index 2, agree 1, ended 1, culprits 2, lines 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.find_desync")
### END HIDDEN TESTS
