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
# # Serving engines: exercises
#
# A scheduler is run in the engine of `gpulab.serving`, and every step that it planned is run once more by the referee. An
# allocator is asked in an order that is drawn, and a memory beside it shows whose tokens lie where. A kernel is run, and
# what it loads and stores is counted.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read the table: it
# shows what your code did. `gpulab.observe()` works on any code of yours.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import gpulab
import torch

# %% [markdown]
# ## E19.1 `continuous_batcher`
#
# A batch that drains before the next one begins leaves places empty. First come first served in every step fills them, until
# someone comes who does not fit yet: then all behind wait too. If everyone may pass, that one waits for ever. Write a scheduler
# that lets others pass, and counts.
#
# Write `continuous_batcher(patience)`. It returns a scheduler: an object with the method
# `plan(waiting, running, blocks, budget)` of `gpulab.serving.Scheduler`. Here `blocks` is a `Paged`, `budget.tokens` is not
# less than `budget.requests`, and no request is `whole`.
#
# - [c1] `patience` is an `int`, 0 or more. Anything else, a `bool` too, raises `ValueError`.
# - [c2] **Order of arrival** is by `arrival_us`, and at a tie by the order in which you first saw them in `waiting`. Neither
#   list need stand in this order, and a preemption changes nobody's place in it.
# - [c3] **Decodes.** In every step each running request with `left == 1` gets its token, unless it is preempted.
# - [c4] **Preemption.** While too few blocks are free for all these decodes, the running request that arrived last is
#   preempted, decoding or not. A step that preempts lets nobody in.
# - [c5] **Admission.** All other steps try the waiting requests in order of arrival. A request fits if a place of
#   `budget.requests` is left, and tokens of `budget.tokens` and free blocks for all its `left` tokens. It is let in, and all
#   these tokens are computed in that step. One that does not fit waits on, and the next is tried.
# - [c6] **Patience.** Each time a request is let in, the count of every earlier one that still waits goes up by one, at once.
#   While a request whose count has reached `patience` waits, nobody who arrived later is let in. A count begins at 0 and is
#   kept, through preemptions, until its request ends.
# - [c7] **Long prompts.** A request with more than `budget.tokens` tokens left fits if a place, one token of the step, and
#   blocks for all its `left` tokens are free; it reserves all these blocks at once. It takes all tokens that are left in this
#   step, and in each later one all that the decodes leave, before anyone is let in, until its own are computed. No other
#   prompt is cut.
# - [c8] **Blocks.** A running request holds the blocks of its computed and planned tokens and no more; only a long one
#   reserves ahead. Its blocks are released only when it is preempted or ends.
# - [c9] **State.** What you remember belongs to the `Live`, not to its name: a scheduler may serve one trace after another,
#   and names come back. A client may hang up at any time; its request is then in neither list. Two schedulers share nothing.

# %% nbgrader={"grade": false, "grade_id": "continuous_batcher", "locked": false, "schema_version": 3, "solution": true, "task": false}
from gpulab.serving import Plan


def continuous_batcher(patience):
    """A scheduler that refills its batch in every step and lets a waiting request be overtaken ``patience`` times."""
    ### BEGIN SOLUTION
    if not isinstance(patience, int) or isinstance(patience, bool) or patience < 0:
        raise ValueError(f"patience is a whole number, 0 or more, not {patience!r}")
    return Batcher(patience)


class Batcher:
    """``overtaken``: how often each request that is there was, in the order of arrival."""

    def __init__(self, patience):
        self.patience, self.overtaken = patience, {}

    def plan(self, waiting, running, blocks, budget):
        self.meet(waiting, running)
        plan = Plan()
        self.go_on(set(running), blocks, budget.tokens, plan)
        if not plan.preempt:
            self.let_in(set(waiting), budget.requests - len(running), blocks, budget.tokens, plan)
        return plan

    def meet(self, waiting, running):
        """Forget who has left; who is new comes behind all others."""
        there = {*waiting, *running}
        self.overtaken = {live: count for live, count in self.overtaken.items() if live in there}
        for live in waiting:
            self.overtaken.setdefault(live, 0)

    def go_on(self, running, blocks, budget, plan):
        """The decodes, with preemption; then the rest of a long prompt, of which there is one at most."""
        stay = [live for live in self.overtaken if live in running]
        for live in list(stay):
            while live in stay and not blocks.reserve(live, 1):
                plan.preempt.append(stay.pop())
                blocks.release(plan.preempt[-1])
        for live in sorted(stay, key=lambda live: live.left):
            plan.tokens[live] = min(live.left, budget - sum(plan.tokens.values()))

    def let_in(self, waiting, places, blocks, budget, plan):
        tokens, passed = budget - sum(plan.tokens.values()), []
        for live in [live for live in self.overtaken if live in waiting]:
            if any(self.overtaken[other] >= self.patience for other in passed):
                return
            now = live.left if live.left <= budget else max(tokens, 1)
            if not places or now > tokens or not blocks.reserve(live, live.left):
                passed.append(live)
                continue
            plan.tokens[live] = now
            places, tokens = places - 1, tokens - now
            for other in passed:
                self.overtaken[other] += 1
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "continuous_batcher_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_continuous_batcher():
    """Forty requests, with three kinds of patience and two other schedulers."""
    from gpulab.serving import Budget, Continuous, Linear, Paged, Request, Static, compare, serve

    crowd = [Request(f"r{n}", 1800.0 * n, 60 if n % 8 == 2 else 8, most=6 + 5 * n % 11) for n in range(40)]

    def ran(scheduler):
        return serve(crowd, scheduler, Paged(24, size=4), Linear(step=1000, token=10), budget=Budget(tokens=96, requests=8))

    def overtaken(run):
        """How often each was overtaken before it was first let in."""
        first = [outcome.first_us for outcome in run.outcomes]
        return [sum(later < us for later in first[n + 1 :]) for n, us in enumerate(first)]

    def longest_ms(run, *prompts):
        """Time to first token."""
        return max(outcome.ttft_us / 1e3 for outcome in run.outcomes if outcome.prompt_tokens in prompts)

    patient = {patience: ran(continuous_batcher(patience)) for patience in (0, 4, 10**6)}
    runs = {"Static": ran(Static()), "Continuous": ran(Continuous())} | {f"patience {n}": patient[n] for n in (0, 4)}
    print(compare(runs))
    print("\npatience   overtaken at most   first token of prompts of 60, of 8, the longest, ms")
    for patience, run in patient.items():
        print(f"{patience:>8}   {max(overtaken(run)):>17}   {longest_ms(run, 60):>32.1f} {longest_ms(run, 8):>5.1f}")

    assert all(run.finished == 40 for run in runs.values()), "every request is due to come to its end"
    assert patient[0].makespan_us < runs["Static"].makespan_us, "no batch drains: all are done sooner than with Static"
    assert patient[4].idle_slots < runs["Continuous"].idle_slots, "others fit: fewer places are idle than with Continuous"
    assert max(overtaken(patient[0])) == 0, "with patience 0 nobody is overtaken: all are let in in the order of arrival"
    assert max(overtaken(patient[4])) == 4, f"4 pass here, and no more may: {max(overtaken(patient[4]))} did"
    assert max(overtaken(patient[10**6])) > 4, "with more patience a request is overtaken whenever another fits and it does not"


_see_continuous_batcher()

# %% nbgrader={"grade": true, "grade_id": "continuous_batcher_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of continuous_batcher: decodes 1, busy 1, overtakes 1, patience 1, order 1, preemption 1, long 1, state 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.continuous_batcher")
### END HIDDEN TESTS

# %% [markdown]
# ## E19.2 `block_allocator`
#
# Several answers to one prompt, or the beams of a search, begin with the same tokens, and so with the same keys and values. An
# allocator that knows how many tables name a block keeps such a beginning once. Whoever writes where others still read gets a
# copy of one block first. That is what lets a cache hold many samples of one long prompt.
#
# Write `block_allocator(total, size)`. It returns an object that shares out `total` blocks of `size` tokens each, numbered
# from 0:
#
# - [c1] `ValueError` where `total` or `size` is less than 1. Two allocators share nothing.
# - [c2] `append(seq, n=1)` makes room for `n` more tokens at the end of `seq`; a new name begins a sequence. A name is an
#   integer, a string or a tuple of them. `ValueError` where `n` is less than 1.
# - [c3] `append` returns the list of the copies that the engine has to make before it writes the tokens: `[(source, target)]`,
#   or `[]` where none is due.
# - [c4] `fork(parent, child)` begins the sequence `child` with the tokens of `parent`. Its table names the same blocks; none
#   is taken or copied. `KeyError` where there is no `parent`, `ValueError` where there is a `child` already.
# - [c5] `release(seq)` ends the sequence; its name may begin a new one. `table(seq)` is the list of its blocks: token `t`
#   lies in block number `t // size` of it, at place `t % size`. `length(seq)` is its number of tokens. All three raise
#   `KeyError` where there is no such sequence.
# - [c6] `free`, a property, is the number of blocks that stand in no table.
# - [c7] **As few as needed.** A sequence holds `ceil(length / size)` blocks. It takes any that are free, and keeps them,
#   except for a copy.
# - [c8] **Copy on write.** No token is written into a block that stands in another table too. Where the last block is partly
#   filled and shared, `append` puts a free block in its place, in the table of `seq` alone: that is the copy. The last
#   sequence that has a block writes in place, and nothing else is copied.
# - [c9] **Out of room.** `append` raises `MemoryError` where it needs more blocks than are free, the target of a copy among
#   them, and only then.
# - [c10] A call that raises changes nothing. The lists that you return are new: the caller may change them.

# %% nbgrader={"grade": false, "grade_id": "block_allocator", "locked": false, "schema_version": 3, "solution": true, "task": false}
def block_allocator(total, size):
    """Room for sequences of tokens in ``total`` blocks of ``size`` places; sequences share blocks until one of them writes."""
    ### BEGIN SOLUTION
    return SharedBlocks(total, size)


class SharedBlocks:
    """The table of each sequence, and in how many tables each block stands."""

    def __init__(self, total, size):
        if total < 1 or size < 1:
            raise ValueError(f"{total} blocks of {size} places hold nothing")
        self._size, self._free, self._users = size, list(range(total)), [0] * total
        self._tables, self._lengths = {}, {}

    @property
    def free(self):
        return len(self._free)

    def table(self, seq):
        return list(self._tables[seq])

    def length(self, seq):
        return self._lengths[seq]

    def append(self, seq, n=1):
        if n < 1:
            raise ValueError(f"{n} tokens need no room")
        length, table = self._lengths.get(seq, 0), self._tables.get(seq, [])
        shared = length % self._size > 0 and self._users[table[-1]] > 1
        more = -(-(length + n) // self._size) - len(table)
        if more + shared > self.free:
            raise MemoryError(f"{more + shared} blocks are needed, {self.free} are free")
        copies = [self._part(table)] if shared else []
        table.extend(self._take() for _ in range(more))
        self._tables[seq], self._lengths[seq] = table, length + n
        return copies

    def fork(self, parent, child):
        table = self.table(parent)
        if child in self._tables:
            raise ValueError(f"there is a sequence {child!r} already")
        for block in table:
            self._users[block] += 1
        self._tables[child], self._lengths[child] = table, self._lengths[parent]

    def release(self, seq):
        for block in self._tables.pop(seq):
            self._leave(block)
        del self._lengths[seq]

    def _part(self, table):
        """Put a block of its own at the end of a table; the copy that this makes due."""
        source, table[-1] = table[-1], self._take()
        self._leave(source)
        return source, table[-1]

    def _take(self):
        block = self._free.pop()
        self._users[block] = 1
        return block

    def _leave(self, block):
        self._users[block] -= 1
        if self._users[block] == 0:
            self._free.append(block)
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "block_allocator_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_block_allocator():
    """Who has which block; then how many samples of a prompt get in."""

    def show(what, names):
        """A column for each block: who has it."""
        held = {name: cache.table(name) for name in names}
        cells = ["".join(name for name in names if block in held[name]) or "." for block in range(12)]
        print(f"{what:34}" + "".join(f"{cell:>4}" for cell in cells) + f"   free {cache.free:2}")

    cache = block_allocator(12, 4)
    print(f"{'who has which block':34}" + "".join(f"{block:4}" for block in range(12)))
    cache.append("p", 10)
    show("p: a prompt of 10 tokens", "p")
    for sample in "ab":
        cache.fork("p", sample)
    show("a, b: two samples of it", "pab")
    forked = cache.free
    first = cache.append("a")
    show(f"a writes, copies {first}", "pab")
    second = cache.append("b", 3)
    show(f"b writes 3, copies {second}", "pab")
    source, alone = cache.table("p")[-1], cache.append("p")
    show(f"p writes, copies {alone}", "pab")
    cache.release("a")
    show("a hangs up", "pb")

    assert forked == 9, f"the prompt has 3 blocks, its samples share them: 9 of 12 are free, not {forked}"
    assert len(first) == 1, f"a writes into the third block, which p and b have too: one copy is due, not {first}"
    assert len(second) == 1, f"b writes there too, where p still reads, and fills a fourth block: one copy is due, not {second}"
    assert first[0][0] == second[0][0] == source, f"both copies are of block {source}, the prompt's last: {first}, {second}"
    assert alone == [], f"p is the last that has its third block and writes in place: {alone}"
    assert cache.free == 7, f"a's own copy is free again, the two blocks that it shared are not: 7 are free, not {cache.free}"

    def samples_of(prompt, tokens, shared):
        """How many samples of a prompt get in, each with so many tokens of its own."""
        memory = block_allocator(64, 16)
        memory.append("prompt", prompt)
        for count in range(64):
            try:
                if shared:
                    memory.fork("prompt", count)
                    memory.append(count, tokens)
                else:
                    memory.append(count, prompt + tokens)
            except MemoryError:
                return count

    print("\nsamples of 28 tokens in 64 blocks of 16, beside their prompt")
    print("prompt tokens   shared   each its own")
    for prompt in (4, 100, 400):
        print(f"{prompt:13} {samples_of(prompt, 28, True):8} {samples_of(prompt, 28, False):14}")

    assert samples_of(100, 28, True) == 28, "6 full blocks are shared and 2 are each sample's own: with the prompt's last one, 28 get in"
    assert samples_of(100, 28, False) == 7, "128 tokens fill 8 blocks: beside a prompt of 7 blocks 7 sequences get in"


_see_block_allocator()

# %% nbgrader={"grade": true, "grade_id": "block_allocator_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of block_allocator: room 1, fork 1, shared blocks 1, copies 1, writing in place 1, what is free 1,
# out of room 1, errors 1, apart 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.block_allocator")
### END HIDDEN TESTS

# %% [markdown]
# ## E19.3 `chunked_prefill`
#
# A prompt of thousands of tokens in one step makes everybody who decodes wait for that step. Chunks beside the
# decodes bound the wait. But a chunk takes longer the more context it looks back at, so no fixed number of
# tokens bounds the time. These parts of the engine are at hand:

# %% nbgrader={"grade": false, "grade_id": "chunked_parts", "locked": true, "schema_version": 3, "solution": false, "task": false}
from gpulab.serving import Chunked, Continuous, Plan

# %% [markdown]
# Write `chunked_prefill(step_us, gap_us)`. It returns a scheduler: an object with `plan(waiting, running, blocks, budget)`,
# as in `gpulab.serving.Scheduler`. Here `blocks` is a `Paged`.
#
# - [c1] **Clock.** `step_us(work)` says how many microseconds a step takes. `work` is a list with a pair `(new, context)` for
#   each request in the step: `new` tokens, 1 or more, behind `context`, the `live.computed` that are there. More work never
#   makes a step shorter. Nothing else is known of this function: it need not be linear.
# - [c2] Only `plan` asks `step_us`, at most 40 times a call, though `budget.tokens` may be 2³⁰ and dozens of requests wait.
# - [c3] `gap_us` is 0 or more: an integer, a float or infinity. Several schedulers work at the same time, and clients hang up
#   at any moment.
# - [c4] **Decodes.** A running request decodes when it was told a token and has exactly one token left. In every step each
#   decode gets its token.
# - [c5] **Gap.** A step in which somebody decodes lasts at most `gap_us`. If the decodes alone take longer, they go alone.
#   While nobody decodes there is no gap to keep.
# - [c6] **Prompts** get the rest of the step, first those in `running`, then those in `waiting`, each from the front. One is
#   finished before the next begins, and nobody is overtaken. Whatever a request computes before it decodes is its prompt,
#   after a preemption also the output tokens that it was told.
# - [c7] **Chunks** are as long as possible: one prompt token more would break the gap, `budget.tokens` or `budget.requests`,
#   or the next request finds no room in the cache. Several prompts may share a step.
# - [c8] **Room.** A request that is let in reserves blocks for `live.left` tokens, no less and no more, however short its
#   first chunk is. A request that is not let in holds no blocks.
# - [c9] **Preemption.** While a decode finds no room, the last of `running` is preempted, then the one before it;
#   `plan.preempt` has them in this order. A step that preempts lets nobody in.
# - [c10] **Whole prompts.** If `live.whole`, one step computes all `live.prompt_tokens`, which are never more than
#   `budget.tokens`. Until they fit, gap and all, the request waits, and so does everybody behind it. Output tokens told
#   before a preemption may be computed in later steps.

# %% nbgrader={"grade": false, "grade_id": "chunked_prefill", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chunked_prefill(step_us, gap_us):
    """A scheduler: decodes first, then as much of the prompts as a step of gap_us microseconds has time for."""
    ### BEGIN SOLUTION
    return Bounded(step_us, gap_us)


class Bounded:
    """Between steps it remembers nothing: all that counts is in the requests."""

    def __init__(self, step_us, gap_us):
        self.step_us, self.gap_us = step_us, gap_us

    def plan(self, waiting, running, blocks, budget):
        plan = Plan()
        for live in running:
            if live.told and live.left == 1 and live not in plan.preempt and keep(live, running, blocks, plan):
                plan.tokens[live] = 1
        if plan.preempt:  # a prompt in chunks runs as the last, so it is among them
            return plan
        line = [live for live in running if live not in plan.tokens] + waiting[: budget.requests - len(running)]
        for live, tokens in shared_out(line, self.most(list(plan.tokens), line, budget)):
            if live.state == "waiting" and not blocks.reserve(live, live.left):
                break
            plan.tokens[live] = tokens
        return plan

    def most(self, decodes, line, budget):
        """Tokens that the prompts of the line get together, were there room for all of them in the cache."""
        least, most = 0, min(budget.tokens - len(decodes), sum(live.left for live in line))
        while decodes and least < most:
            middle = (least + most + 1) // 2
            work = [(1, live.computed) for live in decodes]
            work += [(tokens, live.computed) for live, tokens in shared_out(line, middle)]
            least, most = (middle, most) if self.step_us(work) <= self.gap_us else (least, middle - 1)
        return most


def shared_out(line, tokens):
    """Pairs of a request and its part of the tokens, the first in line first; a whole prompt is not cut."""
    for live in line:
        part = min(live.left, tokens)
        if not part or (live.whole and live.computed + part < live.prompt_tokens):
            return
        yield live, part
        tokens -= part


def keep(live, running, blocks, plan):
    """Reserve room for one token more, preempting who came last until there is; False where that is live itself."""
    while not blocks.reserve(live, 1):
        last = next(other for other in reversed(running) if other not in plan.preempt)
        blocks.release(last)
        plan.preempt.append(last)
        if last is live:
            return False
    return True
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "chunked_prefill_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_chunked_prefill():
    """Chats and books: whole prompts, tokens alone and your chunks."""
    from gpulab.serving import Budget, Linear, Paged, Request, compare, serve

    clock, gap = Linear(step=1000, token=10, context=0.05), 4000
    trace = [Request(f"chat {n}", 2000.0 * n, 20 + n, most=30) for n in range(6)]
    trace += [Request(f"book {n}", 9000.0 + n, 900 + n, most=8) for n in range(2)]

    def served(scheduler):
        return serve(trace, scheduler, Paged(200, size=16), clock, budget=Budget(tokens=1024, requests=16))

    whole, fixed = served(Continuous()), served(Chunked())
    yours = served(chunked_prefill(clock.step_us, gap))
    print(compare({"whole prompts": whole, "tokens alone": fixed, "yours": yours}))
    print()
    print("step  tokens  requests     us")
    for number, step in enumerate(yours.steps[:16]):
        print(f"{number:4}{step.tokens:8}{step.requests:10}{step.us:7.0f}")

    longest = yours.gaps_us.max()
    most_computed = max(step.tokens for step in yours.steps)
    assert yours.finished == len(trace), f"{yours.finished} of {len(trace)} requests were served to their end"
    assert longest <= gap, f"somebody who decodes waited {longest:.0f} us for a token: {gap} us at most are due"
    assert most_computed > 100, f"no step computed more than {most_computed} tokens: the gap has time for longer chunks"
    assert yours.makespan_us < 1.5 * whole.makespan_us, "chunks are too short: each step costs 1,000 us besides its tokens"

    calls = []

    def counted(work):
        calls.append(work)
        return clock.step_us(work)

    alone = serve([trace[-1]], chunked_prefill(counted, 0), Paged(200, size=16), clock, budget=Budget(tokens=512))
    chunks = [step.tokens for step in alone.steps[:2]]
    assert chunks == [512, 389], f"a prompt alone went in chunks of {chunks}: the budget of 512 alone bounds it"
    calls.clear()
    served(chunked_prefill(counted, gap))
    assert 0 < len(calls) <= 40 * len(yours.steps), f"step_us was asked {len(calls)} times in {len(yours.steps)} steps"


_see_chunked_prefill()

# %% nbgrader={"grade": true, "grade_id": "chunked_prefill_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of chunked_prefill: gap 2, decodes first 1, long chunks 2, order 1, room and preemption 1,
# whole prompts 1, calls of the clock 1. Every step is carried out and judged once more by the referee.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.chunked_prefill")
### END HIDDEN TESTS

# %% [markdown]
# ## E19.4 `place_phases`
#
# On shared instances, chunks of prompts lengthen the steps of decodes. On split instances (disaggregated prefill), a prompt's keys
# and values cross a link. Which costs less? The model below decides it from lengths, rate and link, on average. (Chunked prefill,
# as in Sarathi-Serve, shares: nothing is sent.) Every number that comes of it is *modelled*.

# %% nbgrader={"grade": false, "grade_id": "place_phases_given", "locked": true, "schema_version": 3, "solution": false, "task": false}
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Kind:
    """Requests that are alike."""

    prompt: int  # tokens
    cached: int  # the first of them, whose keys and values every instance that computes prompts has already
    output: int  # tokens that are generated
    weight: int  # so many requests of the mix are of this kind


@dataclass(frozen=True)
class Workload:
    mix: list  # of Kind
    rate: Fraction  # requests a second, to all instances together
    most_ttft_us: Fraction  # limit of the mean time to the first token, in microseconds
    most_gap_us: Fraction  # limit of the longest time between two tokens, in microseconds


@dataclass(frozen=True)
class Cluster:
    instances: int  # each a GPU, or several, with the whole model
    slots: int  # requests that one of them can decode at once
    prefill_us: Fraction  # to compute a token of a prompt
    step_us: Fraction  # a step of decodes, however many
    chunk: int  # tokens of a prompt that join a step at most
    layers: int  # with keys and values of one size
    kv_bytes: int  # keys and values of a token, in all layers together
    link_gbps: Fraction  # 10**9 bits a second, from each instance
    link_latency_us: Fraction


# %% [markdown]
# Write `place_phases(workload, cluster)`. Below, n is `instances`, of which p compute prompts in a split, and λ is `rate` / 10⁶,
# requests a microsecond. Of a request, N = `prompt` - `cached` tokens are computed, and O = `output` - 1 tokens come after the first.
#
# | | shared | split |
# | --- | --- | --- |
# | C, to compute a prompt | `prefill_us` · N | the same |
# | S, for which it keeps an instance busy | C + `step_us` · ⌈N / `chunk`⌉ | C |
# | load ρ | λ · E[S] / n | λ · E[S] / p |
# | mean wait W | λ · E[S²] / (2 · n · (1 − ρ)) | λ · E[S²] / (2 · p · (1 − ρ)) |
# | `ttft_us`, mean time to the first token | W + E[S] | W + E[S] + `exposed_us` |
# | `tbt_us`, mean time between tokens | `step_us` / (1 − λ · E[C] / n) | `step_us` |
# | `gap_us`, longest time between tokens | `step_us` + `prefill_us` · min(`chunk`, largest N of the mix) | `step_us` |
# | `latency_us`, mean time to the last token | `ttft_us` + E[O] · `tbt_us` | the same |
#
# - [c1] **Means and queues.** E is the mean over the requests of the mix: each kind counts by its `weight`. Each instance
#   that computes prompts has a queue of its own, with Poisson arrivals (M/G/1) and a load ρ less than 1.
# - [c2] **Slots.** On average λ · E[O] · `tbt_us` requests decode, spread evenly over the instances that decode, at most
#   `slots` on each. In a split as few instances decode as that allows, at least one. All others compute prompts, at least
#   one.
# - [c3] **Link.** In a split the keys and values of the whole prompt, cached tokens too, cross the link of the instance that
#   computed it, in a time T at `link_gbps`. Each instance has its own link, which is not given more than it carries:
#   λ · E[T] / p is at most 1.
# - [c4] **Layers.** A prompt's layers are computed one after another, each in C / `layers`, and sent one after another, each
#   in T / `layers`: a layer once it is computed and the one before it has been sent. `exposed_us` is the mean time from the
#   end of the computation to the end of the last layer's transfer, plus `link_latency_us` once.
# - [c5] **Result**: a new dictionary. `"shared"` and `"split"` are dictionaries of the four times in the table; `"split"`
#   also has `exposed_us`, `prefill` (p) and `decode` (n − p). Each is None where load, slots, links or instances do not allow
#   it.
# - [c6] `"bytes"` is the mean number of bytes that a split sends for a request, also where `"split"` is None.
# - [c7] `"placement"` is `"shared"` or `"split"`: of those whose `ttft_us` and `gap_us` are at most the workload's limits,
#   the one with the smaller `latency_us`, `"shared"` at a tie. It is None where neither is within the limits.
# - [c8] `"break_even_gbps"` is the least link bandwidth at which there is a split with at most the `latency_us` of shared,
#   all else as it is and limits aside. Without a shared plan any split will do. It is None if no finite bandwidth does.
# - [c9] **Precision.** Times and bandwidths may be off by 10⁻⁹ of their value. All else is exact, also where a limit is just
#   reached: compute with `Fraction` throughout (one integer divided by another with `/` is a float).
# - [c10] `ValueError` for an empty mix, for `cached` less than 0 or not less than `prompt`, and for any other number that is
#   not greater than 0; `link_latency_us` may be 0.

# %% nbgrader={"grade": false, "grade_id": "place_phases", "locked": false, "schema_version": 3, "solution": true, "task": false}
def place_phases(workload, cluster):
    """What sharing and splitting come to, which of them is due, and at which bandwidth they break even."""
    ### BEGIN SOLUTION
    require_numbers(workload, cluster)
    sizes = split_sizes(workload, cluster)
    plans = {"shared": shared_plan(workload, cluster), "split": sizes and split_plan(workload, cluster, *sizes)}
    within = [name for name, plan in plans.items() if plan and meets_limits(workload, plan)]
    return {
        "placement": min(within, key=lambda name: plans[name]["latency_us"], default=None),
        "bytes": sent_bytes(workload, cluster),
        "break_even_gbps": sizes and break_even(workload, cluster, plans["shared"], *sizes),
        **plans,
    }


def shared_plan(workload, cluster):
    """Times of every instance doing both, or None."""
    each, computing = rate_us(workload, cluster.instances), mean(workload, lambda kind: compute_us(cluster, kind))
    takes = lambda kind: compute_us(cluster, kind) + cluster.step_us * -(-new_tokens(kind) // cluster.chunk)
    if each * mean(workload, takes) >= 1:
        return None
    tbt = cluster.step_us / (1 - each * computing)
    if each * tokens_after_first(workload) * tbt > cluster.slots:
        return None
    largest = max(min(new_tokens(kind), cluster.chunk) for kind in workload.mix)
    ttft = wait_us(workload, cluster.instances, takes) + mean(workload, takes)
    return times(workload, ttft, tbt, cluster.step_us + largest * cluster.prefill_us)


def split_sizes(workload, cluster):
    """How many instances compute prompts and how many decode, or None. The link is not asked."""
    at_once = rate_us(workload, 1) * tokens_after_first(workload) * cluster.step_us
    decode = max(1, -(-at_once // cluster.slots))
    prefill = cluster.instances - decode
    busy = prefill > 0 and rate_us(workload, prefill) * mean(workload, lambda kind: compute_us(cluster, kind))
    return (prefill, decode) if prefill > 0 and busy < 1 else None


def split_plan(workload, cluster, prefill, decode):
    """Times and numbers of a split, or None where its links do not hold."""
    us_per_byte = Fraction(8, 1000) / cluster.link_gbps
    if rate_us(workload, prefill) * sent_bytes(workload, cluster) * us_per_byte > 1:
        return None

    def exposed_us(kind):
        # Every layer but the first goes behind a layer's computation or behind a layer's transfer, whichever takes longer.
        sending, computing = kind.prompt * cluster.kv_bytes * us_per_byte, compute_us(cluster, kind)
        return (sending + (cluster.layers - 1) * max(sending - computing, 0)) / cluster.layers

    exposed = mean(workload, exposed_us) + cluster.link_latency_us
    ttft = prompt_us(workload, cluster, prefill) + exposed
    found = times(workload, ttft, cluster.step_us, cluster.step_us)
    return found | {"exposed_us": exposed, "prefill": prefill, "decode": decode}


def break_even(workload, cluster, shared, prefill, decode):
    """Gb/s. What is exposed is straight in the time of a byte, and steeper with every kind that sends longer than it computes."""
    sent = sent_bytes(workload, cluster)
    slowest = [1 / (rate_us(workload, prefill) * sent)]  # microseconds a byte: the links are full
    if shared:
        unhidden = times(workload, prompt_us(workload, cluster, prefill), cluster.step_us, cluster.step_us)["latency_us"]
        saved = shared["latency_us"] - unhidden - cluster.link_latency_us
        if saved <= 0:
            return None
        rest = cluster.layers - 1
        for share in {0, *map(new_share, workload.mix)}:
            longer = lambda kind: new_share(kind) <= share  # to send than to compute; any other set of kinds is less exposed
            on_top = mean(workload, lambda kind: longer(kind) * kind.prompt * cluster.kv_bytes)
            hidden = mean(workload, lambda kind: longer(kind) * compute_us(cluster, kind))
            slowest.append((cluster.layers * saved + rest * hidden) / (sent + rest * on_top))
    return Fraction(8, 1000) / min(slowest)


def mean(workload, amount):
    weights = sum(kind.weight for kind in workload.mix)
    return Fraction(sum(kind.weight * amount(kind) for kind in workload.mix), weights)


def rate_us(workload, instances):
    """Requests a microsecond to each of the instances."""
    return Fraction(workload.rate, instances * 10**6)


def wait_us(workload, instances, takes):
    each = rate_us(workload, instances)
    return each * mean(workload, lambda kind: takes(kind) ** 2) / (2 * (1 - each * mean(workload, takes)))


def prompt_us(workload, cluster, prefill):
    """The mean time to wait for a prompt's computation and to compute it, in a split."""
    takes = lambda kind: compute_us(cluster, kind)
    return wait_us(workload, prefill, takes) + mean(workload, takes)


def new_tokens(kind):
    return kind.prompt - kind.cached


def new_share(kind):
    return Fraction(new_tokens(kind), kind.prompt)


def compute_us(cluster, kind):
    return new_tokens(kind) * cluster.prefill_us


def tokens_after_first(workload):
    return mean(workload, lambda kind: kind.output - 1)


def sent_bytes(workload, cluster):
    return mean(workload, lambda kind: kind.prompt) * cluster.kv_bytes


def times(workload, ttft, tbt, gap):
    return {"ttft_us": ttft, "tbt_us": tbt, "gap_us": gap, "latency_us": ttft + tokens_after_first(workload) * tbt}


def meets_limits(workload, plan):
    return plan["ttft_us"] <= workload.most_ttft_us and plan["gap_us"] <= workload.most_gap_us


def require_numbers(workload, cluster):
    """Raise ValueError for what no workload and no cluster can be."""
    counts = [cluster.instances, cluster.slots, cluster.chunk, cluster.layers, cluster.kv_bytes]
    counts += [count for kind in workload.mix for count in (kind.prompt, kind.output, kind.weight)]
    rates = (workload.rate, workload.most_ttft_us, workload.most_gap_us, cluster.prefill_us, cluster.step_us, cluster.link_gbps)
    if not workload.mix or min(counts) < 1 or min(rates) <= 0 or cluster.link_latency_us < 0:
        raise ValueError("the mix is empty, or a number is too small")
    if any(not 0 <= kind.cached < kind.prompt for kind in workload.mix):
        raise ValueError("of a prompt at least one token is computed")
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "place_phases_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_place_phases():
    """One kind of request by hand; then Llama 3.1 70B on five instances."""
    from gpulab.serving import Roofline

    # One kind of request, small enough for pencil and paper.
    one = Workload([Kind(prompt=260, cached=10, output=11, weight=1)], rate=100, most_ttft_us=10_000, most_gap_us=2000)
    two = Cluster(2, 8, 10, 1000, chunk=100, layers=4, kv_bytes=1000, link_gbps=Fraction(13, 25), link_latency_us=5)
    small = place_phases(one, two)
    for name in ("shared", "split"):
        print(f"{name}: " + ", ".join(f"{key} {float(number):.7g}" for key, number in small[name].items()))
    print(f"{small['bytes']} bytes, break-even at {float(small['break_even_gbps']):.3f} Gb/s: {small['placement']}\n")
    shared, split = small["shared"], small["split"]
    assert small["bytes"] == 260_000, "260 tokens of 1000 bytes, those that were cached for computing too"
    assert abs(shared["gap_us"] - 2000) < 1e-6, "a step of 1000 us with a chunk of 100 tokens of 10 us"
    assert abs(shared["tbt_us"] - 1000 / (1 - 50e-6 * 2500)) < 1e-6, "each of 2 instances computes 50 prompts a second, in 2500 us each"
    wait = 50e-6 * 5500**2 / 2 / (1 - 50e-6 * 5500)
    assert abs(shared["ttft_us"] - wait - 5500) < 1e-6, "250 tokens to compute are three chunks, each in a step"
    assert (split["prefill"], split["decode"]) == (1, 1), "on average one request decodes at a time: one instance has the slots"
    assert abs(split["exposed_us"] - 2130) < 1e-6, "the first of 4 layers is sent after 625 us, each takes 1000 us, and the link adds 5 us once"
    assert abs(split["latency_us"] - split["ttft_us"] - 10 * 1000) < 1e-6, "ten tokens come after the first"
    assert small["placement"] == "split", "both are within the limits, and split has the smaller latency"
    even = place_phases(one, Cluster(2, 8, 10, 1000, 100, 4, 1000, small["break_even_gbps"], 5))
    assert abs(even["split"]["latency_us"] - shared["latency_us"]) < 1e-4, "at the break-even both take as long"

    # Llama 3.1 70B in bfloat16, on instances of eight H100. What a token and a step take is itself modelled.
    clock = Roofline("H100", "Llama 3.1 70B", "bf16", cards=8)
    token_bytes = 80 * 8 * 128 * 2 * 2  # layers, heads of keys and values, their elements, keys and values, bytes
    prefill_us, step_us = round(clock.step_us([(8192, 0)]) / 8192), round(clock.step_us([(1, 4096)] * 32))
    print(f"{token_bytes // 1024} KiB a token; modelled: {prefill_us} us to compute one, {step_us} us for a step of 32 decodes\n")
    assert token_bytes == clock.kv_bytes

    def plan_of(prompt, gbps, cached=0, **named):
        """Of five instances, whose time goes to computing prompts for a fifth."""
        rate = Fraction(5 * 10**6, 5 * (prompt - cached) * prefill_us)
        limits = {"most_ttft_us": 10**8, "most_gap_us": 10**5}
        fixed = {"slots": 512, "prefill_us": prefill_us, "step_us": step_us, "chunk": 2048, "layers": 80, "kv_bytes": token_bytes}
        cluster = Cluster(5, **(fixed | {"link_gbps": gbps, "link_latency_us": 20} | named))
        return place_phases(Workload([Kind(prompt, cached, 32, 1)], rate, **limits), cluster)

    def ms(plan, key):
        return f"{float(plan[key]) / 1000:10.1f}" if plan else f"{'-':>10}"

    print("modelled          ------- split: ms -------   - shared: ms -     break-even")
    print("  prompt    Gb/s   exposed   latency       gap   latency       gap       Gb/s  placement")
    evens = []
    for prompt, cached in ((1024, 0), (8192, 0), (32768, 0), (32768, 30720)):
        print(f"{prompt} tokens, {cached} of them cached: {float(plan_of(prompt, 25, cached)['bytes']) / 2**20:.0f} MiB")
        for gbps in (25, 100, 400):
            found = plan_of(prompt, gbps, cached)
            row = "".join(ms(found["split"], key) for key in ("exposed_us", "latency_us", "gap_us"))
            row += "".join(ms(found["shared"], key) for key in ("latency_us", "gap_us"))
            print(f"{prompt:8}{gbps:8}{row}{float(found['break_even_gbps']):11.1f}  {found['placement']}")
        evens.append(found["break_even_gbps"])
    assert evens == sorted(evens), "the longer the prompt, and the more of it is cached, the faster the link has to be"


_see_place_phases()

# %% nbgrader={"grade": true, "grade_id": "place_phases_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of place_phases: shared 2, instances 1, transfer 2, split 1, placement 1, break-even 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.place_phases")
### END HIDDEN TESTS

# %% [markdown]
# ## E19.5 `prefix_cache`
#
# A thousand requests begin with the same two pages of instructions. The keys and values of a token depend on the tokens
# up to it and on nothing else, so one copy serves everyone who begins alike, and nobody computes it a second time.
# vLLM finds such beginnings by hashes of full blocks, SGLang in a tree of token ids; both keep what nobody holds any more
# until its room is needed.
#
# Write `prefix_cache(total, size)`, an allocator for the engine as `gpulab.serving.Blocks` describes it, with
# `shares = True`:
#
# - [c1] `ValueError` where `total` or `size` is less than 1. Two caches share nothing.
# - [c2] **Cached blocks.** A block can be found once all its `size` tokens are computed: from the first call of `found`,
#   `reserve` or `release` at which `live.computed` has reached its end. (Nobody calls you when that number grows.) Prompt and
#   output count alike, and so does what was computed by a request that has finished, was preempted or aborted since.
# - [c3] **Key.** A block is known by the ids of its own tokens and of all tokens before them, by `live.image` (`None` or a
#   string), and by nothing else. Two different prefixes are never taken for one, whatever their hashes. Of several blocks
#   with equal keys the one computed first can be found (of those computed between two calls, any). The others never can, not
#   even when that one has gone.
# - [c4] **Never shared** are a block with a token that has no id in `live.ids` (an engine without a model only counts
#   tokens), and all blocks of a request with `live.whole`, which finds nothing either.
# - [c5] **`found(live)`** returns `size` tokens for each leading block that can be found, at most `live.tokens - 1`. The call
#   changes nothing, the order of eviction included.
# - [c6] **`reserve(live, tokens)`** makes room for `live.computed` tokens and `tokens` more, in as many blocks as these fill.
#   A request without blocks first gets those that hold its `live.computed` tokens, shared with whoever has them; all others
#   are its own. It returns `True`, or `False` where too few blocks are free or a block that was found has gone. A refused
#   call changes nothing.
# - [c7] **Copy on write.** If the blocks found hold all tokens of a request, its last token is computed again, and
#   `live.computed` ends inside the last of them. If another request holds that block, this one gets a block of its own in its
#   place, and a copy is due. If none does, this one takes the block itself, which cannot be found again until that token is
#   computed. `copies()` returns the copies that became due since it was last called, as `(source, target)`, in order, also
#   those of a request released since.
# - [c8] **`release(live)`** gives up all its blocks. One that no other request holds is free, and can be found until it is
#   taken. `free`, a property, is the number of blocks in no table. `table(live)` is a new list of its blocks, or an empty
#   one.
# - [c9] **Eviction.** New blocks are first those that are free and cannot be found. Then the one goes that became free
#   longest ago, and of a single release the one further back in the table. The blocks behind it stay: they are found again
#   once the tokens before them are computed anew.
# - [c10] **Work.** The time of a call, and of `free`, does not grow with `total` or with the number of cached blocks.

# %% nbgrader={"grade": false, "grade_id": "prefix_cache", "locked": false, "schema_version": 3, "solution": true, "task": false}
def prefix_cache(total, size):
    """An allocator of ``total`` blocks of ``size`` tokens that shares equal beginnings."""
    ### BEGIN SOLUTION
    return PrefixCache(total, size)


from dataclasses import dataclass
from hashlib import sha256


@dataclass
class Held:
    """What a request holds. keys: of its leading blocks, as far as they are computed."""

    table: list
    keys: list


class PrefixCache:
    """Every block is in tables, or kept (free, can be found, first to go in front), or blank (free, cannot be found)."""

    shares = True

    def __init__(self, total, size):
        if total < 1 or size < 1:
            raise ValueError(f"{total} blocks of {size} tokens hold nothing")
        self.total, self.size = total, size
        self._blank, self._kept = list(range(total)), {}
        self._block_of, self._key_of = {}, {}
        self._holders = [0] * total
        self._held, self._due = {}, []

    @property
    def free(self):
        return len(self._blank) + len(self._kept)

    def table(self, live):
        return list(self._held[live].table) if live in self._held else []

    def copies(self):
        due, self._due = self._due, []
        return due

    def found(self, live):
        self._notice()
        return min(len(self._leading(live, live.tokens)) * self.size, live.tokens - 1)

    def reserve(self, live, tokens):
        self._notice()
        blocks = -(-(live.computed + tokens) // self.size)
        if live not in self._held:
            return self._let_in(live, blocks)
        table = self._held[live].table
        if blocks - len(table) > self.free:
            return False
        table += [self._new() for _ in range(blocks - len(table))]
        return True

    def release(self, live):
        self._notice()
        held = self._held.pop(live, Held([], []))
        for block in reversed(held.table):
            self._holders[block] -= 1
            if not self._holders[block] and block in self._key_of:
                self._kept[block] = None
            elif not self._holders[block]:
                self._blank.append(block)

    def _let_in(self, live, blocks):
        there = -(-live.computed // self.size)
        keys = self._leading(live, there * self.size)
        if len(keys) < there:
            return False
        table = [self._block_of[key] for key in keys]
        written = table[-1] if live.computed % self.size else None
        copied = written is not None and self._holders[written] > 0
        if copied:
            table.pop()
        if blocks - len(table) > self.free - sum(not self._holders[block] for block in table):
            return False
        for block in table:
            self._holders[block] += 1
            self._kept.pop(block, None)
        if written is not None:
            keys.pop()
        if written is not None and not copied:
            del self._block_of[self._key_of.pop(written)]
        table += [self._new() for _ in range(blocks - len(table))]
        if copied:
            self._due.append((written, table[len(keys)]))
        self._held[live] = Held(table, keys)
        return True

    def _new(self):
        """A free block; the first of those that are kept if none is blank."""
        if self._blank:
            block = self._blank.pop()
        else:
            block = next(iter(self._kept))
            del self._kept[block], self._block_of[self._key_of.pop(block)]
        self._holders[block] = 1
        return block

    def _notice(self):
        """What was computed since the last call can be found."""
        for live, held in self._held.items():
            for number in range(len(held.keys), self._full(live, live.computed)):
                held.keys.append(self._key(live, held.keys))
                if held.keys[-1] not in self._block_of:
                    self._block_of[held.keys[-1]] = held.table[number]
                    self._key_of[held.table[number]] = held.keys[-1]

    def _leading(self, live, tokens):
        """The keys of the leading full blocks among the first ``tokens``, as far as they can be found."""
        keys = []
        while len(keys) < self._full(live, tokens) and (key := self._key(live, keys)) in self._block_of:
            keys.append(key)
        return keys

    def _full(self, live, tokens):
        return 0 if live.whole else min(tokens, len(live.ids)) // self.size

    def _key(self, live, before):
        """Of the block behind those with the keys ``before``, the last of which stands for all tokens up to it."""
        ids = live.ids[len(before) * self.size : (len(before) + 1) * self.size]
        return sha256(repr((before[-1:], live.image, ids)).encode()).digest()
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "prefix_cache_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_prefix_cache():
    """Twelve requests that begin alike, with paged blocks and with yours."""
    from gpulab.serving import Budget, Chunked, Engine, Linear, Paged, Request

    INSTRUCTIONS = tuple(range(100, 116))  # four blocks of 4 tokens with which every request begins

    def served(blocks):
        """Twelve requests, one a millisecond; the third and the sixth are the instructions and nothing else."""
        engine = Engine(Chunked(), blocks, Linear(step=500, token=50), budget=Budget(tokens=24, requests=4))
        for n in range(12):
            question = () if n % 3 == 2 else tuple(range(10 * n, 10 * n + 5))
            engine.submit(Request(f"r{n}", 1000.0 * n, INSTRUCTIONS + question, most=60, writes=4, leaves_us=1500.0 if n == 7 else None))
        while engine.busy:
            engine.step()
        return engine.report()

    without = served(Paged(24, 4))
    cache = prefix_cache(24, 4)
    report = served(cache)
    for name, ran in (("paged", without), ("yours", report)):
        found = [outcome.found for outcome in ran.outcomes]
        computed, until = sum(step.tokens for step in ran.steps), ran.makespan_us / 1000
        print(f"{name:6} {computed:4} tokens computed, until {until:5.1f} ms (modelled), found {found}")

    found = [outcome.found for outcome in report.outcomes]
    assert report.finished == 11 and report.aborted == 1, f"{report.finished} have finished; all but the one that left are due to"
    assert found[0] == 0, f"the first request found {found[0]} tokens in an empty cache"
    assert found[3] == 16, f"the fourth request found {found[3]} tokens; the instructions' 16 are there"
    assert found[5] == 15, f"of a prompt that is there as a whole all tokens but the last are found, not {found[5]}"
    assert cache.free == 24, f"nobody is there any more, and {24 - cache.free} blocks are in tables"


_see_prefix_cache()

# %% nbgrader={"grade": true, "grade_id": "prefix_cache_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of prefix_cache: what is found 1, what is not the same 1, tables 1, no room 1, free blocks 1,
# what is kept 1, copies 1, duplicates 1, work 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.prefix_cache")
### END HIDDEN TESTS

# %% [markdown]
# ## E19.6 `paged_attention`
#
# A decode step reads the whole cache for one token of each sequence. With paging, the cache lies in
# blocks all over memory. Whoever gathers them first, and attends then, moves every byte again. A
# kernel that reads the block table itself gathers nothing. It is Triton, under the interpreter that counts.

# %% nbgrader={"grade": false, "grade_id": "paged_cache", "locked": true, "schema_version": 3, "solution": false, "task": false}
from gpulab.kernels import tl, triton


def gathered_attention(q, k_cache, v_cache, tables, lengths):
    """One sequence after another: its blocks are copied together, then attended."""
    rows = []
    for query, table, length in zip(q, tables, lengths.tolist()):
        blocks = table[: -(-length // k_cache.shape[1])].long()
        k, v = (cache[blocks].flatten(0, 1)[:length].float() for cache in (k_cache, v_cache))
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
        weights = torch.softmax(torch.einsum("hd,thd->ht", query.float(), k) / q.shape[2] ** 0.5, 1)
        rows.append(torch.einsum("ht,thd->hd", weights, v))
    return torch.stack(rows).to(q.dtype)


def _show_paged_cache():
    """Three sequences in a cache of blocks, gathered and attended."""
    import gpulab.cuda

    gpulab.cuda.use("virtual:H100")
    torch.manual_seed(19)
    q = torch.randn(3, 4, 16).half().cuda()
    k_cache, v_cache = (torch.randn(12, 4, 2, 16).half().cuda() for _ in range(2))
    tables = torch.tensor([[7, 2, 9], [4, -1, 99], [1, 11, 99]], dtype=torch.int32).cuda()
    lengths = torch.tensor([12, 3, 5], dtype=torch.int32).cuda()
    with gpulab.observe() as seen:
        due = gathered_attention(q, k_cache, v_cache, tables, lengths)
    if seen.counts_work:
        gathered_bytes = sum(kernel.bytes_read + kernel.bytes_written for kernel in seen.kernels)
        print(f"{len(seen.kernels)} kernels move {gathered_bytes} bytes")
    else:
        gathered_bytes = None
        print(f"{len(seen.kernels)} kernels; the profiler of this card counts no bytes")
    return q, k_cache, v_cache, tables, lengths, due, gathered_bytes


_q, _k_cache, _v_cache, _tables, _lengths, _due, _gathered_bytes = _show_paged_cache()

# %% [markdown]
# Write `paged_attention(q, k_cache, v_cache, tables, lengths)`, the attention of one decode step:
#
# - [c1] `q` is `(batch, heads, head_dim)`, the query of one token per sequence; `k_cache` and `v_cache` are
#   `(blocks, size, kv_heads, head_dim)`. All three have one dtype: float16, bfloat16 or float32. Query head `h` uses key head
#   `h // (heads // kv_heads)`.
# - [c2] `tables` is `(batch, most)`, int32: token `t` of sequence `s` lies in block `tables[s, t // size]`, in slot
#   `t % size`. `lengths` is `(batch,)`, int32, from 0 to `most * size`.
# - [c3] Returns `softmax(q k / sqrt(head_dim)) v` over the first `lengths[s]` tokens of each sequence, and zeros where there
#   are none, in a new contiguous tensor with the shape, dtype and device of `q`.
# - [c4] **Sizes.** `head_dim` is at most 128, `size` at most 64, and at most 16 query heads share a key head. None need be a
#   power of two. `batch` and `most` may be 0, and a batch may have 100,000 sequences.
# - [c5] **Strides** are arbitrary, except that the last dimension of each input is contiguous. An offset along any dimension
#   may pass 2**31 elements: compute offsets in int64.
# - [c6] **One launch** of a Triton kernel of your own does all the work; an empty batch needs none. PyTorch allocates the
#   result, and computes, copies and reads nothing.
# - [c7] **Once.** The kernel loads a token's key and value once for all query heads that share them, and each element of `q`
#   at most once. It stores each element of the result once.
# - [c8] **Nothing beyond the end** of a sequence is loaded: slots that hold no token hold NaN, and columns of `tables` beyond
#   the last block hold any number. More such columns cost no arithmetic either.
# - [c9] **float32.** Scores, weights and sums are float32 for each dtype; `tl.dot` of float32 needs `input_precision="ieee"`.
#   Products `q k` lie between -1e30 and 1e30, and nothing overflows.
# - [c10] `ValueError` when the five shapes do not fit together, or the dtypes of `q` and the caches are not as above.
#
# The parameters of the kernel are yours to change. `x.to(tl.float32)` converts a tile; the inner side of a `tl.dot` is 16 or more.
# A grid has room for 2,147,483,647 programs along x, and for 65,535 along y and along z. Everything lies on one
# device: a card, or the CPU, on which the interpreter runs the kernel just as well.

# %% nbgrader={"grade": false, "grade_id": "paged_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, tables_ptr, lengths_ptr, scale, group, size, dim,
    q_row, q_head, k_block, k_token, k_head, v_block, v_token, v_head, table_row,
    GROUP: tl.constexpr, SIZE: tl.constexpr, DIM: tl.constexpr,
):
    ### BEGIN SOLUTION
    # int64: a block's number times its stride passes 2**31.
    row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    member, token, d = tl.arange(0, GROUP)[:, None], tl.arange(0, SIZE).to(tl.int64), tl.arange(0, DIM)[None, :]
    head, mine = kv_head * group + member, (member < group) & (d < dim)
    q = tl.load(q_ptr + row * q_row + head * q_head + d, mask=mine, other=0.0).to(tl.float32) * scale
    top = tl.full((GROUP,), -float("inf"), tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, DIM), tl.float32)
    length = tl.load(lengths_ptr + row)
    for first in range(0, length, size):
        block = tl.load(tables_ptr + row * table_row + first // size).to(tl.int64)
        there = (token < size) & (first + token < length)
        inside = there[:, None] & (d < dim)
        k_at = block * k_block + token[:, None] * k_token + kv_head * k_head + d
        v_at = block * v_block + token[:, None] * v_token + kv_head * v_head + d
        k = tl.load(k_ptr + k_at, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + v_at, mask=inside, other=0.0).to(tl.float32)
        score = tl.where(there[None, :], tl.sum(q[:, None, :] * k[None, :, :], axis=2), -float("inf"))
        higher = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, axis=1)
        acc = acc * shrink[:, None] + tl.sum(weight[:, :, None] * v[None, :, :], axis=1)
        top = higher
    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out_ptr + (row * tl.num_programs(1) * group + head) * dim + d, out, mask=mine)
    ### END SOLUTION


def paged_attention(q, k_cache, v_cache, tables, lengths):
    """Attention of one new token a sequence, (batch, heads, head_dim), over keys and values in blocks."""
    ### BEGIN SOLUTION
    batch, heads, dim = q.shape
    _, size, kv_heads, key_dim = k_cache.shape
    fits = key_dim == dim and heads % kv_heads == 0 and tables.ndim == 2 and tables.shape[0] == batch
    if not fits or v_cache.shape != k_cache.shape or lengths.shape != (batch,):
        raise ValueError(f"{[tuple(x.shape) for x in (q, k_cache, v_cache, tables, lengths)]} do not fit")
    if q.dtype not in (torch.float16, torch.bfloat16, torch.float32) or not q.dtype == k_cache.dtype == v_cache.dtype:
        raise ValueError(f"{q.dtype}, {k_cache.dtype} and {v_cache.dtype} are not one of float16, bfloat16 and float32")
    out, group = torch.empty(q.shape, dtype=q.dtype, device=q.device), heads // kv_heads
    paged_kernel[batch, kv_heads](
        q, k_cache, v_cache, out, tables, lengths, dim**-0.5, group, size, dim,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], tables.stride(0),
        GROUP=triton.next_power_of_2(group), SIZE=triton.next_power_of_2(size), DIM=triton.next_power_of_2(dim),
    )
    return out
    ### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "paged_attention_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_paged_attention():
    """Your kernel beside gathered_attention."""
    inputs = [tensor.clone() for tensor in (_q, _k_cache, _v_cache, _tables, _lengths)]
    with gpulab.observe() as seen:
        found = paged_attention(*inputs)
    print(seen.table().split("\n\n")[-1], "\n")
    for use in [use for launch in seen.launches for use in launch.arrays]:
        print(f"{use.array:12}{use.bytes:8} bytes{use.read_bytes:8} read{use.written_bytes:8} written")
    moved = sum(sum(launch.moved_bytes) for launch in seen.launches)
    times = f"; gathering moves {_gathered_bytes / max(moved, 1):.1f} times as many" if _gathered_bytes else ""
    print(f"{moved} bytes moved{times}")

    assert isinstance(found, torch.Tensor), f"paged_attention returned {found!r}: a tensor is due"
    assert not seen.computing_ops, f"PyTorch computed: {seen.computing_ops}"
    assert not seen.copies, f"a tensor was copied: {seen.copies[0].kind}"
    assert len(seen.launches) == 1, f"{len(seen.launches)} launches: one is due"
    launch = seen.launches[0]
    assert not launch.faults, "a lane left its array: the lines below the table say where"
    assert found.shape == _due.shape and found.dtype == _due.dtype, f"{found.dtype} {tuple(found.shape)}: as q is due"
    assert torch.allclose(found.float(), _due.float(), atol=2e-3), "the values are not those of gathered_attention"
    assert all(map(torch.equal, inputs, (_q, _k_cache, _v_cache, _tables, _lengths))), "an input was changed"
    assert launch.total("written_bytes") == found.nbytes, "each element of the result is stored once"
    needed = 2 * 20 * 2 * 16 * 2  # keys and values, of 20 tokens, with 2 heads, of 16 elements, of 2 bytes
    kv_read = sum(use.read_bytes for use in launch.arrays if use.bytes == _k_cache.nbytes)
    assert kv_read == needed, f"{kv_read} bytes of keys and values are loaded: {needed} are due"


_see_paged_attention()

# %% nbgrader={"grade": true, "grade_id": "paged_attention_hidden", "locked": true, "points": 9, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of paged_attention: values 2, ends 1, blocks 1, float32 1, strides 1, once 2, edges 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("engines.paged_attention")
### END HIDDEN TESTS
