"""Chapter "The CUDA execution model": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, mistake
from gpulab.kernels import cuda

# E3.1 add_vectors -------------------------------------------------------------------------

NO_SUM = ("values", "tail", "bounds", "once", "launch", "empty")

floor_division = edited(
    "add_vectors",
    {"-(-out.numel() // threads)": "out.numel() // threads"},
    loses=("tail", "launch"),
    because="the length is taken for a multiple of the block",
)

no_guard = edited(
    "add_vectors",
    {"    if i < out.size:\n        out[i]": "    out[i]"},
    loses=("bounds",),
    because="as many threads are thought to run as there are elements",
)

guard_one_too_far = edited(
    "add_vectors",
    {"if i < out.size:": "if i <= out.size:"},
    loses=("bounds",),
    because="the last index is taken for the length",
)

thread_index_alone = edited(
    "add_vectors",
    {"cuda.grid(1)": "cuda.threadIdx.x"},
    loses=NO_SUM,
    because="threadIdx is thought to count through the grid",
)

block_index_alone = edited(
    "add_vectors",
    {"cuda.grid(1)": "cuda.blockIdx.x + cuda.threadIdx.x"},
    loses=NO_SUM,
    because="a block is thought to be one element further on, not blockDim elements",
)

always_a_block_more = edited(
    "add_vectors",
    {"-(-out.numel() // threads)": "out.numel() // threads + 1"},
    loses=("launch", "empty"),
    because="rounding up is taken for adding one",
)

blocks_and_threads_swapped = edited(
    "add_vectors",
    {"add_kernel[blocks, threads]": "add_kernel[threads, blocks]"},
    loses=("launch",),
    because="the first number in the brackets is taken for the block",
)

launches_an_empty_grid = edited(
    "add_vectors",
    {"    if blocks > 0:\n        add_kernel": "    add_kernel"},
    loses=("empty",),
    because="a grid of no blocks is thought to do nothing",
)

every_thread_does_all = edited(
    "add_vectors",
    {"    if i < out.size:\n        out[i] = a[i] + b[i]": "    for k in range(out.size):\n        out[k] = a[k] + b[k]"},
    loses=("once",),
    because="a kernel is thought to be a function that runs once",
)


@mistake("add_vectors", loses=("launch",), because="a kernel is thought to need one block for its loop")
def one_block_with_a_stride(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
            out[i] = a[i] + b[i]

    if out.numel():
        kernel[1, threads](a, b, out)


@mistake("add_vectors", loses=NO_SUM, because="PyTorch's own addition is taken for the exercise")
def left_to_pytorch(a, b, out, threads):
    out.copy_(a + b)


@alternative("add_vectors")
def by_hand_from_the_end(a, b, out, threads):
    """Index by hand, early return, elements in descending order."""

    @cuda.jit
    def kernel(a, b, out, n):
        left = n - 1 - (cuda.blockDim.x * cuda.blockIdx.x + cuda.threadIdx.x)
        if left < 0:
            return
        total = a[left]
        total += b[left]
        out[left] = total

    n = len(a)
    if n == 0:
        return
    kernel[((n + threads - 1) // threads, 1, 1), (threads, 1, 1)](a, b, out, n)


@alternative("add_vectors")
def a_stride_over_the_whole_grid(a, b, out, threads):
    """A loop over the grid's size, which runs once in a grid that is large enough."""

    @cuda.jit
    def kernel(out, a, b):
        i = cuda.grid(1)
        while i < out.shape[0]:
            out[i] = b[i] + a[i]
            i += cuda.gridsize(1)

    blocks, rest = divmod(out.shape[0], threads)
    blocks += rest > 0
    if blocks:
        kernel[blocks, threads](out, a, b)


# E3.1 shade -------------------------------------------------------------------------------

NO_PICTURE = ("values", "bounds", "once", "launch", "sectors")

swapped_in_the_kernel = edited(
    "shade",
    {"x, y = cuda.grid(2)": "y, x = cuda.grid(2)"},
    loses=NO_PICTURE,
    because="the first index of the grid is taken for the row, as in a matrix",
)

swapped_throughout = edited(
    "shade",
    {
        "x, y = cuda.grid(2)": "y, x = cuda.grid(2)",
        "(-(-width // block[0]), -(-height // block[1]))": "(-(-height // block[0]), -(-width // block[1]))",
    },
    loses=("launch", "sectors"),
    because="rows first is thought to be a matter of taste: the values are right",
)

swapped_in_the_launch = edited(
    "shade",
    {"(-(-width // block[0]), -(-height // block[1]))": "(-(-height // block[0]), -(-width // block[1]))"},
    loses=NO_PICTURE,
    because="the shape of the tensor is taken for the shape of the grid",
)

floored = edited(
    "shade",
    {"(-(-width // block[0]), -(-height // block[1]))": "(max(1, width // block[0]), max(1, height // block[1]))"},
    loses=NO_PICTURE,
    because="the picture is taken for a multiple of the block",
)

guards_one_side = edited(
    "shade",
    {"if x < out.shape[1] and y < out.shape[0]:": "if x < out.shape[1]:"},
    loses=("bounds",),
    because="only rows are thought to have an end",
)

guards_with_or = edited(
    "shade",
    {" and y < ": " or y < "},
    loses=("bounds",),
    because="one index inside is thought to make the pixel inside",
)

a_block_for_a_pixel = edited(
    "shade",
    {"(-(-width // block[0]), -(-height // block[1]))": "(width, height)"},
    loses=("launch",),
    because="the grid is thought to count threads",
)

a_column_for_a_thread = edited(
    "shade",
    {
        "    if x < out.shape[1] and y < out.shape[0]:\n        out[y, x] = image[y, x] * gain[x]": (
            "    if x < out.shape[1] and y < out.shape[0]:\n"
            "        for row in range(out.shape[0]):\n"
            "            out[row, x] = image[row, x] * gain[x]"
        )
    },
    loses=("once", "sectors"),
    because="a thread is given a column, and the block's second dimension is forgotten",
)


@mistake("shade", loses=NO_PICTURE, because="broadcasting is taken for the kernel")
def left_to_broadcasting(image, gain, out, block):
    @cuda.jit
    def kernel(ready, out):
        x, y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = ready[y, x]

    height, width = out.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image * gain, out)


@alternative("shade")
def from_the_three_numbers(image, gain, out, block):
    @cuda.jit
    def kernel(picture, gain, out, width, height):
        column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        if row >= height or column >= width:
            return
        at = row * width + column
        out[at] = gain[column] * picture[at]

    height, width = image.shape
    across, down = (width + block[0] - 1) // block[0], (height + block[1] - 1) // block[1]
    kernel[(across, down, 1), (*block, 1)](image.view(-1), gain, out.view(-1), width, height)


@alternative("shade")
def gains_shared_by_the_block(image, gain, out, block):
    """The block loads each gain once, for all its rows."""
    from gpulab.kernels import float32

    wide = block[0]

    @cuda.jit
    def kernel(image, gain, out):
        gains = cuda.shared.array(wide, float32)
        x, y = cuda.grid(2)
        if cuda.threadIdx.y == 0 and x < out.shape[1]:
            gains[cuda.threadIdx.x] = gain[x]
        cuda.syncthreads()
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = image[y, x] * gains[cuda.threadIdx.x]

    height, width = image.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image, gain, out)


# E3.2 divergence_cost ---------------------------------------------------------------------

NO_COST = ("uniform", "mixed", "blocks", "tail")

charged_by_block = edited(
    "divergence_cost",
    {
        "        for warp in range(block, end, 32):\n"
        "            total += sum(costs[kind] for kind in set(kinds[warp : min(warp + 32, end)]))": (
            "        total += -(-(end - block) // 32) * sum(costs[kind] for kind in set(kinds[block:end]))"
        )
    },
    loses=NO_COST,
    because="a branch is thought to hold up the whole block",
)

average_of_the_branches = edited(
    "divergence_cost",
    {
        "total += sum(costs[kind] for kind in set(kinds[warp : min(warp + 32, end)]))": (
            "some = [costs[kind] for kind in set(kinds[warp : min(warp + 32, end)])]\n"
            "            total += sum(some) // len(some)"
        )
    },
    loses=("mixed",),
    because="half of the lanes are thought to cost half of the time",
)

dearest_branch = edited(
    "divergence_cost",
    {"sum(costs[kind] for": "max(costs[kind] for"},
    loses=("mixed",),
    because="the two sides are thought to run at the same time",
)

weighted_by_lanes = edited(
    "divergence_cost",
    {"set(kinds[warp : min(warp + 32, end)])": "kinds[warp : min(warp + 32, end)]"},
    loses=NO_COST,
    because="threads are thought to issue instructions, not warps",
)

blocks_run_together = edited(
    "divergence_cost",
    {"range(0, len(kinds), threads)": "range(0, len(kinds), len(kinds))", "min(block + threads, len(kinds))": "len(kinds)"},
    loses=("blocks",),
    because="warps are thought to go on from one block into the next",
)

whole_warps_only = edited(
    "divergence_cost",
    {"range(block, end, 32)": "range(block, end - 31, 32)"},
    loses=("blocks", "tail"),
    because="a warp that is not full is thought not to run",
)


@mistake("divergence_cost", loses=NO_COST, because="an if is thought always to cost both of its sides")
def both_sides_always(kinds, costs, threads):
    warps = sum(-(-min(threads, len(kinds) - at) // 32) for at in range(0, len(kinds), threads))
    return warps * sum(costs)


@alternative("divergence_cost")
def warps_by_name(kinds, costs, threads):
    """Pairs of a warp and a kind, each once."""
    issued = {(thread // threads, thread % threads // 32, kind) for thread, kind in enumerate(kinds)}
    return sum(costs[kind] for _, _, kind in issued)


# E3.2 regroup -----------------------------------------------------------------------------

left_as_it_is = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "list(range(len(kinds)))"},
    loses=("splits", "sectors"),
    because="divergence is thought to be the compiler's business",
)

grouped_in_reach = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "sorted(range(len(kinds)), key=lambda j: (j // 64, kinds[j]))"},
    loses=("splits", "sectors"),
    because="gathering is held to be so dear that groups stay small: the borders between them are many",
)

kinds_taken_in_turn = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: (kinds[:j].count(kinds[j]), kinds[j])"},
    loses=("splits", "sectors"),
    because="kinds are dealt out evenly, as for threads that were independent",
)

scattered_within_a_kind = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: (kinds[j], j * 97 % len(kinds))"},
    loses=("sectors",),
    because="the order within a kind is thought not to matter: the gather is left out of the bill",
)

an_order_of_kinds = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "sorted(kinds)"},
    loses=("order", "splits", "sectors"),
    because="the sorted kinds are taken for the order that sorts them",
)

sorts_in_place = edited(
    "regroup",
    {"    return sorted(": "    kinds.sort()\n    return sorted("},
    loses=("order", "splits", "sectors"),
    because="the caller's list is taken for one's own",
)


@mistake("regroup", loses=("order", "splits", "sectors"), because="where an object goes is taken for which object comes")
def ranks_as_tensors(kinds):
    import torch

    return torch.tensor(kinds).argsort().argsort()


@alternative("regroup")
def by_buckets(kinds):
    """The kinds in descending order, each bucket as it fills."""
    buckets = {}
    for j, kind in enumerate(kinds):
        buckets.setdefault(kind, []).append(j)
    return [j for kind in sorted(buckets, reverse=True) for j in buckets[kind]]


# E3.3 occupancy ---------------------------------------------------------------------------

NO_BLOCKS = ("warps", "blocks", "registers", "shared", "misfits")

threads_only = edited(
    "occupancy",
    {"return min(by_warps, sm.max_blocks, by_registers, by_shared)": "return 32 * sm.max_warps // threads"},
    loses=NO_BLOCKS,
    because="threads are thought to be all that a multiprocessor runs out of",
)

a_lane_for_a_thread = edited(
    "occupancy",
    {"by_warps = sm.max_warps // warps": "by_warps = 128 // threads"},
    loses=NO_BLOCKS,
    because="a thread is thought to need one of the multiprocessor's 128 cores for itself",
)

parts_of_warps = edited(
    "occupancy",
    {"by_warps = sm.max_warps // warps": "by_warps = 32 * sm.max_warps // threads"},
    loses=NO_BLOCKS,
    because="a part of a warp is thought to take a part of a place",
)

no_cap_on_blocks = edited(
    "occupancy",
    {"min(by_warps, sm.max_blocks, by_registers, by_shared)": "min(by_warps, by_registers, by_shared)"},
    loses=("blocks",),
    because="small blocks are thought to fill the multiprocessor as well as large ones",
)

registers_by_thread = edited(
    "occupancy",
    {"by_registers = 4 * (sm.registers // 4 // warp_registers) // warps": "by_registers = sm.registers // (registers * threads)"},
    loses=("registers",),
    because="registers are thought to be given out one by one",
)

registers_without_units = edited(
    "occupancy",
    {"round_up(32 * registers, sm.register_unit)": "32 * registers"},
    loses=("registers",),
    because="a warp is thought to take no more registers than it uses",
)

registers_in_one_piece = edited(
    "occupancy",
    {"4 * (sm.registers // 4 // warp_registers) // warps": "sm.registers // warp_registers // warps"},
    loses=("registers",),
    because="the register file is taken for one, where each quarter has its own",
)

nothing_reserved = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "round_up(shared_bytes, sm.shared_unit)"},
    loses=("shared",),
    because="all of the shared memory is thought to be the kernel's",
)

shared_without_units = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "shared_bytes + sm.shared_reserved"},
    loses=("shared",),
    because="shared memory is thought to be given out byte by byte",
)

at_least_one_block = edited(
    "occupancy",
    {
        "min(by_warps, sm.max_blocks, by_registers, by_shared)": "max(1, min(by_warps, sm.max_blocks, by_registers, by_shared))"
    },
    loses=("misfits",),
    because="a block is thought to run somehow, however large it is",
)


@mistake("occupancy", loses=NO_BLOCKS, because="larger blocks are thought always to be better: the largest is counted")
def as_if_the_block_were_large(threads, registers, shared_bytes, sm):
    if not 1 <= threads <= 1024 or not 1 <= registers <= 255 or shared_bytes < 0:
        raise ValueError("no such block")
    return max(1, sm.max_warps // 32)


@alternative("occupancy")
def one_more_while_it_fits(threads, registers, shared_bytes, sm):
    """Blocks move in one by one until a store is empty."""
    if threads not in range(1, 1025) or registers not in range(1, 256) or shared_bytes < 0:
        raise ValueError("no such block")
    warps = (threads + 31) // 32
    units = (32 * registers + sm.register_unit - 1) // sm.register_unit
    register_places = 4 * ((sm.registers // 4) // (units * sm.register_unit))
    shared_units = -((-shared_bytes - sm.shared_reserved) // sm.shared_unit)
    blocks = 0
    while (
        blocks < sm.max_blocks
        and (blocks + 1) * warps <= min(sm.max_warps, register_places)
        and (blocks + 1) * shared_units * sm.shared_unit <= sm.shared_bytes
    ):
        blocks += 1
    return blocks
