"""Tables of E16.2: sound schedules of every kind, and each kind of defect at every place where it can be."""

from collections.abc import Iterator, Sequence

from autograder.core.sampler import Sampler
from gpulab.parallel import Action, gpipe, needs, one_f_one_b, placed, violations, zero_bubble

Table = list[list[str | None]]
_INTERLEAVED = (
    "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
    "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
)
"""Interleaved 1F1B of two stages on each of two GPUs (arXiv 2104.04473)."""


def question(table: Table, stages: int, microbatches: int) -> dict:
    return {"table": table, "stages": stages, "microbatches": microbatches}


# ---- sound ones


def sound(sampler: Sampler) -> Iterator[dict]:
    """Of one stage and many, of few microbatches and many, whole and in halves, with a stage a GPU and several, in any order."""
    for schedule in sampler.shuffled(gpipe, one_f_one_b, zero_bubble):
        for stages, microbatches in sampler.shuffled(
            (1, 1), (1, 3), (sampler.integer(2, 4), 1), (3, sampler.integer(2, 6)), (4, 2)
        ):
            yield question(schedule(stages, microbatches), stages, microbatches)
        table = [_trimmed(row) for row in schedule(3, sampler.integer(2, 5))]
        for made in (table, table[::-1], [[], *table, [None] * 40], [[*row, None, None] for row in table]):
            yield question(made, 3, sum("0F" in cell for row in table for cell in row if cell))
    yield question(one_f_one_b(11, 12), 11, 12)
    yield question(placed([row.split() for row in _INTERLEAVED]), 4, 4)
    for kinds in sampler.shuffled("B", "IW", "mixed"):
        for homes in sampler.shuffled(
            [0, 1, 0, 1], [0, 1, 1, 0], [2, 0, 1], [0, 0], sampler.permutation([0, 1, 2, 4, 4])
        ):
            microbatches = sampler.integer(2, 3)
            yield question(_at_random(sampler, homes, microbatches, kinds), len(homes), microbatches)


def _trimmed(row: list[str | None]) -> list[str | None]:
    """Without the idle cells at its end."""
    last = max(slot for slot, cell in enumerate(row) if cell is not None)
    return row[: last + 1]


def actions(sampler: Sampler, stages: int, microbatches: int, kinds: str) -> list[Action]:
    """All that is to run; ``kinds``: backward passes whole (B), in halves (IW), or ``mixed``, each as it comes."""
    found = []
    for stage in range(stages):
        for k in range(microbatches):
            backward = sampler.choice(("B", "IW")) if kinds == "mixed" else kinds
            found += [Action(stage, kind, k) for kind in "F" + backward]
    return found


def _at_random(sampler: Sampler, homes: Sequence[int], microbatches: int, kinds: str) -> Table:
    """Each GPU takes any of what it can do in a slot, or nothing; ``homes``: the GPU of each stage."""
    todo = actions(sampler, len(homes), microbatches, kinds)
    table: Table = [[] for _ in range(max(homes) + 1)]
    done: set[Action] = set()
    while todo:
        made = []
        for gpu, row in enumerate(table):
            can = [one for one in todo if homes[one.stage] == gpu and _is_ready(one, done, len(homes))]
            row.append(None)
            if can and sampler.chance(0.8):
                made.append(sampler.choice(can))
                row[-1] = str(made[-1])
        todo = [one for one in todo if one not in made]
        done.update(made)
    return table


def _is_ready(action: Action, done: set[Action], stages: int) -> bool:
    return all(done.intersection(any_of) for any_of in needs(action, stages))


# ---- one action after another, so that there is room for any change


def _one_by_one(sampler: Sampler, homes: Sequence[int], microbatches: int, kinds: str) -> tuple[Table, list[Action]]:
    """A sound table with one action a slot and free slots at both ends; and its actions in the order of their slots."""
    todo, done = sampler.permutation(actions(sampler, len(homes), microbatches, kinds)), []
    while todo:
        done.append(next(one for one in todo if _is_ready(one, set(done), len(homes))))
        todo.remove(done[-1])
    table: Table = [[None] * (len(done) + 4) for _ in range(max(homes) + 1)]
    for slot, action in enumerate(done):
        table[homes[action.stage]][slot + 2] = str(action)
    return table, done


def _slot(table: Table, action: Action) -> int:
    return next(row.index(str(action)) for row in table if str(action) in row)


def _move(table: Table, action: Action, gpu: int, slot: int | None) -> None:
    """To a free cell; or nowhere, where ``slot`` is None."""
    row = next(row for row in table if str(action) in row)
    row[row.index(str(action))] = None
    if slot is not None:
        table[gpu][slot] = str(action)


_NEEDS = (
    ("F", "before"),
    ("B", "own"),
    ("I", "own"),
    ("B", "B behind"),
    ("B", "I behind"),
    ("I", "B behind"),
    ("I", "I behind"),
    ("W", "half"),
)
"""Who needs whom."""


def early(sampler: Sampler) -> Iterator[dict]:
    """Each need unmet in each way: in the same slot, in the slot before, long before, and never."""
    for kind, whom in sampler.shuffled(*_NEEDS):
        for when in ("same", "just before", "long before", "never"):
            if when == "same" and whom in ("own", "half"):
                continue  # one GPU has one action in a slot
            yield _with_unmet_need(sampler, kind, whom, when)
    for _ in range(6):
        yield _shaken(sampler)


def _with_unmet_need(sampler: Sampler, kind: str, whom: str, when: str) -> dict:
    homes = sampler.choice([[0, 1, 2], [1, 2, 0], [0, 1, 0]])
    while True:
        microbatches = sampler.integer(1, 2)
        table, order = _one_by_one(sampler, homes, microbatches, "mixed")
        pairs = [(one, other) for one in order if one.kind == kind for other in _whom(one, whom) if other in order]
        if pairs:
            break
    action, needed = sampler.choice(pairs)
    gpu, slot = homes[action.stage], _slot(table, needed)
    if when == "never":
        _move(table, needed, 0, None)
        return question(table, len(homes), microbatches)
    free = [s for s in range(slot) if table[gpu][s] is None]
    _move(table, action, gpu, {"same": slot, "just before": max(free), "long before": min(free)}[when])
    return question(table, len(homes), microbatches)


def _whom(action: Action, whom: str) -> list[Action]:
    stage, _, k = action
    return {
        "before": [Action(stage - 1, "F", k)],
        "own": [Action(stage, "F", k)],
        "half": [Action(stage, "I", k)],
        "B behind": [Action(stage + 1, "B", k)],
        "I behind": [Action(stage + 1, "I", k)],
    }[whom]


def _shaken(sampler: Sampler) -> dict:
    """A usual schedule in which cells of a row were exchanged until something is early; no action is lost."""
    stages, microbatches = sampler.integer(2, 4), sampler.integer(2, 5)
    table = sampler.choice((gpipe, one_f_one_b, zero_bubble))(stages, microbatches)
    while not violations(table):
        row = sampler.choice(table)
        one, other = sampler.integer(0, len(row) - 1), sampler.integer(0, len(row) - 1)
        row[one], row[other] = row[other], row[one]
    return question(table, stages, microbatches)


# ---- too little, too much, and elsewhere


def missing(sampler: Sampler) -> Iterator[dict]:
    """Nothing at all; a stage, a microbatch, a GPU; and of one microbatch on a stage everything that may be left out."""
    for table in ([], [[]], [[None, None], []]):
        yield question(table, sampler.integer(1, 2), sampler.integer(1, 2))
    for kinds in sampler.shuffled("B", "IW", "mixed"):
        for of in ("stage", "microbatch"):
            table, order = _one_by_one(sampler, [0, 1, 0], 2, kinds)
            gone = sampler.integer(0, 1) if of == "microbatch" else sampler.integer(0, 2)
            for action in order:
                if getattr(action, of) == gone:
                    _move(table, action, 0, None)
            yield question(table, 3, 2)
    table = one_f_one_b(3, 3)
    yield question(table, 4, 3)
    yield question(table, 3, 4)
    yield question(table[:2], 3, 3)
    for gone in ("F", "B", "I", "W", "IW", "FB", "FI", "FW", "FIW"):
        for stage in sampler.shuffled(0, 1):
            kinds = "IW" if {"I", "W"} & set(gone) else "B" if "B" in gone else "mixed"
            table, _ = _one_by_one(sampler, [0, 1], 2, kinds)
            k = sampler.integer(0, 1)
            for kind in gone:
                _move(table, Action(stage, kind, k), 0, None)
            yield question(table, 2, 2)


def more_than_once(sampler: Sampler) -> Iterator[dict]:
    """Each kind twice and thrice, later and earlier; whole backward passes beside their halves."""
    for kind in sampler.shuffled("F", "B", "I", "W"):
        for times, side in sampler.shuffled((1, "after"), (2, "after"), (1, "before"), (2, "both")):
            table, order = _one_by_one(sampler, [0, 1], 2, "B" if kind == "B" else "IW")
            action = sampler.choice([one for one in order if one.kind == kind])
            _again(sampler, table, action, times, side)
            yield question(table, 2, 2)
    for beside in sampler.shuffled("I", "W", "IW"):
        for place in sampler.shuffled("after", "before"):
            table, order = _one_by_one(sampler, [0, 1], 2, "B")
            action = sampler.choice([one for one in order if one.kind == "B"])
            row = table[action.stage]
            for half in beside:
                free = [
                    s for s in range(len(row)) if row[s] is None and (s > row.index(str(action))) == (place == "after")
                ]
                row[sampler.choice(free)] = str(action._replace(kind=half))
            if sampler.chance(0.5):
                row.append(str(action))
            yield question(table, 2, 2)


def counted_by_the_first(sampler: Sampler) -> Iterator[dict]:
    """Actions whose first run is early, or in time for others, and whose other runs are the other way."""
    for _ in range(2):
        for which in sampler.shuffled("needed", "needs"):
            yield _served_by_a_repetition(sampler, which)
    for half, whole in sampler.shuffled((2, 5), (5, 2)):
        row = [None, "1F0", None, None, None, None, "1W0"]
        row[half], row[whole] = "1I0", "1B0"
        yield question([["0F0", None, None, None, "0B0"], row], 2, 1)


def _again(sampler: Sampler, table: Table, action: Action, times: int, side: str) -> None:
    row = table[action.stage]
    at = row.index(str(action))
    free = [s for s in range(len(row)) if row[s] is None and (side == "both" or (s > at) == (side == "after"))]
    for slot in sampler.permutation(free)[:times]:
        row[slot] = str(action)


def _served_by_a_repetition(sampler: Sampler, which: str) -> dict:
    """What is needed runs once before what needs it, and once after; or what needs it does, around it."""
    k = sampler.integer(0, 1)
    first, second = (
        ([f"0F{k}", None, None, f"0F{k}"], [None, f"1F{k}"])
        if which == "needed"
        else ([None, f"0F{k}"], [f"1F{k}", None, f"1F{k}"])
    )
    other = 1 - k
    rest = [
        [None] * (5 - len(first)) + [f"0F{other}", None, None, None, f"0B{k}", f"0B{other}"],
        [None] * (6 - len(second)) + [f"1F{other}", f"1B{k}", f"1B{other}"],
    ]
    return question([first + rest[0], second + rest[1]], 2, 2)


def strange(sampler: Sampler) -> Iterator[dict]:
    """Stages and microbatches just outside and far outside, once, and twice on different GPUs; and tables of more than there is."""
    for schedule in sampler.shuffled(one_f_one_b, zero_bubble):
        stages, microbatches = sampler.integer(1, 3), sampler.integer(1, 3)
        for stage, k in sampler.shuffled(
            (stages, 0), (0, microbatches), (stages, microbatches), (stages + 9, 0), (0, microbatches + 10)
        ):
            for kind in sampler.shuffled("F", "B", "I", "W"):
                table = [*schedule(stages, microbatches), []]
                for row in (table, sampler.permutation(table))[sampler.integer(0, 1)][: sampler.integer(1, 2)]:
                    row.append(str(Action(stage, kind, k)))
                yield question(table, stages, microbatches)
    whole = one_f_one_b(3, 3)
    yield question(whole, 2, 3)
    yield question(whole, 3, 2)
    yield question([["1F1", "1B1"]], 1, 1)


def strangers_apart(sampler: Sampler) -> Iterator[dict]:
    """Foreign actions that would be early, twice and split, if they were not foreign."""
    for foreign in sampler.shuffled("1B0", "0F1", "1W1"):
        yield question([["0F0", foreign, "0B0"], [None, foreign, foreign], [foreign]], 1, 1)


def elsewhere(sampler: Sampler) -> Iterator[dict]:
    """One action of a stage on another GPU, of each kind; a microbatch; three GPUs; a second run; a stage of two digits."""
    for kind in sampler.shuffled("F", "B", "I", "W"):
        table, order = _one_by_one(sampler, [0, 1, 0], 2, "B" if kind == "B" else "IW")
        action = sampler.choice([one for one in order if one.kind == kind])
        _move(table, action, 1 - action.stage % 2, _slot(table, action))
        yield question(table, 3, 2)
    table, order = _one_by_one(sampler, [0, 1], 2, "mixed")
    for action in order:
        if action.microbatch == 1:
            _move(table, action, 1 - action.stage, _slot(table, action))
    yield question(table, 2, 2)
    table, order = _one_by_one(sampler, [0, 1, 2], 3, "B")
    for action in order:
        if action.stage == 0:
            _move(table, action, action.microbatch, _slot(table, action))
    yield question(table, 3, 3)
    table, order = _one_by_one(sampler, [0, 1], 1, "B")
    table[1 - order[0].stage][-1] = str(order[0])
    yield question(table, 2, 1)
    yield question([["0F0", "11F0"], [None, None, "11B0"], [None, None, None, "0B0"]], 12, 1)


NO_ACTIONS = (
    "F0",
    "2F",
    "0X0",
    "",
    " ",
    "0F0 ",
    " 0F0",
    "0f0",
    "-1F0",
    "0F-1",
    "0F0,1F0",
    "F",
    "0FB0",
    "00",
    "0F1.0",
    "٣F0",
    "idle",
)


def refused(sampler: Sampler) -> Iterator[dict]:
    """Cells that are no action, anywhere in a table that is sound otherwise; and pipelines of nothing."""
    for bad in sampler.shuffled(*NO_ACTIONS, 0, 3, False, 1.5, ["0F0"]):
        stages, microbatches = sampler.integer(1, 3), sampler.integer(1, 3)
        table = one_f_one_b(stages, microbatches)
        row = sampler.choice(table)
        row.insert(sampler.integer(0, len(row)), bad)
        yield question(table, stages, microbatches)
    for stages, microbatches in sampler.shuffled((0, 1), (1, 0), (-1, 2), (2, -3), (0, 0)):
        yield question([], stages, microbatches)
        yield question(one_f_one_b(1, 1), stages, microbatches)
