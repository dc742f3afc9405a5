"""Chapter "Operating at scale: observability, failures, cost": wrong solutions, and right ones written another way."""

import inspect
import math
import re

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable  # noqa: F401
from autograder.authoring.mistakes import Attempt, Edited

# E21.1 gang_schedule

ALL_OF_IT = ("gang", "bounded", "used", "tight", "errors")

REFUSED = '        if job["gpus"] < 1 or job["gpus"] > 8 and job["gpus"] % 8 or job["gpus"] > 8 * len(cluster["free"]):\n'
IN_TURN = "    for job in jobs:\n        for place in"
MAY = "            if head is None or hour_of(head, after, with_it) <= due:\n"
SKIPPED = "        else:\n            if head is None:\n                head, due = job, hour_of(job, free, running)\n"
STARTED = '                started.append((job["name"], place))\n'
TIGHTEST = "sorted(range(len(free)), key=free.__getitem__)"
SMALL = "    if gpus <= 8:\n"
WHOLE = "    whole = [node for node, there in enumerate(free) if there == 8][: gpus // 8]\n"
FREE = '    free = list(cluster["free"])\n'


def queued(edits, loses, because, breaks):
    return edited("gang_schedule", edits, loses=loses, because=because, breaks=breaks)


pod_by_pod = queued(
    {SKIPPED: "        else:\n            part = {node: there for node, there in enumerate(free) if there}\n            while sum(part.values()) > job['gpus']:\n                part.popitem()\n            if part:\n                started.append((job['name'], part))\n                free = [0 if node in part else there for node, there in enumerate(free)]\n"},
    ALL_OF_IT,
    "a job is thought to take what there is and to wait for the rest",
    "**all or nothing**: a placement has as many GPUs as the job asks for",
)
strictly_in_order = queued(
    {SKIPPED: "        else:\n            break\n"},
    ("used",),
    "a queue is thought to stand still behind its head",
    "**no GPU stays idle for nothing**: in the end no job is left that could still start by these rules on any node",
)
whoever_fits = queued(
    {MAY: "            if True:\n"},
    ("bounded",),
    "an idle GPU is thought to be the only waste, so that a large job waits for ever",
    "a job behind the head may start now, but only where the head's hour is no later for it",
)
only_short_ones = queued(
    {MAY: '            if head is None or job["hours"] <= due:\n'},
    ("used",),
    "a job is thought to have to be over before the head can start",
    "but only where the head's hour is no later for it",
)
only_shorter_ones = queued(
    {MAY: '            if head is None or job["hours"] < due:\n'},
    ("used",),
    "a job that ends in the head's hour is thought to be in its way",
    "The same hour is no later",
)
only_spare_nodes = queued(
    {MAY: "            if head is None or hour_of(head, after, [*running, (1e9, place)]) <= due:\n"},
    ("used",),
    "what the head will need is thought to be kept empty until then",
    "running jobs have ended by then, and so have those that start now, by their hours",
)
everybody_is_owed = queued(
    {MAY: "            if all(hour_of(one, after, with_it) <= hour for one, hour in owed):\n", SKIPPED: "        else:\n            owed.append((job, hour_of(job, free, running)))\n", "    started, head, due = [], None, None\n": "    started, owed = [], []\n"},
    ("used",),
    "each job is thought to have a right to its hour",
    "Jobs behind the head are owed nothing",
)
tightest_or_nothing = queued(
    {"        for place in places(job[\"gpus\"], free):\n": "        for place in places(job[\"gpus\"], free)[:1]:\n"},
    ("used",),
    "the tightest node is thought to be the only one",
    "that could still start by these rules on any node",
)
now_is_the_hour = queued(
    {SKIPPED: "        else:\n            if head is None:\n                head, due = job, hour_of(job, list(cluster['free']), [(one['left'], one['nodes']) for one in cluster['running']])\n"},
    ("used",),
    "the head's hour is thought not to depend on those that start before it",
    "if nothing starts but the jobs before it",
)
not_taken = queued(
    {"                free, running = after, with_it\n": "                running = with_it\n"},
    ALL_OF_IT,
    "what one of them gets is thought to be free for the next, too",
    "and all of them free, after those that start before it in the list",
)
loosest_node = queued(
    {TIGHTEST: "sorted(range(len(free)), key=lambda node: -free[node])"},
    ("tight",),
    "load is thought to be spread over nodes",
    "**tight**: a job of up to eight GPUs that starts before there is a head takes, of the nodes on which it fits, one with the fewest free GPUs",
)
first_node = queued(
    {TIGHTEST: "range(len(free))"},
    ("tight",),
    "the first node with room is thought to be as good as any",
    "one with the fewest free GPUs",
)
counted_together = queued(
    {
        "    if gpus <= 8:\n        return [{node: gpus} for node in sorted(range(len(free)), key=free.__getitem__) if free[node] >= gpus]\n": "    if sum(free) >= gpus:\n        place = {}\n        for node in sorted(range(len(free)), key=free.__getitem__, reverse=True):\n            place[node] = min(free[node], gpus - sum(place.values()))\n        return [{node: many for node, many in place.items() if many}]\n    if gpus <= 8:\n        return []\n",
    },
    ALL_OF_IT,
    "free GPUs are thought to be alike, wherever they are",
    "A job of up to eight GPUs has them in one node",
)
parts_of_nodes = queued(
    {
        WHOLE + "    return [dict.fromkeys(whole, 8)] if 8 * len(whole) == gpus else []": "    place = {}\n    for node in sorted(range(len(free)), key=free.__getitem__, reverse=True):\n        many = min(free[node], gpus - sum(place.values()))\n        place |= {node: many} if many else {}\n    return [place] if sum(place.values()) == gpus else []",
    },
    ("gang", "bounded", "used", "tight", "errors"),
    "a large job is thought to run on any GPUs, if they are enough",
    "A larger one asks for a multiple of eight and has **whole nodes**",
)
smallest_first = queued(
    {IN_TURN: "    for job in sorted(jobs, key=lambda job: job['gpus']):\n        for place in"},
    ALL_OF_IT,
    "more jobs are thought to be better served if the small ones come first",
    "**in order**: jobs start in the order of `jobs` as long as each of them fits",
)
largest_first = queued(
    {IN_TURN: "    for job in sorted(jobs, key=lambda job: -job['gpus']):\n        for place in"},
    ALL_OF_IT,
    "large jobs are thought to be placed best while there is room",
    "`jobs` are those that wait, in order of arrival, the longest-waiting first",
)
newest_first = queued(
    {IN_TURN: "    for job in reversed(jobs):\n        for place in"},
    ALL_OF_IT,
    "a queue is thought to be a stack",
    "in order of arrival, the longest-waiting first",
)
last_one_is_the_head = queued(
    {SKIPPED: "        else:\n            head, due = job, hour_of(job, free, running)\n"},
    ("bounded", "used"),
    "whoever does not fit is thought to be the head, one after the other",
    "The first that does not is the **head** of the queue",
)
as_a_dictionary = queued(
    {"    return started\n": "    return dict(started)\n"},
    ALL_OF_IT,
    "an order is thought to be in a dictionary already",
    "it returns a list of pairs in the order in which the jobs start",
)
names_alone = queued(
    {STARTED: '                started.append(job["name"])\n'},
    ALL_OF_IT,
    "where a job runs is thought to be somebody else's business",
    "a name and a **placement**, a dictionary from a node's number to GPUs of it",
)
any_size = queued(
    {REFUSED: '        if job["gpus"] < 1 or job["gpus"] > 8 * len(cluster["free"]):\n'},
    ("errors",),
    "a job is thought to be able to leave GPUs of its nodes idle",
    "for more than eight that are no multiple of eight",
)
too_large = queued(
    {REFUSED: '        if job["gpus"] < 1 or job["gpus"] > 8 and job["gpus"] % 8:\n'},
    ("errors",),
    "a job that never fits is thought to wait like any other",
    "or for more than all nodes have",
)
none_at_all = queued(
    {REFUSED: '        if job["gpus"] > 8 and job["gpus"] % 8 or job["gpus"] > 8 * len(cluster["free"]):\n'},
    ("errors",),
    "nobody is thought to ask for nothing",
    "raises `ValueError` where a job asks for less than 1 GPU",
)
somebody_must_wait = queued(
    {FREE: FREE + '    if not jobs:\n        raise ValueError("nobody waits")\n'},
    ("gang", "bounded", "tight", "errors"),
    "an empty queue is thought to be a mistake",
    "Without jobs nobody starts: the list is empty",
)
taken_from_the_cluster = queued(
    {FREE: '    free = cluster["free"]\n', "                free, running = after, with_it\n": "                free[:], running = after, with_it\n"},
    ALL_OF_IT,
    "the cluster is thought to be there to be kept up to date",
    "`jobs` and `cluster` are left as they are",
)
only_without_a_head = queued(
    {"    return started\n": "    return started if head is not None or not started else started[:1]\n"},
    ("gang", "bounded", "tight", "errors"),
    "one job at a time is thought to start",
    "where all jobs fit there is no head",
)


@mistake(
    "gang_schedule",
    loses=ALL_OF_IT,
    because="the library's own policy is thought to be there to be used",
    breaks="and gpulab is not called",
)
def borrowed_policy(jobs, cluster):
    import gpulab.fleet as fleet

    if any(job["gpus"] < 1 or job["gpus"] > 8 and job["gpus"] % 8 or job["gpus"] > 8 * len(cluster["free"]) for job in jobs):
        raise ValueError("no")
    return fleet.backfill(jobs, cluster)


what_free_is = unbreakable("gang_schedule", '`cluster["free"]` is a list: the free GPUs of each node', "it says what the argument is")
what_runs = unbreakable("gang_schedule", '`cluster["running"]` is a list of dictionaries: on which `"nodes"`', "it says what the argument is")
what_jobs_are = unbreakable("gang_schedule", 'Each is a dictionary: `"name"`, `"gpus"`, an `int`, and `"hours"`', "it says what the argument is")
any_node = unbreakable("gang_schedule", "Behind the head it takes any node that the rules allow", "it is a permission")
why_tight = unbreakable("gang_schedule", "Whole nodes are left for those that need them", "it is the reason of the rule")


@alternative("gang_schedule")
def on_a_calendar(jobs, cluster):
    """The free GPUs of every node at every moment at which something ends."""
    nodes = range(len(cluster["free"]))
    for job in jobs:
        if not (1 <= job["gpus"] <= 8 or job["gpus"] % 8 == 0) or not 1 <= job["gpus"] <= 8 * len(nodes):
            raise ValueError("no such job")
    held = [(one["left"], dict(one["nodes"])) for one in cluster["running"]]

    def free_at(hour):
        busy = {node: sum(where.get(node, 0) for left, where in held if left > hour) for node in nodes}
        return {node: 8 - busy[node] for node in nodes}

    def has_room(gpus, free):
        return max(free.values()) >= gpus if gpus <= 8 else sum(there == 8 for there in free.values()) >= gpus // 8

    def first_hour(gpus):
        return next(hour for hour in sorted({0, *(left for left, _ in held)}) if has_room(gpus, free_at(hour)))

    answer, head, promised = [], None, None
    for job in jobs:
        free = free_at(0)
        if job["gpus"] <= 8:
            options = [{node: job["gpus"]} for node in nodes if free[node] >= job["gpus"]]
            options.sort(key=lambda option: free[next(iter(option))])
        else:
            idle = [node for node in nodes if free[node] == 8]
            options = [{node: 8 for node in idle[: job["gpus"] // 8]}] if has_room(job["gpus"], free) else []
        if not options and head is None:
            head, promised = job["gpus"], first_hour(job["gpus"])
        for option in options:
            held.append((job["hours"], option))
            if head is None or first_hour(head) <= promised:
                answer.append([job["name"], option])
                break
            held.pop()
    return answer


@alternative("gang_schedule")
def over_and_over(jobs, cluster):
    """As long as somebody can start, somebody does; the state is a value that is made anew."""
    import heapq

    total = 8 * len(cluster["free"])
    if not all(0 < job["gpus"] <= total and (job["gpus"] < 9 or not job["gpus"] % 8) for job in jobs):
        raise ValueError("a job that can never run")

    def options(gpus, free):
        found = []
        if gpus > 8:
            empty = tuple(node for node in range(len(free)) if free[node] == 8)
            if len(empty) * 8 >= gpus:
                found.append((0, {node: 8 for node in empty[-(gpus // 8) :]}))
        else:
            found = [(room, {node: gpus}) for node, room in enumerate(free) if room >= gpus]
        return [place for _, place in sorted(found, key=lambda pair: pair[0])]

    def when(gpus, free, ends):
        free, ends, now = list(free), list(ends), 0
        heapq.heapify(ends)
        while not options(gpus, free):
            now, _, where = heapq.heappop(ends)
            for node, many in where:
                free[node] += many
            while ends and ends[0][0] == now:
                for node, many in heapq.heappop(ends)[2]:
                    free[node] += many
        return now

    def put(free, ends, job, place):
        left = tuple(room - place.get(node, 0) for node, room in enumerate(free))
        return left, [*ends, (job["hours"], len(ends), tuple(place.items()))]

    free = tuple(cluster["free"])
    ends = [(one["left"], number, tuple(one["nodes"].items())) for number, one in enumerate(cluster["running"])]
    queue, answer = list(jobs), []
    while queue and (places := options(queue[0]["gpus"], free)):
        job = queue.pop(0)
        free, ends = put(free, ends, job, places[0])
        answer.append((job["name"], places[0]))
    if not queue:
        return answer
    head, *rest = queue
    due = when(head["gpus"], free, ends)
    for job in rest:
        allowed = [place for place in options(job["gpus"], free) if when(head["gpus"], *put(free, ends, job, place)) <= due]
        if allowed:
            free, ends = put(free, ends, job, allowed[0])
            answer.append((job["name"], allowed[0]))
    return answer


@alternative("gang_schedule")
def on_a_table(jobs, cluster):
    """A table of GPUs by hour and node."""
    import numpy as np

    sizes = np.array([job["gpus"] for job in jobs], dtype=int)
    nodes = len(cluster["free"])
    if ((sizes < 1) | (sizes > 8 * nodes) | ((sizes > 8) & (sizes % 8 != 0))).any():
        raise ValueError("not to be had")
    ends = sorted({0.0, *(float(one["left"]) for one in cluster["running"]), *(float(job["hours"]) for job in jobs)})
    table = np.tile(np.array(cluster["free"]), (len(ends), 1))
    for one in cluster["running"]:
        for node, gpus in one["nodes"].items():
            table[[end >= one["left"] for end in ends], node] += gpus

    def row_of(gpus, table):
        fit = (table == 8).sum(1) * 8 >= gpus if gpus > 8 else table.max(1) >= gpus
        return int(np.argmax(fit)) if fit.any() else len(ends)

    answer, head, due = [], 0, 0
    for job in jobs:
        gpus, now = job["gpus"], table[0]
        if gpus > 8:
            whole = np.flatnonzero(now == 8)
            choices = [whole[: gpus // 8]] if len(whole) * 8 >= gpus else []
        else:
            choices = [np.array([node]) for node in np.argsort(now, kind="stable") if now[node] >= gpus]
        if not choices and not head:
            head, due = gpus, row_of(gpus, table)
        for chosen in choices:
            after = table.copy()
            rows = [end < job["hours"] for end in ends]
            after[np.ix_(rows, chosen)] -= min(gpus, 8)
            if head and row_of(head, after) > due:
                continue
            table = after
            answer.append((job["name"], {int(node): min(gpus, 8) for node in chosen}))
            break
    return answer


# E21.2 checkpoint_interval

INTERVALS = ("short", "long", "reload", "never")
PRICES = ("cheapest", "price")

CHECKED = "    if cost <= 0 or restart < 0 or mtbf <= restart:\n"
UP = "    up = mtbf - restart\n    # Of"
FOUND = "    return low\n"
NEVER = "    if mtbf == math.inf:\n        return math.inf\n    up"
OFFERED = '        if offer["mtbf"] > restart:\n'
PRICE = 'offer["price"] / 3600 / useful'
USEFUL = 'offer["steps_per_s"] * useful_share(cost, offer["mtbf"], restart)'
SHARE = "interval / math.expm1((interval + cost) / (mtbf - restart)) / mtbf"
NONE = "    if not prices:\n"


def saved(edits, loses, because, breaks):
    return edited("checkpoint_interval", edits, loses=loses, because=because, breaks=breaks)


half_an_hour = saved(
    {FOUND: "    return 1800.0\n"},
    (*INTERVALS, "price", "errors"),
    "half an hour is thought to be what one does",
    "it returns an interval, in seconds of work without the checkpoint, whose waste is **at most 5 % more** than that of the best one",
)
as_often_as_possible = saved(
    {FOUND: "    return cost\n"},
    (*INTERVALS, "price", "errors"),
    "what is saved more often is thought to be safer",
    "the **waste** of an interval is the time for checkpoints and for lost work together",
)
as_seldom_as_possible = saved(
    {FOUND: "    return up\n"},
    (*INTERVALS, "price", "errors"),
    "one checkpoint for each failure is thought to be enough",
    "all **work since the last finished checkpoint** is lost",
)
the_square_root = saved(
    {FOUND: "    return math.sqrt(2 * cost * up)\n"},
    ("long",),
    "Young's approximation is thought to be a law",
    "The well-known square root is good for a short `cost` alone",
)
without_the_two = saved(
    {FOUND: "    return math.sqrt(cost * up)\n"},
    (*INTERVALS, "errors"),
    "a failure is thought to lose a whole round, and not half of one",
    "in which it does no work, and so on, round after round",
)
from_start_to_start = saved(
    {FOUND: "    return low + cost\n"},
    ("long",),
    "an interval is thought to be from one checkpoint's start to the next one's",
    "it returns an interval, in seconds of work without the checkpoint",
)
restarts_can_fail = saved(
    {UP: "    up = mtbf\n    # Of"},
    ("reload",),
    "the log's mean time is thought to be the time in which work fails",
    "So there is a restart in it",
)
restart_added = saved(
    {UP: "    up = mtbf + restart\n    # Of"},
    ("reload",),
    "the mean time between failures is thought to begin when work goes on again",
    "`mtbf` is the mean time from one failure **to the next**, as a log gives it: hours divided by failures",
)
restart_in_the_cost = saved(
    {UP: "    up, cost = mtbf - restart, cost + restart\n    # Of"},
    ("short", "reload", "never", "price", "errors"),
    "a reload is thought to be part of what a checkpoint costs",
    "Then it takes `restart` seconds until work goes on, in a new round",
)
until_the_failure = saved(
    {FOUND: "    return low * 0.5\n"},
    (*INTERVALS, "price", "errors"),
    "to be on the safe side, an interval is halved",
    "whose waste is **at most 5 % more** than that of the best one, for any `cost` from a ten-thousandth of the mean up time to twice the mean up time",
)
failures_on_time = saved(
    {FOUND: "    return max(up / max(1, round(math.sqrt(up / (2 * cost)))) - cost, cost)\n"},
    ("long",),
    "a failure is thought to come when the mean time is over, so that rounds are fitted into it",
    "The rest is the **up time**, which is drawn from an exponential distribution",
)
a_large_number = saved(
    {NEVER: "    if mtbf == math.inf:\n        return 1e9\n    up"},
    ("never",),
    "a large number is thought to be as good as infinity",
    "then no checkpoint is worth its time, and the interval is `math.inf`",
)
computed_for_ever = saved(
    {NEVER: "    if False:\n        return math.inf\n    up"},
    ("never",),
    "infinity is thought to need no case of its own",
    "`mtbf` may be `math.inf`",
)
anything_goes = saved(
    {CHECKED: "    if False:\n"},
    ("errors",),
    "numbers are thought to make sense",
    "raises `ValueError` where `cost` is 0 or less, where `restart` is less than 0",
)
equal_goes = saved(
    {CHECKED: "    if cost <= 0 or restart < 0 or mtbf < restart:\n"},
    ("errors",),
    "a restart is thought to be allowed to take all of the time",
    "and where `mtbf` is not greater than `restart`",
)
price_of_an_hour = saved(
    {PRICE: 'offer["price"]'},
    PRICES,
    "the cheapest hour is thought to be the cheapest training",
    "**the price of a useful step** is what an hour costs, divided by the steps of an hour that are not lost",
)
price_of_any_step = saved(
    {USEFUL: 'offer["steps_per_s"]'},
    PRICES,
    "every step is thought to be useful",
    "divided by the steps of an hour that are not lost",
)
restarts_are_free = saved(
    {SHARE: "interval / math.expm1((interval + cost) / (mtbf - restart)) / (mtbf - restart)"},
    PRICES,
    "machines are thought to cost nothing while a job is loaded",
    "Of the hour, checkpoints, lost work and restarts take their part",
)
lost_work_is_free = saved(
    {SHARE: "interval / (interval + cost) * (1 - restart / mtbf)"},
    ("price",),
    "work that is lost is thought to have been done",
    "all **work since the last finished checkpoint** is lost: an unfinished one is of no use",
)
restart_twice = saved(
    {SHARE: "interval / math.expm1((interval + cost) / (mtbf - restart)) / (mtbf + restart)"},
    ("price",),
    "the restart is thought to come on top of the mean time between failures",
    "So there is a restart in it",
)
saved_alike = saved(
    {"    interval = checkpoint_interval(cost, mtbf, restart)\n": "    interval = 600.0\n"},
    ("price",),
    "one interval is thought to do for all offers",
    "Each offer saves at its own best interval",
)
every_card_alike = saved(
    {USEFUL: 'useful_share(cost, offer["mtbf"], restart)'},
    PRICES,
    "a step is thought to take the same time on every card",
    '`"steps_per_s"`, training steps in a second of work',
)
by_the_second = saved(
    {PRICE: 'offer["price"] / useful'},
    ("price",),
    "prices are thought to be of a second",
    'the `"price"` of all machines together for an hour',
)
never_started = saved(
    {OFFERED: '        if offer["mtbf"] != restart:\n', "    if cost <= 0 or restart < 0 or mtbf <= restart:\n": "    if mtbf <= restart and restart:\n        return abs(restart - mtbf)\n    if cost <= 0 or restart < 0 or mtbf <= restart:\n"},
    ("cheapest", "price", "errors"),
    "an offer is thought to be good for something at its price",
    "an offer whose `mtbf` is not greater than `restart` never gets anywhere, and is left out",
)
refused_for_one = saved(
    {OFFERED: "        if True:\n"},
    PRICES,
    "one offer that is no good is thought to spoil the list",
    "and is left out",
)
none_is_none = saved(
    {NONE: "    if not prices:\n        return None\n    if not prices:\n"},
    ("errors",),
    "where there is nothing, None is thought to be the answer",
    "raises `ValueError` where there is no offer, or none that gets anywhere",
)
the_whole_offer = saved(
    {"    return name, prices[name]\n": "    return [offer for offer in offers if offer['name'] == name][0], prices[name]\n"},
    PRICES,
    "an offer is thought to be its own name",
    "it returns a pair: the name of the offer whose useful step is cheapest",
)
dearest = saved(
    {"min(prices, key=prices.get)": "max(prices, key=prices.get)"},
    PRICES,
    "what costs most is thought to be worth most",
    "the name of the offer whose useful step is cheapest, and that price, right to 1 %",
)
offers_marked = saved(
    {"    prices = {}\n": "    prices = {}\n    [offer.setdefault('seen', True) for offer in offers]\n"},
    (*PRICES, "errors"),
    "a dictionary that comes in is thought to be there to be written to",
    "`offers` stays as it is",
)


def in_one_cell(*functions, loses=(), because="", breaks=""):
    """Functions of one cell, written out here; the two that are graded lose what follows their names."""
    texts = [re.sub(r"^def (interval|cheapest)_\w+", lambda named: {"interval": "def checkpoint_interval", "cheapest": "def cheapest"}[named[1]], inspect.getsource(one)) for one in functions]
    return Edited(Attempt("checkpoint_interval", "checkpoint_interval", "\n\n".join(texts), loses, because, breaks))


def interval_borrowed(cost, mtbf, restart):
    import gpulab.fleet as fleet

    if cost <= 0 or restart < 0 or mtbf <= restart:
        raise ValueError("no")
    return math.inf if mtbf == math.inf else fleet.best_interval(cost, mtbf - restart)


def cheapest_borrowed(offers, cost, restart):
    import gpulab.fleet as fleet

    prices = {}
    for offer in offers:
        up = offer["mtbf"] - restart
        if up > 0:
            interval = checkpoint_interval(cost, offer["mtbf"], restart)
            prices[offer["name"]] = offer["price"] / 3600 / offer["steps_per_s"] / fleet.useful_share(interval, cost, up, restart)
    if not prices:
        raise ValueError("no offer")
    name = min(prices, key=prices.get)
    return name, prices[name]


borrowed_interval = in_one_cell(
    interval_borrowed,
    cheapest_borrowed,
    loses=("short", "long", "reload", "never", "cheapest", "price", "errors"),
    because="the library's own answer is thought to be there to be used",
    breaks="Neither function calls gpulab",
)
what_fails_not = unbreakable("checkpoint_interval", "In those nothing fails", "it is said of the model, and a restart is in the mean time in any case")
no_memory = unbreakable("checkpoint_interval", "a failure is no more likely for being long overdue", "it explains the distribution")
divided_by_useful = unbreakable("checkpoint_interval", "divided by the time of useful work, in the long run", "it says what is measured")
as_above = unbreakable("checkpoint_interval", "`cost` and `restart` are as above, for all offers", "it says what the arguments are")
names_of_offers = unbreakable("checkpoint_interval", '`offers` is a list of dictionaries: `"name"`', "it says what the argument is")
well_apart = unbreakable("checkpoint_interval", "No two offers are closer than 3 %", "it is a promise about what is drawn")


def interval_dalys_series(cost, mtbf, restart):
    up = mtbf - restart
    if not (cost > 0 and restart >= 0 and up > 0):
        raise ValueError("no such job")
    if math.isinf(mtbf):
        return mtbf
    ratio = cost / (2 * up)
    start = math.sqrt(2 * cost * up) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost if ratio < 1 else up
    # Three steps of Newton's method from Daly's estimate.
    for _ in range(3):
        grown = math.exp((start + cost) / up)
        start -= (grown * (1 - start / up) - 1) / (-grown * start / up**2)
    return start


def cheapest_dalys_series(offers, cost, restart):
    def price(offer):
        if math.isinf(offer["mtbf"]):
            return offer["price"] / (3600 * offer["steps_per_s"])
        up = offer["mtbf"] - restart
        t = checkpoint_interval(cost, offer["mtbf"], restart)
        rounds = 1 / (math.exp((t + cost) / up) - 1)
        steps = rounds * t * offer["steps_per_s"]
        return offer["price"] * offer["mtbf"] / 3600 / steps

    possible = [offer for offer in offers if offer["mtbf"] > restart]
    if len(possible) == 0:
        raise ValueError("no offer")
    best = min(possible, key=price)
    return [best["name"], price(best)]


by_dalys_series = in_one_cell(interval_dalys_series, cheapest_dalys_series)


def interval_golden_section(cost, mtbf, restart):
    """The waste itself is made small, without its derivative."""
    if cost <= 0 or restart < 0 or restart >= mtbf:
        raise ValueError("cost, mtbf and restart do not go together")
    up = mtbf - restart
    if up == float("inf"):
        return up
    golden = (5**0.5 - 1) / 2
    low, high = 0.0, up
    while high - low > 1e-4 * up * min(1, cost / up):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if wall_per_useful(left, cost, up) < wall_per_useful(right, cost, up):
            high = right
        else:
            low = left
    return (low + high) / 2


def wall_per_useful(interval, cost, up):
    return up * (math.exp((interval + cost) / up) - 1) / interval


def cheapest_golden_section(offers, cost, restart):
    best = None
    for offer in offers:
        if offer["mtbf"] <= restart:
            continue
        up = offer["mtbf"] - restart
        slower = 1.0
        if up != float("inf"):
            slower = wall_per_useful(checkpoint_interval(cost, offer["mtbf"], restart), cost, up) * offer["mtbf"] / up
        price = offer["price"] * slower / offer["steps_per_s"] / 3600
        if best is None or price < best[1]:
            best = (offer["name"], price)
    if best is None:
        raise ValueError("nothing to choose from")
    return best


by_golden_section = in_one_cell(wall_per_useful, interval_golden_section, cheapest_golden_section)


def interval_trying_out(cost, mtbf, restart):
    """Every interval of a fine grid is played over the quantiles of an exponential up time."""
    if cost <= 0 or restart < 0 or not mtbf > restart:
        raise ValueError("no")
    if mtbf == math.inf:
        return math.inf
    up = mtbf - restart
    grid = [up * 1.04**-k for k in range(140)]
    return max(grid, key=lambda interval: done(interval, cost, up))


def done(interval, cost, up):
    """Useful work in an up time: a sum over its rounds, each with the chance that it is finished."""
    chance, total, last = math.exp(-(interval + cost) / up), 0.0, 1.0
    for _ in range(400):
        last *= chance
        total += interval * last
    return total + interval * last * chance / (1 - chance)


def cheapest_trying_out(offers, cost, restart):
    found = []
    for offer in offers:
        up = offer["mtbf"] - restart
        if up > 0:
            share = 1 if up == math.inf else done(checkpoint_interval(cost, offer["mtbf"], restart), cost, up) / offer["mtbf"]
            found.append((offer["price"] / (3600 * offer["steps_per_s"] * share), offer["name"]))
    if not found:
        raise ValueError("no offer")
    price, name = sorted(found)[0]
    return name, price


by_trying_out = in_one_cell(done, interval_trying_out, cheapest_trying_out)


# E21.3 find_straggler

NAMED = ("culprit", "single", "noise", "errors")
ALL = ("culprit", "single", "noise", "nobody", "errors")

REFUSED = '    if not steps or len(metrics["tp_us"]) != len(metrics["dp_us"]) or any(len(row) != ranks for row in steps):\n'
BOTH = '        if held and min(held) >= metrics["least_us"]:\n'
TAKEN = "            found.append(times[1] - times[0] if row[rank] == times[0] else 0)\n"
COUNTS = "        times = sorted(row[r] for r in group) if all(row[r] is not None for r in group) else None\n"
MEDIAN = "    return median(found) if found else 0"
MEETINGS = '[("tp_us", range(first, first + tp)), ("dp_us", range(rank % tp, ranks, tp))]'


def found(edits, loses, because, breaks):
    return edited("find_straggler", edits, loses=loses, because=because, breaks=breaks)


the_victim = found(
    {TAKEN: "            found.append(times[-1] - times[-2] if row[rank] == times[-1] else 0)\n"},
    ALL,
    "who is longest in NCCL is thought to have the bad link",
    "by how much a rank **holds up** a meeting: where its time is the shortest, the second shortest time less its own",
)
against_the_first = found(
    {TAKEN: "            found.append(times[-1] - row[rank])\n"},
    ("culprit", "nobody", "errors"),
    "being later than the earliest is thought to be late",
    "the second shortest time less its own. Two that come last together hold up nobody, each alone: the difference is 0",
)
mean_of_steps = found(
    {MEDIAN: "    return sum(found) / len(found) if found else 0"},
    ("noise",),
    "an average is thought to say what is usual",
    "the **median** over the steps counts",
)
worst_step = found(
    {MEDIAN: "    return max(found, default=0)"},
    ("noise",),
    "the worst step is thought to show the culprit best",
    "the **median** over the steps counts",
)
last_step = found(
    {MEDIAN: "    return found[-1] if found else 0"},
    ("noise",),
    "the newest sample is thought to be the state",
    "of each kind of meeting the **median** over the steps counts",
)
lower_middle = found(
    {MEDIAN: "    return sorted(found)[(len(found) - 1) // 2] if found else 0"},
    ("noise",),
    "the middle one of an even number is thought to be the lower one",
    "of an even number the mean of the two in the middle",
)
either_meeting = found(
    {BOTH: '        if held and max(held) >= metrics["least_us"]:\n'},
    ("culprit", "noise", "nobody", "errors"),
    "to hold up one of the meetings is thought to be enough",
    "in both kinds of meeting: its tensor-parallel group waits for it, and all the other groups wait for that group",
)
replicas_alone = found(
    {MEETINGS: '[("dp_us", range(rank % tp, ranks, tp))]'},
    ("culprit", "single", "noise", "nobody", "errors"),
    "gradients are thought to be the only thing that is waited for",
    "its tensor-parallel group waits for it",
)
pairs_alone = found(
    {MEETINGS: '[("tp_us", range(first, first + tp))]'},
    ALL,
    "the meetings of a node are thought to say enough",
    "and all the other groups wait for that group",
)
groups_by_place = found(
    {MEETINGS: '[("tp_us", range(rank % tp, ranks, tp)), ("dp_us", range(first, first + tp))]'},
    ("culprit", "single", "noise", "nobody", "errors"),
    "ranks of a tensor-parallel group are thought to be dealt out over the nodes",
    '`metrics["tp"]` ranks that follow one another are a tensor-parallel **group**: the first of them are ranks 0 to `tp` - 1',
)
dp_is_everybody = found(
    {MEETINGS: '[("tp_us", range(first, first + tp)), ("dp_us", range(ranks))]'},
    ALL,
    "all ranks are thought to meet in the all-reduce of gradients",
    "A data-parallel group has one rank of each of these, the ranks with the same place in theirs. In every step each group has one **meeting**",
)
a_hole_is_zero = found(
    {COUNTS: "        row = [time or 0 for time in row]\n        times = sorted(row[r] for r in group)\n"},
    ("noise",),
    "a sample that is missing is thought to be 0",
    "Where the sample was not taken there is `None` instead",
)
holes_left_out = found(
    {COUNTS: "        times = sorted(row[r] for r in group if row[r] is not None)\n        times = times if row[rank] is not None and len(times) > 1 else None\n"},
    ("noise",),
    "who was measured is thought to be compared, and who was not to be left out",
    "a meeting in which any of its ranks has `None` **does not count**, for none of its ranks",
)
whole_steps_left_out = found(
    {COUNTS: "        times = sorted(row[r] for r in group) if None not in row else None\n"},
    ("noise",),
    "a step with a hole is thought to be lost for all groups",
    "The same group's meetings in other steps do",
)
unmeasured_is_guilty = found(
    {MEDIAN: "    return median(found) if found else float('inf')"},
    ("noise",),
    "a rank of which nothing is known is thought to be the suspect",
    "Where no meeting of a rank's group counts, it is 0",
)
more_than_least = found(
    {BOTH: '        if held and min(held) > metrics["least_us"]:\n'},
    ("nobody",),
    "a limit is thought to have to be passed",
    'the rank whose median is at least `metrics["least_us"]`',
)
always_somebody = found(
    {
        "    for rank in range(ranks):\n": "    best = (-1, None)\n    for rank in range(ranks):\n",
        BOTH + "            return rank\n    return None": "        best = max(best, (min(held, default=0), rank))\n    return best[1]",
    },
    ("single", "noise", "nobody"),
    "somebody is thought to be always to blame",
    "Where there is none it returns `None`",
)
meetings_of_one = found(
    {" if len(group) > 1]": "]", "sorted(row[r] for r in group) if": "sorted([row[r] for r in group] * (1 + (len(group) == 1))) if"},
    ("single",),
    "a meeting of one rank is thought to be held up by nobody",
    "A group of one rank has no meeting: then the other kind alone decides",
)
alone_and_guilty = found(
    {BOTH: '        if min(held, default=metrics["least_us"]) >= metrics["least_us"]:\n'},
    ("single",),
    "a rank that meets nobody is thought to hold up everybody",
    "Where all groups have one rank, nobody is the straggler",
)
as_text = found(
    {"            return rank\n": '            return f"rank {rank}"\n'},
    ("culprit", "single", "noise", "nobody", "errors"),
    "a name is thought to be as good as a number",
    "it returns the straggler's number, an `int`",
)
unchecked_steps = found(
    {REFUSED: "    if not steps:\n"},
    ("errors",),
    "metrics are thought to be complete",
    "where the lists of steps or those in them have different lengths",
)
unchecked_empty = found(
    {REFUSED: '    if not steps:\n        return None\n    if len(metrics["tp_us"]) != len(metrics["dp_us"]) or any(len(row) != ranks for row in steps):\n'},
    ("errors",),
    "without steps nobody is thought to be late",
    "raises `ValueError` where there is no step",
)
unchecked_tp = found(
    {"    if tp < 1 or ranks % tp:\n": "    if tp < 1:\n"},
    ("errors",),
    "a last group is thought to be allowed to be smaller",
    "does not divide the number of ranks",
)
holes_filled = found(
    {"    steps = metrics": "    for row in metrics['tp_us'] + metrics['dp_us']:\n        row.sort(key=lambda time: 0)\n    metrics.pop('DCGM_FI_DEV_GPU_TEMP', None)\n    steps = metrics"},
    ALL,
    "what is not needed is thought to be free to be thrown away",
    "`metrics` is left as it is",
)


@mistake(
    "find_straggler",
    loses=ALL,
    because="the hottest card is thought to be the slow one",
    breaks='Other keys hold sensors in the same form, such as `"DCGM_FI_DEV_GPU_TEMP"`: they decide nothing',
)
def hottest_card(metrics):
    from statistics import median

    steps = metrics["DCGM_FI_DEV_GPU_TEMP"]
    return max(range(len(steps[0])), key=lambda rank: median(row[rank] for row in steps))


@mistake(
    "find_straggler",
    loses=("single", "noise", "nobody", "errors"),
    because="the smallest sum is thought to be the culprit's",
    breaks="of each kind of meeting the **median** over the steps counts",
)
def smallest_sum(metrics):
    ranks = len(metrics["tp_us"][0])
    whole = [sum((row[rank] or 0) for kind in ("tp_us", "dp_us") for row in metrics[kind]) for rank in range(ranks)]
    return whole.index(min(whole))


@mistake(
    "find_straggler",
    loses=ALL,
    because="the simulator's own measure is thought to be there to be used",
    breaks="and gpulab is not called",
)
def borrowed(metrics):
    import gpulab.fleet as fleet

    ranks = len(metrics["tp_us"][0])
    meetings = fleet.groups(ranks, metrics["tp"])
    held = [fleet.delays(metrics[f"{kind}_us"], meetings[kind]) for kind in meetings if len(meetings[kind][0]) > 1]
    for rank in range(ranks if held else 0):
        if min(by[rank] for by in held) >= metrics["least_us"]:
            return rank
    return None


what_is_measured = unbreakable(
    "find_straggler", "which has a number for each rank, in microseconds: how long the rank was in its tensor-parallel meeting", "it says what the numbers are"
)
what_a_meeting_is = unbreakable("find_straggler", "a meeting begins for all of its ranks when the last one has come, and ends for all at once", "it says what the times mean")
one_at_most = unbreakable("find_straggler", "There is never more than one", "it is a promise about what is drawn")
transfers_differ = unbreakable("find_straggler", "its transfer takes all of them equally long, and it is another time in every step", "it says what the times hold")
where_it_is_not = unbreakable("find_straggler", "Where its time is not the shortest, it is 0", "no other rank can reach the limit by a difference that is negative")


@alternative("find_straggler")
def arrivals_first(metrics):
    """Who came last and when, for each meeting; then what each rank cost."""
    import statistics
    from collections import defaultdict

    tp, kinds = metrics["tp"], ("tp_us", "dp_us")
    lengths = {len(row) for kind in kinds for row in metrics[kind]}
    if len(lengths) != 1 or len({len(metrics[kind]) for kind in kinds}) != 1 or tp < 1:
        raise ValueError("these are no metrics of steps")
    (ranks,) = lengths
    if ranks % tp:
        raise ValueError("tp does not divide the ranks")
    costs = {kind: defaultdict(list) for kind in kinds}
    for kind in kinds:
        for row in metrics[kind]:
            members = defaultdict(list)
            for rank, time in enumerate(row):
                members[rank // tp if kind == "tp_us" else rank % tp].append((time, rank))
            for meeting in members.values():
                if len(meeting) < 2 or any(time is None for time, _ in meeting):
                    continue
                meeting.sort()
                (first, last_comer), (second, _) = meeting[:2]
                for _, rank in meeting:
                    costs[kind][rank].append(second - first if rank == last_comer else 0)
    asked = [kind for kind, size in zip(kinds, (tp, ranks // tp)) if size > 1]
    for rank in range(ranks):
        by = [statistics.median(costs[kind][rank] or [0]) for kind in asked]
        if asked and all(one >= metrics["least_us"] for one in by):
            return rank


@alternative("find_straggler")
def by_numpy(metrics):
    import numpy as np

    try:
        times = np.array([metrics["tp_us"], metrics["dp_us"]], dtype=float)
    except ValueError as error:
        raise ValueError("steps of different lengths") from error
    tp = metrics["tp"]
    if times.ndim != 3 or times.shape[1] == 0 or tp < 1 or times.shape[2] % tp:
        raise ValueError("no steps, or no groups")
    steps, ranks = times.shape[1:]
    mesh = times.reshape(2, steps, ranks // tp, tp)
    least = np.full((ranks // tp, tp), np.inf)
    for kind, axis in ((0, 2), (1, 1)):
        meetings = mesh[kind]
        if meetings.shape[axis] < 2:
            continue
        ordered = np.sort(meetings, axis=axis)
        first, second = np.take(ordered, [0], axis=axis), np.take(ordered, [1], axis=axis)
        cost = np.where(meetings == first, second - first, 0.0)
        cost[np.broadcast_to(np.isnan(meetings).any(axis=axis, keepdims=True), cost.shape)] = np.nan
        empty = np.isnan(cost).all(axis=0)
        cost[:, empty] = 0.0
        least = np.minimum(least, np.nanmedian(cost, axis=0))
    found = np.flatnonzero((least.ravel() >= metrics["least_us"]) & np.isfinite(least.ravel()))
    return int(found[0]) if len(found) else None


@alternative("find_straggler")
def what_it_would_gain(metrics):
    """Each rank is taken away, and the meetings are held again without it."""
    from statistics import median

    table = {"tp_us": metrics["tp_us"], "dp_us": metrics["dp_us"]}
    widths = [len(row) for rows in table.values() for row in rows]
    tp = metrics["tp"]
    if not widths or min(widths) != max(widths) or len(table["tp_us"]) != len(table["dp_us"]) or tp <= 0 or widths[0] % tp != 0:
        raise ValueError("not the metrics of a job")

    def gain(kind, rank):
        alike = (lambda other: other // tp == rank // tp) if kind == "tp_us" else (lambda other: (other - rank) % tp == 0)
        others = [other for other in range(widths[0]) if alike(other) and other != rank]
        if not others:
            return None
        sound = [row for row in table[kind] if row[rank] is not None and all(row[other] is not None for other in others)]
        return median([max(0, min(row[other] for other in others) - row[rank]) for row in sound]) if sound else 0

    for rank in range(widths[0]):
        gains = [by for by in (gain("tp_us", rank), gain("dp_us", rank)) if by is not None]
        if gains and min(gains) >= metrics["least_us"]:
            return rank
    return None


# E21.4 chargeback

EVERY_LINE = ("teams", "shared", "idle", "untagged", "cents", "errors")
NOT_ON_IT = '        if record["pool"] not in bill:\n'
HELD = '            of_pool[line] = of_pool.get(line, 0) + part * record["gpu_seconds"]\n'
IDLE = '        idle = one["gpu_seconds"] - sum(held[pool].values())\n'
TOO_MUCH = "        if idle < 0:\n"
SHORT = "max(0, seconds - held[pool].get(team, 0))"
PAID = "min(Fraction(1), Fraction(idle) / sum(short.values())) if sum(short.values()) else 0"
REST = '        seconds.append(("idle", idle - paid * sum(short.values())))\n'
RATE = 'Fraction(one["cents"], one["gpu_seconds"])'
LEFT_OUT = "{line: cents for line, cents in due.items() if cents}"
NO_TAG = '        return {"untagged": Fraction(1)}\n'
SHARES = "        return {name: Fraction(weight, sum(team.values())) for name, weight in team.items()}\n"
SHARES = SHARES.removeprefix("    ")
LARGEST = "sorted(due, key=lambda line: (cents[line] - due[line], line))"
DOWN = "    cents = {line: int(exact) for line, exact in due.items()}\n"


def charged(edits, loses, because, breaks):
    return edited("chargeback", edits, loses=loses, because=because, breaks=breaks)


idle_is_dropped = charged(
    {REST: ""},
    ("idle", "untagged", "cents"),
    "what nobody uses is thought to cost nobody",
    'and the rest of the idle time goes to the line `"idle"`',
)
idle_is_spread = charged(
    {RATE: 'Fraction(one["cents"], max(1, int(sum(held[pool].values()))))', REST: "", ", *((team, paid * missing) for team, missing in short.items())": ""},
    ("idle", "untagged", "cents"),
    "idle hours are thought to belong to those who work",
    "a pool's GPU-second costs `cents / gpu_seconds` of **that pool**, whoever holds it, and whether anybody does",
)
reservations_are_free = charged(
    {PAID: "0"},
    ("idle", "untagged", "cents"),
    "what a team does not use is thought not to be its own",
    "each team pays its own, and the rest of the idle time",
)
reservations_in_full = charged(
    {SHORT: "seconds"},
    ("idle", "cents"),
    "what is reserved is thought to be paid besides what is used",
    "Each team that held less than it has reserved has a **shortfall** of as much",
)
more_than_is_idle = charged(
    {PAID: "1"},
    ("idle",),
    "a reservation is thought to be paid whoever has used it",
    "the teams pay the idle time in proportion to their shortfalls, and the line gets nothing",
)
shared_equally_when_crowded = charged(
    {PAID: PAID, "((team, paid * missing) for team, missing in short.items())": "((team, missing if paid == 1 else Fraction(idle, sum(1 for s in short.values() if s)) if missing else 0) for team, missing in short.items())"},
    ("idle",),
    "what is left is thought to be shared by heads",
    "in proportion to their shortfalls",
)
reserved_in_any_pool = charged(
    {SHORT: "max(0, seconds - sum(of.get(team, 0) for of in held.values()))"},
    ("idle", "cents"),
    "a team's use is thought to count wherever it was",
    '`"reserved"`, a dictionary from a team\'s name to the GPU-seconds that are kept free for it',
)
shared_use_is_not_ones_own = charged(
    {
        "    held = {pool: {} for pool in bill}\n": "    held = {pool: {} for pool in bill}\n    alone = {pool: {} for pool in bill}\n",
        HELD: HELD + '            if not isinstance(record["team"], dict):\n                alone[record["pool"]][line] = alone[record["pool"]].get(line, 0) + record["gpu_seconds"]\n',
        SHORT: "max(0, seconds - alone[pool].get(team, 0))",
    },
    ("idle",),
    "a shared job is thought not to use a team's reservation",
    "what a team has held in a pool, alone and shared, is paid by the team",
)
average_price = charged(
    {RATE: 'Fraction(sum(pool["cents"] for pool in bill.values()), sum(pool["gpu_seconds"] for pool in bill.values()))'},
    ("teams", "shared", "idle", "untagged", "cents", "errors"),
    "a GPU-hour is thought to have one price",
    "a pool's GPU-second costs `cents / gpu_seconds` of **that pool**",
)
charged_to_each = charged(
    {SHARES: "    return {name: Fraction(1) for name in team}\n"},
    ("shared", "idle", "cents"),
    "each of those who share is thought to have used all of it",
    "A GPU-second is paid once",
)
shared_by_heads = charged(
    {SHARES: "    return {name: Fraction(1, len(team)) for name in team}\n"},
    ("shared", "cents"),
    "sharing is thought to be by equal parts",
    "each has held the part of the record that its weight is of all its weights",
)
first_pays = charged(
    {SHARES: "    return {next(iter(team)): Fraction(1)}\n"},
    ("shared", "idle", "cents"),
    "a shared job is thought to have an owner",
    "where several teams share a job",
)
untagged_is_idle = charged(
    {NO_TAG: '        return {"idle": Fraction(1)}\n'},
    ("untagged", "cents"),
    "what nobody has put a name on is thought to be nobody's",
    'What was held without a tag goes to the line `"untagged"`',
)
untagged_is_dropped = charged(
    {NO_TAG: "        return {}\n"},
    ("untagged", "cents", "errors"),
    "records without a name are thought to be of no use",
    "a record's `\"team\"` is a name; or `None` where the job has no tag",
)
last_record_counts = charged(
    {HELD: '            of_pool[line] = part * record["gpu_seconds"]\n'},
    ("teams", "shared", "cents", "errors"),
    "a team is thought to have one record in a pool",
    "There may be many records of a team",
)
rounded_to_nearest = charged(
    {"return rounded({line: cents for line, cents in due.items() if cents}, sum(one[\"cents\"] for one in bill.values()))": "return {line: round(cents) for line, cents in due.items() if cents}"},
    ("cents",),
    "rounded lines are thought to add up to a rounded sum",
    "They add up to the cents of all pools **exactly**",
)
rounded_down = charged(
    {"    for line in by_remainder[: total - sum(cents.values())]:\n        cents[line] += 1\n": ""},
    ("cents",),
    "a few cents are thought to be nothing",
    "The cents that are then missing go one each to the lines with the largest fractions left over",
)
rest_to_one = charged(
    {"    for line in by_remainder[: total - sum(cents.values())]:\n        cents[line] += 1\n": "    if by_remainder:\n        cents[by_remainder[0]] += total - sum(cents.values())\n"},
    ("cents",),
    "what rounding has left is thought to go to the largest",
    "go one each to the lines with the largest fractions left over",
)
as_they_come = charged(
    {LARGEST: "list(due)"},
    ("cents",),
    "it is thought not to matter who gets a cent",
    "one each to the lines with the largest fractions left over",
)
last_of_the_alphabet = charged(
    {LARGEST: "sorted(sorted(due, reverse=True), key=lambda line: cents[line] - due[line])"},
    ("cents",),
    "equal fractions are thought to be in any order",
    "and of equal ones to those whose names come first in the alphabet, as Python sorts them",
)
rounded_by_pool = charged(
    {
        "        for line, many in seconds:\n            due[line] = due.get(line, 0) + many * Fraction(one[\"cents\"], one[\"gpu_seconds\"])\n": "        exact = {}\n        for line, many in seconds:\n            exact[line] = exact.get(line, 0) + many * Fraction(one[\"cents\"], one[\"gpu_seconds\"])\n        for line, many in rounded({line: cents for line, cents in exact.items() if cents}, one[\"cents\"]).items():\n            due[line] = due.get(line, 0) + many\n",
    },
    ("cents",),
    "each pool's part of the bill is thought to be a bill",
    "**rounding** is done once, for the lines of the whole bill: each is due an exact fraction of cents over all pools, and gets it rounded down",
)
in_floats = charged(
    {RATE: 'one["cents"] / one["gpu_seconds"]', "Fraction(idle) / sum(short.values())": "float(idle / sum(short.values()))", DOWN: "    cents = {line: int(exact + 1e-9) for line, exact in due.items()}\n"},
    ("cents",),
    "cents are thought to be safe in a float",
    "each is due an exact fraction of cents over all pools",
)
cents_as_floats = charged(
    {DOWN: "    cents = {line: float(int(exact)) for line, exact in due.items()}\n"},
    EVERY_LINE,
    "a number is thought to be a number",
    "to `int`s of cents",
)
nothing_is_kept = charged(
    {LEFT_OUT: "due"},
    ("teams", "shared", "idle", "untagged", "cents", "errors"),
    "a line of nothing is thought to do no harm",
    "A line that is due nothing at all is left out",
)
less_than_a_cent_left_out = charged(
    {"        cents[line] += 1\n    return cents": "        cents[line] += 1\n    return {line: many for line, many in cents.items() if many}"},
    ("cents",),
    "a line of 0 cents is thought to be no line",
    "one that is due less than a cent is there, with 0 or 1",
)
unknown_pool_ignored = charged(
    {NOT_ON_IT + '            raise ValueError(f"{record[\'pool\']} is not on the bill")\n': NOT_ON_IT + "            continue\n"},
    ("errors",),
    "what is not on the bill is thought to be free",
    "raises `ValueError` where a record's pool is not on the bill",
)
held_beyond_capacity = charged(
    {TOO_MUCH: "        idle = max(idle, 0)\n        if idle < 0:\n"},
    ("errors",),
    "a record is thought to be right",
    "where more of a pool was held than its capacity",
)
shared_by_nobody = charged(
    {"    if not team:\n        raise ValueError(\"a shared record without weights\")\n": ""},
    ("errors",),
    "a shared record is thought to have sharers",
    "and where a shared record has no weights",
)
usage_emptied = charged(
    {"    for record in usage:\n": "    while usage:\n        record = usage.pop()\n"},
    EVERY_LINE,
    "a list that comes in is thought to be one's own to use up",
    "`usage` and `bill` are left as they are",
)
only_paid_records = charged(
    {"    for record in usage:\n": "    for record in usage:\n        if not record['gpu_seconds']:\n            raise ValueError('an empty record')\n"},
    ("teams", "idle", "untagged", "cents", "errors"),
    "a record of nothing is thought to be a mistake",
    "Records of 0 GPU-seconds may be there",
)
reservations_needed = charged(
    {PAID: "min(Fraction(1), Fraction(idle) / sum(short.values()))"},
    EVERY_LINE,
    "somebody is thought to have reserved something in every pool",
    "It may be empty, and reservations add up to the capacity or less",
)
several_libraries = unbreakable("chargeback", "gpulab is not called", "it has nothing that would help")
what_a_pool_is = unbreakable("chargeback", '`bill` is a dictionary from a pool\'s name to a dictionary: `"cents"`, an `int`, 0 or more, what the pool costs in this month; `"gpu_seconds"`, an `int` above 0, its capacity: all its GPUs', "it says what the argument is")
what_usage_is = unbreakable("chargeback", "`usage` is a list of records, dictionaries: a job **held**", "it says what the argument is")
names_are_free = unbreakable("chargeback", 'no team is called `"untagged"` or `"idle"`', "it is a promise about what is drawn")
what_idle_is = unbreakable("chargeback", "**idle** is what is left of a pool's capacity", "the lines would not add up, which others break")
help_by_fractions = unbreakable("chargeback", "`fractions` may help", "it is a permission")


@alternative("chargeback")
def in_whole_numbers(usage, bill):
    """Everything over one common denominator, without fractions."""
    from math import lcm

    weights = [sum(record["team"].values()) for record in usage if isinstance(record["team"], dict)]
    if 0 in weights:
        raise ValueError("no weights")
    unit = lcm(*weights) if weights else 1
    books = {pool: {} for pool in bill}
    for record in usage:
        if record["pool"] not in books:
            raise ValueError("no such pool")
        team, whole = record["team"], record["gpu_seconds"] * unit
        entries = {team: whole} if isinstance(team, str) else {}
        if team is None:
            entries = {"untagged": whole}
        elif isinstance(team, dict):
            entries = {name: whole * weight // sum(team.values()) for name, weight in team.items()}
        for name, many in entries.items():
            books[record["pool"]][name] = books[record["pool"]].get(name, 0) + many
    lines, scale = {}, 1
    for pool, one in bill.items():
        book = books[pool]
        left = one["gpu_seconds"] * unit - sum(book.values())
        if left < 0:
            raise ValueError("too much was held")
        short = {team: kept * unit - book.get(team, 0) for team, kept in one["reserved"].items() if kept * unit > book.get(team, 0)}
        total = sum(short.values())
        below = max(total, 1)
        entries = {name: many * below for name, many in book.items()}
        for team, missing in short.items():
            entries[team] = entries.get(team, 0) + missing * min(total, left)
        entries["idle"] = max(0, left - total) * below
        # A unit of these is cents / (gpu_seconds * unit * below): all lines get that denominator.
        denominator = one["gpu_seconds"] * unit * below
        common = lcm(scale, denominator)
        lines = {name: many * (common // scale) for name, many in lines.items()}
        for name, many in entries.items():
            lines[name] = lines.get(name, 0) + many * one["cents"] * (common // denominator)
        scale = common
    result = {name: many // scale for name, many in lines.items() if many}
    missing = sum(one["cents"] for one in bill.values()) - sum(result.values())
    for _, name in sorted((-(lines[name] % scale), name) for name in result)[:missing]:
        result[name] += 1
    return result


@alternative("chargeback")
def line_by_line(usage, bill):
    """A function that says what one line holds of one pool, asked for every line."""
    from fractions import Fraction as F

    for record in usage:
        if record["pool"] not in bill or record["team"] == {}:
            raise ValueError("a record that cannot be")

    def held(line, pool):
        total = F(0)
        for record in usage:
            if record["pool"] != pool:
                continue
            team = record["team"]
            if team == line or (team is None and line == "untagged"):
                total += record["gpu_seconds"]
            elif isinstance(team, dict) and line in team:
                total += F(record["gpu_seconds"] * team[line], sum(team.values()))
        return total

    names = {"untagged"}
    for record in usage:
        names |= set(record["team"]) if isinstance(record["team"], dict) else {record["team"]} - {None}
    for one in bill.values():
        names |= set(one["reserved"])
    exact = dict.fromkeys([*names, "idle"], F(0))
    for pool, one in bill.items():
        price = F(one["cents"]) / one["gpu_seconds"]
        idle = one["gpu_seconds"] - sum(record["gpu_seconds"] for record in usage if record["pool"] == pool)
        if idle < 0:
            raise ValueError("more than there is")
        short = {team: max(F(0), kept - held(team, pool)) for team, kept in one["reserved"].items()}
        whole = sum(short.values(), F(0))
        for name in names:
            exact[name] += price * held(name, pool)
            if whole:
                exact[name] += price * min(whole, idle) * short.get(name, F(0)) / whole
        exact["idle"] += price * max(F(0), idle - whole)
    exact = {name: cents for name, cents in exact.items() if cents > 0}
    cents = {name: many.numerator // many.denominator for name, many in exact.items()}
    left = sum(one["cents"] for one in bill.values()) - sum(cents.values())
    order = sorted(exact)
    order.sort(key=lambda name: exact[name] - cents[name], reverse=True)
    for name in order:
        if left:
            cents[name] += 1
            left -= 1
    return cents


@alternative("chargeback")
def by_a_ledger(usage, bill):
    """Entries of seconds, then of money; the idle time is booked like a job."""
    from collections import Counter, defaultdict
    from fractions import Fraction

    ledger = defaultdict(lambda: defaultdict(Fraction))
    for record in usage:
        pool = record["pool"]
        if pool not in bill:
            raise ValueError(f"{pool}?")
        match record["team"]:
            case None:
                ledger[pool]["untagged"] += record["gpu_seconds"]
            case str(team):
                ledger[pool][team] += record["gpu_seconds"]
            case weights:
                tickets = Counter(weights)
                if not tickets:
                    raise ValueError("nobody shares this")
                for team, many in tickets.items():
                    ledger[pool][team] += Fraction(record["gpu_seconds"], tickets.total()) * many
    money = defaultdict(Fraction)
    for pool, one in bill.items():
        book = ledger[pool]
        free = one["gpu_seconds"] - sum(book.values())
        if free < 0:
            raise ValueError(f"{pool} was held twice")
        claims = {team: kept - book[team] for team, kept in one["reserved"].items() if kept > book[team]}
        factor = Fraction(1)
        if sum(claims.values()) > free:
            factor = free / sum(claims.values())
        for team, claim in claims.items():
            book[team] += claim * factor
            free -= claim * factor
        book["idle"] += free
        for line, seconds in book.items():
            money[line] += seconds * one["cents"] / one["gpu_seconds"]
    lines = sorted((line for line in money if money[line]), key=lambda line: (-(money[line] % 1), line))
    whole = {line: int(money[line] // 1) for line in lines}
    short_of = sum(one["cents"] for one in bill.values()) - sum(whole.values())
    return {line: whole[line] + (place < short_of) for place, line in enumerate(lines)}
