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
