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
# WRITE(mini_ddp): why anyone needs it, in a sentence or two.
#
# Write `mini_ddp(model, bucket_bytes)`:
#
# - WRITE(mini_ddp): what it is called with: shapes, dtypes, strides, devices, units;
# - WRITE(mini_ddp): what it returns, and what may not happen on the way, as a copy or a second launch;
# - WRITE(mini_ddp): which exception is due for which input.

# %% nbgrader={"grade": false, "grade_id": "mini_ddp", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mini_ddp(model, bucket_bytes):
    """WRITE(mini_ddp): what it does, in a line."""
    ### BEGIN SOLUTION
    raise NotImplementedError("WRITE(mini_ddp): the solution")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mini_ddp_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
x = torch.arange(12).view(3, 4)  # WRITE(mini_ddp): an input that shows the point
with gpulab.observe() as seen:
    result = mini_ddp(model, bucket_bytes)
print(seen.table())

assert False, "WRITE(mini_ddp): an assertion for each point of the statement that this input shows; its message says what is due"

# %% nbgrader={"grade": true, "grade_id": "mini_ddp_hidden", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mini_ddp: values 1.
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
# Now and then a job reports its loss and its accuracy. A rank knows what it saw itself, and ranks seldom see as many samples. To
# gather an object at rank 0, or to reduce metric after metric, costs a wait each time; all of it fits into one small tensor.

# %% nbgrader={"grade": false, "grade_id": "reduce_metrics_ranks", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math

import torch.distributed as dist
from gpulab.collectives import run_ranks

# %% [markdown]
# Write `reduce_metrics(totals)`, which all ranks call at the same time. They are a process group of gloo, on the CPU:
#
# - `totals`: a dictionary, name to `(sum, count)`: what this rank saw of a metric since the last report, summed over its samples, and
#   how many they were;
# - a sum is a float, an int or a tensor of no dimensions, of any dtype of floats or of integers. It may require a gradient;
# - a count is an int, 0 where this rank saw none. The sum is 0 then;
# - names are strings. All ranks have the same ones, **possibly in another order**, and another call may have others;
# - returns, in every rank, a dictionary of its own: name to the **mean over all samples of all ranks**, a Python float;
# - no digit is lost: sums and counts are added in `float64`, which holds every integer up to 2^53, and no total is greater;
# - the mean is NaN where no rank saw any. A sum of NaN or infinity is seen in its own metric, and in no other;
# - **one collective** in all: an `all_reduce` that sums one `float64` tensor of two elements a name. What a rank hands in are its sums
#   and its counts, each once, in an order that is the same in all ranks;
# - so nothing is gathered, nothing sent from rank to rank, no object pickled, and nobody waits at a barrier. One rank alone may leave
#   the collective out;
# - with no names nothing crosses, and the dictionary is empty;
# - `totals` and the tensors in it stay as they are.

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
    assert isinstance(means, dict) and sorted(means) == ["grad_norm", "loss", "reward"], "every rank has a mean for each of the names"
    assert means["loss"] == 2.5, "100 in all, of 40 samples: that is neither the mean of 3 and 1 nor the sum"
    assert means["grad_norm"] == 2.0, "ranks that have their names in another order mean the same metric by them"
    assert math.isnan(means["reward"]), "nobody saw a reward: 0 would be a value that it might have had"
    assert all(type(mean) is float for mean in means.values()), "Python floats are due"
assert [(entry.operation, entry.dtype, entry.bytes) for entry in run.journal] == [("all_reduce", "float64", 48)], (
    "one all_reduce is due, of 3 sums and 3 counts in float64: see the table above"
)

# %% nbgrader={"grade": true, "grade_id": "reduce_metrics_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of reduce_metrics: mean 2, order 1, exact 1, none 1, one collective 2, kept 1.
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
