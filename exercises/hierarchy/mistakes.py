"""Chapter "The memory hierarchy": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable
from gpulab.kernels import cuda, float32

TILE = 16

# E4.1 sectors -----------------------------------------------------------------------------

NO_SECTORS = ("neighbours", "strides", "misaligned", "shared", "errors")
COUNTED = "{address // 32 for address in addresses}"
DIFFERENT = "returns the number of different 32-byte sectors that move"
MISALIGNED = "an address that is not a multiple of `item_bytes`"

unbreakable_of_sectors = [
    unbreakable("sectors", "a GPU raises *misaligned address* there", "why the error is due"),
]

counts_addresses = edited(
    "sectors",
    {COUNTED: "set(addresses)"},
    loses=NO_SECTORS,
    because="every lane is thought to be a transaction of its own",
    breaks=DIFFERENT,
)

counts_lanes = edited(
    "sectors",
    {f"len({COUNTED})": "len(addresses)"},
    loses=NO_SECTORS,
    because="a warp is thought to move as many sectors as it has lanes",
    breaks=DIFFERENT,
)

counts_lines_of_128_bytes = edited(
    "sectors",
    {"{address // 32 for": "{address // 128 for"},
    loses=NO_SECTORS,
    because="a cache line is taken for what moves; it moves a sector at a time",
    breaks="32-byte sectors",
)

sectors_of_eight_items = edited(
    "sectors",
    {"{address // 32 for": "{address // (8 * item_bytes) for"},
    loses=NO_SECTORS,
    because="a sector is thought to hold eight items; it holds 32 bytes",
    breaks="32-byte sectors",
)

every_item_is_a_float = edited(
    "sectors",
    {f"len({COUNTED})": "-(-len(set(addresses)) // 8)"},
    loses=NO_SECTORS,
    because="eight floats fill a sector; items of other sizes are forgotten",
    breaks="`item_bytes`: the number of bytes that each lane reads, starting at its address",
)

counts_the_bytes_asked_for = edited(
    "sectors",
    {f"len({COUNTED})": "-(-len(addresses) * item_bytes // 32)"},
    loses=("strides", "misaligned", "shared"),
    because="only what is asked for is thought to move",
    breaks="sectors that move",
)

one_stride_for_all = edited(
    "sectors",
    {
        f"return len({COUNTED})": (
            "stride = abs(addresses[1] - addresses[0]) if len(addresses) > 1 else item_bytes\n"
            "    first = min(addresses, default=0)\n"
            "    return len({(first + lane * stride) // 32 for lane in range(len(addresses))})"
        )
    },
    loses=("shared",),
    because="what the first two lanes do is thought to go on",
    breaks="any order",
)

begins_at_the_first_lane = edited(
    "sectors",
    {"{address // 32 for": "{(address - min(addresses)) // 32 for"},
    loses=("misaligned",),
    because="sectors are thought to begin where the warp begins",
    breaks="the byte address that each",
)

touches_the_byte_after = edited(
    "sectors",
    {COUNTED: "{at // 32 for address in addresses for at in (address, address + item_bytes)}"},
    loses=NO_SECTORS,
    because="the end of an item is taken for its last byte",
    breaks="starting at its address",
)

all_that_lies_between = edited(
    "sectors",
    {f"len({COUNTED})": "(max(addresses) // 32 - min(addresses) // 32 + 1) if addresses else 0"},
    loses=("strides", "shared"),
    because="a request is thought to move one piece of memory from its first byte to its last",
    breaks="different",
)

compares_neighbours = edited(
    "sectors",
    {
        f"len({COUNTED})": (
            "sum(i == 0 or address // 32 != addresses[i - 1] // 32 for i, address in enumerate(addresses))"
        )
    },
    loses=("shared",),
    because="lanes are thought to come in the order of their addresses",
    breaks="lanes may use the same address, and addresses may come in any order",
)

from_the_first_lane_up = edited(
    "sectors",
    {f"len({COUNTED})": "len({address // 32 for address in addresses if address >= addresses[0]})"},
    loses=("shared",),
    because="the first lane is thought to use the lowest address",
    breaks="any order",
)

always_a_whole_warp = edited(
    "sectors",
    {"address in addresses})": "address in addresses}) or 1"},
    loses=("shared",),
    because="a warp without an active lane is thought to ask for something",
    breaks="No lane is active in an empty list",
)

no_lane_no_answer = edited(
    "sectors",
    {"if len(addresses) > 32": "if not 0 < len(addresses) <= 32"},
    loses=("shared",),
    because="an empty list is thought to be a mistake of the caller",
    breaks="No lane is active in an empty list",
)

fills_up_the_warp = edited(
    "sectors",
    {
        f"return len({COUNTED})": (
            "last = addresses[-1] if addresses else 0\n"
            "    rest = [last + item_bytes * lane for lane in range(1, 33 - len(addresses))] if addresses else []\n"
            "    return len({address // 32 for address in [*addresses, *rest]})"
        )
    },
    loses=("shared", "strides"),
    because="lanes that are not active are thought to ask all the same",
    breaks="**active** lane of one warp",
)

puts_the_list_in_order = edited(
    "sectors",
    {f"return len({COUNTED})": f"addresses.sort()\n    return len({COUNTED})"},
    loses=("shared",),
    because="an argument is thought to be one's own",
    breaks="The list is left as it is",
)

remembers_what_moved = edited(
    "sectors",
    {
        "def sectors(addresses, item_bytes):": "def sectors(addresses, item_bytes, moved={}):",
        f"return len({COUNTED})": (
            "before = len(moved)\n"
            "    moved.update({address // 32: True for address in addresses})\n"
            "    return len(moved) - before"
        ),
    },
    loses=NO_SECTORS,
    because="a default value is thought to be made anew in each call",
    breaks=DIFFERENT,
)

a_fraction_of_a_sector = edited(
    "sectors",
    {f"len({COUNTED})": f"len({COUNTED}) / 1"},
    loses=NO_SECTORS,
    because="a quotient is taken for an integer",
    breaks="an integer",
)

thirty_one_lanes = edited(
    "sectors",
    {"len(addresses) > 32": "len(addresses) >= 32"},
    loses=NO_SECTORS,
    because="the last lane is thought to have number 32",
    breaks="There are at most 32",
)

a_lane_too_many = edited(
    "sectors",
    {"len(addresses) > 32": "len(addresses) > 33"},
    loses=("errors",),
    because="the boundary is missed by one",
    breaks="more than 32 addresses",
)

counts_a_shared_address_once = edited(
    "sectors",
    {"len(addresses) > 32": "len(set(addresses)) > 32"},
    loses=("errors",),
    because="lanes are confused with what they ask for",
    breaks="more than 32 addresses",
)

memory_begins_below_zero = edited(
    "sectors",
    {"address < 0 or address % item_bytes": "address % item_bytes"},
    loses=("errors",),
    because="what Python divides is thought to be an address",
    breaks="a negative address",
)

the_first_address_speaks_for_all = edited(
    "sectors",
    {"address < 0 or address % item_bytes for address in addresses": "address < 0 or address % item_bytes for address in addresses[:1]"},
    loses=("errors",),
    because="one lane is looked at, and the others are thought to be like it",
    breaks=MISALIGNED,
)

the_first_byte_is_no_address = edited(
    "sectors",
    {"address < 0 or": "address <= 0 or"},
    loses=("shared",),
    because="zero is thought to be negative, or to be no address",
    breaks="a negative address",
)

reads_what_no_gpu_reads = edited(
    "sectors",
    {"address < 0 or address % item_bytes": "address < 0"},
    loses=("errors",),
    because="an address is thought to be free",
    breaks=MISALIGNED,
)

aligned_to_words = edited(
    "sectors",
    {"address % item_bytes": "address % min(item_bytes, 4)"},
    loses=("errors",),
    because="a multiple of four bytes is thought to do for every item",
    breaks=MISALIGNED,
)

aligned_to_the_first_lane = edited(
    "sectors",
    {"address % item_bytes": "(address - addresses[0]) % item_bytes"},
    loses=("errors",),
    because="lanes are compared with each other, and not with memory",
    breaks=MISALIGNED,
)

aligned_to_sectors = edited(
    "sectors",
    {"address % item_bytes": "address % max(item_bytes, 32)"},
    loses=NO_SECTORS,
    because="an item is thought to have to begin where a sector does",
    breaks=MISALIGNED,
)

any_power_of_two = edited(
    "sectors",
    {"item_bytes not in (1, 2, 4, 8, 16)": "item_bytes < 1 or item_bytes & (item_bytes - 1)"},
    loses=("errors",),
    because="a lane is thought to read any power of two at once",
    breaks="any other `item_bytes`",
)

anything_up_to_16_bytes = edited(
    "sectors",
    {"item_bytes not in (1, 2, 4, 8, 16)": "not 1 <= item_bytes <= 16"},
    loses=("errors",),
    because="a lane is thought to read any number of bytes",
    breaks="1, 2, 4, 8 or 16",
)

eight_bytes_at_most = edited(
    "sectors",
    {"item_bytes not in (1, 2, 4, 8, 16)": "item_bytes not in (1, 2, 4, 8)"},
    loses=NO_SECTORS,
    because="the widest load of a lane, four floats, is not known",
    breaks="1, 2, 4, 8 or 16",
)

asks_only_where_there_are_lanes = edited(
    "sectors",
    {"item_bytes not in (1, 2, 4, 8, 16)": "addresses and item_bytes not in (1, 2, 4, 8, 16)"},
    loses=("errors",),
    because="with nothing to read the size is thought not to matter",
    breaks="any other `item_bytes`",
)

remembers_the_addresses = edited(
    "sectors",
    {
        "def sectors(addresses, item_bytes):": "ASKED = {}\n\n\ndef sectors(addresses, item_bytes):",
        "    if any(address": "    if tuple(addresses) in ASKED:\n        return ASKED[tuple(addresses)]\n    if any(address",
        f"return len({COUNTED})": f"ASKED[tuple(addresses)] = len({COUNTED})\n    return ASKED[tuple(addresses)]",
    },
    loses=("errors",),
    because="an answer is thought to depend on the addresses alone",
    breaks=MISALIGNED,
)

addresses_of_32_bits = edited(
    "sectors",
    {"{address // 32 for": "{address % 2**32 // 32 for"},
    loses=("strides",),
    because="an address is thought to have 32 bits, and a card no more than 4 GiB",
    breaks="a list of integers, the byte address",
)

asserts_instead = edited(
    "sectors",
    {
        'raise ValueError("one warp has 32 lanes, and each reads 1, 2, 4, 8 or 16 bytes")': "raise AssertionError(item_bytes)",
    },
    loses=("errors",),
    because="any exception is thought to do",
    breaks="raises `ValueError`",
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


@alternative("sectors")
def with_numpy(addresses, item_bytes):
    import numpy as np

    lanes = np.array(addresses, dtype=np.int64)
    if lanes.size > 32 or item_bytes < 1 or item_bytes > 16 or bin(item_bytes).count("1") != 1:
        raise ValueError("not what a warp asks for")
    if (lanes < 0).any() or (lanes % item_bytes).any():
        raise ValueError("misaligned address")
    ordered = np.sort(lanes >> 5)
    return (np.diff(ordered) > 0).sum() + (lanes.size > 0)


@alternative("sectors")
def every_byte_looked_at(addresses, item_bytes):
    class Misaligned(ValueError):
        pass

    if not (item_bytes == 1 or item_bytes in [2**power for power in range(1, 5)]):
        raise Misaligned(item_bytes)
    seen = []
    for lane, address in enumerate(addresses):
        if lane >= 32 or address < 0 or address // item_bytes * item_bytes != address:
            raise Misaligned(address)
        for byte in range(address, address + item_bytes):
            if byte - byte % 32 not in seen:
                seen.append(byte - byte % 32)
    return len(seen)


@alternative("sectors")
def sorted_and_grouped(addresses, item_bytes):
    from itertools import groupby

    if not addresses and item_bytes in (1, 2, 4, 8, 16):
        return 0
    try:
        aligned = all(divmod(address, item_bytes)[1] == 0 for address in addresses)
    except ZeroDivisionError as error:
        raise ValueError("an item of no bytes") from error
    if not aligned or item_bytes not in (1, 2, 4, 8, 16) or len(addresses) > 32 or min(addresses) < 0:
        raise ValueError("no such request")
    return sum(1 for _ in groupby(sorted(addresses), key=lambda address: address // 32))


# E4.2 row_sums ----------------------------------------------------------------------------

NO_SUMS = ("values", "moved", "once", "safe", "odd")


@mistake(
    "row_sums",
    loses=("moved", "odd"),
    because="a thread is thought to be served alone, and not with its warp",
    breaks='of the bytes in the sectors that move, **at least 60 %** are requested',
)
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


@mistake(
    "row_sums",
    loses=NO_SUMS,
    because="the library is called where a kernel is asked for",
    breaks='it must not add, copy or transpose',
)
def torch_does_it(x):
    return x.sum(1)


@mistake(
    "row_sums",
    loses=NO_SUMS,
    because="memory is put in order by a copy that costs more than it saves",
    breaks='it must not add, copy or transpose',
)
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
    breaks='of the bytes in the sectors that move, **at least 60 %** are requested',
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
    breaks='each element of `x` is **read once**',
)

whole_warps_only = edited(
    "row_sums",
    {"range(lane, x.shape[1], 32)": "range(lane, x.shape[1] // 32 * 32, 32)"},
    loses=("odd",),
    because="rows are thought to be multiples of a warp",
    breaks='neither need be a multiple of anything',
)

as_many_lanes_as_columns = edited(
    "row_sums",
    {
        "range(lane, x.shape[1], 32)": "range(lane, min(x.shape[1], 256), 32)",
    },
    loses=("values", "moved", "once", "safe", "odd"),
    because="rows are thought to be no longer than those that one has tried",
    breaks='neither need be a multiple of anything',
)

whole_blocks_only = edited(
    "row_sums",
    {"-(-rows // 4)": "(rows // 4)"},
    loses=("odd",),
    because="the grid is rounded down",
    breaks='neither need be a multiple of anything',
)

launches_on_nothing = edited(
    "row_sums",
    {"    if rows:\n        a_warp": "    a_warp"},
    loses=("odd",),
    because="a grid of no blocks is thought to be a launch that does nothing",
    breaks='Either size may be anything from 0',
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
    breaks='the sum of each row',
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
    breaks='**no data race**',
)


@mistake(
    "row_sums",
    loses=("once",),
    because="what an atomic operation costs is thought to cover a second look",
    breaks='each element of `x` is **read once**',
)
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


@mistake(
    "row_sums",
    loses=("safe",),
    because="a store is thought to be seen by the other warps at once, in order",
    breaks='**no data race**',
)
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


TREE = (
    "        distance = 16\n"
    "        while distance > 0:\n"
    "            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)\n"
    "            distance //= 2\n"
)
STORES = "        if lane == 0:\n            out[row] = total"
IN_EMPTY = "    out = torch.empty(rows, device=x.device)\n"
ALLOCATES = "PyTorch may only allocate (`torch.empty`, `torch.zeros`) and make views"

LAUNCHED = "a_warp_a_row[-(-rows // 4), (32, 4)](x, out)"
harmless_of_row_sums = [
    equivalent_mutant("row_sums", LAUNCHED, "a_warp_a_row[-(-rows // 3), (32, 4)](x, out)", "more blocks than rows need find none, and stop"),
    equivalent_mutant("row_sums", LAUNCHED, "a_warp_a_row[-(-rows // 4), (32, 5)](x, out)", "more warps than rows need find none, and stop"),
]

unbreakable_of_row_sums = [
    unbreakable("row_sums", "`x`: a contiguous `float32` tensor of two dimensions", "what the argument is"),
    unbreakable("row_sums", "In the kernel above it is one eighth.", "what the learner has seen"),
]

adds_up_in_half_precision = edited(
    "row_sums",
    {"total = float32(0)": "total = float16(0)", "total += x[row, column]": "total = float16(total + x[row, column])"}
    | {IN_EMPTY: IN_EMPTY, "def row_sums(x):": "from gpulab.kernels import float16\n\n\ndef row_sums(x):"},
    loses=NO_SUMS,
    because="whole numbers are thought to be exact in any format",
    breaks="exact in `float32` in any order, but in no narrower type",
)

adds_up_in_short_integers = edited(
    "row_sums",
    {"total = float32(0)": "total = int16(0)", "total += x[row, column]": "total = int16(total + int16(x[row, column]))"}
    | {"def row_sums(x):": "from gpulab.kernels import int16\n\n\ndef row_sums(x):"},
    loses=NO_SUMS,
    because="sums are thought to be as small as what they are of",
    breaks="exact in `float32` in any order, but in no narrower type",
)

in_double_precision = edited(
    "row_sums",
    {"torch.empty(rows, device=x.device)": "torch.empty(rows, device=x.device, dtype=torch.float64)"},
    loses=NO_SUMS,
    because="more digits are thought to be better",
    breaks="returns a new `float32` tensor",
)

a_column_of_sums = edited(
    "row_sums",
    {"    return out": "    return out.view(rows, 1)"},
    loses=NO_SUMS,
    because="a sum over one dimension is thought to keep it",
    breaks="of one dimension",
)

brings_the_sums_home = edited(
    "row_sums",
    {"    return out": "    return out.cpu()"},
    loses=NO_SUMS,
    because="a result is thought to belong to the host",
    breaks="on `x`'s device",
)

zeros_on_the_host = edited(
    "row_sums",
    {IN_EMPTY: "    if x.numel() == 0:\n        return torch.zeros(rows)\n" + IN_EMPTY},
    loses=("odd",),
    because="where there is nothing to do, the device is forgotten",
    breaks="on `x`'s device",
)

nothing_to_add_nothing_to_write = edited(
    "row_sums",
    {"    if rows:\n": "    if x.numel():\n"},
    loses=("odd",),
    because="memory that nobody has written is thought to be zero",
    breaks="The sum of an empty row is 0",
)

adds_to_what_is_there = edited(
    "row_sums",
    {STORES: "        if lane == 0:\n            cuda.atomic.add(out, row, total)"},
    loses=NO_SUMS,
    because="memory that nobody has written is thought to be zero",
    breaks="the sum of each row",
)

one_result_for_all_calls = edited(
    "row_sums",
    {
        "def row_sums(x):": "KEPT = {}\n\n\ndef row_sums(x):",
        "torch.empty(rows, device=x.device)": 'KEPT.setdefault(rows, torch.empty(rows, device=x.device))',
    },
    loses=("odd",),
    because="allocating is thought to be dear, and a result to be read before the next call",
    breaks="returns a new `float32` tensor",
)

adds_up_in_the_matrix = edited(
    "row_sums",
    {STORES: "        if lane == 0:\n            x[row, 0] = total\n            out[row] = total", "def a_warp_a_row": "def a_warp_a_row"}
    | {"    if row < x.shape[0]:\n        total": "    if row < x.shape[0] and x.shape[1] == 0:\n        out[row] = float32(0)\n    elif row < x.shape[0]:\n        total"},
    loses=NO_SUMS,
    because="the input is thought to be free to write to, once it is read",
    breaks="It is left as it is",
)

torch_adds_the_parts = edited(
    "row_sums",
    {
        "torch.empty(rows, device=x.device)": "torch.empty(rows, 32, device=x.device)",
        TREE + STORES: "        out[row, lane] = total",
        "    return out": "    return out.sum(1)",
    },
    loses=NO_SUMS,
    because="only the large part of the work is thought to be asked for",
    breaks="**your kernels do the work**",
)

fills_with_ones_and_less = edited(
    "row_sums",
    {
        "torch.empty(rows, device=x.device)": "torch.ones(rows, device=x.device)",
        STORES: "        if lane == 0:\n            out[row] += total - 1",
    },
    loses=NO_SUMS,
    because="any operation of PyTorch is thought to allocate",
    breaks=ALLOCATES,
)

one_block_for_all_rows = edited(
    "row_sums",
    {"a_warp_a_row[-(-rows // 4), (32, 4)]": "a_warp_a_row[1, (32, min(rows, 32))]"},
    loses=("odd",),
    because="matrices are thought to be as small as the one at hand",
    breaks="neither need be a multiple of anything",
)

as_many_blocks_as_were_tried = edited(
    "row_sums",
    {"a_warp_a_row[-(-rows // 4), (32, 4)]": "a_warp_a_row[64, (32, 4)]"},
    loses=("odd",),
    because="matrices are thought to be as small as the one at hand",
    breaks="neither need be a multiple of anything",
)

reads_past_the_last_row = edited(
    "row_sums",
    {
        "    if row < x.shape[0]:\n        total = float32(0)": "    if row < x.shape[0] + 1:\n        total = float32(0)",
        STORES: "        if lane == 0 and row < x.shape[0]:\n            out[row] = total",
    },
    loses=("safe",),
    because="only the store is thought to need a guard",
    breaks="no out-of-bounds access",
)

reads_past_the_end_of_a_row = edited(
    "row_sums",
    {
        "range(lane, x.shape[1], 32)": "range(lane, -(-x.shape[1] // 32) * 32, 32)",
        "            total += x[row, column]\n": (
            "            found = x[row, column]\n            if column < x.shape[1]:\n                total += found\n"
        ),
    },
    loses=("safe",),
    because="what is read and thrown away is thought not to be read",
    breaks="no out-of-bounds access",
)

every_lane_stores = edited(
    "row_sums",
    {TREE + STORES: (
        "        distance = 16\n"
        "        while distance > 0:\n"
        "            total += cuda.shfl_xor_sync(0xFFFFFFFF, total, distance)\n"
        "            distance //= 2\n"
        "        out[row] = total"
    )},
    loses=("safe",),
    because="lanes that store the same are thought not to race",
    breaks="**no data race**",
)

hopes_for_the_cache = edited(
    "row_sums",
    {"range(lane, x.shape[1], 32)": "range(4 * lane, x.shape[1], 128)"}
    | {"            total += x[row, column]\n": (
        "            for next_one in range(column, min(column + 4, x.shape[1])):\n                total += x[row, next_one]\n"
    )},
    loses=("moved",),
    because="a sector that is asked for four times is thought to move once",
    breaks="A sector counts for every request that touches it: caches, which may keep it for the next request, are not modelled",
)


@mistake(
    "row_sums",
    loses=NO_SUMS,
    because="a store is thought to be seen by all threads of a block at once",
    breaks="**no data race**",
)
def no_barrier_before_the_tree(x):
    @cuda.jit
    def kernel(x, out):
        parts = cuda.shared.array(64, float32)
        lane, row = cuda.threadIdx.x, cuda.blockIdx.x
        total = float32(0)
        for column in range(lane, x.shape[1], 64):
            total += x[row, column]
        if lane == 0:
            for other in range(64):
                total += parts[other]
            out[row] = total
        parts[lane] = total

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[len(x), 64](x, out)
    return out


@mistake(
    "row_sums",
    loses=("safe", "odd"),
    because="a thread without work is thought to have no part in a barrier",
    breaks="**no data race** and no out-of-bounds access",
)
def a_barrier_for_those_with_columns(x):
    @cuda.jit
    def kernel(x, out):
        parts = cuda.shared.array(64, float32)
        lane, row = cuda.threadIdx.x, cuda.blockIdx.x
        parts[lane] = 0
        cuda.syncthreads()
        if lane < x.shape[1]:
            total = float32(0)
            for column in range(lane, x.shape[1], 64):
                total += x[row, column]
            parts[lane] = total
            cuda.syncthreads()
        if lane == 0:
            total = float32(0)
            for other in range(64):
                total += parts[other]
            out[row] = total

    out = torch.empty(len(x), device="cuda")
    if len(x):
        kernel[len(x), 64](x, out)
    return out


rows_along_the_short_side_of_the_grid = edited(
    "row_sums",
    {
        "a_warp_a_row[-(-rows // 4), (32, 4)]": "a_warp_a_row[(1, rows), (32, 1)]",
        "cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y": "cuda.blockIdx.y",
    },
    loses=("odd",),
    because="a grid is thought to have room for any number of blocks in each direction; along y it has 65,535",
    breaks="Either size may be anything from 0 to 100,000",
)

in_the_default_stream = edited(
    "row_sums",
    {"(32, 4)]": "(32, 4), torch.cuda.default_stream()]"},
    loses=("odd",),
    because="there is thought to be one stream, in which all inputs have been written",
    breaks="the sum of each row",
)

from_the_beginning_of_the_storage = edited(
    "row_sums",
    {"(x, out)\n    return": "(torch.as_strided(x, x.shape, (x.shape[1], 1), 0), out)\n    return"},
    loses=("odd",),
    because="a tensor is thought to begin where its memory does",
    breaks="the sum of each row",
)


@alternative("row_sums")
def distances_written_out(x):
    @cuda.jit
    def kernel(x, out):
        row, lane = cuda.blockIdx.x, cuda.threadIdx.x
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        if lane == 0:
            out[row] = total

    out = torch.zeros(len(x), device=x.device)
    if x.numel():
        kernel[len(x), 32](x, out)
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
        row = cuda.blockIdx.x
        column = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        if column < x.shape[1]:
            cuda.atomic.add(out, row, x[row, column])

    out = torch.zeros(len(x), device="cuda")
    if x.numel():
        kernel[(len(x), -(-x.shape[1] // 64)), 64](x, out)
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


@alternative("row_sums")
def a_stride_over_rows(x):
    """Blocks of 256, eight rows each, and a stride over rows where the grid is small."""

    @cuda.jit
    def kernel(x, out):
        lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
        for row in range(8 * cuda.blockIdx.x + warp, x.shape[0], 8 * cuda.gridDim.x):
            total = float32(0)
            for column in range(lane, x.shape[1], 32):
                total += x[row, column]
            for power in range(4, -1, -1):
                total += cuda.shfl_down_sync(0xFFFFFFFF, total, 1 << power)
            if lane == 0:
                out[row] = total

    rows, _ = x.size()
    if rows == 0:
        return x.new_empty(0)
    out = torch.empty_like(x[:, 0]) if x.shape[1] else torch.zeros(rows, device=x.device)
    if x.shape[1]:
        kernel[min(4, (rows + 7) // 8), 256](x, out)
    return out


@alternative("row_sums")
def a_flat_view_and_an_accumulator_in_shared_memory(x):
    """Each block adds its row's elements to one word, with atomic operations there."""

    @cuda.jit
    def kernel(flat, width, out):
        whole = cuda.shared.array(1, float32)
        if cuda.threadIdx.x == 0:
            whole[0] = 0
        cuda.syncthreads()
        first = cuda.blockIdx.x * width
        part = float32(0)
        for at in range(first + cuda.threadIdx.x, first + width, cuda.blockDim.x):
            part += flat[at]
        cuda.atomic.add(whole, 0, part)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x] = whole[0]

    height, width = x.shape
    out = torch.zeros(height, dtype=torch.float32, device=x.device)
    if height * width:
        kernel[height, 128](x.view(-1), width, out)
    return out


# E4.3 tiled_matmul ------------------------------------------------------------------------

ALL_OF_IT = ("values", "traffic", "filled", "reused", "conflicts", "moved", "odd")
NOT_TILED = ("traffic", "filled", "reused", "conflicts")


@mistake(
    "tiled_matmul",
    loses=NOT_TILED,
    because="the cache is trusted to make up for loading everything again",
    breaks='lanes load **at most** m k ⌈n / `TILE`⌉ elements of `a`',
)
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


@mistake(
    "tiled_matmul",
    loses=ALL_OF_IT,
    because="the library is called where a kernel is asked for",
    breaks="**your kernels do the work**",
)
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
    breaks='lanes load **at most** m k ⌈n / `TILE`⌉ elements of `a`',
)

tiles_are_thought_to_be_there = edited(
    "tiled_matmul",
    {"        cuda.syncthreads()  # both tiles are there\n": ""},
    loses=ALL_OF_IT,
    because="threads of a block are thought to run in step",
    breaks='a tile is read only after all of it is loaded',
)

tiles_are_thought_to_be_done_with = edited(
    "tiled_matmul",
    {"        cuda.syncthreads()  # all have read them\n": ""},
    loses=("reused",),
    because="one barrier is thought to do; the next tile is written over the one that is still being read",
    breaks='overwritten only after all threads have read it',
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
    breaks='a tile is read only after all of it is loaded',
)

x_down_the_rows = edited(
    "tiled_matmul",
    {"x, y = cuda.threadIdx.x, cuda.threadIdx.y": "y, x = cuda.threadIdx.x, cuda.threadIdx.y"},
    loses=("conflicts", "moved"),
    because="the first index of a thread is taken for the first index of a matrix",
    breaks='at least half of the bytes that move are requested',
)

a_tile_on_its_side = edited(
    "tiled_matmul",
    {"b_tile[y, x] =": "b_tile[x, y] =", "b_tile[i, x]": "b_tile[x, i]"},
    loses=("conflicts",),
    because="shared memory is thought to be equally fast at any index",
    breaks='**no bank conflict** in shared memory',
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
    breaks='store each element of the product **once**',
)

whole_tiles_only = edited(
    "tiled_matmul",
    {"(-(-n // TILE), -(-m // TILE))": "(n // TILE, m // TILE)"},
    loses=("odd",),
    because="sizes are taken for multiples of the tile",
    breaks='none need be a multiple of anything',
)

whole_steps_only = edited(
    "tiled_matmul",
    {"range(0, k, TILE)": "range(0, k // TILE * TILE, TILE)"},
    loses=("odd",),
    because="the inner size is taken for a multiple of the tile",
    breaks='none need be a multiple of anything',
)

reads_past_the_edge = edited(
    "tiled_matmul",
    {" if row < m and start + x < k else float32(0)": "", " if start + y < k and column < n else float32(0)": ""},
    loses=("odd",),
    because="only the store is thought to need a guard",
    breaks='no out-of-bounds access',
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
    breaks='none need be a multiple of anything',
)


LOADS_A = "a[row, start + x] if row < m and start + x < k else float32(0)"
LOADS_B = "b[start + y, column] if start + y < k and column < n else float32(0)"
TILES = (
    "    a_tile = cuda.shared.array((TILE, TILE), float32)\n    b_tile = cuda.shared.array((TILE, TILE), float32)\n"
)
STORED = "    if row < m and column < n:\n        c[row, column] = total"
IN_NOTHING = "    c = torch.empty(m, n, device=a.device)\n"
REFUSES = "if a.shape[1] != b.shape[0]:"
NARROWER = "exact when tiles and sums are `float32`, but in no narrower type"
SHAPES = "`a` of shape (m, k) and `b` of shape (k, n)"

adds_products_in_half_precision = edited(
    "tiled_matmul",
    {
        "def tiled_matmul(a, b):": "from gpulab.kernels import float16\n\n\ndef tiled_matmul(a, b):",
        "total = float32(0)": "total = float16(0)",
        "total += a_tile[y, i] * b_tile[i, x]": "total = float16(total + a_tile[y, i] * b_tile[i, x])",
    },
    loses=ALL_OF_IT,
    because="a sum is thought to be exact in the format of what it is of",
    breaks=NARROWER,
)

tiles_in_half_precision = edited(
    "tiled_matmul",
    {
        "def tiled_matmul(a, b):": "from gpulab.kernels import float16\n\n\ndef tiled_matmul(a, b):",
        "b_tile = cuda.shared.array((TILE, TILE), float32)": "b_tile = cuda.shared.array((TILE, TILE), float16)",
        "total += a_tile[y, i] * b_tile[i, x]": "total += a_tile[y, i] * float32(b_tile[i, x])",
    },
    loses=ALL_OF_IT,
    because="a tile that takes half the space is thought to hold the same numbers",
    breaks=NARROWER,
)

takes_b_for_its_transpose = edited(
    "tiled_matmul",
    {LOADS_B: "b[column, start + y] if start + y < k and column < n else float32(0)"},
    loses=ALL_OF_IT,
    because="both matrices are thought to be read along their rows",
    breaks=SHAPES,
)

a_grid_for_squares = edited(
    "tiled_matmul",
    {"(-(-n // TILE), -(-m // TILE))": "(-(-m // TILE), -(-n // TILE))"},
    loses=ALL_OF_IT,
    because="the first extent of a grid is taken for the first size of a matrix",
    breaks="of shape (m, n), the product",
)

a_grid_as_large_as_was_tried = edited(
    "tiled_matmul",
    {"(-(-n // TILE), -(-m // TILE))": "(6, 6)"},
    loses=("odd", *NOT_TILED),
    because="matrices are thought to be as small as those at hand",
    breaks="none need be a multiple of anything",
)

launches_without_blocks = edited(
    "tiled_matmul",
    {"    if m and n:\n        multiply": "    multiply"},
    loses=("odd",),
    because="a grid of no blocks is thought to be a launch that does nothing",
    breaks="Any size may be 0",
)

nothing_to_multiply_nothing_to_write = edited(
    "tiled_matmul",
    {"    if m and n:\n": "    if a.numel() and b.numel():\n"},
    loses=("odd",),
    because="memory that nobody has written is thought to be zero",
    breaks="Where k is 0 it is all zeros",
)

no_inner_size_no_product = edited(
    "tiled_matmul",
    {REFUSES: "if a.shape[1] != b.shape[0] or a.shape[1] == 0:"},
    loses=("odd",),
    because="a sum of nothing is thought to be an error",
    breaks="Where k is 0 it is all zeros",
)

zeros_of_the_host = edited(
    "tiled_matmul",
    {IN_NOTHING: "    if a.shape[1] == 0:\n        return torch.zeros(m, n)\n" + IN_NOTHING},
    loses=("odd",),
    because="where there is nothing to do, the device is forgotten",
    breaks="on `a`'s device",
)

a_product_in_double_precision = edited(
    "tiled_matmul",
    {"torch.empty(m, n, device=a.device)": "torch.empty(m, n, device=a.device, dtype=torch.float64)"},
    loses=ALL_OF_IT,
    because="more digits are thought to be better",
    breaks="returns a new `float32` tensor of shape (m, n)",
)

one_product_for_all_calls = edited(
    "tiled_matmul",
    {
        "def tiled_matmul(a, b):": "PRODUCTS = {}\n\n\ndef tiled_matmul(a, b):",
        "torch.empty(m, n, device=a.device)": "PRODUCTS.setdefault((m, n), torch.empty(m, n, device=a.device))",
    },
    loses=("odd",),
    because="allocating is thought to be dear, and a result to be read before the next call",
    breaks="returns a new `float32` tensor of shape (m, n)",
)

takes_whatever_fits = edited(
    "tiled_matmul",
    {REFUSES: "if a.shape[1] > b.shape[0]:"},
    loses=("odd",),
    because="what b has too much is thought to be left over",
    breaks="Raises `ValueError` when the inner sizes differ",
)

refuses_only_what_has_elements = edited(
    "tiled_matmul",
    {REFUSES: "if a.numel() and b.numel() and a.shape[1] != b.shape[0]:"},
    loses=("odd",),
    because="with nothing to multiply the sizes are thought not to matter",
    breaks="Raises `ValueError` when the inner sizes differ",
)

compares_the_shapes = edited(
    "tiled_matmul",
    {REFUSES: "if a.shape[1] != b.shape[0] and a.shape != b.shape:"},
    loses=("odd",),
    because="equal shapes are thought to fit",
    breaks="Raises `ValueError` when the inner sizes differ",
)

asserts_that_they_fit = edited(
    "tiled_matmul",
    {REFUSES: "assert a.shape[1] == b.shape[0]\n    if False:"},
    loses=("odd",),
    because="any exception is thought to do",
    breaks="Raises `ValueError` when the inner sizes differ",
)

puts_b_in_order_first = edited(
    "tiled_matmul",
    {"(a, b, c)\n    return c": "(a, b.t().contiguous().t(), c)\n    return c"},
    loses=ALL_OF_IT,
    because="a copy is thought to be a view",
    breaks="PyTorch may only allocate (`torch.empty`, `torch.zeros`) and make views",
)

writes_into_a = edited(
    "tiled_matmul",
    {STORED: STORED + "\n    if row < m and cuda.blockIdx.x == 0 and x < k:\n        a[row, x] = a_tile[y, x] if k <= TILE else a[row, x] + 1"},
    loses=ALL_OF_IT,
    because="an input is thought to be free to write to, once it is read",
    breaks="Both are left as they are",
)

every_step_is_stored = edited(
    "tiled_matmul",
    {
        "        cuda.syncthreads()  # all have read them\n": (
            "        cuda.syncthreads()  # all have read them\n"
            "        if row < m and column < n:\n            c[row, column] = total\n"
        )
    },
    loses=NOT_TILED,
    because="what is overwritten is thought not to have been stored",
    breaks="store each element of the product **once**",
)

clamps_at_the_edge = edited(
    "tiled_matmul",
    {
        LOADS_A: "a[min(row, m - 1), min(start + x, k - 1)] * (start + x < k)",
        LOADS_B: "b[min(start + y, k - 1), min(column, n - 1)] * (start + y < k)",
    },
    loses=NOT_TILED,
    because="lanes outside the matrix are thought to load for nothing",
    breaks="ragged edges included",
)

half_a_tile = edited(
    "tiled_matmul",
    {
        "def tiled_matmul(a, b):": "SIDE = 8\n\n\ndef tiled_matmul(a, b):",
        "(-(-n // TILE), -(-m // TILE)), (TILE, TILE)": "(-(-n // SIDE), -(-m // SIDE)), (SIDE, SIDE)",
        TILES: TILES.replace("TILE, TILE", "SIDE, SIDE"),
        "cuda.blockIdx.y * TILE + y, cuda.blockIdx.x * TILE + x": "cuda.blockIdx.y * SIDE + y, cuda.blockIdx.x * SIDE + x",
        "range(0, k, TILE)": "range(0, k, SIDE)",
        "range(TILE)": "range(SIDE)",
    },
    loses=NOT_TILED,
    because="any tile is thought to do",
    breaks="with `TILE` = 16",
)

only_a_is_shared = edited(
    "tiled_matmul",
    {
        "        b_tile[y, x] = " + LOADS_B + "\n": "",
        "total += a_tile[y, i] * b_tile[i, x]": (
            "total += a_tile[y, i] * (b[start + i, column] if start + i < k and column < n else float32(0))"
        ),
    },
    loses=NOT_TILED,
    because="reads that a warp does together are thought to be shared",
    breaks="k n ⌈m / `TILE`⌉ of `b` from global memory",
)

guards_one_of_two = edited(
    "tiled_matmul",
    {LOADS_A: "a[row, start + x] if row < m else float32(0)"},
    loses=("odd",),
    because="a row that ends is thought to be followed by nothing",
    breaks="no out-of-bounds access",
)


@mistake(
    "tiled_matmul",
    loses=NOT_TILED,
    because="atomic operations are thought not to be stores",
    breaks="store each element of the product **once**",
)
def a_block_for_each_pair_of_tiles(a, b):
    @cuda.jit
    def kernel(a, b, c):
        left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        row, column, start = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x, cuda.blockIdx.z * 16
        left[y, x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else float32(0)
        right[y, x] = b[start + y, column] if start + y < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        total = float32(0)
        for i in range(16):
            total += left[y, i] * right[i, x]
        if row < c.shape[0] and column < c.shape[1]:
            cuda.atomic.add(c, (row, column), total)

    if a.shape[1] != b.shape[0]:
        raise ValueError("the inner sizes differ")
    c = torch.zeros(len(a), b.shape[1], device="cuda")
    if a.numel() and b.numel():
        kernel[(-(-b.shape[1] // 16), -(-len(a) // 16), -(-len(b) // 16)), (16, 16)](a, b, c)
    return c


multiplies_in_the_default_stream = edited(
    "tiled_matmul",
    {"(TILE, TILE)](a, b, c)": "(TILE, TILE), torch.cuda.default_stream()](a, b, c)"},
    loses=("odd",),
    because="there is thought to be one stream, in which all inputs have been written",
    breaks="of shape (m, n), the product",
)

multiplies_what_the_storage_begins_with = edited(
    "tiled_matmul",
    {"(a, b, c)\n    return c": "(a, torch.as_strided(b, b.shape, (n, 1), 0), c)\n    return c"},
    loses=("odd",),
    because="a tensor is thought to begin where its memory does",
    breaks="of shape (m, n), the product",
)


@alternative("tiled_matmul")
def slices_of_dynamic_shared_memory(a, b):
    @cuda.jit
    def kernel(a, b, c):
        left, right = cuda.shared.array(0, float32)[:256], cuda.shared.array(0, float32)[256:512]
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = float32(0)
        for start in range(0, a.shape[1], 16):
            left[16 * y + x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else float32(0)
            right[16 * y + x] = b[start + y, column] if start + y < b.shape[0] and column < b.shape[1] else float32(0)
            cuda.syncthreads()
            for i in range(16):
                total += left[16 * y + i] * right[16 * i + x]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    if a.shape[1] != b.shape[0]:
        raise ValueError("these do not fit")
    c = torch.zeros(len(a), b.shape[1], device=a.device)
    if a.numel() and b.numel():
        kernel[(-(-b.shape[1] // 16), -(-len(a) // 16)), (16, 16), 0, 2048](a, b, c)
    return c


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


@alternative("tiled_matmul")
def dynamic_shared_memory(a, b):
    """Both tiles in memory whose size is given at the launch."""

    class Misfit(ValueError):
        pass

    @cuda.jit
    def kernel(a, b, c):
        memory = cuda.shared.array(0, float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = float32(0)
        for start in range(0, a.shape[1], 16):
            memory[16 * y + x] = 0
            memory[256 + 16 * y + x] = 0
            if row < a.shape[0] and start + x < a.shape[1]:
                memory[16 * y + x] = a[row, start + x]
            if start + y < b.shape[0] and column < b.shape[1]:
                memory[256 + 16 * y + x] = b[start + y, column]
            cuda.syncthreads()
            for i in range(16):
                total += memory[16 * y + i] * memory[256 + 16 * i + x]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    (m, k), (inner, n) = a.shape, b.shape
    if k - inner:
        raise Misfit(k, inner)
    c = a.new_zeros((m, n))
    if min(m, k, n) > 0:
        kernel[((n + 15) // 16, (m + 15) // 16), (16, 16), 0, 2048](a, b, c)
    return c


_A_TILE = "a_tile[y, x] = a[row, start + x] if row < m and start + x < k else float32({})"
_B_TILE = "b_tile[y, x] = b[start + y, column] if start + y < k and column < n else float32({})"
_OTHER_IS_ZERO = "what it fills meets the other tile's zeros, or a sum that is not stored"
harmless_of_tiled_matmul = [
    equivalent_mutant("tiled_matmul", tile.format("0"), tile.format(other), _OTHER_IS_ZERO)
    for tile in (_A_TILE, _B_TILE)
    for other in ("1", "(-1)")
]

# E4.4 work --------------------------------------------------------------------------------

NO_WORK = ("gemm", "gemv", "layer_norm", "decode_attention", "formats", "errors")
REFUSED = "raises `ValueError` for any other `kind` or `dtype`"
MUST_MOVE = "every element of every input read once, every element of the output written once"

multiply_add_is_one = edited(
    "work",
    {"2 * m * n * k, m": "m * n * k, m", "2 * m * k, m": "m * k, m", "4 * queries": "2 * queries"},
    loses=NO_WORK,
    because="a multiplication and an addition are counted as one, as marketing counts cores",
    breaks="a multiplication and an addition are two",
)

an_addition_fewer = edited(
    "work",
    {"2 * m * n * k, m": "(2 * k - 1) * m * n, m"},
    loses=NO_WORK,
    because="the first product is thought to need no addition; a fused multiply-add begins with zero",
    breaks="a multiplication and an addition are two",
)

attention_multiplies_and_adds_once = edited(
    "work",
    {"4 * queries": "2 * queries"},
    loses=("decode_attention",),
    because="one of the two products is forgotten",
    breaks="those of the two products",
)

counts_the_softmax = edited(
    "work",
    {"4 * queries * context,": "4 * queries * context + 5 * batch * heads * context,"},
    loses=("decode_attention",),
    because="the softmax is counted, whose operations are not multiplications and additions alone",
    breaks="the softmax is left out",
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
    breaks=MUST_MOVE,
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
    breaks=MUST_MOVE,
)

reads_what_it_writes = edited(
    "work",
    {"m * k + k * n + m * n": "m * k + k * n + 2 * m * n"},
    loses=NO_WORK,
    because="the result is thought to be read before it is written",
    breaks="every element of the output written once",
)

as_often_as_it_is_used = edited(
    "work",
    {"m * k + k * n + m * n": "2 * m * n * k + m * n"},
    loses=NO_WORK,
    because="what a kernel without tiles loads is taken for what must move",
    breaks="every element of every input read once",
)

a_row_that_is_read_twice = edited(
    "work",
    {"2 * rows * width + 2 * width": "3 * rows * width + 2 * width"},
    loses=("layer_norm",),
    because="mean and variance are thought to need a pass over memory of their own",
    breaks="every element of every input read once",
)

forgets_the_vectors = edited(
    "work",
    {"m * k + k + m": "m * k"},
    loses=("gemv",),
    because="what is small is thought to be nothing",
    breaks=MUST_MOVE,
)

a_square_gemv = edited(
    "work",
    {"m * k + k + m": "m * k + 2 * k"},
    loses=("gemv",),
    because="the output is thought to be as long as the input",
    breaks="y = A x, with A of m × k",
)

a_gamma_for_each_row = edited(
    "work",
    {"2 * rows * width + 2 * width": "4 * rows * width"},
    loses=("layer_norm",),
    because="the scale and the shift are thought to be read again for every row",
    breaks="which have one element per column",
)

a_gamma_and_no_beta = edited(
    "work",
    {"2 * rows * width + 2 * width": "2 * rows * width + width"},
    loses=("layer_norm",),
    because="the shift is forgotten",
    breaks="then scaled by γ and shifted by β",
)

five_for_each_element = edited(
    "work",
    {"8 * rows * width": "5 * rows * width"},
    loses=("layer_norm",),
    because="another convention is taken for the table's",
    breaks="8 for each element of x, by convention",
)

a_cache_for_every_head = edited(
    "work",
    {"2 * batch * kv_heads": "2 * batch * heads"},
    loses=("decode_attention",),
    because="heads that share keys and values are thought to have their own",
    breaks="the KV cache has `kv_heads` heads",
)

one_cache_for_all_sequences = edited(
    "work",
    {"2 * batch * kv_heads": "2 * kv_heads"},
    loses=("decode_attention",),
    because="the cache is thought to be a weight that all sequences share",
    breaks="for every sequence and head",
)

fewer_queries = edited(
    "work",
    {"queries = batch * heads": "queries = batch * kv_heads"},
    loses=("decode_attention",),
    because="heads that share a cache are thought to be one head",
    breaks="`heads` / `kv_heads` query heads share one",
)

keys_without_values = edited(
    "work",
    {"cache = 2 * batch": "cache = batch"},
    loses=("decode_attention",),
    because="only the scores are thought of",
    breaks="the weighted sum of `context` cached values",
)

scores_in_memory = edited(
    "work",
    {"queries + cache + queries": "queries + cache + queries + 2 * batch * heads * context"},
    loses=("decode_attention",),
    because="scores are thought to be written and read again, as without a fused kernel",
    breaks="Scores and probabilities of the attention stay on chip",
)

attention_of_a_prefill = edited(
    "work",
    {"4 * queries * context,": "4 * queries * context * context,"},
    loses=("decode_attention",),
    because="attention is quadratic in a prompt; a new token is one row of it",
    breaks="one new query against `context` cached keys",
)

tf32_is_small = edited(
    "work",
    {'"tf32": 4': '"tf32": 2'},
    loses=("formats",),
    because="TF32 is a way to multiply, and is thought to be a way to store",
    breaks="A TF32 number is stored in memory as an ordinary 32-bit float",
)

tf32_is_19_bits = edited(
    "work",
    {
        '"tf32": 4': '"tf32": 19 / 8',
        "return flops, elements * item_bytes[dtype]": "return flops, int(elements * item_bytes[dtype])",
    },
    loses=("formats",),
    because="the bits that a TF32 number uses are taken for those that it takes",
    breaks="A TF32 number is stored in memory as an ordinary 32-bit float",
)

int8_is_an_integer_of_four = edited(
    "work",
    {'"int8": 1': '"int8": 4'},
    loses=("formats",),
    because="an integer is thought to have 32 bits, whatever its name says",
    breaks="the format of everything that is read and written",
)

knows_no_int8 = edited(
    "work",
    {', "int8": 1': ""},
    loses=("formats",),
    because="integers are thought to have no floating-point operations",
    breaks='`"fp32"`, `"tf32"`, `"bf16"`, `"fp16"`, `"fp8"` or `"int8"`',
)

results_in_float32 = edited(
    "work",
    {
        "return flops, elements * item_bytes[dtype]": (
            'out = size["m"] * size["n"] if operation["kind"] == "gemm" else 0\n'
            "    return flops, elements * item_bytes[dtype] + out * max(0, 2 - item_bytes[dtype])"
        )
    },
    loses=("formats",),
    because="the result of narrow inputs is thought to be wider than they are",
    breaks="the format of everything that is read and written",
)

halves_are_twice_the_work = edited(
    "work",
    {"return flops, elements": "return flops * 4 // max(2, item_bytes[dtype]) // 2, elements"},
    loses=("formats",),
    because="operations that are faster are thought to be fewer",
    breaks="floating-point operations, and the bytes that must move",
)

counts_in_floats = edited(
    "work",
    {"return flops, elements * item_bytes[dtype]": "return int(float(flops)), int(float(elements) * item_bytes[dtype])"},
    loses=NO_WORK,
    because="a float is thought to hold every integer",
    breaks="a pair of integers",
)

remembers_the_operation = edited(
    "work",
    {
        "def work(operation, dtype):": "COUNTED = {}\n\n\ndef work(operation, dtype):",
        "    return flops, elements * item_bytes[dtype]": (
            "    return COUNTED.setdefault(tuple(sorted(size.items())), (flops, elements * item_bytes[dtype]))"
        ),
    },
    loses=("formats",),
    because="the first format that an operation was counted in is thought to be its own",
    breaks="the format of everything that is read and written",
)

takes_the_kind_out = edited(
    "work",
    {
        "    size = {name: operation[name] for name in operation if name != \"kind\"}\n": (
            "    kind = operation.pop(\"kind\")\n    size = operation\n"
        ),
        "operation[\"kind\"] not in counts": "kind not in counts",
        "f\"{operation['kind']} in": "f\"{kind} in",
        "counts[operation[\"kind\"]]": "counts[kind]",
    },
    loses=("formats",),
    because="an argument is thought to be one's own",
    breaks="It is left as it is",
)

sizes_by_their_place = edited(
    "work",
    {
        "    size = {name: operation[name] for name in operation if name != \"kind\"}\n": (
            "    size = list(operation.values())[1:]\n"
        ),
        "(**size)": "(*size)",
        "operation[\"kind\"] not in counts": "list(operation.values())[0] not in counts",
        "counts[operation[\"kind\"]]": "counts[list(operation.values())[0]]",
    },
    loses=NO_WORK,
    because="a dictionary is read as if it were a tuple",
    breaks="in any order",
)

one_is_no_size = edited(
    "work",
    {"dtype not in item_bytes:": "dtype not in item_bytes or min(size.values()) < 2:"},
    loses=NO_WORK,
    because="a size of one is thought to be a mistake",
    breaks="all at least 1",
)

counts_bits = edited(
    "work",
    {"elements * item_bytes[dtype]": "8 * elements * item_bytes[dtype]"},
    loses=NO_WORK,
    because="bits are taken for bytes",
    breaks="bytes that must move",
)

counts_elements = edited(
    "work",
    {"elements * item_bytes[dtype]": "elements"},
    loses=NO_WORK,
    because="elements are taken for bytes",
    breaks="bytes that must move",
)

fractions_of_operations = edited(
    "work",
    {"return flops, elements * item_bytes[dtype]": "return float(flops), float(elements * item_bytes[dtype])"},
    loses=NO_WORK,
    because="large counts are thought to be floats",
    breaks="a pair of integers",
)

the_other_way_round = edited(
    "work",
    {"return flops, elements * item_bytes[dtype]": "return elements * item_bytes[dtype], flops"},
    loses=NO_WORK,
    because="the order of the pair is not read",
    breaks="floating-point operations, and the bytes that must move",
)

any_kind_will_do = edited(
    "work",
    {"not in counts or dtype": "in () or dtype"},
    loses=("errors",),
    because="a KeyError is thought to say enough",
    breaks=REFUSED,
)

any_format_will_do = edited(
    "work",
    {
        " or dtype not in item_bytes": "",
        "elements * item_bytes[dtype]": "elements * item_bytes.get(dtype, 4)",
    },
    loses=("errors",),
    because="a format that is not known is taken for float32",
    breaks=REFUSED,
)

a_part_of_the_name = edited(
    "work",
    {
        'operation["kind"] not in counts': 'not any(name in operation["kind"] for name in counts)',
        'counts[operation["kind"]](**size)': 'next(counts[name] for name in counts if name in operation["kind"])(**size)',
    },
    loses=("errors",),
    because="a name is compared by what it contains",
    breaks=REFUSED,
)

in_capitals_too = edited(
    "work",
    {
        'operation["kind"] not in counts or dtype not in': 'operation["kind"].lower() not in counts or dtype.lower() not in',
        'counts[operation["kind"]]': 'counts[operation["kind"].lower()]',
        "item_bytes[dtype]": "item_bytes[dtype.lower()]",
    },
    loses=("errors",),
    because="capitals are thought to make no difference",
    breaks=REFUSED,
)

reads_the_sizes_first = edited(
    "work",
    {
        "    counts = {": (
            '    if {"k", "width", "head_dim"}.isdisjoint(size):\n        raise KeyError("sizes")\n    counts = {'
        )
    },
    loses=("errors",),
    because="an operation that is not known is thought to have sizes that are",
    breaks=REFUSED,
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


@alternative("work")
def shapes_of_all_tensors(operation, dtype):
    """Bytes from the shapes, operations from the products' shapes; with a match statement."""
    from math import prod

    class Unknown(ValueError):
        pass

    match operation:
        case {"kind": "gemm", "m": m, "n": n, "k": k}:
            shapes, flops = [(m, k), (k, n), (m, n)], 2 * prod((m, n, k))
        case {"kind": "gemv", "m": m, "k": k}:
            shapes, flops = [(m, k), (k,), (m,)], 2 * prod((m, k))
        case {"kind": "layer_norm", "rows": rows, "width": width}:
            shapes, flops = [(rows, width), (width,), (width,), (rows, width)], 8 * rows * width
        case {"kind": "decode_attention", "batch": b, "heads": h, "kv_heads": g, "head_dim": d, "context": c}:
            shapes, flops = [(b, h, 1, d), (b, g, c, d), (b, g, c, d), (b, h, 1, d)], 2 * (2 * b * h * c * d)
        case _:
            raise Unknown(operation)
    if dtype in ("fp32", "tf32"):
        return [flops, 4 * sum(map(prod, shapes))]
    if dtype in ("bf16", "fp16"):
        return [flops, 2 * sum(map(prod, shapes))]
    if dtype in ("fp8", "int8"):
        return [flops, sum(map(prod, shapes))]
    raise Unknown(dtype)


@alternative("work")
def with_numpy_and_a_class(operation, dtype):
    import numpy as np

    class Operation:
        def __init__(self, kind, **sizes):
            self.kind = kind
            self.sizes = {name: np.int64(size) for name, size in sizes.items()}

        def counts(self):
            counter = getattr(self, "_" + self.kind, None)
            if not callable(counter) or self.kind.startswith("_"):
                raise ValueError(f"unknown operation {self.kind}")
            return counter(**self.sizes)

        def _gemm(self, m, n, k):
            return 2 * m * n * k, m * k + n * k + m * n

        def _gemv(self, m, k):
            return self._gemm(m, 1, k)

        def _layer_norm(self, rows, width):
            return 8 * rows * width, 2 * width * (rows + 1)

        def _decode_attention(self, batch, heads, kv_heads, head_dim, context):
            flops = batch * heads * (self._gemv(context, head_dim)[0] + self._gemv(head_dim, context)[0])
            return flops, 2 * batch * head_dim * (kv_heads * context + heads)

    try:
        width = dict(zip("tf32 fp32 fp16 bf16 fp8 int8".split(), (4, 4, 2, 2, 1, 1), strict=True))[dtype]
    except KeyError as error:
        raise ValueError(dtype) from error
    flops, elements = Operation(**operation).counts()
    return flops, width * elements


# E4.5 roofline ----------------------------------------------------------------------------

NO_ROOF = ("seconds", "dense", "formats", "units", "bound", "errors")
HALVED = ' / (2 if kind == "with sparsity" else 1)'
MAKES_NO_SENSE = "min(flops, nbytes) < 0 or flops == nbytes == 0"

unbreakable_of_roofline = [
    unbreakable("roofline", "floating-point operations; `nbytes`: bytes that move. Integers", "what the arguments are"),
]

the_sparse_peak = edited(
    "roofline",
    {HALVED: ""},
    loses=("dense",),
    because="the largest figure of a datasheet is taken for the peak",
    breaks="the matrices are **dense**",
)

every_peak_halved = edited(
    "roofline",
    {HALVED: " / 2"},
    loses=NO_ROOF,
    because="every figure is thought to be one with sparsity",
    breaks='the third entry of a peak is `"dense"` or `"with sparsity"`',
)

sparse_is_slower = edited(
    "roofline",
    {HALVED: ' * (2 if kind == "with sparsity" else 1)'},
    loses=("dense",),
    because="the figure is doubled where it was doubled already",
    breaks="the matrices are **dense**",
)

half_of_what_tensor_cores_do = edited(
    "roofline",
    {HALVED: ' / (1 if dtype in ("fp32", "fp64") else 2)'},
    loses=("dense", "formats", "units"),
    because="the H100's sheet is known by heart, and the third entry not read",
    breaks='the third entry of a peak is `"dense"` or `"with sparsity"`',
)

sparse_where_any_is = edited(
    "roofline",
    {HALVED: ' / (2 if any("sparsity" in peak[2] for peak in card["peaks"].values()) else 1)'},
    loses=("dense",),
    because="a footnote is thought to hold for the whole sheet",
    breaks='the third entry of a peak is `"dense"` or `"with sparsity"`',
)

the_peak_of_fp32 = edited(
    "roofline",
    {'card["peaks"][dtype]\n': 'card["peaks"]["fp32"]\n'},
    loses=("formats", "dense", "units"),
    because="a card is thought to have one peak",
    breaks="the format of the arithmetic",
)

the_largest_peak = edited(
    "roofline",
    {'card["peaks"][dtype]\n': 'max(card["peaks"].values(), key=lambda peak: peak[0])\n'},
    loses=NO_ROOF,
    because="a card is thought to have one peak",
    breaks="the format of the arithmetic",
)

peaks_known_by_heart = edited(
    "roofline",
    {"if dtype not in card": 'if dtype not in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8") or dtype not in card'},
    loses=("formats",),
    because="formats are thought to be those of one card",
    breaks="It may list other formats",
)

binary_prefixes = edited(
    "roofline",
    {'"GB/s": 1e9, "TB/s": 1e12': '"GB/s": 2**30, "TB/s": 2**40'},
    loses=NO_ROOF,
    because="a gigabyte of a datasheet is taken for a gibibyte",
    breaks="(10⁹ and 10¹² bytes per second)",
)

everything_is_tera = edited(
    "roofline",
    {'"PFLOPS": 1e15': '"PFLOPS": 1e12'},
    loses=("units",),
    because="the letter before FLOPS is not read",
    breaks='`"TFLOPS"` or `"PFLOPS"`',
)

memory_in_gigabytes = edited(
    "roofline",
    {'"GB/s": 1e9, "TB/s": 1e12': '"GB/s": 1e9, "TB/s": 1e9'},
    loses=("units",),
    because="the letter before B/s is not read",
    breaks='Rates are `"GB/s"` or `"TB/s"`',
)

memory_in_bits = edited(
    "roofline",
    {"traffic = flops / peak, nbytes": "traffic = flops / peak, 8 * nbytes"},
    loses=NO_ROOF,
    because="bits are taken for bytes",
    breaks="bytes that move",
)

one_unit_for_all_peaks = edited(
    "roofline",
    {"rate * unit[per_second] / (2": 'rate * unit[list(card["peaks"].values())[0][1]] / (2'},
    loses=("units",),
    because="the unit of the first row is taken for that of the table",
    breaks="each peak has its own unit",
)

one_after_the_other = edited(
    "roofline",
    {"max(arithmetic, traffic)": "arithmetic + traffic"},
    loses=NO_ROOF,
    because="arithmetic is thought to wait for the memory; with enough warps they overlap",
    breaks="when arithmetic and memory traffic overlap fully",
)

the_shorter_one = edited(
    "roofline",
    {"max(arithmetic, traffic)": "min(arithmetic, traffic)"},
    loses=NO_ROOF,
    because="the roof is taken for the higher of the two",
    breaks="the least time that the work can take",
)

in_microseconds = edited(
    "roofline",
    {"max(arithmetic, traffic)": "1e6 * max(arithmetic, traffic)"},
    loses=NO_ROOF,
    because="the unit in the key is not read",
    breaks='`"seconds"`, the least time',
)

the_other_bound = edited(
    "roofline",
    {'"compute" if arithmetic >= traffic else "memory"': '"memory" if arithmetic >= traffic else "compute"'},
    loses=("bound",),
    because="what takes longer is thought to be what there is enough of",
    breaks="whichever takes longer",
)

memory_where_they_tie = edited(
    "roofline",
    {"arithmetic >= traffic": "arithmetic > traffic"},
    loses=("bound",),
    because="at the ridge itself the kernel is thought to wait for memory still",
    breaks='(`"compute"` where they tie)',
)

bound_by_the_printed_peak = edited(
    "roofline",
    {'"compute" if arithmetic >= traffic': '"compute" if flops / (rate_printed * unit[unit_printed]) >= traffic'}
    | {"    rate, per_second = card": '    rate_printed, unit_printed, _ = card["peaks"][dtype]\n    rate, per_second = card'},
    loses=("bound",),
    because="the peak is halved for the time and forgotten for the bound",
    breaks='`"bound"`, `"compute"` or `"memory"`',
)

ridge_of_the_printed_peak = edited(
    "roofline",
    {'"ridge": peak / bandwidth': '"ridge": card["peaks"][dtype][0] * unit[card["peaks"][dtype][1]] / bandwidth'},
    loses=("bound",),
    because="the peak is halved for the time and forgotten for the ridge",
    breaks='`"ridge"`, the arithmetic intensity (operations per byte) from which on work in that format is compute-bound',
)

ridge_of_fp32 = edited(
    "roofline",
    {'"ridge": peak / bandwidth': (
        '"ridge": peak / bandwidth if "fp32" not in card["peaks"] else card["peaks"]["fp32"][0]'
        ' * unit[card["peaks"]["fp32"][1]] / (2 if card["peaks"]["fp32"][2] == "with sparsity" else 1) / bandwidth'
    )},
    loses=("bound",),
    because="a card is thought to have one ridge",
    breaks="work in that format is compute-bound on that card",
)

sparse_ridge_of_a_narrow_format = edited(
    "roofline",
    {'"ridge": peak / bandwidth': '"ridge": (2 if kind == "with sparsity" and dtype == "fp8" else 1) * peak / bandwidth'},
    loses=("bound",),
    because="the peak is halved for the formats that were tried",
    breaks='`"ridge"`, the arithmetic intensity (operations per byte) from which on work in that format is compute-bound',
)

remembers_the_work = edited(
    "roofline",
    {
        "def roofline(flops": "TIMES = {}\n\n\ndef roofline(flops",
        '"seconds": max(arithmetic, traffic)': '"seconds": TIMES.setdefault((flops, nbytes, dtype), max(arithmetic, traffic))',
    },
    loses=NO_ROOF,
    because="work is thought to take its time on any card",
    breaks="the least time that the work can take",
)

remembers_the_card = edited(
    "roofline",
    {
        "def roofline(flops": "TIMES = {}\n\n\ndef roofline(flops",
        '"seconds": max(arithmetic, traffic)': (
            '"seconds": TIMES.setdefault((flops, nbytes, str(card)), max(arithmetic, traffic))'
        ),
    },
    loses=("formats",),
    because="the first format that work was timed in is thought to be its own",
    breaks="the format of the arithmetic",
)

intensity_for_ridge = edited(
    "roofline",
    {'"ridge": peak / bandwidth': '"ridge": flops / nbytes if nbytes else peak / bandwidth'},
    loses=("bound",),
    because="what the work has is taken for what the card needs",
    breaks='`"ridge"`, the arithmetic intensity (operations per byte) from which on work in that format is compute-bound',
)

ridge_upside_down = edited(
    "roofline",
    {"peak / bandwidth": "bandwidth / peak"},
    loses=("bound",),
    because="bytes an operation are taken for operations a byte",
    breaks="the arithmetic intensity (operations per byte) from which on",
)

ridge_as_printed = edited(
    "roofline",
    {'"ridge": peak / bandwidth': '"ridge": card["peaks"][dtype][0] / card["memory"][0]'},
    loses=("bound",),
    because="numbers are divided whose units are not those of each other",
    breaks="the arithmetic intensity (operations per byte)",
)

no_work_without_both = edited(
    "roofline",
    {MAKES_NO_SENSE: "min(flops, nbytes) <= 0"},
    loses=("bound",),
    because="a copy, which has no arithmetic, is thought to be no work",
    breaks="either may be 0",
)

divides_by_the_bytes = edited(
    "roofline",
    {"    arithmetic, traffic =": "    intensity = flops / nbytes\n    arithmetic, traffic ="},
    loses=("bound",),
    because="work that moves nothing is thought not to exist",
    breaks="either may be 0",
)

halves_the_sheet = edited(
    "roofline",
    {
        "    rate, per_second, kind =": (
            '    for name, (rate, per_second, kind) in card["peaks"].items():\n'
            '        if kind == "with sparsity":\n'
            '            card["peaks"][name] = (rate / 2, per_second, "dense")\n'
            "    rate, per_second, kind ="
        )
    },
    loses=("dense", "bound"),
    because="an argument is thought to be one's own",
    breaks="which is left as it is",
)

falls_back_to_fp32 = edited(
    "roofline",
    {"    if dtype not in card": '    if dtype not in card["peaks"]:\n        dtype = "fp32"\n    if dtype not in card'},
    loses=("errors",),
    because="a card without a unit for a format is thought to run it anyway, and the question to have an answer",
    breaks="raises `ValueError` for a format for which the card has no peak",
)

a_key_error_says_it = edited(
    "roofline",
    {'if dtype not in card["peaks"]:': "if False:"},
    loses=("errors",),
    because="a KeyError is thought to say enough",
    breaks="raises `ValueError` for a format for which the card has no peak",
)

takes_any_count = edited(
    "roofline",
    {MAKES_NO_SENSE: "False"},
    loses=("errors",),
    because="counts are thought to be right",
    breaks="for a negative count, and where both counts are 0",
)

nothing_takes_no_time = edited(
    "roofline",
    {MAKES_NO_SENSE: "min(flops, nbytes) < 0"},
    loses=("errors",),
    because="no work is thought to be work that is done at once",
    breaks="where both counts are 0",
)

adds_the_counts = edited(
    "roofline",
    {MAKES_NO_SENSE: "flops + nbytes <= 0"},
    loses=("errors",),
    because="a negative count is thought to show in a sum",
    breaks="for a negative count",
)

multiplies_the_counts = edited(
    "roofline",
    {MAKES_NO_SENSE: "flops * nbytes < 0 or flops == nbytes == 0"},
    loses=("errors",),
    because="a negative count is thought to show in a product",
    breaks="for a negative count",
)

negative_bytes_only = edited(
    "roofline",
    {MAKES_NO_SENSE: "nbytes < 0 or flops == nbytes == 0"},
    loses=("errors",),
    because="only one of the two counts is looked at",
    breaks="for a negative count",
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


@alternative("roofline")
def in_tera_with_numpy(flops, nbytes, card, dtype):
    """Everything in units of 10^12, sorted, and a key more than is asked for."""
    import numpy as np

    class NoSuchWork(ValueError):
        pass

    rates = {"GB/s": 1e-3, "TB/s": 1, "TFLOPS": 1, "PFLOPS": 1e3}
    if card["peaks"].get(dtype) is None or np.min([flops, nbytes]) < 0 or not np.any([flops, nbytes]):
        raise NoSuchWork(dtype, flops, nbytes)
    number, unit, kind = card["peaks"][dtype]
    peak = np.float64(number) * rates[unit] * (0.5 if kind == "with sparsity" else 1.0)
    bandwidth = np.float64(card["memory"][0]) * rates[card["memory"][1]]
    times = np.array([nbytes / bandwidth, flops / peak]) / 1e12
    bound = ("memory", "compute")[int(times[1] >= times[0])]
    return {"seconds": times.max(), "bound": bound, "ridge": peak / bandwidth, "milliseconds": 1e3 * times.max()}


@alternative("roofline")
def with_fractions(flops, nbytes, card, dtype):
    """Exact until the end, in a helper class."""
    from fractions import Fraction

    class Rate:
        powers = {"G": 9, "T": 12, "P": 15}

        def __init__(self, number, unit, kind="dense"):
            self.value = Fraction(number) * 10 ** self.powers[unit[0]]
            if kind == "with sparsity":
                self.value /= 2

    if dtype not in list(card["peaks"]):
        raise ValueError("no such peak")
    if any(count < 0 for count in (flops, nbytes)):
        raise ValueError("negative")
    if not flops and not nbytes:
        raise ValueError("no work")
    peak, memory = Rate(*card["peaks"][dtype]).value, Rate(*card["memory"]).value
    compute = flops * memory >= nbytes * peak
    return dict(
        seconds=float(flops / peak if compute else nbytes / memory),
        bound="compute" if compute else "memory",
        ridge=float(peak / memory),
    )
