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
# # Trading and debugging memory: exercises
#
# What memory costs, and what a counter says. Each function is graded for its values and for what it held or ran while
# it got them: layers that run again, activations of more than one micro-batch, blocks that overlap, reads that change
# what they measure.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours. Here and in the hidden tests the
# device is a virtual card, whose values are real and whose bytes are *modelled*; `gpulab.cuda.use("real")` in a
# cell of your own lets the same code run on a GPU.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import gpulab.cuda
import torch

runtime = gpulab.cuda.use("virtual:H100")

# %% [markdown]
# ## E10.1 `choose_segments`
#
# A checkpointed segment of a model keeps its input and nothing of what its layers save; they run once more when the
# backward pass comes to them. `torch.utils.checkpoint.checkpoint_sequential(layers, k, x)` cuts a chain of layers into
# `k` segments. With few of them, many layers are in one; with many, many inputs are held and many layers run again. Both
# are true on the whole, and not from each `k` to the next: what does not come out even is left to the last segment.
#
# Write `choose_segments(n, act, ckpt, budget)`, which finds `k` before anything runs:
#
# - [c1] `n`: how many layers the chain has, an integer from 1 to 500. [c2] They are alike, and each **saves `act` bytes** for its
#   backward;
# - [c3] the first `k - 1` segments have `n // k` layers each. [c4] They are checkpointed: each **holds `ckpt` bytes**, its input,
#   the first one too. [c5] The last segment has **all layers that remain**. [c6] It is not checkpointed, and holds no input;
# - [c7] the forward pass ends with those inputs, and with what the layers of the last segment saved. [c8] The backward pass lets go
#   of what it has used;
# - [c9] it comes to the checkpointed segments from the last to the first. [c10] In each, **all layers run again** and save `act`
#   bytes each. [c11] When the segment's backward is over, these and its input are let go;
# - [c12] a layer may save the very input that a checkpoint holds: [c13] count both. Gradients and whatever else is in memory do not
#   count;
# - [c14] `budget`: the most bytes that may be held **at any moment** of both passes. [c15] Exactly so many may be;
# - [c16] `act`, `ckpt` and `budget` are integers, 0 or more. [c17] Sums are exact, also where neither a float nor 64 bits can hold
#   them;
# - [c18] returns a Python integer, the `k` from 1 to `n` that stays within `budget` and with which the **fewest layers run
#   again**. [c19] Of several with equally few, it is the one that holds fewest bytes where it holds most, and of these the
#   smallest;
# - [c20] returns `None` when no `k` stays within `budget`;
# - [c21] raises `ValueError` for `n` less than 1, and for `act`, `ckpt` or `budget` less than 0.

# %% nbgrader={"grade": false, "grade_id": "choose_segments", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_segments(n, act, ckpt, budget):
    """The number of segments with which the fewest layers run again within budget bytes, or None."""
    ### BEGIN SOLUTION
    if n < 1 or min(act, ckpt, budget) < 0:
        raise ValueError(f"{n} layers of {act} bytes, inputs of {ckpt}, a budget of {budget}: 1 layer and 0 bytes are the least")
    plans = []
    for k in range(1, n + 1):
        again = (k - 1) * (n // k)
        # The last segment is the longest: backward never holds more than forward did at its end.
        held = (k - 1) * ckpt + (n - again) * act
        if held <= budget:
            plans.append((again, held, k))
    return min(plans)[-1] if plans else None
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "choose_segments_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_choose_segments():
    """A chain of ten layers in every number of segments, and the number that you choose for each budget."""
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils.checkpoint import checkpoint_sequential

    class Ledger:
        """Bytes of what layers saved, and how many of them are still there: now, and at each call of a layer."""

        def __init__(self):
            self.saved, self.at_calls = {}, []

        def note(self, *tensors):
            self.saved.update({StorageWeakRef(x.untyped_storage()): x.nbytes for x in tensors})
            self.at_calls.append(self.held())

        def held(self):
            return sum(nbytes for storage, nbytes in self.saved.items() if not storage.expired())

    class Layer(torch.nn.Module):
        """Saves its input of (16, 64) and a tensor of (16, 320): 24 KiB."""

        def __init__(self):
            super().__init__()
            self.up, self.down = (torch.nn.Parameter(torch.randn(*shape) / 16) for shape in ((64, 320), (320, 64)))

        def forward(self, x):
            wide = torch.tanh(x @ self.up)
            ledger.note(x, wide)
            return x + wide @ self.down

    def run_chain(k):
        """Layers run again in a real step with k segments; KiB held when forward ends, and at most while layers run again."""
        y = checkpoint_sequential(layers, k, torch.randn(16, 64), use_reentrant=False)
        held = ledger.held()
        y.sum().backward()
        later = [held + y.nbytes for held in ledger.at_calls[10:]]  # a segment's input counts twice; y is as large
        return len(later), held // 1024, max(later, default=0) // 1024

    layers, chain = torch.nn.Sequential(*(Layer() for _ in range(10))), {}
    for k in range(1, 11):
        ledger = Ledger()
        chain[k] = run_chain(k)

    print(f"{'k':>2}{'layers in each':>16}{'run again':>11}{'KiB held after forward':>24}{'in backward':>13}")
    for k, (again, held, later) in chain.items():
        in_each = f"{10 // k}, last {10 - (k - 1) * (10 // k)}"
        print(f"{k:2}{in_each:>16}{again:11}{held:24}{later:13}  {'#' * (held // 5)}")

    for budget in sorted({held for _, held, _ in chain.values()}):
        k = choose_segments(10, 24 * 1024, 4 * 1024, budget * 1024)
        assert k in chain, f"{budget} KiB: choose_segments returned {k!r}, and the table has segments that stay within it"
        fit = {number: row for number, row in chain.items() if row[1] <= budget}
        print(f"{budget:4} KiB: k = {k:2}, {chain[k][0]:2} layers run again; numbers that stay within it: {len(fit)}")
        assert k in fit, f"{budget} KiB: {k} segments hold {chain[k][1]} KiB when forward ends"
        fewest = min(again for again, _, _ in fit.values())
        assert chain[k][0] == fewest, f"{budget} KiB: with {k} segments {chain[k][0]} layers run again, where {fewest} are enough"
        least = min(held for again, held, _ in fit.values() if again == fewest)
        assert chain[k][1] == least, f"{budget} KiB: {least} KiB are enough for {fewest} layers that run again"
    least = min(held for _, held, _ in chain.values())
    nothing = choose_segments(10, 24 * 1024, 4 * 1024, least * 1024 - 1)
    assert nothing is None, f"one byte less than {least} KiB is not enough for any number of segments, and {nothing!r} was returned"


_see_choose_segments()

# %% nbgrader={"grade": true, "grade_id": "choose_segments_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of choose_segments: bytes held 1, the last segment 2, the fewest 2, equally few 1, none 1,
# exact sums 1, errors 1. Small chains are really run with the number of segments that you return.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("trading.choose_segments")
### END HIDDEN TESTS

# %% [markdown]
# ## E10.2 `accumulate`
#
# A batch that does not fit is taken as several micro-batches, whose gradients add up in `.grad`. That takes the
# activations of one micro-batch; the step has to be the one that the whole batch would have made. Write
# `accumulate(model, optimizer, micro_batches, group, loss_fn, no_sync)`:
#
# - [c1] `model`: a `torch.nn.Module` with parameters of float32 or float64 on the device, some of which may not require
#   gradients; [c2] `optimizer`: one of `torch.optim`'s that needs no closure, over those that do, in one parameter group or in
#   several;
# - [c3] `micro_batches`: an iterable, perhaps a generator. [c4] It may have no length, it can be gone through once only, and it may
#   be empty. [c5] It gives pairs `(inputs, targets)` of tensors on the device, which are left as they are;
# - [c6] `targets`: classes as int64, of shape `(sequences, length)`, with -100 for padding. [c7] Every other element is a token.
#   [c8] Micro-batches differ in shape and in tokens, and one may have no token;
# - [c9] `loss_fn(outputs, targets)` is the **sum** of the losses of the tokens, a tensor without dimensions. [c10] Each micro-batch,
#   with tokens or without, is taken in turn: [c11] one call of the model, as `model(inputs)`, one of `loss_fn`, and one
#   backward pass, which adds to `.grad`;
# - [c12] each `group` micro-batches are a group, and so are those that are left at the end. [c13] **For each group
#   `optimizer.step()` is called once, when `.grad` is the gradient of the mean loss over all tokens of the group**;
#   [c14] a parameter that took no part in the group has `None` there;
# - [c15] a group without a token makes no step: [c16] with gradients of zeros, momentum and decay would still move the parameters;
# - [c17] `no_sync()` gives a context manager, a new one at each call, like that of `DistributedDataParallel`: [c18] what runs outside of
#   it exchanges gradients with the other ranks. [c19] **The model's call and the backward pass of a micro-batch run inside one,
#   those of the last micro-batch of each group outside**, also of the group that is left at the end;
# - [c20] parameters may hold gradients from before, numbers or NaN. [c21] They are dropped and not written to: [c22] the caller may still
#   use them. [c23] **No parameter of the optimizer holds a gradient when the model gets the first micro-batch of a group, nor
#   after the return**, also where there was no micro-batch;
# - [c24] memory: **when the model is called, only its micro-batch and the next one have been asked for, and no other is held.** [c25] Of
#   the steps before, only the gradients, the optimizer's state and a few numbers for each micro-batch are held: [c26] no output
#   and no graph. [c27] After the return only the optimizer's state is, also where Python's garbage collector is off;
# - [c28] returns a list with one Python float for each step, in order: [c29] the mean loss over the tokens of its group. [c30] Where the loss
#   is float64 it is right to a billionth;
# - [c31] **the host waits once for each group, and only after the last backward pass of the group was handed to the device**;
# - [c32] an exception of the model, the loss function or the iterable comes through. [c33] No context of `no_sync` is then entered any
#   more, and the group that was under way makes no step;
# - [c34] raises `ValueError` where `group` is less than 1, before a micro-batch is asked for or a gradient dropped.

# %% nbgrader={"grade": false, "grade_id": "accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def accumulate(model, optimizer, micro_batches, group, loss_fn, no_sync):
    """A step for each group of micro-batches; the mean loss of each step."""
    ### BEGIN SOLUTION
    if group < 1:
        raise ValueError(f"{group} micro-batches are no group")
    losses, sums = [], 0
    optimizer.zero_grad()
    for inputs, targets, is_last in with_ends(micro_batches, group):
        if not is_last:
            with no_sync():
                sums = sums + gradients_added(model, inputs, targets, loss_fn)
            continue
        loss, tokens = (sums + gradients_added(model, inputs, targets, loss_fn)).tolist()
        if tokens:
            divide_gradients(optimizer, tokens)
            optimizer.step()
            losses.append(loss / tokens)
        optimizer.zero_grad()
        sums = 0
    return losses


def with_ends(micro_batches, group):
    """Triples (inputs, targets, whether a group ends here); the next micro-batch is asked for before one is given."""
    coming = iter(micro_batches)
    micro_batch, number = next(coming, None), 1
    while micro_batch is not None:
        following = next(coming, None)
        yield *micro_batch, number % group == 0 or following is None
        micro_batch, number = following, number + 1


def gradients_added(model, inputs, targets, loss_fn):
    """Forward and backward pass; the sum of the losses and the number of tokens, float64 on the device."""
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    return torch.stack((loss.detach().double(), (targets != -100).sum().double()))


def divide_gradients(optimizer, tokens):
    """Of the gradient of a sum, that of the mean; in place."""
    for parameter_group in optimizer.param_groups:
        for parameter in parameter_group["params"]:
            if parameter.grad is not None:
                parameter.grad /= tokens
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "accumulate_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_accumulate():
    """Five micro-batches in groups of three: gradients, losses, bytes and exchanges."""
    from contextlib import contextmanager

    torch.manual_seed(3)
    vocabulary, width, group = 64, 64, 3
    layers = [torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, vocabulary)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for p in model.parameters():
        p.grad = torch.full_like(p, torch.nan)

    def loss_fn(outputs, targets):
        """The sum over the tokens."""
        return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum")

    def micro_batch(tokens):
        """16 sequences of 16 elements, the first ones tokens; always the same for the same number of tokens."""
        generator = torch.Generator().manual_seed(tokens)
        targets = torch.randint(vocabulary, (256,), generator=generator)
        targets[tokens:] = -100
        return torch.randn(16, 16, width, generator=generator).cuda(), targets.view(16, 16).cuda()

    counts = [256, 5, 60, 128, 30]
    due = []  # the gradients of each group taken as one batch
    for first in range(0, len(counts), group):
        inputs, targets = map(torch.cat, zip(*map(micro_batch, counts[first : first + group])))
        loss = loss_fn(model(inputs), targets) / (targets != -100).sum()
        due.append((loss.item(), [g.cpu() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    del inputs, targets, loss
    rows, steps, inside = [], [], []

    @contextmanager
    def no_sync():
        """As that of DistributedDataParallel, for one rank."""
        inside.append(True)
        try:
            yield
        finally:
            inside.pop()

    def note_call(*_):
        held = torch.cuda.memory_allocated() - beside
        rows.append([counts[len(rows)], held, "no" if inside else "yes"])

    def note_step(*_):
        steps.append([None if p.grad is None else p.grad.clone().cpu() for p in model.parameters()])

    model.register_forward_pre_hook(note_call)
    optimizer.register_step_pre_hook(note_step)
    gradients = sum(p.nbytes for p in model.parameters())
    beside, one = torch.cuda.memory_allocated() - gradients, sum(part.nbytes for part in micro_batch(1))
    losses = accumulate(model, optimizer, (micro_batch(tokens) for tokens in counts), group, loss_fn, no_sync)
    print(f"gradients take {gradients} bytes, a micro-batch {one}")
    print("tokens  bytes beside the weights when the model is called  gradients exchanged")
    for tokens, held, exchanged in rows:
        print(f"{tokens:6}{held:18}{exchanged:>42}")
    print(f"steps: {len(steps)} of {len(due)}; mean losses {losses}; of each group as one batch {[loss for loss, _ in due]}")

    assert [row[0] for row in rows] == counts, f"the model was called {len(rows)} times; {len(counts)} micro-batches came"
    assert len(steps) == 2, f"there were {len(steps)} steps: the two micro-batches that are left at the end make one too"
    for found, (_, right) in zip(steps, due):
        worst = max(float((g - r).norm() / r.norm()) for g, r in zip(found, right))
        assert worst < 1e-3, f"a gradient is not that of the mean over all tokens of its group: it is off by {worst:.1%}"
    assert len(losses) == 2 and all(isinstance(loss, float) for loss in losses), f"{losses!r}: two Python floats are due"
    assert all(abs(loss - right) < 1e-4 * right for loss, (right, _) in zip(losses, due)), "a loss is not the mean over the tokens"
    exchanges = [row[2] for row in rows]
    assert exchanges == ["no", "no", "yes", "no", "yes"], "gradients are exchanged in the last backward pass of each group, and no other"
    assert all(p.grad is None for p in model.parameters()), "gradients are left after the last step"
    most = max(row[1] for row in rows)
    assert most < gradients + 2.5 * one, f"{most} bytes were held when the model was called: two micro-batches and gradients are fewer"


_see_accumulate()

# %% nbgrader={"grade": true, "grade_id": "accumulate_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of accumulate: steps 1, weights 2, groups 1, gradients 1, syncs 1, memory 1, losses 1, host 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("trading.accumulate")
### END HIDDEN TESTS

# %% [markdown]
# ## E10.3 `caching_allocator`
#
# A process holds far more of a card than its tensors take. A request is refused that is smaller than what is held and unused,
# and `torch.cuda.empty_cache()` does not help. All three follow from a dozen rules. Write them down: PyTorch's allocator with
# its default settings, for one stream (`c10/cuda/CUDACachingAllocator.cpp`). The memory is imagined: only addresses and sizes
# are handed about.
#
# Write `caching_allocator(capacity)`:
#
# - [c1] `capacity`: the bytes that the driver has to give, a Python integer. [c2] Returns an object with the methods and the properties
#   below. [c3] Several such objects know nothing of each other;
# - [c4] `malloc(size)`: takes a block for `size` bytes and returns its address, a Python integer. [c5] `ValueError` where `size` is less
#   than 1;
# - [c6] `free(address)`: gives the block in use that begins at `address` back to the cache. [c7] Nothing goes back to the driver.
#   [c8] `ValueError` where no block in use begins there: [c9] one that was freed before, a place inside a block, an address that never
#   was one;
# - [c10] `empty_cache()`: gives every segment without a block in use back to the driver, whole, and touches no other;
# - [c11] `allocated`, a property: the bytes of all blocks in use, an exact Python integer. [c12] A block counts with its own size, which
#   may be more than was asked for;
# - [c13] `reserved`, a property: the bytes of all segments that came from the driver and have not gone back, an exact Python integer;
# - [c14] `segments()`: a list of tuples `(address, size, blocks)`, by address. [c15] `blocks` is a list of tuples `(address, size, used)`,
#   by address, which fill the segment without a gap; [c16] `used`, a `bool`, says whether a block is in use. [c17] The lists are new, and
#   the caller may change them;
# - [c18] whatever raises `ValueError` changes nothing.
#
# These are the rules:
#
# - [c19] **rounding**: a request is rounded up to a multiple of 512 bytes;
# - [c20] **two pools**: a request of up to 1 MiB (`2**20` bytes), rounded, is small, a larger one is large. [c21] A segment that was asked
#   for on behalf of a small request serves small requests alone, any other large ones alone;
# - [c22] **best fit**: of the free blocks of its pool that are large enough the smallest is taken, of several such the one with the
#   lowest address;
# - [c23] **segments**: where there is none, the driver is asked for a segment. [c24] For a small request it has 2 MiB. [c25] For a large one it
#   has 20 MiB, if the rounded request is less than 10 MiB, else as many bytes as that request rounded up to a multiple of 2
#   MiB;
# - [c26] **addresses**: the first segment begins at `0x7F00_0000_0000`, each later one where the one before it ended. [c27] Addresses of
#   segments that have gone back are not given again;
# - [c28] **splitting**: a request gets the front of its block. [c29] The rest becomes a free block, in the small pool if it has 512 bytes
#   or more, in the large pool if it has more than 1 MiB. [c30] A smaller rest is not split off: [c31] the block is handed out whole;
# - [c32] **merging**: a block that is freed becomes one with the free block behind it and with the free one before it, at once.
#   [c33] Blocks of different segments stay apart, also where one begins where the other ends;
# - [c34] **out of memory**: the driver refuses a segment with which `reserved` would be more than `capacity`. [c35] Then the cache is
#   emptied as by `empty_cache()`, and the driver is asked once more. [c36] If it refuses again, `MemoryError` is raised; [c37] the cache
#   stays empty, and nothing else has changed. [c38] Its message holds two numbers of bytes in decimal digits, with nothing between
#   the digits: [c39] the `size` that was handed to `malloc`, and how many bytes are then reserved but not allocated;
# - [c40] you write it in plain Python: [c41] a call of PyTorch, NumPy or gpulab, whose virtual card has such an allocator too, loses the
#   points.

# %% nbgrader={"grade": false, "grade_id": "caching_allocator", "locked": false, "schema_version": 3, "solution": true, "task": false}
def caching_allocator(capacity):
    """PyTorch's caching allocator for one stream, over a driver that has ``capacity`` bytes."""
    ### BEGIN SOLUTION
    return Cache(capacity)


from dataclasses import dataclass

MIB = 1 << 20


def rounded(size, unit):
    return -(-size // unit) * unit


@dataclass
class Block:
    address: int
    size: int
    used: bool = False


@dataclass
class Segment:
    """Blocks that lie one behind the other, two free ones never side by side."""

    small: bool
    blocks: list


class Cache:
    """Segments by address; what a pool has free is looked up in them."""

    def __init__(self, capacity):
        self._capacity, self._segments, self._next_address = capacity, [], 0x7F00_0000_0000

    @property
    def allocated(self):
        return sum(block.size for segment in self._segments for block in segment.blocks if block.used)

    @property
    def reserved(self):
        return sum(block.size for segment in self._segments for block in segment.blocks)

    def segments(self):
        def told(blocks):
            return blocks[0].address, sum(b.size for b in blocks), [(b.address, b.size, b.used) for b in blocks]

        return [told(segment.blocks) for segment in self._segments]

    def malloc(self, size):
        if size < 1:
            raise ValueError(f"{size} bytes are no request")
        need = rounded(size, 512)
        segment, block = self._best_fit(need) or self._new_segment(need, size)
        self._split(segment, block, need)
        block.used = True
        return block.address

    def free(self, address):
        segment, block = self._used_at(address)
        block.used = False
        self._merge_behind(segment, block)
        before = segment.blocks.index(block) - 1
        if before >= 0 and not segment.blocks[before].used:
            self._merge_behind(segment, segment.blocks[before])

    def empty_cache(self):
        self._segments = [segment for segment in self._segments if any(block.used for block in segment.blocks)]

    def _best_fit(self, need):
        pool = [segment for segment in self._segments if segment.small == (need <= MIB)]
        fits = [(segment, block) for segment in pool for block in segment.blocks if not block.used and block.size >= need]
        return min(fits, key=lambda found: (found[1].size, found[1].address), default=None)

    def _new_segment(self, need, size):
        small = need <= MIB
        length = 2 * MIB if small else 20 * MIB if need < 10 * MIB else rounded(need, 2 * MIB)
        if self.reserved + length > self._capacity:
            self.empty_cache()
        if self.reserved + length > self._capacity:
            unused = self.reserved - self.allocated
            raise MemoryError(f"{size} bytes were asked for, {unused} are reserved but not allocated")
        block = Block(self._next_address, length)
        self._segments.append(Segment(small, [block]))
        self._next_address += length
        return self._segments[-1], block

    def _split(self, segment, block, need):
        rest = block.size - need
        if rest >= 512 if segment.small else rest > MIB:
            block.size = need
            segment.blocks.insert(segment.blocks.index(block) + 1, Block(block.address + need, rest))

    def _merge_behind(self, segment, block):
        behind = segment.blocks.index(block) + 1
        if behind < len(segment.blocks) and not segment.blocks[behind].used:
            block.size += segment.blocks.pop(behind).size

    def _used_at(self, address):
        for segment in self._segments:
            for block in segment.blocks:
                if block.used and block.address == address:
                    return segment, block
        raise ValueError(f"no block in use begins at {address}")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "caching_allocator_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_caching_allocator():
    """Nine blocks, freed and given back."""
    MiB = 2**20

    def drawn(memory):
        """A character for every 2 MiB: a block in use begins with [, a free one is dots; a bar stands between segments."""
        shown = []
        for _, _, blocks in memory.segments():
            lengths = [(round(size / (2 * MiB)), used) for _, size, used in blocks]
            shown.append("".join("[" + "#" * (n - 1) if used else "." * n for n, used in lengths))
        return "|".join(shown)

    def show(what):
        print(f"{what:28} allocated {memory.allocated / MiB:4.0f} MiB, reserved {memory.reserved / MiB:4.0f} MiB  {drawn(memory)}")
        return memory.allocated / MiB, memory.reserved / MiB

    memory = caching_allocator(60 * MiB)
    blocks = [memory.malloc(6 * MiB) for _ in range(9)]
    filled = show("nine blocks of 6 MiB")
    for block in blocks[::2]:
        memory.free(block)
    freed = show("every other one freed")
    wide = memory.malloc(7 * MiB)
    rest = show("7 MiB, of a block of 8 MiB")
    try:
        memory.malloc(10 * MiB)
        said = "nothing"
    except MemoryError as error:
        said = str(error)
    print("10 MiB:", said)
    memory.empty_cache()
    emptied = show("empty_cache()")
    memory.free(blocks[7])
    memory.empty_cache()
    given_back = show("one more freed, empty_cache()")

    assert filled == (54, 60), f"three blocks of 6 MiB fit into a segment of 20 MiB, and its rest is free: {filled}"
    assert freed == (24, 60), f"what is freed is no longer allocated, and still reserved: {freed}"
    assert wide == blocks[2], f"the first free block of 8 MiB, 6 that were freed and the 2 behind them, is not at {wide:#x}"
    assert rest == (32, 60), f"a rest of 1 MiB is not split off from a large block: {rest}"
    both = [str(10 * MiB), str(28 * MiB)]
    assert all(number in said for number in both), f"10 MiB are due to be refused, with both numbers, {both}: {said}"
    assert emptied == (32, 60), f"each of the three segments has a block in use, so that none goes back: {emptied}"
    assert given_back == (26, 40), f"now the third segment has none: {given_back}"


_see_caching_allocator()

# %% nbgrader={"grade": false, "grade_id": "caching_allocator_card", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_caching_allocator_card():
    """The same with tensors on the card."""
    # The same with tensors on the card; with gpulab.cuda.use("real") it is PyTorch's own allocator, on your GPU.
    # On a stream of its own the card's allocator has no free blocks either: those of other streams are not taken.
    with gpulab.cuda.use("virtual:H100", quiet=True), torch.cuda.stream(torch.cuda.Stream()):
        MiB = 2**20
        torch.cuda.empty_cache()
        before, memory = (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), caching_allocator(2**40)
        sizes = {"a": 1000, "b": MiB, "c": MiB + 1, "d": 7 * MiB, "e": 19 * MiB // 2, "f": 21 * MiB, "g": 3 * MiB}
        held, rows = {}, []
        for name in ("a", "b", "c", "d", "e", "f", "-b", "-d", "g"):
            size = sizes.get(name, 0)
            if size:
                held[name] = memory.malloc(size), torch.empty(size, dtype=torch.uint8, device="cuda")
            else:
                memory.free(held.pop(name[1:])[0])
            card = torch.cuda.memory_allocated() - before[0], torch.cuda.memory_reserved() - before[1]
            rows.append((name, size, (memory.allocated, memory.reserved), card))
        held.clear()

    for name, size, yours, card in rows:
        print(f"{name:3} {size or 'freed':>9}   allocated {yours[0]:9}, the card's {card[0]:9}", end="")
        print(f"   reserved {yours[1]:9}, the card's {card[1]:9}")
        assert yours == card, f"at {name} your allocator has {yours} bytes, the card's {card}"


_see_caching_allocator_card()

# %% nbgrader={"grade": true, "grade_id": "caching_allocator_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of caching_allocator: segments 1, splitting 1, best fit 1, merging 1, what is counted 1,
# the cache 1, out of memory 1, errors 1, long traces 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("trading.caching_allocator")
### END HIDDEN TESTS

# %% [markdown]
# ## E10.4 `classify_growth`
#
# A run that ends in its second step and one that ends after an hour raise the same exception. The first asks for more
# than there is; the second holds more in every step, or reserves more and cannot use it. Which it is can be read from two
# numbers that the allocator keeps: `torch.cuda.memory_allocated()`, the bytes of its blocks that tensors hold, and
# `torch.cuda.memory_reserved()`, the bytes of the segments in which those blocks lie.
#
# The cell below makes seven loops that someone might suspect.

# %% nbgrader={"grade": false, "grade_id": "suspects", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _a_loop(trains, log):
    """A step of a small model; ``log`` gets the step's loss."""
    model = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)

    def step():
        loss = model(torch.ones(16, 64, device="cuda")).tanh().mean()
        if trains:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        log(loss)

    return step


def _longer_batches():
    """A step that needs 2 MiB more than the one before it, and holds nothing afterwards."""
    sizes = iter(range(12 << 20, 1 << 30, 2 << 20))
    return lambda: torch.empty(next(sizes), dtype=torch.uint8, device="cuda").numel()


def _a_total(trains):
    """A loop with ``total = total + loss``, and where the total is."""
    held = {"total": 0}
    return _a_loop(trains, lambda loss: held.update(total=held["total"] + loss)), held


def _nodes_behind(total):
    """How many additions a total remembers."""
    node, count = total.grad_fn, 0
    while node is not None:
        count += type(node).__name__ == "AddBackward0"
        node = node.next_functions[0][0] if node.next_functions else None
    return count


gpulab.cuda.use("virtual:H100")
_step = _a_loop(True, lambda loss: None)
print("held at first:      ", torch.cuda.memory_allocated())
for _number in range(4):
    _step()
    print(f"held after step {_number + 1}:  ", torch.cuda.memory_allocated())

_suspects = {
    "no backward, numbers.append(loss.item())": lambda: _a_loop(False, lambda loss, kept=[]: kept.append(loss.item())),
    "no backward, losses.append(loss)": lambda: _a_loop(False, lambda loss, kept=[]: kept.append(loss)),
    "backward, losses.append(loss)": lambda: _a_loop(True, lambda loss, kept=[]: kept.append(loss)),
    "backward, numbers.append(loss.item())": lambda: _a_loop(True, lambda loss, kept=[]: kept.append(loss.item())),
    "no backward, total = total + loss": lambda: _a_total(False)[0],
    "backward, total = total + loss": lambda: _a_total(True)[0],
    "batches that grow": _longer_batches,
}

# %% [markdown]
# Write `classify_growth(step, steps)`, which runs a loop and says what it does to the memory of the current device:
#
# - [c1] `step` is a function without arguments, one step of a loop. [c2] It trains, evaluates, keeps or returns what it likes. [c3] The
#   steps are **four epochs** of `steps // 4` steps each, with the same batches in the same order;
# - [c4] `step` is called exactly `steps` times. [c5] A step *holds* what `torch.cuda.memory_allocated()` is after it, and has
#   *reserved* what `torch.cuda.memory_reserved()` is after it; [c6] the caller may hold much before the first call;
# - [c7] what a loop makes once (gradients, momentum, caches, buffers that fill up) is there after the second epoch. [c8] Later a step
#   holds as much as the same step of the epoch before, or, in a loop that leaks, so many bytes more, as many for each step
#   of the epoch. [c9] From step to step the held bytes may rise and fall; [c10] what a step frees again may be of another size each
#   time;
# - [c11] it returns a tuple of a `str` and a `float`, the **kind** and the **bytes per step**. [c12] The kind is the first in this
#   list that is true;
# - [c13] `"leak"`: the steps of the fourth epoch hold more than the same steps of the third;
# - [c14] `"fragmentation"`: after the last step of the fourth epoch more is reserved than after the last step of the third;
# - [c15] `"plateau"`: some step of the fourth epoch holds more than was held before the first call;
# - [c16] `"flat"`: none of these, also where less and less is held;
# - [c17] the bytes per step are, of a leak, the held bytes that an epoch adds, divided by its steps; [c18] of fragmentation, the
#   reserved bytes by which those last steps differ, divided by `steps // 4`; [c19] otherwise `0.0`. They are right to the byte;
# - [c20] **the loop goes on as if nobody looked**, so no result of a step is kept until the next, no memory of the device is
#   taken, and nothing waits for the device;
# - [c21] nothing is freed for the loop either, not by `torch.cuda.empty_cache()` and not by `gc.collect()`. [c22] What only Python's
#   collector would free counts as held;
# - [c23] the statistics of the allocator are not reset;
# - [c24] an exception that `step` raises comes out as it is, and `step` is not called again;
# - [c25] raises `ValueError`, before the first call, where `steps` is not a multiple of 4, or less than 4.

# %% nbgrader={"grade": false, "grade_id": "classify_growth", "locked": false, "schema_version": 3, "solution": true, "task": false}
def classify_growth(step, steps):
    """The kind of growth that ``steps`` calls of ``step`` show on the device, and its bytes per step."""
    ### BEGIN SOLUTION
    epoch, rest = divmod(steps, 4)
    if rest or epoch < 1:
        raise ValueError(f"{steps} steps are not four epochs")
    before, held, reserved = torch.cuda.memory_allocated(), [], []
    for _ in range(steps):
        step()
        held.append(torch.cuda.memory_allocated())
        reserved.append(torch.cuda.memory_reserved())
    leaked = held[-1] - held[-1 - epoch]
    taken = reserved[-1] - reserved[-1 - epoch]
    if leaked > 0:
        return "leak", leaked / epoch
    if taken > 0:
        return "fragmentation", taken / epoch
    return ("plateau" if max(held[-epoch:]) > before else "flat"), 0.0
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "classify_growth_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_classify_growth():
    """What grows in each of seven loops, and by how much in a step."""
    found = {}
    for name, suspect in _suspects.items():
        with gpulab.cuda.use("virtual:H100", quiet=True):
            found[name] = classify_growth(suspect(), 8)
        kind, per_step = found[name]
        print(f"{name:<42}{kind:<16}{per_step:>12,.1f} bytes per step")

    with gpulab.cuda.use("virtual:H100", quiet=True):
        step, held = _a_total(True)
        on_the_card = classify_growth(step, 8)
        nodes = _nodes_behind(held["total"])
        print(f"\nThe total after a backward pass is {on_the_card[0]} on the card; on the host it holds {nodes} nodes of additions.")
        lengths = [8, 64, 16, 32]
        turn = iter(4 * lengths)  # an epoch has four batches
        last = {}
        waves = classify_growth(lambda: last.update(batch=torch.ones(next(turn), 256, device="cuda")), 16)

    saved, scalar = 2 * 16 * 64 * 4, 512  # the batch, and what tanh gave
    due = {
        "no backward, numbers.append(loss.item())": ("flat", 0.0, "a graph is dropped with its step: no_grad is not missed here"),
        "no backward, losses.append(loss)": ("leak", saved + scalar, "each loss holds its block and all that its graph saved"),
        "backward, losses.append(loss)": ("leak", scalar, "after a backward pass a loss holds its own block of 512 bytes"),
        "backward, numbers.append(loss.item())": ("plateau", 0.0, "gradients and momentum are made in the first step, and stay"),
        "no backward, total = total + loss": ("leak", saved, "the total's graph leads to every batch"),
        "backward, total = total + loss": ("plateau", 0.0, "one total is held, and the nodes behind it are the host's"),
    }
    for name, (kind, per_step, why) in due.items():
        assert found[name] == (kind, per_step), f"{name}: {found[name]}, where {(kind, per_step)} is due: {why}"
    assert found["batches that grow"][0] == "fragmentation", "nothing more is held, and no cached block is large enough"
    assert on_the_card == ("plateau", 0.0), "one total is held, and the nodes behind it are the host's"
    assert waves == ("plateau", 0.0), "four lengths take turns: compare with the same step of another epoch"


_see_classify_growth()

# %% nbgrader={"grade": true, "grade_id": "classify_growth_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of classify_growth: startup 2, leak 2, sawtooth 1, reserved 1, rate 1, untouched 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("trading.classify_growth")
### END HIDDEN TESTS
