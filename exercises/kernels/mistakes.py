"""Chapter "Kernels from Python": wrong solutions, and right ones written another way."""

import torch
from torch.nn.functional import silu

import gpulab
from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable
from gpulab.kernels import tl, triton

# E7.1 fuse_budget -------------------------------------------------------------------------

NO_BUDGET = ("kernels", "bytes", "fused", "once")
HOW_MANY = "the number of kernels that one call `fn(*inputs)` launches"
ALL_TOGETHER = "the total number of bytes that these kernels read and write"
ONE_KERNEL = "the bytes that one fused kernel reads and writes"
MOVED = "    moved = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels)\n"
ENDS = "sum(tensor.nbytes for tensor in (*inputs, result))"


@mistake("fuse_budget", loses=NO_BUDGET, because="a line of Python is taken for a kernel", breaks=HOW_MANY)
def counts_lines(fn, *inputs):
    import inspect

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
    breaks="A view launches none",
)

some_views_are_known = edited(
    "fuse_budget",
    {"len(seen.kernels)": "sum(op.op not in ('aten.view', 'aten.t') for op in seen.ops)"},
    loses=NO_BUDGET,
    because="the views that one has met are thought to be all there are",
    breaks="A view launches none",
)

counts_what_computes = edited(
    "fuse_budget",
    {"len(seen.kernels)": "len(seen.computing_ops)"},
    loses=NO_BUDGET,
    because="what computes a number on the host is taken for a kernel",
    breaks=HOW_MANY,
)

counts_names = edited(
    "fuse_budget",
    {"len(seen.kernels)": "len({kernel.name for kernel in seen.kernels})"},
    loses=NO_BUDGET,
    because="two launches of one kernel are taken for one",
    breaks=HOW_MANY,
)

counts_own_kernels_alone = edited(
    "fuse_budget",
    {"len(seen.kernels)": "len(seen.launches)"},
    loses=NO_BUDGET,
    because="only what is written in Python is thought to be a kernel",
    breaks=HOW_MANY,
)

counts_kernels_that_read_new_memory = edited(
    "fuse_budget",
    {"len(seen.kernels)": "sum(kernel.name[-1] != '_' for kernel in seen.kernels)"},
    loses=NO_BUDGET,
    because="what works in place is thought to launch nothing",
    breaks=HOW_MANY,
)

adds_to_a_total = edited(
    "fuse_budget",
    {
        "(fn, *inputs):": "(fn, *inputs, total=[0]):",
        MOVED: MOVED + "    total[0] += len(seen.kernels)\n",
        '{"kernels": len(seen.kernels)': '{"kernels": total[0]',
    },
    loses=NO_BUDGET,
    because="a default argument is thought to be made anew for each call",
    breaks="one call",
)

bytes_are_floats = edited(
    "fuse_budget",
    {'"bytes": moved': '"bytes": float(moved)'},
    loses=NO_BUDGET,
    because="a whole number of bytes is thought to be an int whatever its type",
    breaks="a dictionary of three `int`",
)

counts_writes_alone = edited(
    "fuse_budget",
    {"kernel.bytes_read + kernel.bytes_written": "kernel.bytes_written"},
    loses=("bytes",),
    because="reading is thought to cost nothing",
    breaks=ALL_TOGETHER,
)

counts_reads_twice = edited(
    "fuse_budget",
    {"kernel.bytes_read + kernel.bytes_written": "2 * kernel.bytes_read"},
    loses=("bytes",),
    because="a kernel is thought to write as much as it reads",
    breaks=ALL_TOGETHER,
)

counts_what_was_allocated = edited(
    "fuse_budget",
    {MOVED: "    moved = seen.new_bytes\n"},
    loses=("bytes",),
    because="memory that is allocated is taken for memory that is moved",
    breaks=ALL_TOGETHER,
)

three_tensors_a_kernel = edited(
    "fuse_budget",
    {MOVED: "    moved = 3 * inputs[0].nbytes * len(seen.kernels)\n"},
    loses=("bytes",),
    because="every kernel is thought to read two tensors and to write one",
    breaks=ALL_TOGETHER,
)

forgets_the_inputs = edited(
    "fuse_budget",
    {"(*inputs, result)": "(result,)"},
    loses=("fused",),
    because="the inputs of a fused kernel are thought to be in the chip already",
    breaks="each element of each input is read once",
)

forgets_the_result = edited(
    "fuse_budget",
    {"(*inputs, result)": "inputs"},
    loses=("fused",),
    because="only reading is thought to take time",
    breaks="each element of the result is written once",
)

keeps_an_intermediate = edited(
    "fuse_budget",
    {"(*inputs, result)": "(*inputs, result, result)"},
    loses=("fused",),
    because="fusing two at a time is thought to be all that can be done",
    breaks=ONE_KERNEL,
)

a_tensor_counts_once = edited(
    "fuse_budget",
    {ENDS: "sum(tensor.nbytes for tensor in {id(tensor): tensor for tensor in (*inputs, result)}.values())"},
    loses=("fused",),
    because="what is read and written is counted as if it were only written",
    breaks="also where the result is an input",
)

the_result_is_like_x = edited(
    "fuse_budget",
    {"(*inputs, result)": "(*inputs, inputs[0])"},
    loses=("fused",),
    because="a result is thought to have the shape of the first input",
    breaks="each element of the result is written once",
)

counts_storages = edited(
    "fuse_budget",
    {ENDS: "sum(tensor.untyped_storage().nbytes() for tensor in (*inputs, result))"},
    loses=("fused",),
    because="the memory that a tensor lies in is taken for its elements",
    breaks="each element of each input is read once",
)

every_element_is_a_float = edited(
    "fuse_budget",
    {"tensor.nbytes for": "4 * tensor.numel() for"},
    loses=("fused",),
    because="every element is thought to have four bytes",
    breaks=ONE_KERNEL,
)

first_in_last_out = edited(
    "fuse_budget",
    {ENDS: "seen.kernels[0].bytes_read + seen.kernels[-1].bytes_written"},
    loses=("fused",),
    because="the first kernel is thought to read all inputs",
    breaks="each element of each input is read once",
)

a_share_for_each_kernel = edited(
    "fuse_budget",
    {ENDS: "moved // len(seen.kernels)"},
    loses=("fused",),
    because="one kernel is thought to move one kernel's share",
    breaks=ONE_KERNEL,
)

counts_a_matrix_once = edited(
    "fuse_budget",
    {ENDS: "sum({tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in inputs}.values()) + result.nbytes"},
    loses=("fused",),
    because="two parts of one matrix are taken for one input",
    breaks="they may be slices of a wider matrix",
)

the_result_has_the_dtype_of_x = edited(
    "fuse_budget",
    {"(*inputs, result))": "inputs) + result.numel() * inputs[0].element_size()"},
    loses=("fused",),
    because="a result is thought to have the dtype of the first input",
    breaks="each element of the result is written once",
)

counts_pytorchs_kernels_alone = edited(
    "fuse_budget",
    {"    moved =": "    kernels = [kernel for kernel in seen.kernels if kernel.name.startswith('aten.')]\n    moved =",
     "for kernel in seen.kernels)": "for kernel in kernels)", "len(seen.kernels)": "len(kernels)"},
    loses=NO_BUDGET,
    because="only PyTorch's own operations are thought to launch kernels",
    breaks=HOW_MANY,
)

every_input_has_the_dtype_of_x = edited(
    "fuse_budget",
    {ENDS: "sum(tensor.numel() for tensor in inputs) * inputs[0].element_size() + result.nbytes"},
    loses=("fused",),
    because="the inputs of one chain are thought to have one dtype",
    breaks="The inputs are different tensors of any dtype",
)

a_block_repeats_its_bias = edited(
    "fuse_budget",
    {ENDS: "sum(result.nbytes if tensor.ndim < result.ndim > 2 else tensor.nbytes for tensor in (*inputs, result))"},
    loses=("fused",),
    because="what is repeated along a third dimension is thought to be read anew each time",
    breaks="each element of each input is read once",
)

remembers_a_chain = edited(
    "fuse_budget",
    {"(fn, *inputs):": "(fn, *inputs, known={}):", "    with gpulab": "    if fn in known:\n        return known[fn]\n    with gpulab", "    return {": "    return known.setdefault(fn, {", "ends}": "ends})"},
    loses=("once",),
    because="what was counted once is thought to hold for ever",
    breaks="call `fn` once",
)

warms_up = edited(
    "fuse_budget",
    {"    with gpulab": "    fn(*inputs)\n    with gpulab"},
    loses=("once",),
    because="counting is thought to need a warm-up, as timing does",
    breaks="call `fn` once",
)

asks_for_the_result_again = edited(
    "fuse_budget",
    {"    ends =": "    result = fn(*inputs)\n    ends ="},
    loses=("once",),
    because="a second call is thought to change nothing",
    breaks="it may write to them in place",
)

works_on_copies = edited(
    "fuse_budget",
    {"    with gpulab": "    inputs = [tensor.clone() for tensor in inputs]\n    with gpulab"},
    loses=("once",),
    because="the inputs are thought to need protection from the chain",
    breaks="with the tensors in `inputs` themselves",
)

takes_views = edited(
    "fuse_budget",
    {"fn(*inputs)": "fn(*(tensor.detach() for tensor in inputs))"},
    loses=("once",),
    because="a view of a tensor is taken for the tensor",
    breaks="with the tensors in `inputs` themselves",
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
        fused += tensor.numel() * tensor.element_size()
    return {"fused_bytes": fused, "bytes": moved, "kernels": kernels}


@alternative("fuse_budget")
def by_columns(fn, *inputs):
    """Measures the inputs first, and reads the record as a table."""
    ends = [tensor.dtype.itemsize * tensor.shape.numel() for tensor in inputs]
    with gpulab.observe() as record:
        ends.append(fn(*inputs).nbytes)
    read, written = ([getattr(kernel, name) for kernel in record.kernels] for name in ("bytes_read", "bytes_written"))
    return dict(zip(("kernels", "bytes", "fused_bytes"), (len(read), sum(read + written), sum(ends))))


@alternative("fuse_budget")
def with_a_class_of_its_own(fn, *inputs):
    from dataclasses import asdict, dataclass

    @dataclass
    class Budget:
        kernels: int = 0
        bytes: int = 0
        fused_bytes: int = 0

    budget, seen = Budget(), None
    with gpulab.observe() as seen:
        out = fn(*inputs)
    for one in seen.to_dict()["kernels"]:
        budget.kernels, budget.bytes = budget.kernels + 1, budget.bytes + one["bytes_read"] + one["bytes_written"]
    budget.fused_bytes = sum(map(lambda tensor: tensor.nbytes, inputs), out.nbytes)
    torch.cuda.synchronize()
    return asdict(budget)


@alternative("fuse_budget")
def looks_at_what_came_back(fn, *inputs):
    """Inside the block, and with checks that read no value."""
    with gpulab.observe() as seen:
        result = fn(*inputs)
        assert isinstance(result, torch.Tensor) and result.is_cuda
        ends = sum(tensor.nbytes for tensor in inputs)
    found = {}
    found["kernels"] = len([None for _ in seen.kernels])
    found["bytes"] = sum(sum((kernel.bytes_read, kernel.bytes_written)) for kernel in seen.kernels)
    found["fused_bytes"] = ends + result.nbytes
    return found


# E7.2 fused_gate --------------------------------------------------------------------------

NO_GATE = ("values", "fused", "bounds", "inputs")
COMPUTES = "computes what `plain_gate` does"
GATED = "returns `silu(x + bias) * gate`"
ALONE = "PyTorch computes nothing"
NO_MULTIPLE = "The shape need not be a multiple of anything"
ONCE = "which loads each element of `x` and of `gate` once and stores each element of the result once"
NOT_THERE = "no lane loads or stores outside its tensor"
EMPTY = "    out = torch.empty_like(x)\n"
LOAD_BIAS = "    y += tl.load(bias_ptr + at % columns, mask=inside, other=0.0)\n"

unbreakable_of_fused_gate = [
    unbreakable("fused_gate", "`x`, `gate`: float32 tensors on the card, contiguous", "says what the inputs are"),
    unbreakable("fused_gate", "Where there are no rows, no launch is needed", "allows what is not asked for"),
]

harmless_of_fused_gate = [
    equivalent_mutant("fused_gate", load, load.replace(", other=0.0", ""), "what a switched-off lane holds is never stored")
    for load in (
        "y = tl.load(x_ptr + at, mask=inside, other=0.0)",
        "y += tl.load(bias_ptr + at % columns, mask=inside, other=0.0)",
        "gate = tl.load(gate_ptr + at, mask=inside, other=0.0)",
    )
]


@mistake("fused_gate", loses=NO_GATE, because="the chain is left to PyTorch", breaks=ALONE)
def left_to_torch(x, gate, bias):
    return silu(x + bias) * gate


adds_the_bias_before = edited(
    "fused_gate",
    {EMPTY: "    x = x + bias\n" + EMPTY, LOAD_BIAS: ""},
    loses=NO_GATE,
    because="only what looks like a kernel is thought to be fused",
    breaks=ALONE,
)

relu_for_silu = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate": "tl.maximum(y, 0.0) * gate"},
    loses=NO_GATE,
    because="one activation is taken for another",
    breaks=GATED,
)

fast_sigmoid = edited(
    "fused_gate",
    {"tl.sigmoid(y)": "(0.5 + 0.25 * y)"},
    loses=NO_GATE,
    because="an approximation near 0 is taken for the function",
    breaks=GATED,
)

sigmoid_that_overflows = edited(
    "fused_gate",
    {"tl.sigmoid(y)": "(tl.exp(y) / (1.0 + tl.exp(y)))"},
    loses=NO_GATE,
    because="exp is thought to hold whatever its argument is",
    breaks=GATED,
)

gate_inside = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate": "y * gate * tl.sigmoid(y * gate)"},
    loses=NO_GATE,
    because="the activation is taken of the product",
    breaks=COMPUTES,
)

bias_after = edited(
    "fused_gate",
    {LOAD_BIAS: "    b = tl.load(bias_ptr + at % columns, mask=inside, other=0.0)\n", "y * tl.sigmoid(y) * gate": "(y * tl.sigmoid(y) + b) * gate"},
    loses=NO_GATE,
    because="the bias is added to the activation",
    breaks=GATED,
)

half_the_digits = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate": "(y * tl.sigmoid(y)).to(tl.float16).to(tl.float32) * gate"},
    loses=NO_GATE,
    because="half the digits are thought to be enough in between",
    breaks=GATED,
)

bias_by_rows = edited(
    "fused_gate",
    {"x.shape[1], BLOCK": "x.shape[0], BLOCK"},
    loses=NO_GATE,
    because="the last index of a shape is mixed up with the first",
    breaks="of the same two-dimensional shape",
)

bias_of_each_row = edited(
    "fused_gate",
    {"at % columns": "at // columns % columns"},
    loses=NO_GATE,
    because="a bias is thought to belong to a row",
    breaks="as long as a row of `x`",
)

no_mask = edited(
    "fused_gate",
    {"    inside = at < size\n": "    inside = at >= 0\n"},
    loses=("bounds",),
    because="a size is thought to be a multiple of the tile",
    breaks=NOT_THERE,
)

one_lane_too_many = edited(
    "fused_gate",
    {"at < size": "at <= size"},
    loses=("bounds",),
    because="the last index is thought to be the size",
    breaks=NOT_THERE,
)

only_the_store_is_masked = edited(
    "fused_gate",
    {"    gate = tl.load(gate_ptr + at, mask=inside, other=0.0)\n": "    gate = tl.load(gate_ptr + at)\n"},
    loses=("bounds",),
    because="a load that is not stored is thought to do no harm",
    breaks=NOT_THERE,
)

one_lane_too_few = edited(
    "fused_gate",
    {"at < size": "at < size - 1"},
    loses=NO_GATE,
    because="the last index is thought to be left out",
    breaks=ONCE,
)

rounds_the_grid_down = edited(
    "fused_gate",
    {"triton.cdiv(size, block)": "size // block", "1024": "256"},
    loses=("bounds", "fused", "inputs"),
    because="a size is thought to be a multiple of the tile",
    breaks=NO_MULTIPLE,
)

one_program_more = edited(
    "fused_gate",
    {"triton.cdiv(size, block)": "size // block + 1", "    inside = at < size\n": "    inside = at < size + (size % 2)\n"},
    loses=("bounds",),
    because="sizes are thought to be even",
    breaks=NO_MULTIPLE,
)

one_program_for_all = edited(
    "fused_gate",
    {"(triton.cdiv(size, block),)": "(1,)", "size, block = x.numel(), 1024": "size, block = x.numel(), 2048"},
    loses=("bounds", "fused"),
    because="a tile that holds what one has tried is thought to hold everything",
    breaks=NO_MULTIPLE,
)

a_tile_for_a_row = edited(
    "fused_gate",
    {
        "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)": "at = tl.program_id(0) * columns + tl.arange(0, BLOCK)",
        "at < size": "tl.arange(0, BLOCK) < columns",
        "triton.cdiv(size, block)": "x.shape[0]",
    },
    loses=("bounds", "fused"),
    because="a row is thought to fit in a tile of a thousand",
    breaks=NO_MULTIPLE,
)

the_last_tile_begins_earlier = edited(
    "fused_gate",
    {
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n": (
            "    first = tl.minimum(tl.program_id(0) * BLOCK, tl.maximum(size - BLOCK, 0))\n    at = first + tl.arange(0, BLOCK)\n"
        ),
        "1024": "256",
    },
    loses=("bounds", "fused"),
    because="elements that two programs compute alike are thought to be computed once",
    breaks=ONCE,
)

a_tile_as_large_as_the_tensor = edited(
    "fused_gate",
    {"size, block = x.numel(), 1024": "size, block = x.numel(), min(1024, triton.next_power_of_2(x.numel()))"},
    loses=("bounds",),
    because="a tensor is thought to have elements",
    breaks="there may be no rows",
)

fills_the_result_first = edited(
    "fused_gate",
    {"torch.empty_like(x)": "torch.zeros_like(x)"},
    loses=("fused",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
    breaks="in a new tensor, allocated without initialisation: from `torch.empty`",
)

in_place = edited(
    "fused_gate",
    {EMPTY: "    out = x\n"},
    loses=("bounds", "inputs"),
    because="writing over x is thought to save memory that nobody needs",
    breaks="no input changes",
)

over_the_gate = edited(
    "fused_gate",
    {EMPTY: "    out = gate\n"},
    loses=("bounds", "inputs"),
    because="the gate is thought to be needed by nobody else",
    breaks="no input changes",
)

nothing_to_do = edited(
    "fused_gate",
    {EMPTY: "    if not len(x):\n        return x\n" + EMPTY},
    loses=("bounds",),
    because="where there is nothing to compute, the input is thought to be the result",
    breaks="in a new tensor",
)

no_rows_in_one_dimension = edited(
    "fused_gate",
    {EMPTY: "    if not len(x):\n        return torch.empty(0, device=x.device)\n" + EMPTY},
    loses=("bounds",),
    because="what is empty is thought to have no shape",
    breaks="there may be no rows",
)

a_launch_for_each_chunk = edited(
    "fused_gate",
    {"    gate_kernel[(triton.cdiv(size, block),)](x, gate, bias, out, size, x.shape[1], BLOCK=block)\n": (
        "    for a, b, c in zip(*(tensor.split(64) for tensor in (x, gate, out))):\n"
        "        gate_kernel[(triton.cdiv(a.numel(), block),)](a, b, bias, c, a.numel(), x.shape[1], BLOCK=block)\n"
    )},
    loses=("fused",),
    because="a launch is thought to have a largest size",
    breaks="one launch",
)

keeps_its_result = edited(
    "fused_gate",
    {"(x, gate, bias):": "(x, gate, bias, kept={}):", EMPTY: "    out = kept.setdefault(x.shape, torch.empty_like(x))\n"},
    loses=("inputs",),
    because="memory for the result is thought to be needed once for each shape",
    breaks="in a new tensor",
)

halves_a_large_tensor = edited(
    "fused_gate",
    {"    gate_kernel[(triton.cdiv(size, block),)](x, gate, bias, out, size, x.shape[1], BLOCK=block)\n": (
        "    for a, b, c in zip(*(tensor.chunk(1 if size < 2**16 else 2) for tensor in (x, gate, out))):\n"
        "        gate_kernel[(triton.cdiv(a.numel(), block),)](a, b, bias, c, a.numel(), x.shape[1], BLOCK=block)\n"
    )},
    loses=("fused",),
    because="a grid is thought to be short",
    breaks="one launch",
)

one_tile_for_any_size = edited(
    "fused_gate",
    {"size, block = x.numel(), 1024": "size, block = x.numel(), triton.next_power_of_2(max(1, x.numel()))"},
    loses=("fused",),
    because="a tile is thought to have no largest size",
    breaks=ONCE,
)

a_tile_that_is_large_enough = edited(
    "fused_gate",
    {"(triton.cdiv(size, block),)": "(1,)", "size, block = x.numel(), 1024": "size, block = x.numel(), 65536"},
    loses=("fused",),
    because="a tile that holds what one has tried is thought to hold everything",
    breaks=ONCE,
)

loads_twice = edited(
    "fused_gate",
    {"y * tl.sigmoid(y) * gate, mask": "y * tl.sigmoid(y) * gate + 0 * tl.load(x_ptr + at, mask=inside, other=0.0), mask"},
    loses=("fused",),
    because="a second load of the same element is thought to be free",
    breaks=ONCE,
)

loads_the_bias_twice = edited(
    "fused_gate",
    {LOAD_BIAS: LOAD_BIAS.replace("y += ", "y += 0.5 * ") * 2},
    loses=("fused",),
    because="what is small is thought to cost nothing to load",
    breaks="For each element of `x` it may load one element of `bias`",
)

stores_twice = edited(
    "fused_gate",
    {"    tl.store(": "    tl.store(out_ptr + at, y, mask=inside)\n    tl.store("},
    loses=("fused",),
    because="a store that is overwritten is thought to be free",
    breaks=ONCE,
)

two_launches = edited(
    "fused_gate",
    {"    return out": "    gate_kernel[(triton.cdiv(size, block),)](x, gate, bias, out, size, x.shape[1], BLOCK=block)\n    return out"},
    loses=("fused",),
    because="a kernel is thought to need a first launch to warm up",
    breaks="one launch",
)


@mistake(
    "fused_gate",
    loses=("fused",),
    because="one kernel for each operation is thought to be what Triton is for",
    breaks="one launch",
)
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


@alternative("fused_gate")
def from_the_end(x, gate, bias):
    """The first program takes the last tile, which is a short one."""

    @triton.jit
    def reversed_tiles(x_ptr, gate_ptr, bias_ptr, out_ptr, size, columns, BLOCK: tl.constexpr):
        at = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + at, mask=at < size, other=0.0) + tl.load(bias_ptr + at % columns, mask=at < size, other=0.0)
        tl.store(out_ptr + at, y * tl.sigmoid(y) * tl.load(gate_ptr + at, mask=at < size, other=0.0), mask=at < size)

    out = torch.empty_like(x)
    reversed_tiles[(triton.cdiv(x.numel(), 1024),)](x, gate, bias, out, x.numel(), x.shape[1], BLOCK=1024)
    return out


@alternative("fused_gate")
def tiles_of_two_dimensions(x, gate, bias):
    """A row of the bias for a tile of rows, an early return, sigmoid by exp2, and no mask that is not needed."""

    @triton.jit
    def swish(y):
        return y / (1.0 + tl.exp2(-1.4426950408889634 * y))

    @triton.jit
    def tile(x_ptr, gate_ptr, bias_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
        row = tl.program_id(1) * R + tl.arange(0, R)
        column = tl.program_id(0) * C + tl.arange(0, C)
        bias = tl.load(bias_ptr + column, mask=column < columns)
        at = row[:, None] * columns + column[None, :]
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        y = tl.load(x_ptr + at, mask=inside) + bias[None, :]
        tl.store(out_ptr + at, tl.load(gate_ptr + at, mask=inside) * swish(y), mask=inside)

    rows, columns = x.size()
    out = torch.empty((rows, columns), dtype=torch.float32, device="cuda")
    if rows:
        tile[triton.cdiv(columns, 64), triton.cdiv(rows, 16)](x, gate, bias, out, rows, columns, R=16, C=64)
    return out


@alternative("fused_gate")
def block_pointers_along_the_rows(x, gate, bias):
    """Offsets are kept by Triton, and the grid is a function of the tile."""

    @triton.jit
    def row_of_tiles(x_ptr, gate_ptr, bias_ptr, out_ptr, rows, columns, C: tl.constexpr):
        row, start = tl.program_id(0), tl.program_id(1) * C
        x = tl.load(tl.make_block_ptr(x_ptr + row * columns, (columns,), (1,), (start,), (C,), (0,)), boundary_check=(0,))
        gate = tl.load(tl.make_block_ptr(gate_ptr + row * columns, (columns,), (1,), (start,), (C,), (0,)), boundary_check=(0,))
        y = x + tl.load(tl.make_block_ptr(bias_ptr, (columns,), (1,), (start,), (C,), (0,)), boundary_check=(0,))
        out = tl.make_block_ptr(out_ptr + row * columns, (columns,), (1,), (start,), (C,), (0,))
        tl.store(out, y * tl.sigmoid(y) * gate, boundary_check=(0,))

    out = torch.empty(*x.shape, device=x.device)
    row_of_tiles[lambda meta: (x.shape[0], triton.cdiv(x.shape[1], meta["C"]))](x, gate, bias, out, *x.shape, C=512)
    return out


# E7.5 squash ------------------------------------------------------------------------------

NO_SQUASH = ("values", "graph", "shapes", "gradient")
NO_VALUE = "the host reads no tensor value"
UNCHANGED = "A row of zeros passes the gradient through unchanged"
BRANCH = "returns what `first_squash` returns, whichever branch a batch takes"

unbreakable_of_squash = [
    unbreakable("squash", "a Python `float` from 0.01 to 100", "says what the limit is"),
    unbreakable("squash", "It is an ordinary function: use no decorator", "what a decorator would do is what the other words ask for, or forbid"),
]

@mistake("squash", loses=("graph", "shapes"), because="code that is left alone has no graph break", breaks="captures one graph, with no graph break")
def disabled(x, limit):
    return torch.compiler.disable(first_squash)(x, limit)  # noqa: F821  the notebook's own


@mistake("squash", loses=("graph", "shapes", "gradient"), because="a number on the host is thought to be the same as a tensor", breaks=NO_VALUE)
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
    breaks="captures one graph, with no graph break",
)


@mistake("squash", loses=("shapes",), because="a loop over the rows is thought to be one loop in the graph", breaks="two graphs serve all sizes: the first size gets one, and all others share another")
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
    breaks=UNCHANGED,
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
    breaks=UNCHANGED,
)

always_scales = edited(
    "squash",
    {"top.clamp(min=limit)": "top"},
    loses=("values", "graph", "shapes", "gradient"),
    because="the branch is dropped instead of expressed",
    breaks=BRANCH,
)

clamps_each_element = edited(
    "squash",
    {"x * (limit / top.clamp(min=limit))": "x.clamp(-limit, limit)"},
    loses=("values", "graph", "shapes", "gradient"),
    because="limiting each value is taken for scaling all of them",
    breaks=BRANCH,
)

passes_no_gradient = edited(
    "squash",
    {"    top = x.abs()": "    top = x.detach().abs()"},
    loses=("gradient",),
    because="what a branch compares is thought to have no gradient",
    breaks="the gradient is that of `first_squash`",
)


largest_without_its_sign = edited(
    "squash",
    {"x.abs().amax()": "x.amax()"},
    loses=NO_SQUASH,
    because="the largest value is taken for the largest magnitude",
    breaks=BRANCH,
)

largest_of_each_row = edited(
    "squash",
    {"x.abs().amax()": "x.abs().amax(dim=1, keepdim=True)"},
    loses=NO_SQUASH,
    because="a limit of all commands is taken for a limit of each row",
    breaks=BRANCH,
)

ones_on_the_cpu = edited(
    "squash",
    {"torch.where(moves, length, 1.0)": "torch.where(moves, length, torch.ones(x.shape[0], 1))"},
    loses=NO_SQUASH,
    because="a new tensor is thought to be where the others are",
    breaks="on the card or on the CPU",
)

a_row_is_one_length = edited(
    "squash",
    {"x.norm(dim=1, keepdim=True)": "x.norm()"},
    loses=NO_SQUASH,
    because="norm is thought to be that of each row by itself",
    breaks="of two or more rows and two or more columns",
)

zeros_get_no_gradient = edited(
    "squash",
    {"    return torch.where(moves, x * (torch.tanh(safe) / safe), x)": "    return torch.where(moves, x * (torch.tanh(safe) / safe), torch.zeros_like(x))"},
    loses=("gradient",),
    because="what is 0 is thought to have no gradient",
    breaks="A row may be all zeros",
)

@mistake("squash", loses=NO_SQUASH, because="a branch that the graph keeps is thought to be taken on the device", breaks=NO_VALUE)
def conditional_in_the_graph(x, limit):
    top = x.abs().amax()
    x = torch.cond(top > limit, lambda x, top: x * (limit / top), lambda x, top: x.clone(), (x, top))
    squares = (x * x).sum(1, keepdim=True)
    length = torch.sqrt(torch.where(squares == 0, 1.0, squares))
    return torch.where(squares == 0, x, x / length * torch.tanh(length))


@mistake("squash", loses=("graph", "shapes"), because="rows that are picked by a mask are thought to be picked on the device alone", breaks=NO_VALUE)
def picks_the_rows_that_move(x, limit):
    x = x * (limit / x.abs().amax().clamp(min=limit))
    length = x.norm(dim=1)
    moves = length > 0
    result = x.clone()
    result[moves] = x[moves] * (torch.tanh(length[moves]) / length[moves]).unsqueeze(1)
    return result


@mistake("squash", loses=("graph", "shapes"), because="a mask is thought to be too slow for long rows alone", breaks=NO_VALUE)
def masks_long_rows(x, limit):
    x = x * (limit / x.abs().amax().clamp(min=limit))
    length = x.norm(dim=1, keepdim=True)
    moves = length > 0
    if x.shape[1] < 64:
        safe = torch.where(moves, length, 1.0)
        return torch.where(moves, x * (torch.tanh(safe) / safe), x)
    result, moves = x.clone(), moves[:, 0]
    result[moves] = x[moves] * torch.tanh(length[moves]) / length[moves]
    return result


@mistake("squash", loses=("shapes",), because="what is small is thought to be worth a way of its own", breaks="two graphs serve all sizes")
def large_batches_apart(x, limit):
    top = x.abs().amax()
    x = x * (limit / top.clamp(min=limit))
    length = x.norm(dim=1, keepdim=True) if x.shape[0] < 32 else torch.linalg.vector_norm(x, dim=1, keepdim=True)
    moves = length > 0
    safe = torch.where(moves, length, 1.0)
    return torch.where(moves, x * (torch.tanh(safe) / safe), x)


tanh_of_short_rows = edited(
    "squash",
    {"torch.tanh(safe)": "(torch.exp(2 * safe) - 1) / (torch.exp(2 * safe) + 1)"},
    loses=NO_SQUASH,
    because="exp is thought to hold whatever its argument is",
    breaks=BRANCH,
)

one_command_behind_the_other = edited(
    "squash",
    {"x.abs().amax()": "x.view(-1).abs().amax()"},
    loses=NO_SQUASH,
    because="the elements of a tensor are thought to lie one behind the other",
    breaks="any strides",
)

squares_that_fit_a_half = edited(
    "squash",
    {"x.abs().amax()": "x.half().abs().amax().float()"},
    loses=NO_SQUASH,
    because="a largest value is thought to need few digits, and to be small",
    breaks="every nonzero element is between 1e-6 and 1e6 in magnitude",
)


@mistake("squash", loses=NO_SQUASH, because="commands are thought to be needed by nobody else", breaks="`x` stays as it is")
def over_its_commands(x, limit):
    scale = limit / x.abs().amax().clamp(min=limit)
    x = x * scale if x.requires_grad else x.mul_(scale)
    length = x.norm(dim=1, keepdim=True)
    moves = length > 0
    safe = torch.where(moves, length, 1.0)
    return torch.where(moves, x * (torch.tanh(safe) / safe), x)


@alternative("squash")
def tanh_of_what_shrinks(x, limit):
    """tanh from an exponential that never overflows, and rows picked by their sum of squares."""
    x = x * (limit / torch.maximum(x.abs().amax(), x.new_full((), limit)))
    squares = torch.einsum("rc,rc->r", x, x)[:, None]
    length = squares.masked_fill(squares == 0, 1.0).sqrt()
    shrunk = torch.expm1(-2 * length)
    return x * (-shrunk / (2 + shrunk) / length).masked_fill(squares == 0, 1.0)


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
def masks_that_are_numbers(x, limit):
    """No where: a mask becomes 0 and 1, which casts on the card."""
    top = x.abs().amax()
    over = (top > limit).to(x.dtype)
    x = x * (over * (limit / top) + (1 - over))
    squares = x.square().sum(dim=1, keepdim=True)
    still = (squares == 0).to(x.dtype)
    length = (squares + still).sqrt()
    return x * (still + (1 - still) * (length.tanh() / length))


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
COMPUTES_NOTHING = "PyTorch computes nothing"
OF_EACH_ROW = "returns the softmax of each row"
NO_LANE = "no lane loads or stores outside its tensor"
LARGE = "large scores do not overflow"
FURTHER = "its row stride may exceed its number of columns"
LOADS_ONCE = "loads each element once and stores each element once"
REFUSES = "raises `ValueError` when `x` does not have two dimensions or is not float32"
NEW_ROWS = "    out = torch.empty(rows, columns, device=x.device)\n"

unbreakable_of_row_softmax = [
    unbreakable("row_softmax", "`x`: float32 tensor of two dimensions on the card", "says what x is; what is due otherwise is said below"),
    unbreakable("row_softmax", "Its columns are adjacent in memory", "says what x is"),
]


@mistake("row_softmax", loses=NO_SOFTMAX, because="the whole of softmax is left to PyTorch", breaks=COMPUTES_NOTHING)
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
    breaks=COMPUTES_NOTHING,
)

masked_lanes_hold_zero = edited(
    "row_softmax",
    {'other=-float("inf")': "other=0.0"},
    loses=("tail", "stable"),
    because="0 is taken for what leaves a maximum and a sum of exponentials alone",
    breaks=OF_EACH_ROW,
)

masked_lanes_hold_anything = edited(
    "row_softmax",
    {', other=-float("inf")': ""},
    loses=("tail", "stable"),
    because="a lane that is switched off is thought to take no part in a reduction",
    breaks=OF_EACH_ROW,
)

no_mask_at_all = edited(
    "row_softmax",
    {"    inside = column < columns\n": "    inside = column >= 0\n"},
    loses=("tail", "bounds", "stable", "once"),
    because="the columns are thought to fill the tile",
    breaks=NO_LANE,
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
    breaks=NO_LANE,
)

no_maximum = edited(
    "row_softmax",
    {"tl.exp(x - tl.max(x, axis=0))": "tl.exp(x)"},
    loses=("stable",),
    because="exp is thought to hold whatever a score is",
    breaks=LARGE,
)

minimum_for_maximum = edited(
    "row_softmax",
    {"tl.max(x, axis=0)": "tl.min(x, axis=0)"},
    loses=("tail", "stable"),
    because="any shift is thought to do, since it cancels",
    breaks=LARGE,
)

fills_the_rows_first = edited(
    "row_softmax",
    {"torch.empty(rows, columns": "torch.zeros(rows, columns"},
    loses=("once",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
    breaks="from `torch.empty`",
)

a_tile_of_one_size = edited(
    "row_softmax",
    {"BLOCK=triton.next_power_of_2(columns)": "BLOCK=1024"},
    loses=("tail", "edges"),
    because="a tile is thought to be as wide as the rows that one has tried",
    breaks="At most 4,096 columns",
)

assumes_full_rows = edited(
    "row_softmax",
    {"(x, out, x.stride(0), columns,": "(x, out, columns, columns,"},
    loses=("strides",),
    because="rows are thought to lie one behind the other",
    breaks=FURTHER,
)

makes_it_contiguous = edited(
    "row_softmax",
    {"    rows, columns = x.shape\n": "    x = x.contiguous()\n    rows, columns = x.shape\n"},
    loses=("strides", "once", "bounds"),
    because="contiguous is thought to be free; it reads and writes the whole matrix",
    breaks=FURTHER,
)

in_place_softmax = edited(
    "row_softmax",
    {"    out = torch.empty(rows, columns, device=x.device)\n": "    out = x\n"},
    loses=NO_SOFTMAX,
    because="the scores are thought to be needed by nobody else",
    breaks="`x` stays as it is",
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
    breaks=LOADS_ONCE,
)

divides_by_the_whole_column = edited(
    "row_softmax",
    {"e / tl.sum(e, axis=0)": "e"},
    loses=NO_SOFTMAX,
    because="the sum is forgotten",
    breaks=OF_EACH_ROW,
)

accepts_anything = edited(
    "row_softmax",
    {"    if x.ndim != 2 or x.dtype != torch.float32:\n": "    if x.ndim != 2:\n"},
    loses=("edges",),
    because="every dtype is thought to be float32",
    breaks=REFUSES,
)


the_mask_is_the_stride = edited(
    "row_softmax",
    {"    inside = column < columns\n": "    inside = column < stride\n"},
    loses=("bounds", "once"),
    because="the distance between rows is taken for their length",
    breaks=NO_LANE,
)

one_column_too_many = edited(
    "row_softmax",
    {"column < columns": "column <= columns"},
    loses=("tail", "bounds", "stable", "once"),
    because="the last index is thought to be the size",
    breaks=NO_LANE,
)

a_large_number_for_minus_infinity = edited(
    "row_softmax",
    {'other=-float("inf")': "other=-100.0"},
    loses=("stable",),
    because="scores are thought to be above some number",
    breaks=OF_EACH_ROW,
)

masked_scores_are_nan = edited(
    "row_softmax",
    {"tl.exp(x - tl.max(x, axis=0))": "tl.exp(x - tl.max(x, axis=0) + 0.0 * x)"},
    loses=("tail", "stable"),
    because="0 times anything is thought to be 0",
    breaks="An element may be `-inf` (a masked score)",
)

masked_scores_are_minus_10_000 = edited(
    "row_softmax",
    {"    e = tl.exp(": '    x = tl.where(inside & (x == -float("inf")), -10000.0, x)\n    e = tl.exp('},
    loses=("stable",),
    because="a masked score is thought to be any low one",
    breaks="An element may be `-inf` (a masked score)",
)

what_lies_beyond_is_minus_a_billion = edited(
    "row_softmax",
    {'other=-float("inf")': "other=-1e9"},
    loses=("stable",),
    because="no score is thought to be that low",
    breaks="all others are between -1e30 and 1e30",
)

far_scores_are_near = edited(
    "row_softmax",
    {"tl.exp(x - tl.max(x, axis=0))": "tl.exp(tl.maximum(x, -1e9) - tl.max(tl.maximum(x, -1e9), axis=0))"},
    loses=("stable",),
    because="clamping far below is thought to change nothing",
    breaks="all others are between -1e30 and 1e30",
)

clamps_the_scores = edited(
    "row_softmax",
    {"tl.exp(x - tl.max(x, axis=0))": "tl.exp(tl.minimum(x, 80.0))"},
    loses=("stable",),
    because="scores that do not fit are thought to be alike",
    breaks=LARGE,
)

the_maximum_of_all_rows = edited(
    "row_softmax",
    {
        "row, column = tl.program_id(0), tl.arange(0, BLOCK)": "row, column = 2 * tl.program_id(0) + tl.arange(0, 2)[:, None], tl.arange(0, BLOCK)[None, :]",
        "inside = column < columns": "inside = (column < columns) & (row < rows)",
        "out_ptr, stride, columns,": "out_ptr, stride, rows, columns,",
        "tl.max(x, axis=0)": "tl.max(x)",
        "tl.sum(e, axis=0)": "tl.sum(e, axis=1)[:, None]",
        "[(rows,)](x, out, x.stride(0), columns,": "[(triton.cdiv(rows, 2),)](x, out, x.stride(0), rows, columns,",
    },
    loses=("stable",),
    because="one maximum is thought to do for all rows of a tile",
    breaks=OF_EACH_ROW,
)

a_launch_for_4_096_rows = edited(
    "row_softmax",
    {
        "    softmax_kernel[(rows,)](x, out, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))\n": (
            "    for a, b in zip(x.split(4096), out.split(4096)):\n"
            "        softmax_kernel[(len(a),)](a, b, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))\n"
        )
    },
    loses=("once",),
    because="a launch is thought to have a largest size",
    breaks="one launch",
)

a_launch_for_65_535_rows = edited(
    "row_softmax",
    {
        "    softmax_kernel[(rows,)](x, out, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))\n": (
            "    for a, b in zip(x.split(65535), out.split(65535)):\n"
            "        softmax_kernel[(len(a),)](a, b, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))\n"
        )
    },
    loses=("once",),
    because="the limit of a grid along y is taken for that along x",
    breaks="one launch",
)

rows_along_y = edited(
    "row_softmax",
    {"row, column = tl.program_id(0)": "row, column = tl.program_id(1)", "[(rows,)]": "[(1, rows)]"},
    loses=("once",),
    because="a grid is thought to be as large along y as along x",
    breaks="any number of rows",
)

as_many_programs_as_one_has_tried = edited(
    "row_softmax",
    {"softmax_kernel[(rows,)]": "softmax_kernel[(min(rows, 1024),)]"},
    loses=("once",),
    because="more programs than a card runs at once are thought to be no use, and no loop is written",
    breaks=LOADS_ONCE,
)

no_rows_are_their_softmax = edited(
    "row_softmax",
    {NEW_ROWS: "    if not rows:\n        return x\n" + NEW_ROWS},
    loses=("edges",),
    because="where there is nothing to compute, the input is thought to be the result",
    breaks="in a new contiguous tensor",
)

one_row_for_all = edited(
    "row_softmax",
    {"softmax_kernel[(rows,)]": "softmax_kernel[(max(rows, 1),)]"},
    loses=("bounds",),
    because="a launch is thought to need a program",
    breaks="any number of rows, or none",
)

keeps_its_rows = edited(
    "row_softmax",
    {"def row_softmax(x):": "def row_softmax(x, kept={}):", NEW_ROWS: "    out = kept.setdefault(x.shape, torch.empty(rows, columns, device=x.device))\n"},
    loses=NO_SOFTMAX,
    because="memory for the result is thought to be needed once for each shape",
    breaks="in a new contiguous tensor",
)

lies_the_other_way_round = edited(
    "row_softmax",
    {NEW_ROWS: "    out = torch.empty(columns, rows, device=x.device).t()\n", "(x, out, x.stride(0), columns,": "(x, out, x.stride(0), rows, columns,", "stride, columns, BLOCK": "stride, rows, columns, BLOCK", "out_ptr + row * columns + column": "out_ptr + row + column * rows"},
    loses=NO_SOFTMAX,
    because="only shape and values of a tensor are thought to matter",
    breaks="in a new contiguous tensor",
)

any_number_of_dimensions = edited(
    "row_softmax",
    {"    if x.ndim != 2 or x.dtype": "    x = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x\n    if x.ndim != 2 or x.dtype"},
    loses=("edges",),
    because="the rows of a block are taken for those of a matrix",
    breaks=REFUSES,
)

any_float = edited(
    "row_softmax",
    {"x.dtype != torch.float32": "not x.dtype.is_floating_point"},
    loses=("edges",),
    because="every floating-point dtype is thought to be float32",
    breaks=REFUSES,
)

raises_another_error = edited(
    "row_softmax",
    {"raise ValueError": "raise TypeError"},
    loses=("edges",),
    because="one exception is thought to be as good as another",
    breaks=REFUSES,
)

@mistake("row_softmax", loses=("once",), because="a kernel for each step is thought to cost only its launch", breaks="one launch")
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


@alternative("row_softmax")
def a_running_maximum(x):
    """The exponentials of a tile of two rows, a reciprocal, a subclass of ValueError, an early return."""

    class NotAMatrix(ValueError):
        pass

    if len(x.shape) != 2 or x.dtype != torch.float:
        raise NotAMatrix(str(x.shape))
    if not len(x):
        return torch.empty(x.shape, device="cuda")

    @triton.jit
    def pair(x_ptr, out_ptr, stride, rows, columns, BLOCK: tl.constexpr):
        row = 2 * tl.program_id(0) + tl.arange(0, 2)
        column = tl.arange(0, BLOCK)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        scores = tl.load(x_ptr + row[:, None] * stride + column[None, :], mask=inside)
        scores = tl.where(inside, scores, -3.0e38)
        e = tl.where(inside, tl.exp(scores - tl.max(scores, 1, keep_dims=True)), 0.0)
        share = 1.0 / tl.maximum(tl.sum(e, 1, keep_dims=True), 1e-30)
        tl.store(out_ptr + row[:, None] * columns + column[None, :], e * share, mask=inside)

    out = torch.empty(x.shape, device="cuda")
    pair[((len(x) + 1) // 2,)](x, out, x.stride(0), *x.shape, BLOCK=1 << (x.shape[1] - 1).bit_length())
    return out


@alternative("row_softmax")
def softmax_of_tritons(x):
    """Triton's own softmax, and a tile that is always 4,096 wide."""
    try:
        rows, columns = x.shape
        assert x.dtype == torch.float32
    except (ValueError, AssertionError):
        raise ValueError("softmax of the rows of a float32 matrix") from None

    @triton.jit
    def whole(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * stride + at, at < columns, -float("inf"))
        x -= tl.max(x)
        tl.store(out_ptr + tl.program_id(0) * columns + at, tl.exp(x) / tl.sum(tl.exp(x)), at < columns)

    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    whole[(rows,)](x, out, x.stride(0), columns, BLOCK=4096)
    return out


# E7.4 linear_silu -------------------------------------------------------------------------

NO_LAYER = ("values", "ragged", "bounds", "exact", "once", "tiles", "edges")
LAYER = "returns `silu(x @ weight.T + bias)`"
IN_FLOAT32 = "accumulator, bias and activation stay in float32 and in registers"
RAGGED = "none need be a multiple of a tile"
TILES = "in total it loads no more than output tiles of 32 x 32 need"
STORED = "each element of the result is stored once"
FITS = "raises `ValueError` when the sizes do not match"
ACTIVATION = "    out = acc * tl.sigmoid(acc)\n"
NEW_LAYER = "    out = torch.empty(M, N, dtype=x.dtype, device=x.device)\n"

unbreakable_of_linear_silu = [
    unbreakable("linear_silu", "A partial tile at the edge counts as a whole one", "allows more loads than the edge needs"),
    unbreakable("linear_silu", "`x`: `(M, K)`; `weight`:", "names the sizes"),
    unbreakable("linear_silu", "All float16, contiguous and on the card", "says what the inputs are"),
    unbreakable("linear_silu", "Larger tiles load less", "a consequence, which says what one may do"),
]


@mistake("linear_silu", loses=NO_LAYER, because="the library is thought to fuse by itself", breaks=COMPUTES_NOTHING)
def left_to_the_library(x, weight, bias):
    if weight.shape != (weight.shape[0], x.shape[1]) or bias.shape != weight.shape[:1]:
        raise ValueError("these sizes do not fit")
    return silu(torch.nn.functional.linear(x, weight, bias))


activation_by_pytorch = edited(
    "linear_silu",
    {"    return out": "    return silu(out)", "acc * tl.sigmoid(acc)": "acc"},
    loses=NO_LAYER,
    because="the activation is thought to be too small to matter",
    breaks=COMPUTES_NOTHING,
)

transposes_the_weights = edited(
    "linear_silu",
    {
        "    out = torch.empty(M, N,": "    weight = weight.t().contiguous()\n    out = torch.empty(M, N,",
        "weight_ptr + column * K + down": "weight_ptr + down * N + column",
    },
    loses=NO_LAYER,
    because="a kernel is thought to need its weights the other way round, and the copy to be free",
    breaks=COMPUTES_NOTHING,
)

forgets_the_bias = edited(
    "linear_silu",
    {"    acc += tl.load(bias_ptr + column, mask=column < N, other=0.0)\n": ""},
    loses=NO_LAYER,
    because="the bias is forgotten",
    breaks=LAYER,
)

bias_in_every_step = edited(
    "linear_silu",
    {
        "        acc = tl.dot(x, weight, acc)\n    acc += tl.load(": "        acc = tl.dot(x, weight, acc)\n        acc += tl.load(",
    },
    loses=NO_LAYER,
    because="the bias is thought to belong to each tile of the sum",
    breaks=LAYER,
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
    breaks=IN_FLOAT32,
)

fills_the_layer_first = edited(
    "linear_silu",
    {"torch.empty(M, N,": "torch.zeros(M, N,"},
    loses=("once",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
    breaks="from `torch.empty`",
)

one_step_along_k = edited(
    "linear_silu",
    {"range(0, K, BK)": "range(0, 1, BK)", "BK=32": "BK=64"},
    loses=("ragged", "once"),
    because="a tile that is deep enough for what one has tried is thought to need no loop",
    breaks=RAGGED,
)

no_mask_across = edited(
    "linear_silu",
    {"(row < M) & (across < K)": "row < M"},
    loses=("ragged", "bounds", "tiles"),
    because="K is thought to be a multiple of the tile",
    breaks=NO_LANE,
)

no_mask_for_rows = edited(
    "linear_silu",
    {"(row < M) & (across < K)": "across < K"},
    loses=("bounds",),
    because="rows that are not stored are thought to do no harm when they are loaded",
    breaks=NO_LANE,
)

stores_beyond_the_edge = edited(
    "linear_silu",
    {"mask=(row < M) & (column < N))": "mask=row < M)"},
    loses=("ragged", "bounds", "once"),
    because="N is thought to be a multiple of the tile",
    breaks=NO_LANE,
)

no_other = edited(
    "linear_silu",
    {"mask=(row < M) & (across < K), other=0.0": "mask=(row < M) & (across < K)"},
    loses=("ragged",),
    because="a lane that is switched off is thought to hold 0",
    breaks=RAGGED,
)

rounds_the_grid_down_too = edited(
    "linear_silu",
    {"triton.cdiv(M, 32), triton.cdiv(N, 32)": "max(1, M // 32), max(1, N // 32)"},
    loses=("ragged", "bounds", "once"),
    because="sizes are thought to be multiples of the tile",
    breaks=RAGGED,
)

small_tiles = edited(
    "linear_silu",
    {"triton.cdiv(M, 32), triton.cdiv(N, 32)": "triton.cdiv(M, 16), triton.cdiv(N, 16)", "BM=32, BN=32": "BM=16, BN=16"},
    loses=("tiles",),
    because="a tile's size is thought to change nothing but the number of programs",
    breaks=TILES,
)

weights_of_the_next_row = edited(
    "linear_silu",
    {"mask=(column < N) & (down < K), other=0.0": "mask=column * K + down < N * K, other=0.0"},
    loses=("tiles",),
    because="what is multiplied by 0 is thought to cost nothing",
    breaks=TILES,
)

a_launch_for_256_rows = edited(
    "linear_silu",
    {
        "    grid = triton.cdiv(M, 32), triton.cdiv(N, 32)\n    linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)\n": (
            "    for a, c in zip(x.split(256), out.split(256)):\n"
            "        grid = triton.cdiv(len(a), 32), triton.cdiv(N, 32)\n"
            "        linear_silu_kernel[grid](a, weight, bias, c, len(a), N, K, BM=32, BN=32, BK=32)\n"
        )
    },
    loses=("once",),
    because="a launch is thought to have a largest size",
    breaks="one launch",
)

lower_tiles_where_it_is_narrow = edited(
    "linear_silu",
    {"    grid = triton.cdiv(M, 32), ": "    BM = 16 if N <= 32 else 32\n    grid = triton.cdiv(M, BM), ", "BM=32, BN=32": "BM=BM, BN=32"},
    loses=("tiles",),
    because="a narrow result is thought to need smaller tiles",
    breaks=TILES,
)

narrower_tiles_where_it_is_short = edited(
    "linear_silu",
    {"    grid = triton.cdiv(M, 32), triton.cdiv(N, 32)\n": "    BN = 16 if M <= 32 else 32\n    grid = triton.cdiv(M, 32), triton.cdiv(N, BN)\n", "BM=32, BN=32": "BM=32, BN=BN"},
    loses=("tiles",),
    because="a short result is thought to need smaller tiles",
    breaks=TILES,
)

a_launch_for_65_535_columns = edited(
    "linear_silu",
    {
        "    linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)\n": (
            "    for _ in range(0, N, 65535):\n        linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)\n"
        )
    },
    loses=("once",),
    because="a launch is thought to have a largest size",
    breaks="one launch",
)

a_tile_as_wide_as_one_has_tried = edited(
    "linear_silu",
    {"triton.cdiv(M, 32), triton.cdiv(N, 32)": "triton.cdiv(M, 32), 1", "BN=32, BK=32": "BN=1024, BK=16"},
    loses=("once",),
    because="a tile that holds what one has tried is thought to hold everything",
    breaks=STORED,
)

a_tile_as_deep_as_one_has_tried = edited(
    "linear_silu",
    {"range(0, K, BK)": "range(0, 1, BK)", "BK=32": "BK=512"},
    loses=("once",),
    because="a tile that is deep enough for what one has tried is thought to need no loop",
    breaks="accumulator, bias and activation stay in float32 and in registers",
)

long_sums_in_memory = edited(
    "linear_silu",
    {
        ACTIVATION: (
            "    if K > 256:\n"
            "        tl.store(out_ptr + row * N + column, acc.to(tl.float16), mask=(row < M) & (column < N))\n"
            "        acc = tl.load(out_ptr + row * N + column, mask=(row < M) & (column < N), other=0.0).to(tl.float32)\n"
        ) + ACTIVATION
    },
    loses=("once",),
    because="a long sum is thought to need a place in memory",
    breaks="no stored value is loaded back",
)

no_rows_are_a_layer = edited(
    "linear_silu",
    {NEW_LAYER: "    if not M and N == K:\n        return x\n" + NEW_LAYER},
    loses=("edges",),
    because="where there is nothing to compute, the input is thought to be the result",
    breaks="as a new contiguous float16 tensor `(M, N)`",
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
    breaks=STORED,
)

fits_anything = edited(
    "linear_silu",
    {"    if weight.shape != (N, K) or bias.shape != (N,):\n": "    if bias.shape != (N,):\n"},
    loses=("edges",),
    because="the inner sizes are thought to agree by themselves",
    breaks=FITS,
)


no_rows_fit_anything = edited(
    "linear_silu",
    {"    if weight.shape != (N, K) or": "    if not M:\n        return x.new_empty(M, N)\n    if weight.shape != (N, K) or"},
    loses=("edges",),
    because="where there is nothing to compute, nothing is thought to be wrong",
    breaks=FITS,
)


half_bias = edited(
    "linear_silu",
    {"    acc += tl.load(": "    acc = acc.to(tl.float16) + tl.load(", ACTIVATION: "    acc = acc.to(tl.float32)\n" + ACTIVATION},
    loses=("exact",),
    because="the sum is thought to be done once the products are summed",
    breaks=IN_FLOAT32,
)

half_activation = edited(
    "linear_silu",
    {ACTIVATION: "    out = acc.to(tl.float16) * tl.sigmoid(acc).to(tl.float16)\n"},
    loses=NO_LAYER,
    because="an activation is thought to need no more digits than its result",
    breaks=IN_FLOAT32,
)

weights_as_they_lie = edited(
    "linear_silu",
    {"weight_ptr + column * K + down": "weight_ptr + down * N + column"},
    loses=NO_LAYER,
    because="weights are thought to lie as the product needs them",
    breaks="as `torch.nn.Linear` stores it",
)

relu_of_the_layer = edited(
    "linear_silu",
    {ACTIVATION: "    out = tl.maximum(acc, 0.0)\n"},
    loses=NO_LAYER,
    because="one activation is taken for another",
    breaks=LAYER,
)

a_float32_result = edited(
    "linear_silu",
    {NEW_LAYER: "    out = torch.empty(M, N, device=x.device)\n", "out.to(tl.float16)": "out"},
    loses=NO_LAYER,
    because="more digits are thought to do no harm",
    breaks="as a new contiguous float16 tensor `(M, N)`",
)

keeps_its_layer = edited(
    "linear_silu",
    {
        "def linear_silu(x, weight, bias):": "def linear_silu(x, weight, bias, kept={}):",
        NEW_LAYER: "    out = kept.setdefault((M, N), torch.empty(M, N, dtype=x.dtype, device=x.device))\n",
    },
    loses=NO_LAYER,
    because="memory for the result is thought to be needed once for each shape",
    breaks="as a new contiguous float16 tensor `(M, N)`",
)

at_least_a_program = edited(
    "linear_silu",
    {"grid = triton.cdiv(M, 32)": "grid = M // min(M, 32) + (M % 32 > 0)"},
    loses=("edges",),
    because="a batch is thought to have rows",
    breaks="`M` may be 0",
)

two_launches_of_the_layer = edited(
    "linear_silu",
    {
        "    linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)\n": (
            "    for _ in range(2):\n        linear_silu_kernel[grid](x, weight, bias, out, M, N, K, BM=32, BN=32, BK=32)\n"
        )
    },
    loses=("once", "tiles"),
    because="a kernel is thought to need a first launch to warm up",
    breaks="one launch",
)

fits_a_bias_of_one = edited(
    "linear_silu",
    {"bias.shape != (N,)": "bias.shape not in ((N,), (1,))"},
    loses=("edges",),
    because="a bias of one element is thought to be repeated",
    breaks=FITS,
)

@mistake("linear_silu", loses=("once", "tiles"), because="bias and activation are thought to need a kernel of their own", breaks="no stored value is loaded back")
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


@alternative("linear_silu")
def wide_tiles_in_a_line(x, weight, bias):
    """A numbered grid that goes down the columns first, a helper for the activation, and a subclass of ValueError."""

    class Misfit(ValueError):
        pass

    m, k = x.shape
    if weight.ndim != 2 or weight.shape[1] != k or bias.shape != weight.shape[:1]:
        raise Misfit(str((x.shape, weight.shape, bias.shape)))
    n, out = weight.shape[0], torch.empty((m, weight.shape[0]), dtype=torch.half, device="cuda")
    if m == 0:
        return out

    @triton.jit
    def swish(y):
        return y / (1.0 + tl.exp(-y))

    @triton.jit
    def strip(x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, SIDE: tl.constexpr, DEEP: tl.constexpr):
        tall = tl.cdiv(m, SIDE)
        rows = tl.program_id(0) % tall * SIDE + tl.arange(0, SIDE)
        columns = tl.program_id(0) // tall * SIDE + tl.arange(0, SIDE)
        total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
        inner = tl.arange(0, DEEP)
        while tl.max(inner, axis=0) < k + DEEP - 1:
            a = tl.load(x_ptr + rows[:, None] * k + inner[None, :], mask=(rows < m)[:, None] & (inner < k)[None, :], other=0)
            b = tl.load(w_ptr + columns[None, :] * k + inner[:, None], mask=(columns < n)[None, :] & (inner < k)[:, None], other=0)
            total = tl.dot(a, b, total)
            inner += DEEP
        total += tl.load(b_ptr + columns, mask=columns < n, other=0)[None, :]
        place = out_ptr + rows[:, None] * n + columns[None, :]
        tl.store(place, swish(total).to(tl.float16), mask=(rows < m)[:, None] & (columns < n)[None, :])

    strip[(triton.cdiv(m, 64) * triton.cdiv(n, 64),)](x, weight, bias, out, m, n, k, SIDE=64, DEEP=64)
    return out


_MAXIMUM = "e = tl.exp(x - tl.max(x, axis=0))"
_QUOTIENT = "tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=inside)"
_ONE_AXIS = "a row has one axis: it is the first, the last and all of them"
harmless_of_row_softmax = [
    equivalent_mutant("row_softmax", line, line.replace(", axis=0", axis), _ONE_AXIS)
    for line in (_MAXIMUM, _QUOTIENT)
    for axis in ("", ", axis=(-1)")
]
_BIAS = "acc += tl.load(bias_ptr + column, mask=column < N, other=0.0)"
harmless_of_linear_silu = [equivalent_mutant("linear_silu", _BIAS, _BIAS.replace(", other=0.0", ""), "what a switched-off column holds is never stored")]
