"""E11.3 tar_shards: cases and judge."""

import hashlib
from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem

_BLOCK = 512
_MOST_AHEAD = 64 << 10
"""Bytes that may be read at once, and beyond a sample that is handed out."""
Member = list
"""Name, kind, text, times."""
_IN_A_HEADER = 100
"""Bytes of a name that a header of tar holds; a longer one stands in two blocks before it."""
_DEEP = "a-folder/of-a-folder/" * 6


# Cases


def _cases(sampler: Sampler) -> Iterator[Case]:
    for make in sampler.permutation((_grouping, _parts, _shuffling, _reading, _real, _errors)):
        yield from make(sampler)


def _play(
    sampler: Sampler,
    rank: int = 0,
    world: int = 1,
    seed: int = 5,
    worker: int = 0,
    workers: int = 0,
    epochs: tuple = (0,),
    **further: int,
) -> dict:
    """``epochs``: -1 where none is set. ``take``: leave after so many samples. ``most``: bytes of a read.

    ``meanwhile``: the epoch that is set while one runs, -1 for none. ``late``: epochs are set after ``iter``, before the first sample.
    """
    return {
        "rank": rank, "world": world, "seed": seed, "worker": worker, "workers": workers, "epochs": list(epochs), "take": -1,
        "most": 1 << 30, "meanwhile": -1, "late": False, "noise": sampler.integer(0, 1 << 30),
    } | further  # fmt: skip


def _all_parts(sampler: Sampler, world: int, workers: int, **further: Any) -> list[dict]:
    """Of every worker of every rank, in random order."""
    plays = [
        _play(sampler, rank, world, worker=w, workers=workers, **further)
        for rank in range(world)
        for w in range(max(workers, 1))
    ]
    return sampler.permutation(plays)


def _plain(sampler: Sampler, shards: int, samples: int, times: int = 1) -> list[list[Member]]:
    """Shards of samples with two files each."""
    made = []
    for shard in range(shards):
        keys = [f"{shard:03}/{sampler.integer(100, 999)}{number:04}" for number in range(samples)]
        made.append([[f"{key}.{ext}", "file", f"{ext} of {key}, ", times] for key in keys for ext in ("jpg", "cls")])
    return made


def _grouping(sampler: Sampler) -> Iterator[Case]:
    """Members of all kinds; keys and extensions with dots, folders with dots, long names, files of no length, hidden ones, one
    sample's key in two shards.
    """
    shards = []
    for shard, folder in enumerate(sampler.shuffled("train", "v1.2/episode.7", "a/b")):
        word = f"{sampler.integer(10, 99)}"
        shards.append([
            [folder, "folder", "", 0],
            [f"{folder}/{word}0.jpg", "file", f"picture {shard}", sampler.integer(1, 300)],
            [f"{folder}/{word}0.seg.png", "file", f"segments {shard}", 3],
            [f"{folder}/{word}0.json", "file", "", 0],
            [f"{folder}/{word}1.jpg", "file", f"one alone {shard}", 2],
            [f"{folder}/README", "file", "no sample", 1],
            [f"{folder}/{word}10.cls", "file", f"{shard}", 1],
            [f"{folder}/{word}10.jpg", "link", "", 0],
            [f"{folder}/{word}10.jpeg", "file", f"another {shard}", 9],
            [f"other/{word}10.jpeg", "file", f"same name {shard}", 700],
            [f"{word}2.txt", "file", f"no folder {shard}", 1],
            [f"{word}3.tar.gz", "file", f"packed {shard}", 1],
            [".DS_Store", "file", f"hidden {shard}", 1],
            [f"{word}3.JPG", "file", f"in capitals {shard}", 1],
            [f"{_DEEP}{word}4.jpg", "file", f"deep {shard}", 2],
            [f"{_DEEP}{word}4.cls", "file", f"deep, too {shard}", 1],
        ])  # fmt: skip
    ends = [[["x.a", "file", "first", 1]], [["x.b", "file", "second", 1]], [["x.c", "file", "third", 5]]]
    yield Case(("samples",), {"shards": shards, "plays": [_play(sampler, epochs=(0, 1))]})
    yield Case(("samples",), {"shards": ends, "plays": [_play(sampler)]})
    yield Case(
        ("samples",),
        {"shards": _plain(sampler, 1, 1), "plays": [_play(sampler, epochs=(-1,)), _play(sampler, epochs=(0, 0, 3))]},
    )


def _parts(sampler: Sampler) -> Iterator[Case]:
    """Worlds and workers that divide the shards, that do not, and more workers than a rank has shards."""
    for world, workers, each in sampler.shuffled((1, 2, 6), (2, 0, 3), (2, 2, 4), (3, 1, 2)):
        plays = [_play(sampler, epochs=(0, 2)), *_all_parts(sampler, world, workers, epochs=(0, 2))]
        yield Case(("once",), {"shards": _plain(sampler, world * each, 2), "plays": plays})
    for world, workers, each in sampler.shuffled((2, 2, 3), (4, 3, 2), (2, 4, 3)):
        yield Case(
            ("even",),
            {"shards": _plain(sampler, world * each, 1), "plays": _all_parts(sampler, world, workers, epochs=(1,))},
        )


def _shuffling(sampler: Sampler) -> Iterator[Case]:
    """Near and far epochs of one rank, of other seeds, the first again, and once more in a process started apart.

    Of a dozen shards: that two of all these orders are one by chance happens once in a hundred thousand runs.
    """
    shards, seed, epochs = _plain(sampler, 12, 1), sampler.integer(0, 999), (0, 1, 2, 3, *_FAR)
    alike = [
        _play(sampler, seed=seed, epochs=epochs),
        _play(sampler, seed=seed, epochs=epochs),
        _play(sampler, seed=seed, epochs=(-1, -1, -1)),
    ]
    others = [_play(sampler, seed=other, epochs=epochs) for other in (seed + 1, seed + 2, 10 * seed + 12345)]
    yield Case(
        ("shuffled",),
        {"shards": shards, "plays": alike + others, "apart": _play(sampler, seed=seed, epochs=epochs[:3])},
    )
    yield Case(
        ("shuffled",),
        {"shards": shards, "plays": [_play(sampler, sampler.integer(0, 1), 2, seed, epochs=tuple(range(9)))]},
    )
    plays = [_play(sampler, seed=seed, epochs=(3, 0, 3, 0)), _play(sampler, seed=seed, epochs=(0, 3, 0, 3))]
    plays.append(_play(sampler, seed=seed, epochs=(3, 0), meanwhile=sampler.integer(1, 2)))
    plays.append(_play(sampler, seed=seed, epochs=(3, 0), late=True))
    yield Case(("repeatable",), {"shards": shards, "plays": plays})


_FAR = (10, 100, 255, 256, 1000, 1024, 10_000, 65_536)
"""Epochs at which a seed that was multiplied, or shifted, to make room for them is the next one."""


def _reading(sampler: Sampler) -> Iterator[Case]:
    """Shards of a few hundred kilobytes, read to their ends and left before; small ones, of which workers have several; and
    streams that give less than they are asked for.
    """
    large = _plain(sampler, 2, 24, times=sampler.integer(400, 600))
    plays = [_play(sampler), _play(sampler, take=sampler.integer(3, 9)), _play(sampler, take=1)]
    yield Case(("sequential",), {"shards": large, "plays": plays})
    short = [_play(sampler, most=sampler.integer(100, 500))]
    yield Case(("sequential",), {"shards": _plain(sampler, 3, 3, times=sampler.integer(60, 90)), "plays": short})
    yield Case(("sequential",), {"shards": _plain(sampler, 6, 3), "plays": _all_parts(sampler, 2, 2, epochs=(0, 1))})


def _real(sampler: Sampler) -> Iterator[Case]:
    """Worker processes that stay, told of an earlier epoch while they are there, and of the first once more.

    What they are due to give is what a faked one gives.
    """
    first = sampler.integer(3, 9)
    epochs = (first, sampler.integer(0, first - 2), first)
    real = {
        "rank": sampler.integer(0, 1),
        "world": 2,
        "seed": sampler.integer(0, 99),
        "workers": 2,
        "epochs": list(epochs),
    }
    plays = [_play(sampler, real["rank"], 2, real["seed"], worker, 2, epochs) for worker in range(2)]
    yield Case(("processes",), {"shards": _plain(sampler, 8, 2), "plays": plays, "real": [real]})


def _errors(sampler: Sampler) -> Iterator[Case]:
    wrong = [
        {"shards": 0, "rank": 0, "world": 1},
        {"shards": 5, "rank": 0, "world": 2},
        {"shards": 2, "rank": 0, "world": 4},
    ]
    wrong += [
        {"shards": 4, "rank": 2, "world": 2},
        {"shards": 4, "rank": -1, "world": 2},
        {"shards": 6, "rank": 3, "world": 3},
    ]
    wrong += [{"shards": 4, "rank": 0, "world": 0}]
    yield Case(
        ("errors",), {"shards": _plain(sampler, 6, 1), "refused": sampler.permutation(wrong)}, raises="ValueError"
    )


# What is due


def samples_of(members: list[Member]) -> list[tuple[dict, int]]:
    """The samples of a shard, values as digests; with each where its last member ends in the file."""
    found: list[tuple[dict, int]] = []
    at = 0
    for name, kind, text, times in members:
        data = (text * times).encode() if kind == "file" else b""
        at += _BLOCK - -len(data) // _BLOCK * _BLOCK + 2 * _BLOCK * (len(name) > _IN_A_HEADER)
        folder, slash, base = name.rpartition("/")
        stem, dot, extension = base.partition(".")
        if kind != "file" or not stem or not dot:
            continue
        key = folder + slash + stem
        if not found or found[-1][0]["__key__"] != key:
            found.append(({"__key__": key}, at))
        found[-1][0][extension] = ["bytes", hashlib.sha1(data).hexdigest()]
        found[-1] = (found[-1][0], at)
    return found


# Judge


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    if case.raises:
        for answer in evidence["answers"]:
            if problem := error_problem(answer, case.raises):
                yield Failure(criteria, f"{problem} Some rank would have no shards, or others than its own.")
                return
        return
    if problem := _problem(criteria, case.inputs, evidence):
        yield Failure(criteria, problem)


def _problem(criteria: str, inputs: dict, evidence: dict) -> str | None:
    plays = evidence["plays"] + ([evidence["apart"]] if "apart" in inputs else [])
    if problem := count_problem(plays, len(inputs["plays"]) + ("apart" in inputs)):
        return problem
    if not all(play["dataset"] for play in plays):
        return "The function did not return an IterableDataset with a method set_epoch."
    given = [[epoch["samples"] for epoch in play["epochs"]] for play in plays]
    if criteria == "samples":
        return _samples_problem(inputs, given)
    if criteria in ("once", "even"):
        return _parts_problem(criteria, inputs, given)
    if criteria == "shuffled":
        return _shuffling_problem(inputs, given)
    if criteria == "repeatable":
        if given[0] != [given[1][i] for i in (1, 0, 1, 0)]:
            return "An epoch that is set again gives another order: what came before it counts, and only its number should."
        if given[2] != given[0][:2]:
            return "A call of set_epoch changed an iteration that was running: it goes on as it began."
        if given[3] != given[0][:2]:
            return "An epoch that is set after iter, before the first sample is asked for, is not the one that comes."
        return (
            "The state of a generator that belongs to the caller was changed."
            if any(play["disturbed"] for play in plays)
            else None
        )
    if criteria == "sequential":
        if inputs["plays"][0]["most"] < _BLOCK and _samples_problem(inputs, given):
            return "A read that gave fewer bytes than were asked for was taken for a whole one: ask again for what is missing."
        return next(
            filter(None, (_reading_problem(inputs, epoch) for play in plays for epoch in play["epochs"])), None
        ) or _twice(plays)
    return _real_problem(inputs, given, evidence)


def _samples_problem(inputs: dict, given: list) -> str | None:
    shards = [[sample for sample, _ in samples_of(members)] for members in inputs["shards"]]
    for play, epochs in zip(inputs["plays"], given):
        for samples in epochs:
            if not _is_joined(samples, shards):
                return (
                    "The samples are not those of the files, each with its key, all its parts and their bytes, in the order of "
                    "its shard: what follows the first dot of the base name is the extension, what is passed over ends no sample, "
                    "and a shard's end does."
                )
    return None


def _is_joined(samples: list, shards: list[list[dict]]) -> bool:
    """Whether ``samples`` are the shards, in some order, one after the other."""
    left, rest = list(shards), samples
    while left and rest:
        found = next((shard for shard in left if rest[: len(shard)] == shard), None)
        if found is None:
            return False
        left.remove(found)
        rest = rest[len(found) :]
    return not left and not rest


def _keys(samples: list) -> list[str]:
    return [str(sample.get("__key__")) if isinstance(sample, dict) else "" for sample in samples]


def _parts_problem(criteria: str, inputs: dict, given: list) -> str | None:
    expected = sorted(sample["__key__"] for members in inputs["shards"] for sample, _ in samples_of(members))
    whole, plays = (given[:1], inputs["plays"][1:]) if criteria == "once" else ([], inputs["plays"])
    given = given[len(whole) :]
    for epoch in range(len(plays[0]["epochs"])):
        by_rank: dict[int, int] = {}
        keys: list[str] = []
        for play, epochs in zip(plays, given):
            keys += _keys(epochs[epoch])
            by_rank[play["rank"]] = by_rank.get(play["rank"], 0) + len(epochs[epoch])
        if criteria == "even" and len(set(by_rank.values())) > 1:
            return "The ranks get different numbers of samples: one has no batch left while the others wait for it in a collective."
        if sorted(keys) != expected:
            return "Not every sample comes once in an epoch: ranks share the shards, and then the workers of each rank share its own."
        if whole and any(
            _shards_of(epochs[epoch]) != _turns_of(whole[0][epoch], play) for play, epochs in zip(plays, given)
        ):
            return (
                "Each sample comes once, and the parts are not those of taking turns: of the order in which one rank alone reads "
                "them, rank r of n has every n-th shard from the r-th on, and of these a worker has its own in the same way."
            )
    return None


def _shards_of(samples: list) -> list[str]:
    """The shards of samples of :func:`_plain`, in order."""
    return list(dict.fromkeys(key.partition("/")[0] for key in _keys(samples)))


def _turns_of(samples: list, play: dict) -> list[str]:
    return _shards_of(samples)[play["rank"] :: play["world"]][play["worker"] :: max(play["workers"], 1)]


def _shuffling_problem(inputs: dict, given: list) -> str | None:
    first = inputs["plays"][0]
    if len(given) == 1:
        parts = {tuple(sorted(_keys(samples))) for samples in given[0]}
        return (
            "A rank gets the same shards in every epoch: shuffle all of them, then take the rank's part."
            if len(parts) < 3
            else None
        )
    orders = [tuple(tuple(_keys(samples)) for samples in epochs) for epochs in given]
    if orders[0] != orders[1]:
        return "Two datasets with one seed give different orders: the order depends on something else too."
    if orders.pop() != orders[0][:3]:
        return (
            "A process that was started apart, and has the shards in another folder, gives another order: the hash of a text is "
            "another one in each process, and the order of a set, too."
        )
    if set(orders[2]) != {orders[0][0]}:
        return "Without a call of set_epoch the order is not that of epoch 0, each time."
    if len(set(orders[0])) < len(first["epochs"]):
        return "Epochs come in one order: each is to be shuffled anew."
    everything = [order for play in orders[:1] + orders[3:] for order in play]
    if len(set(everything)) < len(everything):
        return (
            "Two pairs of seed and epoch come in one order: what they were mixed to is the same for both, as a sum is, or the "
            "generator took only a part of it."
        )
    return None


def _reading_problem(inputs: dict, epoch: dict) -> str | None:
    shards = [samples_of(members) for members in inputs["shards"]]
    ends = {sample["__key__"]: end for shard in shards for sample, end in shard}
    names = [name for name, *_ in epoch["streams"]]
    keys = _keys(epoch["samples"])
    homes = {sample["__key__"]: f"shard-{number:04}.tar" for number, shard in enumerate(shards) for sample, _ in shard}
    if len(set(names)) < len(names) or set(names) != {homes.get(key) for key in keys}:
        return "A shard was opened more than once, or one whose samples were not due: each is one request for the whole file."
    if any(seeks for _, seeks, _, _ in epoch["streams"]):
        return "A stream was set to another place: a store answers that with another request. Read from front to back."
    if any(largest > _MOST_AHEAD for _, _, largest, _ in epoch["streams"]) or any(
        at > ends[key] + _MOST_AHEAD for key, (at, _) in zip(keys, epoch["positions"])
    ):
        return (
            "A shard was read as a whole, or far ahead of the sample that was given: it may be larger than the memory."
        )
    if any(at <= ends[key] - _BLOCK for key, (at, _) in zip(keys, epoch["positions"])):
        return "A sample was given whose bytes had not been read from its stream."
    if any(are_open > 1 for _, are_open in epoch["positions"]):
        return "Two shards were open at a time."
    if not all(closed for *_, closed in epoch["streams"]):
        return "A shard was left open, where all was read or where the iteration was left early."
    return None


def _twice(plays: list[dict]) -> str | None:
    """Plays that are the parts of one epoch open no shard twice together."""
    if len(plays) < 2 or len(plays[0]["epochs"]) < 2:
        return None
    for epoch in zip(*(play["epochs"] for play in plays)):
        names = [name for part in epoch for name, *_ in part["streams"]]
        if len(set(names)) < len(names):
            return (
                "A shard was opened by more than one worker, which each gave a part of it: share shards, not samples."
            )
    return None


def _real_problem(inputs: dict, given: list, evidence: dict) -> str | None:
    (real,) = evidence["real"]
    if "stopped" in real:
        return str(real["stopped"])
    if "raised" in real:
        return f"With worker processes: {raised_problem(real['raised'])}"
    for number, epoch in enumerate(real["value"]):
        for worker in range(2):
            if [sample for by, sample in epoch if by == worker] != given[worker][number]:
                return (
                    "A worker process gives other samples than are due for its number and the epoch: one that stays has a copy of "
                    "the dataset, made when it was started, and set_epoch is called on the original."
                )
    return None


exercise = Exercise(
    criteria=(
        Criterion("samples", 2, "the samples are those of the files"),
        Criterion("once", 2, "each sample comes once, over all ranks and workers, which take turns", ("samples",)),
        Criterion("even", 1, "all ranks get equally many, whatever the number of workers", ("samples",)),
        Criterion("shuffled", 1, "every epoch and every seed has an order of its own", ("samples",)),
        Criterion(
            "repeatable", 1, "an epoch can be repeated, and no generator of the caller's is touched", ("shuffled",)
        ),
        Criterion("sequential", 2, "each shard is one stream, read from front to back and closed", ("samples",)),
        Criterion("processes", 1, "workers that stay are told of the epoch", ("once", "shuffled")),
        Criterion("errors", 1, "shards that cannot be shared evenly are refused", ("samples",)),
    ),
    cases=_cases,
    judge=_judge,
)
