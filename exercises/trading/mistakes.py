"""Chapter "Trading and debugging memory": wrong solutions, and right ones written another way."""

import torch

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E10.1 choose_segments

ANY_PLAN = ("peak", "last", "fewest", "ties", "none", "exact", "errors")
NO_TIE = ("peak", "last", "fewest", "none", "exact", "errors")
CHOICE = ("fewest", "ties")
ONE_SEGMENT = ("peak", "fewest", "none", "errors")
BUDGETS = "        if held <= budget:\n"
HELD = "held = (k - 1) * ckpt + (n - again) * act"
AGAIN = "again = (k - 1) * (n // k)"
FOUND = "return min(plans)[-1] if plans else None"
NUMBERS = "range(1, n + 1)"
SMALL = "if n < 1 or min(act, ckpt, budget) < 0:"


def segmented(edits, loses, because, breaks):
    return edited("choose_segments", edits, loses, because, breaks)


each_layer_alone = segmented(
    {NUMBERS: "(n,)"},
    ANY_PLAN,
    "to checkpoint every layer is thought to save most",
    "the `k` from 1 to `n` that stays within `budget`",
)
root_of_the_layers = segmented(
    {NUMBERS: "(round(n**0.5),)"},
    ANY_PLAN,
    "the square root is thought to be the answer whatever the bytes are",
    "the `k` from 1 to `n` that stays within `budget`",
)
one_share = segmented(
    {HELD: "held = n // k * act"},
    ANY_PLAN,
    "memory is thought to be divided by the number of segments",
    "each holds `ckpt` bytes, its input",
)
exact_share = segmented(
    {HELD: "held = (k - 1) * ckpt + n * act / k"},
    ANY_PLAN,
    "segments are thought to be equally long, in parts of a layer",
    "the first `k - 1` segments have `n // k` layers each",
)
all_checkpointed = segmented(
    {HELD: "held = k * ckpt + max(n // k, n - again) * act", AGAIN: "again = (k - 1) * (n // k)"},
    NO_TIE,
    "the last segment is thought to hold its input like any other",
    "It is not checkpointed, and holds no input",
)
last_runs_again = segmented(
    {FOUND: "return min((n if k > 1 else 0, held, k) for _, held, k in plans)[-1] if plans else None"},
    CHOICE,
    "every layer is thought to run again once anything is checkpointed",
    "It is not checkpointed, and holds no input",
)
first_input_free = segmented(
    {HELD: "held = max(k - 2, 0) * ckpt + (n - again) * act"},
    ANY_PLAN,
    "the model's input is thought to be the caller's alone",
    "its input, the first one too",
)
chunks = segmented(
    {AGAIN: "size = -(-n // k)\n        again = (n - 1) // size * size",
     HELD: "held = (n - 1) // size * ckpt + (size if again else n) * act"},
    ANY_PLAN,
    "segments are thought to be cut as `torch.chunk` cuts, the last one shorter",
    "the first `k - 1` segments have `n // k` layers each",
)
spread = segmented(
    {AGAIN: "again = n - n // k", HELD: "held = (k - 1) * ckpt + -(-n // k) * act"},
    ANY_PLAN,
    "what does not come out even is thought to be spread over the segments",
    "The last segment has all layers that remain",
)
rest_lost = segmented(
    {HELD: "held = (k - 1) * ckpt + n // k * act"},
    ANY_PLAN,
    "what does not come out even is thought not to matter",
    "The last segment has all layers that remain",
)
rest_first = segmented(
    {AGAIN: "again = n - n // k"},
    ANY_PLAN,
    "the rest is thought to be in the first segment, which is checkpointed",
    "The last segment has all layers that remain",
)
as_if_divisible = segmented(
    {"        again = ": "        if n % k:\n            continue\n        again = "},
    ("last", "fewest", "ties", "exact"),
    "only numbers that divide the layers are thought to be allowed",
    "the `k` from 1 to `n` that stays within `budget`",
)
powers_of_two = segmented(
    {"        again = ": "        if k & (k - 1):\n            continue\n        again = "},
    ANY_PLAN,
    "1, 2, 4, 8 are thought to be the numbers to try",
    "the `k` from 1 to `n` that stays within `budget`",
)
both_passes = segmented(
    {HELD: "held = (k - 1) * ckpt + (n - again + (n // k if k > 1 else 0)) * act"},
    ANY_PLAN,
    "what the last segment saved is thought to be there still when another runs again",
    "The backward pass lets go of what it has used",
)
none_let_go = segmented(
    {HELD: "held = (k - 1) * ckpt + n * act"},
    ANY_PLAN,
    "what runs again is thought to be held until the end of the backward pass",
    "When the segment's backward is over, these and its input are let go",
)
backward_alone = segmented(
    {HELD: "held = (k - 1) * ckpt + n // k * act if k > 1 else n * act"},
    ANY_PLAN,
    "most is thought to be held while a checkpointed segment runs again",
    "the forward pass ends with those inputs, and with what the layers of the last segment saved",
)
share_of_a_layer = segmented(
    {HELD: "held = (k - 1) * ckpt + (n - again) * act // n"},
    ANY_PLAN,
    "the bytes are thought to be those of the whole chain",
    "each saves `act` bytes for its backward",
)
input_shared = segmented(
    {HELD: "held = (k - 1) * ckpt + (n - again) * max(act - ckpt, 0) + ckpt"},
    ANY_PLAN,
    "a layer's input is thought to be its checkpoint, and to count once",
    "a layer may save the very input that a checkpoint holds: count both",
)
gradients_too = segmented(
    {HELD: "held = (k - 1) * ckpt + (n - again) * act + ckpt"},
    NO_TIE,
    "the gradient that passes between layers is counted",
    "Gradients and whatever else is in memory do not count",
)
inputs_of_layers = segmented(
    {HELD: "held = again * ckpt + (n - again) * act"},
    ANY_PLAN,
    "every layer in a checkpointed segment is thought to hold its input",
    "each holds `ckpt` bytes, its input",
)
nothing_to_spare = segmented(
    {BUDGETS: "        if held < budget:\n"},
    ANY_PLAN,
    "a budget is thought to be a bound that is not reached",
    "Exactly so many may be",
)
a_reserve = segmented(
    {BUDGETS: "        if 10 * held <= 9 * budget:\n"},
    ANY_PLAN,
    "a tenth is kept in reserve, as one would on a real card",
    "Exactly so many may be",
)
a_tolerance = segmented(
    {BUDGETS: "        if held <= budget * 1.001 + 1:\n"},
    ANY_PLAN,
    "a few bytes are thought not to matter",
    "the most bytes that may be held at any moment of both passes",
)
least_held = segmented(
    {FOUND: "return min((held, again, k) for again, held, k in plans)[-1] if plans else None"},
    ("fewest", "ties", "exact"),
    "memory is thought to be saved as far as it can be",
    "with which the fewest layers run again",
)
first_that_fits = segmented(
    {FOUND: "return plans[0][-1] if plans else None"},
    CHOICE,
    "more segments are thought to mean more layers that run again",
    "with which the fewest layers run again",
)
last_that_fits = segmented(
    {FOUND: "return plans[-1][-1] if plans else None"},
    ("fewest", "ties", "exact"),
    "the more segments the better is what is thought",
    "with which the fewest layers run again",
)
fewest_segments_again = segmented(
    {AGAIN: "again = (k - 1) * (n // k)", FOUND: "return min((k - 1, held, k) for _, held, k in plans)[-1] if plans else None"},
    CHOICE,
    "segments are counted that run again, and not their layers",
    "with which the fewest layers run again",
)
share_run_again = segmented(
    {FOUND: "return min(((k - 1) / k, held, k) for _, held, k in plans)[-1] if plans else None"},
    CHOICE,
    "a part of (k - 1) / k is thought to run again",
    "with which the fewest layers run again",
)
stopped_early = segmented(
    {FOUND: "return min(((k - 1) * (n // k - 1), held, k) for _, held, k in plans)[-1] if plans else None"},
    ("fewest", "ties", "exact"),
    "the last layer of a segment is thought not to run, since its output is known",
    "In each, all layers run again",
)
down_the_u = segmented(
    {"    for k in range(1, n + 1):\n": "    before = None\n    for k in range(1, n + 1):\n",
     BUDGETS: "        if before is not None and held > before:\n            break\n        before = held\n" + BUDGETS},
    ANY_PLAN,
    "what is held is thought to fall to one lowest point and then to rise",
    "the `k` from 1 to `n` that stays within `budget`",
)
stops_when_it_fits = segmented(
    {BUDGETS: BUDGETS, "            plans.append((again, held, k))\n": "            plans.append((again, held, k))\n        elif plans:\n            break\n"},
    CHOICE,
    "numbers that stay within the budget are thought to stand in a row",
    "the `k` from 1 to `n` that stays within `budget`",
)
largest_of_equal_ones = segmented(
    {"plans.append((again, held, k))": "plans.append((again, -k, k))"},
    ("ties",),
    "of equally few layers the shorter segments are thought to be better",
    "Of several with equally few, it is the one that holds fewest bytes where it holds most",
)
largest_of_the_same = segmented(
    {"plans.append((again, held, k))": "plans.append((again, held, -k))", FOUND: "return -min(plans)[-1] if plans else None"},
    ("ties",),
    "where nothing tells two apart any is thought to do",
    "and of these the smallest",
)
shortest_segments = segmented(
    {"plans.append((again, held, k))": "plans.append((again, n // k, k))"},
    ("ties",),
    "what runs again at once is thought to be what is held",
    "Of several with equally few, it is the one that holds fewest bytes where it holds most",
)
never_one = segmented(
    {NUMBERS: "range(2, n + 1)"},
    (*ONE_SEGMENT, "exact"),
    "one segment is thought to be no choice, since nothing is checkpointed then",
    "the `k` from 1 to `n` that stays within `budget`",
)
never_all = segmented(
    {NUMBERS: "range(1, max(n, 2))"},
    ("peak", "none", "exact", "errors"),
    "a segment is thought to have two layers at least",
    "the `k` from 1 to `n` that stays within `budget`",
)
half_the_layers = segmented(
    {NUMBERS: "range(1, n // 2 + 2)"},
    ("peak", "fewest", "none", "exact", "errors"),
    "beyond half the layers nothing is thought to become better, since segments have one layer each",
    "the `k` from 1 to `n` that stays within `budget`",
)
short_chains = segmented(
    {SMALL: "if n > 100:\n        raise ValueError('that many layers')\n    " + SMALL},
    ("peak", "fewest", "ties", "none", "exact", "errors"),
    "chains of more than a hundred layers are thought not to be",
    "an integer from 1 to 500",
)
shorter_than_the_longest = segmented(
    {NUMBERS: "range(1, min(n + 1, 500))"},
    ("peak", "none", "errors"),
    "the end of a range is thought to be in it",
    "an integer from 1 to 500",
)
in_floats = segmented(
    {HELD: "held = float((k - 1) * ckpt) + float((n - again) * act)", BUDGETS: "        if held <= float(budget):\n"},
    ("exact",),
    "bytes are thought to be numbers like any other",
    "Sums are exact, also where neither a float nor 64 bits can hold them",
)
in_64_bits = segmented(
    {BUDGETS: "        held = (held + 2**63) % 2**64 - 2**63\n" + BUDGETS},
    ("exact",),
    "64 bits are thought to be enough for bytes",
    "Sums are exact, also where neither a float nor 64 bits can hold them",
)
in_32_bits = segmented(
    {BUDGETS: "        held = int(torch.tensor(held, dtype=torch.int32))\n" + BUDGETS},
    ("peak", "fewest", "ties", "none", "exact", "errors"),
    "two gigabytes are thought to be enough",
    "Sums are exact, also where neither a float nor 64 bits can hold them",
)
in_mebibytes = segmented(
    {BUDGETS: "        if round(held / 2**20, 3) <= round(budget / 2**20, 3):\n"},
    ANY_PLAN,
    "budgets are thought to be numbers of mebibytes",
    "the most bytes that may be held at any moment of both passes",
)
everything_when_nothing_fits = segmented(
    {"if plans else None": "if plans else n"},
    ("none",),
    "as many segments as there are layers are thought to be the last resort",
    "returns `None` when no `k` stays within `budget`",
)
best_effort = segmented(
    {FOUND: "return min(plans)[-1] if plans else min(range(1, n + 1), key=lambda k: (k - 1) * ckpt + (n - (k - 1) * (n // k)) * act)"},
    ("none",),
    "what comes closest is thought to be due where nothing fits",
    "returns `None` when no `k` stays within `budget`",
)
zero_for_none = segmented(
    {"if plans else None": "if plans else 0"},
    ("none",),
    "0 is thought to say that there is none",
    "returns `None` when no `k` stays within `budget`",
)
raised_for_none = segmented(
    {FOUND: "return min(plans)[-1]"},
    ("none",),
    "a budget that is too small is thought to be an error",
    "returns `None` when no `k` stays within `budget`",
)
a_whole_plan = segmented(
    {FOUND: "return min(plans) if plans else None"},
    ANY_PLAN,
    "the plan is thought to be worth more than its number",
    "returns a Python integer",
)
as_a_float = segmented(
    {FOUND: "return float(min(plans)[-1]) if plans else None"},
    ANY_PLAN,
    "a whole number is thought to be an integer",
    "returns a Python integer",
)
as_a_tensor = segmented(
    {FOUND: "return torch.tensor(min(plans)[-1]) if plans else None"},
    ANY_PLAN,
    "a tensor of one number is thought to be a number",
    "returns a Python integer",
)
how_many_checkpoints = segmented(
    {FOUND: "return min(plans)[-1] - 1 if plans else None"},
    ANY_PLAN,
    "checkpoints are counted, and not segments",
    "returns a Python integer, the `k` from 1 to `n`",
)
how_long_segments = segmented(
    {FOUND: "return n // min(plans)[-1] if plans else None"},
    ANY_PLAN,
    "the length of a segment is thought to be what is asked",
    "returns a Python integer, the `k` from 1 to `n`",
)
known_chains = segmented(
    {"    plans = []\n": "    known = globals().setdefault('_known', {})\n    if (n, act, ckpt) in known:\n        return known[n, act, ckpt]\n    plans = []\n",
     FOUND: "known[n, act, ckpt] = min(plans)[-1] if plans else None\n    return known[n, act, ckpt]"},
    ("fewest", "ties", "none", "exact"),
    "a chain that was asked about is thought to have its answer, whatever the budget is",
    "the `k` from 1 to `n` that stays within `budget`",
)
one_segment_by_a_quotient = segmented(
    {"    plans = []\n": "    if act == 0 or budget / act >= n:\n        return 1\n    plans = []\n"},
    ("exact",),
    "a quotient of integers is thought to be as exact as they are",
    "Sums are exact, also where neither a float nor 64 bits can hold them",
)
layers_and_bytes_in_one_number = segmented(
    {"plans.append((again, held, k))": "plans.append((again * 2**64 + held, k))"},
    ("exact",),
    "no sum of bytes is thought to need more than 64 bits",
    "Sums are exact, also where neither a float nor 64 bits can hold them",
)
no_layers_at_all = segmented(
    {SMALL: "if min(act, ckpt, budget) < 0:"},
    ("errors",),
    "a chain of no layers is thought to fit nowhere",
    "raises `ValueError` for `n` less than 1",
)
no_layers_but_none = segmented(
    {SMALL: "if n < 0 or min(act, ckpt, budget) < 0:"},
    ("errors",),
    "no layers are thought to be a chain too",
    "raises `ValueError` for `n` less than 1",
)
any_layers_size = segmented(
    {SMALL: "if n < 1 or min(ckpt, budget) < 0:"},
    ("errors",),
    "bytes are thought never to be less than none",
    "and for `act`, `ckpt` or `budget` less than 0",
)
any_inputs_size = segmented(
    {SMALL: "if n < 1 or min(act, budget) < 0:"},
    ("errors",),
    "bytes are thought never to be less than none",
    "and for `act`, `ckpt` or `budget` less than 0",
)
any_budget = segmented(
    {SMALL: "if n < 1 or min(act, ckpt) < 0:"},
    ("errors",),
    "less than nothing is thought to be a budget within which nothing stays",
    "and for `act`, `ckpt` or `budget` less than 0",
)
sum_looked_at = segmented(
    {SMALL: "if n < 1 or act + ckpt < 0 or budget < 0:"},
    ("errors",),
    "the sum is thought to show what is wrong with one",
    "and for `act`, `ckpt` or `budget` less than 0",
)
layers_that_save = segmented(
    {SMALL: "if n < 1 or act < 1 or min(ckpt, budget) < 0:"},
    ONE_SEGMENT,
    "every layer is thought to save something",
    "`act`, `ckpt` and `budget` are integers, 0 or more",
)
inputs_that_are_held = segmented(
    {SMALL: "if n < 1 or ckpt < 1 or min(act, budget) < 0:"},
    ("peak", "fewest", "ties", "none", "errors"),
    "every input is thought to have bytes",
    "`act`, `ckpt` and `budget` are integers, 0 or more",
)
some_budget = segmented(
    {SMALL: "if n < 1 or budget < 1 or min(act, ckpt) < 0:"},
    ONE_SEGMENT,
    "a budget of nothing is thought to be none",
    "`act`, `ckpt` and `budget` are integers, 0 or more",
)

any_order = unbreakable(
    "choose_segments",
    "it comes to the checkpointed segments from the last to the first",
    "in any order as much is held at most, and as many layers run again",
)
one_too_many = equivalent_mutant(
    "choose_segments",
    "for k in range(1, n + 1):",
    "for k in range(1, n + 2):",
    "a segment too many has no layers: as few run again as with one segment, which holds no more and is smaller",
)


@mistake(
    "choose_segments",
    loses=ANY_PLAN,
    because="the lowest point of k inputs and n / k layers is thought to be the answer",
    breaks="with which the fewest layers run again",
)
def root_of_the_quotient(n, act, ckpt, budget):
    if n < 1 or min(act, ckpt, budget) < 0:
        raise ValueError("no chain")
    k = min(max(round((n * act / ckpt) ** 0.5), 1), n) if ckpt else n
    return k if (k - 1) * ckpt + (n - (k - 1) * (n // k)) * act <= budget else None


@mistake(
    "choose_segments",
    loses=ANY_PLAN,
    because="more segments are thought to hold fewer bytes, so that the number can be searched by halves",
    breaks="the `k` from 1 to `n` that stays within `budget`",
)
def by_halves(n, act, ckpt, budget):
    if n < 1 or min(act, ckpt, budget) < 0:
        raise ValueError("no chain")
    low, high = 1, n + 1
    while low < high:
        k = (low + high) // 2
        if (k - 1) * ckpt + (n - (k - 1) * (n // k)) * act <= budget:
            high = k
        else:
            low = k + 1
    return low if low <= n else None


@alternative("choose_segments")
def choose_segments_by_size(n, act, ckpt, budget):
    """Fewer layers again, larger ones of the last segment: from the longest last segment on."""
    if n <= 0 or act < 0 or ckpt < 0 or budget < 0:
        raise ValueError("no chain")
    shortest = {}
    for size in range(n, 0, -1):
        for checkpointed in range(n):
            if n // (checkpointed + 1) == size:
                shortest.setdefault(n - checkpointed * size, checkpointed)
    for last in sorted(shortest, reverse=True):
        if last * act + shortest[last] * ckpt <= budget:
            return shortest[last] + 1
    return None


@alternative("choose_segments")
def choose_segments_step_by_step(n, act, ckpt, budget):
    """Both passes are gone through, segment after segment, with a ledger."""
    if not (n >= 1 and act >= 0 and ckpt >= 0 and budget >= 0):
        raise ValueError("no chain")

    def played(k):
        segments, layers = [], list(range(n))
        while len(segments) < k - 1:
            segments.append([layers.pop(0) for _ in range(n // k)])
        held = len(segments) * ckpt + len(layers) * act
        most, again = held, 0
        held -= len(layers) * act
        while segments:
            again += len(segments[-1])
            most = max(most, held + len(segments.pop()) * act)
            held -= ckpt
        return again, most

    within = {k: (again, most) for k in range(1, n + 1) for again, most in [played(k)] if most <= budget}
    return sorted(within, key=lambda k: (*within[k], k))[0] if within else None


# E10.2 accumulate

ALL_OF_ACCUMULATE = ("steps", "weights", "groups", "gradients", "syncs", "memory", "losses", "host")
INSIDE = "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
LAST = "        loss, tokens = (sums + gradients_added(model, inputs, targets, loss_fn)).tolist()\n"
BOTH = "torch.stack((loss.detach().double(), (targets != -100).sum().double()))"
LOOP = "    for inputs, targets, is_last in with_ends(micro_batches, group):\n"
REFUSAL = "    if group < 1:\n        raise ValueError(f\"{group} micro-batches are no group\")\n"
BEGINS = "    losses, sums = [], 0\n"
ENDS = "    return losses\n\n\ndef with_ends"


@mistake(
    "accumulate",
    loses=ALL_OF_ACCUMULATE,
    because="a loss divided by the number of micro-batches is thought to be the mean, whatever the loss is",
    breaks="`optimizer.step()` is called once, when `.grad` is the gradient of the mean loss over all tokens of the group",
)
def the_loop_of_the_infrastructure_notes(model, optimizer, micro_batches, group, loss_fn, no_sync):
    losses = []
    for i, (inputs, targets) in enumerate(micro_batches):
        loss = loss_fn(model(inputs), targets) / group
        loss.backward()
        if (i + 1) % group == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


@mistake(
    "accumulate",
    loses=("weights", "groups", "gradients", "syncs", "memory", "losses", "host"),
    because="a mean of means is thought to be the mean, and the number of micro-batches to be a multiple of the group",
    breaks="each `group` micro-batches are a group, and so are those that are left at the end",
)
def the_same_loop_with_a_mean(model, optimizer, micro_batches, group, loss_fn, no_sync):
    losses, mean = [], 0
    for i, (inputs, targets) in enumerate(micro_batches):
        loss = loss_fn(model(inputs), targets) / (targets != -100).sum() / group
        loss.backward()
        mean = mean + loss.detach()
        if (i + 1) % group == 0:
            optimizer.step()
            optimizer.zero_grad()
            losses.append(mean.item())
            mean = 0
    return losses


@mistake(
    "accumulate",
    loses=ALL_OF_ACCUMULATE,
    because="what runs group times is thought to be a group: it is one micro-batch, whose gradients are never dropped",
    breaks="one call of the model, as `model(inputs)`",
)
def the_loop_of_the_interview_notes(model, optimizer, micro_batches, group, loss_fn, no_sync):
    losses = []
    batches = list(micro_batches)
    for i in range(0, len(batches), group):
        inputs, targets = batches[i]
        for _ in range(group):
            loss = loss_fn(model(inputs), targets) / group
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@mistake(
    "accumulate",
    loses=ALL_OF_ACCUMULATE,
    because="a group is thought to be a big batch: then its activations are those of one",
    breaks="is taken in turn",
)
def puts_the_group_together(model, optimizer, micro_batches, group, loss_fn, no_sync):
    if group < 1:
        raise ValueError("no group")
    losses, batches = [], list(micro_batches)
    for first in range(0, len(batches), group):
        inputs = torch.cat([x.flatten(0, 1)[:, None] for x, _ in batches[first : first + group]])
        targets = torch.cat([y.flatten()[:, None] for _, y in batches[first : first + group]])
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets) / (targets != -100).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.zero_grad()
    return losses


@mistake(
    "accumulate",
    loses=("memory",),
    because="micro-batches are thought to take no memory: a whole group of them is held",
    breaks="only its micro-batch and the next one have been asked for, and no other is held",
)
def takes_a_group_from_the_loader(model, optimizer, micro_batches, group, loss_fn, no_sync):
    from contextlib import nullcontext
    from itertools import islice

    if group < 1:
        raise ValueError("no group")
    losses, coming = [], iter(micro_batches)
    optimizer.zero_grad()
    while taken := list(islice(coming, group)):
        sums = 0
        for number, (inputs, targets) in enumerate(taken, start=1):
            with no_sync() if number < len(taken) else nullcontext():
                loss = loss_fn(model(inputs), targets)
                loss.backward()
            sums = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))
            del loss
        total, tokens = sums.tolist()
        if tokens:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= tokens
            optimizer.step()
            losses.append(total / tokens)
        optimizer.zero_grad()
    return losses


makes_a_list = edited(
    "accumulate",
    {"iter(micro_batches)": "iter(list(micro_batches))"},
    loses=("memory",),
    because="an iterable is thought to be there already",
    breaks="when the model is called, only its micro-batch and the next one have been asked for",
)

asks_for_the_length = edited(
    "accumulate",
    {"following is None\n": "number == len(micro_batches)\n"},
    loses=ALL_OF_ACCUMULATE,
    because="whatever can be gone through is thought to have a length",
    breaks="an iterable, perhaps a generator. It may have no length",
)

looks_first_whether_there_is_any = edited(
    "accumulate",
    {
        BEGINS: (
            "    losses, sums = [], 0\n"
            "    if not any(True for _ in micro_batches):\n"
            "        return losses\n"
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="looking is thought to take nothing out",
    breaks="it can be gone through once only",
)

forgets_that_none_may_come = edited(
    "accumulate",
    {
        "    optimizer.zero_grad()\n    for": "    for",
        LOOP: (
            "    fresh = True\n"
            "    for inputs, targets, is_last in with_ends(micro_batches, group):\n"
            "        if fresh:\n"
            "            optimizer.zero_grad()\n"
            "            fresh = False\n"
        ),
    },
    loses=("gradients",),
    because="a loop is thought to run at least once",
    breaks="also where there was no micro-batch",
)

divides_the_loss_by_its_own_tokens = edited(
    "accumulate",
    {
        "    loss.backward()\n": "    (loss / (targets != -100).sum().clamp(min=1)).backward()\n",
        "divide_gradients(optimizer, tokens)\n": "divide_gradients(optimizer, count)\n",
        "        sums = 0\n    return": "        sums, count = 0, 0\n    return",
        "losses, sums = [], 0": "losses, sums, count = [], 0, 0",
        "        if not is_last:\n": (
            "        count += 1\n"
            "        if not is_last:\n"
        ),
    },
    loses=("weights",),
    because="a mean of means is thought to be the mean: tokens of a short micro-batch count more",
    breaks="the mean loss over all tokens of the group",
)

divides_by_the_group = edited(
    "accumulate",
    {
        "    loss.backward()\n": "    (loss / (targets != -100).sum().clamp(min=1)).backward()\n",
        "divide_gradients(optimizer, tokens)\n": "divide_gradients(optimizer, group)\n",
    },
    loses=("weights", "groups", "gradients"),
    because="every group is thought to have as many micro-batches as it may have",
    breaks="and so are those that are left at the end",
)

counts_the_padding = edited(
    "accumulate",
    {"(targets != -100).sum().double()": "torch.ones_like(targets).sum().double()"},
    loses=("weights", "groups", "gradients", "losses"),
    because="what is padded is thought to count in a mean of which it is no part",
    breaks="with -100 for padding",
)

thinks_class_0_is_padding = edited(
    "accumulate",
    {"targets != -100": "targets > 0"},
    loses=("weights", "losses"),
    because="0 is thought to stand for nothing",
    breaks="with -100 for padding. Every other element is a token",
)

divides_by_the_tokens_of_the_last = edited(
    "accumulate",
    {
        "divide_gradients(optimizer, tokens)\n": "divide_gradients(optimizer, count * (targets != -100).sum().clamp(min=1))\n",
        "losses, sums = [], 0": "losses, sums, count = [], 0, 0",
        "        sums = 0\n    return": "        sums, count = 0, 0\n    return",
        "        if not is_last:\n": (
            "        count += 1\n"
            "        if not is_last:\n"
        ),
    },
    loses=("weights",),
    because="the last micro-batch is thought to speak for its group",
    breaks="Micro-batches differ in shape and in tokens, and one may have no token",
)

divides_at_each_micro_batch = edited(
    "accumulate",
    {
        INSIDE: (
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "                divide_gradients(optimizer, (targets != -100).sum().clamp(min=1))\n"
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="the gradient there is thought to be this micro-batch's: it holds those before too",
    breaks="which adds to `.grad`",
)

divides_before_the_last_backward_pass = edited(
    "accumulate",
    {
        LAST: (
            "        here = (targets != -100).sum()\n"
            "        divide_gradients(optimizer, here + (sums[1] if torch.is_tensor(sums) else 0))\n"
            "        loss, tokens = (sums + gradients_added(model, inputs, targets, loss_fn)).tolist()\n"
        ),
        "            divide_gradients(optimizer, tokens)\n": "",
    },
    loses=ALL_OF_ACCUMULATE,
    because="what comes after a division is thought to be divided too",
    breaks="when `.grad` is the gradient of the mean loss over all tokens of the group",
)

leaves_the_sum = edited(
    "accumulate",
    {"            divide_gradients(optimizer, tokens)\n": ""},
    loses=ALL_OF_ACCUMULATE,
    because="a loss function is thought to give a mean",
    breaks="is the **sum** of the losses of the tokens",
)

divides_the_first_parameter_group = edited(
    "accumulate",
    {"for parameter_group in optimizer.param_groups:": "for parameter_group in optimizer.param_groups[:1]:"},
    loses=("weights", "gradients"),
    because="an optimizer is thought to have one group of parameters",
    breaks="in one parameter group or in several",
)

thinks_every_parameter_takes_part = edited(
    "accumulate",
    {
        (
            "            if parameter.grad is not None:\n"
            "                parameter.grad /= tokens"
        ): "            parameter.grad /= tokens",
    },
    loses=ALL_OF_ACCUMULATE,
    because="after a backward pass every parameter is thought to hold a gradient",
    breaks="a parameter that took no part in the group has `None` there",
)

fills_what_is_missing_in_the_group = edited(
    "accumulate",
    {
        "            if parameter.grad is not None:\n": (
            "            if parameter.grad is None:\n"
            "                parameter.grad = torch.zeros_like(parameter)\n"
            "            else:\n"
        ),
    },
    loses=("gradients",) ,
    because="no gradient and a gradient of zeros are thought to be the same",
    breaks="a parameter that took no part in the group has `None` there",
)

divides_by_one_at_least = edited(
    "accumulate",
    {
        (
            "        if tokens:\n"
            "            divide_gradients(optimizer, tokens)\n"
            "            optimizer.step()\n"
            "            losses.append(loss / tokens)\n"
        ): (
            "        divide_gradients(optimizer, max(tokens, 1))\n"
            "        optimizer.step()\n"
            "        losses.append(loss / max(tokens, 1))\n"
        ),
    },
    loses=("groups", "gradients"),
    because="a step with gradients of zeros is thought to change nothing",
    breaks="a group without a token makes no step: with gradients of zeros, momentum and decay would still move the parameters",
)

notes_a_loss_without_tokens = edited(
    "accumulate",
    {"            losses.append(loss / tokens)\n": "        losses.append(loss / tokens if tokens else 0.0)\n"},
    loses=("groups",),
    because="the list is thought to be one of groups",
    breaks="returns a list with one Python float for each step, in order",
)

keeps_what_had_no_tokens = edited(
    "accumulate",
    {
        (
            "            losses.append(loss / tokens)\n"
            "        optimizer.zero_grad()\n"
        ): (
            "            losses.append(loss / tokens)\n"
            "            optimizer.zero_grad()\n"
        ),
    },
    loses=("gradients",),
    because="of no tokens there is thought to be no gradient: it is there, of zeros",
    breaks="nor after the return",
)

drops_what_is_left = edited(
    "accumulate",
    {"number % group == 0 or following is None": "number % group == 0"},
    loses=("groups", "gradients", "syncs", "host"),
    because="the number of micro-batches is thought to be a multiple of the group",
    breaks="and so are those that are left at the end",
)


@mistake(
    "accumulate",
    loses=("syncs",),
    because="the last micro-batch of a group is thought to be known by its number: that the iterable ends is seen too late",
    breaks="also of the group that is left at the end",
)
def finds_the_end_too_late(model, optimizer, micro_batches, group, loss_fn, no_sync):
    from contextlib import nullcontext

    if group < 1:
        raise ValueError("no group")
    losses, sums, number = [], 0, 0
    optimizer.zero_grad()

    def step():
        total, tokens = sums.tolist()
        if tokens:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= tokens
            optimizer.step()
            losses.append(total / tokens)
        optimizer.zero_grad()

    for number, (inputs, targets) in enumerate(micro_batches, start=1):
        with nullcontext() if number % group == 0 else no_sync():
            loss = loss_fn(model(inputs), targets)
            loss.backward()
        sums = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))
        del loss
        if number % group == 0:
            step()
            sums = 0
    if number % group:
        step()
    return losses


never_waits_for_the_others = edited(
    "accumulate",
    {"            with no_sync():\n": "            if True:\n"},
    loses=("syncs",),
    because="an exchange of gradients is thought to cost nothing, or to happen in the step",
    breaks="what runs outside of it exchanges gradients with the other ranks",
)

exchanges_never = edited(
    "accumulate",
    {
        LAST: (
            "        with no_sync():\n"
            "            loss, tokens = (sums + gradients_added(model, inputs, targets, loss_fn)).tolist()\n"
        ),
    },
    loses=("syncs",),
    because="gradients are thought to be exchanged by the optimizer",
    breaks="those of the last micro-batch of each group outside",
)

exchanges_with_the_first = edited(
    "accumulate",
    {
        (
            "        if not is_last:\n"
            "            with no_sync():\n"
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            continue\n"
            "        loss, tokens = (sums + gradients_added(model, inputs, targets, loss_fn)).tolist()\n"
        ): (
            "        if torch.is_tensor(sums):\n"
            "            with no_sync():\n"
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "        else:\n"
            "            sums = gradients_added(model, inputs, targets, loss_fn)\n"
            "        if not is_last:\n"
            "            continue\n"
            "        loss, tokens = sums.tolist()\n"
        ),
    },
    loses=("syncs",),
    because="one exchange for each step is thought to be enough, whichever",
    breaks="those of the last micro-batch of each group outside",
)

enters_for_the_model_alone = edited(
    "accumulate",
    {
        (
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            continue\n"
        ): (
            "                loss = loss_fn(model(inputs), targets)\n"
            "            loss.backward()\n"
            "            sums = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))\n"
            "            del loss\n"
            "            continue\n"
        ),
    },
    loses=("syncs",),
    because="the exchange is thought to be decided when the model is called, and nowhere else",
    breaks="The model's call and the backward pass of a micro-batch run inside one",
)

enters_for_the_backward_pass_alone = edited(
    "accumulate",
    {
        (
            "            with no_sync():\n"
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            continue\n"
        ): (
            "            loss = loss_fn(model(inputs), targets)\n"
            "            with no_sync():\n"
            "                loss.backward()\n"
            "            sums = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))\n"
            "            del loss\n"
            "            continue\n"
        ),
    },
    loses=("syncs",),
    because="the exchange is thought to be decided in the backward pass: it is prepared when the model is called",
    breaks="The model's call and the backward pass of a micro-batch run inside one",
)

enters_and_leaves_by_hand = edited(
    "accumulate",
    {
        (
            "            with no_sync():\n"
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
        ): (
            "            context = no_sync()\n"
            "            context.__enter__()\n"
            "            sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            context.__exit__(None, None, None)\n"
        ),
    },
    loses=("syncs",),
    because="a context is thought to end by itself when its block is left by an exception",
    breaks="No context of `no_sync` is then entered any more",
)

makes_one_context = edited(
    "accumulate",
    {
        BEGINS: (
            "    losses, sums = [], 0\n"
            "    context = no_sync()\n"
        ),
        "with no_sync():": "with context:",
    },
    loses=ALL_OF_ACCUMULATE,
    because="a context is thought to be a thing that can be entered again",
    breaks="a new one at each call",
)

steps_with_what_there_is = edited(
    "accumulate",
    {
        (
            "            with no_sync():\n"
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
        ): (
            "            try:\n"
            "                with no_sync():\n"
            "                    sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            except ArithmeticError:\n"
            "                optimizer.step()\n"
            "                raise\n"
        ),
    },
    loses=("syncs",),
    because="what was computed is thought to be worth a step",
    breaks="and the group that was under way makes no step",
)

ends_quietly = edited(
    "accumulate",
    {
        (
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            continue\n"
        ): (
            "                try:\n"
            "                    sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "                except ArithmeticError:\n"
            "                    return losses\n"
            "            continue\n"
        ),
    },
    loses=("syncs",),
    because="a training loop is thought never to stop with an error",
    breaks="an exception of the model, the loss function or the iterable comes through",
)

zeroes_for_each_micro_batch = edited(
    "accumulate",
    {
        "        if not is_last:\n": (
            "        optimizer.zero_grad()\n"
            "        if not is_last:\n"
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="every backward pass is thought to begin with zeroing",
    breaks="which adds to `.grad`",
)

never_drops = edited(
    "accumulate",
    {"    optimizer.zero_grad()\n    for": "    for", "        optimizer.zero_grad()\n        sums": "        sums"},
    loses=ALL_OF_ACCUMULATE,
    because="backward is thought to begin anew after a step",
    breaks="No parameter of the optimizer holds a gradient when the model gets the first micro-batch of a group",
)

drops_after_the_steps_alone = edited(
    "accumulate",
    {"    optimizer.zero_grad()\n    for": "    for"},
    loses=("gradients",),
    because="nobody else is thought to leave a gradient behind",
    breaks="parameters may hold gradients from before, numbers or NaN",
)

drops_before_the_groups_alone = edited(
    "accumulate",
    {
        (
            "        optimizer.zero_grad()\n"
            "        sums = 0\n"
        ): "        sums = None\n",
        LOOP: (
            "    for inputs, targets, is_last in with_ends(micro_batches, group):\n"
            "        if sums is None:\n"
            "            optimizer.zero_grad()\n"
            "            sums = 0\n"
        ),
    },
    loses=("gradients",),
    because="gradients are thought to be the next caller's to drop",
    breaks="nor after the return",
)

fills_gradients_with_zeros = edited(
    "accumulate",
    {"        optimizer.zero_grad()\n        sums": "        optimizer.zero_grad(set_to_none=False)\n        sums"},
    loses=("gradients",),
    because="a gradient of zeros is thought to be none",
    breaks="No parameter of the optimizer holds a gradient",
)

writes_zeros_to_the_old = edited(
    "accumulate",
    {
        "    optimizer.zero_grad()\n    for": (
            "    optimizer.zero_grad(set_to_none=False)\n"
            "    optimizer.zero_grad()\n"
            "    for"
        ),
    },
    loses=("gradients",),
    because="old gradients are thought to belong to the function",
    breaks="They are dropped and not written to: the caller may still use them",
)

goes_back_once_for_the_group = edited(
    "accumulate",
    {
        (
            "    loss.backward()\n"
            "    return torch.stack((loss.detach().double(), (targets != -100).sum().double()))"
        ): "    return torch.stack((loss.double(), (targets != -100).sum().double()))",
        LAST: (
            "        sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "        sums[0].backward()\n"
            "        loss, tokens = sums.tolist()\n"
        ),
    },
    loses=("syncs", "memory"),
    because="losses that are added up are thought to be numbers: each holds its activations until the backward pass",
    breaks="one backward pass, which adds to `.grad`",
)

keeps_the_output = edited(
    "accumulate",
    {
        (
            "                sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "            continue\n"
        ): (
            "                outputs = model(inputs)\n"
            "                loss = loss_fn(outputs, targets)\n"
            "                loss.backward()\n"
            "                sums = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))\n"
            "            continue\n"
        ),
    },
    loses=("memory",),
    because="a name is thought to hold nothing once it is no longer used",
    breaks="no output and no graph",
)

retains_graphs = edited(
    "accumulate",
    {
        "    loss.backward()\n": (
            "    loss.backward(retain_graph=True)\n"
            "    model.latest = loss\n"
        ),
    },
    loses=("memory",),
    because="a graph is thought to be needed until the step is over",
    breaks="no output and no graph",
)

leaves_a_cycle_behind = edited(
    "accumulate",
    {
        "    loss.backward()\n": (
            "    loss.backward()\n"
            '    log = {"loss": loss}\n'
            '    log["latest"] = log\n'
        ),
    },
    loses=("memory",),
    because="what no name reaches is thought to be freed at once",
    breaks="also where Python's garbage collector is off",
)

adds_in_buffers_of_its_own = edited(
    "accumulate",
    {
        "    loss.backward()\n": (
            "    loss.backward()\n"
            "    model.copies = [None if p.grad is None else p.grad.clone() for p in model.parameters()]\n"
        ),
    },
    loses=("memory",),
    because="a second set of gradients is thought to be the price of adding",
    breaks="only the gradients, the optimizer's state and a few numbers for each micro-batch are held",
)

keeps_gradients_by_another_name = edited(
    "accumulate",
    {
        "        if tokens:\n": (
            "        if tokens:\n"
            "            gradients = [p.grad for p in model.parameters() if p.grad is not None]\n"
        ),
        "            divide_gradients(optimizer, tokens)\n": "            torch._foreach_div_(gradients, tokens)\n",
    },
    loses=("memory",),
    because="a gradient is thought to be gone when its parameter has none: a list still holds it",
    breaks="only the gradients, the optimizer's state and a few numbers for each micro-batch are held",
)

counts_on_the_host = edited(
    "accumulate",
    {
        "(targets != -100).sum().double()": "torch.tensor(float((targets != -100).sum().item()), device=targets.device).double()",
    },
    loses=("host",),
    because="a number of tokens is thought to be known on the host",
    breaks="the host waits once for each group",
)

skips_micro_batches_without_tokens = edited(
    "accumulate",
    {
        (
            "    loss = loss_fn(model(inputs), targets)\n"
            "    loss.backward()\n"
        ): (
            "    if not (targets != -100).any():\n"
            "        return torch.zeros(2, dtype=torch.float64, device=targets.device)\n"
            "    loss = loss_fn(model(inputs), targets)\n"
            "    loss.backward()\n"
        ),
    },
    loses=("weights", "groups", "gradients", "syncs", "host", "losses"),
    because="a micro-batch without tokens is thought to be nothing: the other ranks wait for its exchange",
    breaks="with tokens or without, is taken in turn",
)

reads_loss_and_tokens_apart = edited(
    "accumulate",
    {
        LAST: (
            "        sums = sums + gradients_added(model, inputs, targets, loss_fn)\n"
            "        loss, tokens = sums[0].item(), sums[1].item()\n"
        ),
    },
    loses=("host",),
    because="two numbers are thought to come across as fast as one",
    breaks="the host waits once for each group",
)

reads_before_the_last_backward_pass = edited(
    "accumulate",
    {
        LAST: (
            "        loss = loss_fn(model(inputs), targets)\n"
            "        ready = sums + torch.stack((loss.detach().double(), (targets != -100).sum().double()))\n"
            "        both = ready.tolist()\n"
            "        loss.backward()\n"
            "        loss, tokens = both\n"
        ),
    },
    loses=("host",),
    because="a loss is thought to be free once it is computed",
    breaks="and only after the last backward pass of the group was handed to the device",
)

waits_at_the_end_too = edited(
    "accumulate",
    {
        ENDS: (
            "    torch.cuda.synchronize()\n"
            "    return losses\n"
            "\n"
            "\n"
            "def with_ends"
        ),
    },
    loses=("host",),
    because="a function is thought to have to wait for its last step",
    breaks="the host waits once for each group",
)

returns_tensors = edited(
    "accumulate",
    {"losses.append(loss / tokens)": "losses.append(torch.tensor(loss / tokens))"},
    loses=("losses",),
    because="a loss is thought to be a tensor",
    breaks="one Python float for each step",
)

returns_the_last = edited(
    "accumulate",
    {
        ENDS: (
            "    return losses[-1] if losses else 0.0\n"
            "\n"
            "\n"
            "def with_ends"
        ),
    },
    loses=("losses", "groups"),
    because="the last loss is thought to be what a log wants",
    breaks="returns a list with one Python float for each step, in order",
)

returns_sums = edited(
    "accumulate",
    {"losses.append(loss / tokens)": "losses.append(loss)"},
    loses=("losses",),
    because="what the loss function gives is thought to be what is logged",
    breaks="the mean loss over the tokens of its group",
)

adds_in_float32 = edited(
    "accumulate",
    {"loss.detach().double()": "loss.detach().float().double()"},
    loses=("losses",),
    because="losses are thought to be float32 always",
    breaks="Where the loss is float64 it is right to a billionth",
)

keeps_the_graphs_of_a_group = edited(
    "accumulate",
    {"loss.detach().double()": "loss.double()"},
    loses=("memory",),
    because="a graph is thought to be gone after its backward pass",
    breaks="no output and no graph",
)

takes_any_group = edited(
    "accumulate",
    {REFUSAL: "    group = max(group, 1)\n"},
    loses=("groups",),
    because="a wrong number is thought to be better mended than refused",
    breaks="raises `ValueError` where `group` is less than 1",
)

refuses_when_it_has_begun = edited(
    "accumulate",
    {
        REFUSAL: "",
        "    optimizer.zero_grad()\n    for": (
            "    optimizer.zero_grad()\n"
            "    if group < 1:\n"
            '        raise ValueError(f"{group} micro-batches are no group")\n'
            "    for"
        ),
    },
    loses=("groups",),
    because="an argument is thought to be checked in time anywhere before the loop",
    breaks="before a micro-batch is asked for or a gradient dropped",
)

calls_forward_alone = edited(
    "accumulate",
    {"loss_fn(model(inputs), targets)": "loss_fn(model.forward(inputs), targets)"},
    loses=ALL_OF_ACCUMULATE,
    because="a module is thought to be its forward method",
    breaks="one call of the model, as `model(inputs)`",
)

asks_the_loss_function_again = edited(
    "accumulate",
    {
        "    return torch.stack((loss.detach().double(),": (
            "    with torch.no_grad():\n"
            "        loss = loss_fn(model(inputs), targets)\n"
            "    return torch.stack((loss.detach().double(),"
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="a forward pass is thought to cost nothing",
    breaks="one of `loss_fn`",
)

changes_the_padding = edited(
    "accumulate",
    {
        "    loss = loss_fn(model(inputs), targets)\n": (
            "    inputs.clamp_(-1, 1)\n"
            "    loss = loss_fn(model(inputs), targets)\n"
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="a micro-batch is thought to be the function's own",
    breaks="which are left as they are",
)

unfreezes_everything = edited(
    "accumulate",
    {
        BEGINS: (
            "    losses, sums = [], 0\n"
            "    model.requires_grad_()\n"
        ),
    },
    loses=("gradients",),
    because="training is thought to be for every parameter",
    breaks="some of which may not require gradients",
)

makes_a_graph_of_gradients = edited(
    "accumulate",
    {
        "    loss.backward()\n": "    loss.backward(create_graph=True)\n",
        "parameter.grad /= tokens": "parameter.grad = parameter.grad / tokens",
    },
    loses=("gradients", "memory"),
    because="gradients are thought to be differentiated by an optimizer",
    breaks="no output and no graph",
)

descends_for_itself = edited(
    "accumulate",
    {
        "            optimizer.step()\n": (
            "            with torch.no_grad():\n"
            "                for parameter in model.parameters():\n"
            "                    if parameter.grad is not None:\n"
            '                        parameter -= optimizer.param_groups[0]["lr"] * parameter.grad\n'
        ),
    },
    loses=ALL_OF_ACCUMULATE,
    because="every optimizer is thought to be plain gradient descent",
    breaks="`optimizer.step()` is called once",
)


@alternative("accumulate")
def rescales_what_is_there(model, optimizer, micro_batches, group, loss_fn, no_sync):
    from contextlib import ExitStack

    if group <= 0:
        raise ValueError("no group")
    trained = [p for p in model.parameters() if p.requires_grad]
    means, coming, missing = [], iter(micro_batches), object()
    for p in trained:
        p.grad = None
    held = next(coming, missing)
    while held is not missing:
        mean = tokens = torch.zeros((), dtype=torch.float64, device=held[1].device)
        with ExitStack() as stack:
            for left in reversed(range(group)):
                inputs, targets = held
                held = missing if left == 0 else next(coming, missing)
                ends = held is missing
                if ends:
                    stack.close()
                elif left == group - 1:
                    stack.enter_context(no_sync())
                more = targets.ne(-100).sum()
                share = more / (tokens + more).clamp(min=1)
                for p in trained:
                    if p.grad is not None:
                        p.grad.mul_((1 - share).to(p.dtype))
                loss = loss_fn(model(inputs), targets)
                loss.backward(gradient=(1 / (tokens + more).clamp(min=1)).to(loss.dtype))
                mean = mean * (1 - share) + loss.detach().double() / (tokens + more).clamp(min=1)
                tokens = tokens + more
                del loss
                if ends:
                    break
        value, number = torch.stack((mean, tokens.double())).cpu().numpy()
        if number > 0:
            optimizer.step()
            means.append(float(value))
        model.zero_grad()
        held = next(coming, missing) if held is missing else held
    return means


@alternative("accumulate")
def one_generator_for_each_group(model, optimizer, micro_batches, group, loss_fn, no_sync):
    if not group >= 1:
        raise ValueError(group)
    model.zero_grad(set_to_none=True)
    stream, end = iter(micro_batches), []
    queue = [next(stream, end)]
    results = []

    def taken(number):
        batch = queue.pop()
        queue.append(next(stream, end))
        last = number == group or queue[0] is end
        context = None if last else no_sync()
        if context:
            context.__enter__()
        try:
            loss = loss_fn(model(batch[0]), batch[1])
            torch.autograd.backward([loss])
        finally:
            if context:
                context.__exit__(None, None, None)
        return loss.detach(), torch.count_nonzero(batch[1] + 100), last

    while queue[0] is not end:
        losses, counts, last = [], [], False
        while not last:
            loss, count, last = taken(len(losses) + 1)
            losses.append(loss)
            counts.append(count)
        packed = torch.cat((torch.stack(losses).double(), torch.stack(counts).double())).tolist()
        total, tokens = sum(packed[: len(losses)]), int(sum(packed[len(losses) :]))
        if tokens != 0:
            gradients = [p.grad for each in optimizer.param_groups for p in each["params"] if p.grad is not None]
            torch._foreach_mul_(gradients, 1 / tokens)
            del gradients
            optimizer.step()
            results.append(total / tokens)
        for p in model.parameters():
            p.grad = None
    return results

# E10.3 caching_allocator

EVERY_POINT_OF_CACHING = ("segments", "splitting", "best_fit", "merging", "counts", "cache", "memory_error", "errors", "long_traces")
TAKES = "        segment, block = self._best_fit(need) or self._new_segment(need, size)\n"
REFUSED = '            raise ValueError(f"{size} bytes are no request")\n'
MERGED_BEHIND = "        self._merge_behind(segment, block)\n        before"
MERGED_BEFORE = "            self._merge_behind(segment, segment.blocks[before])\n"
EMPTIED = "self._segments = [segment for segment in self._segments if any(block.used for block in segment.blocks)]"
LENGTH = "2 * MIB if small else 20 * MIB if need < 10 * MIB else rounded(need, 2 * MIB)"
TRIED = "        if self.reserved + length > self._capacity:\n            self.empty_cache()\n"
TRIED_AGAIN = "        if self.reserved + length > self._capacity:\n            unused"
SAID = 'f"{size} bytes were asked for, {unused} are reserved but not allocated"'
OF_POOL = "if segment.small == (need <= MIB)]"
SMALLEST = "(found[1].size, found[1].address)"
REST = "if rest >= 512 if segment.small else rest > MIB:"
ALLOCATED = "sum(block.size for segment in self._segments for block in segment.blocks if block.used)"
FOUND = "if block.used and block.address == address:"
NEXT = "        self._next_address += length\n"


def caching(edits, loses, because, breaks):
    return edited("caching_allocator", edits, loses, because, breaks)


sizes_as_they_come = caching(
    {"rounded(size, 512)": "rounded(size, 1)"}, ("segments", "splitting", "counts", "memory_error", "errors", "long_traces"),
    "a request is thought to take what it asks for", "a request is rounded up to a multiple of 512 bytes",
)  # fmt: skip
rounded_by_floats = caching(
    {"-(-size // unit) * unit": "math.ceil(size / unit) * unit", "from dataclasses import dataclass\n": "import math\nfrom dataclasses import dataclass\n"},
    ("segments", "counts"), "a float is thought to hold every integer", "a request is rounded up to a multiple of 512 bytes",
)  # fmt: skip
small_ones_take_from_large_segments = caching(
    {OF_POOL: "if need <= MIB or not segment.small]"}, ("segments", "best_fit", "counts", "cache", "memory_error", "long_traces"), "a small request is thought to fit anywhere", "any other large ones alone",
)  # fmt: skip
large_ones_take_from_small_segments = caching(
    {OF_POOL: "if need > MIB or segment.small]"}, ("best_fit", "long_traces"), "2 MiB that are free are thought to be free for all", "serves small requests alone",
)  # fmt: skip
a_mebibyte_is_large = caching(
    {"small = need <= MIB": "small = need < MIB", "== (need <= MIB)": "== (need < MIB)"}, ("segments", "splitting", "best_fit", "merging", "counts", "cache", "memory_error", "long_traces"),
    "up to is taken for less than", "a request of up to 1 MiB (`2**20` bytes), rounded, is small",
)  # fmt: skip
first_fit = caching(
    {SMALLEST: "found[1].address"}, ("best_fit", "cache", "long_traces"), "the first block that is large enough is thought to do", "the smallest is taken",
)  # fmt: skip
highest_of_several = caching(
    {SMALLEST: "(found[1].size, -found[1].address)"}, ("best_fit", "merging", "memory_error", "errors", "long_traces"), "blocks of one size are thought to be as good as each other",
    "of several such the one with the lowest address",
)  # fmt: skip
fits_as_asked = caching(
    {"block.size >= need]": "block.size > need]"}, ("segments", "splitting", "best_fit", "merging", "cache", "memory_error", "errors", "long_traces"), "a block is thought to need room to spare", "of the free blocks of its pool that are large enough",
)  # fmt: skip
large_requests_go_to_the_driver = caching(
    {TAKES: "        segment, block = need < 10 * MIB and self._best_fit(need) or self._new_segment(need, size)\n"}, ("segments", "best_fit", "memory_error", "errors", "long_traces"),
    "large requests are thought to be the driver's", "where there is none, the driver is asked for a segment",
)  # fmt: skip
small_segments_as_wide_as_the_request = caching(
    {LENGTH: LENGTH.replace("2 * MIB if small", "MIB if small")}, EVERY_POINT_OF_CACHING, "small segments are thought to be as large as small requests can be", "For a small request it has 2 MiB",
)  # fmt: skip
no_room_to_spare = caching(
    {LENGTH: "2 * MIB if small else rounded(need, 2 * MIB)"}, EVERY_POINT_OF_CACHING, "the driver is thought to be asked for what is needed",
    "For a large one it has 20 MiB",
)  # fmt: skip
less_than_ten_as_asked = caching(
    {"need < 10 * MIB": "size < 10 * MIB"}, ("segments", "long_traces"), "the rules are thought to look at what was asked for", "if the rounded request is less than 10 MiB",
)  # fmt: skip
as_large_as_the_request = caching(
    {"rounded(need, 2 * MIB)": "need"}, ("segments", "splitting", "counts", "memory_error", "long_traces"), "a large request is thought to get a segment of its own size",
    "else as many bytes as that request rounded up to a multiple of 2 MiB",
)  # fmt: skip
addresses_from_zero = caching(
    {"0x7F00_0000_0000": "0"}, ("segments", "splitting", "best_fit", "merging", "cache", "memory_error", "errors", "long_traces"), "where memory begins is thought not to matter", "the first segment begins at `0x7F00_0000_0000`",
)  # fmt: skip
addresses_come_again = caching(
    {"        block = Block(self._next_address, length)\n": "        last = self._segments[-1].blocks[-1] if self._segments else Block(0x7F00_0000_0000, 0)\n"
     "        block = Block(last.address + last.size, length)\n"},
    ("cache", "memory_error", "long_traces"), "memory that went back is thought to be given out again at once", "Addresses of segments that have gone back are not given again",
)  # fmt: skip
a_refusal_takes_an_address = caching(
    {NEXT: "", TRIED_AGAIN: "        self._next_address += length\n" + TRIED_AGAIN, "block = Block(self._next_address, length)": "block = Block(self._next_address - length, length)"},
    ("memory_error", "long_traces"), "what is prepared for the driver is thought to be undone by the error", "and nothing else has changed",
)  # fmt: skip
nothing_is_split = caching(
    {REST: "if False:"}, EVERY_POINT_OF_CACHING, "a block is thought to go to one owner", "The rest becomes a free block",
)  # fmt: skip
everything_is_split = caching(
    {REST: "if rest >= 512:"}, ("splitting", "counts", "long_traces"), "one rule is thought to hold for both pools", "A smaller rest is not split off",
)  # fmt: skip
the_last_512_are_not_split_off = caching(
    {"if rest >= 512 if": "if rest > 512 if"}, ("splitting", "long_traces"), "at least is taken for more than", "in the small pool if it has 512 bytes or more",
)  # fmt: skip
from_the_back = caching(
    {"        self._split(segment, block, need)\n        block.used = True\n        return block.address\n":
     "        rest = block.size - need\n        if rest >= 512 if segment.small else rest > MIB:\n            self._split(segment, block, rest)\n"
     "            block = segment.blocks[segment.blocks.index(block) + 1] if len(segment.blocks) > 1 else block\n        block.used = True\n        return block.address\n",
     "        rest = block.size - need\n        if rest >= 512 if segment.small else rest > MIB:\n            block.size = need\n": "        rest = block.size - need\n        if True:\n            block.size = need\n"},
    ("segments", "splitting", "best_fit", "merging", "cache", "memory_error", "errors", "long_traces"), "it is thought not to matter at which end a block is cut", "a request gets the front of its block",
)  # fmt: skip
no_merging = caching(
    {MERGED_BEHIND: "        before", "if before >= 0 and": "if False and"}, ("merging", "cache", "memory_error", "long_traces"),
    "free blocks are thought to stay as they were cut", "a block that is freed becomes one with the free block behind it",
)  # fmt: skip
merges_when_it_must = caching(
    {MERGED_BEHIND: "        before", "if before >= 0 and": "if False and",
     TAKES: "        if not self._best_fit(need):\n            for segment in self._segments:\n                for block in [b for b in segment.blocks if not b.used]:\n"
            "                    while block in segment.blocks and len(segment.blocks) > (n := segment.blocks.index(block) + 1) and not segment.blocks[n].used:\n"
            "                        self._merge_behind(segment, block)\n" + TAKES},
    ("merging", "cache", "memory_error", "long_traces"), "to merge is thought to be work for when no block is large enough", "at once",
)  # fmt: skip
merges_across_segments = caching(
    {MERGED_BEFORE: MERGED_BEFORE + "        wholly = [s for s in self._segments if len(s.blocks) == 1 and not s.blocks[0].used]\n        for one, other in zip(wholly, wholly[1:]):\n"
     "            if one.small == other.small and one.blocks[0].address + one.blocks[0].size == other.blocks[0].address:\n"
     "                other.blocks[0] = Block(one.blocks[0].address, one.blocks[0].size + other.blocks[0].size)\n"
     "                self._segments = [s for s in self._segments if s is not one]\n"},
    ("segments", "merging", "cache", "memory_error", "long_traces"), "addresses side by side are taken for one piece of memory", "Blocks of different segments stay apart, also where one begins where the other ends",
)  # fmt: skip
what_is_freed_goes_back = caching(
    {MERGED_BEFORE: MERGED_BEFORE + "        self.empty_cache()\n"}, ("segments", "best_fit", "merging", "counts", "cache", "memory_error", "errors", "long_traces"), "to free is thought to be cudaFree", "Nothing goes back to the driver",
)  # fmt: skip
reserved_is_called_allocated = caching(
    {ALLOCATED: "self.reserved"}, ("merging", "counts", "memory_error", "long_traces"), "what is held is taken for what is used", "the bytes of all blocks in use",
)  # fmt: skip
counts_what_was_asked_for = caching(
    {"        block.used = True\n": "        block.used, block.asked = True, size\n", ALLOCATED: ALLOCATED.replace("block.size", "block.asked")},
    ("counts", "memory_error", "long_traces"), "what was asked for is taken for what is taken", "A block counts with its own size, which may be more than was asked for",
)  # fmt: skip
counts_what_is_rounded = caching(
    {"        block.used = True\n": "        block.used, block.asked = True, need\n", ALLOCATED: ALLOCATED.replace("block.size", "block.asked")},
    ("counts", "long_traces"), "a rest that is not split off is thought to be nobody's", "the block is handed out whole",
)  # fmt: skip
reserved_is_called = caching(
    {"    @property\n    def reserved": "    def reserved", "self.reserved + length > self._capacity:\n            self.empty": "self.reserved() + length > self._capacity:\n            self.empty",
     "self.reserved + length > self._capacity:\n            unused": "self.reserved() + length > self._capacity:\n            unused", "unused = self.reserved -": "unused = self.reserved() -"},
    EVERY_POINT_OF_CACHING, "a method is taken for a property", "an object with the methods and the properties below",
)  # fmt: skip
what_goes_back_is_still_reserved = caching(
    {"        return sum(block.size for segment in self._segments for block in segment.blocks)\n": "        return self._next_address - 0x7F00_0000_0000\n"},
    ("cache", "memory_error", "long_traces"), "what came from the driver is thought to stay", "that came from the driver and have not gone back",
)  # fmt: skip
segments_by_pool = caching(
    {"for segment in self._segments]\n\n    def malloc": "for segment in sorted(self._segments, key=lambda one: one.small)]\n\n    def malloc"},
    ("segments", "merging", "cache", "long_traces"), "pools are thought to be listed one after the other", "a list of tuples `(address, size, blocks)`, by address",
)  # fmt: skip
used_is_a_number = caching(
    {"b.size, b.used)": "b.size, int(b.used))"}, EVERY_POINT_OF_CACHING, "1 is taken for True", "`used`, a `bool`",
)  # fmt: skip
only_blocks_in_use = caching(
    {"for b in blocks]\n": "for b in blocks if b.used]\n"}, ("splitting", "merging", "long_traces"), "a free block is thought to be no block", "which fill the segment without a gap",
)  # fmt: skip
its_own_lists = caching(
    {"        return [told(segment.blocks) for segment in self._segments]\n":
     "        now = [told(segment.blocks) for segment in self._segments]\n        if now != getattr(self, '_now', None):\n"
     "            self._now, self._shown = [told(segment.blocks) for segment in self._segments], now\n        return self._shown\n"},
    ("segments", "splitting", "merging", "cache", "memory_error", "errors", "long_traces"), "a list that has not changed is thought to be given out twice", "The lists are new, and the caller may change them",
)  # fmt: skip
an_offset_is_returned = caching(
    {"        return block.address\n": "        return block.address - segment.blocks[0].address\n"}, EVERY_POINT_OF_CACHING,
    "a place in a segment is thought to be a place in memory", "returns its address, a Python integer",
)  # fmt: skip
one_driver_for_all_allocators = caching(
    {"    def __init__(self, capacity):\n        self._capacity, self._segments, self._next_address = capacity, [], 0x7F00_0000_0000\n":
     "    _next_address = 0x7F00_0000_0000\n\n    def __init__(self, capacity):\n        self._capacity, self._segments = capacity, []\n",
     NEXT: NEXT.replace("self", "Cache")},
    ("segments", "splitting", "best_fit", "merging", "cache", "memory_error", "errors", "long_traces"), "what stands in the class is thought to be the object's", "Several such objects know nothing of each other",
)  # fmt: skip
gives_back_blocks_in_use = caching(
    {"if any(block.used for": "if all(block.used for"}, ("cache", "memory_error", "errors", "long_traces"), "a segment with a free block is thought to be free", "gives every segment without a block in use back to the driver",
)  # fmt: skip
gives_back_parts = caching(
    {EMPTIED: EMPTIED + "\n        for segment in self._segments:\n            segment.blocks = [block for block in segment.blocks if block.used]"}, ("cache", "memory_error", "long_traces"),
    "to empty the cache is thought to help a segment that is in pieces", "back to the driver, whole, and touches no other",
)  # fmt: skip
does_not_empty_the_cache = caching(
    {TRIED: ""}, ("memory_error", "long_traces"), "what the driver refuses is thought to be refused", "Then the cache is emptied",
)  # fmt: skip
empties_and_gives_up = caching(
    {TRIED: "", TRIED_AGAIN: "        if self.reserved + length > self._capacity:\n            self.empty_cache()\n            unused"}, ("memory_error", "long_traces"),
    "the caller is thought to try again", "and the driver is asked once more",
)  # fmt: skip
empties_the_pool = caching(
    {TRIED: "        if self.reserved + length > self._capacity:\n            self._segments = [one for one in self._segments if one.small != small or any(block.used for block in one.blocks)]\n"},
    ("memory_error", "long_traces"), "a pool is thought to be emptied for its own requests", "Then the cache is emptied as by `empty_cache()`",
)  # fmt: skip
empties_what_is_needed = caching(
    {TRIED: "        while self.reserved + length > self._capacity:\n            unused = [one for one in self._segments if not any(block.used for block in one.blocks)]\n"
     "            if not unused:\n                break\n            self._segments = [one for one in self._segments if one is not unused[0]]\n"},
    ("memory_error", "long_traces"), "no more is thought to be given back than is needed", "Then the cache is emptied as by `empty_cache()`",
)  # fmt: skip
empties_only_if_it_helps = caching(
    {TRIED: "        kept = [one for one in self._segments if any(block.used for block in one.blocks)]\n"
     "        if sum(block.size for one in kept for block in one.blocks) + length <= self._capacity < self.reserved + length:\n            self.empty_cache()\n"},
    ("memory_error", "long_traces"), "a cache that does not help is thought to be kept", "the cache stays empty",
)  # fmt: skip
empties_before_it_asks = caching(
    {TRIED: "        self.empty_cache()\n"}, ("best_fit", "merging", "long_traces"), "to be on the safe side is thought to cost nothing", "the driver refuses a segment with which `reserved` would be more than `capacity`",
)  # fmt: skip
never_all_of_it = caching(
    {TRIED: TRIED.replace(" > ", " >= "), TRIED_AGAIN: TRIED_AGAIN.replace(" > ", " >= ")}, ("memory_error", "long_traces"), "the last byte is thought to be the driver's own",
    "the bytes that the driver has to give",
)  # fmt: skip
the_request_counts_and_not_the_segment = caching(
    {TRIED: TRIED.replace("length", "need"), TRIED_AGAIN: TRIED_AGAIN.replace("length", "need")}, ("memory_error", "long_traces"), "memory is thought to run out when the request does not fit",
    "the driver refuses a segment with which `reserved` would be more than `capacity`",
)  # fmt: skip
runs_out_when_bytes_do = caching(
    {TRIED_AGAIN: "        if self.allocated + need > self._capacity:\n            unused"}, ("memory_error", "long_traces"), "free bytes are thought to be one piece", "If it refuses again, `MemoryError` is raised",
)  # fmt: skip
none_instead_of_an_error = caching(
    {f"            raise MemoryError({SAID})\n": "            return None, None\n", TAKES: TAKES + "        if block is None:\n            return None\n"},
    ("memory_error", "long_traces"), "malloc is thought to be C's", "If it refuses again, `MemoryError` is raised",
)  # fmt: skip
says_what_the_driver_was_asked_for = caching(
    {SAID: SAID.replace("{size}", "{length}")}, ("memory_error",), "the segment is taken for the request, as in PyTorch's own message", "the `size` that was handed to `malloc`",
)  # fmt: skip
says_what_was_cached = caching(
    {"        small = need <= MIB\n": "        small = need <= MIB\n        unused = self.reserved - self.allocated\n", "            unused = self.reserved - self.allocated\n            raise": "            raise"},
    ("memory_error",), "the cache is thought to be there still", "how many bytes are then reserved but not allocated",
)  # fmt: skip
says_it_with_commas = caching(
    {SAID: SAID.replace("}", ":,}")}, ("memory_error",), "a number is thought to be for people alone", "in decimal digits, with nothing between the digits",
)  # fmt: skip
nothing_is_a_request = caching(
    {"if size < 1:": "if size < 0:"}, ("errors",), "a request for nothing is thought to be one", "`ValueError` where `size` is less than 1",
)  # fmt: skip
looks_at_the_size_last = caching(
    {"        if size < 1:\n" + REFUSED: "", "        self._split(segment, block, need)\n": "        if size < 1:\n" + REFUSED + "        self._split(segment, block, need)\n"},
    ("errors",), "an error is thought to undo what came before it", "whatever raises `ValueError` changes nothing",
)  # fmt: skip
frees_twice = caching(
    {FOUND: "if block.address == address:"}, ("errors",), "a second free is thought to do no harm", "one that was freed before",
)  # fmt: skip
frees_from_the_middle = caching(
    {FOUND: "if block.used and block.address <= address < block.address + block.size:"}, ("errors",),
    "any place of a block is thought to name it", "the block in use that begins at `address`",
)  # fmt: skip
unknown_addresses_are_a_key_error = caching(
    {"raise ValueError(f\"no block": "raise KeyError(f\"no block"}, ("errors",), "the error of a dictionary is thought to do", "`ValueError` where no block in use begins there",
)  # fmt: skip


@mistake(
    "caching_allocator",
    loses=EVERY_POINT_OF_CACHING,
    because="an allocator that exists is thought to be one that was written",
    breaks="you write it in plain Python: a call of PyTorch, NumPy or gpulab, whose virtual card has such an allocator too, loses the points",
)
def around_the_cards_own(capacity):
    from gpulab.cuda.machine.allocator import Allocator, OutOfMemory

    class Around:
        def __init__(self):
            self.own, self.used = Allocator(capacity, int, int, int, bool), {}

        allocated, reserved = property(lambda self: self.own.allocated), property(lambda self: self.own.reserved)

        def malloc(self, size):
            if size < 1:
                raise ValueError(size)
            try:
                block = self.own.malloc(size, 0)
            except OutOfMemory:
                raise MemoryError(f"{size} {self.reserved - self.allocated}") from None
            self.used[block.address] = block
            return block.address

        def free(self, address):
            if address not in self.used:
                raise ValueError(address)
            self.own.free(self.used.pop(address))

        def empty_cache(self):
            self.own.empty_cache()

        def segments(self):
            return [(s.address, s.size, [(b.address, b.size, not b.is_free) for b in s.blocks()]) for s in self.own.segments.values()]

    return Around()


@alternative("caching_allocator")
def cuts_on_a_line(capacity):
    """No blocks: where each segment ends, where it is cut, and which pieces are in use."""
    MIB = 2**20

    class Line:
        def __init__(self):
            self.ends, self.small, self.cuts, self.used, self.top = {}, {}, {}, set(), 0x7F00_0000_0000

        def pieces(self, start):
            edges = sorted(self.cuts[start]) + [self.ends[start]]
            return [(a, b - a, a in self.used) for a, b in zip(edges, edges[1:])]

        def segments(self):
            return [[start, self.ends[start] - start, self.pieces(start)] for start in sorted(self.ends)]

        @property
        def reserved(self):
            return sum(self.ends.values()) - sum(self.ends)

        @property
        def allocated(self):
            return sum(size for start in self.ends for _, size, used in self.pieces(start) if used)

        def candidates(self, need):
            return [
                (size, address, start) for start in self.ends if self.small[start] == (need <= MIB)
                for address, size, used in self.pieces(start) if not used and size >= need
            ]  # fmt: skip

        def malloc(self, size):
            if size <= 0:
                raise ValueError("no size")
            need = (size + 511) // 512 * 512
            if not self.candidates(need):
                self.grow(need, size)
            width, address, start = min(self.candidates(need))
            if width - need >= (512 if self.small[start] else MIB + 512):
                self.cuts[start].add(address + need)
            self.used.add(address)
            return address

        def grow(self, need, size):
            length = 2 * MIB if need <= MIB else max(20 * MIB, 0) if need < 10 * MIB else (need + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
            for last in (False, True):
                if self.reserved + length <= capacity:
                    break
                if last:
                    raise MemoryError("asked for", size, "unused", self.reserved - self.allocated)
                self.empty_cache()
            self.ends[self.top], self.small[self.top], self.cuts[self.top] = self.top + length, need <= MIB, {self.top}
            self.top += length

        def free(self, address):
            if address not in self.used:
                raise ValueError("not in use")
            self.used.remove(address)
            for start, cuts in self.cuts.items():
                free_before = None
                for piece, size, used in self.pieces(start):
                    if not used and free_before:
                        cuts.discard(piece)
                    free_before = not used

        def empty_cache(self):
            for start in [start for start in self.ends if not any(used for *_, used in self.pieces(start))]:
                for of in (self.ends, self.small, self.cuts):
                    del of[start]

    return Line()


@alternative("caching_allocator")
def linked_blocks_in_sorted_pools(capacity):
    """As PyTorch has it: blocks know their neighbours, and each pool keeps what is free sorted by size and address."""
    from bisect import bisect_left, insort
    from collections import namedtuple
    from itertools import count

    class Refused(ValueError):
        pass

    class OutOfMemory(MemoryError):
        pass

    class Block:
        def __init__(self, address, size, pool, before=None, behind=None):
            self.address, self.size, self.pool, self.before, self.behind = address, size, pool, before, behind

    Row = namedtuple("Row", "address size blocks")
    order = count()

    class Memory:
        def __init__(self):
            self.pools, self.used, self.firsts, self.top, self.reserved, self.allocated = ([], []), {}, {}, 0x7F00_0000_0000, 0, 0

        def put(self, block):
            insort(self.pools[block.pool], (block.size, block.address, next(order), block))

        def take(self, block):
            pool = self.pools[block.pool]
            del pool[bisect_left(pool, (block.size, block.address))]

        def malloc(self, size):
            if not size > 0:
                raise Refused("a size of 1 or more is due")
            need = size + -size % 512
            large = int(need > 1048576)
            pool = self.pools[large]
            at = bisect_left(pool, (need, 0))
            block = pool.pop(at)[-1] if at < len(pool) else self.segment(need, large, size)
            if block.size - need > (1048576 if large else 0):
                rest = Block(block.address + need, block.size - need, large, block, block.behind)
                if rest.behind:
                    rest.behind.before = rest
                block.behind, block.size = rest, need
                self.put(rest)
            self.used[block.address] = block
            self.allocated += block.size
            return block.address

        def segment(self, need, large, size):
            unit = 2097152
            length = unit if not large else 10 * unit if need < 5 * unit else need + -need % unit
            if length > capacity - self.reserved:
                self.empty_cache()
                if length > capacity - self.reserved:
                    raise OutOfMemory(f"unallocated: {self.reserved - self.allocated} B; requested: {size} B.")
            block = self.firsts[self.top] = Block(self.top, length, large)
            self.top, self.reserved = self.top + length, self.reserved + length
            return block

        def free(self, address):
            block = self.used.pop(address, None)
            if block is None:
                raise Refused("not in use")
            self.allocated -= block.size
            for one in (block.before, block.behind):
                if one and one.address not in self.used:
                    self.take(one)
            if block.behind and block.behind.address not in self.used:
                self.join(block)
            if block.before and block.before.address not in self.used:
                block = block.before
                self.join(block)
            self.put(block)

        def join(self, block):
            gone = block.behind
            block.size, block.behind = block.size + gone.size, gone.behind
            if gone.behind:
                gone.behind.before = block

        def empty_cache(self):
            for block in [entry[-1] for pool in self.pools for entry in pool]:
                if not block.before and not block.behind:
                    self.take(block)
                    del self.firsts[block.address]
                    self.reserved -= block.size

        def segments(self):
            rows = []
            for first in self.firsts.values():
                blocks, block = [], first
                while block:
                    blocks.append((block.address, block.size, block.address in self.used))
                    block = block.behind
                rows.append(Row(first.address, sum(size for _, size, _ in blocks), blocks))
            return rows

    return Memory()


# E10.4 classify_growth

ALL_OF_GROWTH = ("startup", "leak", "sawtooth", "reserved", "rate", "untouched", "errors")
BEYOND_STARTUP = ("leak", "sawtooth", "rate")
LEAKED = "held[-1] - held[-1 - epoch]"
TAKEN = "reserved[-1] - reserved[-1 - epoch]"
ENDS = '("plateau" if max(held[-epoch:]) > before else "flat"), 0.0'
HELD = "        held.append(torch.cuda.memory_allocated())\n"
RESERVED = "        reserved.append(torch.cuda.memory_reserved())\n"
CALLED = "        step()\n"


def growth(edits, loses, because, breaks):
    return edited("classify_growth", edits, loses=loses, because=because, breaks=breaks)


more_than_at_the_start = growth(
    {LEAKED: "held[-1] - before"},
    ALL_OF_GROWTH,
    "more than before the loop is thought to be a leak, the optimizer's state too",
    "what a loop makes once (gradients, momentum, caches, buffers that fill up) is there after the second epoch",
)
against_the_second_epoch = growth(
    {TAKEN: "reserved[-1] - reserved[2 * epoch - 1]"},
    ("reserved", "rate"),
    "the second half is thought to be steady in the cache as well",
    "after the last step of the fourth epoch more is reserved than after the last step of the third",
)
the_last_two_steps = growth(
    {LEAKED: "held[-1] - held[-2]"},
    ("leak", "sawtooth", "reserved", "rate"),
    "a leak is thought to add something in every step",
    "From step to step the held bytes may rise and fall",
)
within_the_last_epoch = growth(
    {LEAKED: "held[-1] - held[-epoch]"},
    ("leak", "sawtooth", "reserved", "rate"),
    "the last epoch's end is compared with its beginning, where the batches are others",
    "hold more than the same steps of the third",
)
always_rising = growth(
    {"    if leaked > 0:\n": "    if leaked > 0 and all(a <= b for a, b in zip(held, held[1:])):\n"},
    BEYOND_STARTUP,
    "a leak is thought to rise in every step",
    "From step to step the held bytes may rise and fall",
)
only_large_ones = growth(
    {"    if leaked > 0:\n": "    if leaked > epoch * 1024:\n"},
    BEYOND_STARTUP,
    "a few hundred bytes are thought to be noise; the allocator has none",
    "They are right to the byte",
)
any_change = growth(
    {"    if leaked > 0:\n": "    if leaked:\n"},
    ALL_OF_GROWTH,
    "whatever does not stay the same is thought to leak",
    "`\"flat\"`: none of these, also where less and less is held",
)
fragmentation_first = growth(
    {"    if taken > 0:\n": "    if taken > 0 and leaked <= 0:\n", "    if leaked > 0:\n": "    if leaked > 0 and taken <= 0:\n"},
    ("leak", "sawtooth", "rate"),
    "reserved memory that grows is thought to be no leak",
    "The kind is the first in this list that is true",
)
by_reserved_alone = growth(
    {LEAKED: "min(held[-1] - held[-1 - epoch], reserved[-1] - reserved[-1 - epoch])"},
    BEYOND_STARTUP,
    "a leak is thought to be there when `nvidia-smi` shows it",
    "A step *holds* what `torch.cuda.memory_allocated()` is after it",
)
ever_reserved = growth(
    {TAKEN: "reserved[-1] - reserved[0]"},
    ("reserved", "rate"),
    "the cache is thought to be filled by the first step",
    "after the last step of the fourth epoch more is reserved than after the last step of the third",
)
no_flat = growth(
    {ENDS: '"plateau", 0.0'},
    ALL_OF_GROWTH,
    "a loop that holds nothing is thought to be a low plateau",
    "`\"plateau\"`: some step of the fourth epoch holds more than was held before the first call",
)
flat_at_the_end = growth(
    {"max(held[-epoch:]) > before": "held[-1] > before"},
    ("sawtooth",),
    "the last reading is thought to stand for the epoch",
    "some step of the fourth epoch holds more",
)
the_highest_ever = growth(
    {"max(held[-epoch:]) > before": "max(held) > before"},
    ALL_OF_GROWTH,
    "what was given back before the last epoch is counted as well",
    "some step of the fourth epoch holds more",
)
before_is_nothing = growth(
    {"> before else": "> 0 else"},
    ALL_OF_GROWTH,
    "the card is thought to be empty before the loop",
    "the caller may hold much before the first call",
)
by_all_steps = growth(
    {"leaked / epoch": "leaked / steps"},
    ("rate",),
    "what an epoch adds is divided by the steps of all four",
    "The steps are **four epochs** of `steps // 4` steps each, with the same batches in the same order",
)
from_the_first_call = growth(
    {"leaked / epoch": "(held[-1] - before) / steps"},
    ("rate",),
    "the mean over all steps is thought to be that of the steps that leak",
    "the held bytes that an epoch adds, divided by its steps",
)
whole_bytes = growth(
    {"leaked / epoch": "float(leaked // epoch)"},
    ("rate",),
    "bytes per step are thought to be a whole number",
    "They are right to the byte",
)
segments_of_all_steps = growth(
    {"taken / epoch": "(reserved[-1] - reserved[0]) / (steps - 1)"},
    ("rate",),
    "fragmentation is thought to go at an even pace",
    "of fragmentation, the reserved bytes by which those last steps differ, divided by `steps // 4`",
)
a_plateaus_height = growth(
    {ENDS: '("plateau", float(held[-1] - before)) if max(held[-epoch:]) > before else ("flat", 0.0)'},
    ("rate",),
    "a plateau's height is given for its growth",
    "otherwise `0.0`",
)
asked_for = growth(
    {HELD: '        held.append(torch.cuda.memory_stats()["requested_bytes.all.current"])\n',
     "= torch.cuda.memory_allocated(), [], []": '= torch.cuda.memory_stats()["requested_bytes.all.current"], [], []'},
    ("rate",),
    "the bytes that were asked for are thought to be those that are taken",
    "A step *holds* what `torch.cuda.memory_allocated()` is after it",
)  # fmt: skip
at_the_peak = growth(
    {HELD: "        held.append(torch.cuda.max_memory_allocated())\n        torch.cuda.reset_peak_memory_stats()\n"},
    ALL_OF_GROWTH,
    "what a step needs at its peak is thought to be what it leaves behind",
    "what a step frees again may be of another size each time",
)
statistics_cleared = growth(
    {CALLED: "        torch.cuda.reset_peak_memory_stats()\n        step()\n"},
    ("untouched",),
    "the allocator's peaks are thought to be nobody's",
    "the statistics of the allocator are not reset",
)
read_before_the_step = growth(
    {CALLED: "", HELD: "", RESERVED: HELD + RESERVED + CALLED},
    ("reserved", "rate"),
    "it is thought not to matter on which side of a step one reads",
    "A step *holds* what `torch.cuda.memory_allocated()` is after it",
)
one_more_to_warm_up = growth(
    {"    before, held": "    step()\n    before, held"},
    ALL_OF_GROWTH,
    "the first step is thrown away, as when one measures time",
    "`step` is called exactly `steps` times",
)
stops_at_the_leak = growth(
    {RESERVED: RESERVED + "        if len(held) > 3 * epoch and held[-1] > held[-1 - epoch]:\n            break\n"},
    ("untouched", "errors"),
    "once a leak is seen there is thought to be nothing left to see",
    "`step` is called exactly `steps` times",
)
results_in_a_list = growth(
    {CALLED: "        results.append(step())\n", "    before, held": "    results = []\n    before, held"},
    ALL_OF_GROWTH,
    "what looks for the leak is one itself",
    "no result of a step is kept until the next",
)  # fmt: skip
the_last_result = growth(
    {CALLED: "        result = step()\n"},
    ALL_OF_GROWTH,
    "a variable that is overwritten is thought to hold nothing",
    "no result of a step is kept until the next",
)
collected_first = growth(
    {CALLED: "        step()\n        __import__('gc').collect(0)\n"},
    ("leak", "sawtooth", "rate", "untouched"),
    "what only Python's collector frees is thought to be free",
    "What only Python's collector would free counts as held",
)
cache_emptied = growth(
    {CALLED: "        step()\n        torch.cuda.empty_cache()\n"},
    ("reserved", "untouched"),
    "the cache is emptied so that the numbers are clean, and fragmentation with it",
    "nothing is freed for the loop either, not by `torch.cuda.empty_cache()`",
)
synchronized = growth(
    {CALLED: "        step()\n        torch.cuda.synchronize()\n"},
    ("untouched",),
    "memory is thought to be known when the device is done; the allocator lives on the host",
    "nothing waits for the device",
)
readings_on_the_card = growth(
    {HELD: HELD + '        torch.tensor(held[-1], device="cuda")\n'},
    ("untouched",),
    "the readings are kept where everything else is",
    "no memory of the device is taken",
)
any_number_of_steps = growth(
    {"    if rest or epoch < 1:\n": "    if epoch < 1:\n"},
    ("errors",),
    "an epoch is rounded down",
    "where `steps` is not a multiple of 4, or less than 4",
)
none_at_all = growth(
    {"    if rest or epoch < 1:\n": "    if rest:\n"},
    ("errors",),
    "0 and -4 are multiples of 4",
    "where `steps` is not a multiple of 4, or less than 4",
)
checked_at_the_end = growth(
    {
        "    if rest or epoch < 1:\n        raise ValueError(f\"{steps} steps are not four epochs\")\n": "",
        "    leaked = ": "    if rest or epoch < 1:\n        raise ValueError(steps)\n    leaked = ",
    },
    ("errors",),
    "steps are counted when they are over",
    "raises `ValueError`, before the first call",
)
steps_in_a_generator = growth(
    {
        "    for _ in range(steps):\n        step()\n        held.append(torch.cuda.memory_allocated())\n        reserved.append(torch.cuda.memory_reserved())\n":
        "    def readings():\n        for _ in range(steps):\n            step()\n            yield torch.cuda.memory_allocated(), torch.cuda.memory_reserved()\n\n"
        "    for one, other in readings():\n        held.append(one)\n        reserved.append(other)\n",
    },
    ("errors",),
    "an exception is thought to pass through a generator as it is",
    "an exception that `step` raises comes out as it is",
)
kind_alone = growth(
    {ENDS: '"plateau" if max(held[-epoch:]) > before else "flat"'},
    ALL_OF_GROWTH,
    "where nothing grows there is thought to be no number to return",
    "it returns a tuple of a `str` and a `float`, the **kind** and the **bytes per step**",
)
carries_on = growth(
    {CALLED: "        try:\n            step()\n        except torch.OutOfMemoryError:\n            pass\n"},
    ("errors",),
    "a loop that runs out of memory is thought to be worth a verdict",
    "an exception that `step` raises comes out as it is, and `step` is not called again",
)
renamed = growth(
    {CALLED: "        try:\n            step()\n        except Exception as error:\n            raise RuntimeError from error\n"},
    ("errors",),
    "the caller is thought to catch one kind of exception alone",
    "an exception that `step` raises comes out as it is",
)

CALLERS = (
    unbreakable("classify_growth", "`step` is a function without arguments, one step of a loop", "the caller's part"),
    unbreakable("classify_growth", "It trains, evaluates, keeps or returns what it likes", "it is the caller's freedom"),
    unbreakable(
        "classify_growth",
        "Later a step holds as much as the same step of the epoch before, or, in a loop that leaks, so many bytes more",
        "it is a promise to whoever writes the function",
    ),
)


@mistake(
    "classify_growth",
    loses=("sawtooth", "reserved", "rate"),
    because="a line through all readings is thought to show what is left of a wave",
    breaks="From step to step the held bytes may rise and fall",
)
def a_line_through_them(step, steps):
    if steps < 4 or steps % 4:
        raise ValueError("four epochs are due")
    before, held = torch.cuda.memory_allocated(), []
    for _ in range(steps):
        step()
        held.append(torch.cuda.memory_allocated())
    late = held[steps // 2 :]
    mean, middle = sum(late) / len(late), (len(late) - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(len(late)))
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(late)) / spread
    if slope > 100:
        return "leak", slope
    return "plateau" if max(held[-(steps // 4) :]) > before else "flat", 0.0


@alternative("classify_growth")
def means_of_epochs(step, steps):
    if steps <= 0 or steps & 3:
        raise ValueError(f"no four epochs in {steps} steps")
    quarter = steps // 4
    start = torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
    epochs, ends = [], []
    for _ in range(4):
        readings = []
        for _ in range(quarter):
            step()
            readings.append(torch.cuda.memory_stats()["allocated_bytes.all.current"] - start)
        epochs.append(readings)
        ends.append(torch.cuda.memory_stats()["reserved_bytes.all.current"])
    added = sum(epochs[3]) - sum(epochs[2])
    if added > 0:
        return ("leak", added / quarter / quarter)
    if ends[3] != ends[2]:
        return ("fragmentation", (ends[3] - ends[2]) / quarter)
    return ("plateau", 0.0) if any(reading > 0 for reading in epochs[3]) else ("flat", 0.0)


@alternative("classify_growth")
def lowest_of_each(step, steps):
    from fractions import Fraction

    if steps not in range(4, steps + 1, 4):
        raise ValueError(steps)

    at_first, floor, highest, cached = torch.cuda.memory_allocated(), {}, {}, {}
    for number in range(steps):
        step()
        epoch, allocated, reserved = 4 * number // steps, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        floor[epoch] = min(floor.get(epoch, allocated), allocated)
        highest[epoch] = max(highest.get(epoch, allocated), allocated)
        cached[epoch] = reserved
    per_step = {
        "leak": Fraction(4 * (floor[3] - floor[2]), steps),
        "fragmentation": Fraction(4 * (cached[3] - cached[2]), steps),
    }
    for kind, rate in per_step.items():
        if rate > 0:
            return kind, float(rate)
    return ("flat", "plateau")[highest[3] > at_first], 0.0
