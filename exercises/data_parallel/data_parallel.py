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
# WRITE(data_parallel): what is graded beside the values, in exercises E14.1 and on.
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
# Data parallel ranks have the same model and batches of their own. After the backward pass every rank needs the mean of
# all ranks' gradients. To wait for the end of the backward pass and send everything then leaves the network idle during
# the one and the processor during the other; to send every gradient alone pays the latency of a message for each. So
# gradients cross in buckets, and a bucket leaves while the layers before it still go through their backward pass.
#
# The cell below starts two ranks, which begin with unlike weights, and makes them alike by a broadcast.

# %% nbgrader={"grade": false, "grade_id": "alike", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch.distributed as dist
from gpulab.collectives import run_ranks
from torch import nn


def alike(rank, world):
    """A weight that every rank draws for itself, before and after rank 0's is broadcast."""
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
# Write `mini_ddp(model, bucket_bytes)`, which makes `model` data parallel. Every rank calls it when the default process
# group is there. All tensors lie on the host:
#
# - `model`: a module with parameters of `float32` or `float64`, of any shape and strides, and buffers of any dtype. All
#   ranks have the same modules; `bucket_bytes`: an integer, 1 or more;
# - before it returns, all **parameters and buffers** hold rank 0's values in every rank, written in place. This is
#   broadcast: no other rank hands in anything;
# - it returns a function `finish`. In a step every rank calls `loss.backward()` once and then `finish()`. After that
#   **`.grad` of every parameter is the mean** over all ranks' gradients. Many steps follow each other, with
#   `optimizer.zero_grad()` between them, whose `set_to_none` is `True` or `False`;
# - gradients cross in **buckets**: from the last of `model.parameters()` to the first, each joins the bucket of the one
#   before it while that holds at most `bucket_bytes` then, and otherwise begins the next bucket. So a larger parameter
#   is alone;
# - a bucket holds one dtype: a parameter of another dtype than the one before it begins the next bucket;
# - each bucket crosses in **one all-reduce of one flat tensor** in each step, in the default process group, in the
#   bucket's dtype and without padding; nothing else crosses in a step. Its elements may be in any order that is the
#   same in all ranks, and divided by the number of ranks before or after;
# - a bucket's all-reduce is **launched as soon as** the last of its gradients is ready and all buckets before it were
#   launched: inside the backward pass, which goes on meanwhile. Buckets are launched in their order in every rank,
#   whatever the order of the gradients;
# - **nobody waits** in the backward pass: `finish` does;
# - ranks may use unlike parts of the model. A gradient that a rank does not have in a step **counts as zeros**, and the
#   rank gets the mean like any other, also where no rank has one; what cannot be launched earlier is launched by
#   `finish`;
# - a **frozen** parameter, one that does not require gradients when `mini_ddp` is called, is in no bucket, and its
#   `.grad` stays `None`;
# - two models may be alive at once, each with its own `finish`.
#
# `parameter.register_post_accumulate_grad_hook(f)` calls `f(parameter)` whenever a backward pass has written
# `parameter.grad`; `f` returns `None`. `dist.all_reduce(tensor, async_op=True)` returns a handle at once, whose `wait()`
# waits until the sum is in `tensor`; to ask it for a future waits as well.

# %% nbgrader={"grade": false, "grade_id": "mini_ddp", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mini_ddp(model, bucket_bytes):
    """Make all ranks' models alike; returns the function that waits until every gradient is the mean."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            first = tensor.contiguous()
            dist.broadcast(first, 0)
            tensor.copy_(first)

    buckets, room = [], bucket_bytes
    for parameter in reversed([p for p in model.parameters() if p.requires_grad]):
        if not buckets or parameter.nbytes > room or parameter.dtype != buckets[-1][0].dtype:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(parameter)
        room -= parameter.nbytes
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
BATCH = torch.linspace(-1, 1, 32).view(8, 4)


def made(seed):
    """Four layers of 80 bytes: 64 of weights, 16 of biases."""
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))


def trained(rank, world):
    """Two steps on this rank's part of the batch: gradients, and how many all-reduces were asked for after each layer's backward."""
    model, counts = made(seed=rank), []
    finish = mini_ddp(model, 160)
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

whole = made(seed=0)
whole(BATCH).square().mean().backward()
reduced = [entry.bytes for entry in run.journal if entry.operation == "all_reduce"]
for rank, (grads, counts) in enumerate(run.results):
    for grad, parameter in zip(grads, whole.parameters()):
        assert grad is not None, f"rank {rank} has a parameter without a gradient"
        assert torch.allclose(grad, parameter.grad, atol=1e-6), (
            f"rank {rank} does not have the gradient that one process gets with rank 0's weights and the whole batch"
        )
    assert counts == [0, 1, 1, 2, 2, 3, 3, 4], "two layers fill a bucket: its all-reduce is due with the second one's backward"
assert reduced == [160] * 4, "two buckets of 160 bytes cross in each of two steps"


# %% nbgrader={"grade": true, "grade_id": "mini_ddp_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mini_ddp: values 2, buckets 2, launched 2, no waiting 1, unused 1, mixed 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.mini_ddp")
### END HIDDEN TESTS


# %% [markdown]
# ## E14.2 `best_bucket`
#
# WRITE(best_bucket): why anyone needs it, in a sentence or two.
#
# Write `best_bucket(layers, link, buckets)`:
#
# - WRITE(best_bucket): what it is called with: shapes, dtypes, strides, devices, units;
# - WRITE(best_bucket): what it returns, and what may not happen on the way, as a copy or a second launch;
# - WRITE(best_bucket): which exception is due for which input.

# %% nbgrader={"grade": false, "grade_id": "best_bucket", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best_bucket(layers, link, buckets):
    """WRITE(best_bucket): what it does, in a line."""
    ### BEGIN SOLUTION
    raise NotImplementedError("WRITE(best_bucket): the solution")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "best_bucket_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
x = torch.arange(12).view(3, 4)  # WRITE(best_bucket): an input that shows the point
with gpulab.observe() as seen:
    result = best_bucket(layers, link, buckets)
print(seen.table())

assert False, "WRITE(best_bucket): an assertion for each point of the statement that this input shows; its message says what is due"

# %% nbgrader={"grade": true, "grade_id": "best_bucket_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of best_bucket: values 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.best_bucket")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.3 `epoch_indices`
#
# WRITE(epoch_indices): why anyone needs it, in a sentence or two.
#
# Write `epoch_indices(length, world, rank, epoch, seed)`:
#
# - WRITE(epoch_indices): what it is called with: shapes, dtypes, strides, devices, units;
# - WRITE(epoch_indices): what it returns, and what may not happen on the way, as a copy or a second launch;
# - WRITE(epoch_indices): which exception is due for which input.

# %% nbgrader={"grade": false, "grade_id": "epoch_indices", "locked": false, "schema_version": 3, "solution": true, "task": false}
def epoch_indices(length, world, rank, epoch, seed):
    """WRITE(epoch_indices): what it does, in a line."""
    ### BEGIN SOLUTION
    raise NotImplementedError("WRITE(epoch_indices): the solution")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "epoch_indices_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
x = torch.arange(12).view(3, 4)  # WRITE(epoch_indices): an input that shows the point
with gpulab.observe() as seen:
    result = epoch_indices(length, world, rank, epoch, seed)
print(seen.table())

assert False, "WRITE(epoch_indices): an assertion for each point of the statement that this input shows; its message says what is due"

# %% nbgrader={"grade": true, "grade_id": "epoch_indices_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of epoch_indices: values 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.epoch_indices")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.4 `reduce_metrics`
#
# WRITE(reduce_metrics): why anyone needs it, in a sentence or two.
#
# Write `reduce_metrics(totals)`:
#
# - WRITE(reduce_metrics): what it is called with: shapes, dtypes, strides, devices, units;
# - WRITE(reduce_metrics): what it returns, and what may not happen on the way, as a copy or a second launch;
# - WRITE(reduce_metrics): which exception is due for which input.

# %% nbgrader={"grade": false, "grade_id": "reduce_metrics", "locked": false, "schema_version": 3, "solution": true, "task": false}
def reduce_metrics(totals):
    """WRITE(reduce_metrics): what it does, in a line."""
    ### BEGIN SOLUTION
    raise NotImplementedError("WRITE(reduce_metrics): the solution")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "reduce_metrics_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
x = torch.arange(12).view(3, 4)  # WRITE(reduce_metrics): an input that shows the point
with gpulab.observe() as seen:
    result = reduce_metrics(totals)
print(seen.table())

assert False, "WRITE(reduce_metrics): an assertion for each point of the statement that this input shows; its message says what is due"

# %% nbgrader={"grade": true, "grade_id": "reduce_metrics_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of reduce_metrics: values 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.reduce_metrics")
### END HIDDEN TESTS

# %% [markdown]
# ## E14.5 `find_desync`
#
# WRITE(find_desync): why anyone needs it, in a sentence or two.
#
# Write `find_desync(logs)`:
#
# - WRITE(find_desync): what it is called with: shapes, dtypes, strides, devices, units;
# - WRITE(find_desync): what it returns, and what may not happen on the way, as a copy or a second launch;
# - WRITE(find_desync): which exception is due for which input.

# %% nbgrader={"grade": false, "grade_id": "find_desync", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_desync(logs):
    """WRITE(find_desync): what it does, in a line."""
    ### BEGIN SOLUTION
    raise NotImplementedError("WRITE(find_desync): the solution")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "find_desync_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
x = torch.arange(12).view(3, 4)  # WRITE(find_desync): an input that shows the point
with gpulab.observe() as seen:
    result = find_desync(logs)
print(seen.table())

assert False, "WRITE(find_desync): an assertion for each point of the statement that this input shows; its message says what is due"

# %% nbgrader={"grade": true, "grade_id": "find_desync_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of find_desync: values 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.find_desync")
### END HIDDEN TESTS
