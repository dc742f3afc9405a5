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
# # The CUDA execution model: exercises
#
# Five functions. Two of them launch kernels that you write, in the Python that Numba compiles for
# a GPU. Each is graded for its result and for what the warps did: reads and writes of each element,
# out-of-bounds accesses, data races, divergent branches, and 32-byte sectors of memory moved.
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read what it prints.
#
# Here and in the hidden tests an interpreter runs the kernels on a virtual card. What it prints
# is *counted*, warp by warp, from your source; no time is measured. Instructions are
# operations of the source, not machine instructions (SASS) of compiled code. With a GPU,
# `from numba import cuda` runs the same kernels there; speed is *not gradable here*.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import gpulab.cuda
import torch
from gpulab.kernels import cuda

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E3.1 `add_vectors`
#
# The interview notes' example of a kernel is `void AddVector(float* a, float* b, float* c)`. It has no
# `__global__`, no length and no bounds check. Here is the same kernel in Python, with a naive launch
# of two blocks of 64 threads. Run it. Nothing raises. Which elements are missing, which accesses are
# out of bounds, and which threads race for the same element?

# %% nbgrader={"grade": false, "grade_id": "first_add", "locked": true, "schema_version": 3, "solution": false, "task": false}
@cuda.jit
def first_add(a, b, c):
    """The notes' AddVector: no length, no guard."""
    i = cuda.threadIdx.x
    c[i] = a[i] + b[i]


def vectors(n):
    """Two vectors of n float32 on the card, and a third, of NaN, for their sum."""
    a = torch.arange(n, dtype=torch.float32)
    return a.cuda(), (1000 * a).cuda(), torch.full((n,), torch.nan).cuda()


for n in (100, 40):
    a, b, c = vectors(n)
    with gpulab.observe() as seen:
        first_add[2, 64](a, b, c)
    launch = seen.launches[0]
    print(f"n = {n}: {int(c.isnan().sum())} elements missing, {launch.total('stores')} stores")
    for fault in launch.faults:
        print(f"  {fault.kind}: {fault.array}{list(fault.index)} and {fault.count - 1} more, at {fault.line}")
    for race in launch.races[:1]:
        print(f"  race, {race.kind}: {race.array}{list(race.index)} by {race.first_thread} and {race.second_thread}")

# %% [markdown]
# Write `add_vectors(a, b, out, threads)`, and a kernel for it to launch:
#
# - [c1] `a`, `b`, `out`: contiguous float32 vectors of equal length on the device. `out` holds garbage;
# - [c2] writes `a + b` into `out` and returns nothing;
# - [c3] **your kernel does it**, in one launch. No operation of PyTorch computes or moves an element, not
#   even for a `print(out)`;
# - [c4] grid and block are one-dimensional, along x: blocks of `threads` threads (1 to 1024), one element per
#   thread, and the **smallest number of blocks** that covers all elements;
# - [c5] every element of `a` and `b` is **read once**, every element of `out` **written once**, nothing else
#   is written, and **no access is out of bounds**;
# - [c6] there are no data races, and no barrier that only some threads of a block reach (those that have
#   returned do not count);
# - [c7] for empty vectors nothing is launched: a grid of 0 blocks is an error in CUDA.

# %% nbgrader={"grade": false, "grade_id": "add_vectors", "locked": false, "schema_version": 3, "solution": true, "task": false}
@cuda.jit
def add_kernel(a, b, out):
    """One thread for one element."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]
    ### END SOLUTION


def add_vectors(a, b, out, threads):
    """Write a + b into out with one launch of add_kernel, in blocks of threads threads."""
    ### BEGIN SOLUTION
    blocks = -(-out.numel() // threads)
    if blocks > 0:
        add_kernel[blocks, threads](a, b, out)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "add_vectors_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_add_vectors():
    """The sum of 1000 elements: loads, stores, out-of-bounds accesses and races."""
    a, b, c = vectors(1000)
    with gpulab.observe() as seen:
        add_vectors(a, b, c, threads=128)
    print(seen.table(), "\n")

    assert len(seen.launches) == 1, f"{len(seen.launches)} launches, expected 1"
    launch = seen.launches[0]
    print("grid", launch.grid, "block", launch.block, "loads", launch.total("loads"), "stores", launch.total("stores"))
    assert not launch.faults, f"{launch.faults[0].kind}: {launch.faults[0].array}{list(launch.faults[0].index)}"
    assert not launch.races, f"race, {launch.races[0].kind}: {launch.races[0].array}{list(launch.races[0].index)}"
    assert launch.grid == (8, 1, 1) and launch.block == (128, 1, 1), "expected a grid of 8 blocks of 128 threads"
    assert (launch.total("loads"), launch.total("stores")) == (2000, 1000), "expected one load or store of each element"
    assert c.cpu().equal(1001 * torch.arange(1000.0)), "the sum is wrong"


_see_add_vectors()

# %% nbgrader={"grade": true, "grade_id": "add_vectors_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of add_vectors: the sum 2, lengths that are not a multiple of the block 1, no access
# out of bounds 1, each element once 1, grid and block 1, empty vectors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("execution.add_vectors")
### END HIDDEN TESTS

# %% [markdown]
# ## E3.2 `shade`, in two dimensions
#
# A block may have two dimensions, and a grid too. The 32 threads of a warp are the block's
# threads in order, **x first**. The kernel below gives the right picture, and writes eight times the
# sectors that it needs to. Why?

# %% nbgrader={"grade": false, "grade_id": "first_shade", "locked": true, "schema_version": 3, "solution": false, "task": false}
@cuda.jit
def _first_shade(image, gain, out):
    """Right, and slow."""
    y, x = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = image[y, x] * gain[x]


_image, _gain = torch.rand(64, 64).cuda(), torch.linspace(0, 1, 64).cuda()
_out = torch.empty(64, 64).cuda()
with gpulab.observe() as _seen:
    _first_shade[(2, 8), (32, 8)](_image, _gain, _out)
_launch = _seen.launches[0]
print("read sectors", _launch.total("read_sectors"), "written sectors", _launch.total("written_sectors"))
print(f"{_launch.memory_efficiency:.0%} of the bytes that moved were requested")

# %% [markdown]
# Write `shade(image, gain, out, block)`, and a kernel for it to launch:
#
# - [c1] `image`, `out`: float32 matrices of shape `(H, W)` on the device, contiguous, H and W at least
#   1, not equal in general. [c2] `gain`: a float32 vector of length `W`. [c3] `out` holds garbage;
# - [c4] writes `image[y, x] * gain[x]` into `out[y, x]` and returns nothing. [c5] **Your kernel does it**, in
#   one launch, and no operation of PyTorch computes or moves an element;
# - [c6] `block`: threads along x and along y, a tuple of two integers. [c7] The launch has that block, and the
#   smallest grid that covers the image when **x runs over the columns and y over the rows**;
# - [c8] every element of `image` is **read once**, every element of `out` **written once**, nothing
#   else is written, and **no access is out of bounds**;
# - [c9] there are no data races, and each barrier is reached by all threads of a block or by none (threads
#   that have returned do not count);
# - [c10] accesses are **coalesced**: no more 32-byte sectors move than when each thread computes one
#   element, and adjacent lanes of a warp compute adjacent elements of a row.

# %% nbgrader={"grade": false, "grade_id": "shade", "locked": false, "schema_version": 3, "solution": true, "task": false}
@cuda.jit
def shade_kernel(image, gain, out):
    """One thread for one pixel."""
    ### BEGIN SOLUTION
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = image[y, x] * gain[x]
    ### END SOLUTION


def shade(image, gain, out, block):
    """Write image[y, x] * gain[x] into out[y, x] with one launch of shade_kernel."""
    ### BEGIN SOLUTION
    height, width = out.shape
    grid = (-(-width // block[0]), -(-height // block[1]))
    shade_kernel[grid, block](image, gain, out)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "shade_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_shade():
    """A picture of 48 x 100 pixels, with two block shapes."""
    image, gain = torch.rand(48, 100).cuda(), torch.linspace(0, 1, 100).cuda()
    out = torch.full((48, 100), torch.nan).cuda()
    with gpulab.observe() as seen:
        shade(image, gain, out, block=(32, 4))
    print(seen.table(), "\n")

    assert len(seen.launches) == 1, f"{len(seen.launches)} launches, expected 1"
    launch = seen.launches[0]
    print("grid", launch.grid, "block", launch.block)
    print("read sectors", launch.total("read_sectors"), "written sectors", launch.total("written_sectors"))
    assert not launch.faults, f"{launch.faults[0].kind}: {launch.faults[0].array}{list(launch.faults[0].index)}"
    assert not launch.races, f"race, {launch.races[0].kind}: {launch.races[0].array}{list(launch.races[0].index)}"
    assert out.cpu().equal(image.cpu() * gain.cpu()), "the picture is wrong"
    assert launch.grid == (4, 12, 1), "expected a grid of (4, 12): x over the columns, y over the rows"
    assert launch.block == (32, 4, 1), "expected a block of (32, 4), as passed"
    assert launch.total("stores") == 4800, "expected 4800 stores: one for each pixel"
    assert launch.sectors <= 2016, f"{launch.sectors} sectors, expected at most 2016: are the accesses of a warp coalesced?"
    with gpulab.observe() as seen:
        shade(image, gain, out, block=(16, 16))
    assert seen.launches[0].block == (16, 16, 1), "expected a block of (16, 16), as passed"


_see_shade()

# %% nbgrader={"grade": true, "grade_id": "shade_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of shade: the picture 2, no access out of bounds 1, each pixel once 1, grid and block 1, sectors 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("execution.shade")
### END HIDDEN TESTS

# %% [markdown]
# ## E3.3 `divergence_cost`
#
# A robot's scene has objects of several kinds, and each kind takes a different branch of a kernel.
# Here is such a kernel: one thread per object, and a loop whose trip count depends on the kind. The
# counter says how many instructions the warps issued in the three branches. Before you run the
# cell: the second arrangement has the same objects in another order. Does it cost more, less, or the same?

# %% nbgrader={"grade": false, "grade_id": "branches", "locked": true, "schema_version": 3, "solution": false, "task": false}
@cuda.jit
def _track(kinds, turns, order, x, out):
    """Thread i works on object order[i]; what it does depends on the object's kind."""
    i = cuda.grid(1)
    if i < order.size:
        j = order[i]
        kind = kinds[j]
        v = x[j]
        if kind == 0:
            for _ in range(turns[0]):
                v = 0.5 * v + 1.0
        elif kind == 1:
            for _ in range(turns[1]):
                v = 0.5 * v - 2.0
        else:
            for _ in range(turns[2]):
                v = 0.5 * v * v
        out[j] = v


_TURNS = (2, 5, 9)
_COSTS = [1 + 3 * turns for turns in _TURNS]  # per iteration: the loop's step and two operations


def _tracked(kinds, threads, order=None):
    """The launch of track over objects of these kinds, in this order."""
    n = len(kinds)
    order = torch.arange(n) if order is None else torch.tensor(list(order))
    x, out = torch.arange(n, dtype=torch.float32).cuda(), torch.empty(n).cuda()
    arguments = torch.tensor(kinds).cuda(), torch.tensor(_TURNS).cuda(), order.cuda(), x, out
    with gpulab.observe() as seen:
        _track[-(-n // threads), threads](*arguments)
    return seen.launches[0]


def _in_branches(launch):
    """Instructions that warps issued in the bodies of the three branches."""
    return sum(line.instructions for line in launch.lines if line.line.text.startswith(("for _", "v = 0.5")))


_alternating = [0, 2] * 64
_aligned = ([0] * 32 + [2] * 32) * 2
for _name, _kinds in (("alternating", _alternating), ("aligned", _aligned)):
    _launch = _tracked(_kinds, threads=64)
    print(f"{_name:12} {_in_branches(_launch):5} instructions in branches, {_launch.total('divergent_branches')} warps split")

# %% [markdown]
# Write `divergence_cost(kinds, costs, threads)`, which predicts this count, the cost of **warp
# divergence**, without a launch:
#
# - [c1] `kinds`: a list with the kind of each thread's object, in thread order, at least one. [c2] `costs`: a
#   list with the number of instructions that a warp issues for the branch of each kind, however many
#   of its lanes take it. [c3] It has one entry per kind, and some kinds may not occur. [c4] `threads`: threads
#   in a block, 1 to 1024;
# - [c5] the launch has the smallest number of blocks that covers all objects. [c6] Threads without an object
#   take no branch;
# - [c7] returns the number of instructions that all warps of all blocks issue in the branches, an `int`;
# - [c8] both lists stay as they are;
# - [c9] you write it in plain Python: [c10] it is graded where PyTorch, NumPy, Numba and gpulab cannot be imported.

# %% nbgrader={"grade": false, "grade_id": "divergence_cost", "locked": false, "schema_version": 3, "solution": true, "task": false}
def divergence_cost(kinds, costs, threads):
    """Instructions that the warps of a launch issue in branches of these costs."""
    ### BEGIN SOLUTION
    total = 0
    for block in range(0, len(kinds), threads):
        end = min(block + threads, len(kinds))
        for warp in range(block, end, 32):
            total += sum(costs[kind] for kind in set(kinds[warp : min(warp + 32, end)]))
    return total
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "divergence_cost_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_divergence_cost():
    """Your predictions and the instructions that the warps issued."""
    for kinds, threads in ((_alternating, 64), (_aligned, 64), ([0, 1, 1, 2, 0] * 11, 32), ([0] * 32 + [1] * 32, 48)):
        counted, predicted = _in_branches(_tracked(kinds, threads)), divergence_cost(kinds, _COSTS, threads)
        print(f"{len(kinds):4} threads in blocks of {threads}: counted {counted:4}, predicted {predicted:4}")
        assert predicted == counted, f"predicted {predicted} instructions, but the warps issued {counted}"


_see_divergence_cost()

# %% nbgrader={"grade": true, "grade_id": "divergence_cost_hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of divergence_cost: uniform warps 1, divergent warps 2, block sizes that are not a
# multiple of 32 1, a partial last warp 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("execution.divergence_cost")
### END HIDDEN TESTS

# %% [markdown]
# ## E3.4 `regroup`
#
# The kernel above takes an order: thread `i` works on object `order[i]`. So objects of one kind can share
# warps without being moved in memory. But the order has its own cost: lanes then *gather*, and where the
# objects of a warp are far apart in memory, the accesses are uncoalesced and more sectors move.
#
# Write `regroup(kinds)`:
#
# - [c1] `kinds`: a list with the kind of each object, integers from 0 to 99,999, any of which may be
#   missing; [c2] its length is a multiple of 32, at least 32;
# - [c3] returns the order as a list of Python `int`, a permutation: [c4] each number from 0 to `len(kinds) - 1` once;
# - [c5] in a launch with that order and one branch per kind, **warps rarely diverge**: [c6] the counter of divergent
#   branches is at most the number of kinds that occur minus one, over the whole launch;
# - [c7] the objects of one kind come **in ascending order**: [c8] adjacent lanes then share sectors;
# - [c9] the input list stays as it is.

# %% nbgrader={"grade": false, "grade_id": "regroup", "locked": false, "schema_version": 3, "solution": true, "task": false}
def regroup(kinds):
    """An order of the objects in which warps split seldom and gathers stay near."""
    ### BEGIN SOLUTION
    # sorted() is stable: within a kind the objects stay in ascending order.
    return sorted(range(len(kinds)), key=lambda j: kinds[j])
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "regroup_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_regroup():
    """Objects in memory order, in your order and in random order."""
    torch.manual_seed(3)
    kinds = torch.randint(0, 3, (512,)).tolist()
    order = regroup(kinds)
    assert sorted(order) == list(range(512)), "expected a permutation: each object once"

    for name, its in (("as they lie", list(range(512))), ("yours", order), ("at random", torch.randperm(512).tolist())):
        launch = _tracked(kinds, 128, its)
        splits = launch.total("divergent_branches")
        print(f"{name:12} {_in_branches(launch):5} instructions in branches, {splits:3} splits, {launch.sectors:4} sectors")

    launch = _tracked(kinds, 128, order)
    assert launch.total("divergent_branches") <= 2, "expected at most 2 divergent branches: the number of kinds minus one"
    assert all(i < j for i, j in zip(order, order[1:]) if kinds[i] == kinds[j]), "the objects of one kind are not in ascending order"


_see_regroup()

# %% nbgrader={"grade": true, "grade_id": "regroup_hidden", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of regroup: each object once 1, divergent branches 3, ascending order within a kind 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("execution.regroup")
### END HIDDEN TESTS

# %% [markdown]
# ## E3.5 `occupancy`
#
# A multiprocessor (SM) holds many resident blocks at once, so that one warp is ready while others wait for
# memory (latency hiding). The scarcest of four resources limits how many blocks it holds. Here are the
# resources of some cards, by compute capability, from NVIDIA's tables:

# %% nbgrader={"grade": false, "grade_id": "cards", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _card(max_warps, max_blocks, shared_bytes, shared_reserved, shared_unit):
    """The resources of one multiprocessor; all four cards have the same registers."""
    from types import SimpleNamespace

    return SimpleNamespace(
        max_warps=max_warps, max_blocks=max_blocks, registers=65536, register_unit=256,
        shared_bytes=shared_bytes, shared_reserved=shared_reserved, shared_unit=shared_unit,
    )


_T4 = _card(32, 16, 65536, 0, 256)
_A100 = _card(64, 32, 167936, 1024, 128)
_L40S = _card(48, 24, 102400, 1024, 128)
_H100 = _card(64, 32, 233472, 1024, 128)

# %% [markdown]
# Write `occupancy(threads, registers, shared_bytes, sm)`, the number of blocks that one multiprocessor
# holds at once, an `int`:
#
# - [c1] `threads`: threads per block, 1 to 1024. `registers`: per thread, 1 to 255. `shared_bytes`: shared
#   memory per block, 0 or more;
# - [c2] `sm`: an object with the attributes above, whose values may be others;
# - [c3] **warps**: at most `sm.max_warps` on the multiprocessor. A block takes whole warps of 32 threads;
# - [c4] **blocks**: at most `sm.max_blocks`, however small they are;
# - [c5] **registers**: a warp takes 32 times the registers of a thread, rounded up to a multiple of
#   `sm.register_unit`;
# - [c6] a multiprocessor has four quarters (partitions), with a quarter of `sm.registers` each, and a warp is
#   in one of them. The blocks share four times the number of warps that fit in one quarter;
# - [c7] **shared memory**: a block takes `shared_bytes` plus `sm.shared_reserved`, the sum rounded up to a
#   multiple of `sm.shared_unit`, out of `sm.shared_bytes`;
# - [c8] returns 0 where not even one block fits;
# - [c9] raises `ValueError` for `threads` or `registers` out of their range and for negative `shared_bytes`,
#   also where no block fits;
# - [c10] you write it in plain Python: it is graded where PyTorch, NumPy, Numba and gpulab cannot be
#   imported.
#
# These are the rules of NVIDIA's CUDA Occupancy Calculator, for Volta and later.

# %% nbgrader={"grade": false, "grade_id": "occupancy", "locked": false, "schema_version": 3, "solution": true, "task": false}
def occupancy(threads, registers, shared_bytes, sm):
    """Blocks of this kind that one multiprocessor holds at once."""
    ### BEGIN SOLUTION
    if not 1 <= threads <= 1024 or not 1 <= registers <= 255 or shared_bytes < 0:
        raise ValueError(f"no block has {threads} threads, {registers} registers each, {shared_bytes} bytes")
    warps = round_up(threads, 32) // 32
    by_warps = sm.max_warps // warps
    warp_registers = round_up(32 * registers, sm.register_unit)
    by_registers = 4 * (sm.registers // 4 // warp_registers) // warps
    taken = round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)
    by_shared = sm.shared_bytes // taken if taken else sm.max_blocks
    return min(by_warps, sm.max_blocks, by_registers, by_shared)


def round_up(value, unit):
    """The least multiple of unit that is at least value."""
    return -(-value // unit) * unit
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "occupancy_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_occupancy():
    """Resident blocks per multiprocessor, on four cards."""
    print("threads  registers  shared    T4  A100  L40S  H100   (blocks; share of the A100's warps)")
    for block in ((32, 16, 0), (256, 32, 0), (256, 33, 0), (1024, 32, 0), (1024, 65, 0), (96, 64, 0), (128, 32, 20_000)):
        found = [occupancy(*block, sm) for sm in (_T4, _A100, _L40S, _H100)]
        share = found[1] * -(-block[0] // 32) / 64
        print(f"{block[0]:7}{block[1]:11}{block[2]:8}", "".join(f"{blocks:6}" for blocks in found), f"{share:8.0%}")

    assert occupancy(256, 32, 0, _A100) == 8, "expected 8 blocks: 64 warps are 8 blocks of 8 warps"
    assert occupancy(1024, 65, 0, _A100) == 0, "expected 0: with 72 x 32 registers per warp, no block of 32 warps fits"


_see_occupancy()

# %% nbgrader={"grade": true, "grade_id": "occupancy_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of occupancy: warps 1, the cap on blocks 1, registers 2, shared memory 2, blocks that do not fit and
# invalid arguments 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("execution.occupancy")
### END HIDDEN TESTS
