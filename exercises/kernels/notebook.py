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
# # Kernels from Python: exercises
#
# Five functions. Each is graded for its result and for what the machine did: kernels launched,
# bytes loaded and stored, out-of-bounds lanes, graphs captured. Write your code where it
# says `YOUR CODE HERE`, run the cell below it, and read what it prints.
#
# The kernels are ordinary Triton. Without a GPU they run under an interpreter that counts every
# load and store, on a virtual card; the same source runs on a GPU. Counts are exact; a speed is
# *not gradable here*.
#
# Remove a `print` of a tensor once you have read it: printing copies the tensor to the host.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.nn.functional import silu

import gpulab
import gpulab.cuda
from gpulab.kernels import tl, triton

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E7.1 `fuse_budget`
#
# A gated activation, as in the MLP of many language models, written one PyTorch operation at a time. How
# many kernels does it launch, and how many bytes do they read and write? Guess before you run it.

# %% nbgrader={"grade": false, "grade_id": "plain_gate", "locked": true, "schema_version": 3, "solution": false, "task": false}
def plain_gate(x, gate, bias):
    """silu(x + bias) * gate, an operation at a time."""
    return silu(x + bias) * gate


torch.manual_seed(7)
x, gate = torch.randn(64, 100).cuda(), torch.randn(64, 100).cuda()
bias = torch.randn(100).cuda()
with gpulab.observe() as seen:
    plain_gate(x, gate, bias)
COUNTED = seen.counts_work
for kernel in seen.kernels:
    print(f"{kernel.name:12}{kernel.bytes_read!s:>8} bytes read{kernel.bytes_written!s:>8} written")
if not COUNTED:
    print("The profiler of this card counts no bytes: run fuse_budget on the virtual card.")

# %% [markdown]
# Write `fuse_budget(fn, *inputs)`, which reports what kernel fusion would save for a chain of
# operations. It returns a dictionary of three `int`:
#
# - [c1] `"kernels"`: the number of kernels that one call `fn(*inputs)` launches. [c2] A view launches none;
# - [c3] `"bytes"`: the total number of bytes that these kernels read and write;
# - [c4] `"fused_bytes"`: the bytes that *one* fused kernel reads and writes: [c5] each element of each
#   input is read once, and each element of the result is written once, also where the result is
#   an input (in place);
# - [c6] call `fn` **once**, with the tensors in `inputs` themselves, not copies: [c7] it may write to them in
#   place.
#
# `fn` launches one or more kernels, copies nothing, uses all of its tensors and returns one. All are on
# the card. The inputs are different tensors of any dtype, with no element shared or repeated (no
# aliases, no expanded dimensions); they may be slices of a wider matrix.

# %% nbgrader={"grade": false, "grade_id": "fuse_budget", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fuse_budget(fn, *inputs):
    """Kernels and bytes of one call of fn, and the bytes that one fused kernel would leave."""
    ### BEGIN SOLUTION
    with gpulab.observe() as seen:
        result = fn(*inputs)
    moved = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels)
    ends = sum(tensor.nbytes for tensor in (*inputs, result))
    return {"kernels": len(seen.kernels), "bytes": moved, "fused_bytes": ends}
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "fuse_budget_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_fuse_budget():
    """The budget of plain_gate, and of views."""
    if not COUNTED:
        print("No bytes are counted here, and nothing was checked.")
        return
    budget = fuse_budget(plain_gate, x, gate, bias)
    print(budget)
    print(f"one kernel would move {budget['bytes'] / budget['fused_bytes']:.1f} times fewer bytes")

    views = fuse_budget(lambda v: v.t().reshape(100, 8, 8).unsqueeze(0) * 2, x)
    assert budget["kernels"] == 3, f"{budget['kernels']} kernels, expected 3: one each for add, silu and mul"
    assert budget["fused_bytes"] == 3 * x.nbytes + bias.nbytes, "expected the bytes of x, gate and bias read, and of the result written"
    assert views["kernels"] == 1, f"{views['kernels']} kernels, expected 1: t, reshape and unsqueeze are views here"


_see_fuse_budget()

# %% nbgrader={"grade": true, "grade_id": "fuse_budget_hidden", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of fuse_budget: kernels 1, bytes 2, fused bytes 1, called once 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("kernels.fuse_budget")
### END HIDDEN TESTS

# %% [markdown]
# ## E7.2 `fused_gate`
#
# Now fuse it into one kernel. Write `fused_gate(x, gate, bias)`, which computes what `plain_gate`
# does:
#
# - [c1] `x`, `gate`: float32 tensors on the card, contiguous, of the same two-dimensional shape. [c2] The
#   shape need not be a multiple of anything, and there may be no rows. [c3] `bias`: float32, contiguous,
#   as long as a row of `x`;
# - [c4] returns `silu(x + bias) * gate` in a new tensor, allocated without initialisation: [c5] from `torch.empty`,
#   `torch.empty_like` or `x.new_empty`;
# - [c6] **one launch** of a Triton kernel of your own, which loads each element of `x` and of `gate`
#   once and stores each element of the result once. [c7] For each element of `x` it may load one element
#   of `bias`. [c8] Where there are no rows, no launch is needed;
# - [c9] PyTorch computes nothing, and no input changes;
# - [c10] no lane loads or stores outside its tensor (out of bounds).
#
# `silu(y)` is `y * sigmoid(y)`. Triton has `tl.sigmoid`.

# %% nbgrader={"grade": false, "grade_id": "fused_gate", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def gate_kernel(x_ptr, gate_ptr, bias_ptr, out_ptr, size, columns, BLOCK: tl.constexpr):
    ### BEGIN SOLUTION
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    y = tl.load(x_ptr + at, mask=inside, other=0.0)
    y += tl.load(bias_ptr + at % columns, mask=inside, other=0.0)
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, y * tl.sigmoid(y) * gate, mask=inside)
    ### END SOLUTION


def fused_gate(x, gate, bias):
    """silu(x + bias) * gate in one kernel, as a new tensor."""
    ### BEGIN SOLUTION
    out = torch.empty_like(x)
    size, block = x.numel(), 1024
    gate_kernel[(triton.cdiv(size, block),)](x, gate, bias, out, size, x.shape[1], BLOCK=block)
    return out
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "fused_gate_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_fused_gate():
    """Your kernel, compared with plain_gate."""
    inputs = x.clone(), gate.clone(), bias.clone()
    with gpulab.observe() as seen:
        found = fused_gate(*inputs)
    print(seen.table().split("\n\n")[-1])

    assert isinstance(found, torch.Tensor), f"fused_gate returned {found!r}, expected a tensor"
    assert not seen.computing_ops, f"PyTorch computed: {seen.computing_ops}"
    assert len(seen.launches) == 1, f"{len(seen.launches)} launches, expected 1"
    assert not seen.launches[0].faults, "an out-of-bounds access: see the lines below the table"
    assert torch.allclose(found, plain_gate(x, gate, bias), atol=1e-5), "the values differ from those of plain_gate"
    assert all(map(torch.equal, inputs, (x, gate, bias))), "an input was changed"
    assert seen.launches[0].total("written_bytes") == x.nbytes, "expected one store of each element"


_see_fused_gate()

# %% nbgrader={"grade": true, "grade_id": "fused_gate_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of fused_gate: values 2, one launch, each element loaded and stored once 3, sizes and masks 1, inputs 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("kernels.fused_gate")
### END HIDDEN TESTS

# %% [markdown]
# ## E7.3 `row_softmax`
#
# A fused softmax: one row at a time, in one kernel. Written as PyTorch operations, it reads and writes
# the matrix several times:

# %% nbgrader={"grade": false, "grade_id": "plain_softmax", "locked": true, "schema_version": 3, "solution": false, "task": false}
def plain_softmax(x):
    """The softmax of each row, an operation at a time."""
    e = torch.exp(x - x.max(1, keepdim=True).values)
    return e / e.sum(1, keepdim=True)


_scores = torch.randn(16, 200).cuda()
if COUNTED:
    _budget = fuse_budget(plain_softmax, _scores)
    print(_budget, f"{_budget['bytes'] / _budget['fused_bytes']:.1f} times what is needed")

# %% [markdown]
# Write `row_softmax(x)`:
#
# - [c1] `x`: float32 tensor of two dimensions on the card. Its columns are adjacent in memory
#   (`x.stride(1)` is 1); its row stride may exceed its number of columns, as in a slice of
#   a wider matrix. [c2] At most 4,096 columns, and any number of rows, or none. [c3] An element may be `-inf` (a
#   masked score), but not a whole row; all others are between -1e30 and 1e30;
# - [c4] returns the softmax of each row in a new contiguous tensor of the same shape, from `torch.empty` or a
#   variant of it (such as `torch.empty_like`);
# - [c5] **one launch** of a Triton kernel of your own loads each element **once** and stores each
#   element **once**; [c6] PyTorch computes nothing, and `x` stays as it is;
# - [c7] large scores do not overflow;
# - [c8] no lane loads or stores outside its tensor (out of bounds);
# - [c9] raises `ValueError` when `x` does not have two dimensions or is not float32.
#
# The size of a Triton tile is a power of two; `triton.next_power_of_2` computes one. A grid has at most
# 2,147,483,647 programs along x, and at most 65,535 along y and along z.

# %% nbgrader={"grade": false, "grade_id": "row_softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    ### BEGIN SOLUTION
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    # A lane beyond the row's end holds -inf: it is no maximum, and its exp adds nothing.
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=inside)
    ### END SOLUTION


def row_softmax(x):
    """The softmax of each row of x, float32 (rows, columns), as a new tensor."""
    ### BEGIN SOLUTION
    if x.ndim != 2 or x.dtype != torch.float32:
        raise ValueError(f"a float32 matrix is due, not {x.dtype} in {x.ndim} dimensions")
    rows, columns = x.shape
    out = torch.empty(rows, columns, device=x.device)
    softmax_kernel[(rows,)](x, out, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))
    return out
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "row_softmax_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_row_softmax():
    """Your kernel, compared with the unfused softmax."""
    mine = _scores.clone()
    with gpulab.observe() as seen:
        found = row_softmax(mine)
    print(seen.table().split("\n\n")[-1])

    assert isinstance(found, torch.Tensor), f"row_softmax returned {found!r}, expected a tensor"
    assert not seen.computing_ops, f"PyTorch computed: {seen.computing_ops}"
    assert len(seen.launches) == 1, f"{len(seen.launches)} launches, expected 1"
    launch = seen.launches[0]
    assert not launch.faults, "an out-of-bounds access: see the lines below the table"
    assert torch.equal(mine, _scores), "the scores were changed"
    assert torch.allclose(found, plain_softmax(_scores), atol=1e-6), "the values differ from those of plain_softmax"
    loads = launch.total("read_bytes") / _scores.nbytes
    assert loads == 1, f"each element is loaded {loads:g} times, expected once"


_see_row_softmax()

# %% nbgrader={"grade": true, "grade_id": "row_softmax_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of row_softmax: values 2, masked lanes at the end of a row 1, no lane out of bounds 1, large and
# masked scores 1, row strides 1, one load and one store of each element 2, edges 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("kernels.row_softmax")
### END HIDDEN TESTS

# %% [markdown]
# ## E7.4 `linear_silu`
#
# A linear layer with an activation: GEMM, bias, SiLU. PyTorch launches one kernel for the GEMM with its
# bias and one for the activation, and the second kernel reads the whole output of the first from memory.
# The activation can be fused into the GEMM instead, as its epilogue.

# %% nbgrader={"grade": false, "grade_id": "plain_linear", "locked": true, "schema_version": 3, "solution": false, "task": false}
def plain_linear(x, weight, bias):
    """silu(x @ weight.T + bias), an operation at a time."""
    return silu(torch.nn.functional.linear(x, weight, bias))


def _a_layer(m, n, k):
    return (torch.randn(m, k) / k**0.5).half().cuda(), torch.randn(n, k).half().cuda(), torch.randn(n).half().cuda()


_layer = _a_layer(80, 48, 72)
with gpulab.observe() as _seen:
    plain_linear(*_layer)
for _kernel in _seen.kernels:
    print(f"{_kernel.name:16}{_kernel.bytes_read!s:>8} bytes read{_kernel.bytes_written!s:>8} written")

# %% [markdown]
# Write `linear_silu(x, weight, bias)`:
#
# - [c1] `x`: `(M, K)`; `weight`: `(N, K)`, as `torch.nn.Linear` stores it; `bias`: `(N,)`. All float16,
#   contiguous and on the card. [c2] `N` and `K` are 1 or more, `M` may be 0, and none need be a
#   multiple of a tile;
# - [c3] returns `silu(x @ weight.T + bias)` as a new contiguous float16 tensor `(M, N)`, from `torch.empty` or a
#   variant of it (such as `torch.empty_like`);
# - [c4] **one launch** of a Triton kernel of your own, in which accumulator, bias and activation stay in
#   float32 and in registers: [c5] each element of the result is stored **once**, and no stored value is
#   loaded back;
# - [c6] **tiles**: in total it loads no more than output tiles of 32 x 32 need, where every program
#   loads one strip of `x`, one strip of `weight` and the bias of its columns. A partial tile at the edge
#   counts as a whole one. Larger tiles load less;
# - [c7] PyTorch computes nothing; no lane loads or stores outside its tensor (out of bounds);
# - [c8] raises `ValueError` when the sizes do not match.
#
# `tl.dot(a, b, acc)` adds the product of two tiles to a float32 accumulator tile; each side of a tile is 16 or more.

# %% nbgrader={"grade": false, "grade_id": "linear_silu", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def linear_silu_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    ### BEGIN SOLUTION
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        across = start + tl.arange(0, BK)[None, :]
        down = start + tl.arange(0, BK)[:, None]
        x = tl.load(x_ptr + row * K + across, mask=(row < M) & (across < K), other=0.0)
        weight = tl.load(weight_ptr + column * K + down, mask=(column < N) & (down < K), other=0.0)
        acc = tl.dot(x, weight, acc)
    acc += tl.load(bias_ptr + column, mask=column < N, other=0.0)
    out = acc * tl.sigmoid(acc)
    tl.store(out_ptr + row * N + column, out.to(tl.float16), mask=(row < M) & (column < N))
    ### END SOLUTION


def linear_silu(x, weight, bias):
    """silu(x @ weight.T + bias), float16 (M, N), in one kernel."""
    ### BEGIN SOLUTION
    (M, K), N = x.shape, weight.shape[0]
    if weight.shape != (N, K) or bias.shape != (N,):
        raise ValueError(f"{tuple(x.shape)}, {tuple(weight.shape)} and {tuple(bias.shape)} do not fit")
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    grid = triton.cdiv(M, 32), triton.cdiv(N, 32)
    linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)
    return out
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "linear_silu_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_linear_silu():
    """Your kernel, compared with the unfused layer."""
    inputs = [tensor.clone() for tensor in _layer]
    with gpulab.observe() as seen:
        found = linear_silu(*inputs)
    print(seen.table().split("\n\n")[-1], "\n")
    for use in [use for launch in seen.launches for use in launch.arrays]:
        print(f"{use.array:12}{use.bytes:8} bytes{use.read_bytes:8} read{use.written_bytes:8} written")

    assert isinstance(found, torch.Tensor), f"linear_silu returned {found!r}, expected a tensor"
    assert not seen.computing_ops, f"PyTorch computed: {seen.computing_ops}"
    assert len(seen.launches) == 1, f"{len(seen.launches)} launches, expected 1"
    launch = seen.launches[0]
    assert not launch.faults, "an out-of-bounds access: see the lines below the table"
    assert torch.allclose(found.float(), plain_linear(*_layer).float(), atol=2e-2), "the values differ from those of plain_linear"
    assert launch.total("written_bytes") == found.nbytes, "expected one store of each element of the result"


_see_linear_silu()

# %% nbgrader={"grade": true, "grade_id": "linear_silu_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of linear_silu: values 2, ragged sizes 1, no lane out of bounds 1, long sums 1, stored once 2,
# tiles 2, edges 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("kernels.linear_silu")
### END HIDDEN TESTS

# %% [markdown]
# ## E7.5 `squash`
#
# This function limits a robot's commands. Its branches depend on tensor values, and its loop on the
# batch size. `fusion.watch` wraps `torch.compile` and reports graph breaks and recompilations.
# (Importing the compiler takes a few seconds.)

# %% nbgrader={"grade": false, "grade_id": "first_squash", "locked": true, "schema_version": 3, "solution": false, "task": false}
def first_squash(x, limit):
    """Commands with no value above limit, each row no longer than 1: right, but with graph breaks."""
    top = x.abs().amax()
    if top.item() > limit:
        x = x * (limit / top)
    rows = []
    for row in x:
        if row.norm() > 0:
            row = row * (torch.tanh(row.norm()) / row.norm())
        rows.append(row)
    return torch.stack(rows)


_batches = [torch.randn(rows, 4).cuda() * size for rows, size in ((2, 1.0), (5, 9.0), (7, 0.1))]
from gpulab.kernels import fusion as _fusion

_watched = _fusion.watch(first_squash)
_watched(_batches[0], 2.0)
print(_watched.report)

# %% [markdown]
# Write `squash(x, limit)`, which returns the same values and can be captured as one graph:
#
# - [c1] `x`: float32 tensor, on the card or on the CPU, of two or more rows and two or more columns, with any
#   strides. [c2] A row may be all zeros, but not all rows; every nonzero element is between 1e-6 and 1e6 in
#   magnitude. [c3] `limit`: a Python `float` from 0.01 to 100;
# - [c4] returns what `first_squash` returns, whichever branch a batch takes. [c5] `x` stays as it is;
# - [c6] `torch.compile(squash)` captures **one graph, with no graph break**, and the host reads no
#   tensor value (`torch.cond` and `x[mask]` do read one). [c7] It is an ordinary function: use no
#   decorator;
# - [c8] **two graphs serve all sizes**: the first size gets one, and all others share another (with dynamic
#   shapes);
# - [c9] **the gradient** is that of `first_squash`, wherever that is differentiable. [c10] A row of zeros
#   passes the gradient through unchanged, except for the scale factor of its batch.
#
# `torch.where` computes both branches, in the backward pass too.

# %% nbgrader={"grade": false, "grade_id": "squash", "locked": false, "schema_version": 3, "solution": true, "task": false}
def squash(x, limit):
    """Commands with no value above limit, each row no longer than 1, without a branch."""
    ### BEGIN SOLUTION
    top = x.abs().amax()
    x = x * (limit / top.clamp(min=limit))
    length = x.norm(dim=1, keepdim=True)
    moves = length > 0
    safe = torch.where(moves, length, 1.0)
    return torch.where(moves, x * (torch.tanh(safe) / safe), x)
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "squash_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_squash():
    """Your function, compiled, with three batch sizes."""
    watched = _fusion.watch(squash)
    for batch in _batches:
        due = first_squash(batch, 2.0)
        assert torch.allclose(squash(batch, 2.0), due, atol=1e-6), "the values differ from those of first_squash"
        assert torch.allclose(watched(batch, 2.0), due, atol=1e-6), "the values of the compiled function differ from those of first_squash"
    print(watched.report)

    long = 100 * _batches[1].t()
    due = first_squash(long, 60.0)
    assert torch.allclose(squash(long, 60.0), due, atol=1e-6), "the values for long rows, in a transposed tensor, differ from those of first_squash"

    still = torch.tensor([[0.0, 0.0], [0.3, 0.4]], requires_grad=True)
    squash(still, 2.0).sum().backward()
    print("gradient with a row of zeros:", still.grad.tolist())

    assert watched.report.graphs > 0, "expected at least one graph: nothing was compiled"
    assert not watched.report.graph_breaks, "a graph break: see its line in the report above"
    assert watched.report.graphs <= 2, f"{watched.report.graphs} graphs for three sizes, expected at most 2: see the recompilations above"
    assert torch.isfinite(still.grad).all(), "the gradient of a row of zeros is NaN or infinite"


_see_squash()

# %% nbgrader={"grade": true, "grade_id": "squash_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of squash: values 2, one graph 2, all sizes 2, gradient 2.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("kernels.squash")
### END HIDDEN TESTS
