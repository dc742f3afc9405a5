"""Chapter "Data parallelism in depth": wrong solutions, and right ones written another way."""

import itertools
import math

import torch
import torch.distributed as dist

from autograder.authoring import alternative, edited, harmless, mistake, unbreakable

# E14.1 mini_ddp


@mistake(
    "mini_ddp",
    loses=("values",),
    because="WRITE(mini_ddp): the misconception, as half a sentence",
    breaks="WRITE(mini_ddp): the words of the statement that it breaks",
)
def mini_ddp_misunderstood(model, bucket_bytes):
    return x.clone()  # WRITE(mini_ddp): what someone with this misconception writes; one function for each


@alternative("mini_ddp")
def mini_ddp_another_way(model, bucket_bytes):
    raise NotImplementedError("WRITE(mini_ddp): a right solution, as unlike yours as can be")

# E14.2 best_bucket


@mistake(
    "best_bucket",
    loses=("values",),
    because="WRITE(best_bucket): the misconception, as half a sentence",
    breaks="WRITE(best_bucket): the words of the statement that it breaks",
)
def best_bucket_misunderstood(layers, link, buckets):
    return x.clone()  # WRITE(best_bucket): what someone with this misconception writes; one function for each


@alternative("best_bucket")
def best_bucket_another_way(layers, link, buckets):
    raise NotImplementedError("WRITE(best_bucket): a right solution, as unlike yours as can be")

# E14.3 epoch_indices


@mistake(
    "epoch_indices",
    loses=("values",),
    because="WRITE(epoch_indices): the misconception, as half a sentence",
    breaks="WRITE(epoch_indices): the words of the statement that it breaks",
)
def epoch_indices_misunderstood(length, world, rank, epoch, seed):
    return x.clone()  # WRITE(epoch_indices): what someone with this misconception writes; one function for each


@alternative("epoch_indices")
def epoch_indices_another_way(length, world, rank, epoch, seed):
    raise NotImplementedError("WRITE(epoch_indices): a right solution, as unlike yours as can be")

# E14.4 reduce_metrics

NO_MEAN = ("mean", "order", "exact", "none", "one_collective", "kept")
PACKED = "packed = torch.stack([torch.as_tensor(number, dtype=torch.float64) for name in names for number in totals[name]])"
REDUCED = "    dist.all_reduce(packed)\n"
DIVIDED = "(sums / counts).tolist()"
RETURNED = f"return dict(zip(names, {DIVIDED}))"


def reduced(edits, loses, because, breaks):
    return edited("reduce_metrics", edits, loses=loses, because=because, breaks=breaks)


mean_of_means = reduced(
    {PACKED: PACKED + "\n        packed = torch.stack([packed[::2] / packed[1::2].clamp(min=1), (packed[1::2] > 0).double()], 1).view(-1)"},
    NO_MEAN,
    "the mean of the ranks' means is thought to be the mean of all",
    "name to the **mean over all samples of all ranks**",
)
by_the_number_of_ranks = reduced(
    {DIVIDED: "(sums / dist.get_world_size()).tolist()"},
    NO_MEAN,
    "an all-reduced metric is thought to be divided like a gradient, by the number of ranks",
    "name to the **mean over all samples of all ranks**",
)
never_divided = reduced(
    {DIVIDED: "sums.tolist()"}, NO_MEAN, "sums are thought to compare by themselves", "name to the **mean over all samples of all ranks**"
)
what_it_saw_itself = reduced(
    {REDUCED: ""}, NO_MEAN, "the metrics of one rank are thought to be those of the job", "name to the **mean over all samples of all ranks**"
)
never_waited_for = reduced(
    {REDUCED: "    dist.all_reduce(packed, async_op=True)\n"},
    NO_MEAN,
    "what is posted is thought to be there",
    "name to the **mean over all samples of all ranks**",
)
at_rank_0_alone = reduced(
    {REDUCED: "    dist.reduce(packed, 0)\n    if dist.get_rank():\n        return {}\n"},
    NO_MEAN,
    "whoever prints the report is thought to be the only one that needs it: early stopping needs it in every rank",
    "returns, in every rank, a new dictionary",
)
tensors_of_no_dimensions = reduced(
    {DIVIDED: "(sums / counts)"}, NO_MEAN, "a tensor of one number is taken for a number", "a Python float"
)
one_dictionary_for_all_calls = reduced(
    {
        "def reduce_metrics(totals):": "def reduce_metrics(totals, means={}):",
        RETURNED: f"means.update(zip(names, {DIVIDED}))\n    return means",
    },
    NO_MEAN,
    "a default argument is thought to be made anew for every call",
    "another call may have others",
)
order_of_insertion = reduced(
    {"sorted(totals)": "list(totals)"},
    ("order",),
    "dictionaries with the same names are thought to have them in the same order",
    "All ranks have the same ones, **possibly in another order**",
)
order_of_a_set = reduced(
    {"sorted(totals)": "list(set(totals))"},
    ("order",),
    "a set is thought to have an order that its elements decide",
    "in an order that is the same in all ranks",
)
without_regard_to_case = reduced(
    {"sorted(totals)": "sorted(totals, key=str.lower)"},
    ("order",),
    "a key by which two names are alike is thought to put them in order",
    "in an order that is the same in all ranks",
)
float32 = reduced(
    {"dtype=torch.float64": "dtype=torch.float32"},
    ("exact", "one_collective"),
    "the dtype of a loss is thought to do for the sum of a million of them",
    "sums and counts are added in `float64`",
)
double_too_late = reduced(
    {PACKED: PACKED.replace("dtype=torch.float64", "dtype=torch.float32") + ".double()"},
    ("exact",),
    "a double is thought to bring digits back",
    "no digit is lost",
)
dtype_of_its_numbers = reduced(
    {PACKED: "packed = torch.tensor([number.item() if torch.is_tensor(number) else number for name in names for number in totals[name]])"},
    ("exact", "one_collective"),
    "torch.tensor is thought to keep Python's floats as they are",
    "one `float64` tensor of two elements a name",
)
divided_in_float32 = reduced(
    {DIVIDED: "(sums.float() / counts.float()).tolist()"},
    ("exact",),
    "only additions are thought to lose digits",
    "no digit is lost",
)
zero_where_nobody_saw_any = reduced(
    {DIVIDED: "(sums / counts.clamp(min=1)).tolist()"},
    ("none",),
    "a divisor of 1 is thought to be a harmless way around a division by 0",
    "the mean is NaN where no rank saw any",
)
division_by_zero = reduced(
    {DIVIDED: "[total / count for total, count in zip(sums.tolist(), counts.tolist())]"},
    ("none",),
    "every metric is thought to have been seen by somebody",
    "0 where this rank saw none",
)
nan_is_hidden = reduced(
    {REDUCED: "    packed = packed.nan_to_num()\n" + REDUCED},
    ("none",),
    "a loss that is no number is thought to be noise in the report",
    "A sum of NaN or infinity is seen in its own metric",
)
nan_spreads = reduced(
    {RETURNED: "means = torch.diag(1 / counts) @ sums\n    means[counts == 0] = torch.nan\n    return dict(zip(names, means.tolist()))"},
    ("none",),
    "0 times whatever it is is thought to be 0",
    "and in no other",
)
only_what_was_seen = reduced(
    {RETURNED: f"return {{name: mean for name, mean in zip(names, {DIVIDED}) if mean == mean}}"},
    ("none",),
    "what nobody saw is thought to be left out",
    "the mean is NaN where no rank saw any",
)
hands_in_what_it_saw = reduced(
    {
        "sorted(totals)": "sorted(name for name in totals if totals[name][1])",
        "if not totals:": "if not any(count for _, count in totals.values()):",
    },
    ("none", "one_collective"),
    "a rank that saw nothing is thought to have nothing to say: the others wait for it",
    "The sum is 0 then",
)
a_collective_of_nothing = reduced(
    {
        "    if not totals:\n        return {}\n": "",
        "torch.stack([": "torch.tensor([",
        "torch.as_tensor(number, dtype=torch.float64)": "float(number)",
        "totals[name]])": "totals[name]], dtype=torch.float64)",
    },
    ("none",),
    "a collective of no bytes is thought to cost nothing",
    "with no names nothing crosses",
)
none_for_no_names = reduced(
    {"return {}": "return None"}, ("none",), "an early return is thought to need no value", "and the dictionary is empty"
)
one_after_another = reduced(
    {REDUCED: "    for pair in packed.view(-1, 2):\n        dist.all_reduce(pair)\n"},
    ("one_collective",),
    "small collectives are thought to cost little",
    "**one collective** in all",
)
sums_and_then_counts = reduced(
    {
        REDUCED: "    sums, counts = packed[::2].clone(), packed[1::2].clone()\n    dist.all_reduce(sums)\n"
        "    dist.all_reduce(counts)\n    packed = torch.stack([sums, counts], 1).view(-1)\n"
    },
    ("one_collective",),
    "sums and counts are thought to need a tensor each",
    "one `float64` tensor of two elements a name",
)
the_mean_of_the_library = reduced(
    {REDUCED: "    dist.all_reduce(packed, op=dist.ReduceOp.AVG)\n"},
    ("one_collective",),
    "a mean is thought to want the operation AVG, which gloo has not",
    "an `all_reduce` that sums",
)
after_a_barrier = reduced(
    {REDUCED: "    dist.barrier()\n" + REDUCED},
    ("one_collective",),
    "ranks are thought to have to be brought together before a collective",
    "nobody waits at a barrier",
)
gathered_by_everybody = reduced(
    {
        REDUCED: "    parts = [torch.empty_like(packed) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(parts, packed)\n    packed = sum(parts)\n"
    },
    ("one_collective",),
    "who wants a sum is thought to need all of its terms",
    "so nothing is gathered",
)
starts_anew = reduced(
    {RETURNED: f"means = dict(zip(names, {DIVIDED}))\n    totals.clear()\n    return means"},
    ("kept",),
    "whoever reports is thought to have to begin the next interval too",
    "`totals` and the tensors in it stay as they are",
)
cut_off_from_its_graph = reduced(
    {
        "    names = sorted(totals)\n": "    names = sorted(totals)\n    for total, _ in totals.values():\n"
        "        if torch.is_tensor(total):\n            total.detach_()\n"
    },
    ("kept",),
    "detach_ is thought to give a tensor and not to change one",
    "`totals` and the tensors in it stay as they are",
)
no_gradients = reduced(
    {"torch.as_tensor(number, ": "torch.tensor(number.numpy() if torch.is_tensor(number) else number, "},
    ("kept",),
    "every tensor is thought to be one of NumPy's too",
    "of any dtype of floats or of integers. It may require a gradient",
)


@mistake(
    "reduce_metrics",
    loses=("one_collective",),
    because="objects are thought to be the simplest thing to send: they are pickled, and cross in two collectives",
    breaks="no object pickled",
)
def objects_gathered(totals):
    if not totals:
        return {}
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {name: (float(total), count) for name, (total, count) in totals.items()})
    means = {}
    for name in totals:
        total, count = (sum(part[name][i] for part in everybody) for i in (0, 1))
        means[name] = total / count if count else float("nan")
    return means


@mistake(
    "reduce_metrics",
    loses=("one_collective",),
    because="rank 0 is thought to be a server",
    breaks="nothing sent from rank to rank",
)
def by_messages_to_rank_0(totals):
    if not totals:
        return {}
    names, rank, world = sorted(totals), dist.get_rank(), dist.get_world_size()
    packed = torch.tensor([[float(number) for number in totals[name]] for name in names], dtype=torch.float64)
    if rank:
        dist.send(packed, 0)
        dist.recv(packed, 0)
    else:
        came = torch.empty_like(packed)
        for other in range(1, world):
            dist.recv(came, other)
            packed += came
        for other in range(1, world):
            dist.send(packed, other)
    return {name: (total / count).item() for name, (total, count) in zip(names, packed)}


@mistake(
    "reduce_metrics",
    loses=("exact", "one_collective"),
    because="the mean of all is thought to need one number a metric, weighed by this rank's share: for that the counts cross first",
    breaks="What a rank hands in are its sums and its counts, each once",
)
def weighed_by_its_share(totals):
    if not totals:
        return {}
    names = sorted(totals)
    own = torch.tensor([[float(number) for number in totals[name]] for name in names], dtype=torch.float64)
    counts = own[:, 1].clone()
    dist.all_reduce(counts)
    means = own[:, 0] / counts
    dist.all_reduce(means)
    return dict(zip(names, means.tolist()))


said_of_reduce_metrics = [
    unbreakable("reduce_metrics", "name to `(sum, count)`: what this rank saw of a metric", because="it says what is handed over"),
    unbreakable("reduce_metrics", "One rank alone may leave the collective out", because="it is a permission"),
]


@alternative("reduce_metrics")
def a_row_of_sums_and_a_row_of_counts(totals):
    table = torch.zeros(2, len(totals), dtype=torch.double)
    names = sorted(totals, reverse=True)
    for column, name in enumerate(names):
        total, count = totals[name]
        table[0, column] = total.detach() if isinstance(total, torch.Tensor) else total
        table[1, column] = count
    if names:
        dist.all_reduce(table, async_op=True).wait()
    means = {}
    for name in totals:
        total, count = table[:, names.index(name)].tolist()
        means[name] = total / count if count > 0 else float("nan")
    return means


@alternative("reduce_metrics")
def all_counts_behind_all_sums(totals):
    if len(totals) == 0:
        return dict()
    order = [name for name, _ in sorted(totals.items(), key=lambda item: item[0])]
    numbers = [float(totals[name][0]) for name in order] + [float(totals[name][1]) for name in order]
    flat = torch.DoubleTensor(numbers)
    if dist.get_world_size() > 1:
        dist.all_reduce(flat, dist.ReduceOp.SUM)
    return {name: float(flat[i]) / float(flat[i + len(order)]) if flat[i + len(order)] else math.nan for i, name in enumerate(order)}


# E14.5 find_desync

NO_INDEX = ("index", "agree", "ended", "culprits", "lines", "errors")
WALK = "itertools.zip_longest(*logs)"
KEY = '(entry["op"], entry["bytes"], entry["dtype"])'
LARGEST = "max(filter(None, posted), key=posted.count)"
CULPRITS = "[rank for rank, what in enumerate(posted) if what != largest]"
LINES = '{rank: entry and entry["line"] for rank, entry in enumerate(entries)}'
REPORTED = 'return {"index": index, "culprits": culprits, "lines": lines}'


def compared(edits, loses, because, breaks):
    return edited("find_desync", edits, loses=loses, because=because, breaks=breaks)


op_alone = compared(
    {KEY: 'entry["op"]'},
    NO_INDEX,
    "the name of a collective is thought to be all that ranks have to agree about",
    "the same op, the same bytes and the same dtype",
)
no_bytes = compared(
    {KEY: '(entry["op"], entry["dtype"])'}, NO_INDEX, "sizes are thought to be the library's affair", "the same bytes and the same dtype"
)
no_dtype = compared(
    {KEY: '(entry["op"], entry["bytes"])'}, NO_INDEX, "as many bytes are thought to be the same numbers", "and the same dtype"
)
lines_too = compared(
    {KEY: '(entry["op"], entry["bytes"], entry["dtype"], entry["line"])'},
    NO_INDEX,
    "ranks are thought to post a collective from one line only",
    "Their lines and times may differ",
)
all_of_an_entry = compared(
    {KEY: "tuple(entry.values())"}, NO_INDEX, "entries that agree are thought to be equal", "Their lines and times may differ"
)
in_one_of_the_three = compared(
    {"len(set(posted)) > 1": "all(len(set(column)) > 1 for column in zip(*[what or (None, None, None) for what in posted]))"},
    NO_INDEX,
    "what disagrees is thought to disagree in everything",
    "entries **agree** when they have the same op, the same bytes and the same dtype",
)
counted_from_one = compared(
    {"enumerate(itertools.zip_longest(*logs))": "enumerate(itertools.zip_longest(*logs), 1)"},
    NO_INDEX,
    "positions are thought to begin with 1",
    "the **first** position, from 0",
)
one_after_the_difference = compared(
    {REPORTED: REPORTED.replace('"index": index', '"index": index + 1')},
    NO_INDEX,
    "the position is thought to be the first that was never reached",
    "at which not all ranks have entries that agree",
)
as_far_as_the_shortest = compared(
    {WALK: "zip(*logs)"},
    ("ended", "culprits", "lines"),
    "logs are thought to end together, as zip does",
    "A rank whose log has ended there has none",
)
says_nothing_of_lengths = compared(
    {"posted = [": "if None in entries:\n            return None\n        posted = ["},
    ("ended", "culprits", "lines"),
    "a rank that posts no more is thought to be done",
    "may be empty: a rank that hangs or has left posts no more",
)
an_empty_log_is_left_out = compared(
    {"    for index": "    logs = [log for log in logs if log] or [[]]\n    for index"},
    ("ended", "culprits", "lines"),
    "a rank that never posted is thought to be no rank",
    "Logs may be of different lengths, and may be empty",
)
rank_0_is_right = compared(
    {LARGEST: "posted[0]"},
    ("ended", "culprits"),
    "rank 0 is thought to be the one that does as it should",
    "a list of the ranks, ascending, that are not of the largest party there",
)
who_is_alone = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if posted.count(what) == 1]"},
    ("ended", "culprits"),
    "a culprit is thought to be alone",
    "that are not of the largest party there",
)
smallest_party = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what == min(posted, key=posted.count)]"},
    ("ended", "culprits"),
    "the smallest party is thought to be to blame, and no other",
    "that are not of the largest party there",
)
no_party_without_a_majority = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what != largest or 2 * posted.count(largest) <= len(posted)]"},
    ("ended", "culprits"),
    "without a majority all are thought to be to blame",
    "the one that has the lowest rank counts as the largest",
)
largest_by_op_alone = compared(
    {LARGEST: "max(filter(None, posted), key=lambda one: [what and what[0] for what in posted].count(one[0]))"},
    ("culprits",),
    "ranks of the same op are thought to be of one party, whatever its bytes",
    "Ranks whose entries agree are a party",
)
the_last_of_equal_ones = compared(
    {LARGEST: "max(filter(None, posted[::-1]), key=posted.count)"},
    ("culprits",),
    "it is thought not to matter which of two equally large parties is kept",
    "the one that has the lowest rank counts as the largest",
)
the_first_by_the_alphabet = compared(
    {LARGEST: "max(sorted(filter(None, posted)), key=posted.count)"},
    ("culprits",),
    "parties are thought to be in order when they are sorted",
    "the one that has the lowest rank counts as the largest",
)
the_party_of_lowest_rank = compared(
    {LARGEST: "next(filter(None, posted))"},
    ("culprits",),
    "the lowest rank that posted is thought to decide, however few are with it",
    "Of several that are equally large",
)
those_that_ended_are_a_party = compared(
    {LARGEST: "max(posted, key=posted.count)"},
    ("ended", "culprits"),
    "most ranks are thought to be right even where they have stopped",
    "ranks whose logs have ended there are no party",
)
the_others_of_those_that_posted = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if what and what != largest]"},
    ("ended", "culprits"),
    "who has posted nothing is thought to have done nothing wrong",
    "all of them are culprits, however many they are: whoever has posted waits for them",
)
the_ended_ones_alone = compared(
    {CULPRITS: "[rank for rank, what in enumerate(posted) if (what is None if None in posted else what != largest)]"},
    ("culprits",),
    "where a rank is missing, nobody else is thought to be to blame",
    "that are not of the largest party there",
)
party_by_party = compared(
    {CULPRITS: "sorted(" + CULPRITS + ", key=lambda rank: str(posted[rank]))"},
    ("culprits",),
    "culprits are thought to belong together by what they posted",
    "a list of the ranks, ascending",
)
sorted_as_words = compared(
    {CULPRITS: "sorted(" + CULPRITS + ", key=str)"}, ("culprits",), "10 is thought to come before 2", "a list of the ranks, ascending"
)
a_set_of_culprits = compared(
    {CULPRITS: "{rank for rank, what in enumerate(posted) if what != largest}"},
    ("ended", "culprits"),
    "a set is thought to be as good as a list",
    "a list of the ranks, ascending",
)
lines_of_the_culprits = compared(
    {LINES: '{rank: entries[rank] and entries[rank]["line"] for rank in culprits}'},
    ("lines",),
    "only the lines of the culprits are thought to be of interest",
    "from every rank to the line of its entry there",
)
lines_of_those_that_posted = compared(
    {LINES: '{rank: entry["line"] for rank, entry in enumerate(entries) if entry}'},
    ("lines",),
    "a rank that has posted nothing is thought to need no entry",
    "or to None where its log has ended",
)
where_they_wait_now = compared(
    {LINES: '{rank: log[-1]["line"] if log else None for rank, log in enumerate(logs)}'},
    ("lines",),
    "the line on which a rank waits is thought to be that on which they parted",
    "from every rank to the line of its entry there",
)
a_list_of_lines = compared(
    {LINES: '[entry and entry["line"] for entry in entries]'},
    ("lines",),
    "a list by rank is taken for a dictionary",
    "a dictionary, from every rank to the line of its entry there",
)
an_empty_report = compared(
    {"return None": "return {}"}, ("agree",), "nothing found is thought to be an empty dictionary", "returns None where all logs are equally long"
)
alone_there_is_nobody = compared(
    {"if not logs:": "if len(logs) < 2:"},
    ("agree",),
    "one rank is thought to have nothing that one could compare",
    "One rank alone always agrees",
)
never_posted_is_no_rank = compared(
    {"if not logs:": "if not any(logs):"},
    ("agree",),
    "ranks that posted nothing are thought not to be there",
    "returns None where all logs are equally long and agree at every position",
)
no_ranks_agree = compared(
    {'    if not logs:\n        raise ValueError("there are no ranks")\n': ""},
    ("errors",),
    "of no ranks all are thought to agree",
    "raises `ValueError` where there are no ranks",
)
another_error = compared(
    {"raise ValueError(": "raise IndexError("},
    ("errors",),
    "whatever is refused is thought to be refused by any exception",
    "raises `ValueError` where there are no ranks",
)
lines_are_taken_out = compared(
    {LINES: '{rank: entry and entry.pop("line") for rank, entry in enumerate(entries)}'},
    NO_INDEX,
    "an entry is thought not to be needed any more",
    "the logs stay as they are",
)
filled_up = compared(
    {"    for index": "    for log in logs:\n        log.extend([None] * (max(map(len, logs)) - len(log)))\n    for index"},
    NO_INDEX,
    "the logs are thought to be one's own to be filled up",
    "the logs stay as they are",
)


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="a rank that posted less is thought to be the only way to part",
    breaks="agree at every position",
)
def by_their_lengths(logs):
    if not logs:
        raise ValueError("no ranks")
    shortest = min(map(len, logs))
    if all(len(log) == shortest for log in logs):
        return None
    lines = {rank: log[shortest]["line"] if len(log) > shortest else None for rank, log in enumerate(logs)}
    return {"index": shortest, "culprits": [rank for rank, log in enumerate(logs) if len(log) == shortest], "lines": lines}


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="what the ranks wait for now is thought to be where they parted",
    breaks='`"index"`: the **first** position',
)
def the_last_that_differs(logs):
    if not logs:
        raise ValueError("no ranks")
    found = None
    for index, entries in enumerate(itertools.zip_longest(*logs)):
        posted = [entry and (entry["op"], entry["bytes"], entry["dtype"]) for entry in entries]
        if len(set(posted)) > 1:
            largest = max(filter(None, posted), key=posted.count)
            culprits = [rank for rank, what in enumerate(posted) if what != largest]
            lines = {rank: entry and entry["line"] for rank, entry in enumerate(entries)}
            found = {"index": index, "culprits": culprits, "lines": lines}
    return found


@mistake(
    "find_desync",
    loses=NO_INDEX,
    because="a collective is thought to occur once in a log, so that it can be looked up in it",
    breaks="in the order in which it did",
)
def looked_up(logs):
    if not logs:
        raise ValueError("no ranks")
    rows = [[(entry["op"], entry["bytes"], entry["dtype"]) for entry in log] for log in logs]
    for row in rows:
        for what in row:
            index = row.index(what)
            posted = [other[index] if index < len(other) else None for other in rows]
            if any(what not in other for other in rows):
                largest = max(filter(None, posted), key=posted.count)
                return {
                    "index": index,
                    "culprits": [rank for rank, one in enumerate(posted) if one != largest],
                    "lines": {rank: log[index]["line"] if index < len(log) else None for rank, log in enumerate(logs)},
                }
    return None


said_of_find_desync = [
    harmless("find_desync", "return None", "pass", because="a function that comes to its end returns None"),
    unbreakable("find_desync", "a list, `logs[rank]` is the log of a rank", because="it says what is handed over"),
    unbreakable("find_desync", 'an entry is a dictionary: `"op"`, `"dtype"` and `"line"` are', because="it says what is handed over"),
    unbreakable("find_desync", "else returns a dictionary of three", because="its entries follow, and mistakes break each of them"),
]


@alternative("find_desync")
def by_hand(logs):
    world = len(logs)
    if world == 0:
        raise ValueError("nobody is there")
    longest = max(len(log) for log in logs)
    index = 0
    while index < longest:
        parties = {}
        missing = []
        for rank in range(world):
            if index >= len(logs[rank]):
                missing.append(rank)
                continue
            entry = logs[rank][index]
            parties.setdefault(f"{entry['op']} {entry['bytes']} {entry['dtype']}", []).append(rank)
        if missing or len(parties) > 1:
            largest = sorted(parties.values(), key=lambda party: (-len(party), party[0]))[0]
            lines = dict.fromkeys(range(world))
            for party in parties.values():
                lines.update((rank, logs[rank][index]["line"]) for rank in party)
            return {"lines": lines, "culprits": sorted(set(range(world)) - set(largest)), "index": index}
        index += 1


@alternative("find_desync")
def each_against_the_first(logs):
    if not len(logs):
        raise ValueError("a group has one rank at least")

    def same(one, other):
        return all(one[what] == other[what] for what in ("dtype", "op", "bytes"))

    def parting(log):
        shorter = min(len(log), len(logs[0]))
        for at in range(shorter):
            if not same(log[at], logs[0][at]):
                return at
        return math.inf if len(log) == len(logs[0]) else shorter

    index = min(parting(log) for log in logs)
    if index == math.inf:
        return None
    there = {rank: log[index] for rank, log in enumerate(logs) if len(log) > index}
    friends = {rank: sum(same(entry, other) for other in there.values()) for rank, entry in there.items()}
    kept = there[min(rank for rank in friends if friends[rank] == max(friends.values()))]
    return {
        "index": index,
        "culprits": [rank for rank in range(len(logs)) if rank not in there or not same(there[rank], kept)],
        "lines": {rank: there[rank]["line"] if rank in there else None for rank in range(len(logs))},
    }
