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
# Now and then a job reports its loss and its accuracy. A rank knows what it saw itself, and ranks seldom see equally
# many samples. To gather an object at rank 0, or to reduce metric after metric, costs a wait each time; all of it fits into one
# small tensor.

# %% nbgrader={"grade": false, "grade_id": "reduce_metrics_ranks", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math

import torch.distributed as dist
from gpulab.collectives import run_ranks

# %% [markdown]
# Write `reduce_metrics(totals)`, which all ranks call at the same time. They are a process group of gloo, on the CPU:
#
# - `totals`: a dictionary, name to `(sum, count)`: what this rank saw of a metric since the last report, summed over its
#   samples, and how many they were;
# - a sum is a float, an int or a tensor of no dimensions, of any dtype of floats or of integers. It may require a gradient;
# - a count is an int, 0 where this rank saw none. The sum is 0 then;
# - names are strings. All ranks have the same ones, **possibly in another order**, and another call may have others;
# - returns, in every rank, a new dictionary: name to the **mean over all samples of all ranks**, a Python float;
# - no digit is lost: sums and counts are added in `float64`, which holds every integer up to 2^53, and no total is greater;
# - the mean is NaN where no rank saw any. A sum of NaN or infinity is seen in its own metric, and in no other;
# - **one collective** in all: an `all_reduce` that sums one `float64` tensor of two elements a name. What a rank hands in are
#   its sums and its counts, each once, in an order that is the same in all ranks;
# - so nothing is gathered, nothing sent from rank to rank, no object pickled, and nobody waits at a barrier. One rank alone may
#   leave the collective out;
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
    assert isinstance(means, dict) and sorted(means) == ["grad_norm", "loss", "reward"], "every rank has a mean for each name"
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
# A job hangs, and every rank waits in some collective. A barrier to find out adds one more collective in which to hang, and
# prints of rank 0 tell of the one rank that may have done nothing wrong. Where the ranks are **now** says little either: they
# went on after they had parted. What each rank posted, in order, says more:

# %% nbgrader={"grade": false, "grade_id": "find_desync_logs", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools


def posted(*calls):
    """The log of a rank: an entry for each (op, bytes, dtype, line)."""
    return [dict(zip(("op", "bytes", "dtype", "line", "us"), (*call, 100.0 * i))) for i, call in enumerate(calls)]


GRADS = [("all_reduce", 25_000_000, "float32", "train.py:31"), ("all_reduce", 9_000_000, "float32", "train.py:31")]
METRICS = [("all_reduce", 48, "float64", "metrics.py:8")]
FINITE = [("all_reduce", 4, "float32", "clip.py:12")]

LOGS = [
    posted(*GRADS, *METRICS, *GRADS),
    posted(*GRADS, *METRICS, *GRADS),
    posted(*GRADS, *FINITE, *METRICS, *GRADS),
    posted(*GRADS, *METRICS, *GRADS),
]
for rank, log in enumerate(LOGS):
    print(f"rank {rank} has posted {len(log)}, and waits at {log[-1]['line']}")


# %% [markdown]
# Write `find_desync(logs)`:
#
# - `logs`: a list, `logs[rank]` is the log of a rank: a list of what it posted on one process group, in the order in which it
#   did. Logs may be of different lengths, and may be empty: a rank that hangs or has left posts no more;
# - an entry is a dictionary: `"op"`, `"dtype"` and `"line"` are strings, `"bytes"` is an int, 0 or more, and `"us"` is a float,
#   the time by the rank's own clock;
# - entries **agree** when they have the same op, the same bytes and the same dtype. Their lines and times may differ;
# - returns None where all logs are equally long and agree at every position. One rank alone always agrees;
# - else returns a dictionary of three:
# - `"index"`: the **first** position, from 0, at which not all ranks have entries that agree. A rank whose log has ended there
#   has none;
# - `"culprits"`: a list of the ranks, ascending, that are not of the largest party there. Ranks whose entries agree are a party.
#   Of several that are equally large, the one that has the lowest rank counts as the largest;
# - ranks whose logs have ended there are no party, and all of them are culprits, however many they are: whoever has posted waits
#   for them;
# - `"lines"`: a dictionary, from every rank to the line of its entry there, or to None where its log has ended;
# - the logs stay as they are;
# - raises `ValueError` where there are no ranks.

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
logs = [[dict(entry) for entry in log] for log in LOGS]
found = find_desync(logs)
print(f"{'':4}" + "".join(f"rank {rank:<18}" for rank in range(4)))
for index, entries in enumerate(itertools.zip_longest(*LOGS)):
    cells = [f"{entry['op']} {entry['bytes']:,}" if entry else "nothing" for entry in entries]
    here = "<- here" if found and found["index"] == index else ""
    print(f"{index:<4}" + "".join(f"{cell:<23}" for cell in cells) + here)
print(found)

assert logs == LOGS, "the logs stay as they are"
assert found is not None, "rank 2 posts a collective that the others do not"
assert found["index"] == 2, "positions 0 and 1 agree, and what differs after position 2 follows from it"
assert found["culprits"] == [2], "three ranks agree there, and rank 2 does not"
lines = {0: "metrics.py:8", 1: "metrics.py:8", 2: "clip.py:12", 3: "metrics.py:8"}
assert found["lines"] == lines, "the line of every rank at position 2"
assert find_desync(logs[:2]) is None, "ranks 0 and 1 agree all the way"
stopped = find_desync([logs[0][:3], logs[0]])
lines = {0: None, 1: "train.py:31"}
assert stopped == {"index": 3, "culprits": [0], "lines": lines}, "rank 1 waits for rank 0, which posts no more"

# %% nbgrader={"grade": true, "grade_id": "find_desync_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of find_desync: index 2, agree 1, ended 1, culprits 2, lines 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("data_parallel.find_desync")
### END HIDDEN TESTS
