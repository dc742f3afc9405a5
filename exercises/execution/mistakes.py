"""Chapter "The CUDA execution model": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable
from gpulab.kernels import cuda, float32

# E3.1 add_vectors -------------------------------------------------------------------------

NO_SUM = ("values", "tail", "bounds", "once", "launch", "empty")
LAUNCH = "the smallest number of blocks"
ONE_BY_ONE = "    if i < out.size:\n        out[i] = a[i] + b[i]"

floor_division = edited(
    "add_vectors",
    {"-(-out.numel() // threads)": "out.numel() // threads"},
    loses=("tail", "launch"),
    because="the length is taken for a multiple of the block",
    breaks="whatever the length",
)

no_guard = edited(
    "add_vectors",
    {"    if i < out.size:\n        out[i]": "    out[i]"},
    loses=("bounds",),
    because="as many threads are thought to run as there are elements",
    breaks="no access is out of bounds",
)

guard_one_too_far = edited(
    "add_vectors",
    {"if i < out.size:": "if i <= out.size:"},
    loses=("bounds",),
    because="the last index is taken for the length",
    breaks="no access is out of bounds",
)

reads_before_the_guard = edited(
    "add_vectors",
    {ONE_BY_ONE: "    total = a[i] + b[i]\n    if i < out.size:\n        out[i] = total"},
    loses=("bounds",),
    because="only a write outside the array is thought to matter",
    breaks="no access is out of bounds",
)

clamps_the_index = edited(
    "add_vectors",
    {ONE_BY_ONE: "    i = min(i, out.size - 1)\n    out[i] = a[i] + b[i]"},
    loses=("once",),
    because="threads too many are thought to do no harm at the last element",
    breaks="every element of `out` written once",
)

wraps_around = edited(
    "add_vectors",
    {ONE_BY_ONE: "    i = i % out.size\n    out[i] = a[i] + b[i]"},
    loses=("once",),
    because="threads too many are sent round to the beginning",
    breaks="every element of `a` and `b` is read once",
)

spare_threads_read_the_first = edited(
    "add_vectors",
    {ONE_BY_ONE: "    j = i if i < out.size else 0\n    total = a[j] + b[j]\n    if i < out.size:\n        out[i] = total"},
    loses=("once",),
    because="a read too many is thought to cost nothing",
    breaks="every element of `a` and `b` is read once",
)

reads_twice = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] = a[i]\n        out[i] = a[i] + b[i]"},
    loses=("once",),
    because="an array element is taken for a variable that lies in a register",
    breaks="every element of `a` and `b` is read once, every element of `out` written once",
)

sums_in_the_first_input = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "a[i] += b[i]\n        out[i] = a[i]"},
    loses=("once",),
    because="an input is taken for a place to work in",
    breaks="nothing else is written",
)

adds_to_the_garbage = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] += a[i] + b[i]"},
    loses=NO_SUM,
    because="memory that nobody wrote is taken for zeros",
    breaks="`out` holds garbage",
)

as_integers = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] = int(a[i]) + int(b[i])"},
    loses=NO_SUM,
    because="the check's whole numbers are taken for all that can come",
    breaks="float32 vectors",
)

whole_sums = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] = abs(a[i]) + abs(b[i])"},
    loses=NO_SUM,
    because="the check's positive numbers are taken for all that can come",
    breaks="writes `a + b` into `out`",
)

thread_index_alone = edited(
    "add_vectors",
    {"cuda.grid(1)": "cuda.threadIdx.x"},
    loses=NO_SUM,
    because="threadIdx is thought to count through the grid",
    breaks="one element per thread",
)

block_index_alone = edited(
    "add_vectors",
    {"cuda.grid(1)": "cuda.blockIdx.x + cuda.threadIdx.x"},
    loses=NO_SUM,
    because="a block is thought to be one element further on, not blockDim elements",
    breaks="one element per thread",
)

by_the_grids_size = edited(
    "add_vectors",
    {"cuda.grid(1)": "cuda.threadIdx.x * cuda.gridDim.x + cuda.blockIdx.x + 1 - 1", "if i < out.size": "if cuda.grid(1) < out.size"},
    loses=("tail", "bounds"),
    because="threads are dealt to blocks in turn, and the guard still counts them block by block",
    breaks="whatever the length",
)

always_a_block_more = edited(
    "add_vectors",
    {"-(-out.numel() // threads)": "out.numel() // threads + 1"},
    loses=("launch", "empty"),
    because="rounding up is taken for adding one",
    breaks=LAUNCH,
)

blocks_and_threads_swapped = edited(
    "add_vectors",
    {"add_kernel[blocks, threads]": "add_kernel[threads, blocks]"},
    loses=("launch",),
    because="the first number in the brackets is taken for the block",
    breaks="blocks of `threads` threads (1 to 1024)",
)

threads_rounded_to_warps = edited(
    "add_vectors",
    {"    blocks = ": "    threads = -(-threads // 32) * 32\n    blocks = "},
    loses=("launch",),
    because="a block is thought to be made of whole warps only",
    breaks="blocks of `threads` threads (1 to 1024)",
)

half_of_the_largest_block = edited(
    "add_vectors",
    {"    blocks = ": "    threads = min(threads, 512)\n    blocks = "},
    loses=("launch",),
    because="the limit of long ago is taken for today's",
    breaks="blocks of `threads` threads (1 to 1024)",
)

never_less_than_a_warp = edited(
    "add_vectors",
    {"    blocks = ": "    threads = max(threads, 32)\n    blocks = "},
    loses=("launch",),
    because="a block of less than a warp is thought to be impossible",
    breaks="blocks of `threads` threads (1 to 1024)",
)

launches_an_empty_grid = edited(
    "add_vectors",
    {"    if blocks > 0:\n        add_kernel": "    add_kernel"},
    loses=("empty",),
    because="a grid of no blocks is thought to do nothing",
    breaks="for empty vectors, nothing is launched: a grid of 0 blocks is an error in CUDA",
)

at_least_one_launch = edited(
    "add_vectors",
    {"-(-out.numel() // threads)": "max(1, -(-out.numel() // threads))"},
    loses=("empty",),
    because="a launch whose threads all fail the guard is thought to be no launch",
    breaks="nothing is launched",
)

the_next_one_too = edited(
    "add_vectors",
    {ONE_BY_ONE: "    for k in range(i, min(i + 2, out.size)):\n        out[k] = a[k] + b[k]"},
    loses=("once",),
    because="a thread is given a pair, and its neighbour begins in the middle of it",
    breaks="one element per thread",
)

one_thread_for_a_block = edited(
    "add_vectors",
    {
        ONE_BY_ONE: "    if cuda.threadIdx.x == 0:\n"
        "        for k in range(i, min(i + cuda.blockDim.x, out.size)):\n            out[k] = a[k] + b[k]"
    },
    loses=("once",),
    because="a block is thought to be the one that works",
    breaks="one element per thread",
)

pairs_for_half_of_the_threads = edited(
    "add_vectors",
    {
        ONE_BY_ONE: "    if i % 2 == 0:\n"
        "        for k in range(i, min(i + 2, out.size)):\n            out[k] = a[k] + b[k]"
    },
    loses=("once",),
    because="a thread is given a pair, and half of them nothing",
    breaks="one element per thread",
)

along_y = edited(
    "add_vectors",
    {
        "i = cuda.grid(1)": "i = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y",
        "add_kernel[blocks, threads]": "add_kernel[(1, blocks), (1, threads)]",
    },
    loses=("launch",),
    because="a vector is taken for a column, and a column is thought to run along y",
    breaks="grid and block are one-dimensional, along x",
)

a_barrier_in_the_branch = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] = a[i] + b[i]\n        cuda.syncthreads()"},
    loses=("bounds",),
    because="a barrier is thought to make a write safe, wherever it stands",
    breaks="each barrier is reached by all threads of a block or by none",
)

through_shared_memory_unguarded = edited(
    "add_vectors",
    {
        "@cuda.jit\n": "from gpulab.kernels import float32\n\n\n@cuda.jit\n",
        ONE_BY_ONE: (
            "    sums = cuda.shared.array(1024, float32)\n"
            "    if i < out.size:\n"
            "        sums[cuda.threadIdx.x] = a[i] + b[i]\n"
            "        next = sums[(cuda.threadIdx.x + 1) % cuda.blockDim.x]\n"
            "        out[i] = sums[cuda.threadIdx.x] + 0 * next"
        )
    },
    loses=NO_SUM,
    because="threads of a block are thought to be in step with one another",
    breaks="there are no data races",
)


not_written_where_no_number = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "total = a[i] + b[i]\n        if total == total:\n            out[i] = total"},
    loses=NO_SUM,
    because="what is no number is thought not to be worth writing",
    breaks="every element of `out` written once",
)

grid_kept_by_length = edited(
    "add_vectors",
    {
        "def add_vectors(a, b, out, threads):": "def add_vectors(a, b, out, threads, known={}):",
        "    blocks = -(-out.numel() // threads)": "    blocks = known.setdefault(out.numel(), -(-out.numel() // threads))",
    },
    loses=NO_SUM,
    because="a length is thought to come with one size of block",
    breaks=LAUNCH,
)

two_blocks_a_multiprocessor = edited(
    "add_vectors",
    {
        ONE_BY_ONE: "    while i < out.size:\n        out[i] = a[i] + b[i]\n        i += cuda.gridsize(1)",
        "-(-out.numel() // threads)": "min(2 * 132, -(-out.numel() // threads))",
    },
    loses=("launch",),
    because="more blocks than the card holds at once are thought to be a waste",
    breaks="one element per thread",
)


both_ends_for_the_first_half = edited(
    "add_vectors",
    {
        ONE_BY_ONE: (
            "    if 2 * i < out.size:\n"
            "        out[i] = a[i] + b[i]\n"
            "        if 2 * i + 1 < out.size:\n"
            "            out[out.size - 1 - i] = a[out.size - 1 - i] + b[out.size - 1 - i]"
        )
    },
    loses=("once",),
    because="work is thought to be saved when a thread does it twice as often",
    breaks="one element per thread",
)

a_barrier_in_the_branch_of_large_blocks = edited(
    "add_vectors",
    {"out[i] = a[i] + b[i]": "out[i] = a[i] + b[i]\n        if cuda.blockDim.x > 512:\n            cuda.syncthreads()"},
    loses=("bounds",),
    because="the warps of a large block are thought to need keeping together",
    breaks="each barrier is reached by all threads of a block or by none",
)

room_for_half_a_block = edited(
    "add_vectors",
    {
        "@cuda.jit\n": "from gpulab.kernels import float32\n\n\n@cuda.jit\n",
        ONE_BY_ONE: (
            "    sums = cuda.shared.array(512, float32)\n"
            "    if i < out.size:\n"
            "        sums[cuda.threadIdx.x] = a[i] + b[i]\n"
            "        out[i] = sums[cuda.threadIdx.x]"
        ),
    },
    loses=NO_SUM,
    because="the usual block is taken for the largest",
    breaks="blocks of `threads` threads (1 to 1024)",
)

@mistake("add_vectors", loses=("launch",), because="a kernel is thought to need one block for its loop", breaks=LAUNCH)
def one_block_with_a_stride(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
            out[i] = a[i] + b[i]

    if out.numel():
        kernel[1, threads](a, b, out)


@mistake("add_vectors", loses=("launch",), because="more blocks than the card has multiprocessors are thought to be a waste", breaks=LAUNCH)
def a_block_for_a_multiprocessor(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
            out[i] = a[i] + b[i]

    if out.numel():
        kernel[min(132, (len(out) + threads - 1) // threads), threads](a, b, out)


@mistake("add_vectors", loses=NO_SUM, because="PyTorch's own addition is taken for the exercise", breaks="Your kernel does it")
def left_to_pytorch(a, b, out, threads):
    out.copy_(a + b)


@mistake("add_vectors", loses=("tail", "launch"), because="the rest is given a launch of its own", breaks="in one launch")
def whole_blocks_then_the_rest(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        out[i] = a[i] + b[i]

    whole, rest = divmod(len(out), threads)
    if whole:
        kernel[whole, threads](a, b, out)
    if rest:
        kernel[1, rest](a[-rest:], b[-rest:], out[-rest:])


@mistake(
    "add_vectors",
    loses=NO_SUM,
    because="clearing the result first is thought to be good manners",
    breaks="no operation of PyTorch computes or moves an element",
)
def cleared_first(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    out.zero_()
    if len(out):
        kernel[-(-len(out) // threads), threads](a, b, out)


@mistake(
    "add_vectors",
    loses=NO_SUM,
    because="printing a tensor is thought to leave the device alone",
    breaks="not even for a `print(out)`",
)
def left_the_print_in(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    if len(out):
        kernel[-(-len(out) // threads), threads](a, b, out)
    print(out)


@mistake("add_vectors", loses=NO_SUM, because="a function is thought to owe its caller a result", breaks="returns nothing")
def returns_the_sum(a, b, out, threads):
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    if len(out):
        kernel[-(-len(out) // threads), threads](a, b, out)
    return out


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


@alternative("add_vectors")
def numbers_of_numpys(a, b, out, threads):
    """The number of blocks is NumPy's, the kernel's work a device function's."""
    import numpy as np

    @cuda.jit(device=True)
    def both(x, y):
        return x + y

    @cuda.jit
    def kernel(a, b, out):
        position = cuda.grid(1)
        if position >= len(out):
            return
        out[position] = both(a[position], b[position])

    blocks = np.int64(np.ceil(a.shape[0] / threads))
    if blocks:
        kernel[blocks, np.int32(threads)](a, b, out)


@alternative("add_vectors")
def even_and_odd(a, b, out, threads):
    """Lanes of a warp part, and each does its element."""

    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            if i % 2:
                out[i] = a[i] + b[i]
            else:
                out[i] = b[i] + a[i] if i % 3 else a[i] + b[i]

    if len(out):
        kernel[-(-len(out) // threads), threads](a, b, out)


@alternative("add_vectors")
def gone_before_the_barrier(a, b, out, threads):
    """Threads without an element return; the others of their block still meet."""

    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i >= out.size:
            return
        total = a[i] + b[i]
        cuda.syncthreads()
        out[i] = total

    if len(out):
        kernel[-(-len(out) // threads), threads](a, b, out)


@alternative("add_vectors")
def for_all(a, b, out, threads):
    """The grid is reckoned by Numba."""

    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            out[i] = b[i] + a[i]

    kernel.forall(len(out), tpb=threads)(a, b, out)


@alternative("add_vectors")
def through_shared_memory(a, b, out, threads):
    """Blocks are dealt elements in turn; the sum waits in shared memory behind a barrier that all reach."""

    from gpulab.kernels import float32

    @cuda.jit
    def kernel(a, b, out):
        sums = cuda.shared.array(1024, float32)
        i = cuda.threadIdx.x * cuda.gridDim.x + cuda.blockIdx.x
        if i < out.size:
            sums[cuda.threadIdx.x] = a[i] + b[i]
        cuda.syncthreads()
        if i < out.size:
            out[i] = sums[cuda.threadIdx.x]

    blocks = -(-max(a.size()) // threads)
    if blocks:
        kernel[(blocks,), (threads,)](a, b, out)


# E3.2 shade -------------------------------------------------------------------------------

NO_PICTURE = ("values", "bounds", "once", "launch", "sectors")
SMALLEST = "the smallest grid that covers the image when x runs over the columns and y over the rows"
IN_A_ROW = "adjacent lanes of a warp compute adjacent elements of a row"
GRID = "(-(-width // block[0]), -(-height // block[1]))"
PIXEL = "    if x < out.shape[1] and y < out.shape[0]:\n        out[y, x] = image[y, x] * gain[x]"

swapped_in_the_kernel = edited(
    "shade",
    {"x, y = cuda.grid(2)": "y, x = cuda.grid(2)"},
    loses=NO_PICTURE,
    because="the first index of the grid is taken for the row, as in a matrix",
    breaks="x runs over the columns and y over the rows",
)

swapped_throughout = edited(
    "shade",
    {"x, y = cuda.grid(2)": "y, x = cuda.grid(2)", GRID: "(-(-height // block[0]), -(-width // block[1]))"},
    loses=("launch", "sectors"),
    because="rows first is thought to be a matter of taste: the values are right",
    breaks=IN_A_ROW,
)

swapped_in_the_launch = edited(
    "shade",
    {GRID: "(-(-height // block[0]), -(-width // block[1]))"},
    loses=NO_PICTURE,
    because="the shape of the tensor is taken for the shape of the grid",
    breaks=SMALLEST,
)

block_read_the_other_way = edited(
    "shade",
    {GRID: "(-(-width // block[1]), -(-height // block[0]))"},
    loses=NO_PICTURE,
    because="the block is thought to be given as rows and columns",
    breaks="threads along x and along y",
)

block_turned_round = edited(
    "shade",
    {GRID: "(-(-width // block[1]), -(-height // block[0]))", "shade_kernel[grid, block]": "shade_kernel[grid, block[::-1]]"},
    loses=("launch", "sectors"),
    because="the block is thought to be given as rows and columns",
    breaks="The launch has that block",
)

a_block_of_ones_own = edited(
    "shade",
    {"    grid = ": "    block = (32, 8)\n    grid = "},
    loses=("launch", "sectors"),
    because="the block that is best on the page is thought best everywhere",
    breaks="The launch has that block",
)

floored = edited(
    "shade",
    {GRID: "(max(1, width // block[0]), max(1, height // block[1]))"},
    loses=NO_PICTURE,
    because="the picture is taken for a multiple of the block",
    breaks=SMALLEST,
)

a_block_more_each_way = edited(
    "shade",
    {GRID: "(width // block[0] + 1, height // block[1] + 1)"},
    loses=("launch",),
    because="rounding up is taken for adding one",
    breaks=SMALLEST,
)

guards_columns_only = edited(
    "shade",
    {"if x < out.shape[1] and y < out.shape[0]:": "if x < out.shape[1]:"},
    loses=("bounds", "sectors"),
    because="only rows are thought to have an end",
    breaks="no access is out of bounds",
)

guards_rows_only = edited(
    "shade",
    {"if x < out.shape[1] and y < out.shape[0]:": "if y < out.shape[0]:"},
    loses=("bounds",),
    because="only columns are thought to have an end",
    breaks="no access is out of bounds",
)

guards_with_or = edited(
    "shade",
    {" and y < ": " or y < "},
    loses=("bounds", "sectors"),
    because="one index inside is thought to make the pixel inside",
    breaks="no access is out of bounds",
)

reads_the_gain_before_the_guard = edited(
    "shade",
    {PIXEL: "    g = gain[x]\n    if x < out.shape[1] and y < out.shape[0]:\n        out[y, x] = image[y, x] * g"},
    loses=("bounds", "sectors"),
    because="only the picture is thought to have an end",
    breaks="no access is out of bounds",
)

clamps_both = edited(
    "shade",
    {PIXEL: "    x, y = min(x, out.shape[1] - 1), min(y, out.shape[0] - 1)\n    out[y, x] = image[y, x] * gain[x]"},
    loses=("once", "sectors"),
    because="threads too many are thought to do no harm at the edge",
    breaks="every element of `out` written once",
)

a_block_for_a_pixel = edited(
    "shade",
    {GRID: "(width, height)"},
    loses=("launch",),
    because="the grid is thought to count threads",
    breaks=SMALLEST,
)

a_column_for_a_thread = edited(
    "shade",
    {
        "        out[y, x] = image[y, x] * gain[x]": (
            "        for row in range(out.shape[0]):\n            out[row, x] = image[row, x] * gain[x]"
        )
    },
    loses=("once", "sectors"),
    because="a thread is given a column, and the block's second dimension is forgotten",
    breaks="every element of `image` is read once",
)

looks_twice = edited(
    "shade",
    {"        out[y, x] = image": "        if image[y, x] != 0.0:\n            out[y, x] = 0.0\n        out[y, x] = image"},
    loses=("once", "sectors"),
    because="what a thread has read is thought to stay with it",
    breaks="every element of `image` is read once",
)

shaded_in_place_first = edited(
    "shade",
    {"out[y, x] = image[y, x] * gain[x]": "image[y, x] *= gain[x]\n        out[y, x] = image[y, x]"},
    loses=("once", "sectors"),
    because="an input is taken for a place to work in",
    breaks="nothing else is written",
)

gain_of_the_row = edited(
    "shade",
    {"= image[y, x] * gain[x]": "= image[y, x] * gain[y]"},
    loses=NO_PICTURE,
    because="the first index of a matrix is thought to be the one that the vector follows",
    breaks="writes `image[y, x] * gain[x]` into `out[y, x]`",
)

guard_of_a_square = edited(
    "shade",
    {"x < out.shape[1] and y < out.shape[0]": "x < out.shape[0] and y < out.shape[0]"},
    loses=NO_PICTURE,
    because="a picture is taken for a square",
    breaks="not equal in general",
)

gain_as_long_as_the_picture_is_high = edited(
    "shade",
    {"x < out.shape[1] and y < out.shape[0]": "x < gain.size and y < gain.size"},
    loses=NO_PICTURE,
    because="a picture is taken for a square",
    breaks="gain`: a float32 vector of length `W",
)

adds_to_the_picture = edited(
    "shade",
    {"out[y, x] = image": "out[y, x] += image"},
    loses=NO_PICTURE,
    because="memory that nobody wrote is taken for zeros",
    breaks="`out` holds garbage",
)

whole_grey_levels = edited(
    "shade",
    {"= image[y, x] * gain[x]": "= int(image[y, x]) * gain[x]"},
    loses=NO_PICTURE,
    because="a pixel is taken for a whole number",
    breaks="float32 matrices of shape `(H, W)`",
)

transposed_inside_the_warp = edited(
    "shade",
    {
        "x, y = cuda.grid(2)": (
            "t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x\n"
            "    x = cuda.blockIdx.x * cuda.blockDim.x + t // cuda.blockDim.y\n"
            "    y = cuda.blockIdx.y * cuda.blockDim.y + t % cuda.blockDim.y"
        )
    },
    loses=("sectors",),
    because="a block's threads are thought to touch the same sectors, whichever thread does which pixel",
    breaks=IN_A_ROW,
)

dark_columns_left_out = edited(
    "shade",
    {"        out[y, x] = image[y, x] * gain[x]": "        g = gain[x]\n        if g == 0.0:\n            out[y, x] = 0.0\n        else:\n            out[y, x] = image[y, x] * g"},
    loses=NO_PICTURE,
    because="0 times anything is thought to be 0",
    breaks="every element of `image` is read once",
)

turned_in_square_blocks = edited(
    "shade",
    {
        "x, y = cuda.grid(2)": (
            "x, y = cuda.grid(2)\n"
            "    if cuda.blockDim.x == cuda.blockDim.y:\n"
            "        x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.y\n"
            "        y = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.x"
        )
    },
    loses=("sectors",),
    because="in a square block one direction is thought to be as good as the other",
    breaks=IN_A_ROW,
)

a_barrier_for_some = edited(
    "shade",
    {"    if x < out.shape[1] and": "    if x < out.shape[1]:\n        cuda.syncthreads()\n    if x < out.shape[1] and"},
    loses=("bounds",),
    because="a barrier is thought to be for those who come to it",
    breaks="each barrier is reached by all threads of a block or by none",
)


launch_kept_by_size = edited(
    "shade",
    {
        "def shade(image, gain, out, block):": "def shade(image, gain, out, block, known={}):",
        "    height, width = out.shape": "    height, width = out.shape\n    block = known.setdefault((height, width), block)",
    },
    loses=("launch", "sectors"),
    because="pictures of a size are thought to come with one block",
    breaks="The launch has that block",
)

@mistake("shade", loses=NO_PICTURE, because="the warps of a block are thought to run in step", breaks="there are no data races")
def gains_shared_without_a_barrier(image, gain, out, block):
    from gpulab.kernels import float32

    @cuda.jit
    def kernel(image, gain, out):
        gains = cuda.shared.array(1024, float32)
        x, y = cuda.grid(2)
        if cuda.threadIdx.y == 0 and x < out.shape[1]:
            gains[cuda.threadIdx.x] = gain[x]
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = image[y, x] * gains[cuda.threadIdx.x]

    height, width = image.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image, gain, out)


@mistake("shade", loses=NO_PICTURE, because="broadcasting is taken for the kernel", breaks="Your kernel does it")
def left_to_broadcasting(image, gain, out, block):
    @cuda.jit
    def kernel(ready, out):
        x, y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = ready[y, x]

    height, width = out.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image * gain, out)


@mistake(
    "shade",
    loses=NO_PICTURE,
    because="the gain is first spread over the picture",
    breaks="no operation of PyTorch computes or moves an element",
)
def a_gain_for_each_pixel(image, gain, out, block):
    @cuda.jit
    def kernel(image, gains, out):
        x, y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = image[y, x] * gains[y, x]

    height, width = out.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image, gain.expand_as(image).contiguous(), out)


@mistake("shade", loses=NO_PICTURE, because="a grid is thought to have 128 rows at most", breaks="in one launch")
def a_launch_for_128_rows(image, gain, out, block):
    @cuda.jit
    def kernel(image, gain, out):
        x, y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = image[y, x] * gain[x]

    height, width = out.shape
    for first in range(0, height, 128):
        part = out[first : first + 128]
        kernel[(-(-width // block[0]), -(-len(part) // block[1])), block](image[first : first + 128], gain, part)


@mistake("shade", loses=NO_PICTURE, because="a launch is thought to do a row", breaks="in one launch")
def a_launch_for_a_row(image, gain, out, block):
    @cuda.jit
    def kernel(row, gain, out):
        x = cuda.grid(1)
        if x < out.size:
            out[x] = row[x] * gain[x]

    for y in range(len(image)):
        kernel[-(-len(gain) // block[0]), block[0]](image[y], gain, out[y])


@mistake("shade", loses=("launch", "sectors"), because="pixels are numbered through, and the block's shape is held to be of no account", breaks=SMALLEST)
def numbered_through(image, gain, out, block):
    @cuda.jit
    def kernel(image, gain, out):
        i = cuda.grid(1)
        if i < out.size:
            y, x = i // out.shape[1], i % out.shape[1]
            out[y, x] = image[y, x] * gain[x]

    threads = block[0] * block[1]
    kernel[-(-out.numel() // threads), threads](image, gain, out)


@mistake("shade", loses=NO_PICTURE, because="a function is thought to owe its caller a result", breaks="returns nothing")
def returns_the_picture(image, gain, out, block):
    @cuda.jit
    def kernel(image, gain, out):
        x, y = cuda.grid(2)
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = image[y, x] * gain[x]

    height, width = out.shape
    kernel[(-(-width // block[0]), -(-height // block[1])), block](image, gain, out)
    return out


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


@alternative("shade")
def rows_then_columns_by_hand(image, gain, out, block):
    """NumPy's integers, loops over the whole grid, which run once, a block of three numbers."""
    import numpy as np

    @cuda.jit
    def kernel(out, gain, image):
        across, down = cuda.gridsize(2)
        first, y = cuda.grid(2)
        while y < image.shape[0]:
            x = first
            while x < image.shape[1]:
                out[y, x] = gain[x] * image[y, x]
                x += across
            y += down

    grid = np.ceil(np.array(image.shape[::-1]) / np.array(block)).astype(int)
    kernel[tuple(grid), (np.int32(block[0]), np.int32(block[1]), 1)](out, gain, image)


@alternative("shade")
def one_guard_in_the_other(image, gain, out, block):
    """A device function, two guards one inside the other."""

    @cuda.jit(device=True)
    def shaded(pixel, gain):
        return pixel * gain

    @cuda.jit
    def kernel(image, gain, out):
        x, y = cuda.grid(2)
        if y < out.shape[0]:
            if x < out.shape[1]:
                out[y, x] = shaded(image[y, x], gain[x])

    grid = [(size + block[axis] - 1) // block[axis] for axis, size in enumerate((out.size(1), out.size(0)))]
    kernel[tuple(grid), block](image, gain, out)


@alternative("shade")
def from_the_last_row(image, gain, out, block):
    """Rows from below; a row of the matrix, and of it a pixel."""

    @cuda.jit
    def kernel(image, gain, out):
        x, row = cuda.grid(2)
        if x < out.shape[1] and row < out.shape[0]:
            y = out.shape[0] - 1 - row
            out[y][x] = image[y][x] * gain[x]

    (height, width), (across, down) = image.shape, block
    kernel[((width - 1) // across + 1, (height - 1) // down + 1), block](image, gain, out)


# E3.3 divergence_cost ---------------------------------------------------------------------

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
    breaks="the number of instructions that a warp issues for the branch of each kind",
)

average_of_the_branches = edited(
    "divergence_cost",
    {
        "total += sum(costs[kind] for kind in set(kinds[warp : min(warp + 32, end)]))": (
            "some = [costs[kind] for kind in set(kinds[warp : min(warp + 32, end)])]\n"
            "            total += sum(some) // len(some)"
        )
    },
    loses=("mixed", "blocks"),
    because="half of the lanes are thought to cost half of the time",
    breaks="however many of its lanes take it",
)

dearest_branch = edited(
    "divergence_cost",
    {"sum(costs[kind] for": "max(costs[kind] for"},
    loses=("mixed", "blocks"),
    because="the two sides are thought to run at the same time",
    breaks="returns the number of instructions that all warps of all blocks issue in the branches",
)

weighted_by_lanes = edited(
    "divergence_cost",
    {"set(kinds[warp : min(warp + 32, end)])": "kinds[warp : min(warp + 32, end)]"},
    loses=NO_COST,
    because="threads are thought to issue instructions, not warps",
    breaks="the number of instructions that a warp issues for the branch of each kind",
)

blocks_run_together = edited(
    "divergence_cost",
    {"range(0, len(kinds), threads)": "range(0, len(kinds), len(kinds))", "min(block + threads, len(kinds))": "len(kinds)"},
    loses=("blocks",),
    because="warps are thought to go on from one block into the next",
    breaks="`threads`: threads in a block",
)

whole_warps_only = edited(
    "divergence_cost",
    {"range(block, end, 32)": "range(block, end - 31, 32)"},
    loses=("blocks", "tail"),
    because="a warp that is not full is thought not to run",
    breaks="the launch has the smallest number of blocks that covers all objects",
)


@mistake("divergence_cost", loses=NO_COST, because="an if is thought always to cost both of its sides", breaks="the kind of each thread's object, in thread order")
def both_sides_always(kinds, costs, threads):
    warps = sum(-(-min(threads, len(kinds) - at) // 32) for at in range(0, len(kinds), threads))
    return warps * sum(costs)


SUM = "sum(costs[kind] for kind in set(kinds[warp : min(warp + 32, end)]))"

each_cost_once = edited(
    "divergence_cost",
    {SUM: "sum({costs[kind] for kind in kinds[warp : min(warp + 32, end)]})"},
    loses=("mixed",),
    because="branches that cost the same are taken for one branch",
    breaks="the branch of each kind",
)

three_kinds = edited(
    "divergence_cost",
    {SUM: "sum(costs[kind] for kind in (0, 1, 2) if kind in kinds[warp : min(warp + 32, end)])"},
    loses=("mixed",),
    because="the kinds of the example are taken for all that there are",
    breaks="It has one entry per kind",
)

kinds_up_to_the_number_met = edited(
    "divergence_cost",
    {SUM: "sum(costs[kind] for kind in range(len(set(kinds))) if kind in kinds[warp : min(warp + 32, end)])"},
    loses=("mixed", "blocks", "tail"),
    because="the kinds that occur are thought to be the first ones",
    breaks="some kinds may not occur",
)

one_more_for_each_branch = edited(
    "divergence_cost",
    {SUM: "sum(costs[k] for k in range(len(costs)) if costs[k] and kinds[warp : min(warp + 32, end)].count(k) > 1)"},
    loses=("mixed", "blocks", "tail"),
    because="one lane alone is thought to cost nothing",
    breaks="however many of its lanes take it",
)

kept_without_costs = edited(
    "divergence_cost",
    {
        "def divergence_cost(kinds, costs, threads):": "def divergence_cost(kinds, costs, threads, known={}):",
        "    return total": "    return known.setdefault((tuple(kinds), threads), total)",
    },
    loses=NO_COST,
    because="an answer is kept by what the warps hold, and costs are thought never to change",
    breaks="the number of instructions that a warp issues for the branch of each kind",
)

blocks_of_less_than_a_warp_together = edited(
    "divergence_cost",
    {"    total = 0": "    threads = max(threads, 32)\n    total = 0"},
    loses=("blocks",),
    because="a block of less than a warp is thought to share its warp with the next",
    breaks="threads in a block, 1 to 1024",
)

blocks_rounded_to_warps = edited(
    "divergence_cost",
    {"    total = 0": "    threads = -(-threads // 32) * 32\n    total = 0"},
    loses=("blocks",),
    because="a block is thought to be filled up to a whole warp by objects",
    breaks="threads in a block, 1 to 1024",
)

last_warp_dropped_in_each_block = edited(
    "divergence_cost",
    {"range(block, end, 32)": "range(block, block + threads // 32 * 32, 32)"},
    loses=("blocks",),
    because="the warps of a block are counted by division, its rest forgotten",
    breaks="the number of instructions that all warps of all blocks issue",
)

padded_with_kind_0 = edited(
    "divergence_cost",
    {"    total = 0": "    kinds = kinds + [0] * (-len(kinds) % threads)\n    total = 0"},
    loses=("uniform", "mixed", "blocks", "tail"),
    because="threads without an object are thought to take the first branch",
    breaks="Threads without an object take no branch",
)

padded_to_warps_with_the_last = edited(
    "divergence_cost",
    {"    total = 0": "    kinds += [kinds[-1]] * (-len(kinds) % 32)\n    total = 0"},
    loses=("blocks", "tail"),
    because="the list is made longer where it lies",
    breaks="both lists stay as they are",
)

as_a_float = edited(
    "divergence_cost",
    {"return total": "return total / 1"},
    loses=("uniform", "mixed", "blocks", "tail"),
    because="a number is taken for a number",
    breaks="an `int`",
)


kept_by_the_list = edited(
    "divergence_cost",
    {
        "    total = 0\n": "    if (id(kinds), threads) in KNOWN:\n        return KNOWN[id(kinds), threads]\n    total = 0\n",
        "    return total": "    KNOWN[id(kinds), threads] = total\n    HELD.append(kinds)\n    return total",
        "def divergence_cost(": "KNOWN, HELD = {}, []\n\n\ndef divergence_cost(",
    },
    loses=NO_COST,
    because="a list is thought to hold the same for ever",
    breaks="returns the number of instructions that all warps of all blocks issue in the branches",
)

summed_in_floats = edited(
    "divergence_cost",
    {"    total = 0\n": "    total = 0.0\n", "    return total": "    return int(total)"},
    loses=("mixed",),
    because="a sum that is made an int in the end is thought to be exact",
    breaks="returns the number of instructions that all warps of all blocks issue in the branches, an `int`",
)


@mistake(
    "divergence_cost",
    loses=("blocks",),
    because="the list is thought to be short",
    breaks="the launch has the smallest number of blocks that covers all objects",
)
def a_call_for_each_block(kinds, costs, threads):
    def from_block(at):
        if at >= len(kinds):
            return 0
        end = min(at + threads, len(kinds))
        warps = [kinds[warp : min(warp + 32, end)] for warp in range(at, end, 32)]
        return sum(costs[kind] for warp in warps for kind in set(warp)) + from_block(end)

    return from_block(0)


@mistake("divergence_cost", loses=NO_COST, because="NumPy is taken for plain Python", breaks="it is graded where PyTorch, NumPy, Numba and gpulab cannot be imported")
def with_numpys_unique(kinds, costs, threads):
    import numpy as np

    total = 0
    for block in range(0, len(kinds), threads):
        here = kinds[block : block + threads]
        for warp in range(0, len(here), 32):
            total += sum(costs[int(kind)] for kind in np.unique(here[warp : warp + 32]))
    return total


@mistake("divergence_cost", loses=NO_COST, because="what can be counted is not predicted", breaks="you write it in plain Python")
def costs_from_a_tensor(kinds, costs, threads):
    import torch

    return int(sum(torch.tensor(costs)[list(set(kinds[at : at + 32]))].sum() for at in range(0, len(kinds), 32)))


@alternative("divergence_cost")
def with_a_helper_class(kinds, costs, threads):
    class Warp:
        def __init__(self):
            self.held = {}

        def add(self, kind):
            self.held[kind] = costs[kind]

    from collections import defaultdict

    warps = defaultdict(Warp)
    for thread, kind in enumerate(kinds):
        block, lane = divmod(thread, threads)
        warps[block, lane >> 5].add(kind)
    return sum(sum(warp.held.values()) for warp in warps.values())


@alternative("divergence_cost")
def one_kind_after_the_other(kinds, costs, threads):
    """For each kind the warps that hold it."""

    def warps_with(wanted):
        return len({(t // threads, t % threads // 32) for t in range(len(kinds)) if kinds[t] == wanted})

    return sum(cost * warps_with(kind) for kind, cost in enumerate(costs))


@alternative("divergence_cost")
def by_recursion(kinds, costs, threads):
    """Block after block cut off from the front."""
    import itertools

    left, total = iter(kinds), 0
    while block := list(itertools.islice(left, threads)):
        while block:
            warp, block = block[:32], block[32:]
            for kind in sorted(set(warp)):
                total = total + costs[kind]
    return total


@alternative("divergence_cost")
def warps_by_name(kinds, costs, threads):
    """Pairs of a warp and a kind, each once."""
    issued = {(thread // threads, thread % threads // 32, kind) for thread, kind in enumerate(kinds)}
    return sum(costs[kind] for _, _, kind in issued)


# E3.4 regroup -----------------------------------------------------------------------------

left_as_it_is = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "list(range(len(kinds)))"},
    loses=("splits", "sectors"),
    because="divergence is thought to be the compiler's business",
    breaks="warps rarely diverge",
)

grouped_in_reach = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "sorted(range(len(kinds)), key=lambda j: (j // 64, kinds[j]))"},
    loses=("splits", "sectors"),
    because="gathering is held to be so dear that groups stay small: the borders between them are many",
    breaks="the counter of divergent branches is at most the number of kinds that occur minus one, over the whole launch",
)

kinds_taken_in_turn = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: (kinds[:j].count(kinds[j]), kinds[j])"},
    loses=("splits", "sectors"),
    because="kinds are dealt out evenly, as for threads that were independent",
    breaks="warps rarely diverge",
)

scattered_within_a_kind = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: (kinds[j], j * 97 % len(kinds))"},
    loses=("sectors",),
    because="the order within a kind is thought not to matter: the gather is left out of the bill",
    breaks="the objects of one kind come in ascending order: adjacent lanes then share sectors",
)

an_order_of_kinds = edited(
    "regroup",
    {"sorted(range(len(kinds)), key=lambda j: kinds[j])": "sorted(kinds)"},
    loses=("order", "splits", "sectors"),
    because="the sorted kinds are taken for the order that sorts them",
    breaks="each number from 0 to `len(kinds) - 1` once",
)

sorts_in_place = edited(
    "regroup",
    {"    return sorted(": "    kinds.sort()\n    return sorted("},
    loses=("order", "splits", "sectors"),
    because="the caller's list is taken for one's own",
    breaks="the input list stays as it is",
)


@mistake("regroup", loses=("order", "splits", "sectors"), because="where an object goes is taken for which object comes", breaks="returns the order as a list")
def ranks_as_tensors(kinds):
    import torch

    return torch.tensor(kinds).argsort().argsort()


SORTED = "sorted(range(len(kinds)), key=lambda j: kinds[j])"

from_the_last_backwards = edited(
    "regroup",
    {SORTED: SORTED + "[::-1]"},
    loses=("sectors",),
    because="a list that is turned round is thought to be the same list",
    breaks="in ascending order",
)

buckets_of_the_example = edited(
    "regroup",
    {SORTED: "[j for kind in (0, 1, 2) for j in range(len(kinds)) if kinds[j] == kind]"},
    loses=("order", "splits", "sectors"),
    because="the kinds of the example are taken for all that there are",
    breaks="`kinds`: a list with the kind of each object, integers from 0",
)

no_kind_missing = edited(
    "regroup",
    {SORTED: "[j for kind in range(len(set(kinds))) for j in range(len(kinds)) if kinds[j] == kind]"},
    loses=("order", "splits", "sectors"),
    because="the kinds that occur are thought to be the first ones",
    breaks="any of which may be missing",
)

two_kinds_apart = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: kinds[j] > 0"},
    loses=("splits", "sectors"),
    because="one kind is set apart, and the rest is thought to be one",
    breaks="at most the number of kinds that occur minus one",
)

warps_of_one_kind_first = edited(
    "regroup",
    {SORTED: "sorted(range(len(kinds)), key=lambda j: (len(set(kinds[j // 32 * 32 : j // 32 * 32 + 32])) > 1, kinds[j]))"},
    loses=("sectors",),
    because="warps that are of one kind already are thought to be done with",
    breaks="the objects of one kind come in ascending order",
)

grouped_by_the_largest_block = edited(
    "regroup",
    {SORTED: "sorted(range(len(kinds)), key=lambda j: (j // 1024, kinds[j]))"},
    loses=("splits", "sectors"),
    because="objects are thought to have to stay in their block",
    breaks="over the whole launch",
)

one_between_halves_of_the_other = edited(
    "regroup",
    {
        SORTED: "sorted(range(len(kinds)), key=lambda j: kinds[j]) if len(set(kinds)) != 2 else "
        "(lambda a, b: a[: len(a) // 2] + b + a[len(a) // 2 :])(*([j for j in range(len(kinds)) if kinds[j] == kind] for kind in set(kinds)))"
    },
    loses=("splits", "sectors"),
    because="one border more is thought to make no difference",
    breaks="at most the number of kinds that occur minus one",
)

whole_warps_alone = edited(
    "regroup",
    {SORTED: "sorted(range(len(kinds) // 64 * 64), key=lambda j: kinds[j])"},
    loses=("order", "splits", "sectors"),
    because="the length is taken for a multiple of the block",
    breaks="its length is a multiple of 32, at least 32",
)


@mistake(
    "regroup",
    loses=("order", "splits", "sectors"),
    because="NumPy's integers are taken for Python's",
    breaks="a list of Python `int`",
)
def a_list_of_numpys(kinds):
    import numpy as np

    return list(np.argsort(kinds, kind="stable"))


@mistake("regroup", loses=("order", "splits", "sectors"), because="objects are taken as long as there are any, and they are gone", breaks="the input list stays as it is")
def taken_out_one_by_one(kinds):
    numbered = sorted((kind, j) for j, kind in enumerate(kinds))
    kinds.clear()
    return [j for _, j in numbered]


@mistake("regroup", loses=("order", "splits", "sectors"), because="a tuple is taken for a list", breaks="returns the order as a list")
def as_a_tuple(kinds):
    return tuple(sorted(range(len(kinds)), key=kinds.__getitem__))


kept_by_the_list_of_kinds = edited(
    "regroup",
    {
        "    return " + SORTED: "    HELD.append(kinds)\n    return KNOWN.setdefault(id(kinds), " + SORTED + ")",
        "def regroup(": "KNOWN, HELD = {}, []\n\n\ndef regroup(",
    },
    loses=("splits", "sectors"),
    because="a list is thought to hold the same for ever",
    breaks="warps rarely diverge",
)

a_table_of_buckets = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: kinds[j] % 1024"},
    loses=("splits", "sectors"),
    because="kinds are thought to be fewer than the table is long",
    breaks="integers from 0 to 99,999",
)

few_of_a_kind_together = edited(
    "regroup",
    {"key=lambda j: kinds[j]": "key=lambda j: kinds[j] if kinds.count(kinds[j]) >= 32 else 100_000"},
    loses=("splits", "sectors"),
    because="a kind that fills no warp is thought to be not worth a group",
    breaks="at most the number of kinds that occur minus one",
)


@mistake(
    "regroup",
    loses=("order", "splits", "sectors"),
    because="kinds are thought to be few",
    breaks="`kinds`: a list with the kind of each object",
)
def a_call_for_each_kind(kinds):
    def grouped(left):
        if not left:
            return []
        kind = kinds[left[0]]
        return [j for j in left if kinds[j] == kind] + grouped([j for j in left if kinds[j] != kind])

    return grouped(list(range(len(kinds))))


@alternative("regroup")
def by_torchs_stable_sort(kinds):
    import torch

    return torch.tensor(kinds).sort(stable=True).indices.tolist()


@alternative("regroup")
def by_counting(kinds):
    """Counting sort: where each kind begins, then every object to its place."""
    counts = [0] * (max(kinds) + 2)
    for kind in kinds:
        counts[kind + 1] += 1
    for kind in range(1, len(counts)):
        counts[kind] += counts[kind - 1]
    order = [0] * len(kinds)
    for j, kind in enumerate(kinds):
        order[counts[kind]] = j
        counts[kind] += 1
    return order


@alternative("regroup")
def by_numpys_and_the_largest_kind_first(kinds):
    import numpy as np

    return np.argsort([-kind for kind in kinds], kind="stable").tolist()


@alternative("regroup")
def by_buckets(kinds):
    """The kinds in descending order, each bucket as it fills."""
    buckets = {}
    for j, kind in enumerate(kinds):
        buckets.setdefault(kind, []).append(j)
    return [j for kind in sorted(buckets, reverse=True) for j in buckets[kind]]


# E3.5 occupancy ---------------------------------------------------------------------------

NO_BLOCKS = ("warps", "blocks", "registers", "shared", "misfits")

threads_only = edited(
    "occupancy",
    {"return min(by_warps, sm.max_blocks, by_registers, by_shared)": "return 32 * sm.max_warps // threads"},
    loses=NO_BLOCKS,
    because="threads are thought to be all that a multiprocessor runs out of",
    breaks="registers: a warp takes 32 times the registers of a thread",
)

a_lane_for_a_thread = edited(
    "occupancy",
    {"by_warps = sm.max_warps // warps": "by_warps = 128 // threads"},
    loses=NO_BLOCKS,
    because="a thread is thought to need one of the multiprocessor's 128 cores for itself",
    breaks="warps: at most `sm.max_warps` on the multiprocessor",
)

parts_of_warps = edited(
    "occupancy",
    {"by_warps = sm.max_warps // warps": "by_warps = 32 * sm.max_warps // threads"},
    loses=NO_BLOCKS,
    because="a part of a warp is thought to take a part of a place",
    breaks="A block takes whole warps of 32",
)

no_cap_on_blocks = edited(
    "occupancy",
    {"min(by_warps, sm.max_blocks, by_registers, by_shared)": "min(by_warps, by_registers, by_shared)"},
    loses=("blocks",),
    because="small blocks are thought to fill the multiprocessor as well as large ones",
    breaks="blocks: at most `sm.max_blocks`, however small they are",
)

registers_by_thread = edited(
    "occupancy",
    {"by_registers = 4 * (sm.registers // 4 // warp_registers) // warps": "by_registers = sm.registers // (registers * threads)"},
    loses=("registers",),
    because="registers are thought to be given out one by one",
    breaks="registers: a warp takes 32 times the registers of a thread",
)

registers_without_units = edited(
    "occupancy",
    {"round_up(32 * registers, sm.register_unit)": "32 * registers"},
    loses=("registers",),
    because="a warp is thought to take no more registers than it uses",
    breaks="rounded up to a multiple of `sm.register_unit`",
)

registers_in_one_piece = edited(
    "occupancy",
    {"4 * (sm.registers // 4 // warp_registers) // warps": "sm.registers // warp_registers // warps"},
    loses=("registers",),
    because="the register file is taken for one, where each quarter has its own",
    breaks="A multiprocessor has four quarters (partitions), with a quarter of `sm.registers` each; a warp is in one of them. The blocks share four times the number of warps that fit in one quarter",
)

nothing_reserved = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "round_up(shared_bytes, sm.shared_unit)"},
    loses=("shared", "misfits"),
    because="all of the shared memory is thought to be the kernel's",
    breaks="a block takes `shared_bytes` plus `sm.shared_reserved`",
)

shared_without_units = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "shared_bytes + sm.shared_reserved"},
    loses=("shared",),
    because="shared memory is thought to be given out byte by byte",
    breaks="rounded up to a multiple of `sm.shared_unit`, out of `sm.shared_bytes`",
)

at_least_one_block = edited(
    "occupancy",
    {
        "min(by_warps, sm.max_blocks, by_registers, by_shared)": "max(1, min(by_warps, sm.max_blocks, by_registers, by_shared))"
    },
    loses=("misfits",),
    because="a block is thought to run somehow, however large it is",
    breaks="0 where not even one block fits",
)


REFUSES = "ValueError` for `threads` or `registers` out of their range and for negative `shared_bytes"

nothing_fits_before_it_is_checked = edited(
    "occupancy",
    {"    if not 1 <= threads": "    if threads > 32 * sm.max_warps:\n        return 0\n    if not 1 <= threads"},
    loses=("misfits",),
    because="what is too large for the multiprocessor is thought to be merely too large",
    breaks=REFUSES,
)

kept_by_the_multiprocessor = edited(
    "occupancy",
    {
        "def occupancy(": "KNOWN, HELD = {}, []\n\n\ndef occupancy(",
        "    return min(by_warps, sm.max_blocks, by_registers, by_shared)": (
            "    HELD.append(sm)\n"
            "    return KNOWN.setdefault((threads, registers, shared_bytes, id(sm)), min(by_warps, sm.max_blocks, by_registers, by_shared))"
        ),
    },
    loses=NO_BLOCKS,
    because="an object is thought to hold the same for ever",
    breaks="`sm`: an object with the attributes above, whose values may differ from those above",
)

@mistake("occupancy", loses=NO_BLOCKS, because="larger blocks are thought always to be better: the largest is counted", breaks="`threads`: threads per block, 1 to 1024")
def as_if_the_block_were_large(threads, registers, shared_bytes, sm):
    if not 1 <= threads <= 1024 or not 1 <= registers <= 255 or shared_bytes < 0:
        raise ValueError("no such block")
    return max(1, sm.max_warps // 32)


RANGES = "not 1 <= threads <= 1024 or not 1 <= registers <= 255 or shared_bytes < 0"
SHARED = "sm.shared_bytes // taken if taken else sm.max_blocks"

nothing_refused = edited(
    "occupancy", {RANGES: "threads < 1 or registers < 1"}, loses=("misfits",),
    because="what does not fit is thought to be told by 0", breaks=REFUSES,
)

negative_memory_allowed = edited(
    "occupancy", {" or shared_bytes < 0": ""}, loses=("misfits",),
    because="a size is thought never to be negative", breaks=REFUSES,
)

no_memory_refused = edited(
    "occupancy", {"shared_bytes < 0": "shared_bytes <= 0"}, loses=NO_BLOCKS,
    because="every block is thought to take shared memory", breaks="`shared_bytes`: shared memory per block, 0 or more",
)

the_largest_refused = edited(
    "occupancy", {"threads <= 1024": "threads < 1024"}, loses=NO_BLOCKS,
    because="the end of a range is thought to lie outside it", breaks="`threads`: threads per block, 1 to 1024",
)

all_registers_refused = edited(
    "occupancy", {"registers <= 255": "registers < 255"}, loses=("registers",),
    because="the end of a range is thought to lie outside it", breaks="`registers`: registers per thread, 1 to 255",
)

another_error = edited(
    "occupancy", {"raise ValueError(": "raise AssertionError("}, loses=("misfits",),
    because="any exception is thought to do", breaks=REFUSES,
)

zero_for_nonsense = edited(
    "occupancy", {"        raise ValueError(f\"no block has {threads} threads, {registers} registers each, {shared_bytes} bytes\")": "        return 0"},
    loses=("misfits",), because="what makes no sense is thought to be what does not fit", breaks=REFUSES,
)

misfits_refused = edited(
    "occupancy",
    {"    return min(by_warps": "    if not min(by_warps, by_registers, by_shared):\n        raise ValueError('too large')\n    return min(by_warps"},
    loses=("misfits",), because="a block that does not fit is thought to make no sense", breaks="0 where not even one block fits",
)

something_always_taken = edited(
    "occupancy", {SHARED: "sm.shared_bytes // taken"}, loses=("shared",),
    because="the system's share is thought never to be nothing", breaks="values may differ from those above",
)

registers_of_every_card = edited(
    "occupancy", {"sm.registers // 4 //": "65536 // 4 //"}, loses=("registers",),
    because="what all four cards have alike is taken for a constant", breaks="values may differ from those above",
)

unit_of_every_card = edited(
    "occupancy", {"sm.register_unit)": "256)"}, loses=("registers",),
    because="what all four cards have alike is taken for a constant", breaks="rounded up to a multiple of `sm.register_unit`",
)

a_float_of_blocks = edited(
    "occupancy", {"return min(by_warps, sm.max_blocks, by_registers, by_shared)": "return min(by_warps, sm.max_blocks, by_registers, by_shared) / 1"},
    loses=NO_BLOCKS, because="a number is taken for a number", breaks="an `int`",
)

the_share_apart = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "round_up(shared_bytes, sm.shared_unit) + sm.shared_reserved"},
    loses=("shared",), because="the system's share is thought not to be rounded with the block's",
    breaks="a block takes `shared_bytes` plus `sm.shared_reserved`, the sum rounded up",
)

reserved_once = edited(
    "occupancy",
    {"round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "round_up(shared_bytes, sm.shared_unit)", SHARED: "(sm.shared_bytes - sm.shared_reserved) // taken if taken else sm.max_blocks"},
    loses=("shared",), because="the system's share is thought to be taken once, not by each block",
    breaks="a block takes `shared_bytes` plus `sm.shared_reserved`",
)

nothing_reserved_for_nothing = edited(
    "occupancy",
    {"taken = round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)": "taken = shared_bytes and round_up(shared_bytes + sm.shared_reserved, sm.shared_unit)"},
    loses=("shared",), because="a block without shared memory is thought to take none for the system either",
    breaks="a block takes `shared_bytes` plus `sm.shared_reserved`",
)

kept_for_cards_alike = edited(
    "occupancy",
    {
        "def occupancy(threads, registers, shared_bytes, sm):": "def occupancy(threads, registers, shared_bytes, sm, known={}):",
        "return min(by_warps, sm.max_blocks, by_registers, by_shared)": "return known.setdefault((threads, registers, shared_bytes, sm.max_warps, sm.max_blocks), min(by_warps, sm.max_blocks, by_registers, by_shared))",
    },
    loses=("registers", "shared"), because="cards of as many warps and blocks are taken for one card",
    breaks="values may differ from those above",
)

a_unit_more = edited(
    "occupancy", {"-(-value // unit) * unit": "(value // unit + 1) * unit"}, loses=NO_BLOCKS,
    because="rounding up is taken for adding one", breaks="rounded up to a multiple of `sm.register_unit`",
)

a_block_in_one_quarter = edited(
    "occupancy", {"4 * (sm.registers // 4 // warp_registers) // warps": "4 * (sm.registers // 4 // (warp_registers * warps))"},
    loses=NO_BLOCKS, because="a block is thought to live in one quarter, where a warp does",
    breaks="a warp is in one of them. The blocks share four times the number of warps that fit in one quarter",
)


@mistake("occupancy", loses=NO_BLOCKS, because="NumPy is taken for plain Python", breaks="you write it in plain Python: it is graded where PyTorch, NumPy, Numba and gpulab cannot be imported")
def least_by_numpy(threads, registers, shared_bytes, sm):
    import numpy as np

    if not 1 <= threads <= 1024 or not 1 <= registers <= 255 or shared_bytes < 0:
        raise ValueError("no such block")
    warps = -(-threads // 32)
    quarter = sm.registers // 4 // (-(-32 * registers // sm.register_unit) * sm.register_unit)
    taken = -(-(shared_bytes + sm.shared_reserved) // sm.shared_unit) * sm.shared_unit
    return int(np.min([sm.max_warps // warps, sm.max_blocks, 4 * quarter // warps, sm.shared_bytes // max(1, taken)]))


@alternative("occupancy")
def with_an_error_of_its_own(threads, registers, shared_bytes, sm):
    """A subclass of ValueError, ceil of exact quotients, limits in a list."""
    from math import ceil

    class NoSuchBlock(ValueError):
        pass

    for value, least, most in ((threads, 1, 1024), (registers, 1, 255), (shared_bytes, 0, float("inf"))):
        if value < least or value > most:
            raise NoSuchBlock(value)
    warps = ceil(threads / 32)
    limits = [sm.max_blocks, int(sm.max_warps / warps)]
    limits.append(sm.registers // 4 // (ceil(32 * registers / sm.register_unit) * sm.register_unit) * 4 // warps)
    if taken := ceil((shared_bytes + sm.shared_reserved) / sm.shared_unit) * sm.shared_unit:
        limits.append(sm.shared_bytes // taken)
    return sorted(limits)[0]


@alternative("occupancy")
def by_asking_each_number_of_blocks(threads, registers, shared_bytes, sm):
    """The largest number of blocks for which everything fits."""
    if shared_bytes < 0 or not (0 < threads < 1025 and 0 < registers < 256):
        raise ValueError
    warps, units = (threads + 31) // 32, (32 * registers + sm.register_unit - 1) // sm.register_unit

    def fits(blocks):
        places = 4 * (sm.registers // 4 // (units * sm.register_unit))
        taken = (shared_bytes + sm.shared_reserved + sm.shared_unit - 1) // sm.shared_unit * sm.shared_unit
        return blocks * warps <= min(places, sm.max_warps) and blocks * taken <= sm.shared_bytes

    return max(blocks for blocks in range(sm.max_blocks + 1) if fits(blocks))


@alternative("occupancy")
def each_limit_a_function(threads, registers, shared_bytes, sm):
    if threads <= 0 or threads > 1024:
        raise ValueError("threads")
    if registers <= 0 or registers > 255:
        raise ValueError("registers")
    if shared_bytes <= -1:
        raise ValueError("shared_bytes")
    warps = threads // 32 + (threads % 32 != 0)

    def rounded(value, unit):
        return value + (unit - value % unit) % unit

    def by_shared():
        taken = rounded(shared_bytes + sm.shared_reserved, sm.shared_unit)
        return sm.max_blocks if taken == 0 else int(sm.shared_bytes // taken)

    of_a_quarter = (sm.registers // 4) // rounded(registers * 32, sm.register_unit)
    return min([by_shared(), of_a_quarter * 4 // warps, sm.max_warps // warps, sm.max_blocks])


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
