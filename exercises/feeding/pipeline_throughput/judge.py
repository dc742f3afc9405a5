"""E11.1 pipeline_throughput: cases and judge. The rate that is due comes from a loader that is played event by event.

Its workers are drawn so that they do not stay in phase: it comes to what its slowest part allows, as a test asks.
"""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.feeding.pipeline_throughput.simulated_loader import Stage, played_rate, seconds_of

WITHIN = 0.03
"""Of the rate; a played loader is within a third of it of what its busiest part allows."""
_ALIKE = 1e-4
"""Seconds that differ by less are equally long."""
_PLACES = ("wait", "core", "main", "device")
_NAMES = {
    "wait": ("read", "fetch", "list"),
    "core": ("decode", "augment", "collate"),
    "main": ("pin", "move", "log"),
    "device": ("step", "encode", "loss"),
}


# Cases


def _cases(sampler: Sampler) -> Iterator[Questions]:
    for make in sampler.shuffled(_serial, _consumer, _workers, _cores, _units, _prefetch, _idle, _bottleneck, _errors):
        yield from make(sampler)


def _question(
    sampler: Sampler,
    busiest: str,
    batch: int,
    workers: int,
    cores: int,
    prefetch: int = 2,
    spread: float = 0.55,
    share: float = 0,
) -> dict:
    """Stages of every place, of which the part ``busiest`` allows at most ``spread`` of the rate that the others do.

    A part's seconds are divided among several stages, some for each sample and some for each batch. Where workers share
    cores, what they compute comes in small pieces: a worker that waits long for a core would cost more than the parts say.
    ``share``: of computing in what workers do, and of the main thread in its process; drawn where it is 0.
    """
    lowest = sampler.integer(20, 60) / 1e3
    shared = workers > cores
    total = _totals(busiest, lowest / spread, lowest, workers, cores, share or sampler.integer(30, 70) / 100)
    stages = [
        stage
        for place in _PLACES
        for stage in _parts(sampler, place, total[place], batch, shared and place in ("wait", "core"))
    ]
    return {
        "stages": sampler.permutation(stages),
        "batch": batch,
        "workers": workers,
        "cores": cores,
        "prefetch": prefetch,
    }


def _totals(busiest: str, tight: float, others: float, workers: int, cores: int, share: float) -> dict[str, float]:
    """Seconds of a batch by place: a batch takes ``tight`` seconds in the busiest part, ``others`` in the rest at most."""
    process = tight if busiest == "process" else others
    if busiest == "cores":
        core = tight * cores
        wait = max(others * workers - core, 0) * 0.7
    else:
        makes = (tight if busiest == "workers" else others) * workers
        core = min(others * cores * (0.5 if workers > cores else 1), makes * share)
        wait = makes - core
    return {"wait": wait, "core": core, "main": process * share, "device": process * (1 - share)}


def _parts(sampler: Sampler, place: str, seconds: float, batch: int, small: bool = False) -> Iterator[Stage]:
    """One stage for each sample and one for each batch, which no other stage of the place equals. ``small``: nearly all for samples."""
    if seconds <= 0:
        return
    share = 0.95 if small else sampler.choice((0.3, 0.65, 0.75))
    names = sampler.permutation(_NAMES[place])
    yield names[0], place, "sample", round(seconds * share / batch, 7)
    yield names[1], place, "batch", round(seconds * (1 - share), 7)


def _serial(sampler: Sampler) -> Iterator[Questions]:
    """No worker: everything one after the other, with one core or many."""
    yield ask(
        "serial",
        [
            _question(sampler, part, sampler.integer(2, 9), 0, sampler.choice((1, 8))) | {"workers": 0}
            for part in sampler.shuffled(
                "process",
            )
        ]
        + [_alone(sampler, cores) for cores in sampler.shuffled(1, 6)],
    )


def _alone(sampler: Sampler, cores: int) -> dict:
    return _question(sampler, sampler.choice(("workers", "cores")), sampler.integer(2, 9), 3, cores) | {"workers": 0}


def _consumer(sampler: Sampler) -> Iterator[Questions]:
    """The training process is the slowest part: in its main thread, on the device, and both."""
    yield ask(
        "consumer",
        [
            _question(sampler, "process", sampler.integer(2, 9), workers, workers + 2)
            for workers in sampler.shuffled(1, 2, 4)
        ],
    )


def _workers(sampler: Sampler) -> Iterator[Questions]:
    """The workers are: one, and several, with as many cores, and with more and fewer than there are workers.

    Two that mostly compute need both of their cores.
    """
    pairs = sampler.shuffled((1, 1), (2, 2), (3, 3), (4, 8))
    asked = [_question(sampler, "workers", sampler.integer(2, 6), workers, cores) for workers, cores in pairs]
    asked += [_question(sampler, "workers", 4, 2, 2, share=0.65), _waiting(sampler)]
    yield ask("workers", asked)


def _waiting(sampler: Sampler) -> dict:
    """More workers than cores, which nearly always wait for the storage."""
    workers, cores = sampler.integer(6, 8), sampler.choice((1, 2))
    batch, period = sampler.integer(6, 9), sampler.integer(30, 60) / 1e3
    core = period * cores * 0.3
    stages = [
        *_parts(sampler, "wait", period * workers - core, batch),
        *_parts(sampler, "core", core, batch, small=True),
    ]
    stages += [*_parts(sampler, "device", period * 0.5, batch)]
    return {"stages": sampler.permutation(stages), "batch": batch, "workers": workers, "cores": cores, "prefetch": 2}


def _cores(sampler: Sampler) -> Iterator[Questions]:
    """The cores are: fewer than workers, one core, and work that only computes."""
    asked = [
        _question(sampler, "cores", sampler.integer(8, 12), workers, cores)
        for workers, cores in sampler.shuffled((7, 1), (7, 2), (8, 2))
    ]
    batch, workers, cores = sampler.integer(8, 12), sampler.integer(6, 8), sampler.integer(1, 2)
    busy = sampler.integer(40, 80) / 1e3
    stages = [*_parts(sampler, "core", busy * cores, batch, small=True), *_parts(sampler, "device", busy * 0.6, batch)]
    yield ask("cores", [*asked, {"stages": stages, "batch": batch, "workers": workers, "cores": cores, "prefetch": 2}])


def _units(sampler: Sampler) -> Iterator[Questions]:
    """Batches of one and of many samples, where a stage is nearly all for each sample, or nearly all for each batch; one takes no time."""
    asked = []
    for per, batch in sampler.shuffled(("sample", 1), ("batch", 1), ("sample", 16), ("batch", 16)):
        for place, workers in sampler.shuffled(("core", 2), ("device", 1)):
            stages = [
                ("most", place, per, 0.05 / (batch if per == "sample" else 1)),
                ("step", "device", "batch", 0.004),
            ]
            stages += [("decode", "core", "sample", 0.001 / batch), ("pin", "main", "sample", 0.002 / batch)]
            asked.append(
                {
                    "stages": stages,
                    "batch": batch,
                    "workers": workers,
                    "cores": 4,
                    "prefetch": 4 if place == "core" else sampler.integer(1, 4),
                }
            )
    asked.append(asked[0] | {"stages": [*asked[0]["stages"], ("log", "main", "batch", 0.0)]})
    yield ask("units", asked)


def _prefetch(sampler: Sampler) -> Iterator[Questions]:
    """One loader with one batch asked ahead and with many, for each part that can be the slowest; one worker too."""
    asked = []
    for busiest, workers, cores in sampler.shuffled(
        ("workers", 3, 3), ("cores", 7, 2), ("process", 2, 4), ("workers", 1, 2), ("process", 1, 1)
    ):
        question = _question(sampler, busiest, sampler.integer(8, 12), workers, cores)
        asked += [question | {"prefetch": prefetch} for prefetch in sampler.shuffled(1, sampler.integer(2, 4), 16)]
    yield ask("prefetch", asked)


def _idle(sampler: Sampler) -> Iterator[Questions]:
    """Of a device that computes without a pause, one that only waits for its own process, one that starves."""
    settings = (("process", 2, 4), ("workers", 2, 2), ("workers", 4, 8), ("cores", 6, 1))
    asked = [
        _question(sampler, busiest, sampler.integer(8, 12), *numbers)
        for busiest, *numbers in sampler.permutation(settings)
    ]
    asked.append(_in_turn(sampler))
    never = [("decode", "core", "sample", 0.002), ("step", "device", "batch", sampler.integer(30, 90) / 1e3)]
    asked.append({"stages": never, "batch": sampler.integer(1, 8), "workers": 2, "cores": 4, "prefetch": 1})
    yield ask("idle", asked)


def _bottleneck(sampler: Sampler) -> Iterator[Questions]:
    """Where the longest stage of all is in the slowest part, and where it is not."""
    settings = (
        ("process", 4, 8),
        ("process", 6, 6),
        ("workers", 1, 4),
        ("workers", 4, 4),
        ("cores", 6, 1),
        ("cores", 8, 2),
    )
    asked = [
        _question(sampler, busiest, sampler.integer(8, 12), *numbers, prefetch=4, spread=0.5)
        for busiest, *numbers in sampler.permutation(settings)
    ]
    asked += [_in_turn(sampler), _waiting(sampler), _reading_longest(sampler)]
    asked += [_longest(sampler, place, workers) for place, workers in sampler.permutation(_LONGEST)]
    yield ask("bottleneck", asked)


_LONGEST = [(place, 0) for place in _PLACES] + [("wait", 2), ("core", 2), ("main", 8), ("device", 8)]
"""Every place with the longest stage of the slowest part, and workers: none, so few that they are it, so many that the thread is."""


def _longest(sampler: Sampler, place: str, workers: int) -> dict:
    """The stage at ``place`` takes longest for a batch, and is the only one that runs for each sample.

    Of eight workers each takes longer for a batch than the thread does, whose stages are the shorter ones.
    """
    batch, unit = sampler.integer(4, 8), sampler.integer(20, 40) / 1e3
    usual = {0: (1, 1, 1, 1), 2: (1, 1, 0.4, 0.4), 8: (2.5, 2.5, 0.6, 0.6)}[workers]
    usual = dict(zip(_PLACES, usual, strict=True))
    stages = [
        (sampler.choice(_NAMES[where]), where, "batch", unit * times)
        for where, times in usual.items()
        if where != place
    ]
    stages.append((sampler.choice(_NAMES[place]), place, "sample", unit * (usual[place] + 0.5) / batch))
    return {
        "stages": sampler.permutation(stages),
        "batch": batch,
        "workers": workers,
        "cores": max(workers, 2) * 2,
        "prefetch": sampler.integer(1, 4),
    }


def _in_turn(sampler: Sampler) -> dict:
    """No workers: making a batch takes longer than computing it, and computing is the longest stage."""
    stages = [
        ("read", "wait", "sample", 0.004),
        ("decode", "core", "sample", 0.003),
        ("collate", "core", "batch", 0.002),
    ]
    stages += [("pin", "main", "batch", 0.002), ("step", "device", "sample", 0.006)]
    batch = sampler.integer(2, 6)
    return {
        "stages": sampler.permutation(stages),
        "batch": batch,
        "workers": 0,
        "cores": sampler.integer(1, 4),
        "prefetch": 2,
    }


def _reading_longest(sampler: Sampler) -> dict:
    """The cores are busy, and reading takes the longest of all."""
    stages = [("read", "wait", "sample", 0.03), ("decode", "core", "sample", 0.02), ("collate", "core", "batch", 0.006)]
    stages += [("step", "device", "batch", 0.02)]
    return {
        "stages": sampler.permutation(stages),
        "batch": sampler.integer(2, 4),
        "workers": 8,
        "cores": 1,
        "prefetch": 2,
    }


def _errors(sampler: Sampler) -> Iterator[Questions]:
    right = _question(sampler, "process", 4, 2, 4)
    stages, first = right["stages"], right["stages"][0]
    wrong = [{"batch": 0}, {"batch": -3}, {"workers": -1}, {"cores": 0}, {"prefetch": 0}, {"prefetch": -1}]
    for changed in ((first[0], "gpu", *first[2:]), (*first[:2], "epoch", first[3]), (*first[:3], -0.001)):
        wrong.append({"stages": [*stages[1:], changed]})
    wrong += [{"stages": [stage for stage in stages if stage[1] != "device"]}, {"stages": []}]
    wrong.append({"stages": [stage if stage[1] != "device" else (*stage[:3], 0.0) for stage in stages]})
    wrong.append({"stages": [*stages, stages[-1]]})
    wrong += [{"stages": [*stages, (first[0], next(where for where in _PLACES if where != first[1]), *first[2:])]}]
    yield ask("errors", [right | change for change in sampler.permutation(wrong)], raises="ValueError")


# Judge


def _expected(question: dict) -> tuple[float, float, set[str]]:
    """Samples a second, idle share, bottleneck: where stages take equally long, each of them is it."""
    rate = played_rate(**question)
    device = seconds_of(question["stages"], question["batch"], "device")
    return rate * question["batch"], max(1 - rate * device, 0.0), _slowest(**question)


def parts(
    stages: list[Stage], batch: int, workers: int, cores: int, prefetch: int = 0
) -> list[tuple[float, tuple[str, ...]]]:
    """Seconds that a batch takes in each part, at least, and the places that the part is."""
    if not workers:
        return [(seconds_of(stages, batch, *_PLACES), _PLACES)]
    sizes = ((("wait", "core"), workers), (("core",), cores), (("main", "device"), 1))
    return [(seconds_of(stages, batch, *places) / many, places) for places, many in sizes]


def _slowest(stages: list[Stage], batch: int, workers: int, cores: int, prefetch: int) -> set[str]:
    found = set()
    for _, places in _longest_of(parts(stages, batch, workers, cores)):
        taken = [(seconds_of([stage], batch, stage[1]), stage[0]) for stage in stages if stage[1] in places]
        found |= {name for _, name in _longest_of(taken)}
    return found


def _longest_of(found: list[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """Those that take longest: no float's last digits decide between two."""
    longest = max(seconds for seconds, _ in found)
    return [one for one in found if one[0] >= (1 - _ALIKE) * longest]


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not (isinstance(value, list) and len(value) == 3):
        return f"The function returned {type_name(value)}; expected a tuple of three: rate, idle share, bottleneck."
    rate, idle, bottleneck = value
    if not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in (rate, idle)):
        return f"The rate and the idle share are due as numbers, Python's or NumPy's; they came as {type_name(rate)} and {type_name(idle)}."
    expected_rate, expected_idle, expected_bottleneck = _expected(question)
    if criteria == "idle":
        return None if abs(idle - expected_idle) <= WITHIN else _SAYS["idle"]
    if criteria == "bottleneck":
        return None if isinstance(bottleneck, str) and bottleneck in expected_bottleneck else _SAYS["bottleneck"]
    return None if abs(rate - expected_rate) <= WITHIN * expected_rate else _SAYS[criteria]


_SAYS = {
    "serial": "Without workers the rate is wrong: one process does everything, one after the other, and nothing overlaps.",
    "consumer": (
        "The rate is wrong where the training process is the slowest part: its main thread and the device take turns, and what "
        "workers do meanwhile costs it nothing."
    ),
    "workers": (
        "The rate is wrong where the workers are the slowest part: each makes a whole batch, stage after stage, and they work "
        "side by side. One that waits for the storage holds no core."
    ),
    "cores": "The rate is wrong where the cores are the slowest part: more workers than cores compute no faster than the cores do.",
    "units": "A stage is counted for each sample where it runs for each batch, or the other way round.",
    "prefetch": (
        "The rate is wrong among loaders that differ in the batches asked ahead, which do not change it: they smooth what comes "
        "unevenly, and one is enough for the next batch to be made while the device computes. Where it does not change, "
        "another part is the slowest."
    ),
    "idle": "The idle share is not the part of the time in which the device does not compute: whatever it waits for counts.",
    "bottleneck": (
        "The stage is not the longest one of the slowest part: the longest of all may run in many workers, and only those stages "
        "count that use the part which sets the rate."
    ),
}


exercise = answers(
    criteria=(
        Criterion("serial", 1, "the rate without workers is right"),
        Criterion("consumer", 1, "the rate is right where the training process is the slowest part"),
        Criterion("workers", 1, "the rate is right where the workers are", ("consumer",)),
        Criterion("cores", 2, "the rate is right where the cores are", ("workers",)),
        Criterion("units", 1, "seconds of a sample and of a batch are told apart", ("consumer",)),
        Criterion("prefetch", 1, "batches asked ahead do not change the rate", ("consumer",)),
        Criterion("idle", 1, "the idle share is the device's", ("consumer",)),
        Criterion("bottleneck", 1, "the bottleneck is the longest stage of the slowest part", ("consumer",)),
        Criterion("errors", 1, "what is no loader is refused with ValueError", ("consumer",)),
    ),
    cases=_cases,
    arguments=lambda question: tuple(question[name] for name in ("stages", "batch", "workers", "cores", "prefetch")),
    wrong=_wrong,
    libraries=("numpy",),
)
