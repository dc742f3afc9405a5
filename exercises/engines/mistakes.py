"""Chapter "Serving engines": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, mistake, unbreakable
from gpulab.kernels import tl, triton

# E19.1 continuous_batcher

BATCHER_ALL = ("decodes", "busy", "overtakes", "patience", "order", "preemption", "long", "state", "errors")
BATCHER_COUNT = ("patience", "state")
BATCHER_LIMIT = "any(self.overtaken[other] >= self.patience for other in passed)"
BATCHER_COUNTED = "            for other in passed:\n                self.overtaken[other] += 1"
BATCHER_QUEUE = "[live for live in self.overtaken if live in waiting]"
BATCHER_STAY = "stay = [live for live in self.overtaken if live in running]"
BATCHER_OUT = "plan.preempt.append(stay.pop())\n"
BATCHER_FIT = "if not places or now > tokens or not blocks.reserve(live, live.left):"
BATCHER_NOW = "now = live.left if live.left <= budget else max(tokens, 1)"
BATCHER_LETS_IN = "self.let_in(set(waiting), budget.requests - len(running), blocks, budget.tokens, plan)"


def batcher(edits, loses, because, breaks):
    return edited("continuous_batcher", edits, loses=loses, because=because, breaks=breaks)


batcher_drains = batcher(
    {"if not plan.preempt:": "if not running:"},
    BATCHER_ALL,
    "a batch is thought to be over when its last request is",
    "Nobody waits for a batch to drain",
)
batcher_prompts_alone = batcher(
    {
        "        self.go_on(set(running), blocks, budget.tokens, plan)\n": "        self.let_in(set(waiting), budget.requests - len(running), blocks, budget.tokens, plan)\n"
        "        if not plan.tokens:\n            self.go_on(set(running), blocks, budget.tokens, plan)\n",
        "        if not plan.preempt:\n            self.let_in(set(waiting), budget.requests - len(running), blocks, budget.tokens, plan)\n": "",
    },
    BATCHER_ALL,
    "a step is thought to hold prompts or decodes, prompts first",
    "nor for another's prompt",
)
batcher_decodes_wait = batcher(
    {
        "            while live in stay and not blocks.reserve(live, 1):\n                plan.preempt.append(stay.pop())\n                blocks.release(plan.preempt[-1])\n": "            if not blocks.reserve(live, 1):\n                stay.remove(live)\n"
    },
    BATCHER_ALL,
    "who has no room is thought to pause until there is some",
    "each running request that has one token left to compute gets it",
)
batcher_beyond_the_cache = batcher(
    {"not blocks.reserve(live, live.left):": "not blocks.free:"},
    BATCHER_ALL,
    "a free block is thought to be room enough",
    "and free blocks for them",
)
batcher_one_a_step = batcher(
    {"            places, tokens = places - 1, tokens - now\n": "            places, tokens = 0, tokens - now\n"},
    ("busy", "overtakes", "patience", "order", "preemption", "state"),
    "one prompt a step is thought to be the rule",
    "Each who fits into what those who run and those before have left is let in",
)
batcher_a_place_is_kept = batcher(
    {"budget.requests - len(running)": "budget.requests - len(running) - 1"},
    ("busy", "overtakes", "patience", "order", "preemption", "state"),
    "the bound on places is read as less than",
    "a place of `budget.requests`",
)
batcher_hoards = batcher(
    {BATCHER_FIT: "if not places or now > tokens or not blocks.reserve(live, live.longest):"},
    ("busy", "overtakes", "patience", "order", "preemption", "long", "state"),
    "room is taken for the longest output, as before PagedAttention",
    "nobody holds more of them than the tokens need that are computed or planned",
)
batcher_strict = batcher(
    {"                passed.append(live)\n                continue\n": "                return\n"},
    ("busy", "overtakes", "patience", "order", "preemption", "state"),
    "first come first served is thought to let nobody pass",
    "Whoever does not fit waits on, and the next one is tried",
)
batcher_everyone_passes = batcher(
    {"self.patience for other": "10**9 for other"},
    BATCHER_COUNT,
    "who does not fit is thought to get in some day",
    "nobody who arrived later is let in",
)
batcher_once_too_often = batcher(
    {">= self.patience": "> self.patience"}, BATCHER_COUNT, "the bound is read as exclusive", "one whose count is `patience`"
)
batcher_once_too_few = batcher(
    {">= self.patience": ">= max(0, self.patience - 1)"},
    BATCHER_COUNT,
    "the last time allowed is thought to be forbidden",
    "one whose count is `patience`",
)
batcher_counts_steps_that_overtake = batcher(
    {
        "tokens, passed = budget - sum(plan.tokens.values()), []": "tokens, passed, counted = budget - sum(plan.tokens.values()), [], set()",
        BATCHER_COUNTED: "            for other in passed:\n                self.overtaken[other] += other not in counted\n                counted.add(other)\n",
    },
    BATCHER_COUNT,
    "a step is counted, and not who is let in in it",
    "That counts one for each of those",
)
batcher_counts_steps = batcher(
    {BATCHER_COUNTED: "", "passed.append(live)\n": "passed.append(live)\n                self.overtaken[live] += 1\n"},
    BATCHER_COUNT,
    "patience is taken for a number of steps",
    "nothing else counts",
)
batcher_counts_all_who_wait = batcher(
    {BATCHER_COUNTED: "            for other in waiting.difference(plan.tokens):\n                self.overtaken[other] += 1"},
    BATCHER_COUNT,
    "everyone who waits is thought to be overtaken by everyone who is let in",
    "whoever is let in overtakes each who arrived before and still waits",
)
batcher_counts_the_first = batcher(
    {"            for other in passed:\n": "            for other in passed[:1]:\n"},
    BATCHER_COUNT,
    "only the head of the queue is thought to be overtaken",
    "each who arrived before and still waits",
)
batcher_looks_at_the_first = batcher(
    {"for other in passed):": "for other in passed[:1]):"},
    BATCHER_COUNT,
    "only the head of the queue is thought to run out of patience",
    "While one whose count is `patience` waits",
)
batcher_limit_of_the_step_before = batcher(
    {
        "        for live in " + BATCHER_QUEUE + ":\n": "        before = dict(self.overtaken)\n        for live in " + BATCHER_QUEUE + ":\n",
        BATCHER_LIMIT: "any(before[other] >= self.patience for other in passed)",
    },
    BATCHER_COUNT,
    "counts are looked at once a step, and several pass in one",
    "That counts one for each of those",
)
batcher_preemption_resets = batcher(
    {BATCHER_OUT: BATCHER_OUT + "                self.overtaken[plan.preempt[-1]] = 0\n"},
    BATCHER_COUNT,
    "who comes back is thought to begin anew",
    "A request's count lasts as long as it is there, through its preemptions",
)
batcher_counts_in_a_row = batcher(
    {"            places, tokens = places - 1, tokens - now\n": "            places, tokens, self.overtaken[live] = places - 1, tokens - now, 0\n"},
    BATCHER_COUNT,
    "a count is thought to end when its request is let in",
    "A request's count lasts as long as it is there",
)
batcher_each_overtakes_once = batcher(
    {
        "self.patience, self.overtaken = patience, {}": "self.patience, self.overtaken, self.pairs = patience, {}, set()",
        BATCHER_COUNTED: "            for other in passed:\n                self.overtaken[other] += (live, other) not in self.pairs\n                self.pairs.add((live, other))\n",
    },
    BATCHER_COUNT,
    "requests are counted, and not how often they overtake",
    "also when the same request overtakes again after a preemption",
)
batcher_only_the_impatient = batcher(
    {
        "        for live in " + BATCHER_QUEUE + ":\n": "        impatient = [live for live in self.overtaken if live in waiting and 0 < self.patience <= self.overtaken[live]]\n"
        "        for live in impatient or " + BATCHER_QUEUE + ":\n"
    },
    ("busy", "order", "patience", "state"),
    "who has run out of patience is thought to go before all others",
    "who arrived earlier may be",
)
batcher_as_the_engine_lists = batcher(
    {"self.let_in(set(waiting)": "self.let_in(list(waiting)", BATCHER_QUEUE: "waiting"},
    ("order", "patience", "state"),
    "`waiting` is thought to stand in the order of arrival",
    "`waiting` and `running` may stand in another order",
)
batcher_sorts_by_time = batcher(
    {"self.let_in(set(waiting)": "self.let_in(list(waiting)", BATCHER_QUEUE: "sorted(waiting, key=lambda live: live.arrival_us)"},
    ("order", "patience", "state"),
    "no two are thought to come at one time",
    "at a tie in the order in which they first stood in `waiting`",
)
batcher_sorts_by_name = batcher(
    {"self.let_in(set(waiting)": "self.let_in(list(waiting)", BATCHER_QUEUE: "sorted(waiting, key=lambda live: (live.arrival_us, live.name))"},
    ("busy", "order", "patience", "state"),
    "names are thought to be numbered in the order of arrival",
    "at a tie in the order in which they first stood in `waiting`",
)
batcher_back_to_the_end = batcher(
    {BATCHER_OUT: BATCHER_OUT + "                del self.overtaken[plan.preempt[-1]]\n"},
    ("busy", "order", "patience", "preemption", "state"),
    "who is preempted is thought to queue up again",
    "A preemption changes nobody's place in it",
)
batcher_out_goes_who_was_let_in_last = batcher(
    {"self.go_on(set(running)": "self.go_on(list(running)", BATCHER_STAY: "stay = list(running)"},
    ("preemption",),
    "`running` is thought to stand in the order of arrival",
    "the running request that arrived last is preempted",
)
batcher_out_goes_the_oldest = batcher(
    {"plan.preempt.append(stay.pop())": "plan.preempt.append(stay.pop(0))"},
    ("preemption",),
    "who has had most is thought to make room",
    "the running request that arrived last is preempted",
)
batcher_out_goes_the_largest = batcher(
    {"plan.preempt.append(stay.pop())": "plan.preempt.append(max(stay, key=lambda one: one.computed))\n                stay.remove(plan.preempt[-1])"},
    ("preemption",),
    "who holds most blocks is thought to make room",
    "the running request that arrived last is preempted",
)
batcher_out_goes_the_first_at_a_tie = batcher(
    {"plan.preempt.append(stay.pop())": "plan.preempt.append(max(stay, key=lambda one: one.arrival_us))\n                stay.remove(plan.preempt[-1])"},
    ("preemption",),
    "the latest time is thought to be one request's",
    "at a tie in the order in which they first stood in `waiting`",
)
batcher_out_goes_who_asks = batcher(
    {"plan.preempt.append(stay.pop())": "plan.preempt.append(stay.pop(stay.index(live)))"},
    ("preemption",),
    "who needs a block is thought to be the one who goes",
    "the running request that arrived last is preempted",
)
batcher_one_more_goes = batcher(
    {
        "        for live in sorted(stay": "        if plan.preempt and len(stay) > 1:\n            plan.preempt.append(stay.pop())\n            blocks.release(plan.preempt[-1])\n"
        "        for live in sorted(stay"
    },
    ("preemption",),
    "one more is preempted, so that it lasts",
    "until they suffice, and not one more",
)
batcher_half_go = batcher(
    {
        BATCHER_OUT + "                blocks.release(plan.preempt[-1])\n": "for one in stay[(len(stay) + 1) // 2 :] or stay[-1:]:\n                    plan.preempt.append(stay.pop())\n"
        "                    blocks.release(plan.preempt[-1])\n"
    },
    ("preemption",),
    "half of the batch is preempted at once",
    "then the one that arrived last of the others, until they suffice",
)
batcher_lets_in_while_it_preempts = batcher(
    {"if not plan.preempt:": "if True:", BATCHER_LETS_IN: "self.let_in(set(waiting), budget.requests - len(running) + len(plan.preempt), blocks, budget.tokens, plan)"},
    ("preemption",),
    "blocks that someone gave up are handed to who waits",
    "In a step that preempts nobody is let in",
)
batcher_refuses_the_long = batcher(
    {BATCHER_NOW: "now = live.left"},
    ("long",),
    "a prompt is thought to fit into a step",
    "more than `budget.tokens` tokens fit into no step",
)
batcher_long_begins_alone = batcher(
    {BATCHER_NOW: "now = min(live.left, budget)"},
    ("long",),
    "a long prompt is thought to need a step of its own to begin with",
    "Who has so many left fits where a place, one token of the step and blocks for all `left` tokens are free",
)
batcher_long_reserves_its_piece = batcher(
    {"not blocks.reserve(live, live.left):": "not blocks.reserve(live, now):", "not blocks.reserve(live, 1):": "not blocks.reserve(live, min(live.left, budget - len(stay) + 1)):"},
    ("preemption", "long"),
    "blocks are taken piece by piece",
    "It reserves those blocks at once",
)
batcher_long_takes_half = batcher(
    {"plan.tokens[live] = min(live.left, budget - sum(plan.tokens.values()))": "plan.tokens[live] = min(live.left, (budget - sum(plan.tokens.values()) + 1) // 2)"},
    ("long",),
    "half of a step is left to others",
    "all that the decodes leave, until none is left",
)
batcher_long_is_first = batcher(
    {"key=lambda live: live.left > 1": "key=lambda live: -live.left", "plan.tokens[live] = min(live.left, budget - sum(plan.tokens.values()))": "if plan.tokens and budget == sum(plan.tokens.values()):\n                break\n            plan.tokens[live] = min(live.left, budget - sum(plan.tokens.values()))"},
    BATCHER_ALL,
    "a prompt that has begun is thought to come before the decodes",
    "all that the decodes leave",
)
batcher_long_is_alone = batcher(
    {"if not plan.preempt:": "if not plan.preempt and all(plan.tokens[live] == 1 for live in plan.tokens):"},
    ("busy", "overtakes", "patience", "order", "preemption", "state"),
    "the step in which a long prompt ends is thought to be full",
    "what then remains of the step is for others. Nobody else's prompt is cut",
)
batcher_cuts_every_prompt = batcher(
    {BATCHER_NOW: "now = min(live.left, max(tokens, 1))"},
    ("busy", "overtakes", "patience", "order", "preemption", "long", "state"),
    "every prompt is cut to fill the step, as in chunked prefill",
    "All of them are computed in this step",
)
batcher_counts_of_all = batcher(
    {'"""``overtaken``: how often': '_all = {}\n    """``overtaken``: how often', "self.patience, self.overtaken = patience, {}": "self.patience, self.overtaken = patience, self._all", "self.overtaken = {live: count for live, count in self.overtaken.items() if live in there}": "for live in set(self.overtaken).difference(there):\n            del self.overtaken[live]"},
    ("state",),
    "a dictionary of the class is taken for one of the object",
    "Two schedulers know nothing of each other",
)
batcher_the_last_patience = batcher(
    {"    return Batcher(patience)\n": "    Batcher.patience = patience\n    return Batcher(patience)\n", "self.patience, self.overtaken = patience, {}": "self.overtaken = {}"},
    ("state",),
    "patience is kept in the class",
    "Two schedulers know nothing of each other",
)
batcher_counts_by_name = batcher(
    {
        "self.patience, self.overtaken = patience, {}": "self.patience, self.overtaken, self.counts = patience, {}, {}",
        BATCHER_LIMIT: "any(self.counts.get(other.name, 0) >= self.patience for other in passed)",
        "                self.overtaken[other] += 1": "                self.counts[other.name] = self.counts.get(other.name, 0) + 1\n",
    },
    ("state",),
    "a name is thought to be one request's for ever",
    "two requests are two, even if one has the name of another that was there before",
)
batcher_waits_for_who_left = batcher(
    {
        "if live in there}": 'if live in there or count >= self.patience and live.state != "finished"}',
        "        for live in " + BATCHER_QUEUE + ":\n": "        passed = [live for live in self.overtaken if live.state == \"aborted\"]\n        for live in " + BATCHER_QUEUE + ":\n",
    },
    ("state",),
    "a request is thought to stay until it is let in",
    "Who leaves in the middle stands in neither list any more and holds up nobody",
)
batcher_takes_any_patience = batcher(
    {"if not isinstance(patience, int) or isinstance(patience, bool) or patience < 0:": "if False:"},
    ("errors",),
    "a patience is thought to make sense by itself",
    "Anything else, and a `bool` too, raises `ValueError`",
)
batcher_true_is_one = batcher(
    {" or isinstance(patience, bool)": ""}, ("errors",), "True is taken for 1", "Anything else, and a `bool` too, raises `ValueError`"
)
batcher_floats_are_whole = batcher(
    {"not isinstance(patience, int) or": "not isinstance(patience, (int, float)) or"},
    ("errors",),
    "2.0 is taken for 2",
    "an `int`, 0 or more",
)
batcher_negative_is_none = batcher(
    {" or patience < 0": ""}, ("errors",), "less than no patience is taken for none", "an `int`, 0 or more"
)
batcher_another_error = batcher(
    {"        raise ValueError(": "        raise (ValueError if isinstance(patience, int) else TypeError)("},
    ("errors",),
    "a wrong type is thought to be a TypeError, as elsewhere in Python",
    "raises `ValueError`",
)


@mistake(
    "continuous_batcher",
    loses=("busy", "overtakes", "patience", "order", "preemption", "long", "state", "errors"),
    because="what the package has is thought to be what is asked for",
    breaks="Whoever does not fit waits on, and the next one is tried",
)
def batcher_of_the_package(patience):
    from gpulab.serving import Continuous

    return Continuous()


@mistake(
    "continuous_batcher",
    loses=("decodes", "busy", "overtakes", "patience", "order", "preemption", "long", "state", "errors"),
    because="one after the other is thought to be fair enough",
    breaks="Nobody waits for a batch to drain",
)
def batcher_one_by_one(patience):
    from gpulab.serving import Plan

    if type(patience) is not int or patience < 0:
        raise ValueError(patience)

    class OneByOne:
        def plan(self, waiting, running, blocks, budget):
            live = (list(running) or sorted(waiting, key=lambda live: live.arrival_us))[0]
            blocks.reserve(live, live.left)
            return Plan({live: min(live.left, budget.tokens)})

    return OneByOne()


@alternative("continuous_batcher")
def batcher_by_arithmetic(patience):
    """Counts blocks by itself, preempts before it reserves, keeps who overtook whom in lists."""
    from gpulab.serving import Plan

    if type(patience) is not int or patience < 0:
        raise ValueError("patience")
    numbers, overtakers = {}, {}

    class Scheduler:
        def plan(self, waiting, running, blocks, budget):
            for live in waiting:
                numbers.setdefault(live, len(numbers))
                overtakers.setdefault(live, [])

            def more(live, tokens):
                return max(0, -(-(live.computed + tokens) // blocks.size) - len(blocks.table(live)))

            stay, out = sorted(running, key=numbers.get), []
            while sum(more(live, 1) for live in stay) > blocks.free + sum(len(blocks.table(live)) for live in out):
                out.append(stay.pop())
            for live in out:
                blocks.release(live)
            tokens = {live: 1 for live in stay if live.left == 1}
            tokens |= {live: min(live.left, budget.tokens - len(tokens)) for live in stay if live.left > 1}
            assert all(blocks.reserve(live, 1) for live in stay)
            if not out:
                self.refill(sorted(waiting, key=numbers.get), budget.requests - len(stay), blocks, budget.tokens, tokens)
            return Plan(tokens, out)

        def refill(self, queue, places, blocks, most, tokens):
            while queue:
                here = min([n for n, live in enumerate(queue) if len(overtakers[live]) >= patience] or [len(queue)])
                spare = most - sum(tokens.values())
                enough = [
                    live
                    for live in queue[: here + 1]
                    if (live.left <= spare or live.left > most > 0 < spare) and -(-live.left // blocks.size) <= blocks.free
                ]
                if not enough or not places:
                    return
                (chosen, *_), before = enough, queue[: queue.index(enough[0])]
                blocks.reserve(chosen, chosen.left)
                tokens[chosen], places = min(chosen.left, spare), places - 1
                for live in before:
                    overtakers[live].append(chosen)
                queue = [*before, *queue[len(before) + 1 :]]

    return Scheduler()


@alternative("continuous_batcher")
def batcher_with_notes(patience):
    """A note for each request, thrown away with it; what is reserved on trial is given back."""
    import itertools
    from types import SimpleNamespace
    from weakref import WeakKeyDictionary

    from gpulab.serving import Plan

    match patience:
        case bool():
            raise ValueError("no bool")
        case int() if patience >= 0:
            pass
        case _:
            raise ValueError("no number of times")

    class Notes:
        def __init__(self):
            self.of, self.clock = WeakKeyDictionary(), itertools.count()

        def plan(self, waiting, running, blocks, budget):
            for live in waiting:
                if live not in self.of:
                    self.of[live] = SimpleNamespace(number=next(self.clock), left_to_bear=patience)
            plan, stay = Plan(), sorted(running, key=lambda live: self.of[live].number)
            while not all([blocks.reserve(live, 1) for live in stay]):
                blocks.release(last := stay.pop())
                plan.preempt += [last]
            spare = budget.tokens
            for live in sorted(stay, key=lambda live: live.left != 1):
                plan.tokens[live] = min(spare, live.left)
                spare -= plan.tokens[live]
            behind = []
            for live in sorted(waiting, key=lambda live: self.of[live].number) if not plan.preempt else ():
                if not all(self.of[other].left_to_bear for other in behind):
                    break
                room = blocks.reserve(live, live.left)
                takes = spare if live.left > budget.tokens else live.left
                if room and 0 < takes <= spare and len(stay) < budget.requests:
                    plan.tokens[live], spare = takes, spare - takes
                    stay.append(live)
                    for other in behind:
                        self.of[other].left_to_bear -= 1
                else:
                    if room:
                        blocks.release(live)
                    behind.append(live)
            return plan

    return Notes()


batcher_may_rely_on = unbreakable(
    "continuous_batcher",
    "you may rely on this: `blocks` is a `Paged`, `budget.tokens` is not less than `budget.requests`, and no request is `whole`",
    "a promise to the caller",
)
batcher_in_order = unbreakable(
    "continuous_batcher",
    "letting in: in any other step, those who wait are gone through in the order of arrival",
    "what is lost by another order hangs on the draw; the words that say which order are broken by others",
)
batcher_returns = unbreakable("continuous_batcher", "Returns a scheduler for one engine: an object with the method `plan(waiting, running, blocks, budget)`", "whatever has no such method ends every play")

# E19.2 block_allocator

EVERY_POINT_OF_BLOCKS = ("room", "tokens", "shared", "copies", "counts", "memory", "errors", "apart", "serving")
BLOCKS_SHARED = "shared = length % self._size > 0 and self._users[table[-1]] > 1"
BLOCKS_MORE = "more = -(-(length + n) // self._size) - len(table)"
BLOCKS_ROOM = "if more + shared > self.free:"
BLOCKS_COPIES = "copies = [self._part(table)] if shared else []"
BLOCKS_TAKEN = "        table.extend(self._take() for _ in range(more))\n"
BLOCKS_LOOKED_UP = "length, table = self._lengths.get(seq, 0), self._tables.get(seq, [])"
BLOCKS_PARTED = "        self._leave(source)\n"
BLOCKS_LEFT = "        self._users[block] -= 1\n        if self._users[block] == 0:\n"
BLOCKS_KEPT = "self._size, self._free, self._users = size, list(range(total)), [0] * total"
BLOCKS_MADE = "    return SharedBlocks(total, size)\n"
BLOCKS_COUNTED = "            self._users[block] += 1\n"
BLOCKS_FORKED = "self._tables[child], self._lengths[child] = table, self._lengths[parent]"
BLOCKS_TWICE = "        if child in self._tables:\n            raise ValueError(f\"there is a sequence {child!r} already\")\n"
BLOCKS_RELEASED = "        for block in self._tables.pop(seq):\n            self._leave(block)\n        del self._lengths[seq]\n"
BLOCKS_TOLD = "        return list(self._tables[seq])\n"
BLOCKS_NO_TOKENS = "        if n < 1:\n"
BLOCKS_NO_ROOM = "        if total < 1 or size < 1:\n"


def blocks(edits, loses, because, breaks):
    return edited("block_allocator", edits, loses, because, breaks)


blocks_reserved_for_the_longest = blocks(
    {BLOCKS_MORE: "more = max(-(-(length + n) // self._size), 8) - len(table)"}, EVERY_POINT_OF_BLOCKS,
    "room is thought to be due for what a sequence may become", "as many as needed: a sequence holds `ceil(length / size)` blocks",
)  # fmt: skip
blocks_one_ahead = blocks(
    {BLOCKS_MORE: "more = (length + n) // self._size + 1 - len(table)"}, EVERY_POINT_OF_BLOCKS,
    "the next token's block is taken when the last one is full", "so that it wastes less than one",
)  # fmt: skip
blocks_for_every_append = blocks(
    {BLOCKS_MORE: "more = -(-n // self._size)"}, ("room", "tokens", "shared", "copies", "counts", "memory", "apart", "serving"),
    "every append is thought to begin a block of its own", "its blocks as a list: token `t` lies in the block at `t // size` of the list",
)  # fmt: skip
blocks_by_floats = blocks(
    {BLOCKS_MORE: "more = math.ceil((length + n) / self._size) - len(table)", "class SharedBlocks:\n": "import math\n\n\nclass SharedBlocks:\n"},
    ("room", "apart"), "a float is thought to hold every integer", "also beyond 2<sup>53</sup>",
)  # fmt: skip
blocks_one_at_most = blocks(
    {BLOCKS_MORE: "more = int(length % self._size + n > self._size or length % self._size == 0)"}, ("room", "tokens", "shared", "copies", "counts", "memory", "apart", "serving"),
    "an append is thought to be a step of decoding, which needs a block at most", "makes room for `n` more tokens behind those that the sequence `seq` has",
)  # fmt: skip
blocks_of_tokens = blocks(
    {"        return len(self._free)\n": "        return len(self._users) - sum(-(-length // self._size) for length in self._lengths.values())\n"},
    ("counts", "memory", "serving"), "what is free is counted by sequences", "how many blocks stand in no table",
)  # fmt: skip
blocks_free_is_a_method = blocks(
    {"    @property\n": "", BLOCKS_ROOM: "if more + shared > self.free():", "{self.free} are free": "{self.free()} are free"},
    EVERY_POINT_OF_BLOCKS, "a property is thought to be called", "`free`, a property",
)  # fmt: skip
blocks_written_where_shared = blocks(
    {BLOCKS_SHARED: "shared = False"}, ("tokens", "shared", "copies", "counts", "memory", "serving"), "a fork is thought to be all that sharing needs", "no token is written into a block that stands in another table too",
)  # fmt: skip
blocks_parent_writes_in_place = blocks(
    {BLOCKS_SHARED: BLOCKS_SHARED + " and seq not in self._parents", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._parents = set()", BLOCKS_FORKED: BLOCKS_FORKED + "\n        self._parents.add(parent)"},
    ("tokens", "shared", "copies", "counts", "memory", "serving"), "the child is thought to be the only one who has to copy", "A last block that is partly filled and shared is replaced in the table of `seq`",
)  # fmt: skip
blocks_child_writes_in_place = blocks(
    {BLOCKS_SHARED: BLOCKS_SHARED + " and seq not in self._children", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._children = set()", BLOCKS_FORKED: BLOCKS_FORKED + "\n        self._children.add(child)"},
    ("tokens", "shared", "copies", "counts", "memory", "serving"), "the parent is thought to be the only one who has to copy", "whether it was the parent or a child",
)  # fmt: skip
blocks_first_writes_in_place = blocks(
    {BLOCKS_SHARED: BLOCKS_SHARED + " and any(table[-1] in t and self._lengths[s] > length for s, t in self._tables.items())"},
    ("shared", "copies", "counts", "memory", "serving"), "places that no other reads are thought to be free to write", "no token is written into a block that stands in another table too",
)  # fmt: skip
blocks_not_parted_when_more_come = blocks(
    {BLOCKS_MORE: BLOCKS_MORE + "\n        shared = shared and not more"}, ("tokens", "shared", "copies", "counts", "memory", "serving"),
    "new blocks are thought to spare the copy", "no token is written into a block that stands in another table too",
)  # fmt: skip
blocks_last_one_copies_too = blocks(
    {BLOCKS_SHARED: "shared = length % self._size > 0 and table[-1] in self._forked", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._forked = set()", BLOCKS_FORKED: "self._forked.update(table)\n        " + BLOCKS_FORKED},
    ("copies", "memory", "serving"), "a block that was shared once is thought to stay so", "The last sequence that has a block writes in place",
)  # fmt: skip
blocks_full_ones_are_copied = blocks(
    {BLOCKS_SHARED: "shared = length > 0 and self._users[table[-1]] > 1"}, ("copies", "memory", "serving"),
    "the last block is thought to be written by every append", "neither full blocks nor a last block that nobody shares",
)  # fmt: skip
blocks_unshared_ones_are_copied = blocks(
    {BLOCKS_SHARED: "shared = length % self._size > 0"}, ("copies", "memory", "serving"),
    "a partly filled block is thought to be copied by every append", "neither full blocks nor a last block that nobody shares",
)  # fmt: skip
blocks_target_first = blocks(
    {"        return source, table[-1]\n": "        return table[-1], source\n"}, ("tokens", "copies", "serving"),
    "a copy is thought to be told like an assignment", "a list of tuples `(source, target)`",
)  # fmt: skip
blocks_copies_untold = blocks(
    {BLOCKS_COPIES: "copies = [] if not shared else [self._part(table)][:0]"}, ("tokens", "copies", "serving"),
    "a new block is thought to come with what the old one held", "that the engine carries out before it writes the `n` tokens",
)  # fmt: skip
blocks_all_copies_told_again = blocks(
    {BLOCKS_COPIES: "copies = self._copies\n        copies += [self._part(table)] if shared else []", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._copies = []"},
    ("tokens", "copies", "apart", "serving"), "the list is thought to be a log", "the list is empty where none is due",
)  # fmt: skip
blocks_all_shared_ones_copied = blocks(
    {BLOCKS_COPIES: "copies = []\n        for at in range(len(table)) if shared else ():\n            if self._users[table[at]] > 1:\n                source, table[at] = table[at], self._take()\n                self._leave(source)\n                copies.append((source, table[at]))"},
    ("copies", "counts", "memory", "serving"), "who writes is thought to need a table of its own", "nothing else is copied: neither full blocks",
)  # fmt: skip
blocks_source_is_never_left = blocks(
    {BLOCKS_PARTED: ""}, ("copies", "counts", "serving"), "whoever has got a copy is still counted at the source", "The last sequence that has a block writes in place",
)  # fmt: skip
blocks_source_is_freed = blocks(
    {BLOCKS_PARTED: "        self._free.append(source)\n"}, ("tokens", "shared", "copies", "counts", "memory", "serving"), "a block that was copied is thought to be done with", "the others keep the source",
)  # fmt: skip
blocks_freed_with_anyone = blocks(
    {BLOCKS_LEFT: "        self._users[block] -= 1\n        if True:\n"}, ("tokens", "shared", "copies", "counts", "memory", "serving"), "a release is thought to free all that a table names", "A block is free as soon as the last sequence that had it is gone",
)  # fmt: skip
blocks_freed_once_with_anyone = blocks(
    {BLOCKS_LEFT: "        self._users[block] -= 1\n        if block not in self._free:\n"}, ("tokens", "shared", "copies", "counts", "memory", "serving"), "a block on the free list once is thought to be free by right", "A block is free as soon as the last sequence that had it is gone",
)  # fmt: skip
blocks_stay_when_their_parent_goes = blocks(
    {BLOCKS_LEFT: "        self._users[block] -= 1\n        if self._users[block] == 0 and block not in self._given_away:\n", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._given_away = set()", BLOCKS_FORKED: "self._given_away.update(table)\n        " + BLOCKS_FORKED},
    ("counts", "memory", "errors", "serving"), "a block that was shared is thought to belong to its first sequence", "It is gone, and its name may begin a new one",
)  # fmt: skip
blocks_forks_copied_at_once = blocks(
    {BLOCKS_COUNTED: "            pass\n        self._due.setdefault(child, []).extend((block, self._take()) for block in table)\n        table = [target for _, target in self._due[child]]\n", BLOCKS_COPIES: BLOCKS_COPIES + "\n        copies += self._due.pop(seq, [])", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._due = {}"},
    ("tokens", "copies", "counts", "memory", "serving"), "a fork is thought to be a copy", "no block is taken or copied",
)  # fmt: skip
blocks_other_gets_the_copy = blocks(
    {"        source, table[-1] = table[-1], self._take()\n" + BLOCKS_PARTED + "        return source, table[-1]\n": "        source, target = table[-1], self._take()\n        for other in self._tables.values():\n            if other is not table and source in other:\n                other[other.index(source)] = target\n        self._users[source], self._users[target] = 1, self._users[source] - 1\n        return source, target\n"},
    ("copies", "apart", "serving"), "the copy is thought to go to those who do not write", "`append` changes no table but that of `seq`",
)  # fmt: skip
blocks_moved_together = blocks(
    {"        del self._lengths[seq]\n": "        del self._lengths[seq]\n        for table in self._tables.values():\n            for at, block in enumerate(table):\n                if self._free and self._users[block] == 1 and min(self._free) < block:\n                    self._leave(block)\n                    table[at] = min(self._free)\n                    self._free.remove(table[at])\n                    self._users[table[at]] = 1\n"},
    ("tokens", "copies", "apart", "serving"), "blocks are thought to be tidied without anyone's tokens", "in that one no block of the tokens that are there, save by a copy that is returned",
)  # fmt: skip
blocks_taken_before_they_are_counted = blocks(
    {BLOCKS_ROOM: "if more + shared > self.free:\n            table.extend(self._take() for _ in range(self.free))"}, ("memory", "serving"),
    "what was taken is thought to be there for the next try", "a call that raises changes nothing",
)  # fmt: skip
blocks_refused_names_are_kept = blocks(
    {BLOCKS_LOOKED_UP: "length, table = self._lengths.setdefault(seq, 0), self._tables.setdefault(seq, [])"}, ("memory",),
    "a sequence is thought to begin before it has room", "no name is there afterwards that was not there before",
)  # fmt: skip
blocks_refused_tokens_are_counted = blocks(
    {BLOCKS_ROOM: "self._lengths[seq] = length + n\n        if more + shared > self.free:"}, ("memory", "serving"),
    "tokens are counted before there is room for them", "a call that raises changes nothing",
)  # fmt: skip
blocks_target_needs_no_room = blocks(
    {BLOCKS_ROOM: "if more > self.free:"}, ("memory", "serving"), "a copy is thought to take no block", "the target of a copy among them",
)  # fmt: skip
blocks_room_for_a_copy_always = blocks(
    {BLOCKS_ROOM: "if more + (length > 0 and self._users[table[-1]] > 1) > self.free:"}, ("memory", "serving"),
    "a shared last block is thought to need a copy though it is full", "and never otherwise",
)  # fmt: skip
blocks_one_is_kept_back = blocks(
    {BLOCKS_ROOM: "if more + shared >= self.free:"}, ("counts", "memory", "errors", "serving"), "the last free block is thought to be a reserve", "when it needs more blocks than are free",
)  # fmt: skip
blocks_in_place_needs_a_free_one = blocks(
    {BLOCKS_ROOM: "if more + shared > self.free or not self.free:"}, ("memory", "serving"), "no free block is thought to be no room", "when it needs more blocks than are free",
)  # fmt: skip
blocks_room_as_if_nothing_were_there = blocks(
    {BLOCKS_ROOM: "if -(-n // self._size) + shared > self.free:"}, ("memory", "serving"), "the empty places of the last block are forgotten", "and never otherwise",
)  # fmt: skip
blocks_fork_needs_room = blocks(
    {"        table = self.table(parent)\n": "        table = self.table(parent)\n        if not self.free:\n            raise MemoryError('no block is free')\n"}, ("memory", "serving"),
    "a new sequence is thought to need a block", "its table names the same blocks, and no block is taken or copied",
)  # fmt: skip
blocks_out_of_room_is_false = blocks(
    {'            raise MemoryError(f"{more + shared} blocks are needed, {self.free} are free")\n': "            return False\n"}, ("memory", "serving"),
    "no room is thought to be an answer", "`append` raises `MemoryError`",
)  # fmt: skip
blocks_no_tokens_are_fine = blocks(
    {BLOCKS_NO_TOKENS: "        if n < 0:\n"}, ("errors",), "no tokens are thought to be room for none", "`ValueError` where `n` is less than 1",
)  # fmt: skip
blocks_negative_counts_shrink = blocks(
    {BLOCKS_NO_TOKENS: "        if n == 0:\n"}, ("errors",), "fewer than no tokens are thought to be a way back", "`ValueError` where `n` is less than 1",
)  # fmt: skip
blocks_room_is_looked_at_first = blocks(
    {BLOCKS_NO_TOKENS: "        if self.free and n < 1:\n", BLOCKS_ROOM: "if not self.free or more + shared > self.free:"}, ("memory", "errors", "serving"),
    "a full cache is thought to refuse everything alike", "whether there is room or not",
)  # fmt: skip
blocks_in_a_cache_of_none = blocks(
    {BLOCKS_NO_ROOM: "        if False:\n"}, ("errors",), "a cache without blocks is thought to be full, and no more", "`ValueError` where one of them is less than 1",
)  # fmt: skip
blocks_of_both_too_small = blocks(
    {BLOCKS_NO_ROOM: "        if total < 1 and size < 1:\n"}, ("errors",), "one of two is taken for both", "`ValueError` where one of them is less than 1",
)  # fmt: skip
blocks_released_twice = blocks(
    {BLOCKS_RELEASED: "        for block in self._tables.pop(seq, []):\n            self._leave(block)\n        self._lengths.pop(seq, None)\n"}, ("memory", "errors"),
    "a second release is thought to do no harm", "so also the second time",
)  # fmt: skip
blocks_unknown_ones_are_empty = blocks(
    {BLOCKS_TOLD: "        return list(self._tables.get(seq, []))\n", "        return self._lengths[seq]\n": "        return self._lengths.get(seq, 0)\n", "_lengths[parent]\n": "_lengths.get(parent, 0)\n"},
    ("memory", "errors"), "a sequence that is not there is thought to be an empty one", "at place `t % size`; `KeyError` where there is no such sequence",
)  # fmt: skip
blocks_length_of_none_is_0 = blocks(
    {"        return self._lengths[seq]\n": "        return self._lengths.get(seq, 0)\n"}, ("errors",),
    "a sequence that is not there is thought to have no tokens", "how many tokens it has; `KeyError` where there is no such sequence",
)  # fmt: skip
blocks_unknown_ones_are_a_value_error = blocks(
    {"        table = self.table(parent)\n": "        if parent not in self._tables:\n            raise ValueError(parent)\n        table = self.table(parent)\n"},
    ("errors",), "all that is wrong with a fork is thought to be one error", "`KeyError` where there is no `parent`",
)  # fmt: skip
blocks_child_is_looked_at_first = blocks(
    {"        table = self.table(parent)\n" + BLOCKS_TWICE: BLOCKS_TWICE + "        table = self.table(parent)\n"}, ("errors",),
    "the order of two checks is thought to be free", "also if there is a `child`",
)  # fmt: skip
blocks_child_is_replaced = blocks(
    {BLOCKS_TWICE: "        if child in self._tables and child != parent:\n            self.release(child)\n"}, ("errors",),
    "a fork is thought to overwrite", "else `ValueError` where there is a `child` already",
)  # fmt: skip
blocks_counted_for_refused_forks = blocks(
    {BLOCKS_TWICE + "        for block in table:\n" + BLOCKS_COUNTED: "        for block in table:\n" + BLOCKS_COUNTED + BLOCKS_TWICE}, ("errors",),
    "counts are raised before the name is looked at", "a call that raises changes nothing: no table, no count",
)  # fmt: skip
blocks_tables_lent = blocks(
    {BLOCKS_TOLD: "        return self._tables[seq]\n", "        table = self.table(parent)\n": "        table = list(self._tables[parent])\n"}, ("apart",),
    "a list that is returned is thought to be read only", "the caller may change them, and nothing of yours changes with them",
)  # fmt: skip
blocks_one_table_for_both = blocks(
    {BLOCKS_FORKED: "self._tables[child], self._lengths[child] = self._tables[parent], self._lengths[parent]"}, ("tokens", "shared", "copies", "counts", "memory", "apart", "serving"),
    "equal tables are thought to be one", "`append` changes no table but that of `seq`",
)  # fmt: skip
blocks_one_cache_for_all = blocks(
    {BLOCKS_KEPT: "self._size, self._free, self._users = size, list(range(total)), [0] * total", "self._tables, self._lengths = {}, {}": "pass", "    def __init__(self, total, size):\n": "    _tables, _lengths = {}, {}\n\n    def __init__(self, total, size):\n"},
    EVERY_POINT_OF_BLOCKS, "what stands in the class is thought to be each object's own", "Several such objects know nothing of each other",
)  # fmt: skip
blocks_empty_names_are_none = blocks(
    {BLOCKS_NO_TOKENS: "        if not seq:\n            raise KeyError(seq)\n        if n < 1:\n"}, ("apart",),
    "an empty name is thought to be no name", "an empty string or `None` among them",
)  # fmt: skip
blocks_by_written_names = blocks(
    {BLOCKS_LOOKED_UP: "seq = str(seq)\n        " + BLOCKS_LOOKED_UP, BLOCKS_TOLD: "        return list(self._tables[str(seq)])\n", "        return self._lengths[seq]\n": "        return self._lengths[str(seq)]\n", "        table = self.table(parent)\n": "        parent, child = str(parent), str(child)\n        table = self.table(parent)\n", "        for block in self._tables.pop(seq):\n": "        seq = str(seq)\n        for block in self._tables.pop(seq):\n"},
    ("apart",), "names are thought to be strings", "a sequence is known by its name, any hashable value",
)  # fmt: skip
blocks_by_the_name_object = blocks(
    {BLOCKS_LOOKED_UP: "seq = next((name for name in self._tables if name is seq), seq)\n        " + BLOCKS_LOOKED_UP, BLOCKS_MADE: "    return SharedBlocks(total, size)\n", BLOCKS_TOLD: "        return list(next(table for name, table in self._tables.items() if name is seq))\n"},
    ("tokens", "shared", "copies", "counts", "memory", "errors", "apart", "serving"), "equal names are thought to be the same object", "a sequence is known by its name, any hashable value",
)  # fmt: skip
blocks_names_come_with_their_length = blocks(
    {"        del self._lengths[seq]\n": "        self._lengths[seq] *= 1\n"}, ("memory", "errors", "apart"),
    "a name is thought to come once", "has hung up. It is gone, and its name may begin a new one",
)  # fmt: skip
blocks_two_tokens_at_least = blocks(
    {"def append(self, seq, n=1):": "def append(self, seq, n):"}, ("room", "tokens", "shared", "copies", "memory", "errors", "apart", "serving"),
    "a default is thought to be a matter of taste", "`append(seq, n=1)`",
)  # fmt: skip
blocks_parted_before_they_are_counted = blocks(
    {BLOCKS_ROOM: "copies = [self._part(table)] if shared and self.free else []\n        if more > self.free or (shared and not copies):", "        " + BLOCKS_COPIES + "\n": ""}, ("memory", "serving"),
    "a copy is thought to come before everything else", "a call that raises changes nothing",
)  # fmt: skip
blocks_no_copies_is_none = blocks(
    {BLOCKS_COPIES: "copies = [self._part(table)] if shared else None"}, ("copies", "serving"), "nothing to copy is thought to be nothing to return", "the list is empty where none is due",
)  # fmt: skip
blocks_one_list_of_copies = blocks(
    {BLOCKS_COPIES: "self._copies[:] = [self._part(table)] if shared else []", "        return copies\n": "        return self._copies\n", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._copies = []"},
    ("apart",), "a list that is filled anew is thought to be a new one", "the lists that you return are new",
)  # fmt: skip
blocks_last_one_copied_at_the_fork = blocks(
    {BLOCKS_FORKED: BLOCKS_FORKED + "\n        if self._lengths[parent] % self._size and self.free:\n            self._due.setdefault(child, []).append(self._part(table))", BLOCKS_COPIES: BLOCKS_COPIES + "\n        copies += self._due.pop(seq, [])", BLOCKS_KEPT: BLOCKS_KEPT + "\n        self._due = {}"},
    ("tokens", "copies", "counts", "memory", "serving"), "the child is thought to be about to write", "no block is taken or copied",
)  # fmt: skip
blocks_counted_in_bytes = blocks(
    {BLOCKS_KEPT: "self._size, self._free, self._users = size, list(range(total)), bytearray(total)"}, ("counts",), "256 sequences of one prompt are thought to be more than there are", "all numbers are Python integers",
)  # fmt: skip
blocks_counted_for_all = blocks(
    {"class SharedBlocks:\n": "USERS = [0] * 1000\n\n\nclass SharedBlocks:\n", BLOCKS_KEPT: "self._size, self._free, self._users = size, list(range(total)), USERS"}, ("apart",),
    "counts that stand beside the class are thought to be each object's own", "Several such objects know nothing of each other",
)  # fmt: skip
blocks_shared_by_their_first = blocks(
    {BLOCKS_SHARED: "shared = length % self._size > 0 and self._users[table[0]] > 1"}, ("copies", "serving"), "sequences with a common beginning are thought to share their end", "nothing else is copied: neither full blocks",
)  # fmt: skip
blocks_looked_at_after_growing = blocks(
    {BLOCKS_COPIES + "\n" + BLOCKS_TAKEN: "table.extend(self._take() for _ in range(more))\n        copies = [self._part(table)] if shared else []\n"}, ("tokens", "shared", "copies", "counts", "memory", "serving"),
    "the last block is thought to be the one that is written first", "A last block that is partly filled and shared is replaced",
)  # fmt: skip
blocks_length_of_both = blocks(
    {BLOCKS_LOOKED_UP: "length, table = self._lengths.get(seq, [0])[0], self._tables.get(seq, [])", "self._tables[seq], self._lengths[seq] = table, length + n": "self._tables[seq] = table\n        self._lengths.setdefault(seq, [0])[0] += n", "        return self._lengths[seq]\n": "        return self._lengths[seq][0]\n"},
    ("tokens", "shared", "copies", "counts", "apart", "serving"), "a length that lies in a list is thought to be each sequence's own", "how many tokens it has",
)  # fmt: skip
blocks_none_is_no_parent = blocks(
    {"        table = self.table(parent)\n": "        if parent is None:\n            raise KeyError(parent)\n        table = self.table(parent)\n"}, ("apart",),
    "`None` is thought to be no name", "an empty string or `None` among them",
)  # fmt: skip


@mistake(
    "block_allocator",
    loses=("tokens", "copies", "counts", "memory", "serving"),
    because="the engine's own allocator is thought to be one for sequences that fork",
    breaks="its table names the same blocks, and no block is taken or copied",
)
def blocks_of_the_engines_own(total, size):
    from gpulab.serving import Live, Paged

    class Around:
        def __init__(self):
            self.own, self.lives = Paged(total, size), {}

        free = property(lambda self: self.own.free)

        def append(self, seq, n=1):
            if n < 1:
                raise ValueError(n)
            live = self.lives.get(seq) or Live(str(seq), 0, n, 1)
            if not self.own.reserve(live, self.lengths(seq) + n):
                raise MemoryError(n)
            self.lives[seq] = live
            self.told[seq] = self.lengths(seq) + n
            return []

        told = property(lambda self: self.__dict__.setdefault("_told", {}))

        def lengths(self, seq):
            return self.told.get(seq, 0)

        def fork(self, parent, child):
            length = self.told[parent]
            if child in self.told:
                raise ValueError(child)
            self.append(child, length)

        def release(self, seq):
            del self.told[seq]
            self.own.release(self.lives.pop(seq))

        def table(self, seq):
            return list(self.own.table(self.lives[seq]))

        def length(self, seq):
            return self.told[seq]

    return Around()


@alternative("block_allocator")
def blocks_counted_by_looking(total, size):
    """No counts and no list of free blocks: both are read off the tables whenever they are needed."""

    class OutOfBlocks(MemoryError):
        pass

    class Tables:
        def __init__(self):
            self.rows = {}

        def used(self):
            return {block for blocks, _ in self.rows.values() for block in blocks}

        @property
        def free(self):
            return total - len(self.used())

        def append(self, seq, n=1):
            if not n >= 1:
                raise ValueError("one token or more")
            blocks, length = self.rows.get(seq, ((), 0))
            filled = length // size
            others = {block for name, (theirs, _) in self.rows.items() if name != seq for block in theirs}
            kept = [block for at, block in enumerate(blocks) if at < filled or block not in others]
            new = sorted(set(range(total)) - self.used())[: (length + n + size - 1) // size - len(kept)]
            if (len(kept) + len(new)) * size < length + n:
                raise OutOfBlocks(seq)
            self.rows[seq] = (*kept, *new), length + n
            return list(zip(blocks[len(kept) :], new))

        def fork(self, parent, child):
            row = self.rows[parent]
            if child in self.rows:
                raise ValueError(child)
            self.rows[child] = row

        def release(self, seq):
            self.rows.pop(seq)

        def table(self, seq):
            return [*self.rows[seq][0]]

        def length(self, seq):
            return self.rows[seq][1]

    if min(total, size) <= 0:
        raise ValueError("no cache")
    return Tables()


@alternative("block_allocator")
def blocks_in_a_tree(total, size):
    """A sequence is the last leaf of a tree of blocks: its fork points to the same leaf, and only leaves are counted."""
    from collections import namedtuple

    Copy = namedtuple("Copy", "source target")

    class Leaf:
        def __init__(self, block, above):
            self.block, self.above, self.below = block, above, 0

    class Tree:
        def __init__(self):
            if total < 1:
                raise ValueError(total)
            if size < 1:
                raise ValueError(size)
            self.root, self.never, self.again, self.ends = Leaf(None, None), 0, [], {}

        @property
        def free(self):
            return total - self.never + len(self.again)

        def hung_below(self, above):
            if self.again:
                leaf = Leaf(self.again.pop(0), above)
            else:
                leaf, self.never = Leaf(self.never, above), self.never + 1
            above.below += 1
            return leaf

        def leave(self, leaf):
            leaf.below -= 1
            while leaf.below == 0 and leaf is not self.root:
                self.again.append(leaf.block)
                leaf = leaf.above
                leaf.below -= 1

        def append(self, seq, n=1):
            if n <= 0:
                raise ValueError(n)
            leaf, length = self.ends.get(seq, (self.root, 0))
            places = -length % size
            alone = not places or leaf.below == 1
            more = (max(n - places, 0) + size - 1) // size
            if self.free < more + (not alone):
                raise MemoryError("full")
            was, copies = leaf, []
            if not alone:
                leaf = self.hung_below(was.above)
                copies.append(Copy(was.block, leaf.block))
            for _ in range(more):
                leaf = self.hung_below(leaf)
            if seq not in self.ends or leaf is not was:
                leaf.below += 1
            if seq in self.ends and leaf is not was:
                self.leave(was)
            self.ends[seq] = leaf, length + n
            return copies

        def fork(self, parent, child):
            end = self.ends[parent]
            if child in self.ends:
                raise ValueError("there already")
            end[0].below += 1
            self.ends[child] = end

        def release(self, seq):
            leaf, _ = self.ends.pop(seq)
            self.leave(leaf)

        def table(self, seq):
            leaf, blocks = self.ends[seq][0], []
            while leaf is not self.root:
                blocks.insert(0, leaf.block)
                leaf = leaf.above
            return blocks

        def length(self, seq):
            return self.ends[seq][1]

    return Tree()


@alternative("block_allocator")
def blocks_tried_and_taken_back(total, size):
    """A call works on a copy of everything, which takes the place of what was there once nothing can fail any more."""
    from collections import Counter, deque
    from copy import deepcopy
    from types import SimpleNamespace

    def only_if_done(method):
        def tried(self, *given, **named):
            before, self.state = self.state, deepcopy(self.state)
            try:
                return method(self, *given, **named)
            except BaseException:
                self.state = before
                raise

        return tried

    class Tried:
        def __init__(self):
            if total <= 0 or size <= 0:
                raise ValueError
            self.state = SimpleNamespace(free=deque(range(total)), users=Counter(), tables={}, lengths=Counter())

        free = property(lambda self: len(self.state.free))

        def table(self, seq):
            return self.state.tables[seq].copy()

        def length(self, seq):
            self.table(seq)
            return self.state.lengths[seq]

        def taken(self):
            if not self.state.free:
                raise MemoryError("no block is free")
            self.state.users.update([self.state.free[0]])
            return self.state.free.popleft()

        def dropped(self, block):
            self.state.users.subtract([block])
            if not self.state.users[block]:
                self.state.free.append(block)

        @only_if_done
        def append(self, seq, n=1):
            table, copies = self.state.tables.setdefault(seq, []), []
            if self.state.lengths[seq] % size and self.state.users[table[-1]] > 1:
                copies.append((table.pop(), self.taken()))
                table.append(copies[0][1])
                self.dropped(copies[0][0])
            self.state.lengths[seq] += n
            while len(table) * size < self.state.lengths[seq]:
                table.append(self.taken())
            if n < 1:
                raise ValueError(n)
            return copies

        @only_if_done
        def fork(self, parent, child):
            self.state.users.update(self.state.tables[parent])
            if child in self.state.tables:
                raise ValueError(child)
            self.state.tables[child], self.state.lengths[child] = self.table(parent), self.length(parent)

        @only_if_done
        def release(self, seq):
            for block in reversed(self.state.tables.pop(seq)):
                self.dropped(block)
            del self.state.lengths[seq]

    return Tried()


blocks_unbroken = [
    unbreakable("block_allocator", "`total`: the blocks of the cache, numbered from 0", "it says what is handed over; other numbers fail wherever they are used"),
    unbreakable("block_allocator", "`size`: the tokens that a block has places for", "it says what is handed over"),
    unbreakable("block_allocator", "Returns an object with the methods and the property below", "what lacks one fails with AttributeError"),
    unbreakable("block_allocator", "a name that is not there begins a new sequence", "no sequence could begin otherwise"),
    unbreakable("block_allocator", "begins the sequence `child` with the tokens of `parent`", "the words behind it say by which blocks"),
    unbreakable("block_allocator", "Which of the free blocks it takes is yours to choose", "a permission"),
]


# E19.3 chunked_prefill

CHUNK_ALL = ("gap", "decodes", "chunks", "order", "room", "whole", "calls")
CHUNK_FITS = "self.step_us(work) <= self.gap_us"
CHUNK_RESERVES = "blocks.reserve(live, live.left)"
CHUNK_DECODES = "live.told and live.left == 1"
CHUNK_WHOLE = "live.whole and live.computed + part < live.prompt_tokens"
CHUNK_LINE = "line = [live for live in running if live not in plan.tokens] + waiting[: budget.requests - len(running)]"
CHUNK_LAST = "last = next(other for other in reversed(running) if other not in plan.preempt)"
CHUNK_CLOCK = "self.step_us, self.gap_us = step_us, gap_us"


def chunk_edited(edits, loses, because, breaks):
    return edited("chunked_prefill", edits, loses=loses, because=because, breaks=breaks)


@mistake(
    "chunked_prefill",
    loses=("gap", "whole", "calls"),
    because="a budget of tokens is thought to bound the time of a step",
    breaks="a step in which somebody decodes lasts `gap_us` at most, by `step_us`",
)
def chunk_tokens_alone(step_us, gap_us):
    return Chunked()


@mistake(
    "chunked_prefill",
    loses=("gap", "decodes", "chunks", "whole", "calls"),
    because="prompts are computed at once, as before Sarathi-Serve",
    breaks="prompts get as many tokens as they can",
)
def chunk_never(step_us, gap_us):
    return Continuous()


chunk_strictly_less = chunk_edited(
    {CHUNK_FITS: "self.step_us(work) < self.gap_us"},
    ("chunks", "calls"),
    "a limit is thought to be what is not reached",
    "lasts `gap_us` at most",
)
chunk_gap_always = chunk_edited(
    {"while decodes and least < most": "while least < most"},
    ("gap", "decodes", "chunks", "whole", "calls"),
    "a step is thought to have a gap to keep when nobody waits for a token",
    "while nobody decodes, the gap bounds nothing",
)
chunk_one_token_always = chunk_edited(
    {"        least, most = 0, min(": "        least, most = 1, min("},
    ("gap", "calls"),
    "a prompt is thought to starve unless every step gives it a token",
    "Where the decodes alone take longer than that, they go alone",
)
chunk_decodes_without_context = chunk_edited(
    {"work = [(1, live.computed) for live in decodes]": "work = [(1, 0) for live in decodes]"},
    ("gap", "calls"),
    "a decode is thought to take the same time wherever it stands",
    "`new` tokens, 1 or more, are computed after the `context` tokens",
)
chunk_decodes_one_short = chunk_edited(
    {"work = [(1, live.computed) for live in decodes]": "work = [(1, live.computed - 1) for live in decodes]"},
    ("gap", "calls"),
    "the token that is computed is taken for one of the cache's",
    "that are there already (`live.computed`)",
)
chunk_decodes_one_more = chunk_edited(
    {"work = [(1, live.computed) for live in decodes]": "work = [(1, live.tokens) for live in decodes]"},
    ("chunks", "calls"),
    "all tokens of prompt and output are thought to be in the cache",
    "that are there already (`live.computed`)",
)
chunk_without_context = chunk_edited(
    {"work += [(tokens, live.computed) for": "work += [(tokens, 0) for"},
    ("gap", "calls"),
    "every chunk is timed like the first of its prompt",
    "One more request, new token or context token never makes a step",
)
chunk_sum_of_pairs = chunk_edited(
    {CHUNK_FITS: "self.step_us([(sum(new for new, _ in work), max(context for _, context in work))]) <= self.gap_us"},
    ("gap", "chunks", "whole", "calls"),
    "a step is thought to be one long sequence",
    "`work` is a list with a pair `(new, context)` for every request in the step",
)
chunk_times_added = chunk_edited(
    {CHUNK_FITS: "self.step_us(work[: len(decodes)]) + self.step_us(work[len(decodes) :]) <= self.gap_us"},
    ("chunks", "whole", "calls"),
    "decodes and chunks are timed apart, and what a step costs by itself is paid twice",
    "prompts get as many tokens as they can",
)
chunk_prompts_alone = chunk_edited(
    {CHUNK_FITS: "self.step_us(work[len(decodes) :]) <= self.gap_us"},
    ("gap", "whole", "calls"),
    "the gap is thought to be there for the chunks alone",
    "a step in which somebody decodes lasts `gap_us` at most, by `step_us`",
)
chunk_budget_without_decodes = chunk_edited(
    {"budget.tokens - len(decodes)": "budget.tokens"},
    ("decodes", "chunks", "whole", "calls"),
    "the budget is thought to be of prompts",
    "also when the budget is tight",
)
chunk_prompts_first = chunk_edited(
    {"                plan.tokens[live] = 1\n": "                plan.tokens[live] = 1\n        decodes = plan.tokens\n", "        return plan\n\n    def most": "        while sum(plan.tokens.values()) > budget.tokens:\n            del plan.tokens[next(iter(plan.tokens))]\n        return plan\n\n    def most", "budget.tokens - len(decodes)": "budget.tokens"},
    ("decodes",),
    "a prompt is thought to be worth more than a token of somebody who is served already",
    "in every step each of them gets its token",
)
chunk_one_prompt_a_step = chunk_edited(
    {CHUNK_LINE: CHUNK_LINE + "\n        line = line[:1]"},
    ("chunks", "whole", "calls"),
    "a step is thought to hold one chunk",
    "Several may share a step",
)
chunk_drains = chunk_edited(
    {"waiting[: budget.requests - len(running)]": "waiting[: 0 if plan.tokens else budget.requests]"},
    ("chunks", "room", "whole", "calls"),
    "a new prompt is begun when nobody decodes any more",
    "or for the next in line",
)
chunk_shortest_first = chunk_edited(
    {CHUNK_LINE: CHUNK_LINE + "\n        line.sort(key=lambda live: live.left)"},
    ("order", "whole"),
    "the shortest prompt first gives the shortest wait on average",
    "First come, first served",
)
chunk_fair_shares = chunk_edited(
    {"        part = min(live.left, tokens)\n": "        part = min(live.left, -(-tokens // 2)) if not live.whole else min(live.left, tokens)\n"},
    ("chunks", "order", "calls"),
    "every prompt gets a chunk of its own in each step",
    "a prompt that has begun is finished before the next begins",
)
chunk_overtakes_for_room = chunk_edited(
    {"                break\n": "                continue\n"},
    ("order",),
    "room that the first in line cannot use is thought to be free for the others",
    "then `waiting` from its front. Nobody is overtaken",
)
chunk_reserves_chunks = chunk_edited(
    {CHUNK_RESERVES: "blocks.reserve(live, tokens)", 'live.state == "waiting" and not': "not"},
    ("chunks", "room", "whole", "calls"),
    "a chunk is thought to need room for itself alone",
    "Everybody grows by a token at a time from then on",
)
chunk_reserves_longest = chunk_edited(
    {CHUNK_RESERVES: "blocks.reserve(live, live.longest - live.computed)"},
    ("chunks", "room", "calls"),
    "a request is let in when it can never be preempted",
    "a request is let in only if all its tokens so far have room: reserve `live.left` for it, no less and no more",
)
chunk_preempts_the_oldest = chunk_edited(
    {CHUNK_LAST: CHUNK_LAST.replace("reversed(running)", "running")},
    ("chunks", "room", "whole", "calls"),
    "who has run longest is thought to have had his turn",
    "the last of `running`, who was let in last, is preempted",
)
chunk_preempts_the_largest = chunk_edited(
    {CHUNK_LAST: "last = max((other for other in running if other not in plan.preempt), key=lambda other: len(blocks.table(other)))"},
    ("chunks", "room", "whole", "calls"),
    "whoever frees the most blocks is preempted",
    "the last of `running`, who was let in last, is preempted",
)
chunk_preempts_a_pair = chunk_edited(
    {"        if last is live:\n": "        spare = [other for other in running if other not in plan.preempt and other not in plan.tokens and other is not live]\n        for other in spare[-1:]:\n            blocks.release(other)\n            plan.preempt.append(other)\n        if last is live:\n"},
    ("room",),
    "one more is preempted, so that it need not be done again so soon",
    "until there is room and no further",
)
chunk_preempted_in_reverse = chunk_edited(
    {"        plan.preempt.append(last)\n": "        plan.preempt.insert(0, last)\n"},
    ("room",),
    "the list is thought to be in the order in which they will wait",
    "`plan.preempt` names them in this order",
)
chunk_lets_in_while_preempting = chunk_edited(
    {"        if plan.preempt:  # a prompt in chunks runs as the last, so it is among them\n            return plan\n": "", "if live not in plan.tokens]": "if live not in plan.tokens and live not in plan.preempt]"},
    ("room",),
    "room that a preemption left over is given to who waits",
    "Nobody is let in by a step that preempts",
)
chunk_never_preempts = chunk_edited(
    {" and live not in plan.preempt and keep(live, running, blocks, plan)": " and blocks.reserve(live, 1)"},
    ("chunks", "room", "whole", "calls"),
    "who finds no room is thought to wait for a step with more",
    "when a decode finds no room",
)
chunk_keeps_blocks_of_the_preempted = chunk_edited(
    {"        blocks.release(last)\n": "", "    while not blocks.reserve(live, 1):\n": "    while not blocks.reserve(live, 1) and live not in plan.preempt:\n", "        if last is live:\n            return False\n": "", "    return True": "    return live not in plan.preempt"},
    ("chunks", "room", "calls"),
    "the engine alone is thought to release",
    "Their blocks go to those who stay, in the same step",
)
chunk_cuts_whole_prompts = chunk_edited(
    {CHUNK_WHOLE: "False"},
    ("whole",),
    "an image is taken for a text",
    "has all `live.prompt_tokens` computed by one step",
)
chunk_whole_prompts_at_any_time = chunk_edited(
    {"min(live.left, tokens)\n        if not part or (" + CHUNK_WHOLE + ")": "live.left if live.whole and tokens else min(live.left, tokens)\n        if not part"},
    ("whole",),
    "what cannot be cut is thought to be above the gap",
    "It waits until it fits beside the decodes, gap and all",
)
chunk_whole_prompts_overtaken = chunk_edited(
    {CHUNK_WHOLE + "):\n            return": CHUNK_WHOLE + "):\n            continue"},
    ("whole",),
    "time that a whole prompt cannot use is given to those behind it",
    "Nobody is overtaken",
)
chunk_whole_with_what_it_was_told = chunk_edited(
    {CHUNK_WHOLE: "live.whole and part < live.left"},
    ("whole",),
    "all that is left of a whole request is thought to be its prompt",
    "Tokens that it was told before a preemption are not part of its prompt",
)
chunk_whole_prompts_alone = chunk_edited(
    {CHUNK_LINE: CHUNK_LINE + "\n        line = line[: next((n for n, live in enumerate(line) if live.whole and plan.tokens), None)]"},
    ("whole",),
    "a whole prompt is thought to need a step without decodes",
    "It waits until it fits beside the decodes",
)
chunk_token_after_token = chunk_edited(
    {"middle = (least + most + 1) // 2": "middle = least + 1", "(least, middle - 1)": "(least, least)"},
    ("calls",),
    "the longest chunk is tried one token after the other",
    "at most 40 times in one call, however large the budget",
)
chunk_each_prompt_anew = chunk_edited(
    {"        least, most = 0, min(budget.tokens - len(decodes), sum(live.left for live in line))\n": "        ends = [0]\n        for live in line if decodes else ():\n            ends.append(ends[-1] + live.left)\n            if ends[-1] + len(decodes) > budget.tokens or self.step_us([(1, one.computed) for one in decodes] + [(tokens, one.computed) for one, tokens in shared_out(line, ends[-1])]) > self.gap_us:\n                ends.pop()\n                break\n        least, most = ends[-1], min(budget.tokens - len(decodes), sum(live.left for live in line))\n"},
    ("calls",),
    "every prompt is tried as a whole before the one that is cut is searched",
    "however many the requests",
)
chunk_table_made_before = chunk_edited(
    {CHUNK_CLOCK: CHUNK_CLOCK + "\n        self.table = [step_us([(n, 0)]) for n in range(1, 9000)]"},
    ("calls",),
    "calls at another time are thought to be free",
    "`step_us` is called only by `plan`",
)
chunk_straight_line = chunk_edited(
    {"        return most\n\n\ndef shared_out": "        return most\n\n    def line_of(self, decodes, line, most):\n        work = [(1, live.computed) for live in decodes]\n        first = self.step_us(work)\n        slope = (self.step_us(work + [(most, line[0].computed)]) - first) / most\n        return max(0, min(most, int((self.gap_us - first) / slope)) if slope else most)\n\n\ndef shared_out", "        while decodes and least < most:\n": "        if decodes and most and self.gap_us < float('inf'):\n            return self.line_of(decodes, line, most)\n        while decodes and least < most:\n"},
    ("gap", "chunks", "whole", "calls"),
    "time is thought to grow evenly with tokens, so that two calls tell all",
    "nothing else is known of it, least of all that it is a straight line",
)
chunk_calibrated_once = chunk_edited(
    {CHUNK_CLOCK: CHUNK_CLOCK + "\n        self.tokens = next((n for n in range(256, 0, -1) if step_us([(n, 0)]) <= gap_us), 0)", "        while decodes and least < most:\n": "        if decodes:\n            return max(0, min(most, self.tokens - len(decodes)))\n        while decodes and least < most:\n"},
    ("gap", "chunks", "whole", "calls"),
    "the number of tokens that the gap has time for is thought to be one for all contexts",
    "that are there already (`live.computed`)",
)
chunk_multiples_of_8 = chunk_edited(
    {"            plan.tokens[live] = tokens\n": "            plan.tokens[live] = tokens if live.whole or tokens == live.left else tokens // 8 * 8 or tokens\n"},
    ("chunks", "calls"),
    "chunks are rounded to what a kernel likes",
    "prompts get as many tokens as they can",
)
chunk_powers_of_2 = chunk_edited(
    {"            plan.tokens[live] = tokens\n": "            plan.tokens[live] = tokens if live.whole or tokens == live.left else 1 << tokens.bit_length() - 1\n"},
    ("chunks", "calls"),
    "chunk lengths are doubled until they do not fit",
    "prompts get as many tokens as they can",
)
chunk_nothing_once_the_gap_is_reached = chunk_edited(
    {"        while decodes and least < most:\n": "        if decodes and self.step_us([(1, live.computed) for live in decodes]) >= self.gap_us:\n            return 0\n        while decodes and least < most:\n"},
    ("chunks", "calls"),
    "a token more is thought to cost something always",
    "Where the decodes alone take longer than that",
)
chunk_whoever_was_told_decodes = chunk_edited(
    {CHUNK_DECODES: "live.told"},
    ("chunks", "whole", "calls"),
    "who was told a token is thought to be done with the prompt for ever",
    "what is left goes to prompts: to all that is to be computed of a request that does not decode",
)
chunk_one_left_is_a_decode = chunk_edited(
    {CHUNK_DECODES: "live.left == 1"},
    ("gap", "chunks", "calls"),
    "the last token of a prompt is taken for a decode",
    "when it was told a token and has exactly one token left to compute",
)
chunk_behind_the_prompt_is_a_decode = chunk_edited(
    {CHUNK_DECODES: "live.computed >= live.prompt_tokens"},
    ("chunks", "whole", "calls"),
    "what is computed anew behind the prompt is taken for decoding",
    "that is its prompt and the tokens that it was told",
)
chunk_places_forgotten = chunk_edited(
    {"waiting[: budget.requests - len(running)]": "waiting"},
    ("decodes", "chunks", "order", "calls"),
    "the budget is thought to be of tokens alone",
    "would break the gap, `budget.tokens` or `budget.requests`",
)
chunk_a_place_too_few = chunk_edited(
    {"waiting[: budget.requests - len(running)]": "waiting[: max(0, budget.requests - len(running) - 1)]"},
    ("chunks", "calls"),
    "a place is kept free for whom a preemption brings back",
    "the budget and the room alone do",
)
chunk_gap_of_the_last_maker = chunk_edited(
    {CHUNK_CLOCK: "Bounded.step_us, Bounded.gap_us = staticmethod(step_us), gap_us"},
    ("gap", "chunks", "whole", "calls"),
    "there is thought to be one scheduler",
    "each with its own `step_us` and",
)
chunk_remembers_whose_turn_it_is = chunk_edited(
    {CHUNK_CLOCK: CHUNK_CLOCK + "\n        self.turn = None", CHUNK_LINE: "line = [live for live in running if live not in plan.tokens]\n        if self.turn is None or self.turn.left == 1 and self.turn.told:\n            line += waiting[: budget.requests - len(running)]\n        self.turn = next(reversed(line), self.turn)"},
    ("gap", "decodes", "chunks", "order", "room", "whole", "calls"),
    "the scheduler keeps whose prompt it is in, and does not hear of clients that hang up",
    "clients hang up at any moment, in the middle of a prompt too",
)
chunk_kept_by_number_of_decodes = chunk_edited(
    {CHUNK_CLOCK: CHUNK_CLOCK + "\n        self.known = {}", "        while decodes and least < most:\n": "        top = most\n        while decodes and least < most:\n", "        return most\n\n\ndef shared_out": "        return min(top, self.known.setdefault(len(decodes), most)) if decodes else most\n\n\ndef shared_out"},
    ("gap", "chunks", "room", "whole", "calls"),
    "what was found once beside so many decodes is thought to hold for good",
    "never makes a step shorter",
)
chunk_answers_a_dictionary = chunk_edited(
    {"    def plan(self, waiting, running, blocks, budget):\n": "    def plan(self, *given):\n        return self.made(*given).tokens\n\n    def made(self, waiting, running, blocks, budget):\n"},
    CHUNK_ALL,
    "the tokens are thought to be all that the engine asks for",
    "that answers with a `Plan`",
)
chunk_whole_gap_for_integers = chunk_edited(
    {CHUNK_CLOCK: "self.step_us, self.gap_us = step_us, int(gap_us)"},
    ("decodes", "chunks", "order", "room", "calls"),
    "microseconds are thought to be whole numbers",
    "an integer, a float or infinity",
)


@alternative("chunked_prefill")
def chunk_by_ends_of_prompts(step_us, gap_us):
    from bisect import bisect_right
    from itertools import accumulate
    from types import SimpleNamespace

    def plan(waiting, running, blocks, budget):
        there = list(running)
        tokens, gone = {}, []
        decodes = [live for live in there if live.told > 0 and live.tokens - live.computed == 1]
        for live in decodes:
            while live in there and not blocks.reserve(live, 1):
                gone.append(there.pop())
                blocks.release(gone[-1])
        tokens = {live: 1 for live in decodes if live in there}
        if gone:
            return Plan(tokens, gone)
        line = [live for live in there if live not in tokens]
        for live in waiting:
            if len(there) == budget.requests or not blocks.reserve(live, live.left):
                break
            line.append(live)
            there.append(live)
        parts = cut(line, tokens, budget.tokens - len(tokens))
        for live in line:
            if live not in parts and live.state == "waiting":
                blocks.release(live)
        return Plan({**tokens, **parts})

    def cut(line, decodes, left):
        ends = list(accumulate(live.left for live in line))
        known = [(1, live.computed) for live in decodes]

        def us(total):
            if not decodes or not total:
                return float("-inf")
            return step_us(known + [(n, live.computed) for live, n in parts_of(line, ends, total).items()])

        least = bisect_right(ends, gap_us, key=us)
        begin = ends[least - 1] if least else 0
        end = ends[least] - 1 if least < len(ends) else begin
        span = range(begin + 1, min(end, left) + 1)
        return parts_of(line, ends, min(left, begin + bisect_right(span, gap_us, key=us)))

    def parts_of(line, ends, total):
        found = {}
        for live, end in zip(line, ends):
            part = min(live.left, total - (end - live.left))
            if part <= 0 or live.whole and part < live.prompt_tokens - live.computed:
                break
            found[live] = part
        return found

    return SimpleNamespace(plan=plan)


@alternative("chunked_prefill")
def chunk_bit_by_bit(step_us, gap_us):
    class Subclass(Chunked):
        def plan(self, waiting, running, blocks, budget):
            decoding = {live: 1 for live in running if live.left == 1 and live.told}
            short = Plan(dict(decoding), [])
            for live in decoding:
                while live in short.tokens and not blocks.reserve(live, 1):
                    victim = max((one for one in running if one not in short.preempt), key=running.index)
                    short.tokens.pop(victim, None)
                    short.preempt += [victim]
                    blocks.release(victim)
            if short.preempt:
                return short
            behind = [live for live in running if live not in decoding]
            behind += waiting[: max(0, budget.requests - len(running))]
            total, most = 0, budget.tokens - len(decoding)
            for bit in reversed(range(most.bit_length())):
                more = total + (1 << bit)
                if more <= most and (not decoding or self.fits(decoding, behind, more)):
                    total = more
            for live, part in self.parts(behind, total).items():
                if live in waiting and not blocks.reserve(live, live.left):
                    return short
                short.tokens[live] = part
            return short

        def fits(self, decoding, behind, total):
            together = {**self.parts(behind, total), **decoding}
            return step_us([(new, live.computed) for live, new in together.items()]) <= gap_us

        def parts(self, behind, total):
            parts = {}
            for live in behind:
                due = min(total, live.left)
                if due == 0 or (live.whole and not live.computed and due < live.prompt_tokens):
                    break
                parts[live], total = due, total - due
            return parts

    return Subclass()

chunk_said_to_the_caller = [
    unbreakable("chunked_prefill", "`step_us(work)` says how many microseconds a step takes.", "it says what the caller hands over"),
    unbreakable(
        "chunked_prefill",
        "Nobody starves of it: nobody new joins the decodes until some have ended",
        "it follows from the clause before it, which others break",
    ),
    unbreakable("chunked_prefill", "`budget.tokens` is never less.", "it is a promise of the caller"),
]


# E19.4 place_phases


def phases(edits, loses, because, breaks):
    return edited("place_phases", edits, loses=loses, because=because, breaks=breaks)


PHASES_ALL = ("shared", "instances", "transfer", "split", "placement", "break_even", "errors")
PHASES_MEAN = "return Fraction(sum(kind.weight * amount(kind) for kind in workload.mix), weights)"
PHASES_TAKES = "takes = lambda kind: compute_us(cluster, kind) + cluster.step_us * -(-new_tokens(kind) // cluster.chunk)"
PHASES_WAIT = "return each * mean(workload, lambda kind: takes(kind) ** 2) / (2 * (1 - each * mean(workload, takes)))"
PHASES_SENDS = "return (sending + (cluster.layers - 1) * max(sending - computing, 0)) / cluster.layers"
PHASES_BITS = "us_per_byte = Fraction(8, 1000) / cluster.link_gbps"
PHASES_EVEN = "return Fraction(8, 1000) / min(slowest)"
PHASES_TBT = "tbt = cluster.step_us / (1 - each * computing)"
PHASES_AT_ONCE = "at_once = rate_us(workload, 1) * tokens_after_first(workload) * cluster.step_us"
PHASES_DECODE = "decode = max(1, -(-at_once // cluster.slots))"
PHASES_BEST = '"placement": min(within, key=lambda name: plans[name]["latency_us"], default=None)'
PHASES_WITHIN = "[name for name, plan in plans.items() if plan and meets_limits(workload, plan)]"
PHASES_MEETS = 'plan["ttft_us"] <= workload.most_ttft_us and plan["gap_us"] <= workload.most_gap_us'
PHASES_FULL = "    if rate_us(workload, prefill) * sent_bytes(workload, cluster) * us_per_byte > 1:\n        return None\n"
PHASES_SAVED = '        saved = shared["latency_us"] - unhidden - cluster.latency_us\n'
PHASES_COUNTS = "counts = [cluster.instances, cluster.slots, cluster.chunk, cluster.layers, cluster.kv_bytes]"
PHASES_REFUSES = "if not workload.mix or min(counts) < 1 or min(rates) <= 0 or cluster.latency_us < 0:"
PHASES_RATES = (
    "rates = (workload.rate, workload.most_ttft_us, workload.most_gap_us, cluster.prefill_us, cluster.step_us, cluster.link_gbps)"
)

# averages, prompts

phases_unweighted = phases(
    {PHASES_MEAN: "return Fraction(sum(map(amount, workload.mix)), len(workload.mix))"},
    PHASES_ALL,
    "the kinds of the mix are averaged, whatever their weights",
    "each kind as often as its weight says",
)
phases_sorted_in_place = phases(
    {"    sizes = split_sizes(workload, cluster)\n": "    sizes = split_sizes(workload, cluster)\n    workload.mix.sort(key=new_tokens)\n"},
    PHASES_ALL,
    "the mix is brought into a handy order where it lies",
    "Both are left as they are.",
)
phases_mean_prompt = phases(
    {
        "    require_numbers(workload, cluster)\n": '''    require_numbers(workload, cluster)
    everyone = {name: mean(workload, lambda kind: getattr(kind, name)) for name in ("prompt", "cached", "output")}
    workload = Workload([Kind(**everyone, weight=1)], workload.rate, workload.most_ttft_us, workload.most_gap_us)
'''
    },
    PHASES_ALL,
    "the mean prompt is thought to stand for the distribution",
    "A mean is over the requests of the mix",
)
phases_square_of_the_mean = phases(
    {"mean(workload, lambda kind: takes(kind) ** 2)": "mean(workload, takes) ** 2"},
    ("shared", "split", "placement", "break_even", "errors"),
    "the wait is worked out for the mean prompt: long prompts make others wait",
    "mean(S²) / (2 · (1 - load))",
)
phases_no_wait = phases(
    {PHASES_WAIT: "return 0"},
    ("shared", "split", "placement", "break_even", "errors"),
    "below a load of 1 nobody is thought to wait",
    "A prompt waits",
)
phases_wait_not_halved = phases(
    {"/ (2 * (1 - each": "/ (1 * (1 - each"},
    ("shared", "split", "placement", "break_even", "errors"),
    "service times are taken to be exponential",
    "mean(S²) / (2 · (1 - load))",
)
phases_one_queue = phases(
    {"each = rate_us(workload, instances)\n    return": "each = rate_us(workload, 1)\n    return"},
    ("shared", "split", "placement", "break_even", "errors"),
    "every prompt is thought to wait behind all others",
    "each is sent `rate` / n a second",
)
phases_load_of_one_holds = phases(
    {"mean(workload, takes) >= 1:": "mean(workload, takes) > 1:", "if prefill > 0 and busy < 1": "if prefill > 0 and busy <= 1"},
    ("instances",),
    "an instance is thought to get by that is always busy",
    "a load of 1 or more does not hold",
)
phases_shared_overload = phases(
    {"    if each * mean(workload, takes) >= 1:\n        return None\n    tbt": "    if each * computing >= 1:\n        return None\n    tbt"},
    ("instances", "placement"),
    "the steps that chunks join are thought to take no time from prompts",
    "Where a prompt takes S, the load is `rate` / n · mean(S)",
)
phases_cached_computed = phases(
    {"return kind.prompt - kind.cached": "return kind.prompt"},
    PHASES_ALL,
    "prefix caching is left out",
    "`prefill_us` for each of its tokens but the cached",
)

# shared

phases_full_chunks_only = phases(
    {PHASES_TAKES: "takes = lambda kind: compute_us(cluster, kind) + cluster.step_us * (new_tokens(kind) // cluster.chunk)"},
    ("shared", "instances", "placement", "break_even"),
    "what is left over is thought to fit into the last chunk",
    "comes in chunks of `chunk` tokens and what is left over",
)
phases_one_chunk_too_many = phases(
    {PHASES_TAKES: "takes = lambda kind: compute_us(cluster, kind) + cluster.step_us * (new_tokens(kind) // cluster.chunk + 1)"},
    ("shared",),
    "floor and one more is taken for rounding up",
    "comes in chunks of `chunk` tokens and what is left over",
)
phases_steps_are_free = phases(
    {PHASES_TAKES: "takes = lambda kind: compute_us(cluster, kind)"},
    ("shared", "instances", "placement", "break_even"),
    "a prompt is thought to take no longer among decodes than alone",
    "makes it longer: S = C + `step_us` · chunks",
)
phases_no_interference = phases(
    {PHASES_TBT: "tbt = cluster.step_us"},
    ("shared", "instances", "placement", "break_even"),
    "chunked prefill is thought to cost decodes nothing",
    "Decodes get the time that is left",
)
phases_always_the_worst = phases(
    {PHASES_TBT: "tbt = cluster.step_us + cluster.chunk * cluster.prefill_us"},
    ("shared", "instances", "placement", "break_even"),
    "every step is thought to have a chunk in it",
    "`tbt_us`, the mean time between tokens",
)
phases_left_of_the_load = phases(
    {PHASES_TBT: "tbt = cluster.step_us / (1 - each * mean(workload, takes))"},
    ("shared", "instances", "placement", "break_even"),
    "the steps that chunks join are thought to be lost for decodes",
    "`step_us` / (1 - `rate` / n · mean(C))",
)
phases_gap_of_a_full_chunk = phases(
    {"max(min(new_tokens(kind), cluster.chunk) for kind in workload.mix)": "cluster.chunk"},
    ("shared",),
    "prompts are thought to be longer than a chunk",
    "a step with the largest chunk of the mix in it",
)
phases_gap_of_a_prompt = phases(
    {"max(min(new_tokens(kind), cluster.chunk) for": "max(new_tokens(kind) for"},
    ("shared", "placement"),
    "decodes are thought to wait for whole prompts",
    "a step with the largest chunk of the mix in it",
)
phases_sarathi_sends_too = phases(
    {
        "    ttft = wait_us(workload, cluster.instances, takes) + mean(workload, takes)\n": """    sending = sent_bytes(workload, cluster) * Fraction(8, 1000) / cluster.link_gbps
    ttft = wait_us(workload, cluster.instances, takes) + mean(workload, takes) + sending / cluster.layers + cluster.latency_us
"""
    },
    ("shared", "placement", "break_even"),
    "chunked prefill is taken for a kind of disaggregation, whose KV is sent in chunks",
    "all instances compute prompts and decode",
)
phases_shared_without_slots = phases(
    {"    if each * tokens_after_first(workload) * tbt > cluster.slots:\n        return None\n": ""},
    ("shared", "instances"),
    "slots are thought to matter only where nothing but decoding is done",
    "each of n instances that decode is at",
)
phases_slots_not_filled = phases(
    {"* tbt > cluster.slots": "* tbt >= cluster.slots"},
    ("instances",),
    "the last slot is kept free",
    "requests at once, at most `slots`",
)

# split

phases_first_token_decoded = phases(
    {"lambda kind: kind.output - 1)": "lambda kind: kind.output)"},
    ("shared", "instances", "split", "placement", "break_even", "errors"),
    "the first token is counted among the decoded",
    "mean(`output` - 1)",
)
phases_one_to_spare = phases(
    {PHASES_DECODE: "decode = at_once // cluster.slots + 1"},
    ("instances",),
    "floor and one more is taken for rounding up",
    "In a split as few decode as that allows",
)
phases_nobody_decodes = phases(
    {PHASES_DECODE: "decode = -(-at_once // cluster.slots)"},
    ("instances", "split", "errors"),
    "where there is nothing to decode nobody is thought to be needed for it",
    "In a split as few decode as that allows, at least one",
)
phases_halves = phases(
    {"    prefill = cluster.instances - decode\n": "    decode = max(decode, cluster.instances // 2)\n    prefill = cluster.instances - decode\n"},
    ("instances", "split", "placement", "break_even", "errors"),
    "a split is thought to be even",
    "all others compute prompts, at least one",
)
phases_fewest_compute = phases(
    {
        "    busy = prefill": """    busy = rate_us(workload, 1) * mean(workload, lambda kind: compute_us(cluster, kind))
    if prefill > busy:
        prefill = busy // 1 + 1
    busy = prefill"""
    },
    ("instances", "split", "placement", "break_even", "errors"),
    "only so many are to compute prompts as their load needs",
    "all others compute prompts",
)
phases_chunks_in_a_split = phases(
    {
        "def prompt_us(workload, cluster, prefill):": "def prompt_us(workload, cluster, prefill, *_):",
        "    takes = lambda kind: compute_us(cluster, kind)\n    return": "    takes = lambda kind: compute_us(cluster, kind) + cluster.step_us * -(-new_tokens(kind) // cluster.chunk)\n    return",
    },
    ("split", "placement", "break_even", "errors"),
    "prompts are thought to be chunked wherever they are computed",
    "some instances compute prompts, whole, so that S = C",
)
phases_split_with_interference = phases(
    {
        "found = times(workload, ttft, cluster.step_us, cluster.step_us)": "found = times(workload, ttft, cluster.step_us, cluster.step_us + cluster.chunk * cluster.prefill_us)"
    },
    ("split", "placement", "errors"),
    "chunks are thought to hold up decodes in a split as well",
    "`tbt_us` and `gap_us` are `step_us`",
)
phases_second_token_waits = phases(
    {"ttft = prompt_us(workload, cluster, prefill) + exposed": "ttft = prompt_us(workload, cluster, prefill)"},
    ("split", "placement", "errors"),
    "the first token is thought to be told where the prompt is computed, and the transfer to delay nothing",
    "all keys and values have come: `ttft_us` is wait + mean(S) + `exposed_us`",
)

# transfer

phases_bytes_for_bits = phases(
    {PHASES_BITS: "us_per_byte = Fraction(1, 1000) / cluster.link_gbps", PHASES_EVEN: "return Fraction(1, 1000) / min(slowest)"},
    ("instances", "transfer", "placement", "break_even"),
    "gigabits are taken for gigabytes",
    "at `link_gbps` · 10⁹ bits a second",
)
phases_cached_stay = phases(
    {
        "return mean(workload, lambda kind: kind.prompt) * cluster.kv_bytes": "return mean(workload, new_tokens) * cluster.kv_bytes",
        "kind.prompt * cluster.kv_bytes * us_per_byte": "new_tokens(kind) * cluster.kv_bytes * us_per_byte",
    },
    ("instances", "transfer", "placement", "break_even"),
    "what need not be computed is thought not to be sent",
    "a prompt's keys and values are sent whole, the cached too",
)
phases_bytes_as_floats = phases(
    {'"bytes": sent_bytes(workload, cluster)': '"bytes": float(sent_bytes(workload, cluster))'},
    ("transfer",),
    "a float is thought to hold any number of bytes",
    "`\"placement\"`, None, bytes and numbers of instances are exact",
)
phases_bytes_of_a_split = phases(
    {'"bytes": sent_bytes(workload, cluster)': '"bytes": sent_bytes(workload, cluster) if plans["split"] else 0'},
    ("transfer",),
    "where no split holds nothing is thought to be sent",
    "in a split that holds or not",
)
phases_nothing_hidden = phases(
    {PHASES_SENDS: "return sending"},
    ("transfer", "placement"),
    "the transfer is thought to begin when the prompt is computed",
    "Layers go one by one",
)
phases_all_hidden = phases(
    {PHASES_SENDS: "return max(sending - computing, 0)"},
    ("transfer", "placement"),
    "a transfer shorter than the computation is thought to be hidden",
    "as soon as it is computed and the one before it has gone",
)
phases_first_layer_at_once = phases(
    {PHASES_SENDS: "return max(sending / cluster.layers, sending - computing)"},
    ("transfer", "placement"),
    "the first layer is thought to go before it is computed",
    "they are computed one by one, each for C / `layers`",
)
phases_hidden_on_average = phases(
    {
        "    exposed = mean(workload, exposed_us) + cluster.latency_us\n": """    everyone = Kind(mean(workload, lambda kind: kind.prompt), mean(workload, lambda kind: kind.cached), 1, 1)
    exposed = exposed_us(everyone) + cluster.latency_us
"""
    },
    ("transfer", "placement"),
    "what is hidden is worked out for the mean prompt",
    "`exposed_us` is how long the last takes to go once the prompt is computed, on average",
)
phases_latency_each_layer = phases(
    {"mean(workload, exposed_us) + cluster.latency_us": "mean(workload, exposed_us) + cluster.layers * cluster.latency_us"},
    ("transfer", "placement"),
    "every layer's latency is thought to be waited for",
    "`latency_us` once for each request",
)
phases_latency_left_out = phases(
    {"mean(workload, exposed_us) + cluster.latency_us": "mean(workload, exposed_us)", PHASES_SAVED: PHASES_SAVED.replace(" - cluster.latency_us", "")},
    ("transfer", "placement", "break_even"),
    "bandwidth is thought to be all of a link",
    "`latency_us` once for each request",
)
phases_links_carry_anything = phases(
    {PHASES_FULL: "", "slowest = [1 / (rate_us(workload, prefill) * sent)]": "slowest = [] if shared else [1 / (rate_us(workload, prefill) * sent)]"},
    ("instances", "transfer", "placement", "break_even"),
    "what is right for one request is thought to be right for the rate",
    "A link that is sent more than it can carry does not hold",
)
phases_full_links_fail = phases(
    {"* us_per_byte > 1:": "* us_per_byte >= 1:"},
    ("instances",),
    "a full link is thought to hold no more than a full instance",
    "`rate` / n · mean(T) is at most 1",
)
phases_one_link = phases(
    {
        "if rate_us(workload, prefill) * sent_bytes": "if rate_us(workload, 1) * sent_bytes",
        "slowest = [1 / (rate_us(workload, prefill) * sent)]": "slowest = [1 / (rate_us(workload, 1) * sent)]",
    },
    ("instances", "break_even"),
    "all instances are thought to have one link together",
    "each instance which computes prompts has for itself",
)

# what is returned

phases_latency_of_a_mean_output = phases(
    {'"latency_us": ttft + tokens_after_first(workload) * tbt': '"latency_us": ttft + tokens_after_first(workload) * gap'},
    ("shared", "placement", "break_even"),
    "every token is thought to take the longest gap",
    "`ttft_us` + mean(`output` - 1) · `tbt_us`",
)
phases_more_entries = phases(
    {"        **plans,\n": "        **plans,\n        \"load\": None,\n"},
    PHASES_ALL,
    "another entry is thought to do no harm",
    "`\"shared\"` and `\"split\"` are dictionaries of",
)
phases_no_none = phases(
    {"        **plans,\n": "        **{name: plan or {} for name, plan in plans.items()},\n"},
    PHASES_ALL,
    "an empty dictionary is given for what does not hold",
    "One that does not hold is None",
)


phases_one_dictionary = phases(
    {
        "def place_phases(workload, cluster):": "def place_phases(workload, cluster, found={}):",
        "    return {\n        \"placement\"": "    found |= {\n        \"placement\"",
        "        **plans,\n    }\n": "        **plans,\n    }\n    return found\n",
    },
    PHASES_ALL,
    "one dictionary is thought to be enough for all answers",
    "returns a new dictionary",
)
phases_remembered = phases(
    {
        "def place_phases(workload, cluster):": "def place_phases(workload, cluster, known={}):",
        "    sizes = split_sizes(workload, cluster)\n    plans": "    asked = str((workload, cluster))\n    if asked in known:\n        return known[asked]\n    sizes = split_sizes(workload, cluster)\n    plans",
        "    return {\n        \"placement\"": "    known[asked] = {\n        \"placement\"",
        "        **plans,\n    }\n": "        **plans,\n    }\n    return known[asked]\n",
    },
    ("placement",),
    "an answer that was given once is given again, though it is the caller's by now",
    "returns a new dictionary",
)
phases_same_counted_as_split = phases(
    {'return found | {"exposed_us": exposed, "prefill": prefill, "decode": decode}': 'return found | {"exposed_us": exposed, "prefill": decode, "decode": prefill}'},
    ("instances",),
    "who computes prompts is mixed up with who decodes",
    "there are also `exposed_us` and `prefill` and `decode`",
)
phases_latency_to_the_first = phases(
    {'"latency_us": ttft + tokens_after_first(workload) * tbt': '"latency_us": tokens_after_first(workload) * tbt'},
    ("shared", "split", "placement", "break_even", "errors"),
    "latency is thought to begin with the first token",
    "from a request's arrival to its last token",
)


# placement

phases_always_split = phases(
    {PHASES_BEST: '"placement": max(within, default=None)'},
    ("placement",),
    "engines are thought to split universally, wherever they can",
    "is `\"shared\"` or `\"split\"`: of those",
)
phases_by_first_token = phases(
    {'plans[name]["latency_us"], default': 'plans[name]["ttft_us"], default'},
    ("placement",),
    "only the first token is thought to count",
    "the one with the smaller `latency_us`",
)
phases_tie_splits = phases(
    {PHASES_WITHIN: '[name for name, plan in sorted(plans.items(), reverse=True) if plan and meets_limits(workload, plan)]'},
    ("placement",),
    "of equal ones the newer is thought to be better",
    '`"shared"` where they are equal',
)
phases_limit_of_the_first_alone = phases(
    {PHASES_MEETS: 'plan["ttft_us"] <= workload.most_ttft_us'},
    ("placement",),
    "one limit is forgotten",
    "of those whose `ttft_us` and `gap_us` are at most the workload's limits",
)
phases_mean_gap = phases(
    {'plan["gap_us"] <= workload.most_gap_us': 'plan["tbt_us"] <= workload.most_gap_us'},
    ("placement",),
    "the mean time between tokens is held to the limit of the longest",
    "of those whose `ttft_us` and `gap_us` are at most the workload's limits",
)
phases_limits_not_reached = phases(
    {PHASES_MEETS: 'plan["ttft_us"] < workload.most_ttft_us and plan["gap_us"] < workload.most_gap_us'},
    ("placement",),
    "a limit that is reached is thought to be broken",
    "what just reaches a limit has not passed it",
)
phases_the_best_then_limits = phases(
    {
        PHASES_WITHIN: '[name for name, plan in plans.items() if plan]\n    within = [min(within, key=lambda name: plans[name]["latency_us"])] if within else []\n    within = [name for name in within if meets_limits(workload, plans[name])]'
    },
    ("placement",),
    "the other is not thought of where the better one breaks a limit",
    "None where neither is within the limits",
)
phases_something_always = phases(
    {"default=None)": 'default="shared")'},
    ("placement",),
    "something is thought to be due always",
    "It is None where neither is within the limits",
)
phases_floats_compared = phases(
    {
        PHASES_BEST: '"placement": min(within, key=lambda name: plans[name]["latency_us"], default=None)',
        PHASES_MEAN: "return float(Fraction(sum(kind.weight * amount(kind) for kind in workload.mix), weights))",
        '"bytes": sent_bytes(workload, cluster)': '"bytes": Fraction(sum(kind.weight * kind.prompt for kind in workload.mix), sum(kind.weight for kind in workload.mix)) * cluster.kv_bytes',
        PHASES_DECODE: "decode = max(1, -int(-at_once // cluster.slots))",
    },
    ("instances", "placement", "break_even"),
    "floats are thought to be near enough for everything",
    "a float may miss that by its last bit",
)
phases_close_is_equal = phases(
    {PHASES_BEST: PHASES_BEST.replace('plans[name]["latency_us"]', 'round(plans[name]["latency_us"] * 100 / min(plans[other]["latency_us"] for other in within))')},
    ("placement",),
    "latencies within a hundredth are called equal",
    "the one with the smaller `latency_us`",
)

# break-even

phases_even_without_layers = phases(
    {"        rest = cluster.layers - 1\n": "        rest = 0\n"},
    ("break_even",),
    "the exposed part is thought to be one layer's at any bandwidth",
    '`"break_even_gbps"` is the least bandwidth of the links at which',
)
phases_even_nothing_hidden = phases(
    {"(cluster.layers * saved + rest * hidden) / (sent + rest * on_top)": "saved / sent"},
    ("break_even",),
    "the break-even is worked out as if nothing were hidden",
    "its `latency_us` is at most that of shared",
)
phases_even_ignores_load = phases(
    {"slowest = [1 / (rate_us(workload, prefill) * sent)]": "slowest = [] if shared else [1 / (rate_us(workload, prefill) * sent)]"},
    ("break_even",),
    "the break-even of one request is thought to be that of the rate",
    "at which the split holds and its `latency_us`",
)
phases_even_of_a_split_that_holds = phases(
    {'"break_even_gbps": sizes and': '"break_even_gbps": plans["split"] and'},
    ("break_even",),
    "where the link is too slow now no bandwidth is looked for",
    "the least bandwidth of the links at which the split holds",
)
phases_even_within_limits = phases(
    {'"break_even_gbps": sizes and': '"break_even_gbps": within and sizes and'},
    ("break_even",),
    "a break-even is thought to need somebody within the limits",
    "at most that of shared, limits aside",
)
phases_even_without_shared = phases(
    {'"break_even_gbps": sizes and': '"break_even_gbps": plans["shared"] and sizes and'},
    ("break_even",),
    "without shared instances there is thought to be nothing to break even with",
    "Where shared does not hold, every split that does is better",
)
phases_even_below_nothing = phases(
    {"        if saved <= 0:\n            return None\n": ""},
    ("break_even",),
    "a formula is thought to know where it has no sense",
    "None: there is no such bandwidth",
)
phases_even_at_infinity = phases(
    {"        if saved <= 0:\n": "        if saved < 0:\n"},
    ("break_even",),
    "a link without end is thought to be one",
    "or only an infinite one",
)
phases_latency_loads_links = phases(
    {
        "if rate_us(workload, prefill) * sent_bytes(workload, cluster) * us_per_byte > 1:": "if rate_us(workload, prefill) * (sent_bytes(workload, cluster) * us_per_byte + cluster.latency_us) > 1:"
    },
    ("instances",),
    "a link is thought to be busy while the last bit is under way",
    "`latency_us` is no part of T",
)
phases_even_in_gigabytes = phases(
    {PHASES_EVEN: "return Fraction(1, 1000) / min(slowest)"},
    ("break_even",),
    "bits are remembered on the way in and forgotten on the way out",
    '`"break_even_gbps"` is the least bandwidth of the links',
)
phases_times_rounded = phases(
    {'return {"ttft_us": ttft, "tbt_us": tbt, "gap_us": gap,': 'ttft, tbt, gap = round(ttft), round(tbt), round(gap)\n    return {"ttft_us": ttft, "tbt_us": tbt, "gap_us": gap,'},
    ("shared", "split", "placement", "break_even", "errors"),
    "whole microseconds are thought to be near enough",
    "may be wrong by a billionth",
)

# errors


def phases_unchecked(edits, because, breaks="raises `ValueError` for an empty mix"):
    return phases(edits, ("errors",), because, breaks)


phases_nothing_checked = phases_unchecked(
    {"    require_numbers(workload, cluster)\n": ""}, "whoever asks is thought to know what is possible"
)
phases_empty_mix = phases_unchecked({"if not workload.mix or min": "if min"}, "a mix is thought never to be empty")
phases_cached_whole = phases_unchecked(
    {"0 <= kind.cached < kind.prompt": "0 <= kind.cached <= kind.prompt"},
    "a prompt that is cached is thought to need no computing",
    "for `cached` less than 0 or not less than `prompt`",
)
phases_cached_below_nothing = phases_unchecked(
    {"not 0 <= kind.cached < kind.prompt": "not kind.cached < kind.prompt"},
    "a count is thought not to be negative",
    "for `cached` less than 0 or not less than `prompt`",
)
phases_link_not_checked = phases_unchecked(
    {", cluster.link_gbps)\n": ")\n    if cluster.instances > 1 and cluster.link_gbps <= 0:\n        raise ValueError\n"},
    "a link is thought to matter only where something is sent",
    "a bandwidth, `prefill_us` or `step_us` that is not greater than 0",
)
phases_zero_rates = phases_unchecked(
    {"min(rates) <= 0": "min(rates) < 0 or 0 in (cluster.prefill_us, cluster.link_gbps)"},
    "what is not negative is thought to be possible",
    "that is not greater than 0",
)
phases_no_limits_checked = phases_unchecked(
    {"workload.most_ttft_us, workload.most_gap_us, ": ""},
    "a limit is thought to need no check: nobody keeps it",
    "a rate, a limit, a bandwidth",
)
phases_latency_unchecked = phases_unchecked(
    {" or cluster.latency_us < 0": ""}, "a latency is thought not to be negative", "for `latency_us` less than 0"
)
phases_latency_due = phases(
    {"cluster.latency_us < 0": "cluster.latency_us <= 0"},
    ("transfer", "break_even", "errors"),
    "a link is thought to have a latency",
    "for `latency_us` less than 0",
)
phases_two_instances_due = phases(
    {PHASES_COUNTS: PHASES_COUNTS.replace("cluster.instances,", "cluster.instances - 1,")},
    ("shared", "instances", "transfer", "placement", "break_even", "errors"),
    "one instance is thought to be nothing to decide about",
    "`instances`, `slots`, `layers` or `kv_bytes` less than 1",
)
phases_chunks_unchecked = phases_unchecked(
    {PHASES_COUNTS: PHASES_COUNTS.replace(" cluster.chunk,", "")},
    "a chunk of -1 token is thought to be the caller's affair",
    "for a `prompt`, `output`, `weight`, `chunk`, `instances`",
)
phases_weights_unchecked = phases_unchecked(
    {"(kind.prompt, kind.output, kind.weight)": "(kind.prompt, kind.output)", "if not workload.mix or": "if sum(kind.weight for kind in workload.mix) <= 0 or"},
    "a kind of which there are none is thought to do no harm",
    "for a `prompt`, `output`, `weight`, `chunk`",
)
phases_type_errors = phases_unchecked(
    {'raise ValueError("the mix': 'raise TypeError("the mix'}, "any exception is thought to do"
)

PHASES_NOT_TO_BREAK = [
    unbreakable("place_phases", "what is noted there as `int` is an `int`", "it says what is given"),
]


@alternative("place_phases")
def phases_in_lists(workload, cluster):
    """Everything spelled out over lists of the mix; the break-even by walking along its bends."""
    import itertools
    import math

    names = ("instances", "slots", "chunk", "layers", "kv_bytes")
    if len(workload.mix) == 0 or any(getattr(cluster, name) <= 0 for name in names) or cluster.latency_us < 0:
        raise ValueError("cluster")
    for kind in workload.mix:
        if kind.prompt <= kind.cached or kind.cached < 0 or kind.weight <= 0 or kind.output <= 0:
            raise ValueError("kind")
    for number in (workload.rate, workload.most_gap_us, workload.most_ttft_us, cluster.prefill_us, cluster.step_us, cluster.link_gbps):
        if not number > 0:
            raise ValueError("rate")

    total = sum(kind.weight for kind in workload.mix)
    parts = [Fraction(kind.weight, total) for kind in workload.mix]
    n, per_us = cluster.instances, Fraction(workload.rate) / 10**6
    average = lambda values: sum(part * value for part, value in zip(parts, values))
    later = average([kind.output - 1 for kind in workload.mix])
    computed = [Fraction(cluster.prefill_us) * (kind.prompt - kind.cached) for kind in workload.mix]
    volume = [kind.prompt * cluster.kv_bytes for kind in workload.mix]

    def until_computed(times, number):
        load = average(times) * per_us / number
        if load >= 1:
            return None
        return average(times) + average([time**2 for time in times]) * per_us / number / (2 - 2 * load)

    def told(ttft, tbt, gap):
        return dict(ttft_us=ttft, tbt_us=tbt, gap_us=gap, latency_us=ttft + later * tbt)

    steps = [math.ceil(Fraction(kind.prompt - kind.cached, cluster.chunk)) for kind in workload.mix]
    first = until_computed([time + step * cluster.step_us for time, step in zip(computed, steps)], n)
    shared = None
    if first is not None:
        tbt = n * cluster.step_us / (n - per_us * average(computed))
        if per_us * later * tbt <= n * cluster.slots:
            most = max(computed) if cluster.chunk * cluster.prefill_us > max(computed) else cluster.chunk * cluster.prefill_us
            shared = told(first, tbt, cluster.step_us + most)

    decode = max(math.ceil(per_us * later * cluster.step_us / cluster.slots), 1)
    alone = until_computed(computed, n - decode) if decode < n else None

    def hanging(us_per_byte):
        """Layer after layer where they are few; else by the pace of the slower of the two."""
        found = []
        for time, size in zip(computed, volume):
            compute, send = time / cluster.layers, size * us_per_byte / cluster.layers
            if cluster.layers <= 8:
                gone = 0
                for number in range(1, cluster.layers + 1):
                    gone = max(gone, number * compute) + send
            else:
                gone = time + send if compute >= send else compute + cluster.layers * send
            found.append(gone - time)
        return average(found) + cluster.latency_us

    split = even = None
    if alone is not None:
        us_per_byte = Fraction(8, 1000 * 1) / cluster.link_gbps
        full = (n - decode) / (per_us * average(volume))
        if us_per_byte <= full:
            hangs = hanging(us_per_byte)
            split = told(alone + hangs, cluster.step_us, cluster.step_us) | dict(exposed_us=hangs, prefill=n - decode, decode=decode)
        allowed = None if shared is None else shared["latency_us"] - alone - later * cluster.step_us
        if allowed is None or hanging(full) <= allowed:
            even = 8 / (1000 * full)
        elif allowed > cluster.latency_us:
            bends = sorted([Fraction(0), full, *(time / size for time, size in zip(computed, volume))])
            for low, high in itertools.pairwise(bends):
                if hanging(low) < allowed <= hanging(high):
                    even = 8 / (1000 * (low + (high - low) * (allowed - hanging(low)) / (hanging(high) - hanging(low))))
                    break

    choice = None
    for name, found in (("split", split), ("shared", shared)):
        if found and found["ttft_us"] <= workload.most_ttft_us and found["gap_us"] <= workload.most_gap_us:
            if choice is None or found["latency_us"] <= dict(split=split)[choice]["latency_us"]:
                choice = name
    return dict(shared=shared, split=split, placement=choice, break_even_gbps=even, bytes=average(volume))


@alternative("place_phases")
def phases_by_halving(workload, cluster):
    """Worked out in fractions and told in floats; what layers hide, and the break-even, are searched for."""
    mix, least = workload.mix, [cluster.instances, cluster.slots, cluster.chunk, cluster.layers, cluster.kv_bytes]
    for kind in mix:
        least += [kind.weight, kind.prompt, kind.output, kind.cached + 1, kind.prompt - kind.cached]
    above = {name: getattr(workload, name) for name in ("rate", "most_ttft_us", "most_gap_us")}
    above |= {name: getattr(cluster, name) for name in ("prefill_us", "step_us", "link_gbps")}
    if not mix or any(count < 1 for count in least) or any(number <= 0 for number in above.values()) or cluster.latency_us < 0:
        raise ValueError("no such thing")
    everyone = sum(kind.weight for kind in mix)

    def mean(of):
        return sum(Fraction(of(kind)) * kind.weight for kind in mix) / everyone

    def busy(instances, of):
        return mean(of) * workload.rate / (instances * 1_000_000)

    def alone(kind):
        return (kind.prompt - kind.cached) * cluster.prefill_us

    def chunked(kind):
        lengths = [cluster.chunk] * ((kind.prompt - kind.cached) // cluster.chunk) + [(kind.prompt - kind.cached) % cluster.chunk]
        return sum(cluster.step_us + length * cluster.prefill_us for length in lengths if length)

    def begun_and_done(instances, of):
        if instances < 1 or busy(instances, of) >= 1:
            return None
        return mean(of) + busy(instances, lambda kind: of(kind) * of(kind)) / 2 / (1 - busy(instances, of))

    later = mean(lambda kind: kind.output) - 1

    def told(ttft, tbt, gap):
        return {"ttft_us": ttft, "tbt_us": tbt, "gap_us": gap, "latency_us": ttft + later * tbt}

    shared, first = None, begun_and_done(cluster.instances, chunked)
    if first is not None:
        tbt = cluster.step_us / (1 - busy(cluster.instances, alone))
        if busy(cluster.instances, lambda kind: (kind.output - 1) * tbt) <= cluster.slots:
            shared = told(first, tbt, cluster.step_us + min(max(map(alone, mix)), cluster.chunk * cluster.prefill_us))

    decode = 1
    while decode < cluster.instances and busy(decode, lambda kind: (kind.output - 1) * cluster.step_us) > cluster.slots:
        decode += 1
    prefill = cluster.instances - decode
    computed = begun_and_done(prefill, alone)

    def split_at(gbps):
        sending = lambda kind: Fraction(kind.prompt * cluster.kv_bytes * 8) / (gbps * 1000)
        if computed is None or busy(prefill, sending) > 1:
            return None

        def hangs(kind):
            pace, layer = Fraction(alone(kind), cluster.layers), sending(kind) / cluster.layers
            return max(pace * (number + 1) + layer * (cluster.layers - number) for number in (0, cluster.layers - 1)) - alone(kind)

        exposed = mean(hangs) + cluster.latency_us
        found = told(computed + exposed, cluster.step_us, cluster.step_us)
        return found | {"exposed_us": exposed, "prefill": prefill, "decode": decode}

    def is_as_good(gbps):
        found = split_at(gbps)
        return found is not None and (shared is None or found["latency_us"] <= shared["latency_us"])

    even, split = None, split_at(cluster.link_gbps)
    if is_as_good(Fraction(10**70)):
        high = Fraction(1, 10**30)
        while not is_as_good(high):
            high *= 64
        low = high / 64
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if is_as_good(middle) else (middle, high)
        even = float(high)
    within = {"shared": shared, "split": split}
    within = {name: plan for name, plan in within.items() if plan and plan["ttft_us"] <= workload.most_ttft_us}
    within = {name: plan for name, plan in within.items() if plan["gap_us"] <= workload.most_gap_us}
    best = sorted(within, key=lambda name: within[name]["latency_us"])
    tell = lambda plan: plan and {key: number if key in ("prefill", "decode") else float(number) for key, number in plan.items()}
    sent = Fraction(sum(kind.prompt * kind.weight for kind in mix) * cluster.kv_bytes, everyone)
    plans = {"shared": tell(shared), "split": tell(split)}
    return plans | {"placement": best[0] if best else None, "bytes": sent, "break_even_gbps": even}


# E19.5 prefix_cache


def prefix_edit(edits, loses, because, breaks):
    return edited("prefix_cache", edits, loses, because, breaks)


PREFIX_ALL = ("found", "apart", "tables", "no_room", "free", "kept", "copies", "runs", "work")
PREFIX_FULL = "return 0 if live.whole else min(tokens, len(live.ids)) // self.size"
PREFIX_COMPUTED = "self._full(live, live.computed)):"
PREFIX_KEY = "sha256(repr((before[-1:], live.image, ids)).encode()).digest()"
PREFIX_NEXT = "block = next(iter(self._kept))"
PREFIX_FOUND = "return min(len(self._leading(live, live.tokens)) * self.size, live.tokens - 1)"
PREFIX_FOUND_NOTICE = "    def found(self, live):\n        self._notice()\n"
PREFIX_ROOM = "if blocks - len(table) > self.free - sum(not self._holders[block] for block in table):"
PREFIX_COPIED = "copied = written is not None and self._holders[written] > 0"
PREFIX_FORGOTTEN = "            del self._block_of[self._key_of.pop(written)]\n"
PREFIX_LESS = "            self._holders[block] -= 1\n"
PREFIX_RELEASED = "if not self._holders[block] and block in self._key_of:"
PREFIX_DUE = "self._due.append((written, table[len(keys)]))"
PREFIX_DRAINED = "due, self._due = self._due, []"
PREFIX_GONE = "        if len(keys) < there:\n            return False\n"

prefix_never_shares = prefix_edit(
    {PREFIX_FULL: "return 0"}, PREFIX_ALL, "an allocator with shares = True is thought to be one that shares",
    "It is `size` for each of its leading full blocks that can be found",
)  # fmt: skip
prefix_all_of_it_is_found = prefix_edit(
    {PREFIX_FOUND: "return len(self._leading(live, live.tokens)) * self.size"}, ("found", "apart", "no_room", "free", "copies", "runs", "work"), "what is there is thought to leave nothing to compute",
    "how many of its tokens, from the first on, need not be computed, a Python integer. It is `size` for each of its leading full blocks that can be found, and at most `live.tokens - 1`: the last token is always left to compute",
)  # fmt: skip
prefix_last_block_is_never_found = prefix_edit(
    {PREFIX_FOUND: "return len(self._leading(live, live.tokens - 1)) * self.size"}, ("found", "apart", "no_room", "copies", "runs", "work"), "only whole blocks are thought to be found, as in vLLM",
    "where all tokens of a request are there and fill its blocks, `live.computed` ends inside the last of them",
)  # fmt: skip
prefix_found_is_a_use = prefix_edit(
    {PREFIX_FOUND: "keys = self._leading(live, live.tokens)\n        for key in reversed(keys):\n            if self._block_of[key] in self._kept:\n                self._kept[self._block_of[key]] = self._kept.pop(self._block_of[key])\n        return min(len(keys) * self.size, live.tokens - 1)"},
    ("no_room", "kept", "runs"), "who looks is thought to use", "The question changes nothing, and it is no use of a block",
)  # fmt: skip
prefix_reserved_is_findable = prefix_edit(
    {PREFIX_COMPUTED: "self._full(live, min(len(held.table) * self.size, len(live.ids)))):"}, ("found", "apart", "copies", "runs", "work"), "room is thought to hold tokens once it is reserved",
    "once all its `size` tokens are computed, at the first call after that, and not before, whatever was reserved",
)  # fmt: skip
prefix_told_is_computed = prefix_edit(
    {PREFIX_COMPUTED: "self._full(live, live.computed + 1 if live.told else live.computed)):"}, ("found", "apart", "tables", "runs", "work"), "a token that was told is thought to be in the cache",
    "How many tokens of a request are computed is `live.computed`, at any time",
)  # fmt: skip
prefix_noticed_when_released = prefix_edit(
    {PREFIX_FOUND_NOTICE: "    def found(self, live):\n", "        self._notice()\n        blocks = -(": "        blocks = -("}, PREFIX_ALL,
    "a block is thought to be finished when its request is", "at the first call after that",
)  # fmt: skip
prefix_noticed_when_reserved = prefix_edit(
    {PREFIX_FOUND_NOTICE: "    def found(self, live):\n", "    def release(self, live):\n        self._notice()\n": "    def release(self, live):\n"}, PREFIX_ALL,
    "someone is thought to call when tokens are computed", "nobody calls you when it grows",
)  # fmt: skip
prefix_prompts_alone = prefix_edit(
    {PREFIX_FULL: "return 0 if live.whole else min(tokens, live.prompt_tokens, len(live.ids)) // self.size"}, ("found", "apart", "runs", "work"), "only prompts are thought to come again",
    "Output counts as the prompt does (`live.ids` holds both), also after the request has finished",
)  # fmt: skip
prefix_while_held = prefix_edit(
    {PREFIX_RELEASED: "self._block_of.pop(self._key_of.pop(block, None), None)\n            if False:"}, PREFIX_ALL, "a block is thought to be shared by those who are there",
    "a block that is released can be found as before",
)  # fmt: skip
prefix_by_its_own_tokens = prefix_edit(
    {PREFIX_KEY: "sha256(repr((live.image, ids)).encode()).digest()"}, ("apart",), "keys and values are thought to be made of their own tokens", "by the ids of its own tokens and of all before them",
)  # fmt: skip
prefix_by_one_block_before = prefix_edit(
    {PREFIX_KEY: "(live.image, live.ids[max(0, len(before) - 1) * self.size : (len(before) + 1) * self.size])"}, ("apart",), "the block before is thought to stand for all before it",
    "of all before them",
)  # fmt: skip
prefix_images_are_not_looked_at = prefix_edit(
    {PREFIX_KEY: "sha256(repr((before[-1:], ids)).encode()).digest()"}, ("apart", "runs"), "an image's tokens are all alike, and thought to say what it is", "and by `live.image`: `None` or a string",
)  # fmt: skip
prefix_empty_is_none = prefix_edit(
    {PREFIX_KEY: "sha256(repr((before[-1:], live.image or None, ids)).encode()).digest()"}, ("apart",), "an empty string is thought to be nothing", "a string, which may be empty",
)  # fmt: skip
prefix_none_in_words = prefix_edit(
    {PREFIX_KEY: 'sha256(f"{before[-1:]} {live.image} {ids}".encode()).digest()'}, ("apart",), "what is printed alike is thought to be alike", "Two beginnings that differ are never taken for one",
)  # fmt: skip
prefix_by_pythons_hash = prefix_edit(
    {PREFIX_KEY: "hash((*before[-1:], live.image, ids))"}, ("apart",), "equal hashes are thought to be equal tokens", "that their values of Python's `hash` are equal is not enough",
)  # fmt: skip
prefix_in_32_bits = prefix_edit(
    {PREFIX_KEY: "(*before[-1:], live.image, *(token & 0xFFFFFFFF for token in ids))"}, ("apart",), "every token id is thought to fit into 32 bits", "Ids are integers from 0 up to `2**63`",
)  # fmt: skip
prefix_digits_in_a_row = prefix_edit(
    {PREFIX_KEY: 'sha256(repr((before[-1:], live.image, "".join(map(str, ids)))).encode()).digest()'}, ("apart",), "digits are thought to say where a number ends",
    "Two beginnings that differ are never taken for one",
)  # fmt: skip
prefix_by_priority = prefix_edit(
    {PREFIX_KEY: "sha256(repr((before[-1:], live.image, live.priority, ids)).encode()).digest()"}, ("apart", "runs"), "requests of two priorities are thought to be strangers",
    "Name, priority and arrival play no part",
)  # fmt: skip
prefix_whole_prompts_too = prefix_edit(
    {PREFIX_FULL: "return min(tokens, len(live.ids)) // self.size"}, ("apart",), "keys and values are thought to depend on what comes before alone",
    "of one with `live.whole`, whose prompt's tokens look at each other, neither",
)  # fmt: skip
prefix_finds_nothing_for_whole_ones_but_files_theirs = prefix_edit(
    {PREFIX_FULL: "return min(tokens, len(live.ids)) // self.size", PREFIX_FOUND: "return 0 if live.whole else min(len(self._leading(live, live.tokens)) * self.size, live.tokens - 1)"},
    ("apart",), "only who asks is thought to matter", "nobody else finds anything of theirs",
)  # fmt: skip
prefix_counted_ones_are_alike = prefix_edit(
    {PREFIX_FULL: "return 0 if live.whole else tokens // self.size"}, ("apart",), "tokens without ids are thought to be the same tokens", "no ids, or whole: where tokens are only counted, `live.ids` is empty",
)  # fmt: skip
prefix_by_name = prefix_edit(
    {"self._held[live] = Held(table, keys)": "self._held[live] = Held(table, keys)\n        self._names = getattr(self, '_names', {}) | {live.name: table}",
     "return list(self._held[live].table) if live in self._held else []": "return list(getattr(self, '_names', {}).get(live.name, [])) if any(live.name == one.name for one in self._held) else []"},
    ("apart",), "a name is thought to be somebody", "Name, priority and arrival play no part",
)  # fmt: skip
prefix_one_cache_for_all = prefix_edit(
    {"    shares = True\n": "    shares = True\n    _block_of = {}\n", "        self._block_of, self._key_of = {}, {}\n": "        self._key_of = {}\n"}, ("found", "apart", "work"), "what a class holds is thought to be each object's own",
    "Several such objects know nothing of each other",
)  # fmt: skip
prefix_shares_all_that_can_be_found = prefix_edit(
    {"there = -(-live.computed // self.size)": "there = max(-(-live.computed // self.size), min(len(self._leading(live, live.tokens)), (live.tokens - 1) // self.size))"}, ("tables", "kept"),
    "more than was asked for is thought to be better", "What goes beyond `live.computed` will be written, and gets blocks that nobody else holds",
)  # fmt: skip
prefix_blocks_behind = prefix_edit(
    {"        table += [self._new() for _ in range(blocks - len(table))]\n        if copied": "        table[:0] = [self._new() for _ in range(blocks - len(table))]\n        if copied", PREFIX_DUE: "self._due.append((written, table[0]))"},
    PREFIX_ALL, "a table is thought to be a set", "gets the blocks of its `live.computed` tokens first",
)  # fmt: skip
prefix_longest_at_once = prefix_edit(
    {"        blocks = -(-(live.computed + tokens) // self.size)\n": "        blocks = min(self.total, -(-live.longest // self.size))\n"}, PREFIX_ALL, "room is thought to be due for the longest output",
    "`reserve` adds no more blocks than its tokens fill",
)  # fmt: skip
prefix_room_for_tokens_alone = prefix_edit(
    {"        blocks = -(-(live.computed + tokens) // self.size)\n": "        blocks = -(-max(live.computed, tokens) // self.size)\n"}, PREFIX_ALL, "room for tokens is thought to be room for all", "makes room for the `live.computed` tokens that are there and `tokens` more",
)  # fmt: skip
prefix_hits_are_new_room = prefix_edit(
    {PREFIX_ROOM: "if blocks - len(table) > self.free:"}, ("no_room", "runs"), "a kept block is thought to serve as a hit and as room", "if there is no room",
)  # fmt: skip
prefix_hits_need_room = prefix_edit(
    {PREFIX_ROOM: "if blocks > self.free:"}, ("no_room", "copies", "runs"), "what is shared is thought to take room", "the very ones that can be found, whoever else holds them",
)  # fmt: skip
prefix_blank_room_alone = prefix_edit(
    {PREFIX_ROOM: "if blocks - len(table) > len(self._blank):"}, ("no_room", "free", "kept", "copies", "runs"), "what is kept is thought to be taken", "Only then others that are free are taken",
)  # fmt: skip
prefix_some_of_it_is_granted = prefix_edit(
    {"        if blocks - len(table) > self.free:\n            return False\n        table += [self._new() for _ in range(blocks - len(table))]\n        return True":
     "        while len(table) < blocks:\n            if not self.free:\n                return False\n            table.append(self._new())\n        return True",
     PREFIX_ROOM + "\n": PREFIX_ROOM + "\n            while self._kept:\n                self._blank.append(self._kept.popitem()[0])\n                del self._block_of[self._key_of.pop(self._blank[-1])]\n"},
    ("no_room", "runs"), "room is thought to be made by throwing out what is kept, whether it is enough or not", "it returns `False`, and nothing has changed",
)  # fmt: skip
prefix_gone_is_granted = prefix_edit(
    {PREFIX_GONE: ""}, ("no_room", "copies", "runs"), "what was found is thought to stay", "or if what was found has gone since",
)  # fmt: skip
prefix_room_is_an_error = prefix_edit(
    {PREFIX_ROOM + "\n            return False": PREFIX_ROOM + '\n            raise MemoryError("no room")'}, ("no_room", "runs"), "no room is thought to be an error", "it returns `False`, and nothing has changed, if there is no room",
)  # fmt: skip
prefix_any_size = prefix_edit(
    {"if total < 1 or size < 1:": "if total < 0 or size < 0:"}, ("no_room",), "none of something is thought to be some", "numbered from 0; both are Python integers and attributes of the object, as is `shares`, which is `True`. `ValueError` where one of them is less than 1",
)  # fmt: skip
prefix_releases_must_be_of_holders = prefix_edit(
    {"self._held.pop(live, Held([], []))": "self._held.pop(live)"}, ("free", "runs"), "nobody is thought to be released twice", "One that holds nothing is no error",
)  # fmt: skip
prefix_lent_tables = prefix_edit(
    {"return list(self._held[live].table) if live in self._held else []": "return self._held[live].table if live in self._held else []"}, PREFIX_ALL, "what is returned is thought to be looked at only", "The list is new, and the caller may change it",
)  # fmt: skip
prefix_last_table_is_kept = prefix_edit(
    {"return list(self._held[live].table) if live in self._held else []": "return list(self._held[live].table)"}, PREFIX_ALL, "only holders are thought to be asked about", "It is empty for a request that holds nothing",
)  # fmt: skip
prefix_kept_is_not_free = prefix_edit(
    {"return len(self._blank) + len(self._kept)": "return len(self._blank)"}, PREFIX_ALL, "what can be found is thought to be taken", "how many blocks are in nobody's table",
)  # fmt: skip
prefix_released_for_all = prefix_edit(
    {PREFIX_LESS: "            self._holders[block] = 0\n"}, ("tables", "free", "kept", "copies", "runs"), "the first to go is thought to be the last", "the request holds nothing from then on",
)  # fmt: skip
prefix_twice_is_kept_too = prefix_edit(
    {PREFIX_RELEASED: "if not self._holders[block] and live.ids and not live.whole:", "            del self._kept[block], self._block_of[self._key_of.pop(block)]": "            del self._kept[block]\n            self._block_of.pop(self._key_of.pop(block, None), None)"},
    ("kept", "runs"), "every block that was computed is thought to be worth keeping", "once released it is like one in which nothing was ever computed",
)  # fmt: skip
prefix_the_second_counts = prefix_edit(
    {"                if held.keys[-1] not in self._block_of:\n": "                if self._block_of.get(held.keys[-1]) != held.table[number]:\n                    self._key_of.pop(self._block_of.get(held.keys[-1]), None)\n"},
    ("tables", "free", "kept", "copies", "runs"), "what comes later is thought to take the place of what was there", "only the one that was computed first can be found",
)  # fmt: skip
prefix_kept_first = prefix_edit(
    {"        if self._blank:\n": "        if not self._kept:\n"}, ("found", "apart", "no_room", "kept", "runs", "work"), "old blocks are thought to go before those that hold nothing", "New blocks are first those that are free and cannot be found",
)  # fmt: skip
prefix_newest_goes = prefix_edit(
    {PREFIX_NEXT: "block = next(reversed(self._kept))"}, ("no_room", "kept", "runs"), "a stack is thought to do", "first the one whose last holder released it longest ago",
)  # fmt: skip
prefix_first_computed_goes = prefix_edit(
    {PREFIX_NEXT: "block = next(block for block in self._key_of if block in self._kept)"}, ("no_room", "kept", "runs"), "first in is thought to be first out", "first the one whose last holder released it longest ago",
)  # fmt: skip
prefix_front_goes_first = prefix_edit(
    {"for block in reversed(held.table):": "for block in held.table:"}, ("no_room", "kept", "runs"), "blocks are thought to go in the order in which they were computed", "and of a single release the one further back in the table",
)  # fmt: skip
prefix_lowest_number_goes = prefix_edit(
    {PREFIX_NEXT: "block = min(self._kept)"}, ("no_room", "kept", "runs", "work"), "one free block is thought to be as good as another", "first the one whose last holder released it longest ago",
)  # fmt: skip
prefix_evicted_and_still_found = prefix_edit(
    {"del self._kept[block], self._block_of[self._key_of.pop(block)]": "del self._kept[block]\n            self._key_of.pop(block)"}, ("no_room", "kept", "runs"), "what was handed out anew is thought to be found still", "are taken, and can be found no more",
)  # fmt: skip
prefix_never_copies = prefix_edit(
    {PREFIX_COPIED: "copied = False", PREFIX_FORGOTTEN: "            pass\n"}, ("no_room", "copies", "runs"), "the same token is thought to do no harm where it is written", "the last token is written into it anew. If another request holds that block, a block of the request's own takes its place in the table, and a copy is due",
)  # fmt: skip
prefix_takes_without_a_copy = prefix_edit(
    {PREFIX_DUE: "pass"}, ("copies", "runs"), "a block of one's own is thought to be enough", "and a copy is due",
)  # fmt: skip
prefix_copies_from_target = prefix_edit(
    {PREFIX_DUE: "self._due.append((table[len(keys)], written))"}, ("copies", "runs"), "target and source are thought to stand as in an assignment", "a list of tuples `(source, target)`",
)  # fmt: skip
prefix_always_copies = prefix_edit(
    {PREFIX_COPIED: "copied = written is not None and (self._holders[written] > 0 or blocks < self.free)", "self._kept.pop(block, None)\n        if written": "self._kept.pop(block, None)\n        if written"},
    ("copies", "runs"), "a found block is thought to be always someone's", "If nobody does, the request takes the block itself, without a copy",
)  # fmt: skip
prefix_in_place_and_still_found = prefix_edit(
    {PREFIX_FORGOTTEN: "            pass\n"}, ("copies", "runs"), "the same value is thought to be there all the time", "it can be found again only once that token is computed",
)  # fmt: skip
prefix_copies_are_told_again = prefix_edit(
    {PREFIX_DRAINED: "due = list(self._due)"}, ("copies", "runs"), "a list of copies is thought to be a record", "Each is told once",
)  # fmt: skip
prefix_lent_copies = prefix_edit(
    {PREFIX_DRAINED + "\n        return due": "self._told, self._due[:] = list(self._due), []\n        return self._told if self._told else self._due"}, PREFIX_ALL, "an empty list is thought to be as good as a new one", "Each is told once, in a new list",
)  # fmt: skip
prefix_copies_backwards = prefix_edit(
    {"        return due\n": "        return due[::-1]\n"}, ("copies",), "copies are thought to know no order", "the copies that became due since the last call, in their order. The engine asks for it after each plan and carries the copies out before anything is computed",
)  # fmt: skip
prefix_looks_through_what_is_kept = prefix_edit(
    {PREFIX_NEXT: "block = min(self._kept, key=self._kept.get)", "self._kept[block] = None": "self._kept[block] = self._now = getattr(self, '_now', 0) + 1"}, ("work",), "the least of a few thousand is thought to be found at once", "not on `total` or on how many blocks can be found",
)  # fmt: skip
prefix_looks_through_all_blocks = prefix_edit(
    {"        if self._blank:\n            block = self._blank.pop()": "        if self._blank:\n            block = next(block for block in range(self.total - 1, -1, -1) if not self._holders[block] and block not in self._key_of)\n            self._blank.remove(block)"},
    ("work",), "a free block is thought to be found by looking at all", "a call's work depends on the request's tokens and on how many requests hold blocks, not on `total`",
)  # fmt: skip


@mistake(
    "prefix_cache",
    loses=PREFIX_ALL,
    because="an allocator that pages is thought to be one that shares",
    breaks="as is `shares`, which is `True`",
)
def prefix_pages_only(total, size):
    from gpulab.serving import Paged

    return Paged(total, size)


prefix_holds_no_block = unbreakable("prefix_cache", "asked of a request (a `gpulab.serving.Live`) that holds no block", "it says what the caller does")

prefix_table_backwards = prefix_edit(
    {"return list(self._held[live].table) if live in self._held else []": "return list(self._held[live].table)[::-1] if live in self._held else []"}, PREFIX_ALL,
    "a table is thought to be a set", "a list of its blocks: token t lies in the block at `t // size`",
)  # fmt: skip


@alternative("prefix_cache")
def prefix_in_a_tree(total, size):
    """A node for each beginning, as SGLang has it; a heap, with what is out of date in it, says who goes first."""
    import heapq

    if min(total, size) < 1:
        raise ValueError("no blocks, or no room in them")

    class Node:
        def __init__(self):
            self.children, self.block = {}, None

    class Tree:
        shares = True

        def __init__(self):
            self.total, self.size = total, size
            self.roots, self.node_of, self.users, self.age = {}, {}, {}, {}
            self.unused, self.empty, self.heap, self.clock = 0, [], [], 0
            self.rows, self.walked, self.pairs = {}, {}, []

        def path(self, live, most, grow=False):
            nodes, node = [], self.roots.setdefault(live.image, Node())
            for end in range(size, 1 + (0 if live.whole else min(most, len(live.ids))), size):
                step = live.ids[end - size : end]
                node = node.children.setdefault(step, Node()) if grow else node.children.get(step)
                if node is None:
                    break
                nodes.append(node)
            return nodes

        def seen(self):
            for live, row in self.rows.items():
                if live.whole or min(live.computed, len(live.ids)) // size <= self.walked[live]:
                    continue
                for place, node in enumerate(self.path(live, live.computed, grow=True)):
                    if place >= self.walked[live] and node.block is None:
                        node.block, self.node_of[row[place]] = row[place], node
                    self.walked[live] = max(self.walked[live], place + 1)

        def there(self, live, most):
            blocks = []
            for node in self.path(live, most):
                if node.block is None:
                    break
                blocks.append(node.block)
            return blocks

        @property
        def free(self):
            return total - len(self.users)

        def found(self, live):
            self.seen()
            return min(size * len(self.there(live, live.tokens)), live.tokens - 1)

        def fresh(self):
            if self.empty:
                return self.empty.pop()
            if self.unused < total:
                self.unused += 1
                return self.unused - 1
            while True:
                when, block = heapq.heappop(self.heap)
                if self.age.get(block) == when and block not in self.users and block in self.node_of:
                    self.node_of.pop(block).block = None
                    return block

        def reserve(self, live, tokens):
            self.seen()
            wanted, row, pair = (live.computed + tokens + size - 1) // size, self.rows.get(live), None
            if row is None:
                row = self.there(live, (live.computed + size - 1) // size * size)
                if len(row) * size < live.computed:
                    return False
                inside = live.computed % size != 0
                if inside and row[-1] in self.users:
                    pair = row.pop()
            if wanted - len(row) > self.free - sum(block not in self.users for block in row):
                return False
            if live not in self.rows:
                for block in row:
                    self.users[block] = self.users.get(block, 0) + 1
                if inside and pair is None:
                    self.node_of.pop(row[-1]).block = None
                self.rows[live], self.walked[live] = row, live.computed // size
            while len(row) < wanted:
                row.append(self.fresh())
                self.users[row[-1]] = 1
                if pair is not None:
                    self.pairs.append((pair, row[-1]))
                    pair = None
            return True

        def release(self, live):
            self.seen()
            row = self.rows.pop(live, [])
            while row:
                block = row.pop()
                self.users[block] -= 1
                if self.users[block] == 0:
                    del self.users[block]
                    self.clock += 1
                    self.age[block] = self.clock
                    if block in self.node_of:
                        heapq.heappush(self.heap, (self.clock, block))
                    else:
                        self.empty.append(block)

        def table(self, live):
            return [*self.rows.get(live, ())]

        def copies(self):
            told = self.pairs[:]
            self.pairs.clear()
            return told

    return Tree()


@alternative("prefix_cache")
def prefix_lists_of_tokens(total, size):
    """Blocks are objects in a line; the key of one is a number that its beginning was given once."""
    from collections import OrderedDict

    class Room:
        def __init__(self, number):
            self.number, self.who, self.name = number, set(), None

    class Allocator:
        total, size, shares = property(lambda self: total), property(lambda self: size), True

        def __init__(self):
            if total <= 0 or size <= 0:
                raise ValueError(total, size)
            self.line = OrderedDict()
            self.nothing = [Room(number) for number in range(total)]
            self.names, self.rooms, self.held, self.waiting = {}, {}, {}, []

        free = property(lambda self: len(self.line) + len(self.nothing))

        def named(self, live, number, before):
            key = before, live.image, live.ids[number * size : number * size + size]
            return self.names.setdefault(key, len(self.names))

        def look(self, live, full):
            there, name = [], None
            for number in range(0 if live.whole or not live.ids else full):
                name = self.named(live, number, name)
                if name not in self.rooms:
                    return there
                there.append(self.rooms[name])
            return there

        def learn(self):
            for live, mine in self.held.items():
                while live.ids and not live.whole and (mine["full"] + 1) * size <= min(live.computed, len(live.ids)):
                    mine["name"] = self.named(live, mine["full"], mine["name"])
                    room = mine["rooms"][mine["full"]]
                    if mine["name"] not in self.rooms:
                        self.rooms[mine["name"]], room.name = room, mine["name"]
                    mine["full"] += 1

        def found(self, live):
            self.learn()
            return min(live.tokens - 1, size * len(self.look(live, live.tokens // size)))

        def get(self, live):
            if self.nothing:
                room = self.nothing.pop(0)
            else:
                _, room = self.line.popitem(last=False)
                del self.rooms[room.name]
                room.name = None
            room.who.add(live)
            return room

        def reserve(self, live, tokens):
            self.learn()
            need = (live.computed + tokens - 1) // size + 1
            if live in self.held:
                rooms = self.held[live]["rooms"]
                if need - len(rooms) > self.free:
                    return False
                rooms += [self.get(live) for _ in range(need - len(rooms))]
                return True
            full, part = divmod(live.computed, size)
            there = self.look(live, full + (part > 0))
            if len(there) < full + (part > 0):
                return False
            source = there.pop() if part and there[-1].who else None
            if need - len(there) > self.free - sum(not room.who for room in there):
                return False
            for room in there:
                room.who.add(live)
                self.line.pop(room.number, None)
            name = there[full - 1].name if full else None
            if part and source is None:
                del self.rooms[there[-1].name]
                there[-1].name = None
            there += [self.get(live) for _ in range(need - len(there))]
            if source is not None:
                self.waiting.append((source.number, there[full].number))
            self.held[live] = {"rooms": there, "full": full, "name": name}
            return True

        def release(self, live):
            self.learn()
            for room in reversed(self.held.pop(live, {"rooms": []})["rooms"]):
                room.who.remove(live)
                if not room.who and room.name is None:
                    self.nothing.append(room)
                elif not room.who:
                    self.line[room.number] = room

        def table(self, live):
            return [room.number for room in self.held[live]["rooms"]] if live in self.held else []

        def copies(self):
            told, self.waiting = tuple(self.waiting), []
            return list(told)

    return Allocator()


# E19.6 paged_attention

PAGED_ALL = ("values", "ends", "blocks", "float32", "strides", "once", "edges")
PAGED_ATTENDS = "returns `softmax(q k / sqrt(head_dim)) v` over the first `lengths[s]` tokens of each sequence"
PAGED_ALONE = "PyTorch computes and copies nothing"
PAGED_ONCE = "It loads a token's key and value once for all query heads that share them"
PAGED_NOTHING_ELSE = "nothing else is used: columns of `tables` beyond a sequence's last block hold any number"
PAGED_NAN = "the cache holds NaN wherever no token lies"
PAGED_STRIDES = "all other strides are arbitrary"
PAGED_FLOAT32 = "scores, weights and sums are float32, whatever the dtype"
PAGED_SCORES = "Scores lie between -1e30 and 1e30, also before they are divided by `sqrt(head_dim)`, and none overflows"
PAGED_POWERS = "They need not be powers of two"
PAGED_FITS = "raises `ValueError` when the five shapes do not fit"
PAGED_DTYPES = "or the dtypes of `q` and the caches are not as above"
PAGED_NEW = "a new contiguous tensor on `q.device`, with the shape and the dtype of `q`"
PAGED_OUT = "torch.empty(q.shape, dtype=q.dtype, device=q.device)"
PAGED_LOOP = "    for first in range(0, length, size):\n"
PAGED_TABLE = "tables_ptr + row * table_row + first // size"
PAGED_THERE = "(token < size) & (first + token < length)"
PAGED_WEIGHT = "        weight = tl.exp(score - higher[:, None])\n"
PAGED_TOP = '    top = tl.full((GROUP,), -float("inf"), tl.float32)\n'
PAGED_CHECK = "    if not fits or v_cache.shape != k_cache.shape or lengths.shape != (batch,):\n"
PAGED_GRID = "    paged_kernel[batch, kv_heads](\n"

unbreakable_of_paged_attention = [
    unbreakable("paged_attention", "the newest token of each sequence", "says what the inputs are"),
    unbreakable("paged_attention", "`tables`: `(batch, most)`, int32", "says what the inputs are"),
    unbreakable("paged_attention", "`heads` is a multiple of `kv_heads`", "says what the inputs are; other heads are refused"),
    unbreakable("paged_attention", "`lengths`: `(batch,)`, int32, from 0 to `most * size`", "says what the inputs are"),
    unbreakable("paged_attention", "Two tables may name one block", "a block that two read is read like any other"),
    unbreakable("paged_attention", "as do the columns of `tables` and the `lengths`", "promises what need not be checked"),
]


@mistake("paged_attention", loses=PAGED_ALL, because="the gathering is left to PyTorch, block by block", breaks=PAGED_ALONE)
def paged_left_to_torch(q, k_cache, v_cache, tables, lengths):
    rows, size = [], k_cache.shape[1]
    for query, table, length in zip(q, tables, lengths.tolist()):
        blocks = table[: -(-length // size)].long()
        k, v = (cache[blocks].flatten(0, 1)[:length].float() for cache in (k_cache, v_cache))
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
        weights = torch.softmax(torch.einsum("hd,thd->ht", query.float(), k) / q.shape[2] ** 0.5, 1)
        rows.append(torch.einsum("ht,thd->hd", weights, v))
    return torch.stack(rows).to(q.dtype)


paged_gathers_first = edited(
    "paged_attention",
    {
        PAGED_GRID: "    k_cache, v_cache = (cache[tables.clamp(0, len(cache) - 1).long().flatten()] for cache in (k_cache, v_cache))\n" + PAGED_GRID,
        "tl.load(" + PAGED_TABLE + ")": "(row * table_row + first // size)",
    },
    loses=PAGED_ALL,
    because="a kernel is thought to need its keys one behind the other",
    breaks=PAGED_ALONE,
)

paged_asks_the_host = edited(
    "paged_attention",
    {PAGED_OUT: "torch.empty(q.shape, dtype=q.dtype, device=q.device) if int(lengths.sum()) else torch.zeros_like(q)"},
    loses=PAGED_ALL,
    because="reading a number is thought to cost nothing; it waits for all that was launched",
    breaks="no value is read on the host",
)

paged_no_table = edited(
    "paged_attention",
    {"tl.load(" + PAGED_TABLE + ")": "(row * table_row + first // size)"},
    loses=PAGED_ALL,
    because="the blocks of a sequence are thought to lie in order",
    breaks="Token `t` of sequence `s` lies in block `tables[s, t // size]`",
)

paged_backwards_in_a_block = edited(
    "paged_attention",
    {"v_at = block * v_block + token[:, None] * v_token": "v_at = block * v_block + (size - 1 - token)[:, None] * v_token"},
    loses=PAGED_ALL,
    because="the order within a block is thought not to matter, as attention has none: a value belongs to its key",
    breaks="at `t % size`",
)

paged_heads_dealt_out = edited(
    "paged_attention",
    {
        "head, mine = kv_head * group + member": "head, mine = kv_head + member * tl.num_programs(1)",
        "(row * tl.num_programs(1) * group + head) * dim": "(row * tl.num_programs(1) * group + head) * dim",
    },
    loses=PAGED_ALL,
    because="query heads are thought to be dealt out to the key heads one by one",
    breaks="query head `h` uses key head `h // (heads // kv_heads)`",
)

paged_not_scaled = edited(
    "paged_attention",
    {".to(tl.float32) * scale": ".to(tl.float32)"},
    loses=PAGED_ALL,
    because="the scale is thought to be in the queries already",
    breaks=PAGED_ATTENDS,
)

paged_scaled_by_the_tile = edited(
    "paged_attention",
    {"dim**-0.5": "triton.next_power_of_2(dim) ** -0.5"},
    loses=("ends",),
    because="a head is thought to be as wide as the tile that holds it",
    breaks=PAGED_ATTENDS,
)

paged_adds_softmaxes = edited(
    "paged_attention",
    {"        total = total * shrink +": "        total = total +", "        acc = acc * shrink[:, None] +": "        acc = acc +"},
    loses=PAGED_ALL,
    because="what was summed below an earlier maximum is thought to stay as it is",
    breaks=PAGED_ATTENDS,
)

paged_rest_of_the_block = edited(
    "paged_attention",
    {PAGED_THERE: "(token < size) & (token < (length - 1 - first // size * size) % size + 1)"},
    loses=("ends", "once"),
    because="every block is thought to be filled like the last",
    breaks=PAGED_ATTENDS,
)

paged_whole_blocks_alone = edited(
    "paged_attention",
    {PAGED_LOOP: "    for first in range(0, length // size * size, size):\n"},
    loses=("ends", "once"),
    because="a division is thought to round up",
    breaks="over the first `lengths[s]` tokens of each sequence",
)

paged_whole_last_block = edited(
    "paged_attention",
    {"inside = there[:, None] & (d < dim)": "inside = (token < size)[:, None] & (d < dim)"},
    loses=("ends", "once"),
    because="what has no weight is thought to do no harm: 0 times NaN is NaN",
    breaks=PAGED_NAN,
)

paged_loads_and_drops = edited(
    "paged_attention",
    {
        "inside = there[:, None] & (d < dim)": "inside = (token < size)[:, None] & (d < dim)",
        "tl.load(v_ptr + v_at, mask=inside, other=0.0).to(tl.float32)": "tl.where(there[:, None], tl.load(v_ptr + v_at, mask=inside, other=0.0).to(tl.float32), 0.0)",
    },
    loses=("once",),
    because="what is dropped after the load is thought not to be loaded",
    breaks="and none beyond the end of a sequence",
)

paged_clamped = edited(
    "paged_attention",
    {
        "k_at = block * k_block + token[:, None] * k_token": "k_at = block * k_block + tl.minimum(token, tl.minimum(size, length - first) - 1)[:, None] * k_token",
        "tl.load(k_ptr + k_at, mask=inside, other=0.0)": "tl.load(k_ptr + k_at, mask=d < dim, other=0.0)",
    },
    loses=("once",),
    because="a lane that loads what another loads is thought to cost nothing",
    breaks=PAGED_ONCE,
)

paged_one_block_more = edited(
    "paged_attention",
    {PAGED_LOOP: "    for first in range(0, length + 1, size):\n"},
    loses=("ends", "blocks", "edges"),
    because="there is thought to be a last, partly filled block always",
    breaks="No lane uses an element that is not there",
)

paged_prefetches = edited(
    "paged_attention",
    {
        PAGED_LOOP: "    following = tl.load(tables_ptr + row * table_row, mask=length > 0, other=0)\n" + PAGED_LOOP,
        "block = tl.load(" + PAGED_TABLE + ").to(tl.int64)": "block = following.to(tl.int64)\n        following = tl.load(" + PAGED_TABLE + " + 1)",
    },
    loses=("blocks",),
    because="the column after the last is thought to be there, since it is not used",
    breaks="No lane uses an element that is not there",
)

paged_all_columns = edited(
    "paged_attention",
    {
        "scale, group,": "scale, most, group,",
        "dim**-0.5,": "dim**-0.5, tables.shape[1],",
        PAGED_LOOP: "    for first in range(0, most * size, size):\n",
        "tl.maximum(top, tl.max(score, axis=1))": "tl.maximum(tl.maximum(top, tl.max(score, axis=1)), -3e38)",
    },
    loses=("once",),
    because="columns without a token are thought to cost nothing once they are masked",
    breaks="more columns in `tables` cost nothing",
)

paged_full_tables = edited(
    "paged_attention",
    {
        "scale, group,": "scale, most, group,",
        "dim**-0.5,": "dim**-0.5, tables.shape[1],",
        "    length = tl.load(lengths_ptr + row)\n": "    length = most * size\n",
    },
    loses=("ends", "blocks", "strides", "once", "edges"),
    because="all sequences of a batch are thought to be equally long",
    breaks=PAGED_NOTHING_ELSE,
)

paged_for_each_query_head = edited(
    "paged_attention",
    {
        "row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)": "row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64) // group",
        "head, mine = kv_head * group + member, (member < group) & (d < dim)": "head, mine = tl.program_id(1) + member, (member < 1) & (d < dim)",
        "(row * tl.num_programs(1) * group + head) * dim": "(row * tl.num_programs(1) + head) * dim",
        PAGED_GRID: "    paged_kernel[batch, heads](\n",
    },
    loses=("once",),
    because="a head is thought to be a program, whoever shares its keys",
    breaks=PAGED_ONCE,
)

paged_for_each_sequence = edited(
    "paged_attention",
    {
        PAGED_GRID + "        q, k_cache, v_cache, out, tables, lengths, dim**-0.5": "    for s in range(batch):\n      paged_kernel[1, kv_heads](\n        q[s:], k_cache, v_cache, out[s:], tables[s:], lengths[s:], dim**-0.5",
    },
    loses=("once",),
    because="a launch is thought to cost nothing; a step then has as many as sequences",
    breaks="one launch of a Triton kernel of your own",
)

paged_query_in_the_loop = edited(
    "paged_attention",
    {
        PAGED_LOOP: PAGED_LOOP + "        q = tl.load(q_ptr + row * q_row + head * q_head + d, mask=mine, other=0.0).to(tl.float32) * scale\n",
    },
    loses=("once",),
    because="what is loaded in a loop is thought to stay where it is",
    breaks="each element of `q` at most once",
)

paged_sums_in_memory = edited(
    "paged_attention",
    {
        "        top = higher\n": "        top = higher\n        tl.store(out_ptr + (row * tl.num_programs(1) * group + head) * dim + d, acc / total[:, None], mask=mine)\n",
    },
    loses=("once",),
    because="a running result is thought to belong into memory",
    breaks="It stores each element of the result once",
)

paged_filled_first = edited(
    "paged_attention",
    {"torch.empty(q.shape": "torch.zeros(q.shape"},
    loses=("once",),
    because="a fill is thought to be free; it is a launch, and a pass over the result",
    breaks="from `torch.empty` or its like",
)

paged_batch_along_y = edited(
    "paged_attention",
    {"tl.program_id(0).to": "tl.program_id(1).to", "tl.program_id(1).to(tl.int64)\n": "tl.program_id(0).to(tl.int64)\n",
     "(row * tl.num_programs(1) * group": "(row * tl.num_programs(0) * group", PAGED_GRID: "    paged_kernel[kv_heads, batch](\n"},
    loses=("once",),
    because="the sides of a grid are thought to be equally large: along y it ends at 65,535",
    breaks="a batch may have 100,000 sequences",
)


@mistake("paged_attention", loses=("once",), because="a table is thought to be as wide as its sequences are long", breaks="no load and no arithmetic")
def paged_one_tile(q, k_cache, v_cache, tables, lengths):
    @triton.jit
    def whole(
        q_ptr, k_ptr, v_ptr, out_ptr, tables_ptr, lengths_ptr, scale, group, size, dim,
        q_row, q_head, k_block, k_token, k_head, v_block, v_token, v_head, table_row,
        GROUP: tl.constexpr, TOKENS: tl.constexpr, DIM: tl.constexpr,
    ):
        row, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        member, token, d = tl.arange(0, GROUP)[:, None], tl.arange(0, TOKENS), tl.arange(0, DIM)[None, :]
        head, mine = kv_head * group + member, (member < group) & (d < dim)
        q = tl.load(q_ptr + row * q_row + head * q_head + d, mask=mine, other=0.0).to(tl.float32) * scale
        length = tl.load(lengths_ptr + row)
        there = token < length
        block = tl.load(tables_ptr + row * table_row + token // size, mask=there, other=0).to(tl.int64)[:, None]
        slot, inside = (token % size)[:, None], there[:, None] & (d < dim)
        k = tl.load(k_ptr + block * k_block + slot * k_token + kv_head * k_head + d, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + block * v_block + slot * v_token + kv_head * v_head + d, mask=inside, other=0.0).to(tl.float32)
        score = tl.where(there[None, :], tl.sum(q[:, None, :] * k[None, :, :], axis=2), -float("inf"))
        top = tl.where(length > 0, tl.max(score, axis=1), 0.0)
        weight = tl.exp(score - top[:, None])
        total = tl.maximum(tl.sum(weight, axis=1), 1e-30)
        out = tl.sum(weight[:, :, None] * v[None, :, :], axis=1) / total[:, None]
        tl.store(out_ptr + (row * tl.num_programs(1) * group + head) * dim + d, out, mask=mine)

    batch, heads, dim = q.shape
    _, size, kv_heads, key_dim = k_cache.shape
    if key_dim != dim or heads % kv_heads or tables.ndim != 2 or len(tables) != batch or lengths.shape != (batch,):
        raise ValueError("these do not fit")
    if v_cache.shape != k_cache.shape or {q.dtype, v_cache.dtype} != {k_cache.dtype} or q.dtype == torch.float64:
        raise ValueError("these do not fit")
    out, group = q.new_empty(q.shape), heads // kv_heads
    whole[batch, kv_heads](
        q, k_cache, v_cache, out, tables, lengths, dim**-0.5, group, size, dim,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3], tables.stride(0),
        GROUP=triton.next_power_of_2(group), TOKENS=triton.next_power_of_2(max(1, tables.shape[1] * size)), DIM=triton.next_power_of_2(dim),
    )
    return out


paged_fixed_group = edited(
    "paged_attention",
    {"GROUP=triton.next_power_of_2(group)": "GROUP=4"},
    loses=("ends",),
    because="what one has tried is thought to be all there is: more heads than four may share one",
    breaks="at most 16 query heads share a key head",
)

paged_fixed_block = edited(
    "paged_attention",
    {"SIZE=triton.next_power_of_2(size)": "SIZE=16"},
    loses=("ends", "once"),
    because="a block is thought to hold 16 tokens everywhere",
    breaks="`size` at most 64",
)

paged_fixed_head = edited(
    "paged_attention",
    {"DIM=triton.next_power_of_2(dim)": "DIM=64"},
    loses=("ends",),
    because="a head is thought to be 64 wide at most",
    breaks="`head_dim` is at most 128",
)

paged_groups_are_powers = edited(
    "paged_attention",
    {"(member < group) & (d < dim)": "(member >= 0) & (d < dim)"},
    loses=("ends", "once"),
    because="a group of heads is thought to fill its tile",
    breaks=PAGED_POWERS,
)

paged_heads_fill_tiles = edited(
    "paged_attention",
    {"inside = there[:, None] & (d < dim)": "inside = there[:, None] & (d >= 0)"},
    loses=("ends", "once"),
    because="a head is thought to fill its tile",
    breaks=PAGED_POWERS,
)

paged_half_sums = edited(
    "paged_attention",
    {"        top = higher\n": "        acc = acc.to(v_ptr.dtype.element_ty).to(tl.float32)\n        top = higher\n"},
    loses=("float32",),
    because="a sum is thought to need no more digits than what is summed",
    breaks=PAGED_FLOAT32,
)

paged_half_weights = edited(
    "paged_attention",
    {PAGED_WEIGHT: "        weight = tl.exp(score - higher[:, None]).to(v_ptr.dtype.element_ty).to(tl.float32)\n"},
    loses=("float32",),
    because="a weight is thought to need no more digits than the value it weighs",
    breaks=PAGED_FLOAT32,
)

paged_half_queries = edited(
    "paged_attention",
    {".to(tl.float32) * scale": ".to(tl.float32) * scale\n    q = q.to(q_ptr.dtype.element_ty).to(tl.float32)"},
    loses=("float32",),
    because="a query that is scaled is thought to have the digits that it had",
    breaks=PAGED_FLOAT32,
)

paged_no_maximum = edited(
    "paged_attention",
    {PAGED_WEIGHT: "        weight = tl.where(there[None, :], tl.exp(score), 0.0)\n", "shrink = tl.exp(top - higher)": "shrink = tl.exp(tl.zeros_like(top))"},
    loses=("float32",),
    because="scores are thought to be small",
    breaks=PAGED_SCORES,
)

paged_maximum_from_zero = edited(
    "paged_attention",
    {PAGED_TOP: "    top = tl.zeros((GROUP,), tl.float32)\n"},
    loses=("float32",),
    because="a maximum is thought to begin at 0",
    breaks=PAGED_SCORES,
)

paged_maximum_from_a_billion = edited(
    "paged_attention",
    {PAGED_TOP: '    top = tl.full((GROUP,), -1e9, tl.float32)\n'},
    loses=("float32",),
    because="a large negative number is taken for the smallest there is",
    breaks=PAGED_SCORES,
)

paged_divides_by_nothing = edited(
    "paged_attention",
    {"acc / tl.where(total > 0, total, 1.0)[:, None]": "acc / total[:, None]"},
    loses=("ends", "edges"),
    because="a sequence is thought to have a token always",
    breaks="and zeros where there are none",
)

paged_skips_the_empty = edited(
    "paged_attention",
    {"tl.store(out_ptr + (row * tl.num_programs(1) * group + head) * dim + d, out, mask=mine)": "tl.store(out_ptr + (row * tl.num_programs(1) * group + head) * dim + d, out, mask=mine & (length > 0))"},
    loses=("ends", "edges"),
    because="memory that nobody wrote is thought to hold zeros",
    breaks="and zeros where there are none",
)

paged_strides_of_k = edited(
    "paged_attention",
    {"*v_cache.stride()[:3]": "*k_cache.stride()[:3]"},
    loses=("strides",),
    because="values are thought to lie like keys",
    breaks="and those of `k_cache` may differ from those of `v_cache`",
)

paged_queries_in_a_row = edited(
    "paged_attention",
    {"*q.stride()[:2]": "heads * dim, dim"},
    loses=("strides",),
    because="queries are thought to be contiguous",
    breaks=PAGED_STRIDES,
)

paged_keys_in_a_row = edited(
    "paged_attention",
    {"*k_cache.stride()[:3]": "size * kv_heads * dim, kv_heads * dim, dim"},
    loses=("strides",),
    because="a cache is thought to be contiguous",
    breaks=PAGED_STRIDES,
)

paged_made_contiguous = edited(
    "paged_attention",
    {PAGED_GRID: "    q, k_cache, v_cache = q.contiguous(), k_cache.contiguous(), v_cache.contiguous()\n" + PAGED_GRID},
    loses=("strides",),
    because="`contiguous` is thought to be free: it copies the whole cache, at every step",
    breaks=PAGED_STRIDES,
)

paged_laid_out_like_q = edited(
    "paged_attention",
    {PAGED_OUT: "torch.empty_like(q)"},
    loses=("strides",),
    because="a tensor like another is thought to be contiguous: it has the other's strides",
    breaks=PAGED_NEW,
)

paged_int32 = edited(
    "paged_attention",
    {"block = tl.load(" + PAGED_TABLE + ").to(tl.int64)": "block = tl.load(" + PAGED_TABLE + ")"},
    loses=("strides",),
    because="int32 is thought to count the elements of any cache",
    breaks="A cache may span more than 2**31 elements",
)

paged_on_the_card = edited(
    "paged_attention",
    {"device=q.device": 'device="cuda"'},
    loses=("strides",),
    because="there is thought to be one device",
    breaks=PAGED_NEW,
)

paged_result_in_float32 = edited(
    "paged_attention",
    {"dtype=q.dtype, device": "dtype=torch.float32, device"},
    loses=PAGED_ALL,
    because="what is summed in float32 is thought to be returned so",
    breaks=PAGED_NEW,
)

paged_into_q = edited(
    "paged_attention",
    {PAGED_OUT: "q"},
    loses=PAGED_ALL,
    because="queries are thought to be of no use any more",
    breaks="no input changes",
)

paged_same_memory = edited(
    "paged_attention",
    {
        "(q, k_cache, v_cache, tables, lengths):": "(q, k_cache, v_cache, tables, lengths, kept={}):",
        PAGED_OUT: "kept.setdefault((q.shape, q.dtype, q.device), torch.empty(q.shape, dtype=q.dtype, device=q.device))",
    },
    loses=("edges",),
    because="the last step's result is thought to have been used up",
    breaks="a new contiguous tensor",
)

paged_none_is_q = edited(
    "paged_attention",
    {PAGED_GRID: "    if not batch:\n        return q\n" + PAGED_GRID},
    loses=("edges",),
    because="an empty tensor is thought to be as good as another",
    breaks="a new contiguous tensor",
)

paged_batch_of_none = edited(
    "paged_attention",
    {"    batch, heads, dim = q.shape\n": "    batch, heads, dim = q.shape\n    if not batch:\n        return torch.empty_like(q)\n"},
    loses=("edges",),
    because="where nothing is to be computed, nothing is thought to be wrong",
    breaks=PAGED_FITS,
)

paged_no_columns = edited(
    "paged_attention",
    {PAGED_CHECK: "    if not tables.numel() and batch:\n        raise ValueError('no tables')\n" + PAGED_CHECK},
    loses=("edges",),
    because="a table of no column is thought to be a mistake",
    breaks="but `batch` and `most` may be 0",
)

paged_group_unchecked = edited(
    "paged_attention",
    {"heads % kv_heads == 0 and ": ""},
    loses=("edges",),
    because="any number of heads is thought to share",
    breaks=PAGED_FITS,
)

paged_values_unchecked = edited(
    "paged_attention",
    {"v_cache.shape != k_cache.shape or ": ""},
    loses=("edges",),
    because="values are thought to come in the shape of the keys",
    breaks=PAGED_FITS,
)

paged_lengths_unchecked = edited(
    "paged_attention",
    {" or lengths.shape != (batch,)": ""},
    loses=("edges",),
    because="a launch is thought to check its arrays",
    breaks=PAGED_FITS,
)

paged_tables_unchecked = edited(
    "paged_attention",
    {" and tables.ndim == 2 and tables.shape[0] == batch": ""},
    loses=("edges",),
    because="a launch is thought to check its arrays",
    breaks=PAGED_FITS,
)

paged_dtypes_unchecked = edited(
    "paged_attention",
    {" or not q.dtype == k_cache.dtype == v_cache.dtype": ""},
    loses=("edges",),
    because="what is converted after the load is thought to be of any dtype",
    breaks=PAGED_DTYPES,
)

paged_doubles = edited(
    "paged_attention",
    {"torch.bfloat16, torch.float32)": "torch.bfloat16, torch.float32, torch.float64)"},
    loses=("edges",),
    because="float64 is thought to be served too, and is summed in float32",
    breaks="all three of one dtype: float16, bfloat16 or float32",
)


@alternative("paged_attention")
def paged_by_the_matrix_units(q, k_cache, v_cache, tables, lengths):
    """A flat grid; tiles of 32 tokens that take every lane's block from the table; products by tl.dot; powers of two."""

    @triton.jit
    def tiles(
        q_ptr, k_ptr, v_ptr, out_ptr, tables_ptr, lengths_ptr, scale, kv_heads, group, size, dim,
        q_row, q_head, k_block, k_token, k_head, v_block, v_token, v_head, table_row,
        GROUP: tl.constexpr, DIM: tl.constexpr, TOKENS: tl.constexpr,
    ):
        row, kv_head = (tl.program_id(0) // kv_heads).to(tl.int64), tl.program_id(0) % kv_heads
        member, d = tl.arange(0, GROUP), tl.arange(0, DIM)
        q_at = q_ptr + row * q_row + (kv_head * group + member)[:, None] * q_head + d[None, :]
        mine = (member < group)[:, None] & (d < dim)[None, :]
        q = tl.load(q_at, mask=mine, other=0.0).to(tl.float32)
        m, l, acc = tl.full((GROUP, 1), -1e38, tl.float32), tl.zeros((GROUP, 1), tl.float32), tl.zeros((GROUP, DIM), tl.float32)
        length = tl.load(lengths_ptr + row)
        start = 0
        while start < length:
            token = start + tl.arange(0, TOKENS)
            block = tl.load(tables_ptr + row * table_row + token // size, mask=token < length, other=0).to(tl.int64)
            slot = token % size
            k_at = k_ptr + (block * k_block + slot * k_token + kv_head * k_head)[None, :] + d[:, None]
            k = tl.load(k_at, mask=(token < length)[None, :] & (d < dim)[:, None], other=0.0).to(tl.float32)
            v_at = v_ptr + (block * v_block + slot * v_token + kv_head * v_head)[:, None] + d[None, :]
            v = tl.load(v_at, mask=(token < length)[:, None] & (d < dim)[None, :], other=0.0).to(tl.float32)
            score = tl.dot(q, k, input_precision="ieee") * scale
            score = tl.where((token < length)[None, :], score, -float("inf"))
            new = tl.maximum(m, tl.max(score, axis=1, keep_dims=True))
            p, old = tl.exp2(1.4426950408889634 * (score - new)), tl.exp2(1.4426950408889634 * (m - new))
            l = l * old + tl.sum(p, axis=1, keep_dims=True)
            acc = tl.dot(p, v, acc * old, input_precision="ieee")
            m = new
            start += TOKENS
        acc = tl.where(length > 0, acc / tl.where(l == 0, 1.0, l), 0.0)
        out_at = out_ptr + (tl.program_id(0).to(tl.int64) * group + member)[:, None] * dim + d[None, :]
        tl.store(out_at, acc.to(out_ptr.dtype.element_ty), mask=mine)

    if [x.ndim for x in (q, k_cache, v_cache, tables, lengths)] != [3, 4, 4, 2, 1]:
        raise ValueError("dimensions")
    (batch, heads, dim), (_, size, kv_heads, _) = q.shape, k_cache.shape
    if k_cache.shape != v_cache.shape or k_cache.shape[3] != dim or heads % kv_heads or {len(tables), len(lengths)} != {batch}:
        raise ValueError("shapes")
    if len({q.dtype, k_cache.dtype, v_cache.dtype}) > 1 or q.dtype not in {torch.half, torch.bfloat16, torch.float}:
        raise ValueError("dtypes")
    out, group = q.new_empty(q.shape), heads // kv_heads
    if batch:
        tiles[(batch * kv_heads,)](
            q, k_cache, v_cache, out, tables, lengths, 1 / dim**0.5, kv_heads, group, size, dim,
            q.stride(0), q.stride(1), *k_cache.stride()[:-1], *v_cache.stride()[:-1], tables.stride(0),
            GROUP=max(16, triton.next_power_of_2(group)), DIM=max(16, triton.next_power_of_2(dim)), TOKENS=32, num_warps=2,
        )  # fmt: skip
    return out


@alternative("paged_attention")
def paged_lane_by_lane(q, k_cache, v_cache, tables, lengths):
    """From the last block to the first; each lane keeps a maximum and sums of its own, and all are merged at the end."""

    @triton.jit
    def places(cache, block, token, kv_head, d, strides):
        return cache + block.to(tl.int64) * strides[0] + (token * strides[1] + kv_head * strides[2])[:, None] + d

    @triton.jit
    def lanes(q, keys, values, out, tables, lengths, scale, group, size, dim, q_strides, k_strides, v_strides, table_row,
              GROUP: tl.constexpr, SIZE: tl.constexpr, DIM: tl.constexpr):
        kv_head, row = tl.program_id(1), tl.program_id(0).to(tl.int64)
        token, d = tl.arange(0, SIZE), tl.arange(0, DIM)[None, :]
        head = kv_head * group + tl.arange(0, GROUP)[:, None]
        mine = (head < (kv_head + 1) * group) & (d < dim)
        query = tl.load(q + row * q_strides[0] + head * q_strides[1] + d, mask=mine, other=0.0).to(tl.float32)
        length = tl.load(lengths + row)
        top = tl.full((GROUP, SIZE), -float("inf"), tl.float32)
        total = tl.zeros((GROUP, SIZE), tl.float32)
        acc = tl.zeros((GROUP, SIZE, DIM), tl.float32)
        blocks = tl.cdiv(length, size)
        for step in range(blocks):
            column = blocks - 1 - step
            block = tl.load(tables + row * table_row + column)
            there = (token < size) & (column * size + token < length)
            inside = there[:, None] & (d < dim)
            k = tl.load(places(keys, block, token, kv_head, d, k_strides), mask=inside, other=0.0).to(tl.float32)
            score = tl.where(there[None, :], tl.sum(query[:, None, :] * k[None, :, :], axis=2) * scale, -float("inf"))
            higher = tl.maximum(top, score)
            safe = tl.where(higher == -float("inf"), 0.0, higher)
            old, new = tl.exp(top - safe), tl.exp(score - safe)
            v = tl.load(places(values, block, token, kv_head, d, v_strides), mask=inside, other=0.0).to(tl.float32)
            acc = acc * old[:, :, None] + new[:, :, None] * v[None, :, :]
            total, top = total * old + new, higher
        highest = tl.max(top, axis=1)[:, None]
        share = tl.exp(top - tl.where(highest == -float("inf"), 0.0, highest))
        result = tl.sum(acc * share[:, :, None], axis=1)
        if length > 0:
            result = result / tl.sum(total * share, axis=1)[:, None]
        tl.store(out + (row * tl.num_programs(1) * group + head) * dim + d, result, mask=mine)

    try:
        (batch, heads, dim), (blocks, size, kv_heads, _) = q.shape, k_cache.shape
        rows, _ = tables.shape
    except ValueError as error:
        raise ValueError("wrong dimensions") from error
    if not (k_cache.shape == v_cache.shape == (blocks, size, kv_heads, dim) and rows == batch and lengths.shape == (rows,)):
        raise ValueError("wrong shapes")
    if heads % kv_heads or not (q.dtype == k_cache.dtype == v_cache.dtype and q.dtype.itemsize < 8):
        raise ValueError("wrong heads, or dtypes")
    out = torch.empty((batch, heads, dim), dtype=q.dtype, device=q.device)
    lanes[batch, kv_heads](
        q, k_cache, v_cache, out, tables, lengths, dim**-0.5, heads // kv_heads, size, dim,
        q.stride()[:2], k_cache.stride()[:3], v_cache.stride()[:3], tables.stride(0),
        triton.next_power_of_2(heads // kv_heads), triton.next_power_of_2(size), triton.next_power_of_2(dim),
    )
    return out


# What E19.4 and E19.5 promise or permit.

left_open = [
    unbreakable("place_phases", "`workload` is a `Workload` and `cluster` a `Cluster`;", "it says what is handed over"),
    unbreakable("prefix_cache", "`tokens` is at least 1.", "a promise to the caller"),
    unbreakable("prefix_cache", "Of those that fill between the same two calls you may take any for the first;", "a permission"),
    unbreakable(
        "prefix_cache", "A block behind one that was taken counts as one that can be found:", "it decides a case that no run is judged by",
    ),
    unbreakable("prefix_cache", "it is found again as soon as the tokens before it are;", "it decides a case that no run is judged by"),
]  # fmt: skip
