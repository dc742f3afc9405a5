"""Chapter "Data parallelism in depth": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, harmless, mistake, unbreakable  # noqa: F401

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

ANY_STEP = ("cost", "overlap", "filling", "exposed", "best", "errors")
NO_CUT = ("cost", "filling", "exposed", "best", "errors")
NO_STEP = ("overlap", "filling", "exposed", "best")
WAITS = "free = max(free, ready) + alpha"
STEP = "return float(backward if n == 1 else max(backward, free))"
FULL = "            if held >= bucket:\n                yield ready, held\n                held = 0\n"
REST = "        if held:\n            yield ready, held\n"
BEST = "min(steps, key=lambda bucket: (steps[bucket], bucket))"


def bucketed(edits, loses, because, breaks):
    return edited("best_bucket", edits, loses, because, breaks)


after_the_backward_pass = bucketed(
    {WAITS: "free = max(free, backward) + alpha"},
    NO_STEP,
    "gradients are thought to be sent when all of them are there",
    "Each begins as soon as it is ready and the link is free",
)
one_after_the_other = bucketed(
    {"max(backward, free))": "backward + free)", WAITS: "free = free + alpha"},
    NO_STEP,
    "the link is thought to work when the card does not",
    "whatever is sent meanwhile",
)
perfect_overlap = bucketed(
    {WAITS: "free = free + alpha"},
    ANY_STEP,
    "what overlaps is thought to take as long as the longer of both",
    "Each begins as soon as it is ready and the link is free",
)
nobody_waits = bucketed(
    {WAITS: "free = max(free, ready + alpha", " * held / rate": " * held / rate)"},
    NO_STEP,
    "buckets are thought to share the link without taking it from each other",
    "buckets are all-reduced in this order, one after another",
)
card_waits = bucketed(
    {"now += layer": "now += pause + layer", "now = ready = held = 0": "now = ready = held = 0\n        pause = 0",
     "                yield ready, held\n                held = 0\n": "                yield ready, held\n                pause = alpha\n                held = 0\n            else:\n                pause = 0\n"},
    NO_STEP,
    "the backward pass is thought to wait for whoever starts an all-reduce",
    "layers follow one another without a pause",
)
begins_with_its_first_gradient = bucketed(
    {"ready, held = now, held +": "ready, held = ready if held else now, held +"},
    ("filling", "exposed", "best"),
    "a bucket is thought to leave when its first gradients are in it",
    "a bucket is **ready** as soon as all gradients in it are",
)
ready_before_its_layer = bucketed(
    {"            now += layer[\"us\"]\n": "", FULL: FULL + '            now += layer["us"]\n'},
    ANY_STEP,
    "gradients are thought to be there when the layer's turn begins",
    "A layer's gradients are ready when its microseconds are over",
)
sent_with_the_next = bucketed(
    {REST: "        if held:\n            yield now, held\n"},
    ("filling", "exposed", "best"),
    "the rest is thought to be found out at the end of the pass",
    "Which gradients share a bucket is settled before the pass: a bucket is **ready** as soon as all gradients in it are, and waits for no "
    "layer without bytes that comes later",
)
up_to_the_limit = bucketed(
    {"if held >= bucket:": "if held > bucket:"},
    ("filling", "best"),
    "a bucket that holds just as much as it may is thought to have room",
    "As soon as a bucket holds the chosen bytes or more",
)
never_more_than_the_limit = bucketed(
    {FULL: "", '            if layer["bytes"]:\n': '            if held and held + layer["bytes"] > bucket:\n                yield ready, held\n                held = 0\n            if layer["bytes"]:\n'},
    ("filling", "best"),
    "the size is thought to be what a bucket may not exceed",
    "As soon as a bucket holds the chosen bytes or more, the next gradients begin a new one",
)
from_the_first_layer = bucketed(
    {"for layer in layers:": "for layer in reversed(layers):"},
    NO_STEP,
    "the layers are thought to stand in the order of the forward pass",
    "in the order of the backward pass, which begins with the last layer of the model",
)
divided_gradients = bucketed(
    {FULL: "            while held >= bucket:\n                yield ready, min(held, bucket)\n                held -= bucket\n"},
    ANY_STEP,
    "buckets are thought to be filled to the last byte",
    "Those of a layer are not divided",
)
equal_buckets = bucketed(
    {"        now = ready = held = 0\n": "        now = ready = held = 0\n        count = -(-sum(layer[\"bytes\"] for layer in layers) // bucket)\n        bucket = -(-sum(layer[\"bytes\"] for layer in layers) // max(count, 1)) or 1\n"},
    ("filling", "best"),
    "the bytes are thought to be shared out evenly among as many buckets as are needed",
    "As soon as a bucket holds the chosen bytes or more",
)
a_first_one_of_a_mebibyte = bucketed(
    {"now = ready = held = 0": "now = ready = held = 0\n        limits = iter([min(bucket, 1 << 20)])\n        limit = next(limits)",
     "if held >= bucket:": "if held >= limit:", "                held = 0\n": "                held, limit = 0, bucket\n"},
    ("filling", "best"),
    "the first bucket is thought to be as small as DDP makes it",
    "This limit is the same for every bucket, the first one too",
)
kept_the_rest = bucketed(
    {REST: ""},
    NO_CUT,
    "a bucket that is not full is thought to stay for the next step",
    "what is left after the last layer is a bucket too",
)
an_empty_one = bucketed(
    {"        if held:\n": "        if not held >= bucket:\n"},
    ANY_STEP,
    "the last bucket is thought to be sent whether anything is in it or not",
    "unless it holds no bytes",
)
layers_by_size = bucketed(
    {"for layer in layers:": 'for layer in sorted(layers, key=lambda layer: layer["bytes"]):'},
    NO_STEP,
    "buckets are thought to be filled best with the small gradients first",
    "gradients are put into buckets in the order of `layers`",
)
each_object_once = bucketed(
    {"for layer in layers:": "for layer in {id(layer): layer for layer in layers}.values():"},
    NO_STEP,
    "layers that are alike are thought to be one",
    "One and the same dictionary may stand in the list several times",
)
fused_empty_layers = bucketed(
    {"layers:\n            now +=": "filter(lambda layer: layer[\"bytes\"], layers):\n            now +="},
    ("filling", "best"),
    "a layer without gradients is thought to take no part in the backward pass",
    "layers follow one another without a pause",
)
whole_buffer_once = bucketed(
    {"2 * (n - 1) / n * held": "held"},
    ANY_STEP,
    "an all-reduce is thought to send the bucket once",
    "2 (n - 1) / n times the bucket's bytes",
)
one_way_of_the_ring = bucketed(
    {"2 * (n - 1) / n * held": "(n - 1) / n * held"},
    ANY_STEP,
    "an all-reduce is thought to be over when the sums are there, each at one rank",
    "2 (n - 1) / n times the bucket's bytes",
)
as_if_many_ranks = bucketed(
    {"2 * (n - 1) / n * held": "2 * held"},
    ANY_STEP,
    "2 (n - 1) / n is thought to be 2",
    "2 (n - 1) / n times the bucket's bytes",
)
whole_shares = bucketed(
    {"2 * (n - 1) / n * held / rate": "2 * (n - 1) // n * held / rate"},
    ANY_STEP,
    "the shares are thought to be whole numbers",
    "2 (n - 1) / n times the bucket's bytes",
)
no_latency_left = bucketed(
    {WAITS: "free = max(free, ready)"},
    ANY_STEP,
    "a link is thought to cost bytes only",
    "an all-reduce takes `alpha_us`, and then",
)
latency_of_every_rank = bucketed(
    {WAITS: "free = max(free, ready) + 2 * (n - 1) * alpha"},
    ANY_STEP,
    "the latency is thought to be that of one message of a ring",
    "an all-reduce takes `alpha_us`, and then",
)
latency_when_idle = bucketed(
    {WAITS: "free = max(free, ready + alpha)"},
    NO_STEP,
    "latencies are thought to pass while the link is busy",
    "buckets are all-reduced in this order, one after another",
)
alone_with_itself = bucketed(
    {"backward if n == 1 else max(backward, free)": "max(backward, free)"},
    ("cost", "exposed", "best", "errors"),
    "one rank is thought to start an all-reduce like any other",
    "With one rank nothing is sent, which takes no time",
)
over_with_the_last_bucket = bucketed(
    {"max(backward, free))": "free)"},
    ("filling", "exposed", "best"),
    "a step is thought to end with its last all-reduce",
    "is over when the backward pass and the last all-reduce are",
)
over_with_the_backward_pass = bucketed(
    {STEP: "return float(free)", "steps = {bucket: step(bucket) for bucket in buckets}": "spent = {bucket: step(bucket) for bucket in buckets}\n    steps = {bucket: float(backward) for bucket in buckets}",
     "us - backward for bucket, us in steps.items()": "max(us - backward, 0.0) for bucket, us in spent.items()"},
    ANY_STEP,
    "what overlaps is thought not to count in the step",
    "is over when the backward pass and the last all-reduce are",
)
all_communication = bucketed(
    {"us - backward for bucket, us in steps.items()": "sum(alpha + 2 * (n - 1) / n * held / rate for _, held in filled(bucket)) for bucket in steps"},
    ("exposed",),
    "everything that is sent is thought to be exposed",
    "the microseconds of the step **after the backward pass ended**",
)
the_last_bucket_only = bucketed(
    {"us - backward for bucket, us in steps.items()": "min(us - backward, ([0.0] + [alpha + 2 * (n - 1) / n * held / rate for _, held in filled(bucket)])[-1]) for bucket, us in steps.items()"},
    ("exposed",),
    "all buckets but the last are thought to hide behind the backward pass",
    "the microseconds of the step **after the backward pass ended**",
)
a_share_of_the_step = bucketed(
    {"us - backward for bucket, us in steps.items()": "(us - backward) / (us or 1) for bucket, us in steps.items()"},
    ("exposed",),
    "exposed communication is thought to be a share, as papers print it",
    "for each size the microseconds of the step **after the backward pass ended**, a float",
)
hidden_counted_below_zero = bucketed(
    {"us - backward for bucket, us in steps.items()": "max([0.0] + [ready + alpha + 2 * (n - 1) / n * held / rate for ready, held in filled(bucket)]) - backward for bucket in steps"},
    ("exposed",),
    "the last bucket is thought never to wait for the one before it, and one that is hidden to count against the rest",
    "`\"exposed_us\"`: a dictionary that gives for each size the microseconds",
)
the_smallest = bucketed(
    {BEST: "min(buckets)"},
    ("best",),
    "the earlier a gradient leaves, the better it is thought to be",
    "`\"best\"`: the size with the shortest step",
)
the_largest = bucketed(
    {BEST: "max(buckets)"},
    ("best",),
    "the fewer all-reduces there are, the better it is thought to be",
    "`\"best\"`: the size with the shortest step",
)
the_usual = bucketed(
    {BEST: "min(buckets, key=lambda bucket: abs(bucket - 25 * 2**20))"},
    ("best",),
    "25 MiB is thought to be the best size, since it is the default",
    "`\"best\"`: the size with the shortest step",
)
the_middle = bucketed(
    {BEST: "sorted(steps)[len(steps) // 2]"},
    ("best",),
    "a U is thought to have its lowest point in the middle",
    "`\"best\"`: the size with the shortest step",
)
first_of_equal_ones = bucketed(
    {BEST: "min(steps, key=steps.get)"},
    ("best",),
    "of equal ones any is thought to do",
    "of sizes whose steps are equally long the smallest",
)
largest_of_equal_ones = bucketed(
    {BEST: "min(steps, key=lambda bucket: (steps[bucket], -bucket))"},
    ("best",),
    "of equal ones the one with fewer all-reduces is thought to be due",
    "of sizes whose steps are equally long the smallest",
)
its_time = bucketed(
    {BEST: "min(steps.values())"},
    ("best",),
    "the best is thought to be a time",
    "`\"best\"`: the size with the shortest step",
)
a_list_of_times = bucketed(
    {'{"step_us": steps,': '{"step_us": list(steps.values()),'},
    ANY_STEP,
    "the times are thought to be in the order of the sizes",
    "`\"step_us\"`: a dictionary that gives for each size in `buckets`",
)
seconds = bucketed(
    {STEP: "return 1e-6 * float(backward if n == 1 else max(backward, free))", "us - backward for": "us - 1e-6 * backward for"},
    ANY_STEP,
    "times are thought to be seconds",
    "for each size in `buckets` the microseconds of the step",
)
whole_microseconds = bucketed(
    {"step(bucket) for bucket in buckets": "float(round(step(bucket))) for bucket in buckets"},
    ANY_STEP,
    "a microsecond is thought to be as exact as a time can be",
    "a time may be wrong by rounding, up to a billionth of the step",
)
two_entries = bucketed(
    {'"exposed_us": exposed, ': ""},
    ANY_STEP,
    "what is exposed is thought to follow from the step",
    "returns a dictionary with three entries",
)
sorts_what_it_is_given = bucketed(
    {"    backward = sum(": "    buckets.sort()\n    backward = sum("},
    ("overlap", "filling", "best", "exposed", "cost", "errors"),
    "a list of one's caller is thought to be one's own",
    "the lists and the dictionaries stay as they are",
)
fills_in_place = bucketed(
    {"            now += layer[\"us\"]\n": "            now += layer[\"us\"]\n            layer[\"ready\"] = now\n"},
    ANY_STEP,
    "a dictionary is thought to be a good place for what one finds out",
    "the lists and the dictionaries stay as they are",
)
goes_on_where_it_was = bucketed(
    {"    def step(bucket):\n        free = 0\n": "    free = 0\n\n    def step(bucket):\n        nonlocal free\n"},
    ANY_STEP,
    "the link's clock is thought to begin by itself for each size",
    "the step begins with the first layer",
)
sizes_each_once = bucketed(
    {"if not layers or not buckets or": "if not layers or not buckets or len(set(buckets)) < len(buckets) or"},
    ("best",),
    "a size that is listed twice is thought to be an error",
    "in any order, and maybe more than once",
)
link_by_position = bucketed(
    {'n, alpha, rate = link["ranks"], link["alpha_us"], link["bytes_per_us"]': "alpha, rate, n = link.values()"},
    ANY_STEP,
    "the entries of a dictionary are thought to come in the order in which a text lists them",
    'a dictionary with `"alpha_us"`, `"bytes_per_us"` and `"ranks"`',
)
sizes_in_order = bucketed(
    {"    backward = sum(": "    if list(buckets) != sorted(buckets):\n        raise ValueError(\"not in order\")\n    backward = sum("},
    ANY_STEP,
    "sizes are thought to be listed in order",
    "integers in bytes, in any order",
)
no_layers_no_step = bucketed(
    {"if not layers or not buckets or": "if not buckets or"},
    ("errors",),
    "nothing is thought to take no time",
    "raises `ValueError` when there are no layers or no sizes",
)
no_sizes = bucketed(
    {"if not layers or not buckets or min(buckets) < 1 or": "if not layers or min(buckets, default=1) < 1 or",
     BEST: "min(steps, key=lambda bucket: (steps[bucket], bucket), default=None)"},
    ("errors",),
    "no sizes are thought to have no best one, and nothing more",
    "raises `ValueError` when there are no layers or no sizes",
)
size_of_nothing = bucketed(
    {"min(buckets) < 1": "min(buckets) < 0"},
    ("errors",),
    "0 is thought to stand for a bucket for each layer",
    "for a size less than 1",
)
first_size_looked_at = bucketed(
    {"min(buckets) < 1": "buckets[0] < 1"},
    ("errors",),
    "sizes are thought to rise",
    "for a size less than 1",
)
no_ranks_at_all = bucketed(
    {"n < 1 or": "n == 0 or"},
    ("errors",),
    "only a division by 0 is thought to be wrong",
    "and `\"ranks\"` less than 1",
)
free_links = bucketed(
    {" or rate <= 0": ""},
    ("errors",),
    "a division is thought to refuse what it cannot divide by",
    "`bytes_per_us` not greater than 0",
)
rate_of_one_rank = bucketed(
    {" or rate <= 0": " or (n > 1 and rate <= 0)"},
    ("errors",),
    "what is not used is thought to need no look",
    "`bytes_per_us` not greater than 0",
)
early_links = bucketed(
    {" or alpha < 0": ""},
    ("errors",),
    "a latency is thought to be what it is",
    "for `alpha_us` less than 0",
)
layers_unseen = bucketed(
    {'layer["us"] < 0 or layer["bytes"] < 0': 'layer["us"] < 0'},
    ("errors",),
    "bytes are thought never to be less than none",
    "for a layer's microseconds or bytes less than 0",
)
times_unseen = bucketed(
    {'layer["us"] < 0 or layer["bytes"] < 0': 'layer["bytes"] < 0'},
    ("errors",),
    "times are thought never to be less than none",
    "for a layer's microseconds or bytes less than 0",
)
totals_looked_at = bucketed(
    {'any(layer["us"] < 0 or layer["bytes"] < 0 for layer in layers)': 'sum(layer["us"] for layer in layers) < 0 or sum(layer["bytes"] for layer in layers) < 0'},
    ("errors",),
    "the sums are thought to show what is wrong with one",
    "for a layer's microseconds or bytes less than 0",
)
refused_without_bytes = bucketed(
    {'layer["bytes"] < 0': 'layer["bytes"] < 1'},
    ("filling", "exposed", "best"),
    "every layer is thought to have parameters",
    "the bytes of its gradients, an integer, 0 or more",
)
refused_without_time = bucketed(
    {'layer["us"] < 0': 'layer["us"] <= 0'},
    ("cost", "overlap", "exposed", "best", "errors"),
    "every layer is thought to take time",
    "the microseconds of its part of the backward pass, 0 or more",
)


@alternative("best_bucket")
def best_bucket_backwards(layers, link, buckets):
    from fractions import Fraction
    from itertools import accumulate

    n, alpha, rate = link["ranks"], Fraction(link["alpha_us"]), Fraction(link["bytes_per_us"])
    numbers = [number for layer in layers for number in (layer["us"], layer["bytes"])]
    if n < 1 or rate <= 0 or min([*numbers, alpha], default=-1) < 0 or not all(size >= 1 for size in buckets) or not (layers and buckets):
        raise ValueError("no such step")
    ends = list(accumulate(Fraction(layer["us"]) for layer in layers))
    given = [(end, layer["bytes"]) for end, layer in zip(ends, layers) if layer["bytes"]]

    def after(at, link_free, bucket):
        while at < len(given) and n > 1:
            stop, held = at, 0
            while stop < len(given) and held < bucket:
                held += given[stop][1]
                stop += 1
            link_free = max(link_free, given[stop - 1][0]) + alpha + Fraction(2 * (n - 1) * held, n) / rate
            at = stop
        return max(ends[-1], link_free)

    times = {bucket: after(0, Fraction(0), bucket) for bucket in sorted(set(buckets))}
    best, _ = min(times.items(), key=lambda item: item[1])
    return {
        "best": best,
        "exposed_us": {bucket: float(us - ends[-1]) for bucket, us in times.items()},
        "step_us": {bucket: float(us) for bucket, us in times.items()},
    }


@alternative("best_bucket")
def best_bucket_by_chains(layers, link, buckets):
    import numpy as np

    n, alpha, rate = link["ranks"], link["alpha_us"], link["bytes_per_us"]
    us, sizes = (np.array([layer[key] for layer in layers], dtype=np.float64) for key in ("us", "bytes"))
    if not (len(us) and len(buckets)) or n < 1 or rate <= 0 or alpha < 0 or us.min() < 0 or sizes.min() < 0 or min(buckets) < 1:
        raise ValueError("no such step")
    ends, total = us.cumsum(), us.cumsum()[-1]
    found = {"step_us": {}, "exposed_us": {}, "best": None}
    for bucket in sorted(buckets):
        ready, held = [], []
        for end, size in zip(ends[sizes > 0], sizes[sizes > 0]):
            if not held or held[-1] >= bucket:
                ready.append(end)
                held.append(size)
            else:
                ready[-1] = end
                held[-1] += size
        takes = alpha + 2 * (n - 1) / n * np.array(held) / rate
        # A step ends after some bucket that the link stood ready for, and all that follow it.
        chains = [start + takes[number:].sum() for number, start in enumerate(ready)] if n > 1 else []
        found["step_us"][bucket] = max([total, *chains])
        found["exposed_us"][bucket] = found["step_us"][bucket] - total
        if found["best"] is None or found["step_us"][bucket] < found["step_us"][found["best"]]:
            found["best"] = bucket
    return found


before_the_step = harmless("best_bucket", "free = 0", "free = (-1)", "no bucket is ready before the step begins, so the later moment is the same")

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


@mistake(
    "reduce_metrics",
    loses=("values",),
    because="WRITE(reduce_metrics): the misconception, as half a sentence",
    breaks="WRITE(reduce_metrics): the words of the statement that it breaks",
)
def reduce_metrics_misunderstood(totals):
    return x.clone()  # WRITE(reduce_metrics): what someone with this misconception writes; one function for each


@alternative("reduce_metrics")
def reduce_metrics_another_way(totals):
    raise NotImplementedError("WRITE(reduce_metrics): a right solution, as unlike yours as can be")

# E14.5 find_desync


@mistake(
    "find_desync",
    loses=("values",),
    because="WRITE(find_desync): the misconception, as half a sentence",
    breaks="WRITE(find_desync): the words of the statement that it breaks",
)
def find_desync_misunderstood(logs):
    return x.clone()  # WRITE(find_desync): what someone with this misconception writes; one function for each


@alternative("find_desync")
def find_desync_another_way(logs):
    raise NotImplementedError("WRITE(find_desync): a right solution, as unlike yours as can be")
