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
# # Operating at scale: observability, failures, cost: exercises
#
# A cluster is run by decisions: who starts, how often is saved, which card is to be taken out, who pays. What is graded is each
# decision, on queues, failures, metrics and bills that are drawn afresh. You write plain Python. The simulator in `gpulab.fleet` is
# there to look at; a function that calls gpulab loses its points.
#
# Write your code where it says `YOUR CODE HERE`, run the cell below it, and read what it prints: it
# shows what your code did.
#
# Cells that say *hidden tests* do nothing here. They run when the notebook is graded, on
# inputs drawn afresh.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math

import gpulab.fleet

# %% [markdown]
# ## E21.1 `gang_schedule`
#
# A training job needs all of its GPUs at once. A scheduler that hands them out one by one lets two jobs hold half of the cluster each and
# wait for the other half for ever. One that starts only in order leaves most of it empty, and one that starts whoever
# fits lets the large job wait for ever.
#
# Write `gang_schedule(jobs, cluster)`, which says who starts now:
#
# - [c1] `jobs` are those that wait, in order of arrival, the longest-waiting first. [c2] Each is a dictionary: [c3] `"name"`, `"gpus"`, an `int`, and `"hours"`, after which it
#   ends for certain;
# - [c4] `cluster["free"]` is a list: [c5] the free GPUs of each node, of eight that a node has. [c6] `cluster["running"]` is a list of dictionaries: [c7] on which `"nodes"` a job
#   runs, a dictionary from a node's number to GPUs of it, and in how many hours, `"left"`, it ends and frees them;
# - [c8] it returns a list of pairs in the order in which the jobs start: [c9] a name and a **placement**, a dictionary from a node's number to GPUs of it;
# - [c10] **all or nothing**: a placement has as many GPUs as the job asks for, and all of them free, after those that start before it in the list. [c11] A job of up to
#   eight GPUs has them in one node. [c12] A larger one asks for a multiple of eight and has **whole nodes**;
# - [c13] **in order**: jobs start in the order of `jobs` as long as each of them fits. [c14] The first that does not is the **head** of the queue;
# - [c15] **the head's hour** is the earliest in which it fits, if nothing starts but the jobs before it: [c16] running jobs have ended by then, and so have those that start now,
#   by their hours;
# - [c17] **bounded waiting**: a job behind the head may start now, but only where the head's hour is no later for it, with all that have started
#   before. [c18] The same hour is no later. [c19] Jobs behind the head are owed nothing;
# - [c20] **no GPU stays idle for nothing**: [c21] in the end no job is left that could still start by these rules on any node;
# - [c22] **tight**: a job of up to eight GPUs that starts before there is a head takes, of the nodes on which it fits, one with the fewest free GPUs. [c23] Whole nodes are
#   left for those that need them. [c24] Behind the head it takes any node that the rules allow;
# - [c25] where all jobs fit there is no head. [c26] Without jobs nobody starts: [c27] the list is empty;
# - [c28] raises `ValueError` where a job asks for less than 1 GPU, for more than eight that are no multiple of eight, or for more than all nodes have;
# - [c29] `jobs` and `cluster` are left as they are, and gpulab is not called.

# %% nbgrader={"grade": false, "grade_id": "gang_schedule", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gang_schedule(jobs, cluster):
    """Who starts now, and where: in order, and behind the first that does not fit whoever does not delay it."""
    ### BEGIN SOLUTION
    for job in jobs:
        if job["gpus"] < 1 or job["gpus"] > 8 and job["gpus"] % 8 or job["gpus"] > 8 * len(cluster["free"]):
            raise ValueError(f"{job['name']} can never run: {job['gpus']} GPUs")
    free = list(cluster["free"])
    running = [(one["left"], one["nodes"]) for one in cluster["running"]]
    started, head, due = [], None, None
    for job in jobs:
        for place in places(job["gpus"], free):
            after = [there - place.get(node, 0) for node, there in enumerate(free)]
            with_it = [*running, (job["hours"], place)]
            if head is None or hour_of(head, after, with_it) <= due:
                started.append((job["name"], place))
                free, running = after, with_it
                break
        else:
            if head is None:
                head, due = job, hour_of(job, free, running)
    return started


def places(gpus, free):
    """Where a job fits, the tightest node first."""
    if gpus <= 8:
        return [{node: gpus} for node in sorted(range(len(free)), key=free.__getitem__) if free[node] >= gpus]
    whole = [node for node, there in enumerate(free) if there == 8][: gpus // 8]
    return [dict.fromkeys(whole, 8)] if 8 * len(whole) == gpus else []


def hour_of(job, free, running):
    """When a job fits, as what runs comes to its end."""
    free, now = list(free), 0
    for left, nodes in sorted(running, key=lambda one: one[0]):
        if left > now and places(job["gpus"], free):
            return now
        now = left
        for node, gpus in nodes.items():
            free[node] += gpus
    return now
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "gang_schedule_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_gang_schedule():
    """Sixty jobs on four nodes under four policies, of which one is yours; then a queue that is written down."""
    jobs = gpulab.fleet.draw_jobs(60, 4, seed=3, load=1.1)
    print("policy          GPU-hours that work   longest wait   of a large job   stuck")
    for name, policy in {**gpulab.fleet.POLICIES, "yours": gang_schedule}.items():
        if name == "backfill":
            continue
        played = gpulab.fleet.play(jobs, 4, policy)
        waits = played.waits(jobs)
        large = [waits[job.name] for job in jobs if job.gpus == 16 and job.name in waits]
        longest = f"{max(waits.values()):11.1f} h{max(large, default=0):15.1f} h"
        print(f"{name:14}{played.utilisation:19.0%}   {longest}{len(played.deadlocked):8}")
    assert not played.deadlocked and played.held == 0, "some job holds GPUs and does not run"
    in_order = gpulab.fleet.play(jobs, 4, gpulab.fleet.in_order)
    assert played.utilisation > in_order.utilisation, "strictly in order, as many GPU-hours work"

    queue = [
        {"name": "first", "gpus": 4, "hours": 9},
        {"name": "head", "gpus": 16, "hours": 5},
        {"name": "short", "gpus": 8, "hours": 3},
        {"name": "long", "gpus": 8, "hours": 9},
        {"name": "corner", "gpus": 1, "hours": 99},
    ]
    running = [{"nodes": {0: 8}, "left": 3}, {"nodes": {2: 3}, "left": 20}]
    started = gang_schedule(queue, {"free": [0, 8, 5], "running": running})
    print("\nfree: node 1, and five GPUs of node 2; node 0 is free in 3 hours. Started:", started)
    names = [name for name, _ in started]
    assert names[:1] == ["first"], "the first job fits, and starts"
    assert "head" not in names, "there is one whole node, and the job at the head needs two"
    assert "long" not in names, "in 3 hours the head could start, and a job of 9 hours on node 1 lets it wait"
    assert names == ["first", "short", "corner"], "`short` ends before the head's hour; `corner` is on no node that it needs"
    due = {"first": {2: 4}, "short": {1: 8}, "corner": {2: 1}}
    assert dict(started) == due, "small jobs go where the fewest GPUs are free"
    try:
        gang_schedule([{"name": "odd", "gpus": 12, "hours": 1}], {"free": [8, 8], "running": []})
    except ValueError as error:
        print("ValueError:", error)
    else:
        raise AssertionError("12 GPUs are neither one node nor whole nodes: ValueError is due")


_see_gang_schedule()

# %% nbgrader={"grade": true, "grade_id": "gang_schedule_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of gang_schedule: gang 3, bounded 3, used 2, tight 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("operating.gang_schedule")
### END HIDDEN TESTS

# %% [markdown]
# ## E21.2 `checkpoint_interval`
#
# "Save every half hour", says one, "after every step", says another, and a third rents machines at a third of the price that
# are taken away every hour. All three can be computed: a checkpoint costs time, and so does the work since the last one when
# a machine fails.
#
# Write `checkpoint_interval(cost, mtbf, restart)`. All three are numbers of seconds:
#
# - [c1] a job works for an interval, then writes a checkpoint for `cost` seconds, in which it does no work, and so on, round after round.
#   [c2] When a machine fails, all **work since the last finished checkpoint** is lost: [c3] an unfinished one is of no use. [c4] Then it takes `restart`
#   seconds until work goes on, in a new round. [c5] In those nothing fails;
# - [c6] `mtbf` is the mean time from one failure **to the next**, as a log gives it: [c7] hours divided by failures. [c8] So there is a restart in it. [c9] The rest is
#   the **up time**, which is drawn from an exponential distribution: [c10] a failure is no more likely for being long overdue;
# - [c11] the **waste** of an interval is the time for checkpoints and for lost work together, divided by the time of useful work, in the long run;
# - [c12] it returns an interval, in seconds of work without the checkpoint, whose waste is **at most 5 % more** than that of the best one, for any
#   `cost` from a ten-thousandth of the mean up time to twice the mean up time. [c13] The well-known square root is good for a short `cost` alone;
# - [c14] `mtbf` may be `math.inf`: [c15] then no checkpoint is worth its time, and the interval is `math.inf`;
# - [c16] raises `ValueError` where `cost` is 0 or less, where `restart` is less than 0, and where `mtbf` is not greater than `restart`.
#
# And write `cheapest(offers, cost, restart)`, which says where to train:
#
# - [c17] `offers` is a list of dictionaries: [c18] `"name"`, the `"price"` of all machines together for an hour, their `"mtbf"` in seconds, as above, and
#   `"steps_per_s"`, training steps in a second of work. [c19] `cost` and `restart` are as above, for all offers;
# - [c20] **the price of a useful step** is what an hour costs, divided by the steps of an hour that are not lost. [c21] Of the hour, checkpoints, lost work and
#   restarts take their part. [c22] Each offer saves at its own best interval;
# - [c23] an offer whose `mtbf` is not greater than `restart` never gets anywhere, and is left out;
# - [c24] it returns a pair: [c25] the name of the offer whose useful step is cheapest, and that price, right to 1 %. [c26] No two offers are closer than 3 %;
# - [c27] raises `ValueError` where there is no offer, or none that gets anywhere;
# - [c28] `offers` stays as it is. [c29] Neither function calls gpulab.

# %% nbgrader={"grade": false, "grade_id": "checkpoint_interval", "locked": false, "schema_version": 3, "solution": true, "task": false}
def checkpoint_interval(cost, mtbf, restart):
    """Seconds of work between two checkpoints that waste least."""
    ### BEGIN SOLUTION
    if cost <= 0 or restart < 0 or mtbf <= restart:
        raise ValueError(f"cost {cost}, mtbf {mtbf}, restart {restart}")
    if mtbf == math.inf:
        return math.inf
    up = mtbf - restart
    # Of rounds n = 1 / (e^((t + cost) / up) - 1) fit into an up time.
    # The work n t is largest where e^((t + cost) / up) (1 - t / up) is 1.
    low, high = 0.0, up
    for _ in range(60):
        middle = (low + high) / 2
        if math.exp((middle + cost) / up) * (1 - middle / up) > 1:
            low = middle
        else:
            high = middle
    return low


def cheapest(offers, cost, restart):
    """The offer whose useful step is cheapest, and what that costs."""
    prices = {}
    for offer in offers:
        if offer["mtbf"] > restart:
            useful = offer["steps_per_s"] * useful_share(cost, offer["mtbf"], restart)
            prices[offer["name"]] = offer["price"] / 3600 / useful
    if not prices:
        raise ValueError("no offer gets past its restarts")
    name = min(prices, key=prices.get)
    return name, prices[name]


def useful_share(cost, mtbf, restart):
    """Of all time, the work that is not lost."""
    interval = checkpoint_interval(cost, mtbf, restart)
    if mtbf == math.inf:
        return 1.0
    return interval / math.expm1((interval + cost) / (mtbf - restart)) / mtbf
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "checkpoint_interval_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_checkpoint_interval():
    """A job on as many GPUs as Llama 3's, replayed through 20,000 failures; then three offers."""
    mtbf = 3600 * gpulab.fleet.hours_between(16_384)
    print(f"a failure every {mtbf:,.0f} s; waste, replayed; in brackets that of a better interval")
    print("  cost  restart   yours (s)     yours   half an hour   every minute")
    for cost, restart in ((2, 60), (60, 600), (600, 600), (60, 9_000), (9_000, 600)):
        ups = gpulab.fleet.up_times(mtbf - restart, 20_000, seed=1)

        def waste(interval):
            run = gpulab.fleet.replay(interval, cost, restart, ups)
            return (run.saving + run.lost) / run.useful if run.useful else math.inf

        own = checkpoint_interval(cost, mtbf, restart)
        wastes = [waste(one) for one in (own, 1_800, 60)]
        best = min(waste(own * factor) for factor in (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2))
        print(f"{cost:6}{restart:9}{own:12,.0f}", *(f"{one:9.1%}     " for one in wastes), f"({best:.1%})")
        assert wastes[0] <= 1.05 * best, "half or twice the interval, or something between, wastes less"
    assert checkpoint_interval(60, math.inf, 600) == math.inf, "what never fails needs no checkpoint"

    offers = [
        {"name": "reserved", "price": 800.0, "mtbf": 40_000, "steps_per_s": 1.0},
        {"name": "spot", "price": 330.0, "mtbf": 1_900, "steps_per_s": 1.0},
        {"name": "spot, older cards", "price": 200.0, "mtbf": 7_000, "steps_per_s": 0.3},
    ]
    for cost, restart, due in ((20, 120, "spot"), (240, 900, "reserved")):
        name, price = cheapest(offers, cost, restart)
        print(f"\na checkpoint takes {cost} s, a restart {restart} s: {name}, {price * 1e3:.3f} for 1,000 useful steps")
        assert name == due, f"{due} makes useful steps for less"
        own = next(offer for offer in offers if offer["name"] == name)
        up = own["mtbf"] - restart
        interval = checkpoint_interval(cost, own["mtbf"], restart)
        run = gpulab.fleet.replay(interval, cost, restart, gpulab.fleet.up_times(up, 60_000, seed=2))
        replayed = own["price"] / 3600 / (own["steps_per_s"] * run.share)
        assert abs(price / replayed - 1) < 0.03, f"replayed, it costs {replayed:.6f}, and you say {price:.6f}"
    try:
        checkpoint_interval(60, 600, 600)
    except ValueError as error:
        print("\nValueError:", error)
    else:
        raise AssertionError("a job whose restarts take all of its time has no interval: ValueError is due")


_see_checkpoint_interval()

# %% nbgrader={"grade": true, "grade_id": "checkpoint_interval_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of checkpoint_interval: short 1, long 2, reload 2, never 1, cheapest 2, price 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("operating.checkpoint_interval")
### END HIDDEN TESTS

# %% [markdown]
# ## E21.3 `find_straggler`
#
# One of sixteen ranks is slow, and all sixteen take the same time for a step. The rank with the longest time in NCCL is
# thought to have the bad link. It waits; somebody else is late. Time in a collective is waiting and sending, and
# whoever comes last waits for nobody.
#
# Write `find_straggler(metrics)`:
#
# - [c1] `metrics["tp_us"]` and `metrics["dp_us"]` are lists with a list for each step, which has a number for each rank, in microseconds: [c2] how long
#   the rank was in its tensor-parallel meeting of that step, and in its data-parallel one. [c3] Where the sample was not taken there is `None`
#   instead. [c4] Other keys hold sensors in the same form, such as `"DCGM_FI_DEV_GPU_TEMP"`: [c5] they decide nothing;
# - [c6] `metrics["tp"]` ranks that follow one another are a tensor-parallel **group**: [c7] the first of them are ranks 0 to `tp` - 1. [c8] A data-parallel
#   group has one rank of each of these, the ranks with the same place in theirs. [c9] In every step each group has one **meeting**;
# - [c10] a meeting begins for all of its ranks when the last one has come, and ends for all at once: [c11] its transfer takes all of them equally
#   long, and it is another time in every step;
# - [c12] by how much a rank **holds up** a meeting: [c13] where its time is the shortest, the second shortest time less its own. [c14] Two that
#   come last together hold up nobody, each alone: [c15] the difference is 0. [c16] Where its time is not the shortest, it is 0;
# - [c17] a meeting in which any of its ranks has `None` **does not count**, for none of its ranks. [c18] The same group's meetings in other steps do;
# - [c19] of each kind of meeting the **median** over the steps counts, as `statistics.median` has it: [c20] of an even number the mean of the
#   two in the middle. [c21] Where no meeting of a rank's group counts, it is 0;
# - [c22] the **straggler** is the rank whose median is at least `metrics["least_us"]` in both kinds of meeting: [c23] its tensor-parallel group waits for it,
#   and all the other groups wait for that group. [c24] A group of one rank has no meeting: [c25] then the other kind alone decides. [c26] Where all groups
#   have one rank, nobody is the straggler;
# - [c27] it returns the straggler's number, an `int`. [c28] There is never more than one. [c29] Where there is none it returns `None`;
# - [c30] raises `ValueError` where there is no step, where the lists of steps or those in them have different lengths, and where `tp` is less than 1 or
#   does not divide the number of ranks;
# - [c31] `metrics` is left as it is, and gpulab is not called.

# %% nbgrader={"grade": false, "grade_id": "find_straggler", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_straggler(metrics):
    """The rank that holds up both of its meetings in the median step; None where there is none."""
    ### BEGIN SOLUTION
    steps = metrics["tp_us"] + metrics["dp_us"]
    ranks = len(steps[0]) if steps else 0
    if not steps or len(metrics["tp_us"]) != len(metrics["dp_us"]) or any(len(row) != ranks for row in steps):
        raise ValueError("no steps, or steps of different lengths")
    tp = metrics["tp"]
    if tp < 1 or ranks % tp:
        raise ValueError(f"{ranks} ranks are not groups of {tp}")

    for rank in range(ranks):
        first = rank - rank % tp
        meetings = [("tp_us", range(first, first + tp)), ("dp_us", range(rank % tp, ranks, tp))]
        held = [held_up(metrics[kind], group, rank) for kind, group in meetings if len(group) > 1]
        if held and min(held) >= metrics["least_us"]:
            return rank
    return None


def held_up(steps, group, rank):
    """By how much a rank holds up its group's meetings, in the median step."""
    from statistics import median

    found = []
    for row in steps:
        times = sorted(row[r] for r in group) if all(row[r] is not None for r in group) else None
        if times:
            found.append(times[1] - times[0] if row[rank] == times[0] else 0)
    return median(found) if found else 0
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "find_straggler_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_find_straggler():
    """Eight ranks in pairs, simulated: what their dashboards show, and who was named."""
    import random
    from statistics import median

    def job(late=None, by=0, spike=None, slow_group=None):
        rng, rows = random.Random(1), {"tp": [], "dp": []}
        for s in range(9):
            work = [200_000 + rng.randint(-900, 900) for _ in range(8)]
            if late is not None:
                work[late] += by
            if spike is not None and s == 4:
                work[spike] += 5_000_000
            behind = [30_000 if group == slow_group else 0 for group in range(4)]
            times = gpulab.fleet.step(work, 2, (6_000, 30_000), behind)
            for kind in rows:
                rows[kind].append([int(time) for time in times[kind]])
        heat = [[62 if rank != 6 else 84 for rank in range(8)] for _ in range(9)]
        return {"tp": 2, "least_us": 5_000, "tp_us": rows["tp"], "dp_us": rows["dp"], "DCGM_FI_DEV_GPU_TEMP": heat}

    jobs = {
        "rank 3 is late": (job(late=3, by=40_000), 3),
        "the same, and rank 0 had one bad step": (job(late=3, by=40_000, spike=0), 3),
        "nobody is": (job(), None),
        "rank 0 had one bad step": (job(spike=0), None),
        "group 2 is late as a whole": (job(slow_group=2), None),
    }
    for name, (metrics, due) in jobs.items():
        found = find_straggler(metrics)
        print(f"{name}: named {found}")
        for kind in ("tp_us", "dp_us", "DCGM_FI_DEV_GPU_TEMP"):
            shown = [median(column) for column in zip(*metrics[kind])]
            print(f"   {kind.removeprefix('DCGM_FI_DEV_'):9} median", *(f"{value:7,}" for value in shown))
        assert found == due and type(found) is type(due), f"{due} is due"

    holes = job(late=3, by=40_000)
    for row in holes["tp_us"][:3]:
        row[0] = row[2] = None
    assert find_straggler(holes) == 3, "with holes in three steps the others still say that it is rank 3"
    try:
        find_straggler({**holes, "tp": 3})
    except ValueError as error:
        print("ValueError:", error)
    else:
        raise AssertionError("8 ranks are not groups of 3: ValueError is due")


_see_find_straggler()

# %% nbgrader={"grade": true, "grade_id": "find_straggler_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of find_straggler: culprit 3, single 2, noise 2, nobody 2, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("operating.find_straggler")
### END HIDDEN TESTS

# %% [markdown]
# ## E21.4 `chargeback`
#
# The bill comes by pool of GPUs, and the teams want to know their part of it. A part that is right adds up: idle hours are on the bill, too, and
# so are the jobs that nobody has put a name on.
#
# Write `chargeback(usage, bill)`:
#
# - [c1] `bill` is a dictionary from a pool's name to a dictionary: [c2] `"cents"`, an `int`, 0 or more, what the pool costs in this month; [c3] `"gpu_seconds"`, an `int` above 0, its capacity:
#   [c4] all its GPUs, the whole month; [c5] and `"reserved"`, a dictionary from a team's name to the GPU-seconds that are kept free for it, if it wants
#   them. [c6] It may be empty, and reservations add up to the capacity or less;
# - [c7] `usage` is a list of records, dictionaries: [c8] a job **held** `"gpu_seconds"` GPU-seconds, an `int`, of the `"pool"`, for a `"team"`. [c9] There may be many records of a team;
# - [c10] a record's `"team"` is a name; [c11] or `None` where the job has no tag; [c12] or a dictionary from names to **weights**, `int`s above 0, where several teams share
#   a job: [c13] then each has held the part of the record that its weight is of all its weights. [c14] A GPU-second is paid once;
# - [c15] a pool's GPU-second costs `cents / gpu_seconds` of **that pool**, whoever holds it, and whether anybody does;
# - [c16] what a team has held in a pool, alone and shared, is paid by the team. [c17] What was held without a tag goes to the line `"untagged"`;
# - [c18] **idle** is what is left of a pool's capacity. [c19] Each team that held less than it has reserved has a **shortfall** of as much. [c20] Where the shortfalls of all
#   teams add up to the idle time or less, each team pays its own, and the rest of the idle time goes to the line `"idle"`. [c21] Where they add up
#   to more, since others have used what was kept free, the teams pay the idle time in proportion to their shortfalls, and the line gets nothing;
# - [c22] no team is called `"untagged"` or `"idle"`;
# - [c23] it returns a dictionary from lines, the teams and these two, to `int`s of cents. [c24] They add up to the cents of all pools **exactly**. [c25] A line that is due nothing at all is left
#   out; [c26] one that is due less than a cent is there, with 0 or 1;
# - [c27] **rounding** is done once, for the lines of the whole bill: [c28] each is due an exact fraction of cents over all pools, and gets it rounded down. [c29] The
#   cents that are then missing go one each to the lines with the largest fractions left over, and of equal ones to those whose
#   names come first in the alphabet, as Python sorts them;
# - [c30] raises `ValueError` where a record's pool is not on the bill, where more of a pool was held than its capacity, and where a shared record has no weights. [c31] Records
#   of 0 GPU-seconds may be there;
# - [c32] `usage` and `bill` are left as they are, and gpulab is not called. [c33] `fractions` may help.

# %% nbgrader={"grade": false, "grade_id": "chargeback", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chargeback(usage, bill):
    """Cents by team, and those of what is idle and of what has no tag."""
    ### BEGIN SOLUTION
    from fractions import Fraction

    held = {pool: {} for pool in bill}
    for record in usage:
        if record["pool"] not in bill:
            raise ValueError(f"{record['pool']} is not on the bill")
        for line, part in parts_of(record["team"]).items():
            of_pool = held[record["pool"]]
            of_pool[line] = of_pool.get(line, 0) + part * record["gpu_seconds"]

    due = {}
    for pool, one in bill.items():
        idle = one["gpu_seconds"] - sum(held[pool].values())
        if idle < 0:
            raise ValueError(f"more of {pool} was held than there is")
        short = {team: max(0, seconds - held[pool].get(team, 0)) for team, seconds in one["reserved"].items()}
        paid = min(Fraction(1), Fraction(idle) / sum(short.values())) if sum(short.values()) else 0
        seconds = [*held[pool].items(), *((team, paid * missing) for team, missing in short.items())]
        seconds.append(("idle", idle - paid * sum(short.values())))
        for line, many in seconds:
            due[line] = due.get(line, 0) + many * Fraction(one["cents"], one["gpu_seconds"])
    return rounded({line: cents for line, cents in due.items() if cents}, sum(one["cents"] for one in bill.values()))


def parts_of(team):
    """Whose a record is, and to which part."""
    from fractions import Fraction

    if team is None:
        return {"untagged": Fraction(1)}
    if not isinstance(team, dict):
        return {team: Fraction(1)}
    if not team:
        raise ValueError("a shared record without weights")
    return {name: Fraction(weight, sum(team.values())) for name, weight in team.items()}


def rounded(due, total):
    """Whole cents that add up: the largest remainders get what rounding down has left."""
    cents = {line: int(exact) for line, exact in due.items()}
    by_remainder = sorted(due, key=lambda line: (cents[line] - due[line], line))
    for line in by_remainder[: total - sum(cents.values())]:
        cents[line] += 1
    return cents
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "chargeback_seen", "locked": true, "schema_version": 3, "solution": false, "task": false}
def _see_chargeback():
    """A bill of two pools, and who pays what of it."""
    hours = 3600
    reserved = {"vision": 1_500 * hours, "speech": 500 * hours}
    bill = {
        "h100": {"cents": 960_000, "gpu_seconds": 4_000 * hours, "reserved": reserved},
        "l40s": {"cents": 80_000, "gpu_seconds": 1_000 * hours, "reserved": {}},
    }
    usage = [
        {"team": "vision", "pool": "h100", "gpu_seconds": 1_000 * hours},
        {"team": "speech", "pool": "h100", "gpu_seconds": 900 * hours},
        {"team": {"vision": 1, "speech": 3}, "pool": "h100", "gpu_seconds": 400 * hours},
        {"team": None, "pool": "h100", "gpu_seconds": 300 * hours},
        {"team": "search", "pool": "l40s", "gpu_seconds": 700 * hours},
    ]
    cents = chargeback(usage, bill)
    print(f"{'line':12}{'cents':>10}")
    for line in sorted(cents):
        print(f"{line:12}{cents[line]:10,}")
    print(f"{'in all':12}{sum(cents.values()):10,} of {sum(pool['cents'] for pool in bill.values()):,}")
    assert sum(cents.values()) == 1_040_000, "the lines do not add up to the bill"
    # A GPU-hour of h100 costs 240 cents: vision pays 1,100 hours held and 400 reserved in vain.
    due = {"vision": 360_000, "speech": 288_000, "untagged": 72_000, "search": 56_000, "idle": 264_000}
    assert cents == due, f"{due} is due"

    three = {"pool": {"cents": 100, "gpu_seconds": 3, "reserved": {}}}
    thirds = chargeback([{"team": team, "pool": "pool", "gpu_seconds": 1} for team in ("c", "a", "b")], three)
    print("a third each of 100 cents:", thirds)
    assert thirds == {"a": 34, "b": 33, "c": 33}, "the missing cent goes to the first of the alphabet"
    try:
        chargeback([{"team": "a", "pool": "tpu", "gpu_seconds": 1}], three)
    except ValueError as error:
        print("ValueError:", error)
    else:
        raise AssertionError("a pool that is not on the bill: ValueError is due")


_see_chargeback()

# %% nbgrader={"grade": true, "grade_id": "chargeback_hidden", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false}
# Hidden tests of chargeback: teams 2, shared 2, idle 3, untagged 1, cents 1, errors 1.
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("operating.chargeback")
### END HIDDEN TESTS
