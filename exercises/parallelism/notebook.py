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
# # Tensor, pipeline and 3D parallelism: exercises
#
# A layer is taken apart over ranks, a model into stages, and a job into both and into replicas of that. What is graded is
# what crosses between ranks, and whether a plan could run: values alone say neither.
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
# ## E16.1 `tensor_parallel_mlp`
#
# The interview notes split a weight by columns, and gather the output behind it. An MLP has two layers, and the second can take
# what the first has left on each rank. The cell below lets PyTorch do it both ways on two ranks, forward and
# backward, and prints what crosses. `nn.Linear` keeps its weight transposed: the notes' columns are rows of `weight`.

# %% nbgrader={"grade": false, "grade_id": "tensor_parallel_mlp_torch", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch.distributed as dist
from gpulab.collectives import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

ROWS = torch.linspace(-2, 2, 5 * 6).view(5, 6)


def whole_mlp():
    torch.manual_seed(0)
    return nn.Linear(6, 8), nn.Linear(8, 6)


def by_pytorch(plan):
    """One way of splitting the two layers, by PyTorch."""

    def make(up, down):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        return parallelize_module(nn.Sequential(up, nn.GELU(), down), mesh, plan)

    return make


def one_step(rank, world, make):
    """The output, the gradient of the input, and those of the rank's parameters."""
    part, x = make(*whole_mlp()), ROWS.clone().requires_grad_()
    out = part(x)
    out.square().sum().backward()
    grads = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in part.parameters()]
    return out.detach(), x.grad, grads


def shown(name, make, ranks=2):
    run = run_ranks(one_step, ranks, args=(make,), card="off", backend="gloo")
    print(f"{name}: {len(run.journal)} collectives")
    for entry in run.journal:
        print(f"   {entry.operation:14} {entry.reduces:4} {entry.bytes:4} bytes, ranks {entry.ranks}")
    return run


gathering = ColwiseParallel(output_layouts=Replicate())
shown("by columns, gathered, twice", by_pytorch({"0": gathering, "2": gathering}))
of_torch = shown("by columns, then by rows", by_pytorch({"0": ColwiseParallel(), "2": RowwiseParallel()}))

# %% [markdown]
# Write `tensor_parallel_mlp(up, down)`. All n ranks of the default process group call it, with tensors on the host:
#
# - [c1] `up` and `down` are `nn.Linear`s of one dtype, `float32` or `float64`, each with a bias or without. [c2] They have the same values
#   in all ranks, and the MLP is `down(gelu(up(x)))`, with `torch.nn.functional.gelu`;
# - [c3] it returns an `nn.Module` whose `parameters()` are this rank's **share**, in this order: [c4] the r-th of n equal parts of the
#   rows of `up.weight`; [c5] the same part of `up.bias`; [c6] the same part of the **columns** of `down.weight`; [c7] and `down.bias`, whole, in
#   every rank. [c8] A bias that is not there is left out;
# - [c9] they are new `nn.Parameter`s that require gradients, each in memory of its own and of its size: [c10] nothing of the whole
#   layers is kept. [c11] `up` and `down` stay as they are;
# - [c12] called with x, of any number of dimensions, the last of which is `up.in_features`, and any strides, the module returns the output of
#   the whole MLP, in every rank. [c13] It computes with what the ranks' parameters **hold at the time**: [c14] an optimizer, or a
#   checkpoint, may have written to them since. [c15] x is the same in all ranks;
# - [c16] `down.bias` is added **once**;
# - [c17] **forward**: one all-reduce crosses, a sum in the default process group, in the dtype of x. [c18] What a rank hands in is what
#   its own share contributes to the output, without `down.bias`. [c19] With gradients or without, nothing else crosses;
# - [c20] **backward**: every rank has the same gradient of the output. [c21] In each `.grad` a rank gets its share of the gradient that
#   the whole MLP's parameter has, and x, where it requires gradients, gets the **whole gradient** in every rank;
# - [c22] for this one all-reduce crosses, a sum: [c23] a rank hands in what comes to x through its own share. [c24] Where x requires no
#   gradients, **nothing crosses** in the backward pass;
# - [c25] the module may be called several times before a backward pass, and several may follow one another;
# - [c26] nothing crosses in `tensor_parallel_mlp` itself. [c27] One rank alone may leave all collectives out;
# - [c28] raises `ValueError` where n does not divide `up.out_features`, and where `down.in_features` is another number.

# %% nbgrader={"grade": false, "grade_id": "tensor_parallel_mlp", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tensor_parallel_mlp(up, down):
    """This rank's share of an MLP whose first layer is split by columns and whose second is split by rows."""
    ### BEGIN SOLUTION
    ranks = dist.get_world_size()
    if up.out_features != down.in_features or up.out_features % ranks:
        raise ValueError(f"{up.out_features} features, {down.in_features} taken, {ranks} ranks")
    share = up.out_features // ranks
    return Share(up, down, slice(share * dist.get_rank(), share * (dist.get_rank() + 1)))


class Share(nn.Module):
    def __init__(self, up, down, part):
        super().__init__()
        self.up_weight = own(up.weight[part])
        self.up_bias = None if up.bias is None else own(up.bias[part])
        self.down_weight = own(down.weight[:, part])
        self.down_bias = None if down.bias is None else own(down.bias)

    def forward(self, x):
        hidden = nn.functional.gelu(nn.functional.linear(ToEveryShare.apply(x), self.up_weight, self.up_bias))
        out = OverAllShares.apply(nn.functional.linear(hidden, self.down_weight))
        return out if self.down_bias is None else out + self.down_bias


def own(part):
    return nn.Parameter(part.detach().clone(memory_format=torch.contiguous_format))


def summed(tensor):
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


class ToEveryShare(torch.autograd.Function):
    """All ranks have x already; its gradient is the sum of what comes through their shares."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return summed(grad)


class OverAllShares(torch.autograd.Function):
    """A sum over the ranks, of which every rank has the gradient already."""

    @staticmethod
    def forward(ctx, partial):
        return summed(partial)

    @staticmethod
    def backward(ctx, grad):
        return grad
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "tensor_parallel_mlp_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_tensor_parallel_mlp():
    """Your shares on two and on four ranks, beside the whole MLP."""

    def parts_of(whole, ranks):
        """What each parameter of each rank is a part of."""
        cuts = [tensor.chunk(ranks, dim) for tensor, dim in zip(whole[:3], (0, 0, 1))]
        return [[*parts, whole[3]] for parts in zip(*cuts)]

    def whole(up, down):
        return nn.Sequential(up, nn.GELU(), down)

    # In a rank of its own: where a GPU is, a process that went backward forks no ranks that can.
    ((due, due_of_rows, due_grads),) = run_ranks(one_step, 1, args=(whole,), card="off", backend="gloo").results

    runs = {ranks: shown(f"tensor_parallel_mlp, {ranks} ranks", tensor_parallel_mlp, ranks) for ranks in (2, 4)}
    for ranks, run in runs.items():
        for (out, of_x, grads), due_parts in zip(run.results, parts_of(due_grads, ranks)):
            assert torch.allclose(out, due, atol=1e-6), "a rank's output is not the whole MLP's"
            assert torch.allclose(of_x, due_of_rows, atol=1e-5), "a rank's gradient of x is not the whole MLP's"
            assert [g.shape for g in grads] == [g.shape for g in due_parts], "a share has other shapes, or another order"
            for grad, part in zip(grads, due_parts):
                assert torch.allclose(grad, part, atol=1e-5), "a gradient is not this rank's part of the whole gradient"
        crossed = [(entry.operation, entry.bytes) for entry in run.journal]
        assert crossed == [("all_reduce", due.nbytes), ("all_reduce", ROWS.nbytes)], "one all-reduce each way, and nothing else"

    for (out, of_x, grads), (due_out, due_of_x, due_own) in zip(runs[2].results, of_torch.results):
        pairs = zip((out, of_x, *grads), (due_out, due_of_x, *due_own))
        assert all(torch.allclose(mine, theirs, atol=1e-5) for mine, theirs in pairs), "PyTorch's layers compute the same"


_see_tensor_parallel_mlp()

# %% nbgrader={"grade": true, "grade_id": "tensor_parallel_mlp_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of tensor_parallel_mlp: outputs 2, gradients 2, forward 2, backward 2, shares 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("parallelism.tensor_parallel_mlp")
### END HIDDEN TESTS

# %% [markdown]
# ## E16.2 `validate_schedule`
#
# A pipeline's schedule is quickly drawn, and a drawing does not run. The interview notes draw four stages on four GPUs with
# four microbatches. Here is their figure, as a table with a row for each GPU and a cell for each slot of time, and
# beside it what PyTorch runs.

# %% nbgrader={"grade": false, "grade_id": "validate_schedule_figure", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_validate_schedule_figure():
    """Three schedules as tables."""
    from gpulab.parallel import INTERVIEW_NOTES, of_torch

    def shown(table):
        for gpu, row in enumerate(table):
            print(f"GPU {gpu}", *(f"{cell or '':3}" for cell in row))

    print("The interview notes")
    shown(INTERVIEW_NOTES)
    print("\nPyTorch's 1F1B")
    shown(of_torch("1F1B", 4, 4))
    print("\nPyTorch's ZBVZeroBubble: eight stages, two on each GPU, and backward passes in halves")
    shown(of_torch("ZBVZeroBubble", 4, 2, 2))


_show_validate_schedule_figure()

# %% [markdown]
# Write `validate_schedule(table, stages, microbatches)`, which names all that is wrong with the schedule of one step:
#
# - [c1] `table` is a list of rows, one for each GPU. [c2] A row is a list of cells, one for each **slot** of time. [c3] Slots are counted
#   from 0, and all take the same time. [c4] Rows may have different lengths: [c5] a GPU idles after its last cell;
# - [c6] a cell is `None`, where the GPU idles, or an **action** as PyTorch writes it: [c7] a stage, a letter and a microbatch. [c8] `"2F0"` is
#   stage 2's forward pass of microbatch 0, `"2B0"` its whole backward pass, `"2I0"` and `"2W0"` are the **halves** of that:
#   [c9] the gradient of the stage's input, and those of its weights. [c10] Stages and microbatches are counted from 0 and have one
#   decimal digit or more;
# - [c11] the pipeline has `stages` stages and `microbatches` microbatches, 1 or more of each, whatever the table names. [c12] Any stage
#   may be on any GPU, several on one;
# - [c13] it returns a list of **violations**, pairs `(kind, what)` of strings, each of them once, in any order. [c14] `what` is an action as
#   above, or, for `"split"`, a stage, as in `"2"`. [c15] A sound schedule has none;
# - [c16] `("foreign", action)`: the action's stage or microbatch is not one of the pipeline's. [c17] All that follows is about the
#   other actions alone;
# - [c18] `("missing", action)`: every stage has to run every microbatch forward, and backward in whole or in both halves. [c19] Missing is
#   `F` where that never runs, `B` where neither `B` nor `I` nor `W` runs, and one half where the other runs alone;
# - [c20] an action **needs** others of its microbatch: [c21] `F`, on every stage but the first, the `F` of the stage before. [c22] `B` and `I`
#   need the `F` of their own stage, and, on every stage but the last, the `B` or the `I` of the stage behind it: [c23] one of the
#   two will do. [c24] `W` needs the `I` of its own stage;
# - [c25] `("early", action)`: there is something that it needs, and that does not run in an **earlier slot**. [c26] The same slot is too
#   early, and so is any slot where it never runs;
# - [c27] an action that runs in several places counts in the first of its slots: [c28] as what needs, and as what is needed;
# - [c29] `("twice", action)`: the action runs more than once, however often. [c30] A whole `B` that runs on its stage beside the
#   microbatch's `I`, `W` or both is `"twice"`, too, and they are not for that reason;
# - [c31] `("split", stage)`: actions of the stage run on more than one GPU. [c32] Its weights are on one;
# - [c33] nothing else is a violation: [c34] neither idle slots, nor an order that the needs allow, nor how many microbatches are in
#   flight;
# - [c35] the table is not changed;
# - [c36] raises `ValueError` where `stages` or `microbatches` is less than 1, and where a cell is anything else than `None` or an
#   action: [c37] `"F0"`, say, or `"2F"`, or a number;
# - [c38] you write it in plain Python: [c39] a call of PyTorch, NumPy or gpulab, which has such a judge too, loses the points.

# %% nbgrader={"grade": false, "grade_id": "validate_schedule", "locked": false, "schema_version": 3, "solution": true, "task": false}
def validate_schedule(table, stages, microbatches):
    """What is wrong with a pipeline's schedule: pairs of a kind and of an action, or a stage."""
    ### BEGIN SOLUTION
    if stages < 1 or microbatches < 1:
        raise ValueError(f"{stages} stages and {microbatches} microbatches are no pipeline")
    runs = where_actions_run(table)
    at = {action: places for action, places in runs.items() if action[0] < stages and action[2] < microbatches}
    found = [("foreign", written(action)) for action in runs if action not in at]

    for stage in range(stages):
        for k in range(microbatches):
            halves = {half for half in "IW" if (stage, half, k) in at}
            whole = (stage, "B", k) in at
            due = "F" if whole else "FIW" if halves else "FB"
            found += [("missing", written((stage, kind, k))) for kind in due if (stage, kind, k) not in at]
            if whole and (halves or len(at[stage, "B", k]) > 1):
                found.append(("twice", written((stage, "B", k))))

    first = {action: min(slot for slot, _ in places) for action, places in at.items()}
    for action, slot in first.items():
        for any_of in needed(*action, stages):
            if not any(first.get(one, slot) < slot for one in any_of):
                found.append(("early", written(action)))
                break
    found += [("twice", written(action)) for action, places in at.items() if action[1] != "B" and len(places) > 1]

    homes = {}
    for (stage, _, _), places in at.items():
        homes.setdefault(stage, set()).update(gpu for _, gpu in places)
    return found + [("split", str(stage)) for stage, gpus in homes.items() if len(gpus) > 1]


import re


def where_actions_run(table):
    """Slots and GPUs of each action (stage, kind, microbatch)."""
    runs = {}
    for gpu, row in enumerate(table):
        for slot, cell in enumerate(row):
            if cell is None:
                continue
            parts = re.fullmatch("([0-9]+)([FBIW])([0-9]+)", cell) if isinstance(cell, str) else None
            if parts is None:
                raise ValueError(f"{cell!r} is no action")
            runs.setdefault((int(parts[1]), parts[2], int(parts[3])), []).append((slot, gpu))
    return runs


def written(action):
    return "".join(map(str, action))


def needed(stage, kind, k, stages):
    """What the action needs: of each list one action."""
    if kind == "F":
        return [[(stage - 1, "F", k)]] if stage > 0 else []
    if kind == "W":
        return [[(stage, "I", k)]]
    behind = [[(stage + 1, "B", k), (stage + 1, "I", k)]] if stage < stages - 1 else []
    return [[(stage, "F", k)], *behind]
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "validate_schedule_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_validate_schedule():
    """What you find in the notes' schedule, and in PyTorch's."""
    from gpulab.parallel import INTERVIEW_NOTES, NAMES, of_torch

    wrong = validate_schedule(INTERVIEW_NOTES, 4, 4)
    print("In the interview notes:", *map(" ".join, sorted(wrong)), sep="\n  ")
    assert ("missing", "3B3") in wrong, "GPU 3 never runs microbatch 3 backward"
    assert {("early", f"2B{k}") for k in range(3)} <= set(wrong), "a backward pass in the slot of the one that it needs is too early"
    assert sorted(wrong) == [("early", f"2B{k}") for k in range(4)] + [("missing", "3B3")], "there are five defects, and no more"

    print("\nschedule                  GPUs  microbatches  violations")
    for name in NAMES:
        stages_each = 1 if name in ("GPipe", "1F1B") else 2
        for gpus, microbatches in ((2, 4), (4, 8)):
            table = of_torch(name, gpus, microbatches, stages_each)
            wrong = validate_schedule(table, gpus * stages_each, microbatches)
            print(f"{name:24}{gpus:6}{microbatches:14}{len(wrong):12}")
            assert wrong == [], f"PyTorch runs {name}, and {wrong[0]} is found in it"

    few = [["0F0", "0F0", None, "0B0"], [None, "1F0", "1I0", "0B1", "1B0"]]
    assert sorted(validate_schedule(few[:1], 1, 1)) == [("twice", "0F0")], "an action that runs twice is one violation"
    assert sorted(validate_schedule(few, 2, 1)) == [("foreign", "0B1"), ("twice", "0F0"), ("twice", "1B0")], (
        "one microbatch is numbered 0; and a whole backward pass beside a half of it is twice"
    )
    assert validate_schedule([["0F0", "0B0"], ["0F1", None, "0B1"]], 1, 2) == [("split", "0")], "one stage is on two GPUs"
    try:
        validate_schedule([["0F0", "B0"]], 1, 1)
    except ValueError as error:
        print("\nValueError:", error)
    else:
        raise AssertionError("'B0' has no stage: ValueError is due")


_see_validate_schedule()

# %% nbgrader={"grade": true, "grade_id": "validate_schedule_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of validate_schedule: missing 1, early 3, sound 2, once 1, foreign 1, split 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("parallelism.validate_schedule")
### END HIDDEN TESTS

# %% [markdown]
# ## E16.3 `schedule_1f1b`
#
# GPipe runs all forward passes and then all backward passes, and keeps the activations of every microbatch until then. 1F1B
# has the same bubble: what it saves is memory. As soon as a microbatch can come back it does, and no stage runs further
# ahead than it takes to keep the last one busy.

# %% nbgrader={"grade": false, "grade_id": "schedule_1f1b_gpipe", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_schedule_1f1b_gpipe():
    """GPipe with four stages and six microbatches."""
    from gpulab.parallel import gpipe, idle_share, most_in_flight, slots

    def measured(name, table):
        print(f"{name}: {slots(table)} slots, {idle_share(table):.0%} of them idle")
        for gpu, row in enumerate(table):
            print(f"GPU {gpu}", *(f"{cell or '':3}" for cell in row), f" at most {most_in_flight(table)[gpu]} in flight")

    measured("GPipe", gpipe(4, 6))
    return measured


_measured = _show_schedule_1f1b_gpipe()

# %% [markdown]
# Write `schedule_1f1b(stages, microbatches)`, for 1 or more of each, and fewer microbatches than stages, too:
#
# - [c1] it returns a table as in E16.2: [c2] a list of `stages` rows, each a list of cells. [c3] Row s is GPU s, which has stage s
#   alone. [c4] A cell is `None` or an action; [c5] backward passes are whole (`B`);
# - [c6] the schedule is **sound**: [c7] `validate_schedule` would find nothing in it. [c8] Every stage runs every microbatch forward and
#   backward, once, and what an action needs has run in an earlier slot;
# - [c9] **slots**: every row has exactly 2 · (`microbatches` + `stages` - 1) cells;
# - [c10] **in flight**: on stage s, at most `stages` - s microbatches are in flight in any slot. [c11] One is in flight from the slot of its
#   forward pass to the slot of its backward pass, both included;
# - [c12] **order**: every stage runs its forward passes in the order of the microbatches, and its backward passes too;
# - [c13] the lists are new ones in every call: [c14] their owner may change them;
# - [c15] raises `ValueError` where `stages` or `microbatches` is less than 1;
# - [c16] you write it in plain Python: [c17] a call of PyTorch, NumPy or gpulab, which both have the schedule, loses the points.

# %% nbgrader={"grade": false, "grade_id": "schedule_1f1b", "locked": false, "schema_version": 3, "solution": true, "task": false}
def schedule_1f1b(stages, microbatches):
    """The table of one forward, one backward: a row for each stage, a cell for each slot."""
    ### BEGIN SOLUTION
    if stages < 1 or microbatches < 1:
        raise ValueError(f"{stages} stages and {microbatches} microbatches are no pipeline")
    table = [[None] * (2 * (microbatches + stages - 1)) for _ in range(stages)]
    for stage, row in enumerate(table):
        ahead = stages - stage
        for k in range(microbatches):
            # The first ones follow one another; each later one comes in behind the backward pass that makes room for it.
            forward = stage + k if k < ahead else stage + 2 * k
            row[forward] = f"{stage}F{k}"
            # On the last stage in the slot after its forward pass, and a slot later on each stage before.
            row[stages - 1 + ahead + 2 * k] = f"{stage}B{k}"
    return table
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "schedule_1f1b_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_schedule_1f1b():
    """Your schedule beside PyTorch's, and beside GPipe."""
    from gpulab.parallel import gpipe, in_flight, most_in_flight, orders, orders_of_torch, violations

    _measured("1F1B", schedule_1f1b(4, 6))

    for stages, microbatches in ((4, 6), (4, 4), (3, 8), (1, 2), (4, 2)):
        table = schedule_1f1b(stages, microbatches)
        which = f"{stages} stages, {microbatches} microbatches"
        wrong = violations(table, stages, microbatches)
        assert not wrong, f"{which}: {wrong[0]}"
        length = 2 * (microbatches + stages - 1)
        assert [len(row) for row in table] == [length] * stages, f"{which}: {length} slots are due in every row"
        for stage, most in enumerate(most_in_flight(table)):
            assert most <= stages - stage, f"{which}: on stage {stage} {most} microbatches are in flight at once"
        if microbatches >= stages:  # PyTorch takes no fewer
            assert orders(table) == orders_of_torch("1F1B", stages, microbatches), f"{which}: PyTorch runs another order"

    print("\nSlots in which stage 0 of 4 holds 0, 1, 2, ... of 6 microbatches")
    for name, table in (("GPipe", gpipe(4, 6)), ("1F1B", schedule_1f1b(4, 6))):
        held = in_flight(table)[0]
        print(f"{name:6}", *(f"{held.count(many):3}" for many in range(7)))


_see_schedule_1f1b()

# %% nbgrader={"grade": true, "grade_id": "schedule_1f1b_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of schedule_1f1b: sound 2, slots 2, flight 3, order 1, few 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("parallelism.schedule_1f1b")
### END HIDDEN TESTS

# %% [markdown]
# ## E16.4 `mesh_plan`
#
# "DP = 8, PP = 4, TP = 2, on 64 GPUs", say the interview notes. Why not 2, 4 and 8? A plan has to divide the model, to fit into
# memory, and to keep what is sent most often on the fastest links; of those that do, one is the fastest. The rules below are
# simpler than a cluster: state is shared out over pp and tp alone, tp splits all activations, as with sequence parallelism,
# and nothing that crosses is hidden. The next cell has PyTorch's `DeviceMesh` say which of 64 ranks belong together in the
# notes' plan.

# %% nbgrader={"grade": false, "grade_id": "mesh_plan_groups", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_mesh_plan_groups():
    """Whom PyTorch puts into a group; then a model, a cluster and its fastest plans."""
    from gpulab.collectives import structure
    from torch.distributed.device_mesh import init_device_mesh

    NAMES_OF_DIMENSIONS = ("dp", "pp", "tp")
    SOME_RANKS = (0, 21, 63)

    def groups_of(rank, world, sizes):
        """The groups of one rank, by PyTorch; the other ranks are not there."""
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=NAMES_OF_DIMENSIONS)
        return {name: dist.get_process_group_ranks(mesh[name].get_group()) for name in NAMES_OF_DIMENSIONS}

    def by_pytorch(sizes):
        return structure(groups_of, 64, ranks=SOME_RANKS, args=(sizes,), card="off", backend="gloo", observe=False).results

    for rank, own in zip(SOME_RANKS, by_pytorch((8, 4, 2))):
        print(f"rank {rank:2}", *(f"{name} {group}" for name, group in own.items()), sep="\n   ")

    MODEL = {
        "layers": 40, "heads": 40, "parameters": 13 * 2**30, "state_bytes": 16, "activation_bytes": 680 * 2**20,
        "layer_us": 20_000, "layer_bytes": 40 * 2**20, "batch": 256,
    }
    CLUSTER = {"nodes": 8, "gpus": 8, "memory": 75 * 2**30, "link": 450_000, "network": 50_000}
    # The fastest, by GiB of a GPU and sequences of a step.
    PLANS = {(75, 64): (2, 8, 4), (75, 256): (4, 8, 2), (75, 1024): (8, 8, 1), (40, 1024): (4, 8, 2)}
    OF_TORCH = {plan: by_pytorch(plan) for plan in set(PLANS.values())}
    return SOME_RANKS, MODEL, CLUSTER, PLANS, OF_TORCH


_SOME_RANKS, _MODEL, _CLUSTER, _PLANS, _OF_TORCH = _show_mesh_plan_groups()

# %% [markdown]
# Write `mesh_plan(model, cluster)`. Both are dictionaries of positive integers:
#
# - [c1] the model has `"layers"` layers, alike, `"heads"` attention heads in each, and `"parameters"` parameters, of which each
#   takes `"state_bytes"` bytes with its gradient and the optimizer's state. [c2] One layer saves `"activation_bytes"` bytes for the
#   backward pass of one sequence, takes `"layer_us"` microseconds of one GPU to go there and back with it, and an all-reduce
#   of one sequence has `"layer_bytes"` bytes. [c3] A step has `"batch"` sequences;
# - [c4] the cluster has `"nodes"` nodes of `"gpus"` GPUs with `"memory"` bytes each. [c5] A GPU sends `"link"` bytes a microsecond
#   within its node, and `"network"` bytes a microsecond for the sums of gradients, wherever the replicas are;
# - [c6] a plan is (dp, pp, tp): [c7] dp replicas of pp stages, each split over tp ranks. [c8] It uses **all GPUs**: [c9] their product is nodes times
#   gpus;
# - [c10] **tp** divides the GPUs of a node, so that no split leaves it, and it divides the heads; [c11] **pp** divides the layers; [c12] **dp**
#   divides the batch;
# - [c13] a replica has m = batch / dp microbatches of one sequence each, in 1F1B order;
# - [c14] **memory**: a GPU holds state_bytes · parameters / (pp · tp), and on the first stage layers / pp · activation_bytes / tp for each
#   microbatch in flight, of which there are pp, or m where that is less. [c15] The sum may be as large as `memory` and no larger;
# - [c16] **time**: a stage takes layers / pp · (layer_us / tp + 4 · 2 (tp - 1) / tp · layer_bytes / link) for one microbatch. [c17] A step takes
#   m + pp - 1 times as long, since the bubble counts, and then 2 (dp - 1) / dp · 2 · parameters / (pp · tp) / network
#   microseconds for the gradients, of two bytes each;
# - [c18] of all plans that may be, the one with the **shortest step** is taken. [c19] No two are equally fast;
# - [c20] it returns a pair: [c21] the plan, a tuple `(dp, pp, tp)` of integers, and the rank **groups**, a dictionary with the keys `"dp"`,
#   `"pp"` and `"tp"`. [c22] Each value is a list of all groups of that dimension, a group a list of ranks, ascending, and the groups
#   in the order of their first ranks;
# - [c23] ranks are counted with tp innermost and dp outermost: [c24] rank (d · pp + p) · tp + t is in replica d, stage p and part t. [c25] So
#   `DeviceMesh` has it with sizes (dp, pp, tp). [c26] Ranks that differ in one of these numbers alone are a group of that
#   dimension; [c27] a dimension of size 1 has a group for each rank;
# - [c28] the dictionaries stay as they are;
# - [c29] raises `ValueError` where no plan may be;
# - [c30] a call of gpulab, which can form such groups, loses the points. [c31] PyTorch and NumPy may help.

# %% nbgrader={"grade": false, "grade_id": "mesh_plan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mesh_plan(model, cluster):
    """The fastest (dp, pp, tp) that can be, and the groups of ranks."""
    ### BEGIN SOLUTION
    gpus = cluster["nodes"] * cluster["gpus"]
    plans = [
        (gpus // (pp * tp), pp, tp)
        for tp in divisors(cluster["gpus"])
        for pp in divisors(gpus // tp)
        if model["heads"] % tp == 0 and model["layers"] % pp == 0 and model["batch"] % (gpus // (pp * tp)) == 0
    ]
    plans = [plan for plan in plans if held_bytes(model, *plan) <= cluster["memory"]]
    if not plans:
        raise ValueError("no plan divides the model and fits into memory")
    dp, pp, tp = min(plans, key=lambda plan: step_us(model, cluster, *plan))
    return (dp, pp, tp), {
        "dp": [list(range(first, gpus, pp * tp)) for first in range(pp * tp)],
        "pp": [list(range(d + t, d + pp * tp, tp)) for d in range(0, gpus, pp * tp) for t in range(tp)],
        "tp": [list(range(first, first + tp)) for first in range(0, gpus, tp)],
    }


def divisors(n):
    return [k for k in range(1, n + 1) if n % k == 0]


def held_bytes(model, dp, pp, tp):
    """On a GPU of the first stage, which has most in flight."""
    in_flight = min(pp, model["batch"] // dp)
    saved = in_flight * model["layers"] // pp * model["activation_bytes"] / tp
    return model["state_bytes"] * model["parameters"] / (pp * tp) + saved


def step_us(model, cluster, dp, pp, tp):
    summed = 4 * 2 * (tp - 1) / tp * model["layer_bytes"] / cluster["link"]
    stage = model["layers"] / pp * (model["layer_us"] / tp + summed)
    gradients = 2 * (dp - 1) / dp * 2 * model["parameters"] / (pp * tp) / cluster["network"]
    return (model["batch"] // dp + pp - 1) * stage + gradients
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mesh_plan_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_mesh_plan():
    """Four plans, and the groups of three ranks."""
    print("memory   batch  plan (dp, pp, tp)   microbatches  bubble")
    for (gib, batch), due in _PLANS.items():
        plan, groups = mesh_plan(_MODEL | {"batch": batch}, _CLUSTER | {"memory": gib * 2**30})
        m = batch // plan[0]
        print(f"{gib:3} GiB  {batch:6}  {str(plan):18}{m:14}{(plan[1] - 1) / (m + plan[1] - 1):8.0%}")
        assert plan == due, f"{due} is faster, and fits"
        assert plan[0] * plan[1] * plan[2] == 64, "a plan uses all 64 GPUs"
        assert 8 % plan[2] == 0, "tensor parallel ranks are in one node"
        mine = [{name: next(g for g in groups[name] if rank in g) for name in groups} for rank in _SOME_RANKS]
        assert mine == _OF_TORCH[plan], "DeviceMesh forms other groups"

    try:
        mesh_plan(_MODEL, _CLUSTER | {"memory": 2**30})
    except ValueError as error:
        print("\nValueError:", error)
    else:
        raise AssertionError("in 1 GiB there is no plan: ValueError is due")


_see_mesh_plan()

# %% nbgrader={"grade": true, "grade_id": "mesh_plan_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mesh_plan: time 3, divides 2, memory 2, groups 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("parallelism.mesh_plan")
### END HIDDEN TESTS
