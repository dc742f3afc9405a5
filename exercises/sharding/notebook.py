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
# # Sharded data parallelism: ZeRO and FSDP: exercises
#
# Two of these functions run among ranks. Values are half of it: what crosses between the ranks is counted where your code
# cannot write, how many collectives, of what and when, and what a rank holds is measured beside it. The third function
# says beforehand what crosses.
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
# ## E15.1 `zero_adam`
#
# Adam keeps two moments for every weight. Data parallel ranks all keep the same ones, and all make the same step. Stage 1
# of ZeRO has each rank keep the moments of its own share of the weights, and step that share alone. For this the
# gradients' all-reduce is taken apart into its halves: a reduce-scatter before the step, and an all-gather after it.
#
# The cell below shows both halves on two ranks. Then it trains on four ranks with what PyTorch has: Adam behind
# `DistributedDataParallel`, and `ZeroRedundancyOptimizer`, which deals out whole tensors. PyTorch 2.13 calls the halves
# `reduce_scatter_single` and `all_gather_single` too.

# %% nbgrader={"grade": false, "grade_id": "zero_adam_ranks", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools
import warnings

import torch.distributed as dist
from gpulab.collectives import run_ranks
from gpulab.memory import track
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore", ".*is deprecated. Please use `torch.distributed", FutureWarning)  # the names of 2.11 and 2.12


def halves(rank, world):
    """Of four elements a rank gets the sums of two; then everyone gets what everyone has of them."""
    mine, everyones = torch.empty(2), torch.empty(4)
    dist.reduce_scatter_tensor(mine, (rank + 1) * torch.tensor([1.0, 10, 100, 1000]))
    dist.all_gather_into_tensor(everyones, mine)
    return mine.tolist(), everyones.tolist()


both = run_ranks(halves, 2, card="off", backend="gloo")
print(both.table())
for rank, (mine, everyones) in enumerate(both.results):
    print(f"rank {rank} has {mine} after the first half, and {everyones} after the second")

BATCH = torch.linspace(-1, 1, 96).view(8, 12)
STEPS = 3


def perceptron():
    """155 weights in tensors of 132, 11, 11 and 1."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 11), nn.Tanh(), nn.Linear(11, 1))


def trained(rank, world, make, wrap=lambda model: model):
    """Steps on this rank's part of the batch: the weights after them, and the bytes that are held beside."""
    model = perceptron()
    called = wrap(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with track(model, cache=BATCH) as held:
        before = held.now.total
        step = make(model.parameters())
        for _ in range(STEPS):
            model.zero_grad(set_to_none=False)
            called(BATCH.chunk(world)[rank]).square().mean().backward()
            step()
        kept = held.now.total - before
    return [parameter.detach() for parameter in model.parameters()], kept


def shown(way, run):
    """Bytes that a rank sends in a step, at most, on a ring: a broadcast sends all, half of an all-reduce (n - 1) / n."""
    n = len(run.results)
    parts = {"broadcast": 1, "all_reduce": 2 * (n - 1) / n, "reduce_scatter": (n - 1) / n, "all_gather": (n - 1) / n}
    steps = itertools.dropwhile(lambda entry: not entry.reduces, run.journal)  # what precedes makes the ranks' weights alike
    sent = sum(parts[entry.operation] * entry.bytes for entry in steps if entry.dtype == "float32") / STEPS
    held = ", ".join(str(kept) for _, kept in run.results)
    print(f"{way}: a rank sends {sent:.0f} bytes a step; the ranks hold {held} bytes beside weights and gradients")


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.1).step


def dealt_out(parameters):
    return ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.1).step


print("\nDDP's bucket of all gradients, 620 bytes, is in both figures of what is held:")
of_torch = [run_ranks(trained, 4, args=(make, DistributedDataParallel), card="off", backend="gloo") for make in (adam, dealt_out)]
shown("DDP, Adam", of_torch[0])
shown("DDP, ZeroRedundancyOptimizer", of_torch[1])

# %% [markdown]
# Write `zero_adam(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)`. Every rank calls it when the default process group,
# of n ranks, is there. All tensors lie on the host:
#
# - [c1] `parameters`: parameters of any shapes and strides, as `model.parameters()` gives them, alike in all ranks. Those that
#   require gradients, one at least, are **trained**, and have one dtype, `float32` or `float64`. The others, of any dtypes, belong
#   to no share and stay as they are;
# - [c2] it returns a function `step` without arguments, with moments and a count of steps of its own. Ranks have gradients of
#   their own batches in `.grad`, of their parameters' shapes and dtype and of any strides. Then every rank calls `step()`, and so
#   step after step;
# - [c3] after a step the trained parameters have, in every rank and up to rounding in their dtype, the values that **Adam**
#   gives them with **the mean of all ranks' gradients**, g. In step t, counted from 1, the first moment m becomes
#   beta1 m + (1 - beta1) g, the second moment v becomes beta2 v + (1 - beta2) g², and a value p becomes
#   p - lr · (m / (1 - beta1^t)) / (√(v / (1 - beta2^t)) + eps). Moments begin at 0. So `torch.optim.Adam` has it;
# - [c4] new values are written **in place**, into the memory that the parameters have;
# - [c5] **shares**: the elements of the trained parameters, in the order of `parameters` and each parameter's in row-major
#   order, are one sequence. It is padded at its end with fewer than n elements, so that n divides its length, and cut
#   into n equal parts, also where there are fewer elements than ranks. Rank r's share is part r;
# - [c6] in a step there cross, in the default process group and in the parameters' dtype, **one reduce-scatter** of all padded
#   gradients, which sums or averages, and then **one all-gather** of the shares' new values. Gradients may be divided by n
#   before or after. Nothing else crosses in a step, and nothing in the call;
# - [c7] **state**: after a step a rank holds, in tensors, two moments of its own share in the parameters' dtype, and 256 bytes
#   beyond that at most: no moments of another's share, no weights, no gradients;
# - [c8] a gradient that is `None` **counts as zeros**, in a rank or in all of them: the moments go on, and the parameter moves
#   with them;
# - [c9] `.grad` stays as it is, each rank's own: the same tensor with the same values, or `None`;
# - [c10] the call raises `ValueError` for `lr` or `eps` less than 0, for a beta less than 0 or not less than 1, and for trained
#   parameters of two dtypes.

# %% nbgrader={"grade": false, "grade_id": "zero_adam", "locked": false, "schema_version": 3, "solution": true, "task": false}
def zero_adam(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    """Adam on the mean of all ranks' gradients, the moments shared out; returns the function that makes a step."""
    ### BEGIN SOLUTION
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"lr {lr}, betas {betas}, eps {eps}")
    if len({parameter.dtype for parameter in trained}) > 1:
        raise ValueError("trained parameters of two dtypes do not fit into one flat tensor")
    sizes = [parameter.numel() for parameter in trained]
    world, rank = dist.get_world_size(), dist.get_rank()
    padding = -sum(sizes) % world
    share = (sum(sizes) + padding) // world
    first, second, steps = trained[0].new_zeros(share), trained[0].new_zeros(share), 0

    def flat(tensors):
        return torch.cat([tensor.reshape(-1) for tensor in tensors] + [first.new_zeros(padding)])

    @torch.no_grad()
    def step():
        nonlocal steps
        steps += 1
        mean = torch.empty_like(first)
        dist.reduce_scatter_tensor(mean, flat([torch.zeros_like(p) if p.grad is None else p.grad for p in trained]))
        mean /= world
        first.lerp_(mean, 1 - betas[0])
        second.mul_(betas[1]).addcmul_(mean, mean, value=1 - betas[1])

        values = flat(trained)
        own = values.chunk(world)[rank].clone()
        root = (second / (1 - betas[1] ** steps)).sqrt()
        own.addcdiv_(first, root + eps, value=-lr / (1 - betas[0] ** steps))
        dist.all_gather_into_tensor(values, own)
        for parameter, new in zip(trained, values[: sum(sizes)].split(sizes)):
            parameter.copy_(new.view(parameter.shape))

    return step
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "zero_adam_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_zero_adam():
    """Three steps of four ranks: what crossed, what is held, and the weights."""
    run = run_ranks(trained, 4, args=(lambda parameters: zero_adam(parameters, lr=0.1),), card="off", backend="gloo")
    print(run.table())
    shown("zero_adam", run)

    ((alone, _),) = run_ranks(trained, 1, args=(adam,), card="off", backend="gloo").results
    for rank, (weights, kept) in enumerate(run.results):
        for weight, due, of_ddp, of_zero in zip(weights, alone, of_torch[0].results[rank][0], of_torch[1].results[rank][0]):
            assert torch.allclose(of_ddp, due, atol=1e-5) and torch.allclose(of_zero, due, atol=1e-5), "PyTorch's own ways agree"
            assert torch.allclose(weight, due, atol=1e-5), (
                f"rank {rank} does not have the weights that Adam gives one process with the whole batch"
            )
        assert kept <= 2 * 4 * 39 + 256, f"rank {rank} holds {kept} bytes: two moments of 39 elements are 312"
    crossed = [(entry.operation, entry.dtype, entry.bytes) for entry in run.journal]
    assert crossed == [("reduce_scatter", "float32", 4 * 156), ("all_gather", "float32", 4 * 156)] * STEPS, (
        "in each step one reduce-scatter and one all-gather of 156 elements are due: 155, and one that fills up"
    )


_see_zero_adam()

# %% nbgrader={"grade": true, "grade_id": "zero_adam_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of zero_adam: values 2, crossing 2, uneven 1, state 2, unused 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("sharding.zero_adam")
### END HIDDEN TESTS

# %% [markdown]
# ## E15.2 `mini_fsdp`
#
# With `mini_ddp` every rank holds the whole model, its gradients and the state of its optimizer. But a rank computes with
# one layer at a time. So let each rank hold a part of every layer, gather a layer when its turn comes, and free it
# again. What the ranks are left with when nothing runs is their parts.
#
# Memory is freed when nobody holds its storage any more, or when the storage itself is told to hold less:

# %% nbgrader={"grade": false, "grade_id": "mini_fsdp_storage", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_mini_fsdp_storage():
    """What a storage of size 0 holds, and who keeps a tensor alive."""

    def held(rank, world):
        """Bytes on the card, step by step, and what two ranks gathered."""
        whole = torch.zeros(8192, device="cuda")
        found = {"a tensor of 32768 bytes": torch.cuda.memory_allocated()}
        part = whole.chunk(world)[rank]
        copy = part.clone()
        found["and a copy of its half"] = torch.cuda.memory_allocated()
        whole.untyped_storage().resize_(0)
        found["its storage resized to 0"] = torch.cuda.memory_allocated()
        whole.untyped_storage().resize_(32768)
        dist.all_gather_into_tensor(whole, copy + rank)
        found["and back, and gathered"] = torch.cuda.memory_allocated()
        del whole
        found["the tensor deleted, a slice of it kept"] = torch.cuda.memory_allocated()
        return found, part.sum().item()

    for what, nbytes in run_ranks(held, 2).results[1][0].items():
        print(f"{what:40}{nbytes:>8}")


_show_mini_fsdp_storage()

# %% [markdown]
# Write `mini_fsdp(model)`, which shards `model` over the ranks of the default process group. It is NCCL's: every rank has a
# card of its own. All ranks call it with the same weights:
#
# - [c1] `model` is an `nn.Sequential` on the card. Its children are the **units**; each takes a tensor and returns one. Their
#   parameters are `float32`, of any shape and strides, and may lie in modules inside. A unit may have no parameters; it may have
#   buffers, which stay as they are;
# - [c2] returns a **list of `nn.Parameter`s** on the card: of each unit that has parameters, in order, this rank's **part**. The
#   parameters, in the order of `unit.parameters()`, are flattened, concatenated and **padded with zeros** to a multiple of the
#   number of ranks. Rank r has the r-th of equal parts, of one dimension;
# - [c3] the model computes with what the parts hold at the time: an optimizer over the list trains it as one process with all
#   ranks' batches would;
# - [c4] `loss.backward()` **adds** to a part's `.grad` this rank's part of the unit's gradients, as the **mean over all ranks**;
#   the padding's gradients are zeros;
# - [c5] **in the forward pass** each unit is gathered by **one all-gather**, to which each rank hands in its part, runs, and is
#   freed. It is not computed again in the backward pass;
# - [c6] **in the backward pass** each unit, the last one too, is **gathered once more**, and freed. Its gradients cross in **one
#   reduce-scatter** of one flat tensor, laid out like the parameters. The division by the number of ranks may come before it,
#   in it or after it;
# - [c7] nothing else crosses, nor anything in another group. Nothing crosses in the call itself;
# - [c8] by `torch.cuda.memory_allocated()`, **nothing of full size is left** after the call and after each pass, and **at most two
#   units are whole at once**. Beside parts, their gradients and activations, the card holds at most twice the bytes of the
#   largest unit when a unit's forward begins, and four times when its backward begins: gradients of two units may be there too;
# - [c9] a **forward pass alone**, with `torch.no_grad()` or without, gathers each unit once, reduces nothing and leaves nothing
#   behind. The next step is like any other;
# - [c10] raises `ValueError` where a parameter belongs to **two units**, is not `float32` or does not require gradients. Two names
#   for one parameter in the same unit are no error.
#
# No two forward passes are open at once: a backward pass, if any, comes before the next forward pass. The loss depends on all
# parameters. `tensor.register_hook(f)` calls `f(gradient)` when the backward pass reaches that tensor; `f` returns `None`. A graph
# saves the memory of a parameter: pointing `parameter.data` elsewhere does not free it. To read from a storage of no bytes is an
# illegal memory access on a GPU; here it kills the rank with SIGSEGV.

# %% nbgrader={"grade": false, "grade_id": "mini_fsdp", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mini_fsdp(model):
    """Shard the model's units over the ranks; returns this rank's part of each unit that has parameters."""
    ### BEGIN SOLUTION
    world, rank = dist.get_world_size(), dist.get_rank()

    def sharded(unit, parameters):
        sizes = [p.numel() for p in parameters]
        padding = -sum(sizes) % world

        def flattened(tensors):
            return torch.cat([*(t.reshape(-1) for t in tensors), tensors[0].new_zeros(padding)])

        whole = flattened([p.detach() for p in parameters])
        part = nn.Parameter(whole.chunk(world)[rank].clone())
        for p, values in zip(parameters, whole.split([*sizes, padding])):
            p.data = values.view(p.shape)
        storage, nbytes, awaited = whole.untyped_storage(), whole.nbytes, set(parameters)

        def gather(*_):
            storage.resize_(nbytes)
            dist.all_gather_into_tensor(whole, part.detach())

        def free():
            storage.resize_(0)

        def forward_ended(unit, args, output):
            free()
            if output.requires_grad:
                output.register_hook(gather)

        def gradient_ready(parameter):
            awaited.remove(parameter)
            if not awaited:
                backward_ended()

        def backward_ended():
            free()
            mean = torch.empty_like(part)
            dist.reduce_scatter_tensor(mean, flattened([p.grad for p in parameters]), op=dist.ReduceOp.AVG)
            part.grad = mean if part.grad is None else part.grad + mean
            for p in parameters:
                p.grad = None
            awaited.update(parameters)

        free()
        unit.register_forward_pre_hook(gather)
        unit.register_forward_hook(forward_ended)
        for p in parameters:
            p.register_post_accumulate_grad_hook(gradient_ready)
        return part

    units = [(unit, list(unit.parameters())) for unit in model]
    everything = [p for _, parameters in units for p in parameters]
    if len(set(everything)) < len(everything):
        raise ValueError("a parameter belongs to two units")
    if any(p.dtype != torch.float32 or not p.requires_grad for p in everything):
        raise ValueError("a parameter is not float32 or does not require gradients")
    return [sharded(unit, parameters) for unit, parameters in units if parameters]
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "mini_fsdp_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_mini_fsdp():
    """A step of six units, by your function and by fully_shard."""
    from torch.distributed.fsdp import fully_shard

    ROWS = torch.linspace(-1, 1, 8 * 64).view(8, 64)
    UNITS, UNIT_BYTES = 6, 4 * (64 * 128 + 128 + 128 * 64 + 64)

    def six_units():
        torch.manual_seed(0)
        return nn.Sequential(*(nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64)) for _ in range(UNITS)))

    def by_pytorch(model):
        """PyTorch's own: a part of each parameter, not of each unit."""
        for unit in model:
            fully_shard(unit, reshard_after_forward=True)
        return list(fully_shard(model).parameters())

    def one_step(rank, world, shard):
        """Bytes on the card after the call, in the middle of each unit, forward and backward, and after the pass; the gradients."""
        model, middle = six_units().cuda(), []
        units = list(model)
        whole, parts = torch.cuda.memory_allocated(), shard(model)
        at_rest = torch.cuda.memory_allocated()
        for unit in units:
            unit[1].register_forward_hook(lambda *_: middle.append(torch.cuda.memory_allocated()))
            unit[1].register_full_backward_hook(lambda *_: middle.append(torch.cuda.memory_allocated()))
        model(ROWS.chunk(world)[rank].cuda()).square().mean().backward()
        assert all(part.grad is not None for part in parts), "after the backward pass a part has no gradient"
        local = [part.grad.to_local() if hasattr(part.grad, "to_local") else part.grad for part in parts]
        return whole, at_rest, middle, torch.cuda.memory_allocated(), local

    def shown(name, shard):
        run = run_ranks(one_step, 2, args=(shard,))
        whole, at_rest, middle, after, _ = run.results[0]
        print(f"{name}: a whole model {whole >> 10}, after the call {at_rest >> 10}, after the step {after >> 10}")
        print("   ", *(f"{nbytes >> 10:4}" for nbytes in middle))
        print("   ", *({"all_gather": "gather", "reduce_scatter": "reduce"}[e.operation] for e in run.journal))
        return run

    def alone(rank, world):
        """The gradients of each unit in one process. It is a rank too: where a GPU is, who went backward forks no ranks."""
        model = six_units()
        model(ROWS).square().mean().backward()
        return [[parameter.grad for parameter in unit.parameters()] for unit in model]

    def compare(mine, theirs):
        (units,) = run_ranks(alone, 1, card="off", backend="gloo").results
        due = [torch.cat([grad.flatten() for grad in unit]) for unit in units]
        crossed = [sorted((e.operation, e.bytes) for e in run.journal) for run in (mine, theirs)]
        parts = [run[4] for run in mine.results]
        assert [len(part) for part in parts[0]] == [UNIT_BYTES // 8] * UNITS, "one flat part is due for each unit: half of it"
        for unit, one, other in zip(due, *parts):
            assert torch.allclose(torch.cat([one, other]), unit, atol=1e-7), "the ranks' parts are not the gradient of one process"
        for grad, both in zip(itertools.chain(*units), zip(*(run[4] for run in theirs.results))):
            assert torch.allclose(torch.cat(both), grad, atol=1e-7), "fully_shard computes the same"
        assert crossed[0] == crossed[1], "of each unit two all-gathers and a reduce-scatter are due, as in fully_shard"
        for whole, at_rest, middle, after, _ in mine.results:
            assert at_rest < 0.55 * whole, "after the call the card is to hold half the parameters, and nothing of the whole"
            assert max(middle[:UNITS]) < at_rest + 2.5 * UNIT_BYTES, "in the forward pass more than two units are whole"
            assert max(middle[UNITS:]) < 2 * at_rest + 4.5 * UNIT_BYTES, "in the backward pass more than two units are whole"
            assert after < 2.1 * at_rest, "after the step the card is to hold parts and their gradients, and nothing of the whole"

    print("KiB on rank 0's card, in the middle of units 0 to 5 and of 5 to 0")
    compare(shown("mini_fsdp", mini_fsdp), shown("fully_shard", by_pytorch))


_see_mini_fsdp()

# %% nbgrader={"grade": true, "grade_id": "mini_fsdp_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of mini_fsdp: shards 1, gradients 2, gathers 1, scattered 1, memory 2, evaluation 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("sharding.mini_fsdp")
### END HIDDEN TESTS

# %% [markdown]
# ## E15.3 `comm_volume`
#
# "Communication is the bottleneck, so use FSDP." What each way of sharing a model out has to send can be counted before
# anything is run. The cell below lets `DistributedDataParallel` and `fully_shard` make a step on real ranks, and adds up by kind
# what rank 0 sends when its collectives go around a ring.

# %% nbgrader={"grade": false, "grade_id": "comm_volume_torch", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_comm_volume_torch():
    """Five steps of PyTorch's own, and what rank 0 sent in each."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    def four_layers():
        """544 weights. The last 32 are in no unit of their own: fully_shard gives them to the root."""
        torch.manual_seed(0)
        return nn.Sequential(*(nn.Linear(wide, out, bias=False) for wide, out in ((8, 16), (16, 16), (16, 8), (8, 4))))

    def sharded(mesh, **options):
        model, names = four_layers(), ("replicate", "shard")[-len(mesh) :]
        mesh = init_device_mesh("cpu", mesh, mesh_dim_names=names)
        for module in (*list(model)[:3], model):
            fully_shard(module, mesh=mesh, **options)
        return model

    def one_step(rank, world, make, micro_batches, no_sync):
        """Gradients of some micro-batches, added up; with no_sync only the last one's backward pass brings the ranks together."""
        model = make()
        for number in range(micro_batches):
            sync = not no_sync or number == micro_batches - 1
            if isinstance(model, DistributedDataParallel):
                model.require_backward_grad_sync = sync  # what its no_sync() sets
            else:
                model.set_requires_gradient_sync(sync)
            model(torch.ones(2, 8)).float().sum().backward()

    def counted(world, make, micro_batches=1, no_sync=False):
        """Bytes that rank 0 sends around rings, by kind: a tensor's (n - 1) / n in each half of an all-reduce."""
        run = run_ranks(one_step, world, args=(make, micro_batches, no_sync), card="off", backend="gloo")
        found = dict.fromkeys(("all_gather", "reduce_scatter", "all_reduce"), 0.0)
        for entry in run.journal:
            if 0 in entry.ranks and entry.operation in found and entry.dtype in ("float32", "bfloat16"):
                n = len(entry.ranks)
                found[entry.operation] += (2 if entry.operation == "all_reduce" else 1) * (n - 1) / n * entry.bytes
        return found

    HALF = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    OF_TORCH = [
        (("ddp", 544, 4), {"micro_batches": 3, "no_sync": True}, counted(4, lambda: DistributedDataParallel(four_layers()), 3, True)),
        (("fsdp", 544, 4), {"root": 32}, counted(4, lambda: sharded((4,)))),
        (("fsdp_keep", 544, 4), {"root": 32, "micro_batches": 2}, counted(4, lambda: sharded((4,), reshard_after_forward=False), 2)),
        (
            ("fsdp", 544, 2),
            {"root": 32, "micro_batches": 2, "no_sync": True, "parameter_bytes": 2},
            counted(2, lambda: sharded((2,), **HALF), 2, True),
        ),
        (("hsdp", 544, 4), {"root": 32, "node_ranks": 2}, counted(4, lambda: sharded((2, 2)))),
    ]
    for asked, named, found in OF_TORCH:
        print(*asked, named, found)
    return OF_TORCH


_OF_TORCH = _show_comm_volume_torch()

# %% [markdown]
# Write `comm_volume(strategy, parameters, ranks, parameter_bytes=4, gradient_bytes=4, micro_batches=1, no_sync=False, root=0,
# node_ranks=None)`. It counts the bytes that **one rank sends** in one optimizer step. All numbers are integers:
#
# - [c1] `ranks` ranks, 1 or more, train `parameters` weights, 0 or more. An all-gather, or a reduce-scatter, of a tensor of B
#   bytes in all goes around a ring of its n ranks: each sends (n - 1) / n · B. An all-reduce is the two of them, one behind the
#   other. Nothing is padded or rounded, so results may be fractions;
# - [c2] a weight has `parameter_bytes` bytes where weights are gathered, and its gradient has `gradient_bytes` bytes where
#   gradients are reduced, scattered or not;
# - [c3] a step has `micro_batches` forward and backward passes, 1 or more, whose gradients are added up. With `no_sync` only the
#   last backward pass reduces gradients. Weights are gathered in all of them, with it as without;
# - [c4] `"ddp"`: every backward pass **all-reduces** all gradients;
# - [c5] `"zero1"`, as in E15.1: however many micro-batches there are, the step reduce-scatters all gradients once and all-gathers
#   all weights once. `"zero2"`: a rank keeps the gradients of its share alone, so every backward pass reduce-scatters all
#   gradients. The step all-gathers all weights once;
# - [c6] `"fsdp"`: a rank keeps only its share of the weights, too. Every forward pass all-gathers all weights. Every backward
#   pass **gathers them again**, since they were given up after the forward pass, and reduce-scatters all gradients.
#   `"fsdp_keep"` is the same with `reshard_after_forward=False`: no weights are gathered in a backward pass;
# - [c7] `root`: so many of the parameters are the root's own. By default `fully_shard` keeps those from the forward pass to the
#   end of the backward pass, so with `"fsdp"` and `"hsdp"` the backward pass does not gather them. Other strategies ignore `root`;
# - [c8] `"hsdp"`: as `"fsdp"` among the `node_ranks` ranks of each node. After each reduce-scatter a rank all-reduces **its
#   share** of the gradients with the ranks that have the same share in the other nodes. Other strategies ignore `node_ranks`;
# - [c9] returns a dictionary of numbers, right to a billionth: `"all_gather"`, `"reduce_scatter"` and `"all_reduce"`, 0 where there
#   is none, and `"total"`, their sum. For `"hsdp"`, and for no other, also `"between_nodes"`: the bytes of these that leave the node;
# - [c10] raises `ValueError` for another strategy; with any strategy for `parameters` or `root` less than 0, for `root` greater than
#   `parameters`, for `ranks`, `micro_batches` or the bytes of an element less than 1; for `"zero2"` with `no_sync`, which would have
#   to keep all gradients; and for `"hsdp"` where `node_ranks` is None, less than 1 or no divisor of `ranks`.

# %% nbgrader={"grade": false, "grade_id": "comm_volume", "locked": false, "schema_version": 3, "solution": true, "task": false}
def comm_volume(
    strategy, parameters, ranks, parameter_bytes=4, gradient_bytes=4, micro_batches=1, no_sync=False, root=0, node_ranks=None
):
    """Bytes that one rank sends in an optimizer step, by collective, on rings."""
    ### BEGIN SOLUTION
    if strategy not in ("ddp", "zero1", "zero2", "fsdp", "fsdp_keep", "hsdp"):
        raise ValueError(f"no strategy {strategy!r}")
    if not 0 <= root <= parameters or min(ranks, micro_batches, parameter_bytes, gradient_bytes) < 1:
        raise ValueError("a number is too small, or the root's parameters are too many")
    if strategy == "zero2" and no_sync:
        raise ValueError("zero2 has no room for gradients that are not reduced at once")
    if strategy == "hsdp" and (node_ranks is None or node_ranks < 1 or ranks % node_ranks):
        raise ValueError(f"{ranks} ranks do not fill nodes of {node_ranks}")

    def half(n):
        """What a rank of n sends of each byte in an all-gather, or a reduce-scatter."""
        return (n - 1) / n

    again = {"fsdp": parameters - root, "hsdp": parameters - root}.get(strategy, 0)
    gathers = {"ddp": 0, "zero1": 1, "zero2": 1}.get(strategy, micro_batches)
    gathered = gathers * (parameters + again) * parameter_bytes
    reductions = 1 if no_sync or strategy == "zero1" else micro_batches
    reduced = reductions * parameters * gradient_bytes

    sent = {"all_gather": half(ranks) * gathered, "reduce_scatter": half(ranks) * reduced, "all_reduce": 0}
    if strategy == "ddp":
        sent.update(reduce_scatter=0, all_reduce=2 * half(ranks) * reduced)
    if strategy == "hsdp":
        across = 2 * half(ranks // node_ranks) * reduced / node_ranks
        sent = {"all_gather": half(node_ranks) * gathered, "reduce_scatter": half(node_ranks) * reduced, "all_reduce": across}
    found = {**sent, "total": sum(sent.values())}
    return found | ({"between_nodes": sent["all_reduce"]} if strategy == "hsdp" else {})
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "comm_volume_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_comm_volume():
    """Your volumes beside those that were counted; then a model of seven billion parameters."""
    for asked, named, sent in _OF_TORCH:
        volume = comm_volume(*asked, **named)
        print(*asked, named)
        for kind, nbytes in sent.items():
            print(f"  {kind:14} counted {nbytes:7.0f}, here {volume[kind]:7.0f}")
            assert abs(volume[kind] - nbytes) <= 1e-9 * nbytes, f"{asked[0]}: {nbytes:g} bytes of {kind} crossed, around rings"
        assert abs(volume["total"] - sum(sent.values())) < 1e-6, f"{asked[0]}: the total is the sum of the three"

    print("\n7e9 parameters in bfloat16, 64 ranks, 4 micro-batches: gigabytes that a rank sends in a step")
    print(f"{'':10}{'gather':>8}{'scatter':>9}{'reduce':>8}{'total':>8}{'between nodes':>15}")
    bfloat16 = {"parameter_bytes": 2, "gradient_bytes": 2}
    big = {}
    for strategy in ("ddp", "zero1", "zero2", "fsdp", "fsdp_keep", "hsdp"):
        big[strategy] = comm_volume(strategy, 7 * 10**9, 64, micro_batches=4, node_ranks=8, **bfloat16)
        gb = [big[strategy][kind] / 1e9 for kind in ("all_gather", "reduce_scatter", "all_reduce", "total")]
        across = f"{big[strategy]['between_nodes'] / 1e9:15.1f}" if strategy == "hsdp" else ""
        print(f"{strategy:10}{gb[0]:8.1f}{gb[1]:9.1f}{gb[2]:8.1f}{gb[3]:8.1f}{across}")
    assert abs(big["fsdp"]["total"] / big["ddp"]["total"] - 1.5) < 1e-6, "FSDP sends half as much again as DDP: it saves memory"
    assert big["hsdp"]["between_nodes"] < big["ddp"]["total"] / 8, "of a node's gradients each rank sends its eighth to other nodes"
    assert "between_nodes" not in big["fsdp"], "only for hsdp it is said what a node is"


_see_comm_volume()

# %% nbgrader={"grade": true, "grade_id": "comm_volume_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of comm_volume: volume 2, accumulation 2, bytes 1, root 1, hybrid 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("sharding.comm_volume")
### END HIDDEN TESTS
