"""Chapter "The memory hierarchy": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, mistake
from gpulab.kernels import cuda, float32

TILE = 16

# E4.1 sectors -----------------------------------------------------------------------------

NO_SECTORS = ("neighbours", "strides", "misaligned", "shared", "errors")

counts_addresses = edited(
    "sectors",
    {"{address // 32 for address in addresses}": "set(addresses)"},
    loses=NO_SECTORS,
    because="every lane is thought to be a transaction of its own",
)

counts_lines_of_128_bytes = edited(
    "sectors",
    {"{address // 32 for": "{address // 128 for"},
    loses=NO_SECTORS,
    because="a cache line is taken for what moves; it moves a sector at a time",
)

counts_the_bytes_asked_for = edited(
    "sectors",
    {"len({address // 32 for address in addresses})": "-(-len(addresses) * item_bytes // 32)"},
    loses=("strides", "misaligned", "shared"),
    because="only what is asked for is thought to move",
)

begins_at_the_first_lane = edited(
    "sectors",
    {"{address // 32 for": "{(address - min(addresses)) // 32 for"},
    loses=("misaligned",),
    because="sectors are thought to begin where the warp begins",
)

all_that_lies_between = edited(
    "sectors",
    {"len({address // 32 for address in addresses})": "(max(addresses) // 32 - min(addresses) // 32 + 1) if addresses else 0"},
    loses=("strides", "shared"),
    because="a request is thought to move one piece of memory from its first byte to its last",
)

compares_neighbours = edited(
    "sectors",
    {
        "len({address // 32 for address in addresses})": (
            "sum(i == 0 or address // 32 != addresses[i - 1] // 32 for i, address in enumerate(addresses))"
        )
    },
    loses=("shared",),
    because="lanes are thought to come in the order of their addresses",
)

always_a_whole_warp = edited(
    "sectors",
    {"address in addresses})": "address in addresses}) or 1"},
    loses=("shared",),
    because="a warp without an active lane is thought to ask for something",
)

reads_what_no_gpu_reads = edited(
    "sectors",
    {"address < 0 or address % item_bytes": "address < 0"},
    loses=("errors",),
    because="an address is thought to be free",
)


@alternative("sectors")
def marks_a_map(addresses, item_bytes):
    if len(addresses) > 32:
        raise ValueError("a warp has 32 lanes")
    if item_bytes not in {1, 2, 4, 8, 16}:
        raise ValueError("no lane reads that much")
    touched = 0
    base = min(addresses, default=0) // 32
    for address in addresses:
        if address < 0 or address & (item_bytes - 1):
            raise ValueError("misaligned address")
        touched |= 1 << (address // 32 - base)
    return touched.bit_count()


# E4.1 row_sums ----------------------------------------------------------------------------

NO_SUMS = ("values", "moved", "once", "safe", "odd")


@mistake("row_sums", loses=("moved", "odd"), because="a thread is thought to be served alone, and not with its warp")
def a_thread_for_each_row(x):
    @cuda.jit
    def kernel(x, out):
        row = cuda.grid(1)
        if row < x.shape[0]:
            total = float32(0)
            for column in range(x.shape[1]):
                total += x[row, column]
            out[row] = total

    out = torch.empty(len(x), device="cuda")
    kernel[-(-len(x) // 128), 128](x, out)
    return out


@mistake("row_sums", loses=NO_SUMS, because="the library is called where a kernel is asked for")
def torch_does_it(x):
    return x.sum(1)


@mistake("row_sums", loses=NO_SUMS, because="memory is put in order by a copy that costs more than it saves")
def transposes_first(x):
    @cuda.jit
    def kernel(x, out):
        row = cuda.grid(1)
        if row < x.shape[1]:
            total = float32(0)
            for column in range(x.shape[0]):
                total += x[column, row]
            out[row] = total

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[-(-len(x) // 128), 128](x.t().contiguous(), out)
    return out


a_lane_reads_its_own_piece = edited(
    "row_sums",
    {
        "range(lane, x.shape[1], 32)": (
            "range(lane * ((x.shape[1] + 31) // 32), min(x.shape[1], (lane + 1) * ((x.shape[1] + 31) // 32)))"
        )
    },
    loses=("moved",),
    because="what suits a CPU's cache, a piece of the row for each worker, is thought to suit a warp",
)

looks_twice = edited(
    "row_sums",
    {
        "            total += x[row, column]\n": (
            "            if x[row, column] != 0:\n                total += x[row, column]\n"
        )
    },
    loses=("once",),
    because="a second look at an element is thought to be free",
)

whole_warps_only = edited(
    "row_sums",
    {"range(lane, x.shape[1], 32)": "range(lane, x.shape[1] // 32 * 32, 32)"},
    loses=("odd",),
    because="rows are thought to be multiples of a warp",
)

as_many_lanes_as_columns = edited(
    "row_sums",
    {
        "range(lane, x.shape[1], 32)": "range(lane, min(x.shape[1], 256), 32)",
    },
    loses=("odd",),
    because="rows are thought to be no longer than those that one has tried",
)

whole_blocks_only = edited(
    "row_sums",
    {"-(-rows // 4)": "(rows // 4)"},
    loses=("odd",),
    because="the grid is rounded down",
)

launches_on_nothing = edited(
    "row_sums",
    {"    if rows:\n        a_warp": "    a_warp"},
    loses=("odd",),
    because="a grid of no blocks is thought to be a launch that does nothing",
)

keeps_what_one_lane_found = edited(
    "row_sums",
    {
        "        distance = 16\n"
        "        while distance > 0:\n"
        "            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)\n"
        "            distance //= 2\n": ""
    },
    loses=NO_SUMS,
    because="lanes of a warp are thought to share their variables",
)

adds_without_an_atomic = edited(
    "row_sums",
    {
        "torch.empty(rows, device=x.device)": "torch.zeros(rows, device=x.device)",
        "        if lane == 0:\n            out[row] = total": "        out[row] += total",
        "        distance = 16\n"
        "        while distance > 0:\n"
        "            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)\n"
        "            distance //= 2\n": "",
    },
    loses=NO_SUMS,
    because="+= is thought to be one step; it is a load, an addition and a store",
)


@mistake("row_sums", loses=("once",), because="what an atomic operation costs is thought to cover a second look")
def looks_twice_and_adds_in_shared_memory(x):
    @cuda.jit
    def kernel(x, out):
        total = cuda.shared.array(1, float32)
        row = cuda.blockIdx.x
        if cuda.threadIdx.x == 0:
            total[0] = 0
        cuda.syncthreads()
        for column in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
            if x[row, column] != 0:
                cuda.atomic.add(total, 0, x[row, column])
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            out[row] = total[0]

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[len(x), 64](x, out)
    return out


@mistake("row_sums", loses=("safe",), because="a store is thought to be seen by the other warps at once, in order")
def overwrites_what_others_read(x):
    @cuda.jit
    def kernel(x, out):
        parts = cuda.shared.array(64, float32)
        lane, row = cuda.threadIdx.x, cuda.blockIdx.x
        total = float32(0)
        for column in range(lane, x.shape[1], 64):
            total += x[row, column]
        parts[lane] = total
        cuda.syncthreads()
        if lane < 32:
            parts[lane] += parts[lane + 32]
        distance = 16
        while distance > 0:
            # Within a warp, too, a word of another lane needs a syncwarp.
            if lane < distance:
                parts[lane] += parts[lane + distance]
            distance //= 2
        if lane == 0:
            out[row] = parts[0]

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[len(x), 64](x, out)
    return out


@alternative("row_sums")
def a_block_a_row_through_shared_memory(x):
    @cuda.jit
    def kernel(x, out):
        parts = cuda.shared.array(64, float32)
        lane, row = cuda.threadIdx.x, cuda.blockIdx.x
        total = float32(0)
        for column in range(lane, x.shape[1], cuda.blockDim.x):
            total += x[row, column]
        parts[lane] = total
        cuda.syncthreads()
        distance = 32
        while distance > 0:
            if lane < distance:
                parts[lane] += parts[lane + distance]
            cuda.syncthreads()
            distance //= 2
        if lane == 0:
            out[row] = parts[0]

    out = torch.empty(x.shape[0], device="cuda")
    if x.shape[0] > 0:
        kernel[x.shape[0], 64](x, out)
    return out


@alternative("row_sums")
def atomics_on_zeros(x):
    @cuda.jit
    def kernel(x, out):
        column = cuda.grid(1)
        row = cuda.blockIdx.y
        if column < x.shape[1]:
            cuda.atomic.add(out, row, x[row, column])

    out = torch.zeros(len(x), device="cuda")
    if x.numel():
        kernel[(-(-x.shape[1] // 64), len(x)), 64](x, out)
    return out


@alternative("row_sums")
def in_two_launches(x):
    """A kernel for parts of rows, and one for their sums: what lies between is read once, too."""

    @cuda.jit
    def add_up(x, out, length):
        lane, row, part = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
        total = float32(0)
        for column in range(part * length + lane, min(x.shape[1], (part + 1) * length), 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)
        if lane == 0:
            out[row, part] = total

    rows, columns = x.shape
    parts = -(-columns // 64)
    between, out = torch.empty(rows, parts, device="cuda"), torch.zeros(rows, 1, device="cuda")
    if x.numel():
        add_up[(rows, parts), 32](x, between, 64)
        add_up[(rows, 1), 32](between, out, parts)
    return out.view(-1)


@alternative("row_sums")
def whole_numbers_as_integers(x):
    from gpulab.kernels import int32

    @cuda.jit
    def kernel(x, out):
        lane, row = cuda.threadIdx.x, cuda.blockIdx.x
        total = int32(0)
        for column in range(lane, x.shape[1], 32):
            total += int32(x[row, column])
        for step in range(5):
            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)
        if lane == 0:
            out[row] = total

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[len(x), 32](x, out)
    return out


# E4.2 tiled_matmul ------------------------------------------------------------------------

ALL_OF_IT = ("values", "traffic", "filled", "reused", "conflicts", "moved", "odd")
NOT_TILED = ("traffic", "filled", "reused", "conflicts")


@mistake("tiled_matmul", loses=NOT_TILED, because="the cache is trusted to make up for loading everything again")
def naive(a, b):
    @cuda.jit
    def kernel(a, b, c):
        column, row = cuda.grid(2)
        if row < c.shape[0] and column < c.shape[1]:
            total = float32(0)
            for i in range(a.shape[1]):
                total += a[row, i] * b[i, column]
            c[row, column] = total

    if a.shape[1] != b.shape[0]:
        raise ValueError("the inner sizes differ")
    c = torch.empty(len(a), b.shape[1], device="cuda")
    if c.numel():
        kernel[(-(-b.shape[1] // 16), -(-len(a) // 16)), (16, 16)](a, b, c)
    return c


@mistake("tiled_matmul", loses=ALL_OF_IT, because="the library is called where a kernel is asked for")
def torch_multiplies(a, b):
    if a.shape[1] != b.shape[0]:
        raise ValueError("the inner sizes differ")
    return a @ b


tiles_of_one_thread = edited(
    "tiled_matmul",
    {
        "    a_tile = cuda.shared.array((TILE, TILE), float32)\n    b_tile = cuda.shared.array((TILE, TILE), float32)\n": (
            "    a_tile = cuda.local.array(TILE, float32)\n    b_tile = cuda.local.array(TILE, float32)\n"
        ),
        "        a_tile[y, x] = a[row, start + x] if row < m and start + x < k else float32(0)\n"
        "        b_tile[y, x] = b[start + y, column] if start + y < k and column < n else float32(0)\n": (
            "        for i in range(TILE):\n"
            "            a_tile[i] = a[row, start + i] if row < m and start + i < k else float32(0)\n"
            "            b_tile[i] = b[start + i, column] if start + i < k and column < n else float32(0)\n"
        ),
        "a_tile[y, i] * b_tile[i, x]": "a_tile[i] * b_tile[i]",
    },
    loses=NOT_TILED,
    because="a tile is loaded by each thread for itself, and shared with nobody",
)

tiles_are_thought_to_be_there = edited(
    "tiled_matmul",
    {"        cuda.syncthreads()  # both tiles are there\n": ""},
    loses=ALL_OF_IT,
    because="threads of a block are thought to run in step",
)

tiles_are_thought_to_be_done_with = edited(
    "tiled_matmul",
    {"        cuda.syncthreads()  # all have read them\n": ""},
    loses=("reused",),
    because="one barrier is thought to do; the next tile is written over the one that is still being read",
)

a_barrier_for_some = edited(
    "tiled_matmul",
    {
        "        cuda.syncthreads()  # both tiles are there\n": (
            "        if row < m and column < n:\n            cuda.syncthreads()  # both tiles are there\n"
        )
    },
    loses=("odd",),
    because="threads outside the matrix are thought to have no part in a barrier",
)

x_down_the_rows = edited(
    "tiled_matmul",
    {"x, y = cuda.threadIdx.x, cuda.threadIdx.y": "y, x = cuda.threadIdx.x, cuda.threadIdx.y"},
    loses=("conflicts", "moved"),
    because="the first index of a thread is taken for the first index of a matrix",
)

a_tile_on_its_side = edited(
    "tiled_matmul",
    {"b_tile[y, x] =": "b_tile[x, y] =", "b_tile[i, x]": "b_tile[x, i]"},
    loses=("conflicts",),
    because="shared memory is thought to be equally fast at any index",
)

adds_up_in_memory = edited(
    "tiled_matmul",
    {
        "torch.empty(m, n, device=a.device)": "torch.zeros(m, n, device=a.device)",
        "            total += a_tile[y, i] * b_tile[i, x]\n": (
            "            total += a_tile[y, i] * b_tile[i, x]\n"
            "        if row < m and column < n:\n"
            "            c[row, column] += total\n"
            "        total = float32(0)\n"
        ),
        "    if row < m and column < n:\n        c[row, column] = total": "",
    },
    loses=NOT_TILED,
    because="the element of the product is kept in global memory while it grows",
)

whole_tiles_only = edited(
    "tiled_matmul",
    {"(-(-n // TILE), -(-m // TILE))": "(n // TILE, m // TILE)"},
    loses=("odd",),
    because="sizes are taken for multiples of the tile",
)

whole_steps_only = edited(
    "tiled_matmul",
    {"range(0, k, TILE)": "range(0, k // TILE * TILE, TILE)"},
    loses=("odd",),
    because="the inner size is taken for a multiple of the tile",
)

reads_past_the_edge = edited(
    "tiled_matmul",
    {" if row < m and start + x < k else float32(0)": "", " if start + y < k and column < n else float32(0)": ""},
    loses=("odd",),
    because="only the store is thought to need a guard",
)

leaves_old_tiles = edited(
    "tiled_matmul",
    {
        "        a_tile[y, x] = a[row, start + x] if row < m and start + x < k else float32(0)\n"
        "        b_tile[y, x] = b[start + y, column] if start + y < k and column < n else float32(0)\n": (
            "        if row < m and start + x < k:\n"
            "            a_tile[y, x] = a[row, start + x]\n"
            "        if start + y < k and column < n:\n"
            "            b_tile[y, x] = b[start + y, column]\n"
        )
    },
    loses=("odd",),
    because="what no thread writes is thought to be zero, and is the tile before",
)


@alternative("tiled_matmul")
def four_elements_a_thread(a, b):
    """Tiles of 32 by 32 and a block of 16 by 16: each thread keeps four sums."""

    @cuda.jit
    def kernel(a, b, c):
        left = cuda.shared.array((32, 33), float32)
        right = cuda.shared.array((32, 33), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        top, first = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
        s00 = s01 = s10 = s11 = float32(0)
        for start in range(0, a.shape[1], 32):
            for number in range(16 * y + x, 1024, 256):
                i, j = number // 32, number % 32
                left[i, j] = a[top + i, start + j] if top + i < a.shape[0] and start + j < a.shape[1] else float32(0)
                right[i, j] = b[start + i, first + j] if start + i < a.shape[1] and first + j < b.shape[1] else float32(0)
            cuda.syncthreads()
            for i in range(32):
                s00 += left[y, i] * right[i, x]
                s01 += left[y, i] * right[i, x + 16]
                s10 += left[y + 16, i] * right[i, x]
                s11 += left[y + 16, i] * right[i, x + 16]
            cuda.syncthreads()
        row, column = top + y, first + x
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = s00
        if row < c.shape[0] and column + 16 < c.shape[1]:
            c[row, column + 16] = s01
        if row + 16 < c.shape[0] and column < c.shape[1]:
            c[row + 16, column] = s10
        if row + 16 < c.shape[0] and column + 16 < c.shape[1]:
            c[row + 16, column + 16] = s11

    if a.shape[1] != b.shape[0]:
        raise ValueError("these do not fit")
    c = torch.empty(len(a), b.shape[1], device="cuda")
    if c.numel():
        kernel[((b.shape[1] + 31) // 32, (len(a) + 31) // 32), (16, 16)](a, b, c)
    return c


@alternative("tiled_matmul")
def two_pairs_of_tiles(a, b):
    """Double buffering: the next tiles are loaded beside the product, and one barrier a step is enough."""

    @cuda.jit
    def kernel(a, b, c):
        tiles = cuda.shared.array((2, 2, 16, 16), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = float32(0)
        steps = (a.shape[1] + 15) // 16
        for step in range(steps + 1):
            if step < steps:
                across, down = 16 * step + x, 16 * step + y
                tiles[step % 2, 0, y, x] = a[row, across] if row < a.shape[0] and across < a.shape[1] else float32(0)
                tiles[step % 2, 1, y, x] = b[down, column] if down < b.shape[0] and column < b.shape[1] else float32(0)
            if step > 0:
                for i in range(16):
                    total += tiles[(step + 1) % 2, 0, y, i] * tiles[(step + 1) % 2, 1, i, x]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    if b.shape[0] != a.shape[1]:
        raise ValueError("these do not fit")
    c = torch.zeros(a.shape[0], b.shape[1], device="cuda")
    if a.numel() and b.numel():
        kernel[(-(-b.shape[1] // 16), -(-len(a) // 16)), (16, 16)](a, b, c)
    return c


@alternative("tiled_matmul")
def a_sum_that_starts_with_the_first_product(a, b):
    """No zeros in the tiles, and an addition fewer for each element."""

    @cuda.jit
    def kernel(a, b, c):
        left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = float32(0)
        for start in range(0, a.shape[1], 16):
            depth = min(16, a.shape[1] - start)
            if row < a.shape[0] and x < depth:
                left[y, x] = a[row, start + x]
            if column < b.shape[1] and y < depth:
                right[y, x] = b[start + y, column]
            cuda.syncthreads()
            if row < c.shape[0] and column < c.shape[1]:
                for i in range(depth):
                    product = left[y, i] * right[i, x]
                    if start + i == 0:
                        total = product
                    else:
                        total += product
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    if a.shape[1] != b.shape[0]:
        raise ValueError("these do not fit")
    c = torch.zeros(len(a), b.shape[1], device="cuda")
    if c.numel():
        kernel[(-(-b.shape[1] // 16), -(-len(a) // 16)), (16, 16)](a, b, c)
    return c


# E4.3 work --------------------------------------------------------------------------------

NO_WORK = ("gemm", "gemv", "layer_norm", "decode_attention", "formats", "errors")

multiply_add_is_one = edited(
    "work",
    {"2 * m * n * k, m": "m * n * k, m", "2 * m * k, m": "m * k, m", "4 * queries": "2 * queries"},
    loses=NO_WORK,
    because="a multiplication and an addition are counted as one, as marketing counts cores",
)

only_what_is_read = edited(
    "work",
    {
        "m * k + k * n + m * n": "m * k + k * n",
        "m * k + k + m": "m * k + k",
        "2 * rows * width + 2 * width": "rows * width + 2 * width",
        "queries + cache + queries": "queries + cache",
    },
    loses=NO_WORK,
    because="a store is thought to cost nothing",
)

only_what_is_written = edited(
    "work",
    {
        "m * k + k * n + m * n": "m * n",
        "m * k + k + m": "m",
        "2 * rows * width + 2 * width": "rows * width",
        "queries + cache + queries": "queries",
    },
    loses=NO_WORK,
    because="only the result is thought to move",
)

forgets_the_vectors = edited(
    "work",
    {"m * k + k + m": "m * k"},
    loses=("gemv",),
    because="what is small is thought to be nothing",
)

a_gamma_for_each_row = edited(
    "work",
    {"2 * rows * width + 2 * width": "4 * rows * width"},
    loses=("layer_norm",),
    because="the scale and the shift are thought to be read again for every row",
)

a_cache_for_every_head = edited(
    "work",
    {"2 * batch * kv_heads": "2 * batch * heads"},
    loses=("decode_attention",),
    because="heads that share keys and values are thought to have their own",
)

keys_without_values = edited(
    "work",
    {"cache = 2 * batch": "cache = batch"},
    loses=("decode_attention",),
    because="only the scores are thought of",
)

attention_of_a_prefill = edited(
    "work",
    {"4 * queries * context,": "4 * queries * context * context,"},
    loses=("decode_attention",),
    because="attention is quadratic in a prompt; a new token is one row of it",
)

tf32_is_small = edited(
    "work",
    {'"tf32": 4': '"tf32": 2'},
    loses=("formats",),
    because="TF32 is a way to multiply, and is thought to be a way to store",
)

counts_bits = edited(
    "work",
    {"elements * item_bytes[dtype]": "8 * elements * item_bytes[dtype]"},
    loses=NO_WORK,
    because="bits are taken for bytes",
)

any_kind_will_do = edited(
    "work",
    {"not in counts or dtype": "in () or dtype"},
    loses=("errors",),
    because="a KeyError is thought to say enough",
)


@alternative("work")
def a_gemv_is_a_thin_gemm(operation, dtype):
    size = {"fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}.get(dtype)
    kind = operation["kind"]
    if size is None:
        raise ValueError(dtype)
    if kind in ("gemm", "gemv"):
        m, k, n = operation["m"], operation["k"], operation.get("n", 1)
        return 2 * m * k * n, (m * (k + n) + k * n) * size // 8
    if kind == "layer_norm":
        x = operation["rows"] * operation["width"]
        return 8 * x, (x + x + operation["width"] + operation["width"]) * size // 8
    if kind == "decode_attention":
        heads = operation["batch"] * operation["heads"]
        shared = operation["batch"] * operation["kv_heads"]
        width, length = operation["head_dim"], operation["context"]
        scores = 2 * heads * width * length
        return scores + scores, 2 * width * (heads + shared * length) * size // 8
    raise ValueError(kind)


# E4.3 roofline ----------------------------------------------------------------------------

NO_ROOF = ("seconds", "dense", "formats", "units", "bound", "errors")

the_sparse_peak = edited(
    "roofline",
    {' / (2 if kind == "with sparsity" else 1)': ""},
    loses=("dense",),
    because="the largest figure of a datasheet is taken for the peak",
)

every_peak_halved = edited(
    "roofline",
    {' / (2 if kind == "with sparsity" else 1)': " / 2"},
    loses=NO_ROOF,
    because="every figure is thought to be one with sparsity",
)

the_peak_of_fp32 = edited(
    "roofline",
    {'card["peaks"][dtype]\n': 'card["peaks"]["fp32"]\n'},
    loses=("formats",),
    because="a card is thought to have one peak",
)

binary_prefixes = edited(
    "roofline",
    {'"GB/s": 1e9, "TB/s": 1e12': '"GB/s": 2**30, "TB/s": 2**40'},
    loses=NO_ROOF,
    because="a gigabyte of a datasheet is taken for a gibibyte",
)

everything_is_tera = edited(
    "roofline",
    {'"PFLOPS": 1e15': '"PFLOPS": 1e12'},
    loses=("units",),
    because="the letter before FLOPS is not read",
)

one_after_the_other = edited(
    "roofline",
    {"max(arithmetic, traffic)": "arithmetic + traffic"},
    loses=NO_ROOF,
    because="arithmetic is thought to wait for the memory; with enough warps they overlap",
)

the_shorter_one = edited(
    "roofline",
    {"max(arithmetic, traffic)": "min(arithmetic, traffic)"},
    loses=NO_ROOF,
    because="the roof is taken for the higher of the two",
)

the_other_bound = edited(
    "roofline",
    {'"compute" if arithmetic >= traffic else "memory"': '"memory" if arithmetic >= traffic else "compute"'},
    loses=("bound",),
    because="what takes longer is thought to be what there is enough of",
)

memory_where_they_tie = edited(
    "roofline",
    {"arithmetic >= traffic": "arithmetic > traffic"},
    loses=("bound",),
    because="at the ridge itself the kernel is thought to wait for memory still",
)

no_work_without_both = edited(
    "roofline",
    {"min(flops, nbytes) < 0 or flops == nbytes == 0": "min(flops, nbytes) <= 0"},
    loses=("bound",),
    because="a copy, which has no arithmetic, is thought to be no work",
)

ridge_upside_down = edited(
    "roofline",
    {"peak / bandwidth": "bandwidth / peak"},
    loses=("bound",),
    because="bytes an operation are taken for operations a byte",
)

falls_back_to_fp32 = edited(
    "roofline",
    {"    if dtype not in card": '    if dtype not in card["peaks"]:\n        dtype = "fp32"\n    if dtype not in card'},
    loses=("errors",),
    because="a card without a unit for a format is thought to run it anyway, and the question to have an answer",
)


@alternative("roofline")
def attainable_performance(flops, nbytes, card, dtype):
    """Through the roof itself: the rate that is attainable at this intensity."""
    try:
        peak, prefix, kind = card["peaks"][dtype]
    except KeyError:
        raise ValueError(dtype) from None
    if flops < 0 or nbytes < 0 or flops + nbytes == 0:
        raise ValueError("count again")
    peak *= 10 ** (12 if prefix[0] == "T" else 15)
    if kind != "dense":
        peak /= 2
    memory, prefix = card["memory"]
    memory *= 10 ** (9 if prefix.startswith("G") else 12)
    ridge = peak / memory
    compute = nbytes == 0 or flops / nbytes >= ridge
    return {
        "bound": "compute" if compute else "memory",
        "ridge": ridge,
        "seconds": flops / peak if compute else nbytes / memory,
    }
