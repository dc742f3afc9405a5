"""Chapter "Kernels from Python": wrong solutions, and right ones written another way."""

import inspect

import torch
from torch.nn.functional import silu

import gpulab
from autograder.authoring import alternative, edited, mistake
from gpulab.kernels import tl, triton

# E7.1 fuse_budget -------------------------------------------------------------------------

NO_BUDGET = ("kernels", "bytes", "fused", "once")


@mistake("fuse_budget", loses=NO_BUDGET, because="a line of Python is taken for a kernel")
def counts_lines(fn, *inputs):
    with gpulab.observe() as seen:
        result = fn(*inputs)
    moved = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels)
    ends = sum(tensor.nbytes for tensor in (*inputs, result))
    return {"kernels": len(inspect.getsource(fn).splitlines()), "bytes": moved, "fused_bytes": ends}


views_are_kernels = edited(
    "fuse_budget",
    {"len(seen.kernels)": "len(seen.ops)"},
    loses=NO_BUDGET,
    because="a view is thought to launch a kernel",
)

counts_writes_alone = edited(
    "fuse_budget",
    {"kernel.bytes_read + kernel.bytes_written": "kernel.bytes_written"},
    loses=("bytes",),
    because="reading is thought to cost nothing",
)

counts_what_was_allocated = edited(
    "fuse_budget",
    {"    moved = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels)\n": "    moved = seen.new_bytes\n"},
    loses=("bytes",),
    because="memory that is allocated is taken for memory that is moved",
)

forgets_the_inputs = edited(
    "fuse_budget",
    {"(*inputs, result)": "(result,)"},
    loses=("fused",),
    because="the inputs of a fused kernel are thought to be in the chip already",
)

keeps_an_intermediate = edited(
    "fuse_budget",
    {"(*inputs, result)": "(*inputs, result, result)"},
    loses=("fused",),
    because="fusing two at a time is thought to be all that can be done",
)

warms_up = edited(
    "fuse_budget",
    {"    with gpulab": "    fn(*inputs)\n    with gpulab"},
    loses=("once",),
    because="counting is thought to need a warm-up, as timing does",
)


@alternative("fuse_budget")
def sums_in_a_loop(fn, *inputs):
    with gpulab.observe() as seen:
        result = fn(*inputs)
    kernels = moved = 0
    for kernel in seen.kernels:
        kernels += 1
        moved += kernel.bytes_read
        moved += kernel.bytes_written
    fused = result.numel() * result.element_size()
    for tensor in inputs:
        fused += tensor.untyped_storage().nbytes()
    return {"fused_bytes": fused, "bytes": moved, "kernels": kernels}


# E7.1 fused_gate --------------------------------------------------------------------------

NO_GATE = ("values", "fused", "bounds", "inputs")


@mistake("fused_gate", loses=NO_GATE, because="the chain is left to PyTorch")
def left_to_torch(x, gate, bias):
    return silu(x + bias) * gate


adds_the_bias_before = edited(
    "fused_gate",
    {
        "    out = torch.empty_like(x)\n": "    x = x + bias\n    out = torch.empty_like(x)\n",
        "    y += tl.load(bias_ptr + at % columns, mask=inside, other=0.0)\n": "",
    },
    loses=NO_GATE,
    because="only what looks like a kernel is thought to be fused",
)

relu_for_silu = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate": "tl.maximum(y, 0.0) * gate"},
    loses=NO_GATE,
    because="one activation is taken for another",
)

fast_sigmoid = edited(
    "fused_gate",
    {"tl.sigmoid(y)": "(0.5 + 0.25 * y)"},
    loses=NO_GATE,
    because="an approximation near 0 is taken for the function",
)

no_mask = edited(
    "fused_gate",
    {"    inside = at < size\n": "    inside = at >= 0\n"},
    loses=("bounds",),
    because="a size is thought to be a multiple of the tile",
)

rounds_the_grid_down = edited(
    "fused_gate",
    {"triton.cdiv(size, block)": "size // block", "1024": "256"},
    loses=("bounds",),
    because="a size is thought to be a multiple of the tile",
)

one_program_for_all = edited(
    "fused_gate",
    {"(triton.cdiv(size, block),)": "(1,)", "size, block = x.numel(), 1024": "size, block = x.numel(), 4096"},
    loses=("bounds",),
    because="a tile that holds what one has tried is thought to hold everything",
)

fills_the_result_first = edited(
    "fused_gate",
    {"torch.empty_like(x)": "torch.zeros_like(x)"},
    loses=("fused",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
)

in_place = edited(
    "fused_gate",
    {"    out = torch.empty_like(x)\n": "    out = x\n"},
    loses=("inputs",),
    because="writing over x is thought to save memory that nobody needs",
)

loads_twice = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate, mask": "y * tl.sigmoid(y) * gate + 0 * tl.load(x_ptr + at, mask=inside, other=0.0), mask"},
    loses=("fused",),
    because="a second load of the same element is thought to be free",
)


@mistake("fused_gate", loses=("fused",), because="one kernel for each operation is thought to be what Triton is for")
def two_kernels(x, gate, bias):
    @triton.jit
    def biased_silu(x_ptr, bias_ptr, out_ptr, size, columns, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + at, mask=at < size) + tl.load(bias_ptr + at % columns, mask=at < size)
        tl.store(out_ptr + at, y * tl.sigmoid(y), mask=at < size)

    @triton.jit
    def product(a_ptr, b_ptr, out_ptr, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        a, b = tl.load(a_ptr + at, mask=at < size), tl.load(b_ptr + at, mask=at < size)
        tl.store(out_ptr + at, a * b, mask=at < size)

    y, out = torch.empty_like(x), torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 256),)
    biased_silu[grid](x, bias, y, x.numel(), x.shape[1], BLOCK=256)
    product[grid](y, gate, out, x.numel(), BLOCK=256)
    return out


@alternative("fused_gate")
def a_program_for_each_row(x, gate, bias):
    """The bias needs no remainder, sigmoid is spelled out, and the host waits, which nobody asked for."""

    @triton.jit
    def one_row(x_ptr, gate_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
        column = tl.arange(0, BLOCK)
        at = tl.program_id(0) * columns + column
        y = tl.load(x_ptr + at, mask=column < columns) + tl.load(bias_ptr + column, mask=column < columns)
        gate = tl.load(gate_ptr + at, mask=column < columns)
        tl.store(out_ptr + at, gate * y / (1.0 + tl.exp(-y)), mask=column < columns)

    rows, columns = x.shape
    out = x.new_empty(rows, columns)
    one_row[(rows,)](x, gate, bias, out, columns, BLOCK=triton.next_power_of_2(columns))
    torch.cuda.synchronize()
    return out


@alternative("fused_gate")
def a_few_programs_that_stride(x, gate, bias):
    """Eight programs go through the whole tensor, as a persistent kernel does."""

    @triton.jit
    def strided(x_ptr, gate_ptr, bias_ptr, out_ptr, size, columns, BLOCK: tl.constexpr):
        for first in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
            at = first + tl.arange(0, BLOCK)
            y = tl.load(x_ptr + at, mask=at < size, other=0.0) + tl.load(bias_ptr + at % columns, mask=at < size, other=0.0)
            tl.store(out_ptr + at, y * tl.load(gate_ptr + at, mask=at < size, other=0.0) * tl.sigmoid(y), mask=at < size)

    out = torch.empty(x.shape, device=x.device)
    strided[(8,)](x, gate, bias, out, x.numel(), x.shape[1], BLOCK=128)
    return out


# E7.2 squash ------------------------------------------------------------------------------

@mistake("squash", loses=("graph", "shapes"), because="code that is left alone has no graph break")
def disabled(x, limit):
    return torch.compiler.disable(first_squash)(x, limit)  # noqa: F821  the notebook's own


@mistake("squash", loses=("graph", "shapes", "gradient"), because="a number on the host is thought to be the same as a tensor")
def items_kept(x, limit):
    top = x.abs().amax().item()
    x = x * min(1.0, limit / top)
    length = x.norm(dim=1, keepdim=True)
    safe = torch.where(length > 0, length, 1.0)
    return torch.where(length > 0, x * (torch.tanh(safe) / safe), x)


if_over_a_tensor = edited(
    "squash",
    {"    x = x * (limit / top.clamp(min=limit))\n": "    if top > limit:\n        x = x * (limit / top)\n"},
    loses=("graph", "shapes"),
    because="an if over a tensor is not seen as reading it",
)


@mistake("squash", loses=("shapes",), because="a loop over the rows is thought to be one loop in the graph")
def loops_over_the_rows(x, limit):
    top = x.abs().amax()
    x = x * (limit / top.clamp(min=limit))
    rows = []
    for row in x:
        length = row.norm()
        safe = torch.where(length > 0, length, 1.0)
        rows.append(torch.where(length > 0, row * (torch.tanh(safe) / safe), row))
    return torch.stack(rows)


where_divides_by_zero = edited(
    "squash",
    {"(torch.tanh(safe) / safe)": "(torch.tanh(length) / length)"},
    loses=("gradient",),
    because="torch.where is thought to compute only what it chooses",
)

adds_an_epsilon = edited(
    "squash",
    {
        "    return torch.where(moves, x * (torch.tanh(safe) / safe), x)": (
            "    return x * (torch.tanh(length) / (length + 1e-12))"
        )
    },
    loses=("gradient",),
    because="a small number in the divisor is thought to be harmless in the gradient too",
)

always_scales = edited(
    "squash",
    {"top.clamp(min=limit)": "top"},
    loses=("values", "graph", "shapes", "gradient"),
    because="the branch is dropped instead of expressed",
)

clamps_each_element = edited(
    "squash",
    {"x * (limit / top.clamp(min=limit))": "x.clamp(-limit, limit)"},
    loses=("values", "graph", "shapes", "gradient"),
    because="limiting each value is taken for scaling all of them",
)

passes_no_gradient = edited(
    "squash",
    {"    top = x.abs()": "    top = x.detach().abs()"},
    loses=("gradient",),
    because="what a branch compares is thought to have no gradient",
)


@mistake("squash", loses=("graph", "shapes"), because="a branch that the graph keeps is thought to be taken on the device")
def conditional_in_the_graph(x, limit):
    top = x.abs().amax()
    x = torch.cond(top > limit, lambda x, top: x * (limit / top), lambda x, top: x.clone(), (x, top))
    squares = (x * x).sum(1, keepdim=True)
    length = torch.sqrt(torch.where(squares == 0, 1.0, squares))
    return torch.where(squares == 0, x, x / length * torch.tanh(length))


@mistake("squash", loses=("graph", "shapes"), because="rows that are picked by a mask are thought to be picked on the device alone")
def picks_the_rows_that_move(x, limit):
    x = x * (limit / x.abs().amax().clamp(min=limit))
    length = x.norm(dim=1)
    moves = length > 0
    result = x.clone()
    result[moves] = x[moves] * (torch.tanh(length[moves]) / length[moves]).unsqueeze(1)
    return result


@alternative("squash")
def the_largest_by_its_place(x, limit):
    """max along a dimension, whose gradient goes to one element; and a length that is never 0."""
    top = x.abs().flatten().max(0).values
    x = torch.where(top > limit, x * (limit / top), x)
    length = torch.sqrt((x * x).sum(1, keepdim=True) + 1e-12)
    return x * (torch.tanh(length) / length)


@alternative("squash")
def a_factor_for_each_row(x, limit):
    """minimum instead of clamp, and one factor that is 1 where a row is zero."""
    x = x * torch.minimum(torch.ones_like(x[0, 0]), limit / x.abs().amax())
    still = (x == 0).all(dim=1, keepdim=True)
    length = torch.linalg.vector_norm(x.masked_fill(still, 1.0), dim=1, keepdim=True)
    factor = (torch.tanh(length) / length).masked_fill(still, 1.0)
    return x * factor


@alternative("squash")
def what_it_expects_is_asserted(x, limit):
    """It tells the compiler which sizes it is for: a check that no graph needs a value for."""
    torch._check(x.shape[0] > 1)
    assert x.shape[1] > 1
    x = x / torch.clamp(x.abs().amax() / limit, min=1.0)
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    moves = length > 0
    safe = torch.where(moves, length, torch.ones_like(length))
    return torch.where(moves, x * torch.tanh(safe) / safe, x)


# E7.3 row_softmax -------------------------------------------------------------------------

NO_SOFTMAX = ("values", "tail", "bounds", "stable", "strides", "once", "edges")


@mistake("row_softmax", loses=NO_SOFTMAX, because="the whole of softmax is left to PyTorch")
def left_to_pytorch(x):
    if x.ndim != 2 or x.dtype != torch.float32:
        raise ValueError("a float32 matrix is due")
    return torch.softmax(x, 1)


maximum_by_pytorch = edited(
    "row_softmax",
    {
        "    out = torch.empty(": "    x = x - x.max(1, keepdim=True).values\n    out = torch.empty(",
        "tl.exp(x - tl.max(x, axis=0))": "tl.exp(x)",
    },
    loses=NO_SOFTMAX,
    because="a part of the work in PyTorch is thought to cost no pass over memory",
)

masked_lanes_hold_zero = edited(
    "row_softmax",
    {'other=-float("inf")': "other=0.0"},
    loses=("tail",),
    because="0 is taken for what leaves a maximum and a sum of exponentials alone",
)

masked_lanes_hold_anything = edited(
    "row_softmax",
    {', other=-float("inf")': ""},
    loses=("tail",),
    because="a lane that is switched off is thought to take no part in a reduction",
)

no_mask_at_all = edited(
    "row_softmax",
    {"    inside = column < columns\n": "    inside = column >= 0\n"},
    loses=("tail", "bounds", "once"),
    because="the columns are thought to fill the tile",
)

loads_unmasked = edited(
    "row_softmax",
    {
        'x = tl.load(x_ptr + row * stride + column, mask=inside, other=-float("inf"))': (
            'x = tl.where(inside, tl.load(x_ptr + row * stride + column), -float("inf"))'
        )
    },
    loses=("tail", "bounds", "once"),
    because="choosing after the load is thought to be the same as not loading",
)

no_maximum = edited(
    "row_softmax",
    {"tl.exp(x - tl.max(x, axis=0))": "tl.exp(x)"},
    loses=("stable",),
    because="exp is thought to hold whatever a score is",
)

minimum_for_maximum = edited(
    "row_softmax",
    {"tl.max(x, axis=0)": "tl.min(x, axis=0)"},
    loses=("tail", "stable"),
    because="any shift is thought to do, since it cancels",
)

fills_the_rows_first = edited(
    "row_softmax",
    {"torch.empty(rows, columns": "torch.zeros(rows, columns"},
    loses=("once",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
)

a_tile_of_one_size = edited(
    "row_softmax",
    {"BLOCK=triton.next_power_of_2(columns)": "BLOCK=1024"},
    loses=("tail",),
    because="a tile is thought to be as wide as the rows that one has tried",
)

assumes_full_rows = edited(
    "row_softmax",
    {"(x, out, x.stride(0), columns,": "(x, out, columns, columns,"},
    loses=("strides",),
    because="rows are thought to lie one behind the other",
)

makes_it_contiguous = edited(
    "row_softmax",
    {"    rows, columns = x.shape\n": "    x = x.contiguous()\n    rows, columns = x.shape\n"},
    loses=("strides", "once"),
    because="contiguous is thought to be free; it reads and writes the whole matrix",
)

in_place_softmax = edited(
    "row_softmax",
    {"    out = torch.empty(rows, columns, device=x.device)\n": "    out = x\n"},
    loses=NO_SOFTMAX,
    because="the scores are thought to be needed by nobody else",
)

loads_the_row_twice = edited(
    "row_softmax",
    {
        "tl.exp(x - tl.max(x, axis=0))": (
            'tl.exp(tl.load(x_ptr + row * stride + column, mask=inside, other=-float("inf")) - tl.max(x, axis=0))'
        )
    },
    loses=("once",),
    because="one pass is thought to be needed for the maximum and one for the sum",
)

divides_by_the_whole_column = edited(
    "row_softmax",
    {"e / tl.sum(e, axis=0)": "e"},
    loses=NO_SOFTMAX,
    because="the sum is forgotten",
)

accepts_anything = edited(
    "row_softmax",
    {"    if x.ndim != 2 or x.dtype != torch.float32:\n": "    if x.ndim != 2:\n"},
    loses=("edges",),
    because="every dtype is thought to be float32",
)


@mistake("row_softmax", loses=("once",), because="a kernel for each step is thought to cost only its launch")
def three_kernels(x):
    if x.ndim != 2 or x.dtype != torch.float32:
        raise ValueError("a float32 matrix is due")

    @triton.jit
    def exponentials(x_ptr, e_ptr, stride, columns, BLOCK: tl.constexpr):
        row, column = tl.program_id(0), tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + column, mask=column < columns, other=-float("inf"))
        tl.store(e_ptr + row * columns + column, tl.exp(x - tl.max(x, axis=0)), mask=column < columns)

    @triton.jit
    def normalise(e_ptr, out_ptr, columns, BLOCK: tl.constexpr):
        row, column = tl.program_id(0), tl.arange(0, BLOCK)
        e = tl.load(e_ptr + row * columns + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)

    rows, columns = x.shape
    e, out = (torch.empty(rows, columns, device=x.device) for _ in range(2))
    block = triton.next_power_of_2(columns)
    exponentials[(rows,)](x, e, x.stride(0), columns, BLOCK=block)
    normalise[(rows,)](e, out, columns, BLOCK=block)
    return out


@alternative("row_softmax")
def several_rows_at_once(x):
    """Tiles of four rows, and powers of two instead of e."""
    if x.dim() != 2 or x.dtype is not torch.float32:
        raise ValueError("softmax of the rows of a float32 matrix")

    @triton.jit
    def rows_of_a_tile(x_ptr, out_ptr, stride, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
        column = tl.arange(0, BLOCK)[None, :]
        inside = (row < rows) & (column < columns)
        x = tl.load(x_ptr + row * stride + column, mask=inside, other=-1e30) * 1.4426950408889634
        e = tl.where(inside, tl.exp2(x - tl.max(x, axis=1)[:, None]), 0.0)
        total = tl.sum(e, axis=1)[:, None]
        tl.store(out_ptr + row * columns + column, e / tl.where(row < rows, total, 1.0), mask=inside)

    rows, columns = x.shape
    out = x.new_empty(rows, columns)
    grid = (triton.cdiv(rows, 4),)
    rows_of_a_tile[grid](x, out, x.stride(0), rows, columns, ROWS=4, BLOCK=max(2, triton.next_power_of_2(columns)))
    return out


@alternative("row_softmax")
def log_sum_first(x):
    """The logarithm of the sum, and one exp with it; two programs share the rows."""
    if x.ndim - 2 or x.dtype != torch.float32:
        raise ValueError("softmax of the rows of a float32 matrix")

    @triton.jit
    def striding(x_ptr, out_ptr, stride, rows, columns, BLOCK: tl.constexpr):
        column = tl.arange(0, BLOCK)
        for row in range(tl.program_id(0), rows, tl.num_programs(0)):
            x = tl.load(x_ptr + row * stride + column, mask=column < columns, other=-float("inf"))
            top = tl.max(x, axis=0)
            log = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
            tl.store(out_ptr + row * columns + column, tl.exp(x - log), mask=column < columns)

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    striding[(2,)](x, out, x.stride(0), *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


# E7.4 linear_silu -------------------------------------------------------------------------

NO_LAYER = ("values", "ragged", "bounds", "exact", "once", "tiles", "edges")


@mistake("linear_silu", loses=NO_LAYER, because="the library is thought to fuse by itself")
def left_to_the_library(x, weight, bias):
    if weight.shape != (weight.shape[0], x.shape[1]) or bias.shape != weight.shape[:1]:
        raise ValueError("these sizes do not fit")
    return silu(torch.nn.functional.linear(x, weight, bias))


activation_by_pytorch = edited(
    "linear_silu",
    {"    return out": "    return silu(out)", "acc * tl.sigmoid(acc)": "acc"},
    loses=NO_LAYER,
    because="the activation is thought to be too small to matter",
)

transposes_the_weights = edited(
    "linear_silu",
    {
        "    out = torch.empty(M, N,": "    weight = weight.t().contiguous()\n    out = torch.empty(M, N,",
        "weight_ptr + column * K + down": "weight_ptr + down * N + column",
    },
    loses=NO_LAYER,
    because="a kernel is thought to need its weights the other way round, and the copy to be free",
)

forgets_the_bias = edited(
    "linear_silu",
    {"    acc += tl.load(bias_ptr + column, mask=column < N, other=0.0)\n": ""},
    loses=NO_LAYER,
    because="the bias is forgotten",
)

bias_in_every_step = edited(
    "linear_silu",
    {
        "        acc = tl.dot(x, weight, acc)\n    acc += tl.load(": "        acc = tl.dot(x, weight, acc)\n        acc += tl.load(",
    },
    loses=NO_LAYER,
    because="the bias is thought to belong to each tile of the sum",
)

half_sums = edited(
    "linear_silu",
    {
        "tl.zeros((BM, BN), tl.float32)": "tl.zeros((BM, BN), tl.float16)",
        "acc = tl.dot(x, weight, acc)": "acc += tl.dot(x, weight).to(tl.float16)",
        "    out = acc * tl.sigmoid(acc)\n": "    acc = acc.to(tl.float32)\n    out = acc * tl.sigmoid(acc)\n",
    },
    loses=("exact",),
    because="a sum is thought to need no more digits than what is summed",
)

fills_the_layer_first = edited(
    "linear_silu",
    {"torch.empty(M, N,": "torch.zeros(M, N,"},
    loses=("once",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
)

one_step_along_k = edited(
    "linear_silu",
    {"range(0, K, BK)": "range(0, 1, BK)", "BK=32": "BK=256"},
    loses=("ragged",),
    because="a tile that is deep enough for what one has tried is thought to need no loop",
)

no_mask_across = edited(
    "linear_silu",
    {"(row < M) & (across < K)": "row < M"},
    loses=("ragged", "bounds"),
    because="K is thought to be a multiple of the tile",
)

no_mask_for_rows = edited(
    "linear_silu",
    {"(row < M) & (across < K)": "across < K"},
    loses=("bounds",),
    because="rows that are not stored are thought to do no harm when they are loaded",
)

stores_beyond_the_edge = edited(
    "linear_silu",
    {"mask=(row < M) & (column < N))": "mask=row < M)"},
    loses=("ragged", "bounds", "once"),
    because="N is thought to be a multiple of the tile",
)

no_other = edited(
    "linear_silu",
    {"mask=(row < M) & (across < K), other=0.0": "mask=(row < M) & (across < K)"},
    loses=("ragged",),
    because="a lane that is switched off is thought to hold 0",
)

rounds_the_grid_down_too = edited(
    "linear_silu",
    {"triton.cdiv(M, 32), triton.cdiv(N, 32)": "max(1, M // 32), max(1, N // 32)"},
    loses=("ragged", "bounds", "once", "tiles"),
    because="sizes are thought to be multiples of the tile",
)

small_tiles = edited(
    "linear_silu",
    {"triton.cdiv(M, 32), triton.cdiv(N, 32)": "triton.cdiv(M, 16), triton.cdiv(N, 16)", "BM=32, BN=32": "BM=16, BN=16"},
    loses=("tiles",),
    because="a tile's size is thought to change nothing but the number of programs",
)

sums_in_memory = edited(
    "linear_silu",
    {
        "        acc = tl.dot(x, weight, acc)\n": (
            "        acc = tl.dot(x, weight, acc)\n"
            "        tl.store(out_ptr + row * N + column, acc.to(tl.float16), mask=(row < M) & (column < N))\n"
        )
    },
    loses=("once",),
    because="a running sum is thought to belong in the result",
)

fits_anything = edited(
    "linear_silu",
    {"    if weight.shape != (N, K) or bias.shape != (N,):\n": "    if bias.shape != (N,):\n"},
    loses=("edges",),
    because="the inner sizes are thought to agree by themselves",
)


@mistake("linear_silu", loses=("once", "tiles"), because="bias and activation are thought to need a kernel of their own")
def an_epilogue_of_its_own(x, weight, bias):
    (M, K), N = x.shape, weight.shape[0]
    if weight.shape != (N, K) or bias.shape != (N,):
        raise ValueError("these sizes do not fit")

    @triton.jit
    def product(x_ptr, weight_ptr, out_ptr, M, N, K, SIDE: tl.constexpr):
        row = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[:, None]
        column = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[None, :]
        acc = tl.zeros((SIDE, SIDE), tl.float32)
        for start in range(0, K, SIDE):
            across, down = start + tl.arange(0, SIDE)[None, :], start + tl.arange(0, SIDE)[:, None]
            x = tl.load(x_ptr + row * K + across, mask=(row < M) & (across < K), other=0.0)
            weight = tl.load(weight_ptr + column * K + down, mask=(column < N) & (down < K), other=0.0)
            acc = tl.dot(x, weight, acc)
        tl.store(out_ptr + row * N + column, acc, mask=(row < M) & (column < N))

    @triton.jit
    def epilogue(sum_ptr, bias_ptr, out_ptr, N, BLOCK: tl.constexpr):
        row, column = tl.program_id(0), tl.arange(0, BLOCK)
        y = tl.load(sum_ptr + row * N + column, mask=column < N) + tl.load(bias_ptr + column, mask=column < N)
        tl.store(out_ptr + row * N + column, y * tl.sigmoid(y), mask=column < N)

    sums = torch.empty(M, N, device=x.device)
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    product[triton.cdiv(M, 64), triton.cdiv(N, 64)](x, weight, sums, M, N, K, SIDE=64)
    epilogue[(M,)](sums, bias, out, N, BLOCK=triton.next_power_of_2(N))
    return out


@alternative("linear_silu")
def one_dimension_of_programs(x, weight, bias):
    """Larger, oblong tiles from one number; a bias that starts the sum; the weights' tile transposed in registers."""
    if x.shape[1:] != weight.shape[1:] or weight.shape[:1] != bias.shape:
        raise ValueError("these sizes do not fit")

    @triton.jit
    def layer(x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        wide = tl.cdiv(N, BN)
        row = (tl.program_id(0) // wide) * BM + tl.arange(0, BM)
        column = (tl.program_id(0) % wide) * BN + tl.arange(0, BN)
        start = tl.load(bias_ptr + column, mask=column < N, other=0.0).to(tl.float32)
        acc = tl.zeros((BM, BN), tl.float32) + start[None, :]
        for k in range(tl.cdiv(K, BK)):
            inner = k * BK + tl.arange(0, BK)
            x = tl.load(x_ptr + row[:, None] * K + inner, mask=(row[:, None] < M) & (inner < K), other=0.0)
            w = tl.load(w_ptr + column[:, None] * K + inner, mask=(column[:, None] < N) & (inner < K), other=0.0)
            acc += tl.dot(x, tl.trans(w))
        where = row[:, None] * N + column
        tl.store(out_ptr + where, acc / (1.0 + tl.exp(-acc)), mask=(row[:, None] < M) & (column < N))

    (M, K), N = x.shape, len(weight)
    out = x.new_empty(M, N)
    layer[(triton.cdiv(M, 32) * triton.cdiv(N, 64),)](x, weight, bias, out, M, N, K, BM=32, BN=64, BK=16)
    return out


@alternative("linear_silu")
def block_pointers(x, weight, bias):
    """Block pointers do the masking."""
    (M, K), (N, inner) = x.shape, weight.shape
    if inner != K or tuple(bias.shape) != (N,):
        raise ValueError("these sizes do not fit")

    @triton.jit
    def layer(x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, SIDE: tl.constexpr):
        m, n = tl.program_id(0) * SIDE, tl.program_id(1) * SIDE
        x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m, 0), (SIDE, SIDE), (1, 0))
        w_tile = tl.make_block_ptr(w_ptr, (K, N), (1, K), (0, n), (SIDE, SIDE), (0, 1))
        acc = tl.zeros((SIDE, SIDE), tl.float32)
        for _ in range(0, K, SIDE):
            x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
            w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
            acc = tl.dot(x, w, acc)
            x_tile = tl.advance(x_tile, (0, SIDE))
            w_tile = tl.advance(w_tile, (SIDE, 0))
        column = n + tl.arange(0, SIDE)
        acc += tl.load(bias_ptr + column, mask=column < N, other=0.0)[None, :]
        out_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m, n), (SIDE, SIDE), (1, 0))
        tl.store(out_tile, (acc * tl.sigmoid(acc)).to(tl.float16), boundary_check=(0, 1))

    out = torch.empty(M, N, dtype=torch.float16, device=x.device)
    layer[triton.cdiv(M, 32), triton.cdiv(N, 32)](x, weight, bias, out, M, N, K, SIDE=32)
    return out
