"""Chapter "Collectives and interconnects": wrong solutions, and right ones written another way."""

import itertools
import math

import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E13.1 ring_all_reduce

NO_SUM = ("values", "ragged", "bytes", "no_hot_rank", "steps", "errors")

SPLIT = "chunks = buf.tensor_split(world)"
SENT = "        sent = send(out, following)\n"
RECEIVED = "        recv(came, previous)\n"
WAITED = "        sent.wait()"
REFUSED = """\
    if buf.dim() != 1:
        raise ValueError(f"a buffer of {buf.dim()} dimensions is not cut into chunks")
"""
MADE = "        came = torch.empty_like(into)\n"

waits_for_its_own_message_first = edited(
    "ring_all_reduce",
    {SENT: "        send(out, following).wait()\n", WAITED: ""},
    loses=NO_SUM,
    because="a send is thought to be over when it returns, and so to be waited for at once",
    breaks="`handle.wait()` blocks until rank `to` has received them",
)

receives_before_it_sends = edited(
    "ring_all_reduce",
    {SENT: "", RECEIVED: RECEIVED + SENT},
    loses=NO_SUM,
    because="a rank is thought to answer what it gets",
    breaks="blocks until the next message from rank `source` is in `tensor`",
)

one_rank_after_another = edited(
    "ring_all_reduce",
    {SENT: "        if rank == 0:\n            sent = send(out, following)\n", RECEIVED: RECEIVED + "        if rank:\n            sent = send(out, following)\n"},
    loses=("steps",),
    because="one rank that sends first is thought to be all that a ring needs",
    breaks="no rank waits before it sends what it already has",
)

even_ranks_first = edited(
    "ring_all_reduce",
    {
        SENT: "        if rank % 2 == 0:\n            sent = send(out, following)\n",
        RECEIVED: RECEIVED + "        if rank % 2:\n            sent = send(out, following)\n",
    },
    loses=("steps",),
    because="sends are thought to block, so that half of the ranks has to take the other turn",
    breaks="it takes **at most 2 (world - 1) steps**",
)

element_by_element = edited(
    "ring_all_reduce",
    {
        SENT: "        sent = [send(out[i : i + 1], following) for i in range(len(out))]\n",
        RECEIVED: "        for i in range(len(came)):\n            recv(came[i : i + 1], previous)\n",
        WAITED: "        for handle in sent:\n            handle.wait()",
    },
    loses=("steps",),
    because="many small messages are thought to cost what a large one costs",
    breaks="In one step every rank may send one message and receive another",
)

adds_on_the_second_way_too = edited(
    "ring_all_reduce",
    {"into + came if step < world - 1 else came": "into + came"},
    loses=NO_SUM,
    because="the second way around the ring is thought to be like the first",
    breaks="`buf` holds the **sum** over all ranks in every rank",
)

last_chunk_is_the_wrong_one = edited(
    "ring_all_reduce",
    {"out, into = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]": (
        "last = step == 2 * (world - 1) - 1\n"
        "        out, into = chunks[(rank - step + last) % world], chunks[(rank - step - 1 + last) % world]"
    )},
    loses=NO_SUM,
    because="the steps are numbered from 1 in the end",
    breaks="`buf` holds the **sum** over all ranks in every rank",
)

one_way_only = edited(
    "ring_all_reduce",
    {"range(2 * (world - 1))": "range(world - 1)"},
    loses=NO_SUM,
    because="a chunk that is complete somewhere is thought to be complete everywhere",
    breaks="holds the **sum** over all ranks in every rank",
)

mean_instead_of_sum = edited(
    "ring_all_reduce",
    {WAITED: WAITED + "\n    buf.div_(world) if buf.is_floating_point() else None\n"},
    loses=NO_SUM,
    because="gradients are averaged, so an all-reduce is thought to average",
    breaks="the **sum** over all ranks",
)

in_a_copy = edited(
    "ring_all_reduce",
    {SPLIT: "chunks = buf.contiguous().tensor_split(world)"},
    loses=NO_SUM,
    because="a contiguous copy is taken for the buffer itself",
    breaks="any strides",
)

works_in_a_copy_and_returns_it = edited(
    "ring_all_reduce",
    {SPLIT: "buf = buf.clone()\n    " + SPLIT, WAITED: WAITED + "\n    return buf\n"},
    loses=NO_SUM,
    because="a result is thought to be what is returned",
    breaks="written in place",
)

writes_between = edited(
    "ring_all_reduce",
    {SPLIT: (
        "apart = torch.zeros(len(buf) * buf.stride(0), dtype=buf.dtype)[: max(0, (len(buf) - 1) * buf.stride(0) + 1)]\n"
        "    apart[:: buf.stride(0)] = buf\n    whole = buf.as_strided(apart.shape, (1,))\n    whole.copy_(apart)\n    " + SPLIT
    )},
    loses=NO_SUM,
    because="what lies between the elements is thought to be the buffer's own",
    breaks="Nothing else in its storage has changed",
)

single_precision = edited(
    "ring_all_reduce",
    {MADE: "        came = torch.empty(len(into))\n"},
    loses=NO_SUM,
    because="a new tensor is thought to take the dtype of the one that is meant",
    breaks="`recv(tensor, source)` blocks until the next message from rank `source` is in `tensor`, which has the message's length and dtype",
)

rows_of_equal_length = edited(
    "ring_all_reduce",
    {SPLIT: "chunks = buf.unflatten(0, (world, -1))"},
    loses=("ragged",),
    because="a buffer is thought to be cut into equal chunks, always",
    breaks="`world` need not divide the length",
)

rest_is_left_out = edited(
    "ring_all_reduce",
    {SPLIT: "size = len(buf) // world\n    chunks = [buf[i * size : (i + 1) * size] for i in range(world)]"},
    loses=("ragged",),
    because="the remainder of a division is forgotten",
    breaks="`world` need not divide the length",
)

chunks_of_the_library = edited(
    "ring_all_reduce",
    {SPLIT: "chunks = buf.chunk(world)"},
    loses=("ragged",),
    because="torch.chunk is thought to give as many chunks as it is asked for",
    breaks="the length may be smaller than `world`, or 0",
)


@mistake(
    "ring_all_reduce",
    loses=NO_SUM,
    because="float64 is thought to hold every integer of 64 bits",
    breaks="`int64`",
)
def integers_as_float64(rank, world, buf, send, recv):
    if buf.dim() != 1:
        raise ValueError("one dimension is due")
    work = buf.to(buf.dtype if buf.dtype.is_floating_point else torch.float64, copy=True)
    chunks = work.tensor_split(world)
    for step in range(2 * (world - 1)):
        handle = send(chunks[(rank - step) % world], (rank + 1) % world)
        into = chunks[(rank - step - 1) % world]
        recv(came := torch.empty_like(into), (rank - 1) % world)
        into.copy_(came + into if step < world - 1 else came)
        handle.wait()
    buf.copy_(work)


@mistake(
    "ring_all_reduce",
    loses=("no_hot_rank",),
    because="all bytes together are thought to be what counts, whichever link carries them",
    breaks="**no rank is a hot spot**: no rank sends or receives more elements than another",
)
def gathered_at_rank_0(rank, world, buf, send, recv):
    if buf.dim() != 1:
        raise ValueError("one dimension is due")
    others = range(1, world)
    if rank == 0:
        came = torch.empty_like(buf)
        for other in others:
            recv(came, other)
            buf += came
        for handle in [send(buf, other) for other in others]:
            handle.wait()
    else:
        send(buf, 0).wait()
        recv(came := torch.empty_like(buf), 0)
        buf.copy_(came)


@mistake(
    "ring_all_reduce",
    loses=("bytes",),
    because="everybody is thought to need everybody's buffer",
    breaks="**a rank sends at most 2 (world - 1) chunks**",
)
def everything_to_everybody(rank, world, buf, send, recv):
    if buf.dim() != 1:
        raise ValueError("one dimension is due")
    handles = [send(buf, (rank + i) % world) for i in range(1, world)]
    came = [torch.empty_like(buf) for _ in range(1, world)]
    for i, tensor in enumerate(came, 1):
        recv(tensor, (rank - i) % world)
    for tensor in came:
        buf += tensor
    for handle in handles:
        handle.wait()


@mistake(
    "ring_all_reduce",
    loses=NO_SUM,
    because="the library's own all-reduce is thought to be one way to write it",
    breaks="only by `send` and `recv`, and each element of a message is the sum of some ranks' elements: no collective of the library",
)
def by_the_library(rank, world, buf, send, recv):
    if buf.dim() != 1:
        raise ValueError("one dimension is due")
    dist.all_reduce(buf)


unchecked = edited(
    "ring_all_reduce",
    {REFUSED: ""},
    loses=("errors",),
    because="a cut along the first dimension is thought to do for any number of them",
    breaks="raises `ValueError` in every rank when `buf` is not one-dimensional",
)

refused_by_one_rank = edited(
    "ring_all_reduce",
    {"if buf.dim() != 1:": "if buf.dim() != 1 and rank == 0:"},
    loses=("errors",),
    because="one rank that complains is thought to be enough",
    breaks="raises `ValueError` in every rank",
)

refused_in_the_end = edited(
    "ring_all_reduce",
    {
        REFUSED: "    whole, buf = buf, buf.reshape(-1)\n",
        WAITED: WAITED + "\n    if whole.dim() != 1:\n        raise ValueError('one dimension is due')\n",
    },
    loses=("errors",),
    because="what cannot be right is thought to be refused at any time",
    breaks="before anything is sent",
)

alone_is_refused = edited(
    "ring_all_reduce",
    {"if buf.dim() != 1:": "if buf.dim() != 1 or world < 2:"},
    loses=NO_SUM,
    because="a ring is thought to have two ranks at least",
    breaks="the number of ranks, one or more",
)

said_of_ring_all_reduce = [
    equivalent_mutant("ring_all_reduce", "sent.wait()", "pass", because="what is sent is taken at once, and the next rank gets it all the same"),
    unbreakable("ring_all_reduce", "`rank`: the number of this rank, from 0", because="it says what is handed over"),
    unbreakable("ring_all_reduce", "copies the elements of `tensor` at once, and returns a handle", because="it says what send does"),
    unbreakable("ring_all_reduce", "a chunk is `1 / world` of the buffer, rounded up to whole elements", because="it says what a word means"),
    unbreakable("ring_all_reduce", "a message sent after a `recv` belongs to a later step than the message received", because="it says how steps are counted"),
]


@alternative("ring_all_reduce")
def the_other_way_around(rank, world, buf, send, recv):
    if buf.ndim != 1:
        raise ValueError("a vector is due")
    ends = [len(buf) * i // world for i in range(world + 1)]
    parts = [buf[a:b] for a, b in zip(ends, ends[1:])]
    held = rank
    for _ in range(world - 1):
        handle = send(parts[held], (rank - 1) % world)
        held = (held + 1) % world
        room = parts[held].clone()
        recv(room, (rank + 1) % world)
        parts[held].add_(room)
        handle.wait()
    for _ in range(world - 1):
        handle = send(parts[held], (rank - 1) % world)
        held = (held + 1) % world
        recv(parts[held], (rank + 1) % world)
        handle.wait()


@alternative("ring_all_reduce")
def filled_up_to_equal_chunks(rank, world, buf, send, recv):
    if buf.dim() != 1:
        raise ValueError("a vector is due")
    size = -(-len(buf) // world)
    table = torch.zeros(world * size, dtype=buf.dtype)
    table[: len(buf)] = buf
    table = table.reshape(world, size)
    for turn in range(2 * world - 2):
        send(table[(rank - turn) % world], (rank + 1) % world)
        row = torch.zeros(size, dtype=buf.dtype)
        recv(row, (rank - 1) % world)
        mine = table[(rank - turn - 1) % world]
        mine[:] = mine + row if turn < world - 1 else row
    buf[:] = table.reshape(-1)[: len(buf)]


@alternative("ring_all_reduce")
def straight_to_whom_it_concerns(rank, world, buf, send, recv):
    """Every chunk has an owner, to whom all send their part, and who sends the sum to all."""
    if buf.dim() != 1:
        raise ValueError("a vector is due")
    parts = buf.tensor_split(world)
    for turn in range(1, world):
        send(parts[(rank + turn) % world], (rank + turn) % world)
        came = torch.empty_like(parts[rank])
        recv(came, (rank - turn) % world)
        parts[rank].add_(came)
    for turn in range(1, world):
        send(parts[rank], (rank + turn) % world)
        recv(parts[(rank - turn) % world], (rank - turn) % world)


# E13.2 collective_time

NO_TIME = ("rings", "whole", "chunks", "units", "errors")
NO_RINGS = ("rings", "chunks", "units", "errors")
RETURNS = "return steps * (alpha[0] * seconds[alpha[1]] + "


def timed(edits, loses, because, breaks):
    return edited("collective_time", edits, loses=loses, because=because, breaks=breaks)


no_latency = timed(
    {"alpha[0] * seconds[alpha[1]] + ": ""},
    NO_TIME,
    "a link is thought to cost bytes only",
    "a message of m bytes takes `alpha` plus m divided by the bytes per second of one direction",
)
latency_once = timed(
    {RETURNS: "return alpha[0] * seconds[alpha[1]] + steps * ("},
    NO_TIME,
    "the latencies of all steps are thought to pass at once",
    "A step takes as long as its largest message, and the next begins when it is over",
)
one_lap = timed(
    {'if kind == "all_reduce":': "if False:"},
    NO_TIME,
    "an all-reduce is thought to be over when the sums are there, each at one rank",
    "and twice as many for an `all_reduce`",
)
whole_buffer_in_each_step = timed(
    {"nbytes if whole else -(-nbytes // n)": "nbytes"},
    NO_RINGS,
    "each step is thought to carry the buffer",
    "cut the buffer into `n` chunks of whole bytes",
)
share_of_an_all_gather = timed(
    {"-(-nbytes // n)": '(nbytes if kind == "all_gather" else -(-nbytes // n))'},
    NO_RINGS,
    "an all-gather is thought to be measured by what a rank brings",
    "for an `all_gather` the size of each rank's output",
)
as_many_steps_as_ranks = timed(
    {"steps = n - 1 if": "steps = n if"},
    NO_TIME,
    "a lap is thought to have as many steps as ranks",
    "in each step every chunk moves on by one rank: n - 1 steps",
)
everybody_at_once = timed(
    {"steps = n - 1 if": "steps = min(n - 1, 1) if"},
    NO_TIME,
    "ranks of a ring are thought to reach every other in one step",
    'with `"ring"`, each rank sends only to the next rank',
)
reduced_one_by_one = timed(
    {'if algorithm == "ring" else (n - 1).bit_length()': 'if algorithm == "ring" or kind == "reduce" else (n - 1).bit_length()'},
    ("whole",),
    "sums are thought to be made at one place, one after another",
    "a `reduce` is the same in reverse",
)
alone_and_waiting = timed(
    {RETURNS: "return max(steps, 1) * (alpha[0] * seconds[alpha[1]] + "},
    NO_TIME,
    "a collective is thought to send at least once",
    "A single rank takes no steps and no time",
)
nothing_takes_no_time = timed(
    {RETURNS: "return 0.0 if nbytes == 0 else steps * (alpha[0] * seconds[alpha[1]] + "},
    NO_TIME,
    "an empty message is thought not to be sent",
    "bytes of the whole buffer, an integer, 0 or more",
)
in_turn = timed(
    {RETURNS: "return 2 * steps * (alpha[0] * seconds[alpha[1]] + "},
    NO_TIME,
    "a rank is thought to receive first and to send then",
    "each rank may send one message and receive another at the same time",
)
microseconds = timed(
    {RETURNS: "return 1e6 * steps * (alpha[0] * seconds[alpha[1]] + "},
    NO_TIME,
    "times of networks are thought to be microseconds by themselves",
    "returns the time in seconds, a float",
)
divided_bytes = timed(
    {"-(-nbytes // n)": "nbytes / n"},
    ("chunks",),
    "a byte is thought to be divisible",
    "chunks of whole bytes, as equal as possible",
)
lost_rest = timed(
    {"-(-nbytes // n)": "nbytes // n"},
    ("chunks",),
    "what does not share out is thought not to be sent",
    "chunks of whole bytes, as equal as possible",
)
both_ways_at_once = timed(
    {"1e9 / 2": "1e9"},
    ("units",),
    "900 GB/s are thought to be there in each direction",
    '`"GB/s both ways"`, the two directions added up',
)
half_of_every_link = timed(
    {'"GB/s": 1e9,': '"GB/s": 1e9 / 2,'},
    NO_TIME,
    "every printed bandwidth is thought to be of both directions",
    '`"GB/s"`, 10^9 bytes a second in each direction',
)
bits_for_bytes = timed(
    {"1e9 / 8": "1e9"},
    ("units",),
    "400 Gb/s are thought to be 400 GB/s",
    '`"Gb/s"`, 10^9 **bits** a second in each direction',
)
nanoseconds_for_micro = timed(
    {'"ns": 1e-9': '"ns": 1e-6'},
    ("units",),
    "latencies are thought to be microseconds whatever is printed",
    'a tuple of a number and `"ns"`, `"us"` or `"ms"`',
)
too_few_rounds = timed(
    {"(n - 1).bit_length()": "n.bit_length() - 1"},
    ("whole",),
    "ranks beyond a power of two are thought to be served on the way",
    "every rank that has the buffer sends it to one that does not have it",
)
one_after_another = timed(
    {"(n - 1).bit_length()": "n - 1"},
    ("whole",),
    "a tree is thought to have one sender",
    "In each step of a `broadcast` every rank that has the buffer",
)
broadcast_in_chunks = timed(
    {'algorithm == "tree" or kind in ("broadcast", "reduce")': 'algorithm == "tree"'},
    ("whole",),
    "whatever goes round a ring is thought to go in chunks",
    "`broadcast` and `reduce` pass the whole buffer from rank to rank, in n - 1 steps",
)
chunks_through_a_tree = timed(
    {'algorithm == "tree" or kind in ("broadcast", "reduce")': 'kind in ("broadcast", "reduce")'},
    ("whole",),
    "an all-reduce is thought to go in chunks whatever its algorithm",
    'with `"tree"` (a binomial tree), whole buffers are sent',
)
tree_up_and_not_down = timed(
    {'if kind == "all_reduce":': 'if kind == "all_reduce" and algorithm == "ring":'},
    ("whole",),
    "a tree is thought to be over at its root",
    "an `all_reduce` is a `reduce` and then a `broadcast`",
)
no_reduce = timed(
    {'("all_reduce", "broadcast", "reduce") + (': '("all_reduce", "broadcast") + ('},
    ("whole",),
    "a reduce is thought to be another name for an all-reduce",
    '`"all_gather"`, `"broadcast"` or `"reduce"`',
)
whatever_it_is_called = timed(
    {"if n < 1 or nbytes < 0 or not known:": "if n < 1 or nbytes < 0:"},
    ("errors",),
    "a dictionary is thought to refuse what it does not have, in the right way",
    "for a kind, an algorithm or a unit that is not named here",
)
no_ranks = timed(
    {"n < 1 or": "n < 0 or"}, ("errors",), "0 is thought to be a number of ranks", "for `n` less than 1"
)
negative_bytes = timed(
    {"nbytes < 0 or ": ""}, ("errors",), "fewer than no bytes are thought to be nobody's business", "for `nbytes` less than 0"
)
tree_for_everything = timed(
    {'(("reduce_scatter", "all_gather") if algorithm == "ring" else ())': '("reduce_scatter", "all_gather")'},
    ("errors",),
    "whatever has a ring is thought to have a tree",
    'and for `"tree"` with `reduce_scatter` or `all_gather`',
)
what_an_allreduce_begins_with = unbreakable(
    "collective_time", "It is the size of each rank's input", "what `nbytes` means of the other kinds"
)
how_many = unbreakable("collective_time", "`n`: the number of ranks, an integer, 1 or more", "what it is called with")
as_printed = unbreakable("collective_time", "the bandwidth of each rank's link as its vendor prints it", "what it is called with")


@alternative("collective_time")
def step_after_step(kind, nbytes, n, alpha, beta, algorithm="ring"):
    units = {("s", "ns"): 1e-9, ("s", "us"): 1e-6, ("s", "ms"): 1e-3, ("B", "GB/s"): 1.0, ("B", "GB/s both ways"): 0.5, ("B", "Gb/s"): 0.125}
    if ("s", alpha[1]) not in units or ("B", beta[1]) not in units or n <= 0 or nbytes <= -1:
        raise ValueError("unknown units or sizes")
    largest = {"ring": {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}, "tree": {}}
    whole = {"ring": {"broadcast": 1, "reduce": 1}, "tree": {"all_reduce": 2, "broadcast": 1, "reduce": 1}}
    try:
        laps = {**largest[algorithm], **whole[algorithm]}[kind]
    except KeyError:
        raise ValueError(kind, algorithm) from None
    message = math.ceil(nbytes / n) if kind in largest[algorithm] and nbytes < 2**50 else nbytes
    total, having = 0.0, 1
    while having < n:
        total += laps * (alpha[0] * units["s", alpha[1]] + message / (beta[0] * 1e9 * units["B", beta[1]]))
        having = having * 2 if algorithm == "tree" else having + 1
    return total


@alternative("collective_time")
def as_sums_of_others(kind, nbytes, n, alpha, beta, algorithm="ring"):
    if kind == "all_reduce":
        halves = ("reduce_scatter", "all_gather") if algorithm == "ring" else ("reduce", "broadcast")
        return sum(collective_time(half, nbytes, n, alpha, beta, algorithm) for half in halves)  # noqa: F821
    if algorithm not in ("ring", "tree") or n < 1 or nbytes < 0 or kind not in ("reduce_scatter", "all_gather", "reduce", "broadcast"):
        raise ValueError(kind)
    if algorithm == "tree" and kind in ("reduce_scatter", "all_gather"):
        raise ValueError("no tree")
    try:
        wait = alpha[0] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[alpha[1]]
        rate = beta[0] * {"GB/s": 1e9, "GB/s both ways": 5e8, "Gb/s": 1.25e8}[beta[1]]
    except KeyError as unit:
        raise ValueError(unit) from unit
    if algorithm == "tree":
        return math.ceil(math.log2(n)) * (wait + nbytes / rate)
    message = nbytes if kind in ("reduce", "broadcast") else (nbytes + n - 1) // n
    return (n - 1) * wait + (n - 1) * message / rate


# E13.2 choose_algorithm

NO_CHOICE = ("algorithm", "seconds", "bound")


def chosen(edits, loses, because, breaks):
    return edited("choose_algorithm", edits, loses=loses, because=because, breaks=breaks)


always_a_ring = chosen(
    {'else ("ring", "tree")': 'else ("ring",)'},
    NO_CHOICE,
    "a ring is thought to be best at any size, since it wastes no bandwidth",
    '`"ring"` or `"tree"`, whichever takes less time',
)
always_a_tree = chosen(
    {"min(times, key=times.get)": "able[-1]"},
    NO_CHOICE,
    "a tree is thought to be best at any size, since it has few steps",
    '`"ring"` or `"tree"`, whichever takes less time',
)
a_tree_of_equal_ones = chosen(
    {'("ring", "tree")\n': '("tree", "ring")\n'},
    ("algorithm",),
    "it is thought not to matter which of two equal ones is named",
    '`"ring"` where both take the same',
)
a_tree_for_everything = chosen(
    {'("ring",) if kind in ("reduce_scatter", "all_gather") else ("ring", "tree")': '("ring", "tree")'},
    NO_CHOICE,
    "every collective is thought to have a tree",
    "and for a kind that has no tree",
)
seconds_of_the_ring = chosen(
    {'"seconds": times[best]': '"seconds": times["ring"]'},
    ("seconds", "bound"),
    "the time is thought not to depend on the choice",
    '`"seconds"`: the time that it takes, a float',
)
any_byte_is_bandwidth = chosen(
    {"times[best] - latency > latency": "times[best] > latency"},
    ("bound",),
    "whatever sends bytes is thought to be bound by bandwidth",
    '`"bandwidth"` where more of these seconds are due to bytes than to `alpha`',
)
one_latency = chosen(
    {"latency = collective_time(kind, 0, n, alpha, beta, best)": 'latency = collective_time("broadcast", 0, 2, alpha, beta)'},
    ("bound",),
    "a collective is thought to have one latency, however many steps it takes",
    '`"bandwidth"` where more of these seconds are due to bytes than to `alpha`, else `"latency"`',
)
two_entries = chosen(
    {', "bound": bound}': "}"},
    NO_CHOICE,
    "a time is thought to say by itself what it is made of",
    "returns a dictionary with three entries",
)
allowed = unbreakable("choose_algorithm", "takes the arguments of `collective_time` without the last one, and is called only with values that `collective_time` accepts", "what it is called with")
same_rules = unbreakable("choose_algorithm", "The same rules hold", "every other mistake breaks one of them")


@mistake(
    "choose_algorithm",
    loses=NO_CHOICE,
    because="a size alone is thought to decide, one megabyte, say",
    breaks='`"ring"` or `"tree"`, whichever takes less time',
)
def by_a_threshold(kind, nbytes, n, alpha, beta):
    tree = nbytes < 1_000_000 and kind in ("all_reduce", "broadcast", "reduce")
    algorithm = "tree" if tree else "ring"
    seconds = collective_time(kind, nbytes, n, alpha, beta, algorithm)  # noqa: F821
    latency = collective_time(kind, 0, n, alpha, beta, algorithm)  # noqa: F821
    return {"algorithm": algorithm, "seconds": seconds, "bound": "bandwidth" if seconds > 2 * latency else "latency"}


@alternative("choose_algorithm")
def without_the_other_function(kind, nbytes, n, alpha, beta):
    wait = alpha[0] / {"ns": 1e9, "us": 1e6, "ms": 1e3}[alpha[1]]
    rate = beta[0] * {"GB/s": 1e9, "GB/s both ways": 5e8, "Gb/s": 1.25e8}[beta[1]]
    laps = 2 if kind == "all_reduce" else 1
    message = nbytes if kind in ("broadcast", "reduce") else -(-nbytes // n)
    ways = [("ring", laps * (n - 1), message)]
    if kind not in ("reduce_scatter", "all_gather"):
        ways.append(("tree", laps * math.ceil(math.log2(n)), nbytes))
    name, steps, message = sorted(ways, key=lambda way: way[1] * (wait + way[2] / rate))[0]
    return {
        "seconds": steps * (wait + message / rate),
        "bound": "bandwidth" if steps and message / rate > wait else "latency",
        "algorithm": name,
    }


@mistake(
    "choose_algorithm",
    loses=("bound",),
    because="what binds the ring is thought to bind the tree as well",
    breaks="where more of these seconds are due to bytes than to `alpha`",
)
def bound_of_the_ring(kind, nbytes, n, alpha, beta):
    times = {"ring": collective_time(kind, nbytes, n, alpha, beta)}  # noqa: F821
    if kind not in ("reduce_scatter", "all_gather"):
        times["tree"] = collective_time(kind, nbytes, n, alpha, beta, "tree")  # noqa: F821
    best = min(times, key=times.get)
    hops = collective_time(kind, 0, n, alpha, beta)  # noqa: F821
    return {"algorithm": best, "seconds": times[best], "bound": "bandwidth" if times["ring"] - hops > hops else "latency"}


# E13.3 place_groups

NO_PLACE = ("valid", "heavy", "ports", "traffic", "errors")
NESTED = "return min(map(nested, itertools.permutations(range(len(sizes)))), key=busiest)"
COUNTED = "port_bytes(place, dims, topology).values(), default=0"
BEST = "the **busiest port** sends no more bytes than in the best nesting"


def placed(edits, loses, because, breaks):
    return edited("place_groups", edits, loses=loses, because=because, breaks=breaks)


as_they_come = placed(
    {NESTED: "return list(range(world))"},
    NO_PLACE,
    "whatever is written last is thought to be innermost, and that to be right",
    BEST,
)
lightest_inside = placed(
    {NESTED: "return nested(sorted(range(len(sizes)), key=lambda d: dims[d][2]))"},
    NO_PLACE,
    "the dimension that sends least is thought to be the one to keep close",
    BEST,
)
heaviest_inside = placed(
    {NESTED: "return nested(sorted(range(len(sizes)), key=lambda d: -dims[d][2]))"},
    ("ports", "traffic"),
    "the dimension with most bytes is thought to belong inside, whatever its size",
    "along the GPU numbers the first dimension varies fastest, then the second, and so on",
)
sum_of_all_ports = placed(
    {f"max({COUNTED})": "sum(port_bytes(place, dims, topology).values())"},
    ("ports", "traffic"),
    "the sum of all that leaves the nodes is thought to decide",
    BEST,
)
a_port_for_every_gpu = placed(
    {COUNTED: 'port_bytes(place, dims, {**topology, "ports": topology["gpus"]}).values(), default=0'},
    ("ports",),
    "every GPU is thought to have a port of its own",
    "GPU i of a node sends through port `i * ports // gpus` of its node",
)
the_buffer_as_it_is = placed(
    {COUNTED: "port_bytes(place, [(name, n, each * n / max(2 * n - 2, 1)) for name, n, each in dims], topology).values(), default=0"},
    ("traffic",),
    "a ring is thought to send each buffer once, whatever its size",
    "sends 2 (n - 1) / n times the dimension's bytes to the next one",
)
all_on_the_first = placed(
    {NESTED: "return [0] * world"},
    NO_PLACE,
    "a placement is thought to need no care while nothing leaves a node",
    "Every rank has its own GPU",
)
number_in_its_node = placed(
    {NESTED: 'return [gpu % topology["gpus"] for gpu in ' + NESTED.removeprefix("return ") + "]"},
    NO_PLACE,
    "GPUs are thought to be numbered anew in every node",
    "GPUs are numbered node after node",
)
by_rank = placed(
    {NESTED: "return dict(enumerate(" + NESTED.removeprefix("return ") + "))"},
    NO_PLACE,
    "a dictionary is thought to be as good as a list",
    "returns a list of `world` integers: entry r is the number of the GPU of rank r",
)
notes_in_the_topology = placed(
    {"    sizes = [": '    topology["all"] = topology["nodes"] * topology["gpus"]\n    sizes = ['},
    NO_PLACE,
    "the caller's dictionary is thought to be a place for notes",
    "the list and the dictionary stay unchanged",
)
any_world = placed(
    {"math.prod(sizes) == world == gpus": "math.prod(sizes) == gpus"},
    ("errors",),
    "the number of ranks is thought to follow from the grid",
    "where `world`, the product of the sizes and the total number of GPUs are not all equal",
)
any_machines = placed(
    {"math.prod(sizes) == world == gpus": "math.prod(sizes) == world"},
    ("errors",),
    "GPUs are thought to be as many as ranks",
    "where `world`, the product of the sizes and the total number of GPUs are not all equal",
)
any_size = placed(
    {"min(sizes) < 1 or ": ""},
    ("errors",),
    "a product that is right is thought to have factors that are",
    "where a size is less than 1",
)
any_ports = placed(
    {' or topology["gpus"] % topology["ports"]': ""},
    ("errors",),
    "any number of ports is thought to be shared evenly",
    'and where `"gpus"` is not a multiple of `"ports"`',
)
counted_for_you = [
    unbreakable("place_groups", "The ranks form a grid", "the way in which ranks are numbered: `port_bytes`, which is given, counts by it"),
    unbreakable("place_groups", "the last dimension varies fastest", "the way in which ranks are numbered: `port_bytes`, which is given, counts by it"),
    unbreakable("place_groups", "Ranks whose coordinates differ in one dimension only are a group of this dimension", "counted by `port_bytes`"),
    unbreakable("place_groups", "the ring of a group goes through its GPUs in ascending order, and from the last back to the first", "counted by `port_bytes`"),
    unbreakable("place_groups", "Traffic to another node leaves through the sender's port", "counted by `port_bytes`"),
    unbreakable("place_groups", "`world`: the number of ranks", "what it is called with"),
    unbreakable("place_groups", "a list of tuples `(name, size, nbytes)`, one for each dimension, at most four", "what it is called with"),
    unbreakable("place_groups", 'a dictionary with `"nodes"`, the `"gpus"` of each node and the `"ports"` of each node', "what it is called with"),
    unbreakable("place_groups", "A nesting is an order of the dimensions", "what the other placements are measured by"),
]  # fmt: skip

BUSIEST = "return max(port_bytes(place, dims, topology).values(), default=0)"
nothing_leaves = [
    equivalent_mutant("place_groups", BUSIEST, BUSIEST.replace("=0)", f"={other})"), "where nothing leaves a node, any number below a group's bytes is least")
    for other in ("(-1)", "1")
]


@alternative("place_groups")
def ranks_sorted(world, dims, topology):
    nodes, gpus, ports = (topology[name] for name in ("nodes", "gpus", "ports"))
    grid = list(itertools.product(*[range(size) for _, size, _ in dims]))
    if any(size <= 0 for _, size, _ in dims) or len(grid) != world or nodes * gpus != world or gpus % ports != 0:
        raise ValueError("that does not fit together")
    best, least = None, math.inf
    for order in itertools.permutations(range(len(dims))):
        queue = sorted(range(world), key=lambda rank: [grid[rank][d] for d in order])
        gpu_of = {rank: gpu for gpu, rank in enumerate(queue)}
        load = [0.0] * (nodes * ports)
        for d, (_, size, nbytes) in enumerate(dims):
            groups = {}
            for rank, at in enumerate(grid):
                groups.setdefault((*at[:d], None, *at[d + 1 :]), []).append(gpu_of[rank])
            for members in groups.values():
                members.sort()
                for i, gpu in enumerate(members):
                    if members[i - size + 1] // gpus != gpu // gpus:
                        load[gpu // gpus * ports + gpu % gpus // (gpus // ports)] += 2 * nbytes - 2 * nbytes / size
        if max(load) < least * (1 - 1e-12):
            best, least = [gpu_of[rank] for rank in range(world)], max(load)
    return best
