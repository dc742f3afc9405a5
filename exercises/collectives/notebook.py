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
# # Collectives and interconnects: exercises
#
# The cost of a collective is known before it runs: from the number of steps, the bytes of each message, and the link that
# carries them. Here you write one collective, and then compute such costs, from a vendor's figures to the placement of a whole
# training job.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table that it prints.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools
import math

# %% [markdown]
# ## E13.1 `ring_all_reduce`
#
# An all-reduce gives every rank the sum of all ranks' buffers. The obvious way sends all buffers to one rank, which adds them up and
# sends the sum back: that rank's link carries all the traffic while the other links are idle. In a ring all-reduce every link carries
# the same number of bytes.
#
# `run_ranks` starts one process per rank, each with its own memory, and calls a function in all of them at once. All messages between
# ranks pass through another process, the broker, which keeps a journal of them. The table below prints that journal.
#
# `dist.isend` reads its tensor until `wait()` returns: whoever writes to it before then sends other numbers, and nothing says so. gloo and
# NCCL take contiguous tensors only. So `send` hands over a contiguous copy, and `recv` receives into one.

# %% nbgrader={"grade": false, "grade_id": "ranks", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
import torch.distributed as dist
from gpulab.collectives import run_ranks


def send(tensor, to):
    """Send a copy of tensor to rank to; the handle's wait() returns when it has arrived."""
    return dist.isend(tensor.clone(memory_format=torch.contiguous_format), to)


def recv(tensor, source):
    """Wait for the next message from rank source and write it into tensor."""
    message = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    dist.recv(message, source)
    tensor.copy_(message)


def swap(rank, world):
    """Each of two ranks sends its number to the other."""
    mine, others = torch.tensor([rank]), torch.tensor([-1])
    handle = send(mine, 1 - rank)
    recv(others, 1 - rank)
    handle.wait()
    return others.item()


swapped = run_ranks(swap, 2, card="off", backend="gloo")
print(swapped.table())
print("rank 0 got", swapped.results[0], "and rank 1 got", swapped.results[1])

# %% [markdown]
# Write `ring_all_reduce(rank, world, buf, send, recv)`, which all ranks call at the same time:
#
# - [c1] `rank`: the number of this rank, from 0, of `world`, one or more; `buf`: a one-dimensional tensor of any strides, with the same
#   length and dtype (`float32`, `float64` or `int64`) in every rank;
# - [c2] `world` need not divide the length, and the length may be smaller than `world`, or 0;
# - [c3] when it returns, `buf` holds the **sum** over all ranks in every rank, written in place, and nothing else in its storage has changed;
# - [c4] `send(tensor, to)` sends a copy of `tensor`, which may then be overwritten, and returns a handle; `handle.wait()` blocks until
#   rank `to` has received the copy;
# - [c5] `recv(tensor, source)` blocks until the next message from rank `source` is in `tensor`, which has the message's length and dtype;
# - [c6] ranks exchange data only by `send` and `recv`, and send nothing but elements of their buffers and sums of them;
# - [c7] **a rank sends at most 2 (world - 1) chunks**. A chunk is `1 / world` of the buffer, rounded up to whole elements;
# - [c8] **no rank is a hot spot**: none sends or receives more elements than another, except for one element per step where `world` does
#   not divide the length;
# - [c9] it takes **at most 2 (world - 1) steps** where `world` divides the length. In one step every rank may send one message and
#   receive another, and a message sent after a `recv` belongs to a later step than the message received;
# - [c10] raises `ValueError` in every rank when `buf` is not one-dimensional, before anything is sent.

# %% nbgrader={"grade": false, "grade_id": "ring_all_reduce", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_all_reduce(rank, world, buf, send, recv):
    """Leave in buf the sum of all ranks' buffers, by messages around a ring."""
    ### BEGIN SOLUTION
    if buf.dim() != 1:
        raise ValueError(f"a buffer of {buf.dim()} dimensions is not cut into chunks")
    chunks = buf.tensor_split(world)
    following, previous = (rank + 1) % world, (rank - 1) % world
    for step in range(2 * (world - 1)):
        # The chunk that came in the step before goes out in this one, first to be added to, then to be kept.
        out, into = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        sent = send(out, following)
        came = torch.empty_like(into)
        recv(came, previous)
        into.copy_(into + came if step < world - 1 else came)
        sent.wait()
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "ring_all_reduce_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_ring_all_reduce():
    """The buffers of four ranks after the all-reduce, and the bytes that each sent."""

    def summed(rank, world, length):
        """The buffer of this rank after the all-reduce."""
        buf = torch.arange(length, dtype=torch.float32) * 10 ** rank
        ring_all_reduce(rank, world, buf, send, recv)
        return buf

    run = run_ranks(summed, 4, args=(10,), card="off", backend="gloo")
    print(run.table())
    for rank, buf in enumerate(run.results):
        carried = sum(entry.bytes for entry in run.journal if entry.ranks[0] == rank)
        print(f"rank {rank} sent {carried} bytes and has {buf.tolist()}")

    assert all(torch.equal(buf, 1111.0 * torch.arange(10)) for buf in run.results), (
        "expected 1111 * i at index i in every rank, the sum of i, 10 i, 100 i and 1000 i: see the buffers printed above"
    )
    for rank in range(4):
        messages = [entry for entry in run.journal if entry.ranks[0] == rank]
        assert len(messages) <= 6, f"rank {rank} sends {len(messages)} messages, expected at most 6: one in each of the 2 (world - 1) steps"
        assert sum(entry.bytes for entry in messages) <= 6 * 3 * 4, f"rank {rank} sends more than 6 chunks of at most 3 elements, 72 bytes"


_see_ring_all_reduce()

# %% nbgrader={"grade": true, "grade_id": "ring_all_reduce_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of ring_all_reduce: values 2, ragged 1, bytes 1, no hot rank 1, steps 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("collectives.ring_all_reduce")
### END HIDDEN TESTS


# %% [markdown]
# ## E13.2 `collective_time`
#
# In the *alpha-beta model* a message costs a latency plus its bytes divided by the link's bandwidth. The rest is counting: how
# many steps, and how many bytes in each. Write `collective_time(kind, nbytes, n, alpha, beta, algorithm="ring")`:
#
# - [c1] `kind`: `"all_reduce"`, `"reduce_scatter"`, `"all_gather"`, `"broadcast"` or `"reduce"`;
# - [c2] `nbytes`: bytes of the whole buffer, an integer, 0 or more: the size of each rank's input, and for an `all_gather` of each rank's
#   output; `n`: the number of ranks, an integer, 1 or more. A single rank takes no steps and no time;
# - [c3] `alpha`: the latency of each message, a tuple of a number and `"ns"`, `"us"` or `"ms"`;
# - [c4] `beta`: the bandwidth of each rank's link as its vendor prints it, a tuple of a number and a unit: `"GB/s"`, 10^9 bytes a second
#   in each direction; `"GB/s both ways"`, the two directions added up; `"Gb/s"`, 10^9 **bits** a second in each direction;
# - [c5] a message of m bytes takes `alpha` plus m divided by the bytes per second of one direction. In a step each rank may send
#   one message and receive another at the same time. A step takes as long as its largest message, and the next begins when it is over;
# - [c6] with `"ring"`, each rank sends only to the next rank. `all_reduce`, `reduce_scatter` and `all_gather` cut the buffer into `n`
#   chunks of whole bytes, as equal as possible, and in each step every chunk moves on by one rank: n - 1 steps, and twice as many
#   for an `all_reduce`. `broadcast` and `reduce` pass the whole buffer from rank to rank, in n - 1 steps;
# - [c7] with `"tree"` (a binomial tree), whole buffers are sent. In each step of a `broadcast` every rank that has the buffer sends it to
#   one that does not have it; a `reduce` is the same in reverse; an `all_reduce` is a `reduce` and then a `broadcast`;
# - [c8] returns the time in seconds;
# - [c9] raises `ValueError` for a kind, an algorithm or a unit that is not named here, for `n` less than 1, for `nbytes` less than 0,
#   and for `"tree"` with `reduce_scatter` or `all_gather`.

# %% nbgrader={"grade": false, "grade_id": "collective_time", "locked": false, "schema_version": 3, "solution": true, "task": false}
def collective_time(kind, nbytes, n, alpha, beta, algorithm="ring"):
    """Seconds of a collective of nbytes among n ranks, by latency and bandwidth of their links."""
    ### BEGIN SOLUTION
    seconds = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
    bytes_per_s = {"GB/s": 1e9, "GB/s both ways": 1e9 / 2, "Gb/s": 1e9 / 8}
    kinds = ("all_reduce", "broadcast", "reduce") + (("reduce_scatter", "all_gather") if algorithm == "ring" else ())
    known = algorithm in ("ring", "tree") and kind in kinds and alpha[1] in seconds and beta[1] in bytes_per_s
    if n < 1 or nbytes < 0 or not known:
        raise ValueError(f"no {algorithm} {kind} of {nbytes} bytes among {n} ranks, {alpha} and {beta}")
    steps = n - 1 if algorithm == "ring" else (n - 1).bit_length()  # a tree doubles those that have it
    if kind == "all_reduce":
        steps *= 2
    whole = algorithm == "tree" or kind in ("broadcast", "reduce")
    message = nbytes if whole else -(-nbytes // n)
    return steps * (alpha[0] * seconds[alpha[1]] + message / (beta[0] * bytes_per_s[beta[1]]))
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "collective_time_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_collective_time():
    """A small and a large all-reduce on three links."""
    LINKS = {
        "NVLink 4": ((3.4, "us"), (900, "GB/s both ways")),
        "InfiniBand NDR": ((14, "us"), (400, "Gb/s")),
        "PCIe 5 x16": ((5.7, "us"), (64, "GB/s")),
    }
    print(f"{'all-reduce among 8':20}{'ring':>14}{'tree':>14}")
    for name, (alpha, beta) in LINKS.items():
        for nbytes in (8_000, 8_000_000_000):
            times = [collective_time("all_reduce", nbytes, 8, alpha, beta, algorithm) for algorithm in ("ring", "tree")]
            print(f"{name:16}{nbytes:14,} bytes" + "".join(f"{1e6 * time:12.1f} us" for time in times))

    alpha, beta = LINKS["InfiniBand NDR"]
    laps = [collective_time(kind, 8_000_000, 8, alpha, beta) for kind in ("reduce_scatter", "all_gather", "all_reduce")]
    assert math.isclose(laps[0] + laps[1], laps[2]), "a ring all-reduce is a reduce-scatter and then an all-gather: expected the sum of their times"
    assert math.isclose(laps[0], 7 * (14e-6 + 1_000_000 / 50e9)), "expected 7 steps of 1 MB each, and 400 Gb/s = 50 GB/s"
    assert collective_time("all_reduce", 8_000_000, 1, alpha, beta) == 0, "expected 0: a single rank sends no message"
    assert math.isclose(collective_time("broadcast", 8_000_000, 8, alpha, beta, "tree"), 3 * (14e-6 + 8_000_000 / 50e9)), (
        "expected 3 steps: 1 rank has the buffer, then 2, then 4, then 8"
    )


_see_collective_time()

# %% nbgrader={"grade": true, "grade_id": "collective_time_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of collective_time: rings 2, whole buffers 2, chunks 1, units 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("collectives.collective_time")
### END HIDDEN TESTS


# %% [markdown]
# ## E13.2, second part: `choose_algorithm`
#
# A ring takes many steps with small messages, a tree takes few steps with large ones. Which one is faster depends on the size, the
# number of ranks and the link, and so does whether the time is latency-bound or bandwidth-bound. Write
# `choose_algorithm(kind, nbytes, n, alpha, beta)`:
#
# - [c1] takes the arguments of `collective_time` without the last one, and is called only with values that `collective_time` accepts. [c2] The
#   same rules hold;
# - [c3] returns a dictionary with three entries:
# - [c4] `"algorithm"`: `"ring"` or `"tree"`, whichever takes less time; [c5] `"ring"` where both take the same, and for a kind that
#   has no tree;
# - [c6] `"seconds"`: the time that it takes;
# - [c7] `"bound"`: `"bandwidth"` where more of these seconds are due to bytes than to `alpha`, else `"latency"`.

# %% nbgrader={"grade": false, "grade_id": "choose_algorithm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_algorithm(kind, nbytes, n, alpha, beta):
    """The faster of ring and tree, its seconds, and whether latency or bandwidth binds it."""
    ### BEGIN SOLUTION
    able = ("ring",) if kind in ("reduce_scatter", "all_gather") else ("ring", "tree")
    times = {algorithm: collective_time(kind, nbytes, n, alpha, beta, algorithm) for algorithm in able}
    best = min(times, key=times.get)  # the first of equal ones
    latency = collective_time(kind, 0, n, alpha, beta, best)
    bound = "bandwidth" if times[best] - latency > latency else "latency"
    return {"algorithm": best, "seconds": times[best], "bound": bound}
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "choose_algorithm_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_choose_algorithm():
    """The choice for three world sizes and four buffer sizes."""
    alpha, beta = (14, "us"), (400, "Gb/s")
    for n in (2, 8, 64):
        for nbytes in (8, 80_000, 8_000_000, 8_000_000_000):
            found = choose_algorithm("all_reduce", nbytes, n, alpha, beta)
            print(f"{n:3} ranks {nbytes:14,} bytes: {found['algorithm']}, {1e6 * found['seconds']:12.1f} us, {found['bound']}")

    assert choose_algorithm("all_reduce", 8, 64, alpha, beta)["algorithm"] == "tree", "expected the tree: 12 latencies, against 126 of the ring"
    large = choose_algorithm("all_reduce", 8_000_000_000, 64, alpha, beta)
    assert large["algorithm"] == "ring", "expected the ring: it sends about 2 times the buffer, the tree 12 times"
    assert choose_algorithm("all_gather", 8, 64, alpha, beta)["algorithm"] == "ring", "expected the ring: an all_gather has no tree"
    assert choose_algorithm("all_reduce", 8, 64, alpha, beta)["bound"] == "latency", "expected latency: 8 bytes take almost no time"


_see_choose_algorithm()

# %% nbgrader={"grade": true, "grade_id": "choose_algorithm_hidden", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of choose_algorithm: algorithm 2, seconds 1, bound 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("collectives.choose_algorithm")
### END HIDDEN TESTS


# %% [markdown]
# ## E13.3 `place_groups`
#
# A large job is parallel in several dimensions at once, and the groups of each dimension all-reduce a buffer in every step. The
# placement of ranks on GPUs decides which traffic stays on NVLink, which leaves the node, and through which network port.
#
# - [c1] The ranks form a grid: rank r has the coordinates `list(itertools.product(*map(range, sizes)))[r]`, the last dimension
#   varies fastest. Ranks whose coordinates differ in one dimension only are a group of this dimension;
# - [c2] GPUs are numbered node after node. GPU i of a node sends through port `i * ports // gpus` of its node;
# - [c3] the ring of a group goes through its GPUs in ascending order, and from the last back to the first. Each of the
#   group's n GPUs sends 2 (n - 1) / n times the dimension's bytes to the next one. Traffic to another node leaves through the
#   sender's port.
#
# `port_bytes` counts the bytes that each port sends, for a given placement:

# %% nbgrader={"grade": false, "grade_id": "port_bytes", "locked": true, "schema_version": 3, "solution": false, "task": false}
def port_bytes(place, dims, topology):
    """Bytes that each port sends in a step, by (node, port): ports that send none are left out."""
    gpus, groups, sent = topology["gpus"], {}, {}
    for gpu, at in zip(place, itertools.product(*(range(size) for _, size, _ in dims))):
        for d in range(len(dims)):
            groups.setdefault((d, at[:d] + at[d + 1 :]), []).append(gpu)
    for (d, _), members in groups.items():
        ring = sorted(members)
        each = 2 * (len(ring) - 1) / len(ring) * dims[d][2]
        for here, there in zip(ring, ring[1:] + ring[:1]):
            if here // gpus != there // gpus:
                port = here // gpus, here % gpus * topology["ports"] // gpus
                sent[port] = sent.get(port, 0) + each
    return sent


_dims = [("tp", 8, 100e6), ("dp", 2, 50e6)]
for _ports in (8, 1):
    _topology = {"nodes": 2, "gpus": 8, "ports": _ports}
    _busiest = max(port_bytes(range(16), _dims, _topology).values())
    print(f"rank r on GPU r, {_ports} ports a node: the busiest port sends {_busiest / 1e6:.0f} MB")

# %% [markdown]
# Write `place_groups(world, dims, topology)`:
#
# - [c4] `world`: the number of ranks; `dims`: a list of tuples `(name, size, nbytes)`, one for each dimension, at most four, where `nbytes`
#   is the size of the buffer that each group of the dimension all-reduces in a step; `topology`: a dictionary with `"nodes"`, the
#   `"gpus"` of each node and the `"ports"` of each node. List and dictionary stay unchanged;
# - [c5] returns a list of `world` integers: entry r is the number of the GPU of rank r, and every rank has its own GPU;
# - [c6] the **busiest port** sends no more bytes than in the best nesting. A nesting is an order of the dimensions: along the GPU
#   numbers the first dimension varies fastest, then the second, and so on;
# - [c7] raises `ValueError` where `world`, the product of the sizes and the total number of GPUs are not all equal, where a size is less
#   than 1, and where `"gpus"` is not a multiple of `"ports"`.

# %% nbgrader={"grade": false, "grade_id": "place_groups", "locked": false, "schema_version": 3, "solution": true, "task": false}
def place_groups(world, dims, topology):
    """The GPU of every rank, so that the busiest network port has as little to send as in the best nesting."""
    ### BEGIN SOLUTION
    sizes = [size for _, size, _ in dims]
    gpus = topology["nodes"] * topology["gpus"]
    if min(sizes) < 1 or not math.prod(sizes) == world == gpus or topology["gpus"] % topology["ports"]:
        raise ValueError(f"{world} ranks in a grid of {sizes} on {topology}")

    def nested(order):
        strides, stride = {}, 1
        for d in order:
            strides[d], stride = stride, stride * sizes[d]
        return [sum(strides[d] * c for d, c in enumerate(at)) for at in itertools.product(*map(range, sizes))]

    def busiest(place):
        return max(port_bytes(place, dims, topology).values(), default=0)

    return min(map(nested, itertools.permutations(range(len(sizes)))), key=busiest)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "place_groups_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_place_groups():
    """The GPUs and nodes of two groups, and the bytes that the busiest port sends."""
    dims = [("tp", 8, 800e6), ("pp", 2, 30e6), ("dp", 2, 200e6)]
    topology = {"nodes": 4, "gpus": 8, "ports": 8}
    place = place_groups(32, dims, topology)
    assert sorted(place) == list(range(32)), "expected each of the GPUs 0 to 31 exactly once: every rank has its own GPU"
    ranks = list(itertools.product(range(8), range(2), range(2)))
    for group in ((0, 0), (1, 1)):
        members = [place[r] for r, at in enumerate(ranks) if at[1:] == group]
        print(f"tp group {group}: GPUs {sorted(members)}, nodes {sorted({gpu // 8 for gpu in members})}")
    for name, where in (("rank r on GPU r", range(32)), ("yours", place)):
        print(f"{name:16} the busiest port sends {max(port_bytes(where, dims, topology).values()) / 1e6:6.0f} MB")

    assert max(port_bytes(place, dims, topology).values()) <= 230e6, (
        "expected at most 230 MB from the busiest port: tp fits inside a node, so only pp and dp traffic has to leave it"
    )


_see_place_groups()

# %% nbgrader={"grade": true, "grade_id": "place_groups_hidden", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of place_groups: heavy 2, ports 2, traffic 2, orders 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("collectives.place_groups")
### END HIDDEN TESTS
