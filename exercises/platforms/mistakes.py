"""Chapter "Platforms: serverless, tenancy, compliance": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, equivalent_mutant, mistake, unbreakable

# E20.1 cold_start

AFTER = "max((spans[other][1] for other in stages[name][\"after\"]), default=0)"
PIPE = "            came = free[hop] = max(came, free[hop]) + size / tiers[tier]\n"
NEEDED = 'stage.get("needed", stage["bytes"])'
SIZE = 'size = min(left, stage["chunk"] or left)'
SAVES = "saves = {name: ready - ready_without(name) for name in (*crossed, *works)}"
FASTER = '        faster = {**stages, name: {**stages[name], "seconds": 0}} if name in stages else stages\n'
CHAIN = """    while stages[chain[0]]["after"]:
        chain.insert(0, max(stages[chain[0]]["after"], key=lambda name: spans[name][1]))
"""
UNTIMELY = ("order", "pipeline", "critical", "bottleneck", "errors")


def started(edits, loses, because, breaks):
    return edited("cold_start", edits, loses=loses, because=because, breaks=breaks)


one_after_the_other = started(
    {AFTER: "max((done for _, done in spans.values()), default=0)"},
    ("order", "critical", "bottleneck", "errors"),
    "a cold start is thought to be the sum of its stages",
    "A stage begins as soon as **all** of these are done, at 0 where the list is empty, and whatever else goes on",
)
waits_for_one = started(
    {AFTER: "max((spans[other][1] for other in stages[name][\"after\"][:1]), default=0)"},
    ("order", "critical", "bottleneck", "errors"),
    "a stage is thought to have one that it waits for",
    "`\"after\"` is a list of stages",
)
waits_for_the_first_done = started(
    {AFTER: "min((spans[other][1] for other in stages[name][\"after\"]), default=0)"},
    ("order", "critical", "bottleneck", "errors"),
    "one stage that is done is thought to be enough",
    "A stage begins as soon as **all** of these are done",
)
tiers_in_a_row = started(
    {SIZE: "size = left"},
    ("pipeline", "bottleneck"),
    "a file is thought to be on the disk before anyone reads it",
    "A chunk enters a tier as soon as it has **all** come through the tier before",
)
chunk_by_chunk = started(
    {PIPE: "            came = free[hop] = max(came, free[hop], free[-1] if hop == 0 else 0) + size / tiers[tier]\n"},
    ("pipeline", "bottleneck"),
    "a chunk is thought to start when the one before it is on the device",
    "and the chunk before it has left this one",
)
slowest_alone = started(
    {"    return free[-1]\n": "    return stage.get(\"needed\", stage[\"bytes\"]) / min(tiers[tier] for tier in stage[\"path\"])\n"},
    ("pipeline", "bottleneck"),
    "a pipeline is thought to take what its slowest part takes, and the first chunk's way nothing",
    "All bytes cross all of them, in the list's order",
)
no_way_to_the_device = started(
    {'free = [0] * len(stage["path"])': 'free = [0] * max(1, len(stage["path"]) - 1)', 'in enumerate(stage["path"])': 'in enumerate(stage["path"][:-1] or stage["path"])'},
    ("pipeline", "bottleneck"),
    "weights are thought to be loaded when the host has them",
    "All bytes cross all of them",
)
disk_alone = started(
    {'free = [0] * len(stage["path"])': "free = [0]", 'in enumerate(stage["path"])': 'in enumerate(stage["path"][:1])'},
    ("pipeline", "bottleneck"),
    "where the bytes come from is thought to say how long they take",
    "All bytes cross all of them",
)
fluid = started(
    {"            came = free[hop] = max(came, free[hop]) + size / tiers[tier]\n": "            came = free[hop] = max(came + size / tiers[tier], free[hop] + size / tiers[tier]) if hop == 0 else max(came, free[hop] + size / tiers[tier])\n"},
    ("pipeline", "bottleneck"),
    "bytes of a chunk are thought to go on while the rest of it still comes",
    "A chunk enters a tier as soon as it has **all** come through the tier before",
)
full_chunks = started(
    {SIZE: 'size = stage["chunk"] or left'},
    ("pipeline",),
    "the last chunk is thought to be as large as the others",
    "the last of which may be smaller",
)
whole_image = started(
    {NEEDED: 'stage["bytes"]'},
    ("pipeline", "critical", "bottleneck"),
    "all bytes of an image are thought to be there before it runs",
    "`\"needed\"` of a load, where it is there, says how many bytes, from the first on, the stages after it wait for",
)
needed_in_whole_chunks = started(
    {'    left = stage.get("needed", stage["bytes"])\n': '    left = stage.get("needed", stage["bytes"])\n    if left and stage["chunk"]:\n        left = min(stage["bytes"], -(-left // stage["chunk"]) * stage["chunk"])\n'},
    ("pipeline",),
    "what is needed is thought to come in whole chunks",
    "and they are cut into chunks as if they were all",
)
as_long_as_it_takes = started(
    {SAVES: "saves = {tier: max(seconds_of(one, {t: tiers[t] if t == tier else float('inf') for t in tiers}) for one in stages.values() if tier in one.get('path', ())) for tier in crossed}\n    saves |= {name: stages[name]['seconds'] for name in works}"},
    ("bottleneck",),
    "what takes long is thought to be what limits",
    "by how many seconds the instance would be ready earlier",
)
image_first = started(
    {'"bottleneck": max(saves, key=saves.get),': '"bottleneck": stages["image"]["path"][0] if "image" in stages and "path" in stages["image"] else max(saves, key=saves.get),'},
    ("bottleneck",),
    "lazy images are thought to be the cure for cold starts",
    "the tier or the stage that saves most",
)
slowest_tier = started(
    {'"bottleneck": max(saves, key=saves.get),': '"bottleneck": min(crossed, key=tiers.get) if crossed else max(saves, key=saves.get),'},
    ("bottleneck",),
    "the slowest tier is thought to limit wherever it is",
    "the tier or the stage that saves most",
)
tiers_only = started(
    {"for name in (*crossed, *works)}": "for name in (crossed or works)}"},
    ("bottleneck",),
    "bytes alone are thought to be worth saving",
    "and for each stage with `\"seconds\"`, and no others",
)
every_tier = started(
    {"(*crossed, *works)}": "(*tiers, *works)}"},
    ("bottleneck",),
    "every tier there is is thought to have an entry",
    "It has an entry for each tier that is in some load's path",
)
together_faster = started(
    {FASTER: '        faster = {other: {**one, "seconds": 0} if "seconds" in one else one for other, one in stages.items()}\n'},
    ("bottleneck",),
    "improvements are thought to come together",
    "if alone a tier carried all at once, or if alone a stage with `\"seconds\"` took none",
)
works_in_place = started(
    {FASTER: '        if name in stages:\n            stages[name]["seconds"] = 0\n        faster = stages\n'},
    UNTIMELY[:4] + ("errors",),
    "a dictionary is thought to be a copy",
    "`plan` is left as it is",
)
longest_chain_of_names = started(
    {CHAIN: '    while stages[chain[0]]["after"]:\n        chain.insert(0, stages[chain[0]]["after"][0])\n'},
    ("critical",),
    "any stage that was waited for is thought to be critical",
    "each other one waits for the one before it in the list and begins when that is done",
)
last_of_the_plan = started(
    {"chain = [max(spans, key=lambda name: spans[name][1])]": 'chain = [max((name for name in stages if any(stages[name]["after"])), key=lambda name: spans[name][1], default=next(iter(stages)))]'},
    ("critical",),
    "what waits for nothing is thought to be done early",
    "the last is done when the instance is ready",
)
two_longest = started(
    {CHAIN: '    if stages[chain[0]]["after"]:\n        chain.insert(0, max(stages[chain[0]]["after"], key=lambda name: spans[name][1]))\n'},
    ("critical",),
    "the last two stages are thought to be all that is critical",
    "The first begins at 0",
)
by_length = started(
    {CHAIN: "", "chain = [max(spans, key=lambda name: spans[name][1])]": "chain = sorted(spans, key=lambda name: spans[name][1] - spans[name][0])"},
    ("critical",),
    "the critical list is thought to be all stages by how long they take",
    "each other one waits for the one before it in the list",
)
durations = started(
    {'        "spans": spans,\n': '        "spans": {name: (begin, done - begin) for name, (begin, done) in spans.items()},\n'},
    ("order", "pipeline", "errors"),
    "a span is thought to be a begin and a length",
    "of each stage a pair of when it begins and when it is done, in seconds",
)
deadlock_ends = started(
    {'            raise ValueError("stages wait for each other, or for one that is not there")\n': "            return spans or {name: (0, 0) for name in stages}\n"},
    ("errors",),
    "stages that wait for each other are thought to do no harm",
    "where a stage waits for one that is not there, or over any number of others for itself",
)
strangers_ignored = started(
    {'all(other in spans for other in stages[name]["after"])': 'all(other in spans or other not in stages for other in stages[name]["after"])', "(spans[other][1] for other in stages[name][\"after\"])": "(spans[other][1] for other in stages[name][\"after\"] if other in spans)"},
    ("errors",),
    "a stage that is not there is thought to be done",
    "where a stage waits for one that is not there",
)
any_bandwidth = started(
    {"if not stages or any(rate <= 0 for rate in tiers.values()):": "if not stages:"},
    ("errors",),
    "a division is thought to check what it divides by",
    "where a tier's bytes a second are not greater than 0",
)
nothing_to_start = started(
    {"    require_plan(stages, tiers)\n": '    if not stages:\n        return {"spans": {}, "critical": [], "saves": {}, "bottleneck": None}\n    require_plan(stages, tiers)\n'},
    ("errors",),
    "a plan without stages is thought to be ready",
    "raises `ValueError` where there is no stage",
)
any_chunk = started(
    {" and (chunk is None or chunk > 0)": "", SIZE: 'size = min(left, max(stage["chunk"] or left, 1e-3))'},
    ("errors",),
    "a chunk is thought to be sound because it is there",
    "where `\"chunk\"` is a number not greater than 0",
)
any_need = started(
    {'            sound = sound and 0 <= stage.get("needed", 0) <= nbytes\n': '            sound = sound and nbytes >= 0\n'},
    ("errors",),
    "more than all is thought to be all",
    "where `\"needed\"` is less than 0 or greater than `\"bytes\"`",
)
no_path = started(
    {'sound = stage["path"] and set(stage["path"])': 'sound = set(stage["path"])', "    return free[-1]\n": "    return free[-1] if free else 0\n"},
    ("errors",),
    "a load without a path is thought to be there already",
    "where a path is empty or names a tier that is not there",
)
negative_seconds = started(
    {'sound = stage["seconds"] >= 0': "sound = True"},
    ("errors",),
    "seconds are thought to be positive",
    "where `\"seconds\"` or `\"bytes\"` are less than 0",
)


@mistake("cold_start", UNTIMELY, "the library's timeline is thought to be the answer", "a call of it loses the points")
def borrowed(plan):
    from gpulab.platforms import Load, Work, timeline

    stages = [
        Work(name, one["seconds"], tuple(one["after"]))
        if "seconds" in one
        else Load(name, one["bytes"], tuple(one["path"]), tuple(one["after"]), one["chunk"], one.get("needed"))
        for name, one in plan["stages"].items()
    ]
    found = timeline(stages, plan["tiers"])
    return {"spans": found.spans, "critical": list(found.critical), "saves": found.saves, "bottleneck": found.bottleneck}


@alternative("cold_start")
def by_events(plan):
    """Asks for what it needs by recursion, and follows one chunk after the other in fractions."""
    from fractions import Fraction
    from functools import cache

    stages, tiers = plan["stages"], {name: Fraction(rate) for name, rate in plan["tiers"].items()}
    if len(stages) == 0:
        raise ValueError
    for rate in tiers.values():
        if not rate > 0:
            raise ValueError
    for stage in stages.values():
        if "seconds" not in stage:
            if stage["bytes"] < 0 or stage["path"] == [] or [tier for tier in stage["path"] if tier not in tiers]:
                raise ValueError
            if stage["chunk"] is not None and stage["chunk"] <= 0:
                raise ValueError
            if "needed" in stage and not 0 <= stage["needed"] <= stage["bytes"]:
                raise ValueError
        elif stage["seconds"] < 0:
            raise ValueError

    def visit(name, above):
        if name in above or name not in stages:
            raise ValueError
        for other in stages[name]["after"]:
            visit(other, above | {name})

    for name in stages:
        visit(name, frozenset())

    def cross(nbytes, chunk, hops):
        chunks = []
        while nbytes > 0:
            chunks.append(min(chunk, nbytes) if chunk else nbytes)
            nbytes -= chunks[-1]
        arrivals = [Fraction(0)] * len(chunks)
        for us in hops:
            busy = Fraction(0)
            for number, size in enumerate(chunks):
                busy = max(busy, arrivals[number]) + size * us
                arrivals[number] = busy
        return arrivals[-1] if arrivals else Fraction(0)

    def played(free_tier=None, free_stage=None):
        @cache
        def done(name):
            begin = max([done(other)[1] for other in stages[name]["after"]] or [Fraction(0)])
            stage = stages[name]
            if "seconds" in stage:
                return begin, begin + (0 if name == free_stage else Fraction(stage["seconds"]))
            wanted = Fraction(stage["bytes"] if "needed" not in stage else stage["needed"])
            hops = [0 if tier == free_tier else 1 / tiers[tier] for tier in stage["path"]]
            return begin, begin + cross(wanted, stage["chunk"] and Fraction(stage["chunk"]), hops)

        return {name: done(name) for name in stages}

    spans = played()
    ready = max(end for _, end in spans.values())
    chain, until = [], ready
    while not chain or until > 0 or stages[chain[0]]["after"]:
        among = stages[chain[0]]["after"] if chain else list(stages)
        chain.insert(0, next(name for name in among if spans[name][1] == until))
        until = spans[chain[0]][0]
    saves = {}
    for stage in stages.values():
        for tier in stage.get("path", []):
            saves[tier] = ready - max(end for _, end in played(free_tier=tier).values())
    for name in stages:
        if "seconds" in stages[name]:
            saves[name] = ready - max(end for _, end in played(free_stage=name).values())
    most = max(saves.values())
    return {
        "bottleneck": [name for name in saves if saves[name] == most][-1],
        "saves": saves,
        "critical": chain,
        "spans": {name: list(span) for name, span in spans.items()},
    }


@alternative("cold_start")
def by_sorting(plan):
    """Orders the stages with graphlib, and has loads in closed form."""
    from graphlib import CycleError, TopologicalSorter
    from math import ceil, inf

    stages, tiers = plan["stages"], plan["tiers"]
    bad = not stages or min(tiers.values(), default=1) <= 0
    for stage in stages.values():
        bad |= any(name not in stages for name in stage["after"])
        if "path" in stage:
            bad |= not stage["path"] or any(name not in tiers for name in stage["path"])
            bad |= not 0 <= stage.get("needed", stage["bytes"]) <= stage["bytes"] or (stage["chunk"] or 1) < 0 or stage["chunk"] == 0
        else:
            bad |= stage["seconds"] < 0
    if bad:
        raise ValueError("no plan")
    try:
        order = list(TopologicalSorter({name: stage["after"] for name, stage in stages.items()}).static_order())
    except CycleError as error:
        raise ValueError("a circle") from error

    def takes(stage, rates):
        wanted = stage.get("needed", stage["bytes"])
        if wanted == 0:
            return 0.0
        chunk = min(stage["chunk"] or inf, wanted)
        count = ceil(wanted / chunk)
        last = wanted - (count - 1) * chunk
        each = [chunk / rates[name] for name in stage["path"]]
        ends = []
        for hop in range(len(each)):
            before = sum(each[: hop + 1]) + (count - 2) * max(each[: hop + 1]) if count > 1 else 0.0
            ends.append(max(before, ends[-1] if ends else 0.0) + last / rates[stage["path"][hop]])
        return ends[-1]

    def run(rates, instant):
        spans = {}
        for name in order:
            start = 0.0
            for other in stages[name]["after"]:
                start = max(start, spans[other][1])
            long = takes(stages[name], rates) if "path" in stages[name] else stages[name]["seconds"]
            spans[name] = (start, start + (0 if name == instant else long))
        return spans

    spans = run(tiers, None)
    ready = max(span[1] for span in spans.values())
    names = {tier for stage in stages.values() if "path" in stage for tier in stage["path"]}
    names |= {name for name in stages if "seconds" in stages[name]}
    saves = {name: ready - max(span[1] for span in run({**tiers, name: inf}, name).values()) for name in sorted(names)}
    # Backwards from what is done last, always to what was waited for.
    name = [name for name in order if spans[name][1] == ready][-1]
    critical = [name]
    while waited := [other for other in stages[name]["after"] if spans[other][1] == spans[name][0]]:
        name = waited[0]
        critical.append(name)
    return dict(spans=spans, critical=critical[::-1], saves=saves, bottleneck=sorted(saves, key=saves.get)[-1])


@alternative("cold_start")
def by_waves(plan):
    """Lets ends grow until nothing changes, as Bellman and Ford do."""
    stages, tiers = plan["stages"], plan["tiers"]

    def is_sound(stage):
        if any(name not in stages for name in stage["after"]):
            return False
        if "seconds" in stage:
            return stage["seconds"] >= 0
        chunk, needed = stage["chunk"], stage.get("needed", 0)
        known = stage["path"] and all(name in tiers for name in stage["path"])
        return bool(known) and (chunk is None or chunk > 0) and needed >= 0 and max(needed, 0) <= stage["bytes"]

    if not (stages and all(map(is_sound, stages.values())) and all(rate > 0 for rate in tiers.values())):
        raise ValueError("unsound")

    def length(name, quick):
        stage = stages[name]
        if "seconds" in stage:
            return 0 if name == quick else stage["seconds"]
        todo = stage["needed"] if "needed" in stage else stage["bytes"]
        step = stage["chunk"] or todo
        sizes = [step] * int(todo // step) + ([todo % step] if todo % step else []) if todo else []
        table = [[0.0] * (len(sizes) + 1) for _ in range(len(stage["path"]) + 1)]
        for hop, tier in enumerate(stage["path"], 1):
            for number, size in enumerate(sizes, 1):
                crossing = 0.0 if tier == quick else size / tiers[tier]
                table[hop][number] = max(table[hop - 1][number], table[hop][number - 1]) + crossing
        return table[-1][-1]

    def begins(quick=None):
        lengths, begin = {name: length(name, quick) for name in stages}, dict.fromkeys(stages, 0)
        for _ in range(len(stages) + 1):
            now = {name: max([begin[other] + lengths[other] for other in stages[name]["after"]], default=0) for name in stages}
            if now == begin:
                return {name: (begin[name], begin[name] + lengths[name]) for name in stages}
            begin = now
        raise ValueError("a circle")

    def circle_free():
        left = dict(stages)
        while free := [name for name in left if not any(other in left for other in left[name]["after"])]:
            for name in free:
                del left[name]
        return not left

    if not circle_free():
        raise ValueError("a circle")
    spans = begins()
    ready = max(done for _, done in spans.values())
    names = [tier for tier in tiers if any(tier in one.get("path", ()) for one in stages.values())]
    names += [name for name in stages if "seconds" in stages[name]]
    saves = {name: ready - max(done for _, done in begins(name).values()) for name in names}

    def chain(name):
        before = [other for other in stages[name]["after"] if abs(spans[other][1] - spans[name][0]) < 1e-12 * (1 + ready)]
        return (chain(before[-1]) if before else []) + [name]

    best = max(saves.values())
    return {
        "spans": spans, "critical": chain(next(name for name in stages if spans[name][1] == ready)), "saves": saves,
        "bottleneck": next(name for name in saves if saves[name] == best),
    }  # fmt: skip


shared_tier = started(
    {'        for name in free:\n            begins': '        for name in sorted(free):\n            begins', AFTER: "max([spans[other][1] for other in stages[name][\"after\"]] + [done for other, (_, done) in spans.items() if set(stages[other].get('path', ())) & set(stages[name].get('path', ()))], default=0)"},
    ("order", "errors"),
    "loads on one tier are thought to queue",
    "Loads do not disturb each other, not even on one tier",
)
all_without_chunks = started(
    {SIZE: 'size = min(left, stage["chunk"] or stage["bytes"] / 64)'},
    ("pipeline", "bottleneck"),
    "bytes without chunks are thought to flow in small pieces all the same",
    "Where `\"chunk\"` is None all bytes are one chunk",
)
bits = started(
    {"size / tiers[tier]": "8 * size / tiers[tier]"},
    ("order", "pipeline", "bottleneck", "errors"),
    "bandwidths are thought to be in bits",
    "`plan[\"tiers\"]` has the **bytes a second** of each tier by its name",
)
needed_without_default = started(
    {NEEDED: 'stage.get("needed", 0)'},
    UNTIMELY,
    "a load is thought to be lazy unless it says otherwise",
    "Where `\"needed\"` is not there, all bytes are needed",
)
background_waited_for = started(
    {"    ready = max(done for _, done in spans.values())\n": "    ready = max(done + (stages[name]['bytes'] - stages[name]['needed']) / tiers[stages[name]['path'][-1]] * ('needed' in stages[name]) if 'needed' in stages[name] else done for name, (_, done) in spans.items())\n"},
    ("bottleneck",),
    "an instance is thought to be ready when its disk is full",
    "The rest follows in the background and holds nobody up",
)
named_bottlenecks = started(
    {'"bottleneck": max(saves, key=saves.get),': '"bottleneck": [max(saves, key=saves.get)],'},
    ("bottleneck",),
    "there are thought to be several bottlenecks at once",
    "Of several that save equally much any will do",
)

COLD_START_SAYS = {
    "`plan` is a dictionary": "it says what is handed over",
    "`plan[\"stages\"]` has the stages by their names": "it says what is handed over",
    "No stage has a tier's name": "it says what is handed over",
    "Seconds, bytes and bytes a second are integers or floats": "it says what is handed over",
    "a stage with `\"seconds\"` is done so many seconds after it began": "who adds anything else has no stage at all",
    "a stage with `\"bytes\"` is a **load**": "it is a name",
    "Its `\"path\"` is a list of tiers, each there once": "it says what is handed over",
    "To cross a tier takes a chunk its bytes divided by the tier's bytes a second": "who divides otherwise reads bits, above",
    "returns a dictionary of `\"spans\"`": "its entries are told one by one",
    "The instance is **ready** when all stages are done": "it is a name",
    "`\"critical\"`: a list of stages": "what it lists follows",
    "Where there are several such lists, any of them will do": "it is a permission",
    "times may be wrong by a billionth": "it is a permission",
    "you write it without gpulab": "the clause behind it says what that costs",
}
cold_start_says = tuple(unbreakable("cold_start", words, why) for words, why in COLD_START_SAYS.items())


# E20.2 warm_pool

LAST = "needed = deque(maxlen=returns)"
NEEDS = 'needed.append(seen["busy"] + seen["waiting"])'
SIZE_NOW = "return max(needed) + 2"
TIMES = "    if min(cold, service, returns) < 1:\n        raise ValueError(\"a start, a request and a return take a second or more\")\n"
LATE = ("waits", "unused", "starts", "apart", "errors")


def pooled(edits, loses, because, breaks):
    return edited("warm_pool", edits, loses=loses, because=because, breaks=breaks)


always_zero = pooled(
    {SIZE_NOW: "return 0"},
    LATE,
    "serverless is thought to mean that nothing waits",
    "99 of 100 requests or more begin within `cold // 2` seconds",
)
always_most = pooled(
    {SIZE_NOW: "return 40"},
    ("unused",),
    "a pool is thought to be sized for the worst day",
    "**unused** is what is paid for nothing",
)
mean_sized = pooled(
    {LAST: "needed = []", SIZE_NOW: "return round(sum(needed) / len(needed))"},
    LATE,
    "half of the time the mean is thought to be enough",
    "99 of 100 requests or more begin within `cold // 2` seconds",
)
mean_of_late = pooled(
    {SIZE_NOW: "return -(-sum(needed) // len(needed)) + 1"},
    LATE,
    "a moving mean is thought to be a forecast",
    "What has come once in some second may come again within the next `returns` seconds",
)
follows = pooled(
    {SIZE_NOW: "return needed[-1] + 2"},
    LATE,
    "what is needed now is thought to be what is needed when a start is done",
    "an instance that is started is ready `cold` seconds later",
)
by_arrivals = pooled(
    {SIZE_NOW: 'return seen["arrived"] + 1'},
    LATE,
    "requests of a second are thought to be those that are served in it",
    "a request keeps an instance for `service` seconds",
)
busy_alone = pooled(
    {SIZE_NOW: 'return seen["busy"]'},
    LATE,
    "what is busy is thought to be what is needed",
    "how many instances there are to be, busy, idle and starting together",
)
idle_alone = pooled(
    {SIZE_NOW: "return 2"},
    LATE,
    "the pool is thought to be what is idle",
    "busy, idle and starting together",
)
long_memory = pooled(
    {LAST: "needed = deque(maxlen=20 * returns)"},
    ("unused",),
    "the largest load ever is thought to come again at any time",
    "0.85 on a `day`, and 0.7 with quiet `nights`",
)
never_shrinks = pooled(
    {LAST: "needed = []"},
    ("unused",),
    "a pool is thought to be grown, and that is all",
    "Of its unused seconds you may have 1.5 times on `steady` and `pulses`",
)
oscillates = pooled(
    {SIZE_NOW: 'return max(needed) + 1 + 2 * (seen["second"] // 11 % 2)'},
    ("starts",),
    "starting and stopping an instance is thought to cost nothing",
    "no more than one instance is started for 12 requests",
)
halved_at_once = pooled(
    {SIZE_NOW: 'return max(needed) + 2 if seen["second"] % 60 else needed[-1]'},
    LATE,
    "a pool is thought to be trimmed once a minute",
    "What is stopped in one second and started in the next costs a cold start each time",
)
one_for_all = pooled(
    {LAST: "needed = shared", "from collections import deque": "from collections import deque\n\nshared = deque(maxlen=120)"},
    ("apart",),
    "there is thought to be one pool",
    "several pools may be asked in turn, each about its own load",
)
counted_together = pooled(
    {SIZE_NOW: "return max(needed) + 2 + (next(asked) % 401 == 0)", "from collections import deque": "from collections import deque\nfrom itertools import count\n\nasked = count()"},
    ("apart",),
    "a counter of the module is thought to be the pool's own",
    "one that sees the same decides the same",
)
a_float = pooled(
    {SIZE_NOW: "return 1.3 * max(needed) + 1"},
    LATE,
    "a number of instances is thought to be any number",
    "`decide` returns an **integer**, 0 or more",
)
handed_back = pooled(
    {NEEDS: 'needed.append(seen.pop("busy") + seen["waiting"])'},
    LATE,
    "the dictionary is thought to be one's own",
    "The dictionary is left as it is",
)
times_unchecked = pooled(
    {TIMES: "", LAST: "needed = deque(maxlen=max(returns, 1))"},
    ("errors",),
    "times are thought to be positive",
    "raises `ValueError` where `cold`, `service` or `returns` is less than 1",
)


@mistake("warm_pool", LATE, "a number is thought to be a policy", "it returns `decide`, a function or any object that can be called")
def a_size(cold, service, returns):
    if min(cold, service, returns) < 1:
        raise ValueError("no times")
    return 12


@alternative("warm_pool")
def keep_alive(cold, service, returns):
    """As platforms do it: what has been idle for so long is stopped, and there is always room for two more."""
    if cold < 1 or service < 1 or returns < 1:
        raise ValueError("times are whole seconds")

    class Alive:
        def __init__(self):
            self.idle = []

        def __call__(self, seen):
            there = seen["busy"] + seen["idle"] + seen["starting"]
            spare = there - seen["busy"] - seen["waiting"]
            self.idle = [*self.idle, spare][-returns:]
            if spare < 2:
                self.idle = []
                return there + 2 - spare
            too_many = min(self.idle) - 2 if len(self.idle) == returns else 0
            self.idle = [one - max(0, too_many) for one in self.idle]
            return there - max(0, too_many)

    return Alive()


@alternative("warm_pool")
def by_steps(cold, service, returns):
    """Grows at once, and holds each size for as long as a load may take to come back."""
    for seconds in (cold, service, returns):
        if seconds <= 0:
            raise ValueError(seconds)
    state = {"size": 3, "until": 0}

    def decide(seen):
        due = seen["waiting"] + seen["busy"] + 2
        if due >= state["size"]:
            state.update(size=due, until=seen["second"] + returns, second=0)
        else:
            state["second"] = max(state.get("second", 0), due)
            if seen["second"] >= state["until"]:
                state.update(size=state["second"], until=seen["second"] + returns, second=0)
        return state["size"]

    return decide


@alternative("warm_pool")
def by_buckets(cold, service, returns):
    """Maxima of ten stretches of the time that counts, instead of all its seconds."""
    if not all(seconds >= 1 for seconds in (cold, service, returns)):
        raise ValueError("less than a second")
    width = max(1, -(-returns // 10))
    maxima = {}

    def decide(seen):
        bucket = seen["second"] // width
        maxima[bucket] = max(maxima.get(bucket, 0), seen["busy"] + seen["waiting"])
        for old in [key for key in maxima if key < bucket - 10]:
            del maxima[old]
        return max(maxima.values()) + 2

    return decide


warm_pool_harmless = (
    equivalent_mutant("warm_pool", "return max(needed) + 2", "return max(needed) + 3", "one more holds within what may be paid"),
    equivalent_mutant("warm_pool", "return max(needed) + 2", "return max(needed) + 1", "one less is enough in nearly all loads"),
)
warm_pool_says = (
    unbreakable("warm_pool", "All three are integers", "it says what is handed over"),
    unbreakable("warm_pool", "It is handed a dictionary of integers", "it says what is handed over"),
    unbreakable("warm_pool", "a job by the clock does", "it is an example"),
    unbreakable("warm_pool", "`second`, from 0 on", "it says what is handed over"),
    unbreakable("warm_pool", "and what is there after idle instances have taken what they can", "it says what is handed over"),
    unbreakable("warm_pool", "what happens without being asked", "the replay does it"),
    unbreakable("warm_pool", "`arrived`, requests that came in this second", "it says what is handed over"),
    unbreakable("warm_pool", "`busy`, `idle` and `starting` instances, and `waiting` requests", "it says what is handed over"),
    unbreakable("warm_pool", "What is missing is started, and idle ones that are too many are stopped", "the replay does it"),
    unbreakable("warm_pool", "Busy and starting ones are not", "the replay does it"),
    unbreakable("warm_pool", "a waiting request for which none is starting starts an instance of its own", "the replay does it"),
    unbreakable("warm_pool", "instance-seconds in which one is idle or starting", "it is a name"),
    unbreakable("warm_pool", "`keeping` finds the smallest pool of fixed size", "it says what is compared with"),
    unbreakable("warm_pool", "the loads are drawn as in the cell above", "it says what is drawn"),
    unbreakable("warm_pool", "The first 300 seconds are not counted", "it is a permission"),
)


# E20.3 audit_network

ALLOWS = '    return covering == {"Allow"}'
COVERING = 'covering = {one["effect"] for one in statements if stands(one["actions"], action) and stands(one["resources"], resource)}'
STANDS = 'any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) for pattern in patterns)'
REACHES = """    while ahead:
        place = ahead.pop()
        if place not in graph["endpoints"]:
            new = set(graph["routes"].get(place, ())) - reached
            reached |= new
            ahead += new
"""
DOORS = "any(allow(door, action, resource) for door in doors for action in ways)"
SOUND = 'if not {one["effect"] for one in statements} <= {"Allow", "Deny"} or not named <= set(policies["roles"]):'
UNUSED = "if action not in done[role] and any(allow(statements, action, resource) for resource in resources)"
EVERY_FINDING = ("internet", "leaks", "wildcards", "unused", "least", "errors")


def audited(edits, loses, because, breaks):
    return edited("audit_network", edits, loses=loses, because=because, breaks=breaks)


direct_routes = audited(
    {REACHES: '    reached |= set(graph["routes"].get(start, ())) if ahead else set()\n'},
    ("internet", "leaks", "errors"),
    "what is not next to a gateway is thought to be private",
    "the workloads whose traffic can come to `\"internet\"`, over any number of places",
)
two_hops = audited(
    {REACHES: '    for _ in range(3):\n        places = {start} | reached\n        reached |= {after for place in places if place not in graph["endpoints"] for after in graph["routes"].get(place, ())}\n'},
    ("internet", "errors"),
    "networks are thought to be a few steps wide",
    "over any number of places",
)
both_ways = audited(
    {'new = set(graph["routes"].get(place, ())) - reached': 'new = {*graph["routes"].get(place, ()), *(one for one, after in graph["routes"].items() if place in after)} - reached'},
    ("internet", "errors"),
    "a route is thought to lead back",
    "from a place, which is a string, to a list of the places that its traffic may go to next",
)
through_endpoints = audited(
    {'        if place not in graph["endpoints"]:\n': "        if True:\n"},
    ("internet", "leaks", "errors"),
    "an endpoint is thought to be a router",
    "An endpoint leads to its service and **nowhere else**, whatever routes say",
)
workloads_stop = audited(
    {'if place not in graph["endpoints"]:': 'if place == start or place not in {**graph["endpoints"], **graph["workloads"]}:'},
    ("internet", "leaks", "errors"),
    "a workload is thought to let nobody through",
    "Traffic may also come through it",
)
first_statement_decides = audited(
    {COVERING: COVERING.replace("covering = {one", "covering = [one").replace("resource)}", "resource)][:1]"), ALLOWS: '    return covering == ["Allow"]'},
    ("leaks", "unused", "least"),
    "policies are thought to be read from the top, as firewall rules are",
    "in whatever order they stand",
)
last_statement_decides = audited(
    {COVERING: COVERING.replace("covering = {one", "covering = [one").replace("resource)}", "resource)][-1:]"), ALLOWS: '    return covering == ["Allow"]'},
    ("leaks", "unused", "least"),
    "a later statement is thought to replace an earlier one",
    "if one with `\"Allow\"` covers it and none with `\"Deny\"` does",
)
allow_wins = audited(
    {ALLOWS: '    return "Allow" in covering'},
    ("leaks", "unused", "least"),
    "what is allowed somewhere is thought to be allowed",
    "none with `\"Deny\"` does",
)
allowed_by_default = audited(
    {ALLOWS: '    return "Deny" not in covering'},
    ("leaks", "unused", "least"),
    "what nobody denies is thought to be allowed",
    "Statements **allow** an action on a resource if one with `\"Allow\"` covers it",
)
any_resource = audited(
    {COVERING: COVERING.replace(' and stands(one["resources"], resource)', "")},
    ("leaks", "unused", "least"),
    "a policy is thought to be about actions",
    "and one of its resources' for the resource",
)
either_matches = audited(
    {COVERING: COVERING.replace("action) and stands", "action) or stands")},
    ("leaks", "unused", "least"),
    "a statement is thought to cover what it names in either list",
    "a statement **covers** an action on a resource if one of its actions' patterns stands for the action",
)
as_file_names = audited(
    {STANDS: "any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)", "import re\n": "import fnmatch\n"},
    ("leaks", "unused", "least"),
    "patterns are thought to be those of a shell",
    "and everything else for itself",
)
as_regular_expressions = audited(
    {STANDS: 'any(re.fullmatch(pattern.replace("*", ".*").replace("[A-Z]", "[A-Z]"), name) for pattern in patterns)'},
    ("leaks", "unused", "least"),
    "a dot is thought to be a dot",
    "and everything else for itself",
)
stars_at_the_end = audited(
    {STANDS: 'any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)'},
    ("leaks", "unused", "least"),
    "a star is thought to stand at the end",
    "In a pattern `*` stands for any characters, none too",
)
anywhere_in_the_name = audited(
    {"re.fullmatch(": "re.match("},
    ("leaks", "unused", "least"),
    "a pattern is thought to be the beginning of a name",
    "stands for the action",
)
one_character_at_least = audited(
    {'".*".join': '".+".join'},
    ("leaks", "unused", "least"),
    "a star is thought to stand for something",
    "`*` stands for any characters, none too",
)
endpoints_open = audited(
    {DOORS: "bool(doors and ways)"},
    ("leaks",),
    "an endpoint is thought to let everything pass",
    "and by those of an endpoint that the workload's traffic can come to",
)
endpoints_private = audited(
    {'if not ours and leaks(w, r)}': "if False}"},
    ("leaks",),
    "a private endpoint is thought to keep data in",
    "pairs of a workload and a resource of others",
)
roles_do_not_count = audited(
    {'ways = [action for action in actions if allow(roles[workloads[workload]], action, resource)]': "ways = actions"},
    ("leaks",),
    "the endpoint's policy is thought to be enough to get in",
    "such that one action on it is allowed by the role's statements",
)
any_action_of_each = audited(
    {DOORS: "bool(ways) and any(allow(door, action, resource) for door in doors for action in actions)"},
    ("leaks",),
    "two policies that allow something are thought to allow the same",
    "such that one action on it is allowed by the role's statements, and by those of an endpoint",
)
any_endpoint = audited(
    {"doors = [endpoints[place] for place in reached[workload] if place in endpoints]": "doors = list(endpoints.values())"},
    ("leaks",),
    "an endpoint of the VPC is thought to be everyone's",
    "an endpoint that the workload's traffic can come to",
)
our_own_leak = audited(
    {"if not ours and leaks(w, r)}": "if leaks(w, r)}"},
    ("leaks",),
    "what goes through an endpoint is thought to leave",
    "pairs of a workload and a resource of others",
)
internet_leaks_too = audited(
    {DOORS: 'bool(ways and "internet" in reached[workload]) or ' + DOORS},
    ("leaks",),
    "the way over the internet is thought to belong to the same finding",
    "Endpoints alone are asked",
)
stars_that_deny = audited(
    {'            if statement["effect"] == "Allow" and "*" in pattern\n': '            if "*" in pattern\n'},
    ("wildcards",),
    "a star is thought to be bad wherever it is",
    "pairs of a role and a pattern with a `*` among the actions of its statements with `\"Allow\"`",
)
only_a_star = audited(
    {'            if statement["effect"] == "Allow" and "*" in pattern\n': '            if statement["effect"] == "Allow" and pattern == "*"\n'},
    ("wildcards",),
    "a star is thought to be a wildcard only when it is alone",
    "a pattern with a `*` among the actions",
)
stars_of_resources = audited(
    {'for pattern in statement["actions"]\n': 'for pattern in statement["actions"] + statement["resources"]\n'},
    ("wildcards",),
    "resources are thought to be looked at, too",
    "among the actions of its statements",
)
whoever_used_it = audited(
    {UNUSED: UNUSED.replace("action not in done[role]", "action not in set().union(*done.values())")},
    ("unused", "least"),
    "a permission that somebody uses is thought to be used",
    "and that the log does not have of this role",
)
allowed_everywhere = audited(
    {UNUSED: UNUSED.replace("any(allow", "all(allow")},
    ("unused", "least"),
    "a permission is thought to be one on all resources",
    "pairs of a role and an action that its statements allow on some resource",
)
everything_in_the_log = audited(
    {"        if allow(roles[role], action, resource):\n            least[role].add(action)\n": "        least[role].add(action)\n"},
    ("least",),
    "what was done is thought to be what is to be allowed",
    "**and** that its statements still allow on the resource that they were done on",
)
allowed_on_another = audited(
    {"        if allow(roles[role], action, resource):\n": "        if any(allow(roles[role], action, other) for other in resources):\n"},
    ("least",),
    "an action that is allowed on one resource is thought to be allowed",
    "on the resource that they were done on",
)
only_who_did = audited(
    {'        "least": least,\n': '        "least": {role: actions for role, actions in least.items() if actions},\n'},
    ("least",),
    "a role that did nothing is thought to be of no interest",
    "a dictionary from every role to the set of actions",
)
lists_of_findings = audited(
    {'"internet": {workload for workload in workloads if "internet" in reached[workload]},': '"internet": [workload for workload in workloads if "internet" in reached[workload]],'},
    ("internet", "errors"),
    "a list is thought to be as good as a set",
    "returns a dictionary of five entries, each a set but the last",
)
log_used_up = audited(
    {"    for role, action, resource in policies[\"log\"]:\n": "    while policies[\"log\"]:\n        role, action, resource = policies[\"log\"].pop()\n"},
    ("unused", "least", "wildcards"),
    "a log is thought to be read once",
    "graph and policies are left as they are",
)
effects_unchecked = audited(
    {SOUND: 'if not named <= set(policies["roles"]):'},
    ("errors",),
    "an effect is thought to be one of two",
    "raises `ValueError` where an effect is neither `\"Allow\"` nor `\"Deny\"`",
)
endpoints_unchecked = audited(
    {'for part in (policies["roles"], graph["endpoints"])': 'for part in (policies["roles"],)'},
    ("errors",),
    "policies are thought to be where roles are",
    "in a role or an endpoint",
)
roles_unchecked = audited(
    {SOUND: 'if not {one["effect"] for one in statements} <= {"Allow", "Deny"}:', "    for role, action, resource in policies[\"log\"]:\n": "    for role, action, resource in [one for one in policies[\"log\"] if one[0] in roles]:\n", "allow(roles[workloads[workload]], action, resource)": "allow(roles.get(workloads[workload], []), action, resource)"},
    ("errors",),
    "a role that is not there is thought to allow nothing",
    "and where a workload or the log names a role that is not there",
)


@mistake("audit_network", EVERY_FINDING, "what the library has is thought to be there to be called", "a call of it loses the points")
def audited_by_the_library(graph, policies):
    from gpulab.platforms import Endpoint, Graph, Policies, Statement, audit

    def read(some):
        if not all(one["effect"] in ("Allow", "Deny") for one in some):
            raise ValueError("an effect")
        return tuple(Statement(one["effect"], tuple(one["actions"]), tuple(one["resources"])) for one in some)

    endpoints = {place: Endpoint(read(some)) for place, some in graph["endpoints"].items()}
    roles = {role: read(some) for role, some in policies["roles"].items()}
    if not {*graph["workloads"].values(), *(entry[0] for entry in policies["log"])} <= set(roles):
        raise ValueError("a role")
    return audit(
        Graph(graph["routes"], graph["workloads"], endpoints), Policies(roles, policies["actions"], policies["resources"], policies["log"])
    )


@alternative("audit_network")
def by_closure(graph, policies):
    """All pairs of places at once, and patterns by taking them apart."""
    roles = policies["roles"]
    for name in [*graph["workloads"].values(), *[entry[0] for entry in policies["log"]]]:
        if name not in roles:
            raise ValueError(name)
    for statements in [*roles.values(), *graph["endpoints"].values()]:
        for statement in statements:
            if statement["effect"] not in ("Allow", "Deny"):
                raise ValueError(statement["effect"])

    def fits(pattern, name):
        head, *rest = pattern.split("*")
        if not rest:
            return name == pattern
        if not name.startswith(head):
            return False
        at = len(head)
        for piece in rest[:-1]:
            found = name.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(name) - at >= len(rest[-1]) and name.endswith(rest[-1])

    def permitted(statements, action, resource):
        allowed = False
        for statement in statements:
            for pattern in statement["actions"]:
                if fits(pattern, action):
                    for other in statement["resources"]:
                        if fits(other, resource):
                            if statement["effect"] == "Deny":
                                return False
                            allowed = True
        return allowed

    edges = {(one, after) for one, places in graph["routes"].items() if one not in graph["endpoints"] for after in places}
    while True:
        further = {(a, d) for a, b in edges for c, d in edges if b == c} - edges
        if not further:
            break
        edges |= further
    table = {(role, a, r): permitted(roles[role], a, r) for role in roles for a in policies["actions"] for r in policies["resources"]}
    leaks = set()
    for workload, role in graph["workloads"].items():
        for place, statements in graph["endpoints"].items():
            if (workload, place) in edges:
                for resource, ours in policies["resources"].items():
                    for action in policies["actions"]:
                        if not ours and table[role, action, resource] and permitted(statements, action, resource):
                            leaks.add((workload, resource))
    done = {(role, action) for role, action, _ in policies["log"]}
    return {
        "internet": {workload for workload in graph["workloads"] if (workload, "internet") in edges},
        "leaks": leaks,
        "wildcards": {(role, p) for role in roles for s in roles[role] if s["effect"] == "Allow" for p in s["actions"] if p.count("*")},
        "unused": {(role, action) for (role, action, _), may in table.items() if may and (role, action) not in done},
        "least": {role: {a for one, a, r in policies["log"] if one == role and permitted(roles[role], a, r)} for role in roles},
    }


@alternative("audit_network")
def backwards(graph, policies):
    """From the internet and the endpoints back to who comes there; patterns by recursion."""
    from functools import cache

    @cache
    def like(pattern, name):
        if pattern == "":
            return name == ""
        if pattern[0] == "*":
            return like(pattern[1:], name) or (name != "" and like(pattern, name[1:]))
        return name != "" and name[0] == pattern[0] and like(pattern[1:], name[1:])

    def effective(statements):
        granted = set()
        for effect in ("Allow", "Deny"):
            for one in statements:
                if one["effect"] == effect:
                    covered = {
                        (action, resource)
                        for action in everything for resource in known
                        if any(like(p, action) for p in one["actions"]) and any(like(p, resource) for p in one["resources"])
                    }  # fmt: skip
                    granted = granted | covered if effect == "Allow" else granted - covered
        return granted

    everything = {*policies["actions"], *(action for _, action, _ in policies["log"])}
    known = {*policies["resources"], *(resource for _, _, resource in policies["log"])}
    effects = [one["effect"] for some in (policies["roles"], graph["endpoints"]) for statements in some.values() for one in statements]
    if set(effects) - {"Allow", "Deny"}:
        raise ValueError("neither")
    if {*graph["workloads"].values(), *(role for role, _, _ in policies["log"])} - policies["roles"].keys():
        raise ValueError("nobody")

    def who_comes_to(goal):
        coming, grew = set(), True
        while grew:
            grew = False
            for place, after in graph["routes"].items():
                if place not in coming and place not in graph["endpoints"] and (goal in after or coming & set(after)):
                    coming.add(place)
                    grew = True
        return coming

    may = {role: effective(statements) for role, statements in policies["roles"].items()}
    leaks = set()
    for place, statements in graph["endpoints"].items():
        passing = effective(statements)
        for workload in who_comes_to(place) & set(graph["workloads"]):
            both = passing & may[graph["workloads"][workload]]
            leaks |= {(workload, r) for a, r in both if a in policies["actions"] and policies["resources"].get(r) is False}
    used = {role: {a for who, a, _ in policies["log"] if who == role} for role in policies["roles"]}
    wild = set()
    for role, statements in policies["roles"].items():
        for one in statements:
            wild |= {(role, p) for p in one["actions"]} if one["effect"] == "Allow" else set()
    return {
        "internet": who_comes_to("internet") & set(graph["workloads"]),
        "leaks": leaks,
        "wildcards": {(role, p) for role, p in wild if "*" in p},
        "unused": {(role, a) for role in may for a, r in may[role] if a in policies["actions"] and r in policies["resources"] and a not in used[role]},
        "least": {role: {a for who, a, r in policies["log"] if who == role and (a, r) in may[role]} for role in may},
    }


@alternative("audit_network")
def by_recursion(graph, policies):
    """Goes through the network by functions that call themselves, and compiles every policy once."""
    import itertools
    import re

    def compiled(statements):
        rules = []
        for statement in statements:
            if statement["effect"] != "Allow" and statement["effect"] != "Deny":
                raise ValueError(f"no effect: {statement}")
            parts = []
            for key in ("actions", "resources"):
                texts = ["".join(".*" if sign == "*" else re.escape(sign) for sign in pattern) for pattern in statement[key]]
                parts.append(re.compile("|".join(f"(?:{text})" for text in texts), re.S) if texts else None)
            rules.append((statement["effect"] == "Deny", *parts))
        rules.sort(key=lambda rule: not rule[0])

        def says(action, resource):
            for denies, actions, resources in rules:
                if actions and resources and actions.fullmatch(action) and resources.fullmatch(resource):
                    return not denies
            return False

        return says

    says = {role: compiled(statements) for role, statements in policies["roles"].items()}
    passes = {place: compiled(statements) for place, statements in graph["endpoints"].items()}
    if any(role not in says for role in itertools.chain(graph["workloads"].values(), (one[0] for one in policies["log"]))):
        raise ValueError("no role")

    def walk(place, seen):
        if place in passes:
            return seen
        for after in graph["routes"].get(place, []):
            if after not in seen:
                seen.add(after)
                walk(after, seen)
        return seen

    answer = {"internet": set(), "leaks": set(), "wildcards": set(), "unused": set(), "least": {}}
    for workload, role in graph["workloads"].items():
        places = walk(workload, set())
        if "internet" in places:
            answer["internet"].add(workload)
        for place, action, resource in itertools.product(places & set(passes), policies["actions"], policies["resources"]):
            if not policies["resources"][resource] and says[role](action, resource) and passes[place](action, resource):
                answer["leaks"].add((workload, resource))
    for role, statements in policies["roles"].items():
        for one in statements:
            answer["wildcards"] |= {(role, p) for p in one["actions"] if "*" in p and one["effect"] == "Allow"}
        mine = [(action, resource) for who, action, resource in policies["log"] if who == role]
        answer["least"][role] = {action for action, resource in mine if says[role](action, resource)}
        for action in policies["actions"]:
            if action not in [one for one, _ in mine] and any(says[role](action, resource) for resource in policies["resources"]):
                answer["unused"].add((role, action))
    return answer


AUDIT_SAYS = {
    "`graph[\"routes\"]` is a dictionary": "it says what is handed over",
    "True for the customer's own, False for those of **others**": "it says what is handed over",
    "A place that is no key sends nothing on": "who asks for one gets an error, and the solution too would",
    "Routes may lead in circles": "who follows them for ever gets nowhere",
    "`\"internet\"` is a place": "it is a name",
    "`graph[\"workloads\"]` is a dictionary from a place": "it says what is handed over",
    "`graph[\"endpoints\"]` is a dictionary from a place": "it says what is handed over",
    "`policies[\"roles\"]` is a dictionary from a role to a list of statements": "it says what is handed over",
    "A **statement** is a dictionary": "it says what is handed over",
    "`\"effect\"` is `\"Allow\"` or `\"Deny\"`": "it says what is handed over",
    "`policies[\"actions\"]` lists all actions that there are": "it says what is handed over",
    "`policies[\"log\"]` is a list of what was done": "it says what is handed over",
    "what goes over the internet is a finding already": "it says why",
    "you write it without gpulab": "the clause behind it says what that costs",
    "role, action and resource": "it says what is handed over",
}
audit_says = tuple(unbreakable("audit_network", words, why) for words, why in AUDIT_SAYS.items())


# E20.4 mig_pack

MASK = "slices = ((1 << profile.memory) - 1) << start"
FREE = "not taken[gpu] & slices"
ENOUGH = "if one.gb >= gb and one.compute >= compute"
STARTS = "for start in profile.starts]"
REFUSED = "if not set(gpus) <= set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):"
LEAVE_OUT = """        count, places = best(number + 1, taken)
        found = count, (None, *places)
"""
NO_CHOICE = "        found = 0, None\n"


def packed(edits, loses, because, breaks):
    return edited("mig_pack", edits, loses=loses, because=because, breaks=breaks)


memory_alone = packed(
    {ENOUGH: "if one.gb >= gb"},
    ("enough", "most"),
    "a GPU is thought to be shared by its memory",
    "**and** its `compute` slices are too",
)
compute_alone = packed(
    {ENOUGH: "if one.compute >= compute"},
    ("enough", "most"),
    "a slice of compute is thought to bring the memory that it needs",
    "a profile is enough for a job if its `gb` are at least what the job needs",
)
more_than_asked = packed(
    {ENOUGH: "if one.gb > gb and one.compute >= compute"},
    ("enough", "most"),
    "an instance is thought to have to be larger than its job",
    "a profile is enough for a job if its `gb` are at least what the job needs",
)
as_asked = packed(
    {ENOUGH: "if one.gb >= gb and one.compute == compute"},
    ("enough", "most"),
    "a job is thought to take the profile of its compute slices",
    "Larger ones may be taken",
)
eight_slices = packed(
    {STARTS: "for start in range(0, 9 - profile.memory)]"},
    ("legal", "most", "errors"),
    "a GPU is thought to have eight slices that are free to use",
    "It may begin at `profile.starts` alone",
)
multiples = packed(
    {STARTS: "for start in range(0, 9 - profile.memory, profile.memory)]"},
    ("legal", "most", "errors"),
    "an instance is thought to begin at any multiple of its size",
    "It may begin at `profile.starts` alone",
)
four_anywhere = packed(
    {STARTS: "for start in (profile.starts if profile.compute != 4 else (0, 4))]"},
    ("legal", "most", "errors"),
    "four sevenths are thought to lie where three do",
    "It may begin at `profile.starts` alone",
)
only_compute_counts = packed(
    {MASK: "slices = ((1 << profile.compute) - 1) << start"},
    ("legal", "most", "errors"),
    "a GPU is thought to be full when its seven compute slices are used",
    "An instance takes `profile.memory` slices of memory from where it begins",
)
shared_slices = packed(
    {FREE: "True"},
    ("legal", "most", "errors"),
    "tenants are thought to share what is there",
    "every job has an instance of its own, and no two share one",
)
one_gpu_for_all = packed(
    {FREE: "not any(one & slices for one in taken)"},
    ("most",),
    "slices of all GPUs are thought to be the same",
    "**as many jobs** get a place as can have one at once",
)
@mistake("mig_pack", ("most",), "the first free place is thought to be good enough", "What a greedy rule finds is at times fewer")
def first_fit(jobs, gpus):
    if not set(gpus) <= set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):
        raise ValueError("no MIG, or no job")
    taken, places = [set() for _ in gpus], []
    for gb, compute in jobs:
        places.append(None)
        for gpu, name in enumerate(gpus):
            for profile in GEOMETRY[name].values():
                for start in profile.starts:
                    slices = set(range(start, start + profile.memory))
                    if places[-1] is None and profile.gb >= gb and profile.compute >= compute and not slices & taken[gpu]:
                        places[-1] = (gpu, profile.name, start)
                        taken[gpu] |= slices
    return places


@mistake("mig_pack", ("most",), "large jobs first are thought to leave most room for all", "**as many jobs** get a place as can have one at once")
def largest_jobs_first(jobs, gpus):
    if not set(gpus) <= set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):
        raise ValueError("no MIG, or no job")
    taken, places = [set() for _ in gpus], [None] * len(jobs)
    for job in sorted(range(len(jobs)), key=lambda job: (-jobs[job][1], -jobs[job][0])):
        gb, compute = jobs[job]
        free = [
            (profile.memory, gpu, profile.name, start)
            for gpu, name in enumerate(gpus) for profile in GEOMETRY[name].values() for start in profile.starts
            if profile.gb >= gb and profile.compute >= compute and not set(range(start, start + profile.memory)) & taken[gpu]
        ]  # fmt: skip
        if free:
            memory, gpu, name, start = min(free)
            places[job] = (gpu, name, start)
            taken[gpu] |= set(range(start, start + memory))
    return places


never_left_out = packed(
    {LEAVE_OUT: '        count, places = best(number + 1, taken)\n        found = count * (not instances(gpus, *jobs[number])), (None, *places)\n'},
    ("most",),
    "a job that could have a place is thought to have to get it",
    "**as many jobs** get a place as can have one at once, whichever they are",
)
none_if_one_is_left = packed(
    {"    return list(best(0, (0,) * len(gpus))[1])\n": "    count, places = best(0, (0,) * len(gpus))\n    return list(places) if count == len(jobs) else [None] * len(jobs)\n"},
    ("legal", "enough", "most", "errors"),
    "a plan for some is thought to be no plan",
    "a job that no profile is enough for gets none, and the others do",
)
first_gpu_only = packed(
    {"for gpu, name in enumerate(gpus) for": "for gpu, name in list(enumerate(gpus))[:1] for"},
    ("enough", "most"),
    "all jobs are thought to go on one GPU",
    "a triple of the GPU's number, counted from 0",
)
counted_from_one = packed(
    {"(count + 1, ((gpu, profile.name": "(count + 1, ((gpu + 1, profile.name"},
    ("legal", "enough", "most", "errors"),
    "GPUs are thought to be counted from 1",
    "a triple of the GPU's number, counted from 0",
)
profile_itself = packed(
    {"((gpu, profile.name, start)": "((gpu, profile, start)"},
    ("legal", "enough", "most", "errors"),
    "the profile is thought to be its name",
    "the **name** of a profile of that GPU",
)
largest_first = packed(
    {"    return list(best(0, (0,) * len(gpus))[1])\n": "    return sorted(best(0, (0,) * len(gpus))[1], key=lambda place: place is None)\n"},
    ("most",),
    "places are thought to matter, and not whose they are",
    "returns a list with one entry for each job, in the order of `jobs`",
)
mig_everywhere = packed(
    {REFUSED: "if any(gb <= 0 or compute < 1 for gb, compute in jobs):", "for one in GEOMETRY[name].values()": 'for one in GEOMETRY.get(name, GEOMETRY["A100-40GB"]).values()'},
    ("errors",),
    "every data centre GPU is thought to have MIG",
    "raises `ValueError` where a GPU has no MIG, or is not in `GEOMETRY`",
)
unsupported_skipped = packed(
    {REFUSED: "if any(gb <= 0 or compute < 1 for gb, compute in jobs):", "for one in GEOMETRY[name].values()": "for one in GEOMETRY.get(name, {}).values()"},
    ("errors",),
    "a GPU that cannot be cut is thought to be of no concern",
    "**even if** no job needs it",
)
needs_nothing = packed(
    {REFUSED: "if not set(gpus) <= set(GEOMETRY):"},
    ("errors",),
    "a job is thought to need something",
    "where a job needs less than 1 compute slice, or gigabytes that are not greater than 0",
)
jobs_used_up = packed(
    {"    return list(best(0, (0,) * len(gpus))[1])\n": "    places = list(best(0, (0,) * len(gpus))[1])\n    jobs.clear()\n    return places\n"},
    ("legal", "enough", "most", "errors"),
    "a caller's list is thought to be one's own to use up",
    "`jobs` and `gpus` are left as they are",
)


@mistake("mig_pack", ("legal", "enough", "most", "errors"), "what the library has is thought to be there to be called", "a call of gpulab's functions loses the points")
def by_the_library(jobs, gpus):
    from gpulab.platforms import free_starts, geometry

    taken, places = [0] * len(gpus), []
    tables = [geometry(gpu) for gpu in gpus]
    if any(gb <= 0 or compute < 1 for gb, compute in jobs):
        raise ValueError("no job")
    for gb, compute in jobs:
        free = [
            (profile.memory, gpu, profile.name, start)
            for gpu, table in enumerate(tables) for profile in table.values() for start in free_starts(profile, taken[gpu])
            if profile.gb >= gb and profile.compute >= compute
        ]  # fmt: skip
        places.append(min(free)[1:] if free else None)
        if free:
            memory, gpu, _, start = min(free)
            taken[gpu] |= ((1 << memory) - 1) << start
    return places


@alternative("mig_pack")
def one_gpu_after_the_other(jobs, gpus):
    """Every set of jobs that one GPU holds, and then the best union of disjoint sets."""
    tables = []
    for gpu in gpus:
        if gpu not in GEOMETRY:
            raise ValueError(gpu)
        tables.append(GEOMETRY[gpu])
    for gb, compute in jobs:
        if gb <= 0 or compute <= 0:
            raise ValueError("needs nothing")

    def holds(table):
        found = {}

        def add(number, slices, chosen):
            found.setdefault(frozenset(job for job, _, _ in chosen), chosen)
            for job in range(number, len(jobs)):
                for profile in table.values():
                    if profile.gb >= jobs[job][0] and profile.compute >= jobs[job][1]:
                        for start in profile.starts:
                            these = set(range(start, start + profile.memory))
                            if not these & slices:
                                key = frozenset([*(j for j, _, _ in chosen), job])
                                state = (key, frozenset(slices | these))
                                if state not in seen:
                                    seen.add(state)
                                    add(job + 1, slices | these, [*chosen, (job, profile.name, start)])

        seen = set()
        add(0, set(), [])
        return found

    sets = [holds(table) for table in tables]
    partial = {frozenset(): ()}
    for one in sets:
        more = {}
        for taken, choice in partial.items():
            for held in one:
                if not held & taken:
                    more.setdefault(taken | held, (*choice, held))
        most = sorted(more, key=len, reverse=True)
        partial = {key: more[key] for at, key in enumerate(most) if not any(key < other for other in most[:at])}
    best = max(partial.values(), key=lambda choice: sum(map(len, choice)), default=())
    places = [None] * len(jobs)
    for gpu, held in enumerate(best):
        for job, name, start in sets[gpu][held]:
            places[job] = (gpu, name, start)
    return places


@alternative("mig_pack")
def branch_and_bound(jobs, gpus):
    """Small jobs first, with a bound, in boolean rows; larger profiles only where they are needed."""
    if set(gpus) - set(GEOMETRY):
        raise ValueError("no MIG here")
    if not all(gb > 0 and compute >= 1 for gb, compute in jobs):
        raise ValueError("no such job")
    choices = []
    for gb, compute in jobs:
        fits = []
        for number, gpu in enumerate(gpus):
            able = [p for p in GEOMETRY[gpu].values() if p.gb >= gb and p.compute >= compute]
            for p in able:
                if not any(q is not p and q.memory <= p.memory and set(p.starts) <= set(q.starts) and (q.memory, q.name) < (p.memory, p.name) for q in able):
                    fits += [(number, p, start) for start in sorted(p.starts, reverse=True)]
        choices.append(sorted(fits, key=lambda fit: fit[1].memory))
    order = sorted(range(len(jobs)), key=lambda j: choices[j][0][1].memory if choices[j] else 99)
    rows = [[False] * 8 for _ in gpus]
    best, now, dead = {}, {}, set()

    def go(at):
        nonlocal best
        if len(now) > len(best):
            best = dict(now)
        room = sum(not used for row in rows for used in row)
        if at == len(order) or len(now) + min(len(order) - at, room) <= len(best):
            return
        state = (at, len(now), tuple(map(tuple, rows)))
        if state in dead:
            return
        dead.add(state)
        job = order[at]
        for number, profile, start in choices[job]:
            span = range(start, start + profile.memory)
            if not any(rows[number][k] for k in span):
                for k in span:
                    rows[number][k] = True
                now[job] = number, profile.name, start
                go(at + 1)
                del now[job]
                for k in span:
                    rows[number][k] = False
        go(at + 1)

    go(0)
    return [best.get(job) for job in range(len(jobs))]


@alternative("mig_pack")
def by_layers(jobs, gpus):
    """Breadth first over the states of all GPUs, as one number each."""
    for gpu in gpus:
        if gpu not in GEOMETRY.keys():
            raise ValueError(f"{gpu} cannot be cut")
    layer = {0: (0, ())}
    for gb, compute in jobs:
        if gb <= 0 or compute < 1:
            raise ValueError("a job that needs nothing")
        after = {}
        for taken, (count, places) in layer.items():
            options = [(taken, count, None)]
            for gpu, name in enumerate(gpus):
                for profile in GEOMETRY[name].values():
                    if profile.gb < gb or profile.compute < compute:
                        continue
                    for start in profile.starts:
                        slices = (2**profile.memory - 1) << (8 * gpu + start)
                        if taken & slices == 0:
                            options.append((taken | slices, count + 1, [gpu, profile.name, start]))
            for state, reached, place in options:
                if state not in after or after[state][0] < reached:
                    after[state] = reached, (*places, place)
        layer = after
    return list(max(layer.values(), key=lambda pair: pair[0])[1])


mig_pack_harmless = (
    equivalent_mutant("mig_pack", "if not set(gpus) <= set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):", "if not set(gpus) < set(GEOMETRY) or any(gb <= 0 or compute < 1 for gb, compute in jobs):", "two GPUs are never all that there are"),
    equivalent_mutant("mig_pack", "return 0, ()", "return (-1), ()", "all counts are less by one, and are compared with each other; the bound spares work alone"),
    equivalent_mutant("mig_pack", "if found[0] < len(jobs) - number and not taken[gpu] & slices:", "if found[0] <= len(jobs) - number and not taken[gpu] & slices:", "the bound spares work alone"),
)
mig_pack_says = (
    unbreakable("mig_pack", "There are at most 8 jobs and 2 GPUs", "it bounds what is asked"),
    unbreakable("mig_pack", "`gpus` is a list of GPUs' names", "it says what is handed over"),
    unbreakable("mig_pack", "two may have the same name", "it says what is handed over"),
    unbreakable("mig_pack", "`jobs` is a list of pairs", "it says what is handed over"),
    unbreakable("mig_pack", "the gigabytes that a job needs, an integer or a float", "it says what is handed over"),
    unbreakable("mig_pack", "Gigabytes are those of the profile's name", "the table has no others"),
    unbreakable("mig_pack", "`GEOMETRY` is there to be read", "it is a permission"),
    unbreakable("mig_pack", "You write the rest yourself", "the clause behind it says what that costs"),
)
