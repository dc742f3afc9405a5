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
# # The memory hierarchy: exercises
#
# Five functions. Two of them launch kernels that you write in Python with the `numba.cuda` API, and
# are graded for what the warps did: 32-byte sectors of memory moved, loads of each element, data
# races between threads, and bank conflicts in shared memory. Write your code where it says
# `YOUR CODE HERE`, run the cell below it, and read what it prints.
#
# Here and in the hidden tests an interpreter runs the kernels on a virtual card and *counts* what
# each warp did. If you have a GPU, `gpulab.cuda.use("real")` in a new cell compiles the same source and
# runs it there, and the interpreter still counts. How fast a kernel is on a real card is
# *not gradable here*.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import gpulab.cuda
import torch
from gpulab.kernels import cuda, float32

runtime = gpulab.cuda.use("virtual:H100")
TILE = 16


def whole_numbers(*shape):
    """float32 whole numbers from -4 to 4, on the device: sums of them are exact, in any order."""
    return torch.randint(-4, 5, shape, dtype=torch.float32).cuda()


# Operations whose FLOPs and bytes `work` counts, and whose time `roofline` bounds.
OPERATIONS = [
    {"kind": "gemm", "m": 4096, "n": 4096, "k": 4096},
    {"kind": "gemv", "m": 4096, "k": 4096},
    {"kind": "layer_norm", "rows": 4096, "width": 4096},
    {"kind": "decode_attention", "batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128, "context": 4096},
]

# %% [markdown]
# ## E4.1 `sectors`
#
# Device memory is read and written in sectors of 32 bytes, each aligned to a multiple of 32. The
# loads of a warp's lanes are **coalesced** into one request, and each sector that holds a requested
# byte moves once. Here lane `i` reads element `offset + stride * i`. Predict the numbers of sectors
# before you run the cell.

# %% nbgrader={"grade": false, "grade_id": "strided_reads", "locked": true, "schema_version": 3, "solution": false, "task": false}
@cuda.jit
def strided_read(x, y, stride, offset):
    i = cuda.grid(1)
    y[i] = x[offset + stride * i]


def counted_sectors(stride, offset):
    """Sectors that one warp reads, counted by the interpreter."""
    with gpulab.observe() as seen:
        strided_read[1, 32](whole_numbers(2048), torch.empty(32, device="cuda"), stride, offset)
    return seen.launches[0].total("read_sectors")


for stride, offset in [(1, 0), (1, 3), (2, 0), (4, 0), (8, 0), (32, 0), (0, 5)]:
    print(f"stride {stride:3}  offset {offset}  {counted_sectors(stride, offset):3} sectors")

# %% [markdown]
# Write `sectors(addresses, item_bytes)`, which predicts this number:
#
# - [c1] `addresses`: a list of integers, the byte address that each **active** lane of one warp uses,
#   in the order of the lanes. [c2] There are at most 32; [c3] lanes may use the same address, and addresses may
#   come in any order. [c4] No lane is active in an empty list. [c5] The list is left as it is;
# - [c6] `item_bytes`: the number of bytes that each lane reads, starting at its address: [c7] 1, 2, 4, 8 or 16;
# - [c8] returns the number of different 32-byte sectors that move, an integer;
# - [c9] raises `ValueError` for more than 32 addresses, a negative address, any other `item_bytes`, and
#   an address that is not a multiple of `item_bytes`: [c10] a GPU raises *misaligned address* there.

# %% nbgrader={"grade": false, "grade_id": "sectors", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sectors(addresses, item_bytes):
    """32-byte sectors that one warp's request touches, from the byte addresses of its lanes."""
    ### BEGIN SOLUTION
    if len(addresses) > 32 or item_bytes not in (1, 2, 4, 8, 16):
        raise ValueError("one warp has 32 lanes, and each reads 1, 2, 4, 8 or 16 bytes")
    if any(address < 0 or address % item_bytes for address in addresses):
        raise ValueError(f"misaligned address: not a multiple of {item_bytes}")
    # An aligned item of at most 16 bytes lies inside one sector.
    return len({address // 32 for address in addresses})
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "sectors_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_sectors():
    """Your predictions and the sectors that a warp read."""
    for stride, offset in [(1, 0), (1, 3), (2, 0), (4, 0), (8, 0), (32, 0), (0, 5)]:
        predicted = sectors([4 * (offset + stride * lane) for lane in range(32)], 4)
        counted = counted_sectors(stride, offset)
        print(f"stride {stride:3}  offset {offset}  predicted {predicted:3}  counted {counted:3}")
        assert predicted == counted, f"predicted {predicted} sectors, counted {counted}: which sectors hold the 32 addresses?"


_see_sectors()

# %% nbgrader={"grade": true, "grade_id": "sectors_hidden", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of sectors: neighbouring lanes 1, strides 2, misaligned 1, lanes that share 1,
# errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("hierarchy.sectors")
### END HIDDEN TESTS

# %% [markdown]
# ## E4.2 `row_sums`
#
# One thread per row: the obvious way to add up the rows of a matrix. Its values are right. Look at
# its memory traffic. Which addresses do the 32 lanes of a warp read *at the same time*?

# %% nbgrader={"grade": false, "grade_id": "first_row_sums", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_first_row_sums():
    """A thread for each row: right, and wasteful."""

    @cuda.jit
    def a_thread_a_row(x, out):
        row = cuda.grid(1)
        if row < x.shape[0]:
            total = float32(0)
            for column in range(x.shape[1]):
                total += x[row, column]
            out[row] = total

    def first_row_sums(x):
        """The sum of each row: right, and wasteful."""
        out = torch.empty(len(x), device=x.device)
        a_thread_a_row[-(-len(x) // 128), 128](x, out)
        return out

    x = whole_numbers(64, 256)
    with gpulab.observe() as seen:
        expected = first_row_sums(x)
    print(seen.table().split("\n\n")[-1])
    return x, expected


_x, _expected = _show_first_row_sums()

# %% [markdown]
# Write `row_sums(x)`, with your own kernels, whose warps read adjacent elements (coalesced loads):
#
# - [c1] `x`: a contiguous `float32` tensor of two dimensions, left as it is. Each size is from 0 to
#   100,000, not necessarily a multiple of anything;
# - [c2] its values are whole numbers, whose sums are exact in `float32` in any order, but in no narrower
#   type;
# - [c3] returns a new `float32` tensor of one dimension on `x`'s device: the sum of each row, 0 for an
#   empty one;
# - [c4] **your kernels do the work**: PyTorch may only allocate (`torch.empty`, `torch.zeros`) and make
#   views, `x.t()` among them. It neither adds nor copies;
# - [c5] each element of `x` is **read once**;
# - [c6] of the bytes in the sectors that move, **at least 60 %** are requested, where rows have 96 elements
#   or more. A sector counts for every request that touches it, since caches are not modelled;
# - [c7] **no data race** and no out-of-bounds access.
#
# A warp has 32 lanes. How do they share the work, and how does one lane get the results of the
# others (a reduction)? A warp shuffle (`cuda.shfl_down_sync`), shared memory with a barrier
# (`cuda.shared.array` with `cuda.syncthreads`), and atomics (`cuda.atomic.add`) are three answers.

# %% nbgrader={"grade": false, "grade_id": "row_sums", "locked": false, "schema_version": 3, "solution": true, "task": false}
def row_sums(x):
    """The sum of each row of x, read a sector at a time."""
    ### BEGIN SOLUTION
    rows = len(x)
    out = torch.empty(rows, device=x.device)
    if rows:
        a_warp_a_row[-(-rows // 4), (32, 4)](x, out)
    return out


@cuda.jit
def a_warp_a_row(x, out):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        distance = 16
        while distance > 0:
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
            distance //= 2
        if lane == 0:
            out[row] = total
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "row_sums_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_row_sums():
    """Your sums, and the share of the moved bytes that were requested."""
    given = _x.clone()
    with gpulab.observe() as seen:
        found = row_sums(given)
    print(seen.table().split("\n\n")[-1])

    assert seen.launches, "expected a kernel launch, found none"
    moved = 32 * sum(launch.sectors for launch in seen.launches)
    asked = sum(launch.total("read_bytes") + launch.total("written_bytes") for launch in seen.launches)
    print(f"\n{asked / moved:.0%} of {moved} bytes that moved were requested")
    assert torch.equal(found, _expected), "a sum is wrong"
    assert torch.equal(given, _x), "x was modified"
    assert asked >= 0.6 * moved, f"{asked / moved:.0%} of the moved bytes were requested, expected at least 60%: what do adjacent lanes read?"
    assert not any(launch.races or launch.faults for launch in seen.launches), "a race or an out-of-bounds access: see the lines below the table"


_see_row_sums()

# %% nbgrader={"grade": true, "grade_id": "row_sums_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of row_sums: values 2, bytes that move 3, read once 1, no race 1, odd sizes 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("hierarchy.row_sums")
### END HIDDEN TESTS

# %% [markdown]
# ## E4.3 `tiled_matmul`
#
# A naive GEMM: one thread per element of the product, which reads a row of `a` and a column of `b`.
# How often is one element of `a` loaded, over the whole launch?

# %% nbgrader={"grade": false, "grade_id": "first_matmul", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _show_first_matmul():
    """A thread for each element: right, and wasteful."""

    @cuda.jit
    def a_thread_an_element(a, b, c):
        column, row = cuda.grid(2)
        if row < c.shape[0] and column < c.shape[1]:
            total = float32(0)
            for i in range(a.shape[1]):
                total += a[row, i] * b[i, column]
            c[row, column] = total

    a, b = whole_numbers(32, 48), whole_numbers(48, 64)
    expected = torch.empty(32, 64, device="cuda")
    with gpulab.observe() as seen:
        a_thread_an_element[(4, 2), (TILE, TILE)](a, b, expected)
    print(seen.table().split("\n\n")[-1])
    print(f"\n{seen.launches[0].total('loads')} loads of {a.numel() + b.numel()} elements")
    return a, b, expected, [seen]


_a, _b, _expected, _products = _show_first_matmul()

# %% [markdown]
# Write `tiled_matmul(a, b)`, a tiled GEMM with your own kernels, whose threads share loaded elements:
#
# - [c1] `a` of shape (m, k) and `b` of shape (k, n): contiguous `float32` tensors, left as they are. Any
#   size may be 0, and none need be a multiple of anything;
# - [c2] their values are whole numbers: the product is exact when tiles and sums are `float32`, but in no
#   narrower type;
# - [c3] returns the product, a new `float32` tensor of shape (m, n) on `a`'s device, all zeros where k is
#   0;
# - [c4] raises `ValueError` when the inner sizes differ, also where a size is 0;
# - [c5] **your kernels do the work**: PyTorch may only allocate (`torch.empty`, `torch.zeros`) and make
#   views;
# - [c6] lanes load **at most** m k ⌈n / `TILE`⌉ elements of `a` and k n ⌈m / `TILE`⌉ of `b` from global
#   memory, with `TILE` = 16, ragged edges included, and store each element of the product **once**;
# - [c7] **no data race** and no out-of-bounds access: a tile is read only after all of it is loaded, and
#   overwritten only after all threads have read it;
# - [c8] **no bank conflict** in shared memory;
# - [c9] at least half of the bytes that move are requested, where the sizes are multiples of `TILE`.
#
# `cuda.shared.array((TILE, TILE), float32)` is an array in shared memory, common to all threads of a
# block, and `cuda.syncthreads()` is a barrier that all threads of the block have to reach.

# %% nbgrader={"grade": false, "grade_id": "tiled_matmul", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tiled_matmul(a, b):
    """The product of a and b, each element loaded once for every TILE rows or columns that need it."""
    ### BEGIN SOLUTION
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"{tuple(a.shape)} by {tuple(b.shape)}: the inner sizes differ")
    m, n = len(a), b.shape[1]
    c = torch.empty(m, n, device=a.device)
    if m and n:
        multiply_tiles[(-(-n // TILE), -(-m // TILE)), (TILE, TILE)](a, b, c)
    return c


@cuda.jit
def multiply_tiles(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x
    (m, k), n = a.shape, b.shape[1]
    total = float32(0)
    for start in range(0, k, TILE):
        a_tile[y, x] = a[row, start + x] if row < m and start + x < k else float32(0)
        b_tile[y, x] = b[start + y, column] if start + y < k and column < n else float32(0)
        cuda.syncthreads()  # both tiles are there
        for i in range(TILE):
            total += a_tile[y, i] * b_tile[i, x]
        cuda.syncthreads()  # all have read them
    if row < m and column < n:
        c[row, column] = total
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "tiled_matmul_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_tiled_matmul():
    """Your product: loads, conflicts and races."""
    given = _a.clone(), _b.clone()
    with gpulab.observe() as seen:
        found = tiled_matmul(*given)
    _products.append(seen)
    print(seen.table().split("\n\n")[-1])

    loads = sum(launch.total("loads") for launch in seen.launches)
    allowed = 32 * 48 * (64 // TILE) + 48 * 64 * (32 // TILE)
    print(f"\n{loads} loads, {allowed} are allowed")
    assert torch.equal(found, _expected), "the product is wrong"
    assert torch.equal(given[0], _a) and torch.equal(given[1], _b), "a or b was modified"
    assert loads <= allowed, f"{loads} loads, expected at most {allowed}: which other threads of the block need a loaded element?"
    assert not any(launch.races or launch.faults for launch in seen.launches), "a race or an out-of-bounds access: see the lines below the table"
    assert not sum(launch.total("bank_conflicts") for launch in seen.launches), "bank conflicts in shared memory: see the column of conflicts"


_see_tiled_matmul()

# %% nbgrader={"grade": true, "grade_id": "tiled_matmul_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of tiled_matmul: values 2, loads and stores 3, tiles loaded before they are read 1,
# read before they are overwritten 1, bank conflicts 1, bytes that move 1, odd sizes 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("hierarchy.tiled_matmul")
### END HIDDEN TESTS

# %% [markdown]
# ## E4.4 `work`
#
# What is the least time that an operation can take? Its arithmetic cannot be faster than the card's peak,
# and the bytes that it *must* move cannot be faster than the memory bandwidth. The first half of the
# answer is counting both, whose ratio is the arithmetic intensity. Write `work(operation, dtype)`:
#
# - [c1] `operation`: a dictionary, its `"kind"` and its sizes, all at least 1, in any order. [c2] It is left
#   as it is:
#
# | `kind` | sizes | what it computes | floating-point operations |
# | --- | --- | --- | --- |
# | `gemm` | `m`, `n`, `k` | C = A B, with A of m × k and B of k × n | a multiplication and an addition are two |
# | `gemv` | `m`, `k` | y = A x, with A of m × k | the same |
# | `layer_norm` | `rows`, `width` | each row of x normalised, then scaled by γ and shifted by β, which have one element per column | 8 for each element of x, by convention |
# | `decode_attention` | `batch`, `heads`, `kv_heads`, `head_dim`, `context` | for every sequence and head one new query against `context` cached keys, and the weighted sum of `context` cached values; the KV cache has `kv_heads` heads, and `heads` / `kv_heads` query heads share one of them (grouped-query attention) | those of the two products; the softmax is left out |
#
# - [c3] `dtype`: `"fp32"`, `"tf32"`, `"bf16"`, `"fp16"`, `"fp8"` or `"int8"`: [c4] the format of everything that
#   is read and written. [c5] A TF32 number is stored in memory as an ordinary 32-bit float;
# - [c6] returns a pair of integers: [c7] floating-point operations, and the **bytes that must move**
#   (compulsory traffic): [c8] every element of every input read once, every element of the output written
#   once. [c9] Scores and probabilities of the attention stay on chip;
# - [c10] raises `ValueError` for any other `kind` or `dtype`.

# %% nbgrader={"grade": false, "grade_id": "work", "locked": false, "schema_version": 3, "solution": true, "task": false}
def work(operation, dtype):
    """(floating-point operations, bytes that must move) of one operation."""
    ### BEGIN SOLUTION
    item_bytes = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
    size = {name: operation[name] for name in operation if name != "kind"}
    counts = {"gemm": gemm, "gemv": gemv, "layer_norm": layer_norm, "decode_attention": decode_attention}
    if operation["kind"] not in counts or dtype not in item_bytes:
        raise ValueError(f"{operation['kind']} in {dtype}: kinds are {list(counts)}, formats {list(item_bytes)}")
    flops, elements = counts[operation["kind"]](**size)
    return flops, elements * item_bytes[dtype]


def gemm(m, n, k):
    return 2 * m * n * k, m * k + k * n + m * n


def gemv(m, k):
    return 2 * m * k, m * k + k + m


def layer_norm(rows, width):
    return 8 * rows * width, 2 * rows * width + 2 * width


def decode_attention(batch, heads, kv_heads, head_dim, context):
    queries = batch * heads * head_dim
    cache = 2 * batch * kv_heads * head_dim * context
    return 4 * queries * context, queries + cache + queries
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "work_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_work():
    """FLOPs and bytes of four operations."""
    for operation in OPERATIONS:
        flops, nbytes = work(operation, "bf16")
        print(f"{operation['kind']:18}{flops / 1e9:10.3f} GFLOP {nbytes / 1e6:10.3f} MB {flops / nbytes:10.2f} FLOP/B")

    assert work({"kind": "gemv", "m": 2, "k": 3}, "fp32") == (12, 44), "expected (12, 44) for 2 x 3 weights, 3 inputs and 2 outputs"


_see_work()

# %% nbgrader={"grade": true, "grade_id": "work_hidden", "locked": true, "points": 7, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of work: gemm 1, gemv 1, layer_norm 1, decode_attention 2, formats 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("hierarchy.work")
### END HIDDEN TESTS

# %% [markdown]
# ## E4.5 `roofline`
#
# The second half is reading a datasheet. This is how NVIDIA prints that of the H100 SXM: the
# figures of the Tensor Cores carry a footnote, *with sparsity*. They hold only for 2:4 structured
# sparsity, where two of every four weights are zero, and are **twice** the dense peak.

# %% nbgrader={"grade": false, "grade_id": "a_datasheet", "locked": true, "schema_version": 3, "solution": false, "task": false}
_h100 = {
    "name": "H100 SXM",
    "memory": (3.35, "TB/s"),
    "peaks": {
        "fp64": (34, "TFLOPS", "dense"),
        "fp32": (67, "TFLOPS", "dense"),
        "tf32": (989, "TFLOPS", "with sparsity"),
        "bf16": (1979, "TFLOPS", "with sparsity"),
        "fp16": (1979, "TFLOPS", "with sparsity"),
        "fp8": (3958, "TFLOPS", "with sparsity"),
    },
}

# %% [markdown]
# Write `roofline(flops, nbytes, card, dtype)`:
#
# - [c1] `flops`: floating-point operations; `nbytes`: bytes that move. Both are integers, and either may be
#   0;
# - [c2] `card`: a dictionary like the one above, left as it is. It may list other formats, and each peak
#   has its own unit;
# - [c3] rates are in `"GB/s"` or `"TB/s"` (10⁹ and 10¹² bytes per second), peaks in `"TFLOPS"` or
#   `"PFLOPS"` (10¹² and 10¹⁵ operations per second), `"dense"` or `"with sparsity"`;
# - [c4] `dtype`: the format of the arithmetic. The matrices are **dense**;
# - [c5] returns a dictionary. Its `"seconds"` is the least time that the work can take when arithmetic and
#   memory traffic overlap fully;
# - [c6] its `"bound"` is `"compute"` or `"memory"`, whichever takes longer (`"compute"` where they tie);
# - [c7] its `"ridge"` is the arithmetic intensity (operations per byte) from which on work in that format
#   is compute-bound;
# - [c8] raises `ValueError` for a format for which the card has no peak, for a negative count, and where
#   both counts are 0.

# %% nbgrader={"grade": false, "grade_id": "roofline", "locked": false, "schema_version": 3, "solution": true, "task": false}
def roofline(flops, nbytes, card, dtype):
    """Least seconds for that work on that card, what bounds it, and the card's ridge in FLOP/byte."""
    ### BEGIN SOLUTION
    if dtype not in card["peaks"]:
        raise ValueError(f"{card['name']} has no peak for {dtype}: {', '.join(card['peaks'])}")
    if min(flops, nbytes) < 0 or flops == nbytes == 0:
        raise ValueError(f"{flops} operations and {nbytes} bytes are no work")
    unit = {"GB/s": 1e9, "TB/s": 1e12, "TFLOPS": 1e12, "PFLOPS": 1e15}
    rate, per_second, kind = card["peaks"][dtype]
    peak = rate * unit[per_second] / (2 if kind == "with sparsity" else 1)
    rate, per_second = card["memory"]
    bandwidth = rate * unit[per_second]
    arithmetic, traffic = flops / peak, nbytes / bandwidth
    return {
        "seconds": max(arithmetic, traffic),
        "bound": "compute" if arithmetic >= traffic else "memory",
        "ridge": peak / bandwidth,
    }
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "roofline_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_roofline():
    """The bound of each operation, and of your product."""
    for operation in OPERATIONS:
        found = roofline(*work(operation, "bf16"), _h100, "bf16")
        print(f"{operation['kind']:18}{1e6 * found['seconds']:10.1f} us  {found['bound']}")
    print(f"ridge of {_h100['name']} in bf16: {found['ridge']:.0f} FLOP/byte")

    for launch in _products[-1].launches[:1]:
        flops, asked = launch.total("flops"), 32 * launch.sectors
        crosses = sum(use.distinct_read_bytes + use.distinct_written_bytes for use in launch.arrays)
        print(f"{launch.name}: {flops / asked:.2f} FLOP per byte requested from the L1 cache,", end=" ")
        bound = roofline(flops, crosses, _h100, "fp32")["bound"]
        print(f"{flops / crosses:.2f} FLOP per byte of compulsory device-memory traffic: {bound}-bound")

    assert 290 < found["ridge"] < 300, "not the ridge of dense bf16, expected 290 to 300 FLOP/byte: which peak did you take, in which unit?"


_see_roofline()

# %% nbgrader={"grade": true, "grade_id": "roofline_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of roofline: time 2, dense peaks 2, peak of the format 1, units 1, bound and ridge 1,
# errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("hierarchy.roofline")
### END HIDDEN TESTS
