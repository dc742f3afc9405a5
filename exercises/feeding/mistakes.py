"""Chapter "Feeding the device": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable  # noqa: F401

# E11.1 pipeline_throughput

summed = edited(
    "pipeline_throughput",
    {"    if workers == 0:\n": "    if True:\n"},
    loses=("consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="the stages are thought to run one after the other, workers or not",
    breaks="The workers work side by side, and they share `cores` cores",
)

one_worker_at_least = edited(
    "pipeline_throughput",
    {'    if workers == 0:\n        parts = [(seconds("wait", "core", "main", "device"), 1)]\n': "", ', workers), (seconds("core")': ', max(workers, 1)), (seconds("core")'},
    loses=("serial", "idle", "bottleneck"),
    because="a loader without workers is thought to load beside the training",
    breaks="with no workers the thread that trains makes the batches itself, and nothing overlaps",
)

past_the_cores = edited(
    "pipeline_throughput",
    {'(seconds("core"), cores), ': ""},
    loses=("cores", "prefetch", "idle", "bottleneck"),
    because="twice the workers are thought to be twice as fast, however many cores there are",
    breaks="what they compute goes no faster than that",
)

waiting_on_a_core = edited(
    "pipeline_throughput",
    {'(seconds("core"), cores)': '(seconds("wait", "core"), cores)'},
    loses=("workers", "cores", "prefetch", "idle", "bottleneck"),
    because="a worker that waits for the storage is thought to hold a core",
    breaks="waits for the storage, and needs no core",
)

at_most_as_many_as_cores = edited(
    "pipeline_throughput",
    {'parts = [(seconds("wait", "core"), workers), (seconds("core"), cores), ': 'parts = [(seconds("wait", "core"), min(workers, cores) or 1), '},
    loses=("workers", "cores", "prefetch", "idle", "bottleneck"),
    because="workers beyond the cores are thought to be of no use, also where they only wait",
    breaks="they share `cores` cores",
)

a_core_for_the_training = edited(
    "pipeline_throughput",
    {'(seconds("core"), cores)': '(seconds("core"), max(cores - 1, 1))'},
    loses=("workers", "cores", "prefetch"),
    because="the thread that trains is thought to take one of the cores",
    breaks="Neither uses one of the `cores`",
)

prefetch_as_speed = edited(
    "pipeline_throughput",
    {'(seconds("wait", "core"), workers)': '(seconds("wait", "core"), workers * prefetch)'},
    loses=("workers", "cores", "units", "prefetch", "idle", "bottleneck"),
    because="batches asked ahead are thought to be made side by side",
    breaks="it makes no difference how many there are",
)

one_ahead_is_none = edited(
    "pipeline_throughput",
    {"    if workers == 0:\n": "    if workers * prefetch < 2:\n"},
    loses=("prefetch",),
    because="a worker with one batch asked ahead is thought to make nothing while the device computes",
    breaks="One worker with one batch asked ahead makes the next batch while the device computes, too",
)

prefetch_over_everything = edited(
    "pipeline_throughput",
    {"return batch / period": "return batch / period * (1 + prefetch / 4)"},
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="a larger prefetch factor is taken for a faster loader",
    breaks="once the start is over, it makes no difference how many there are",
)

sample_by_sample = edited(
    "pipeline_throughput",
    {"took * (batch if per == \"sample\" else 1)": "took * batch"},
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="collating and moving are thought to happen for each sample",
    breaks="for what the stage runs once",
)

batch_by_batch = edited(
    "pipeline_throughput",
    {"took * (batch if per == \"sample\" else 1)": "took"},
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="a worker is thought to read its samples at once",
    breaks="`per` is `\"sample\"` or `\"batch\"`: for what the stage runs once",
)

shared_by_the_workers = edited(
    "pipeline_throughput",
    {"took * (batch if per == \"sample\" else 1)": "took * (batch / max(workers, 1) if per == \"sample\" else 1)"},
    loses=("consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="the workers are thought to share out the samples of one batch",
    breaks="makes whole batches, one after the other, all their stages in turn",
)

stages_of_a_worker_overlap = edited(
    "pipeline_throughput",
    {"    period = sum(slowest.values()) / many\n": "    period = max(max(part.values(), default=0) / many for part, many in parts)\n"},
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="the slowest stage is thought to set the rate, as if each ran in a process of its own",
    breaks="one after the other, all their stages in turn",
)

main_beside_the_device = edited(
    "pipeline_throughput",
    {'(seconds("main", "device"), 1)]\n    if': '(seconds("main"), 1), (seconds("device"), 1)]\n    if'},
    loses=("consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="the device is thought to compute while its next batch is moved",
    breaks="The two take turns: a batch is moved, the device computes it, then the next one is moved",
)

main_in_the_workers = edited(
    "pipeline_throughput",
    {'(seconds("wait", "core"), workers)': '(seconds("wait", "core", "main"), workers)', '(seconds("main", "device"), 1)]\n    if': '(seconds("device"), 1)]\n    if'},
    loses=("consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="what the main thread does is thought to be the workers' work",
    breaks='stages in `"main"` run in the thread that trains, those on `"device"` on the device',
)

batches_per_second = edited(
    "pipeline_throughput",
    {"return batch / period": "return 1 / period"},
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="batches are counted",
    breaks="`rate`: samples per second",
)

main_is_no_idling = edited(
    "pipeline_throughput",
    {'1 - sum(seconds("device").values()) / period': '1 - sum(seconds("main", "device").values()) / period'},
    loses=("idle",),
    because="only waiting for the workers is counted as idle",
    breaks="in which the device does not compute",
)

idle_is_busy = edited(
    "pipeline_throughput",
    {'1 - sum(seconds("device").values()) / period': 'sum(seconds("device").values()) / period'},
    loses=("idle",),
    because="utilisation is returned",
    breaks="the share of the time, from 0 to 1, in which the device does not compute",
)

idle_in_percent = edited(
    "pipeline_throughput",
    {'1 - sum(seconds("device").values()) / period': '100 - 100 * sum(seconds("device").values()) / period'},
    loses=("idle",),
    because="a share is given in percent",
    breaks="the share of the time, from 0 to 1",
)

longest_of_all = edited(
    "pipeline_throughput",
    {"max(slowest, key=slowest.get)": "max((s := seconds('wait', 'core', 'main', 'device')), key=s.get)"},
    loses=("bottleneck",),
    because="the longest stage is mended first, also where many workers share it",
    breaks="of those that use the slowest part",
)

without_workers_the_device_or_its_thread = edited(
    "pipeline_throughput",
    {"max(slowest, key=slowest.get)": 'max(seconds("main", "device") if workers == 0 else slowest, key=slowest.get)'},
    loses=("bottleneck",),
    because="the thread that trains is thought to use its own stages alone, also where it makes the batches",
    breaks="it is the slowest part, and every stage uses it",
)

only_the_device_is_slow = edited(
    "pipeline_throughput",
    {"max(slowest, key=slowest.get)": 'max(seconds("device") if slowest.keys() == seconds("main", "device").keys() else slowest, key=slowest.get)'},
    loses=("bottleneck",),
    because="a thread is thought to be slow by its device alone",
    breaks="the stage that takes longest for one batch, of those that use the slowest part",
)

shortest_for_a_sample = edited(
    "pipeline_throughput",
    {"max(slowest, key=slowest.get)": "max((stage for stage in stages if stage[0] in slowest), key=lambda stage: stage[3])[0]"},
    loses=("bottleneck",),
    because="seconds of a sample are compared with seconds of a batch",
    breaks="the name of the stage that takes longest for one batch",
)

no_time_is_refused = edited(
    "pipeline_throughput",
    {"took < 0": "took <= 0"},
    loses=("units",),
    because="a stage that takes no time is thought to be none",
    breaks="`seconds` is what that takes, 0 or more",
)

place_for_a_stage = edited(
    "pipeline_throughput",
    {"max(slowest, key=slowest.get)": "next(where for name, where, *_ in stages if name == max(slowest, key=slowest.get))"},
    loses=("bottleneck",),
    because="the part is named and not the stage",
    breaks="`bottleneck`: the name of the stage",
)


def unchecked(edits, because, breaks):
    return edited("pipeline_throughput", edits, loses=("errors",), because=because, breaks=breaks)


refusals_left_out = [
    unchecked({"if min(batch, cores, prefetch) < 1 or workers < 0:": "if False:"}, "numbers are thought to be right", "raises `ValueError` where `batch`, `cores` or `prefetch` is less than 1"),
    unchecked({"min(batch, cores, prefetch) < 1": "min(batch, cores) < 1"}, "prefetch has no part in the result, so it is not looked at", "how many batches each worker is asked for before they are needed, 1 or more"),
    unchecked({" or workers < 0": ""}, "a negative number of workers is thought to be none", "or `workers` less than 0"),
    unchecked({' or per not in ("sample", "batch")': ""}, "whatever is not for a sample is taken to be for a batch", "for a `where` or `per` that is none of these"),
    unchecked({" or took < 0": ""}, "seconds are thought to be positive", "seconds below 0, or a name that comes twice"),
    unchecked({"len({name for name, *_ in stages}) < len(stages)": "False"}, "a dictionary keeps the last of two stages silently", "each with a name of its own"),
    unchecked({"len({name for name, *_ in stages}) < len(stages)": "len({(name, where) for name, where, *_ in stages}) < len(stages)"}, "a name is thought to be one for each place", "or a name that comes twice"),
    unchecked({"not any(took for _, where, _, took in stages if where == \"device\")": "False"}, "a pipeline without a device is thought to be one that is always idle", "where the stages on the device take 0 seconds together"),
]


@alternative("pipeline_throughput")
def pipeline_played(stages, batch, workers, cores, prefetch):
    """Finish times, batch after batch, of a line of servers."""
    if batch < 1 or cores < 1 or prefetch < 1 or workers < 0 or len(dict((s[0], s) for s in stages)) != len(stages):
        raise ValueError("no loader")
    per_batch = {"wait": {}, "core": {}, "main": {}, "device": {}}
    for name, where, per, seconds in stages:
        times = {"sample": batch, "batch": 1}.get(per)
        if where not in per_batch or seconds < 0 or times is None:
            raise ValueError(name)
        per_batch[where][name] = seconds * times
    total = {where: sum(found.values()) for where, found in per_batch.items()}
    if total["device"] <= 0:
        raise ValueError("no device")
    made = total["wait"] + total["core"]
    line = total["main"] + total["device"]
    if not workers:
        period, used = made + line, ("wait", "core", "main", "device")
    elif line >= made / workers and line >= total["core"] / cores:
        period, used = line, ("main", "device")
    elif made / workers >= total["core"] / cores:
        period, used = made / workers, ("wait", "core")
    else:
        period, used = total["core"] / cores, ("core",)
    candidates = [(seconds, name) for where in used for name, seconds in per_batch[where].items()]
    return batch / period, max(0.0, (period - total["device"]) / period), max(candidates)[1]


@alternative("pipeline_throughput")
def pipeline_as_a_long_run(stages, batch, workers, cores, prefetch):
    """How long a thousand batches keep each part busy."""
    from collections import defaultdict

    if not (batch >= 1 and cores >= 1 and prefetch >= 1 and workers >= 0):
        raise ValueError
    busy, stage_seconds, homes = defaultdict(float), {}, {}
    for name, where, per, seconds in stages:
        if name in homes or where not in {"wait", "core", "main", "device"} or per not in {"sample", "batch"} or not seconds >= 0:
            raise ValueError(name)
        homes[name], stage_seconds[name] = where, 1000 * seconds * (batch, 1)[per == "batch"]
        for part in {"wait": ["w"], "core": ["w", "c"], "main": ["t"], "device": ["t", "d"]}[where]:
            busy[part if workers or part == "d" else "t"] += stage_seconds[name] * (1 if workers or part != "c" else 0)
    if not busy["d"]:
        raise ValueError("idle for ever")
    run = {"w": busy["w"] / workers, "c": busy["c"] / cores, "t": busy["t"]} if workers else {"t": busy["t"]}
    part = max(run, key=run.get)
    among = {"w": ("wait", "core"), "c": ("core",), "t": ("main", "device") if workers else ("wait", "core", "main", "device")}[part]
    name = sorted((n for n in homes if homes[n] in among), key=stage_seconds.get)[-1]
    return 1000 * batch / run[part], 1 - busy["d"] / run[part], name


@alternative("pipeline_throughput")
def pipeline_in_numpy(stages, batch, workers, cores, prefetch):
    """A matrix of parts by places; numbers come as NumPy's."""
    places, units = ["wait", "core", "main", "device"], ["batch", "sample"]
    if min(batch, cores, prefetch) < 1 or workers < 0 or len({stage[0] for stage in stages}) != len(stages):
        raise ValueError("numbers or names")
    # list.index raises ValueError itself for an unknown word
    where = np.array([places.index(stage[1]) for stage in stages], dtype=int)
    took = np.array([stage[3] * (1, batch)[units.index(stage[2])] for stage in stages], dtype=float)
    sums = np.bincount(where, took, minlength=4) if len(took) else np.zeros(4)
    if (took < 0).any() or not sums[3]:
        raise ValueError("seconds")
    uses = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]) if workers else np.ones((1, 4))
    periods = uses @ sums / (np.array([workers, cores, 1]) if workers else 1)
    part = periods.argmax()
    longest = np.where(uses[part][where] > 0, took, -1).argmax()
    return batch / periods[part], 1 - sums[3] / periods[part], stages[longest][0]


@mistake(
    "pipeline_throughput",
    loses=("serial", "consumer", "workers", "cores", "units", "prefetch", "idle", "bottleneck", "errors"),
    because="what the chapter's own instrument says is thought to be an answer",
    breaks="you write it without gpulab, which has what each part allows, too: a call of it loses the points",
)
def asked_of_gpulab(stages, batch, workers, cores, prefetch):
    from gpulab.feeding import Loader, Stages, bounds

    ms = dict.fromkeys(("wait", "core", "main", "device"), 0.0)
    for _, where, per, took in stages:
        if took < 0:
            raise ValueError
        ms[where] += 1000 * took * (batch if per == "sample" else 1)
    allowed = bounds(Stages(fetch=ms["wait"], decode=ms["core"], transfer=ms["main"], step=ms["device"]), Loader(workers, prefetch, cores))
    part = min(allowed, key=allowed.get)
    uses = {"all in turn": ms, "workers": ("wait", "core"), "cores": ("core",), "transfer and step": ("main", "device")}[part]
    longest = max((stage for stage in stages if stage[1] in uses), key=lambda stage: stage[3] * (batch if stage[2] == "sample" else 1))
    return allowed[part] * batch, 1 - allowed[part] * ms["device"] / 1000, longest[0]


unbreakable_pipeline = [
    unbreakable("pipeline_throughput", "Due is what this part allows while it always has work", "a solution that plays workers in phase is right by chance; `stages_of_a_worker_overlap` and others give more"),
    unbreakable("pipeline_throughput", "Workers that wait, and then compute, all at the same moments stay below it", "it says why a part may give less, and that this does not count"),
    unbreakable("pipeline_throughput", "Where two parts or two stages take equally long, either will do", "it permits, and no table has such"),
    unbreakable("pipeline_throughput", "the rate and the share are numbers, Python's or NumPy's", "it permits"),
    unbreakable("pipeline_throughput", "in any order", "no solution that reads the names of places depends on it"),
    unbreakable("pipeline_throughput", "`batch`: samples in a batch", "it names an argument"),
    unbreakable("pipeline_throughput", "The rate is to be right to 3 %", "it demands what the other clauses say, and permits rounding"),
    unbreakable("pipeline_throughput", "Every batch takes as long as any other", "it is a promise of the caller"),
    unbreakable("pipeline_throughput", "for the long run, once the start is over", "a solution that simulates the start is one of the wrong rates above"),
    unbreakable("pipeline_throughput", "the workers together, their cores together, or the thread with its device", "those above that leave a part out break it"),
]

# E11.2 pick_workers

PICKS = ("knee", "budget", "falling", "noise", "few", "errors")


def wrong_budget(budget, because, breaks, loses=("budget",)):
    return edited("pick_workers", {"max(len(cores) // ranks_per_node - 1, 0)": budget}, loses=loses, because=because, breaks=breaks)


budgets_misjudged = [
    wrong_budget("max(os.cpu_count() // ranks_per_node - 1, 0)", "the machine's cores are taken for the job's", "a container or a scheduler often grants fewer than the machine has", ("budget", "few")),
    wrong_budget("max(max(cores) // ranks_per_node - 1, 0)", "core numbers are thought to begin with 0", "the set of core numbers that this job may run on", ("budget", "few")),
    wrong_budget("max(len(cores) - 1, 0)", "every rank is thought to have the node to itself", "share them evenly", ("budget",)),
    wrong_budget("len(cores) // ranks_per_node", "the training process is thought to need no core", "each keeps one core for its training process", ("budget", "few")),
    wrong_budget("max((len(cores) - 1) // ranks_per_node, 0)", "one core is kept for all training processes together", "each keeps one core for its training process", ("budget",)),
    wrong_budget("max(-(-len(cores) // ranks_per_node) - 1, 0)", "cores left over are given to every rank", "a whole number; where nothing is left it is 0", ("budget",)),
    wrong_budget("min(max(len(cores) // ranks_per_node - 1, 0), 8)", "eight workers are thought to be enough for anyone", "up to a certain number of workers, the knee", PICKS),
    wrong_budget("max(len(cores) // ranks_per_node // 2, 0)", "half of the cores is the number that everyone recommends", "What is left for the workers of a rank is its budget", PICKS),
]


@mistake(
    "pick_workers",
    loses=PICKS,
    because="a rule of thumb is thought to know the job",
    breaks="returns a Python integer: the knee",
)
def eight_or_fewer(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    return min(max(len(cores) // ranks_per_node - 1, 0), 8)


@mistake(
    "pick_workers",
    loses=("few",),
    because="every number is tried, up to the knee",
    breaks="it is called at most `3 * b` times",
)
def one_after_the_other(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    budget = max(len(cores) // ranks_per_node - 1, 0)
    if not budget:
        return 0
    workers, rate = 0, measure(0)
    while workers < budget and (more := measure(workers + 1)) > 1.02 * rate:
        workers, rate = workers + 1, more
    return workers


@mistake(
    "pick_workers",
    loses=PICKS,
    because="the fastest measurement is thought to show the best number",
    breaks="Two calls with one number may differ, each by up to half a percent of the true rate",
)
def fastest_of_all(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    budget = max(len(cores) // ranks_per_node - 1, 0)
    return max(range(budget, -1, -1), key=measure) if budget else 0


@mistake(
    "pick_workers",
    loses=PICKS,
    because="powers of two are thought to be the only numbers",
    breaks="the knee, or the budget where the rate rises that far",
)
def doubled(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    budget = max(len(cores) // ranks_per_node - 1, 0)
    if not budget:
        return 0
    workers, rate = 1, measure(1)
    while 2 * workers <= budget and (more := measure(2 * workers)) > 1.02 * rate:
        workers, rate = 2 * workers, more
    return workers


@mistake(
    "pick_workers",
    loses=("falling", "few"),
    because="the budget's own rate is thought to be the best, and the range is halved towards it",
    breaks="or it falls with each further worker",
)
def as_fast_as_the_most(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    fewest, most = 0, max(len(cores) // ranks_per_node - 1, 0)
    if not most:
        return 0
    best = measure(most)
    while fewest < most:
        middle = (fewest + most) // 2
        if measure(middle) < 0.98 * best:
            fewest = middle + 1
        else:
            most = middle
    return fewest


any_gain = edited(
    "pick_workers",
    {"1.02 * measure": "measure"},
    loses=("noise",),
    because="whatever is larger is taken for a gain",
    breaks="each by up to half a percent of the true rate",
)

ten_percent = edited(
    "pick_workers",
    {"1.02 * measure": "1.1 * measure"},
    loses=PICKS,
    because="a gain of a few percent is thought to be noise",
    breaks="each worker more adds at least 4 % to the true rate",
)

never_none = edited(
    "pick_workers",
    {"    return fewest": "    return max(fewest, 1)"},
    loses=PICKS,
    because="a loader is thought to need a worker",
    breaks="The knee may be 0, where workers bring nothing",
)

from_one_on = edited(
    "pick_workers",
    {"fewest, most = 0, ": "fewest, most = 1, "},
    loses=PICKS,
    because="the search begins with one worker",
    breaks="where workers bring nothing, and it may lie beyond the budget",
)

one_too_many = edited(
    "pick_workers",
    {"measure(middle + 1) > 1.02 * measure(middle)": "measure(middle + 2) > 1.02 * measure(middle + 1)"},
    loses=PICKS,
    because="the number beyond the last one is measured too",
    breaks="`measure` is never called with more than the budget: workers that have no core slow down the other ranks",
)

below_the_knee = edited(
    "pick_workers",
    {"            fewest = middle + 1": "            fewest = middle + 1 if most - middle > 1 else most - 1\n            if fewest == most - 1:\n                break"},
    loses=PICKS,
    because="the search ends one worker early",
    breaks="the budget where the rate rises that far",
)

asked_three_times = edited(
    "pick_workers",
    {"measure(middle + 1) > 1.02 * measure(middle)": "sum(measure(middle + 1) for _ in range(3)) > 1.02 * sum(measure(middle) for _ in range(3))"},
    loses=("few",),
    because="noise is averaged away at any price",
    breaks="it is called at most `3 * b` times",
)

measured_for_nothing = edited(
    "pick_workers",
    {"    fewest, most = 0,": "    measure(0)\n    fewest, most = 0,"},
    loses=("few",),
    because="a rate to compare with is thought to be due in any case",
    breaks="and with a budget of 0 not at all",
)

as_a_float = edited(
    "pick_workers",
    {"    return fewest": "    return float(fewest)"},
    loses=PICKS,
    because="any number is thought to do",
    breaks="returns a Python integer",
)

none_for_no_cores = edited(
    "pick_workers",
    {"ranks_per_node < 1 or not cores": "ranks_per_node < 1"},
    loses=("errors",),
    because="no cores are thought to leave nothing to do",
    breaks="and for an empty set of cores",
)

no_ranks = edited(
    "pick_workers",
    {"if ranks_per_node < 1 or not cores": "ranks_per_node = abs(ranks_per_node) or 1\n    if not cores"},
    loses=("errors",),
    because="a number of ranks is thought to be at least one",
    breaks="for `ranks_per_node` less than 1",
)

measured_before = edited(
    "pick_workers",
    {"    if ranks_per_node < 1 or not cores": "    baseline = measure(1) if len(cores) != 0 and ranks_per_node < 1 else 0\n    if ranks_per_node < 1 or not cores"},
    loses=("errors",),
    because="arguments are looked at when they are needed",
    breaks="raises `ValueError`, before anything is measured",
)

swallowed = edited(
    "pick_workers",
    {"        if measure(middle + 1) > 1.02 * measure(middle):": "        try:\n            more = measure(middle + 1) > 1.02 * measure(middle)\n        except OSError:\n            more = False\n        if more:"},
    loses=("errors",),
    because="a number that cannot be measured is thought to be too large",
    breaks="What `measure` raises comes through",
)


four_percent_as_measured = edited(
    "pick_workers",
    {"1.02 * measure": "1.04 * measure"},
    loses=("noise",),
    because="a gain of 4 % is thought to be measured as one",
    breaks="each worker more adds at least 4 % to the true rate",
)

nearly_four_percent = edited(
    "pick_workers",
    {"1.02 * measure": "1.035 * measure"},
    loses=("noise",),
    because="the noise of one call is allowed for, and a gain has that of two",
    breaks="Two calls with one number may differ, each by up to half a percent of the true rate",
)

one_percent = edited(
    "pick_workers",
    {"1.02 * measure": "1.01 * measure"},
    loses=("noise",),
    because="twice half a percent is taken for the most by which two calls differ, with nothing to spare",
    breaks="Two calls with one number may differ, each by up to half a percent of the true rate",
)


@mistake(
    "pick_workers",
    loses=("few",),
    because="doubling and halving are thought to cost no more than halving",
    breaks="it is called at most `3 * b` times",
)
def doubled_then_halved(measure, cores, ranks_per_node):
    if ranks_per_node < 1 or not cores:
        raise ValueError
    budget = max(len(cores) // ranks_per_node - 1, 0)

    def more(workers):
        return measure(workers + 1) > 1.02 * measure(workers)

    low, step = 0, 1
    while low + step <= budget and more(low + step - 1):
        low, step = low + step, 2 * step
    high = min(low + step - 1, budget)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if more(middle) else (low, middle)
    return low


@alternative("pick_workers")
def galloping(measure, cores, ranks_per_node):
    """Four times as many until a step brings nothing, then halved; each number is measured once."""
    if len(cores) == 0 or ranks_per_node <= 0:
        raise ValueError("no node")
    budget, rates = max(0, len(cores) // ranks_per_node - 1), {}

    def rate(workers):
        if workers not in rates:
            rates[workers] = measure(workers)
        return rates[workers]

    low, high, step = 0, budget, 1
    while step < high:
        if rate(step) > rate(step - 1) * 1.021:
            low, step = step, 4 * step
        else:
            high = step - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rate(middle) / rate(middle - 1) > 1.021:
            low = middle
        else:
            high = middle - 1
    return low


@alternative("pick_workers")
def bisected(measure, cores, ranks_per_node):
    from bisect import bisect_left

    if ranks_per_node not in range(1, 10**6) or not len(cores):
        raise ValueError(ranks_per_node)
    share, _ = divmod(len(cores), ranks_per_node)
    numbers = range(max(share - 1, 0))
    return bisect_left(numbers, True, key=lambda n: measure(n + 1) / measure(n) < 1.0199)


harmless_pick = [
    equivalent_mutant("pick_workers", "fewest, most = 0, max(len(cores) // ranks_per_node - 1, 0)", "fewest, most = 0, max(len(cores) // ranks_per_node - 1, (-1))", "a range that ends below its beginning is as empty as one that ends there"),
    equivalent_mutant("pick_workers", "if measure(middle + 1) > 1.02 * measure(middle):", "if measure(middle + 1) >= 1.02 * measure(middle):", "no two calls differ by just 2 %: by 1 % at most, or by 3 % at least"),
]

unbreakable_pick = [
    unbreakable("pick_workers", "`measure(workers)` trains for some minutes", "it says what is called, and what that costs"),
    unbreakable("pick_workers", "Beyond it the rate stays as it is", "it is a promise of the caller; the searches above that take it for less lose"),
]

# E11.3 tar_shards

SHARDS = ("samples", "once", "even", "shuffled", "repeatable", "sequential", "processes", "errors")

every_worker_everything = edited(
    "tar_shards",
    {"[worker::workers]": ""},
    loses=("once", "even", "sequential", "processes"),
    because="the DataLoader is thought to share out an iterable dataset among its workers",
    breaks="The workers of a rank take turns at what the rank has",
)

every_rank_everything = edited(
    "tar_shards",
    {"[self.rank :: self.world_size]": ""},
    loses=("once", "even", "shuffled", "repeatable", "sequential", "processes"),
    because="a sampler is thought to share out the shards among the ranks",
    breaks="of that order the `world_size` ranks take turns, shard by shard",
)

workers_before_ranks = edited(
    "tar_shards",
    {"order[self.rank :: self.world_size][worker::workers]": "order[self.rank * workers + worker :: self.world_size * workers]"},
    loses=("once", "even", "processes"),
    because="all workers of all ranks are numbered through, and a rank gets what its own happen to get",
    breaks="so that each has equally many",
)

whole_worker_counts = edited(
    "tar_shards",
    {"[worker::workers]": "[worker * (len(order) // self.world_size // workers) :][: len(order) // self.world_size // workers]"},
    loses=("once", "even", "processes"),
    because="what does not divide evenly among the workers is dropped",
    breaks="whatever the number of workers",
)

never_shuffled = edited(
    "tar_shards",
    {'        random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)\n': ""},
    loses=("shuffled", "repeatable", "processes"),
    because="the shards are thought to have been shuffled when they were written",
    breaks="for each epoch all shards are put in a new order",
)

one_order = edited(
    "tar_shards",
    {'f"{self.seed} {self.epoch.item()}"': "self.seed"},
    loses=("shuffled", "repeatable", "processes"),
    because="a seed is thought to be enough",
    breaks="a new order that depends on `seed` and `epoch` alone",
)

seed_and_epoch_added = edited(
    "tar_shards",
    {'f"{self.seed} {self.epoch.item()}"': "self.seed + self.epoch.item()"},
    loses=("shuffled", "repeatable", "processes"),
    because="adding two numbers is thought to make a new one",
    breaks="Two pairs of seed and epoch have different orders, also where their sums are equal",
)

an_order_for_each_rank = edited(
    "tar_shards",
    {'f"{self.seed} {self.epoch.item()}"': 'f"{self.seed} {self.epoch.item()} {self.rank}"'},
    loses=("once", "even", "sequential", "processes"),
    because="ranks are thought to need different orders",
    breaks="it is the same on every rank",
)

an_order_for_each_worker = edited(
    "tar_shards",
    {"        random.Random(f": "        info = get_worker_info()\n        random.Random((info.seed if info else 0) if info else f"},
    loses=("once", "even", "sequential", "processes"),
    because="the worker's own seed is used",
    breaks="a new order that depends on `seed` and `epoch` alone",
)

own_shards_shuffled = edited(
    "tar_shards",
    {
        '        random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)\n': "        order = order[self.rank :: self.world_size]\n        random.Random(f\"{self.seed} {self.epoch.item()}\").shuffle(order)\n",
        "order[self.rank :: self.world_size][worker::workers]": "order[worker::workers]",
    },
    loses=("once", "shuffled", "processes", "repeatable"),
    because="each rank shuffles what it has, and has the same for ever",
    breaks="all shards are put in a new order",
)

from_the_global_generator = edited(
    "tar_shards",
    {'random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)': "random.shuffle(order)"},
    loses=("once", "even", "shuffled", "repeatable", "sequential", "processes"),
    because="the global generator is thought to be seeded alike everywhere",
    breaks="depends on `seed` and `epoch` alone: it is the same on every rank",
)

global_generator_seeded = edited(
    "tar_shards",
    {'random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)': 'random.seed(f"{self.seed} {self.epoch.item()}")\n        random.shuffle(order)'},
    loses=("repeatable",),
    because="the global generator is thought to be nobody else's",
    breaks="the states of `random` and of NumPy's and `torch`'s global generators are the same after an iteration as before",
)

torchs_generator_seeded = edited(
    "tar_shards",
    {'random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)': "torch.manual_seed(self.seed * 100003 + self.epoch.item())\n        order = [order[i] for i in torch.randperm(len(order))]"},
    loses=("repeatable",),
    because="PyTorch's generator is thought to be the dataset's",
    breaks="of NumPy's and `torch`'s global generators are the same after an iteration as before",
)

numpys_generator_seeded = edited(
    "tar_shards",
    {'random.Random(f"{self.seed} {self.epoch.item()}").shuffle(order)': "np.random.seed([self.seed, self.epoch.item()])\n        np.random.shuffle(order)"},
    loses=("repeatable",),
    because="NumPy's global generator is thought to be nobody else's",
    breaks="of NumPy's and `torch`'s global generators are the same after an iteration as before",
)


def mixed(with_, because, breaks, loses=("shuffled", "repeatable", "processes")):
    return edited("tar_shards", {'f"{self.seed} {self.epoch.item()}"': with_}, loses=loses, because=because, breaks=breaks)


mixed_wrongly = [
    mixed('hash(f"{self.seed} {self.epoch.item()}")', "the hash of a text is thought to be that text's own", "in processes that were started apart"),
    mixed("hash((self.paths[0], self.seed, self.epoch.item()))", "the names of the shards are thought to be the same everywhere", "and wherever the shards lie"),
    mixed("self.seed * 1000 + self.epoch.item()", "nobody is thought to train for a thousand epochs", "or an epoch is large"),
    mixed("(self.seed << 16) + self.epoch.item()", "nobody is thought to train for so many epochs", "An epoch is an integer from 0 to a million"),
    mixed("f\"{self.seed} {self.epoch.item()} {os.environ.get('RANK')}\"", "a rank is thought to need an order of its own", "it is the same on every rank, in processes that were started apart"),
    mixed("f\"{self.seed} {self.epoch.item()} {time.strftime('%x')}\"", "every day is thought to deserve an order of its own", "depends on `seed` and `epoch` alone"),
    mixed("self.seed ^ self.epoch.item()", "an exclusive or is thought to keep both numbers", "Two pairs of seed and epoch have different orders"),
]

epoch_in_a_byte = edited(
    "tar_shards",
    {"dtype=torch.int64": "dtype=torch.uint8", "self.epoch.fill_(epoch)": "self.epoch.fill_(epoch % 256)"},
    loses=("shuffled", "repeatable", "processes"),
    because="epochs are thought to be few",
    breaks="An epoch is an integer from 0 to a million",
)

epoch_asked_for_each_shard = edited(
    "tar_shards",
    {
        "        order = list(self.paths)\n        random": "        for turn in range(len(self.paths)):\n            yield from self.turn(turn)\n\n    def turn(self, turn):\n        order = list(self.paths)\n        random",
        "[worker::workers]": "[worker::workers][turn : turn + 1]",
    },
    loses=("repeatable",),
    because="the epoch is looked up whenever a shard is due",
    breaks="An iteration that runs goes on as it began",
)

blocks_for_ranks = edited(
    "tar_shards",
    {"order[self.rank :: self.world_size]": "order[self.rank * len(order) // self.world_size : (self.rank + 1) * len(order) // self.world_size]"},
    loses=("once", "processes"),
    because="a rank is thought to have a piece of the order",
    breaks="the `world_size` ranks take turns, shard by shard (rank 0 has the first)",
)

blocks_for_workers = edited(
    "tar_shards",
    {
        "        for path in order[self.rank :: self.world_size][worker::workers]:": "        mine = order[self.rank :: self.world_size]\n        for path in mine[len(mine) * worker // workers : len(mine) * (worker + 1) // workers]:",
    },
    loses=("once", "processes"),
    because="a worker is thought to have a piece of what the rank has",
    breaks="The workers of a rank take turns at what the rank has, in that order",
)

epoch_in_an_attribute = edited(
    "tar_shards",
    {"torch.zeros((), dtype=torch.int64).share_memory_()": "torch.zeros((), dtype=torch.int64)"},
    loses=("processes",),
    because="the copy that a worker has is thought to be the original",
    breaks="a call in the process that trains counts for them too",
)

epochs_counted = edited(
    "tar_shards",
    {"        order = list(self.paths)\n": "        order = list(self.paths)\n        self.epoch += 1\n"},
    loses=("shuffled", "repeatable", "processes"),
    because="every iteration is thought to be the next epoch",
    breaks="says which epoch the iterators give whose first sample is asked for after it; 0 until it is called",
)

epochs_counted_from_the_one_set = edited(
    "tar_shards",
    {
        "        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()\n": "        self.epoch, self.since = torch.zeros((), dtype=torch.int64), None\n",
        "        self.epoch.fill_(epoch)\n": "        self.epoch.fill_(epoch)\n        self.since = 0\n",
        "        order = list(self.paths)\n": "        order = list(self.paths)\n        coming, self.since = self.epoch.item() + (self.since or 0), None if self.since is None else self.since + 1\n",
        "{self.epoch.item()}": "{coming}",
    },
    loses=("processes",),
    because="a worker that stays is thought to see one epoch after the other, so its copy counts them",
    breaks="a call in the process that trains counts for them too",
)

epoch_of_the_iterator = edited(
    "tar_shards",
    {
        "        order = list(self.paths)\n        random.Random": "        return self.samples_in(self.epoch.item())\n\n    def samples_in(self, epoch):\n        order = list(self.paths)\n        random.Random",
        "{self.epoch.item()}": "{epoch}",
    },
    loses=("repeatable",),
    because="an iterator is thought to have its epoch when it is made",
    breaks="says which epoch the iterators give whose first sample is asked for after it",
)


@mistake(
    "tar_shards",
    loses=SHARDS,
    because="a shard is thought to be a file that is there, which makes any sample one to be had at once",
    breaks="names that `open_shard` alone can open",
)
def by_its_path(paths, open_shard, rank, world_size, seed):
    if not paths or not 0 <= rank < world_size or len(paths) % world_size:
        raise ValueError

    class ByPath(IterableDataset):
        def __init__(self):
            self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

        def set_epoch(self, epoch):
            self.epoch.fill_(epoch)

        def __iter__(self):
            order, info = list(paths), get_worker_info()
            random.Random(f"{seed} {self.epoch.item()}").shuffle(order)
            for path in order[rank::world_size][info.id if info else 0 :: info.num_workers if info else 1]:
                samples = {}
                with open_shard(path), tarfile.open(path) as archive:
                    for member in archive.getmembers():
                        folder, slash, name = member.name.rpartition("/")
                        stem, dot, extension = name.partition(".")
                        if member.isfile() and stem and dot:
                            samples.setdefault(folder + slash + stem, {})[extension] = archive.extractfile(member).read()
                for key, files in samples.items():
                    yield {"__key__": key, **files}

    return ByPath()


shuffled_in_place = edited(
    "tar_shards",
    {"order = list(self.paths)": "order = self.paths"},
    loses=("shuffled", "repeatable", "processes"),
    because="shuffling in place is thought to begin from the same list each time",
    breaks="depends on `seed` and `epoch` alone",
)

seeking = edited(
    "tar_shards",
    {'mode="r|"': 'mode="r"'},
    loses=("sequential",),
    because="a tar file is opened as one that can be seeked",
    breaks="read each shard from front to back in one go, and never seek",
)

in_memory = edited(
    "tar_shards",
    {"tarfile.open(fileobj=stream": "tarfile.open(fileobj=io.BytesIO(stream.read())"},
    loses=("sequential",),
    because="a shard is thought to fit in memory",
    breaks="No `read` asks for more than 64 KiB",
)

all_samples_first = edited(
    "tar_shards",
    {"yield from samples_of(stream)": "yield from list(samples_of(stream))"},
    loses=("sequential",),
    because="samples are collected before one is given",
    breaks="when a sample is given, no more than 64 KiB behind its last file have been read",
)

index_first = edited(
    "tar_shards",
    {"            with self.open_shard(path) as stream:\n                yield from samples_of(stream)\n": "            with self.open_shard(path) as stream:\n                count = sum(1 for _ in samples_of(stream))\n            with self.open_shard(path) as stream:\n                yield from samples_of(stream) if count else ()\n"},
    loses=("sequential",),
    because="the samples are counted before they are read",
    breaks="read each shard from front to back in one go",
)

never_closed = edited(
    "tar_shards",
    {"            with self.open_shard(path) as stream:\n                yield from samples_of(stream)\n": "            yield from samples_of(self.open_shard(path))\n"},
    loses=("sequential",),
    because="the collector is thought to close files",
    breaks="each is closed when its last sample was given",
)

closed_at_the_end_alone = edited(
    "tar_shards",
    {"            with self.open_shard(path) as stream:\n                yield from samples_of(stream)\n": "            stream = self.open_shard(path)\n            yield from samples_of(stream)\n            stream.close()\n"},
    loses=("sequential",),
    because="every iteration is thought to be one to the end",
    breaks="or where the iteration is left before that",
)

all_opened = edited(
    "tar_shards",
    {"        for path in order[self.rank :: self.world_size][worker::workers]:\n            with self.open_shard(path) as stream:\n": "        streams = [self.open_shard(path) for path in order[self.rank :: self.world_size][worker::workers]]\n        for stream in streams:\n            with stream:\n"},
    loses=("sequential",),
    because="the shards are opened before they are read",
    breaks="One shard is open at a time, none that is not due is opened",
)

split_by_sample = edited(
    "tar_shards",
    {
        "order[self.rank :: self.world_size][worker::workers]:\n": "order[self.rank :: self.world_size]:\n",
        "yield from samples_of(stream)": "yield from (sample for number, sample in enumerate(samples_of(stream)) if number % workers == worker)",
    },
    loses=("once", "processes", "sequential"),
    because="every worker reads all shards and drops what others give",
    breaks="The workers of a rank take turns at what the rank has",
)

last_dot = edited(
    "tar_shards",
    {'name.partition(".")': 'name.rpartition(".")'},
    loses=SHARDS,
    because="an extension is thought to begin at the last dot",
    breaks="What follows that dot is the extension: `v1.2/007.seg.png` has the key `v1.2/007` and the extension `seg.png`",
)

first_dot_of_all = edited(
    "tar_shards",
    {'folder, slash, name = member.name.rpartition("/")': 'folder, slash, name = "", "", member.name'},
    loses=SHARDS,
    because="folders are thought to have no dots",
    breaks="the name up to the first dot of its last part",
)

folders_dropped = edited(
    "tar_shards",
    {"key = folder + slash + stem": "key = stem"},
    loses=SHARDS,
    because="the base name is taken for the key",
    breaks="folders included",
)

last_sample_lost = edited(
    "tar_shards",
    {"    if sample:\n        yield sample": ""},
    loses=SHARDS,
    because="a sample is given when the next one begins, and the last has none",
    breaks="A shard's end ends a sample",
)

links_followed = edited(
    "tar_shards",
    {"not member.isfile() or not stem or not dot": "member.isdir() or not stem or not dot", "archive.extractfile(member).read()": "archive.extractfile(member).read() if member.isfile() else b''"},
    loses=SHARDS,
    because="a link is thought to be a file",
    breaks="Folders, links and files whose last part has no dot",
)

dotless_taken = edited(
    "tar_shards",
    {"not member.isfile() or not stem or not dot": "not member.isfile() or not stem"},
    loses=SHARDS,
    because="every file is thought to belong to a sample",
    breaks="files whose last part has no dot, or begins with one (`.DS_Store`), are passed over",
)

as_text = edited(
    "tar_shards",
    {"archive.extractfile(member).read()": 'archive.extractfile(member).read().decode("latin-1")'},
    loses=SHARDS,
    because="labels are text",
    breaks="the bytes of each file",
)

across_shards = edited(
    "tar_shards",
    {
        "        for path in order": "        held = {}\n        for path in order",
        "                yield from samples_of(stream)\n": "                for sample in samples_of(stream):\n                    if held and held['__key__'] != sample['__key__']:\n                        yield held\n                        held = {}\n                    held |= sample\n        if held:\n            yield held\n",
    },
    loses=SHARDS,
    because="a sample is thought to end where another key begins",
    breaks="the same key in the next one is another sample",
)

hidden_files_taken = edited(
    "tar_shards",
    {"not member.isfile() or not stem or not dot": "not member.isfile() or not dot"},
    loses=SHARDS,
    because="a key may be empty, it is thought",
    breaks="or begins with one (`.DS_Store`), are passed over",
)

run_ended_by_what_is_passed_over = edited(
    "tar_shards",
    {"                continue\n": "                if sample:\n                    yield sample\n                    sample = {}\n                continue\n"},
    loses=SHARDS,
    because="a run of files is thought to end at whatever is no part of it",
    breaks="as if they were not there: they end no sample",
)

extension_in_small_letters = edited(
    "tar_shards",
    {"sample[extension] =": "sample[extension.lower()] ="},
    loses=SHARDS,
    because="WebDataset's own reader gives extensions in small letters",
    breaks="the extension `seg.png`, in the letters that it has",
)


def by_hand(files, because, breaks, loses=SHARDS):
    """The solution with ``files`` in tarfile's place, the source of a function that gives key, extension and bytes of each file."""
    edits = {"yield from samples_of(stream)": "yield from grouped(files(stream))", "def samples_of(stream):": f"{files}\n\n{GROUPED}\n\ndef samples_of(stream):"}
    return edited("tar_shards", edits, loses=loses, because=because, breaks=breaks)


GROUPED = '''
def grouped(files):
    import itertools

    for key, parts in itertools.groupby(files, key=lambda part: part[0]):
        yield {"__key__": key} | {extension: data for _, extension, data in parts}
'''
FILES = r'''
def files(stream):
    {begin}
    path = ""
    while (header := stream.read(512)).strip(b"\0"):
        size = int(header[124:136].rstrip(b"\0 ") or b"0", 8)
        data = b"".join(stream.read(min(4096, size - at)) for at in range(0, size, 4096))
        stream.read(-size % 512)
        if header[156:157] == b"x":
            {long}
            continue
        name, path = path or header[:100].rstrip(b"\0").decode(), ""
        stem, dot, extension = name.rpartition("/")[2].partition(".")
        if header[156:157] == b"0" and stem and dot:
            yield name[: -len(extension) - 1], extension, data
'''
LONG = r'path = data.partition(b" path=")[2].partition(b"\n")[0].decode()'

shards_read_by_hand = [
    by_hand(FILES.format(begin="pass", long=LONG), "a read is thought to give all that it is asked for", "which may give fewer bytes than it is asked for", ("sequential",)),
    by_hand(FILES.format(begin="stream = io.BufferedReader(stream, 4096)", long="pass"), "a header is thought to hold the whole name", "whose names may be longer than the 100 bytes that a header has for them"),
]

sorted_samples = edited(
    "tar_shards",
    {"yield from samples_of(stream)": 'yield from sorted(samples_of(stream), key=lambda sample: sample["__key__"])'},
    loses=SHARDS,
    because="samples are thought to belong in the order of their keys",
    breaks="The samples of a shard come in the order of the file",
)

uneven_allowed = edited(
    "tar_shards",
    {" or len(paths) % world_size": ""},
    loses=("errors",),
    because="one shard more or less is thought not to matter",
    breaks="for a number of shards that `world_size` does not divide",
)

nothing_is_enough = edited(
    "tar_shards",
    {"not paths or ": ""},
    loses=("errors",),
    because="no shards are thought to be a short epoch",
    breaks="Raises `ValueError` at once for an empty list",
)

rank_believed = edited(
    "tar_shards",
    {"not 0 <= rank < world_size": "world_size < 1"},
    loses=("errors",),
    because="a rank is thought to be right",
    breaks="for a `rank` that is not from 0 to `world_size - 1`",
)

refused_later = edited(
    "tar_shards",
    {
        "    if not paths or not 0 <= rank < world_size or len(paths) % world_size:\n        raise ValueError(f\"{len(paths)} shards for rank {rank} of {world_size}\")\n": "",
        "        order = list(self.paths)\n": "        if not self.paths or not 0 <= self.rank < self.world_size or len(self.paths) % self.world_size:\n            raise ValueError\n        order = list(self.paths)\n",
    },
    loses=("errors",),
    because="a generator's body is thought to run when it is made",
    breaks="Raises `ValueError` at once",
)


@mistake(
    "tar_shards",
    loses=SHARDS,
    because="a generator is thought to be a dataset",
    breaks="which returns a dataset over such shards, an `IterableDataset`",
)
def a_list_of_samples(paths, open_shard, rank, world_size, seed):
    if not paths or not 0 <= rank < world_size or len(paths) % world_size:
        raise ValueError

    class Shards(list):
        def set_epoch(self, epoch):
            self.epoch = epoch

    return Shards(paths)


@alternative("tar_shards")
def read_by_hand(paths, open_shard, rank, world_size, seed):
    """Headers of 512 bytes, read without tarfile; the epoch in a shared value of multiprocessing's."""
    import itertools
    import multiprocessing

    if world_size < 1 or rank not in range(world_size) or len(paths) == 0 or len(paths) % world_size != 0:
        raise ValueError("shards")

    def files(raw):
        stream, path = io.BufferedReader(raw, 4096), ""
        while True:
            header = stream.read(512)
            if len(header) < 512 or not header.strip(b"\0"):
                return
            name, size = header[:100].rstrip(b"\0").decode(), int(header[124:136].rstrip(b"\0 ") or b"0", 8)
            data, left = b"", -(-size // 512) * 512
            while left:
                piece = stream.read(min(left, 4096))
                data, left = data + piece, left - len(piece)
            if header[156:157] == b"x":
                path = data[:size].partition(b" path=")[2].partition(b"\n")[0].decode()
                continue
            name, path = path or name, ""
            last = name.rsplit("/", 1)[-1]
            if header[156:157] in (b"0", b"\0") and "." in last[1:] and last[0] != ".":
                dot = len(name) - len(last) + last.index(".")
                yield name[:dot], name[dot + 1 :], data[:size]

    class Shards(IterableDataset):
        current = multiprocessing.Value("q", 0)

        def set_epoch(self, epoch):
            self.current.value = epoch

        def __iter__(self):
            generator = np.random.default_rng([seed, self.current.value])
            mine = [paths[i] for i in generator.permutation(len(paths))][rank::world_size]
            info = torch.utils.data.get_worker_info()
            for path in mine if info is None else itertools.islice(mine, info.id, None, info.num_workers):
                stream = open_shard(path)
                try:
                    for key, group in itertools.groupby(files(stream), key=lambda found: found[0]):
                        yield {"__key__": key} | {extension: data for _, extension, data in group}
                finally:
                    stream.close()

    return Shards()


@alternative("tar_shards")
def iterator_object(paths, open_shard, rank, world_size, seed):
    """A buffered stream under tarfile, and PyTorch's generator of the epoch's own."""
    if len(paths) < 1 or rank < 0 or rank >= world_size or len(paths) // world_size * world_size != len(paths):
        raise ValueError(len(paths))

    class Packed(torch.utils.data.IterableDataset):
        def __init__(self):
            super().__init__()
            self.state = torch.tensor([0]).share_memory_()

        def set_epoch(self, epoch):
            self.state[0] = epoch

        def __iter__(self):
            generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, int(self.state[0])]).generate_state(1)[0]))
            order = torch.randperm(len(paths), generator=generator).tolist()
            info = get_worker_info()
            count, number = (1, 0) if info is None else (info.num_workers, info.id)
            for turn, shard in enumerate(order[rank::world_size]):
                if turn % count == number:
                    yield from self.samples(paths[shard])

        def samples(self, path):
            with open_shard(path) as raw, tarfile.open(fileobj=io.BufferedReader(raw, 32768), mode="r|*") as archive:
                current, parts = None, {}
                while (member := archive.next()) is not None:
                    base = os.path.basename(member.name)
                    if not member.isreg() or "." not in base or base.startswith("."):
                        continue
                    extension = base.split(".", 1)[1]
                    key = member.name[: -len(extension) - 1]
                    if key != current and parts:
                        yield dict(parts, __key__=current)
                        parts = {}
                    current = key
                    parts[extension] = archive.extractfile(member).read()
                if parts:
                    yield dict(parts, __key__=current)

    return Packed()


harmless_shards = [
    equivalent_mutant("tar_shards", "self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()", "self.epoch = torch.zeros(()).share_memory_()", "a float32 tells all integers of a million apart"),
]

unbreakable_shards = [
    unbreakable("tar_shards", "This is the format of WebDataset", "it says where the format comes from"),
    unbreakable("tar_shards", "`open_shard(path)` opens a shard", "it says what is called"),
    unbreakable("tar_shards", "`paths`: a list of shards", "it names an argument"),
    unbreakable("tar_shards", "A sample is a run of files in a shard that have one key", "the clause that follows says which; those that misread a key break both"),
    unbreakable("tar_shards", "the dataset gives each sample as a dictionary", "what gives none of it fails everywhere"),
    unbreakable("tar_shards", "a raw stream of bytes with `read(size)`", "it says what is handed in"),
    unbreakable("tar_shards", "and a context manager", "it says what is handed in"),
    unbreakable("tar_shards", "shards are written by Python's `tarfile`", "it says what is handed in"),
    unbreakable("tar_shards", "It can also `seek`, and a store answers each seek with another request", "it gives the reason of what follows"),
    unbreakable("tar_shards", "a shard may be larger than the memory", "it gives the reason of what follows"),
    unbreakable("tar_shards", "Worker processes may be there already, and stay", "the clause that follows says what is due then"),
    unbreakable("tar_shards", "all shards have equally many samples", "it is a promise of the caller"),
    unbreakable("tar_shards", "The number lies where forked processes share it", "it says how; what gives workers another number breaks the clause before"),
    unbreakable("tar_shards", "no process of your own keeps it", "processes are counted by the grader's sandbox, which no gate runs in"),
]

# E11.4 make_loader

LOADER = ("batches", "no_workers", "persistent", "distinct", "ranks", "repeatable", "pinned", "prefetch", "errors")
ON_BATCHES = ("batches", "persistent", "distinct", "ranks", "repeatable", "pinned", "prefetch", "errors")
GENERATOR = 'torch.Generator().manual_seed(int(state >> np.uint64(1)))'
INIT = ', "worker_init_fn": renew_rng'


def seeded(with_, loses, because, breaks):
    return edited("make_loader", {GENERATOR: with_}, loses=loses, because=because, breaks=breaks)


always_persistent = edited(
    "make_loader",
    {'    if config["workers"]:\n': "    if True:\n"},
    loses=("no_workers", "pinned"),
    because="persistent_workers and prefetch_factor are thought to mean nothing without workers",
    breaks='`"prefetch"` then has no meaning, and is passed over',
)

prefetch_always = edited(
    "make_loader",
    {
        '"prefetch_factor": config["prefetch"], ': "",
        "        **settings,\n": '        prefetch_factor=config["prefetch"],\n        **settings,\n',
    },
    loses=("no_workers",),
    because="a prefetch factor is thought to be ignored without workers",
    breaks='`"prefetch"` then has no meaning, and is passed over',
)

workers_always = edited(
    "make_loader",
    {'num_workers=config["workers"]': 'num_workers=max(config["workers"], 1)'},
    loses=("no_workers",),
    because="a loader is thought to need a worker",
    breaks="with no workers the process that trains makes the samples",
)

started_anew = edited(
    "make_loader",
    {'"persistent_workers": True, ': ""},
    loses=("persistent",),
    because="workers are thought to stay by themselves",
    breaks="the worker processes of the first epoch make the batches of all that follow",
)

one_worker_more = edited(
    "make_loader",
    {'num_workers=config["workers"]': 'num_workers=config["workers"] + bool(config["workers"])'},
    loses=("persistent",),
    because="the process that trains is counted among the workers",
    breaks='as many as `"workers"` says',
)

own_generator_copied = edited(
    "make_loader",
    {INIT: ""},
    loses=("distinct", "ranks", "repeatable"),
    because="PyTorch is thought to seed whatever draws numbers",
    breaks="The copy of `dataset.rng` that a worker has is replaced in that worker",
)


def renewed(with_, loses, because, breaks):
    return edited("make_loader", {"np.random.default_rng(info.seed)": with_}, loses=loses, because=because, breaks=breaks)


renewed_wrongly = [
    renewed("np.random.default_rng(0)", ("distinct", "ranks", "repeatable"), "a seed is thought to make runs repeatable and nothing else", "no two workers and no two epochs draw the same numbers"),
    renewed("np.random.default_rng(worker)", ("ranks",), "the number of the worker is thought to tell workers apart", 'depends on `"seed"` and `"rank"`'),
    renewed("np.random.default_rng()", ("repeatable",), "entropy of the system is thought to be best", "the same configuration gives the same numbers again"),
    renewed("np.random.default_rng(os.getpid())", ("repeatable",), "process ids tell workers apart", "It depends on nothing else"),
]

callers_rng_replaced = edited(
    "make_loader",
    {"    settings = {}\n": '    settings = {}\n    if hasattr(dataset, "rng"):\n        dataset.rng = np.random.default_rng([config["seed"], config["rank"]])\n'},
    loses=("no_workers", "repeatable"),
    because="the caller's dataset is thought to be the loader's",
    breaks="the caller's stays as it is",
)

rng_for_every_dataset = edited(
    "make_loader",
    {'    if hasattr(info.dataset, "rng"):\n        info': "    if True:\n        info"},
    loses=("distinct", "ranks", "repeatable"),
    because="a generator more is thought to do no harm",
    breaks="and nothing where it has not",
)

config_used_up = edited(
    "make_loader",
    {'sampler=config["sampler"]': 'sampler=config.pop("sampler")'},
    loses=("repeatable",),
    because="a configuration is thought to be used once",
    breaks="the caller's stays as it is, and so does `config`",
)


def reseeded(number, because, breaks, loses=("ranks",)):
    """Every generator of a worker seeded with one number."""
    body = f"        mixed = {number}\n        random.seed(mixed)\n        np.random.seed(mixed % 2**32)\n        torch.manual_seed(mixed)\n"
    own = "        if hasattr(get_worker_info().dataset, 'rng'):\n            get_worker_info().dataset.rng = np.random.default_rng(mixed)\n\n"
    edits = {"    settings = {}\n": f"    def renew_rng(worker):\n{body}{own}    settings = {{}}\n"}
    return edited("make_loader", edits, loses=loses, because=because, breaks=breaks)


reseeded_wrongly = [
    reseeded('config["seed"] * 1000 + config["rank"] * 100 + worker', "nobody is thought to have ten ranks", "also where their sums are equal or a rank is large"),
    reseeded('(config["seed"] << 20) + config["rank"] + worker', "a worker is thought to be told from a rank by adding it", "no two pairs of these have numbers in common"),
    reseeded('(config["seed"] << 10) + config["rank"]', "workers of a rank are thought to be one", "no two workers and no two epochs draw the same numbers", ("distinct", "ranks", "repeatable")),
]

seeded_alike = edited(
    "make_loader",
    {"    info = get_worker_info()\n": "    info = get_worker_info()\n    random.seed(0)\n    np.random.seed(0)\n"},
    loses=("distinct", "ranks", "repeatable"),
    because="the same seed everywhere is thought to make a run repeatable",
    breaks="no two workers and no two epochs draw the same numbers",
)

seeded_by_number = edited(
    "make_loader",
    {"    info = get_worker_info()\n": "    info = get_worker_info()\n    random.seed(worker)\n    np.random.seed(worker)\n    torch.manual_seed(worker)\n"},
    loses=("ranks",),
    because="the number of the worker is thought to be seed enough",
    breaks="no two pairs of these have numbers in common",
)

seeds_of_generators = [
    seeded("None", ("no_workers", "ranks", "repeatable"), "PyTorch is thought to seed each rank's workers differently", "no two pairs of these have numbers in common"),
    seeded('torch.Generator().manual_seed(config["seed"])', ("ranks",), "ranks are thought to differ by themselves", 'depends on `"seed"` and `"rank"`'),
    seeded('torch.Generator().manual_seed(config["rank"])', ("ranks",), "ranks are told apart, and seeds are not", 'depends on `"seed"` and `"rank"`'),
    seeded('torch.Generator().manual_seed(config["seed"] + config["rank"])', ("ranks",), "adding two numbers is thought to make a new one", "also where their sums are equal"),
    seeded("torch.default_generator", ("no_workers", "ranks", "repeatable"), "the global generator is handed on", "Making the loader and going through it leaves those generators as they were"),
    seeded('torch.manual_seed(config["seed"] * 1009 + config["rank"])', ("no_workers", "repeatable"), "the global generator is thought to be the loader's to seed", "with its own generators as they are"),
    seeded("torch.Generator()", ("ranks",), "a new generator is thought to be seeded with something new", 'depends on `"seed"` and `"rank"`'),
]

per_index = edited(
    "make_loader",
    {
        "    return DataLoader(\n        dataset,\n": "    class Seeded(Dataset):\n        def __len__(self):\n            return len(dataset)\n\n        def __getitem__(self, index):\n            if config[\"workers\"]:\n                mixed = (config[\"seed\"] * 7919 + config[\"rank\"]) * 104729 + index\n                random.seed(mixed)\n                np.random.seed(mixed % 2**32)\n                torch.manual_seed(mixed)\n            return dataset[index]\n\n    return DataLoader(\n        Seeded(),\n",
        "    if hasattr(info.dataset, \"rng\"):\n        info.dataset.rng = np.random.default_rng(info.seed)\n": "",
    },
    loses=("distinct", "ranks", "repeatable"),
    because="a sample is seeded by its index, and is augmented alike in every epoch",
    breaks="no two epochs draw the same numbers",
)

order_kept = edited(
    "make_loader",
    {'sampler=config["sampler"]': 'sampler=list(config["sampler"])'},
    loses=LOADER,
    because="a sampler is thought to be a list of indices",
    breaks="asked anew in every epoch",
)

sampler_left_out = edited(
    "make_loader",
    {'sampler=config["sampler"]': "shuffle=False"},
    loses=LOADER,
    because="the order is thought to be that of the dataset",
    breaks="The batches are those of the sampler",
)

last_dropped = edited(
    "make_loader",
    {"        **settings,\n": "        drop_last=True,\n        **settings,\n"},
    loses=LOADER,
    because="a smaller batch is thought to be in the way",
    breaks="the last one is smaller where they do not divide",
)

pinned_always = edited(
    "make_loader",
    {"pin_memory=torch.accelerator.is_available()": "pin_memory=True"},
    loses=("pinned",),
    because="pinned memory is thought to cost nothing",
    breaks="of whatever kind, and only then",
)

pinned_never = edited(
    "make_loader",
    {"pin_memory=torch.accelerator.is_available()": "pin_memory=False"},
    loses=("pinned",),
    because="pinning is left to others",
    breaks="memory is pinned if PyTorch finds an accelerator",
)

pinned_for_cuda_alone = edited(
    "make_loader",
    {"pin_memory=torch.accelerator.is_available()": "pin_memory=torch.cuda.is_available()"},
    loses=("pinned",),
    because="an accelerator is thought to be NVIDIA's",
    breaks="memory is pinned if PyTorch finds an accelerator, of whatever kind",
)

persistent_from_two_on = edited(
    "make_loader",
    {'    if config["workers"]:\n': '    if config["workers"] > 1:\n'},
    loses=("persistent", "distinct", "ranks", "repeatable", "prefetch"),
    because="one worker is thought to be as good as none",
    breaks="the worker processes of the first epoch make the batches of all that follow",
)

pinned_by_workers = edited(
    "make_loader",
    {"pin_memory=torch.accelerator.is_available()": 'pin_memory=torch.accelerator.is_available() and config["workers"] > 0'},
    loses=("pinned",),
    because="pinning is thought to need workers",
    breaks="memory is pinned if PyTorch finds an accelerator, of whatever kind, and only then",
)

prefetch_fixed = edited(
    "make_loader",
    {'"prefetch_factor": config["prefetch"]': '"prefetch_factor": 2'},
    loses=("prefetch",),
    because="PyTorch's number is thought to be good for all",
    breaks="batches asked ahead of each worker",
)

four_for_none = edited(
    "make_loader",
    {'"prefetch_factor": config["prefetch"]': '"prefetch_factor": config["prefetch"] or 4'},
    loses=("prefetch",),
    because="four is thought to be PyTorch's number",
    breaks="or `None` for PyTorch's own number",
)


def unchecked_config(edits, because, breaks):
    return edited("make_loader", edits, loses=("errors",), because=because, breaks=breaks)


configs_believed = [
    unchecked_config({"    require_config(config)\n": ""}, "DataLoader is thought to refuse what is wrong", "raises `ValueError` for a key that is missing"),
    unchecked_config({"if config.keys() != {*least, \"sampler\"}:": "if {*least, \"sampler\"} - config.keys():"}, "keys too many are thought to do no harm", "and for one that is none of the six"),
    unchecked_config({"type(value) is not int": "not isinstance(value, int)"}, "a bool is an int in Python", "A bool counts as none"),
    unchecked_config({'"prefetch": 1, ': '"prefetch": 0, '}, "0 batches asked ahead are thought to be fewer", 'for a `"batch"` or `"prefetch"` less than 1'),
    unchecked_config({'if name == "prefetch" and value is None': "if value is None"}, "None is thought to be a default everywhere", 'and `None` as one for `"prefetch"` only'),
    unchecked_config({'"seed": 0, "rank": 0}': '"seed": -(10**9), "rank": 0}', 'np.random.SeedSequence([config["seed"]': 'np.random.SeedSequence([abs(config["seed"])'}, "any integer is thought to be a seed", 'and a `"workers"`, `"seed"` or `"rank"` less than 0'),
    unchecked_config({'if name == "prefetch" and value is None': 'if name == "prefetch" and (value is None or not config["workers"])'}, "what is passed over is thought not to be looked at", 'for a `"batch"` or `"prefetch"` less than 1, with no workers too'),
    unchecked_config({'type(value) is not int or value < low': 'not str(value).isdigit() or isinstance(value, bool) or int(value) < low'}, "a text of digits is thought to be a number", "and for one of these five that is no `int`"),
]


zero_is_no_seed = edited(
    "make_loader",
    {'"seed": 0, "rank": 0}': '"seed": 1, "rank": 0}'},
    loses=("repeatable",),
    because="a seed of 0 is thought to be none",
    breaks='and a `"workers"`, `"seed"` or `"rank"` less than 0',
)

LEAST = 'least = {"batch": 1, "workers": 0, "prefetch": 1, "seed": 0, "rank": 0}'
SEEDED = "generator=torch.Generator().manual_seed(int(state >> np.uint64({}))),"
harmless_loader = [
    equivalent_mutant("make_loader", LEAST, LEAST.replace('"batch": 1', '"batch": 0'), "DataLoader refuses a batch of 0 with ValueError"),
    equivalent_mutant("make_loader", LEAST, LEAST.replace('"workers": 0', '"workers": (-1)'), "DataLoader refuses -1 workers with ValueError"),
    equivalent_mutant("make_loader", LEAST, LEAST.replace('"seed": 0', '"seed": (-1)'), "SeedSequence refuses a negative number with ValueError"),
    equivalent_mutant("make_loader", LEAST, LEAST.replace('"rank": 0', '"rank": (-1)'), "SeedSequence refuses a negative number with ValueError"),
    equivalent_mutant("make_loader", SEEDED.format(1), SEEDED.format(0), "manual_seed takes all 64 bits, too"),
    equivalent_mutant("make_loader", SEEDED.format(1), SEEDED.format(2), "62 bits tell seeds and ranks apart as well as 63"),
]


@mistake(
    "make_loader",
    loses=LOADER,
    because="batches are made in a loop",
    breaks="which returns a `torch.utils.data.DataLoader`",
)
def a_generator_of_batches(dataset, config):
    def batches():
        order = list(config["sampler"])
        for at in range(0, len(order), config["batch"]):
            yield torch.stack([dataset[index] for index in order[at : at + config["batch"]]])

    return batches()


@alternative("make_loader")
def seeded_in_the_worker(dataset, config):
    """Every generator of a worker is seeded from a sequence of its own."""
    names = ("batch", "workers", "prefetch", "seed", "rank", "sampler")
    if sorted(config) != sorted(names):
        raise ValueError(f"{sorted(config)} are not {sorted(names)}")
    for name in names[:5]:
        value = config[name]
        if not (value is None and name == "prefetch"):
            if isinstance(value, bool) or not isinstance(value, int) or value < (name in ("batch", "prefetch")):
                raise ValueError(f"{name}={value!r}")

    def init(worker):
        python, numpy_, torch_, own = np.random.SeedSequence((config["seed"], config["rank"], worker)).spawn(4)
        random.seed(int(python.generate_state(1, np.uint64)[0]))
        np.random.seed(numpy_.generate_state(4))
        torch.manual_seed(int(torch_.generate_state(1)[0]))
        copy = get_worker_info().dataset
        if getattr(copy, "rng", None) is not None:
            copy.rng = np.random.Generator(np.random.PCG64(own))

    many = config["workers"] > 0
    return DataLoader(
        dataset,
        batch_size=config["batch"],
        sampler=config["sampler"],
        num_workers=config["workers"],
        persistent_workers=many,
        prefetch_factor=config["prefetch"] if many else None,
        worker_init_fn=init if many else None,
        generator=torch.Generator(),
        pin_memory=bool(torch.accelerator.is_available()),
    )


@alternative("make_loader")
def a_loader_of_its_own_kind(dataset, config):
    """A subclass that hands its generator on, and a partial function that the worker calls with the dataset of the closure."""
    from functools import partial

    asked = dict(config)
    sampler = asked.pop("sampler", asked)
    least = dict(batch=1, workers=0, prefetch=1, seed=0, rank=0)
    if sampler is asked or set(asked) != set(least):
        raise ValueError("keys")
    for name, value in asked.items():
        if name == "prefetch" and value is None:
            continue
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least[name]:
            raise ValueError(name)

    class Steady(DataLoader):
        def __init__(self, **how):
            sequence = np.random.SeedSequence(entropy=asked["seed"], spawn_key=(asked["rank"],))
            torchs = torch.Generator()
            torchs.manual_seed(int(sequence.generate_state(2, np.uint32)[1]))
            super().__init__(dataset, generator=torchs, **how)

    def own(key, worker):
        if "rng" in vars(dataset):
            dataset.rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([*key, worker])))

    how = {"batch_size": asked["batch"], "sampler": sampler, "num_workers": asked["workers"], "pin_memory": torch.accelerator.is_available()}
    if asked["workers"] != 0:
        how |= {"persistent_workers": True, "worker_init_fn": partial(own, (asked["seed"], asked["rank"]))}
        how |= {"prefetch_factor": asked["prefetch"]} if asked["prefetch"] else {}
    return Steady(**how)


@alternative("make_loader")
def batches_from_a_batch_sampler(dataset, config):
    """A batch sampler, and a seed that is hashed."""
    import hashlib

    if not isinstance(config, dict) or {"batch", "workers", "prefetch", "seed", "rank", "sampler"} ^ set(config):
        raise ValueError("keys")
    batch, workers, prefetch, seed, rank = (config[name] for name in ("batch", "workers", "prefetch", "seed", "rank"))
    numbers = [batch, workers, seed, rank] + ([] if prefetch is None else [prefetch])
    if any(type(number) is not int for number in numbers) or min(workers, seed, rank) < 0 or batch < 1 or (prefetch or (prefetch is None)) < 1:
        raise ValueError(config)
    mixed = int.from_bytes(hashlib.sha256(f"{seed}/{rank}".encode()).digest()[:7], "big")

    def begin(worker):
        info = torch.utils.data.get_worker_info()
        try:
            info.dataset.rng
        except AttributeError:
            return
        info.dataset.rng = np.random.default_rng((mixed, worker))

    more = dict(persistent_workers=True, worker_init_fn=begin) | ({} if prefetch is None else dict(prefetch_factor=prefetch))
    return torch.utils.data.DataLoader(
        dataset,
        batch_sampler=torch.utils.data.BatchSampler(config["sampler"], batch, drop_last=False),
        num_workers=workers,
        generator=torch.Generator().manual_seed(mixed),
        pin_memory=torch.accelerator.current_accelerator() is not None,
        **(more if workers else {}),
    )


unbreakable_loader = [
    unbreakable("make_loader", "`dataset`: map-style", "it says what is handed in"),
    unbreakable("make_loader", "What NumPy calls an integer may be refused or taken", "it permits"),
    unbreakable("make_loader", "Its samples are tensors, and for each it draws random numbers", "it says what is handed in"),
    unbreakable("make_loader", "from `random`, from `numpy.random` and from `torch`'s global generator", "it says what is handed in"),
]
