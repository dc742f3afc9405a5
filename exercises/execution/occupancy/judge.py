"""E3.5 occupancy: cases and judge."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse
from gpulab.observe.launches import WARP

Launch = tuple[str, tuple[int, int, int], dict]
"""The criterion that is about it; threads, registers and shared bytes of a block; the multiprocessor."""


def _multiprocessor(sampler: Sampler, **others: int) -> dict:
    """Such as no card has, so that no table of cards helps."""
    drawn = {
        "max_warps": 4 * sampler.integer(9, 17),
        "max_blocks": sampler.integer(13, 33),
        "registers": 4096 * sampler.integer(13, 17),
        "shared_bytes": 1024 * sampler.integer(90, 230),
        "shared_reserved": sampler.choice([512, 1024, 1536]),
        "shared_unit": sampler.choice([128, 256, 512]),
        "register_unit": sampler.choice([128, 256]),
    }
    return drawn | others


def _cases(sampler: Sampler) -> Iterator[Questions]:
    """Of one criterion after the other, as they are drawn: what follows a launch differs from it in one number."""
    drawn = [make(sampler) for make in (_partial_warp, _small, _quarters, _units, _reserved, _rounded)]
    for registers in sampler.shuffled(1, sampler.integer(60, 120), 255):
        drawn.append(_launch("registers", 32 * sampler.integer(2, 4), registers, 0, _roomy(sampler)))
    drawn += [
        _launch("registers", 64, sampler.choice([36, 44]), 0, _roomy(sampler, registers=65536, register_unit=128)),
        _launch("shared", 64, 16, sampler.integer(7_000, 30_000), _roomy(sampler)),
        _halves(sampler),
        *_ends_of_ranges(sampler),
        *_just_fits(sampler),
        *_alike_but_for_one(sampler),
        _launch("misfits", 1024, sampler.integer(90, 250), 0, _multiprocessor(sampler)),
        _launch("misfits", 64, 16, 1024 * sampler.integer(240, 300), _multiprocessor(sampler)),
    ]
    for criterion, launches in groupby(drawn, key=itemgetter(0)):
        yield ask(criterion, [(launch, sm) for _, launch, sm in launches])
    refused = [*_out_of_range(sampler), *_refused_where_nothing_fits(sampler)]
    yield refuse("misfits", [(question, _why_refused(*question[0])) for question in refused])


def _out_of_range(sampler: Sampler) -> Iterator[tuple]:
    for launch in (
        (0, 16, 0),
        (-32, 16, 0),
        (1025, 16, 0),
        (64, 0, 0),
        (64, 256, 0),
        (64, 16, -1),
        (64, 16, -sampler.integer(2_000, 9_000)),
    ):
        yield launch, _multiprocessor(sampler)


def _refused_where_nothing_fits(sampler: Sampler) -> Iterator[tuple]:
    """What makes no sense is refused first: each number out of its range, where another store, or its own, has no room either."""
    full = {"max_warps": 4, "registers": 2048, "shared_bytes": 0}
    for launch in (
        (sampler.integer(3000, 9000), 16, 0),
        (1024, 0, 0),
        (1024, sampler.integer(3000, 9000), 0),
        (1024, 16, -1),
        (0, 255, 4096),
    ):
        for store in sampler.shuffled(*full):
            yield launch, _roomy(sampler, **{store: full[store]})


def _why_refused(threads: int, registers: int, shared_bytes: int) -> str:
    if not 1 <= threads <= 1024:
        return f"threads {threads} is outside 1 to 1024"
    if not 1 <= registers <= 255:
        return f"registers {registers} is outside 1 to 255"
    return f"shared_bytes {shared_bytes} is negative"


def _ends_of_ranges(sampler: Sampler) -> Iterator[Launch]:
    """A block of one thread, of 1024, one that takes no shared memory, not even for the system, and one that takes the system's alone."""
    yield _launch("blocks", 1, 1, 0, _roomy(sampler, max_blocks=sampler.integer(9, 30)))
    yield _launch("warps", 1024, 32, 0, _roomy(sampler, registers=65536, register_unit=256))
    yield _launch("shared", 128, 16, 0, _roomy(sampler, shared_reserved=0))
    share = 128 * sampler.integer(5, 12)
    yield _launch(
        "shared",
        32,
        16,
        0,
        _roomy(sampler, shared_unit=128, shared_reserved=share, shared_bytes=share * sampler.integer(8, 12)),
    )


def _alike_but_for_one(sampler: Sampler) -> Iterator[Launch]:
    """All four stores end together, and then one number more or less: what was kept of the first answer is wrong."""
    blocks, registers, share = 4 * sampler.integer(3, 8), sampler.choice([24, 32]), 64 * sampler.integer(12, 31)
    launch = {"threads": sampler.integer(33, 64), "registers": registers, "shared_bytes": share}
    sm = {"max_warps": 2 * blocks, "max_blocks": blocks, "registers": 64 * registers * blocks, "register_unit": 256}
    sm |= {"shared_bytes": 2 * share * blocks, "shared_reserved": share, "shared_unit": 64}
    yield _launch("warps", *launch.values(), sm)
    yield _launch("warps", *launch.values(), sm | {"max_warps": blocks})  # the same object, which held other numbers
    yield _launch("warps", *launch.values(), sm)
    for criteria, name, value in (
        ("warps", "threads", 128),
        ("registers", "registers", 2 * registers),
        ("shared", "shared_bytes", 3 * share),
    ):
        yield _launch(criteria, *(launch | {name: value}).values(), sm)
    for criteria, name, value in (
        ("warps", "max_warps", blocks),
        ("blocks", "max_blocks", blocks // 2),
        ("registers", "registers", 32 * registers * blocks),
        ("registers", "register_unit", 2048),
        ("shared", "shared_bytes", share * blocks),
        ("shared", "shared_reserved", 3 * share),
        ("shared", "shared_unit", 4096),
    ):
        yield _launch(criteria, *launch.values(), sm | {name: value})


def _just_fits(sampler: Sampler) -> Iterator[Launch]:
    """One block fills a store to its end; with one byte, one register or one warp more not even one fits."""
    sm = _roomy(sampler)
    free = sm["shared_bytes"] - sm["shared_reserved"]
    yield _launch("shared", 64, 16, free, sm)
    yield _launch("misfits", 64, 16, free + 1, sm)
    for most, criteria in ((32, "warps"), (31, "misfits")):
        yield _launch(criteria, 1024, 16, 0, _roomy(sampler, max_warps=most))
    for registers, criteria in ((64, "registers"), (65, "misfits")):
        yield _launch(criteria, 1024, registers, 0, _roomy(sampler, registers=65536, register_unit=256))


def _launch(criterion: str, threads: int, registers: int, shared_bytes: int, sm: dict) -> Launch:
    return criterion, (threads, registers, shared_bytes), sm


def _roomy(sampler: Sampler, **others: int) -> dict:
    return _multiprocessor(sampler, **{"max_warps": 64, "max_blocks": 32, **others})


def _partial_warp(sampler: Sampler) -> Launch:
    """Counted in threads one block more would fit."""
    warps, blocks = sampler.integer(10, 15), sampler.integer(3, 4)
    threads = 32 * (warps - 1) + sampler.integer(1, 8)
    return _launch("warps", threads, 16, 0, _multiprocessor(sampler, max_warps=warps * blocks - 1))


def _small(sampler: Sampler) -> Launch:
    return _launch(
        "blocks", sampler.integer(1, 32), sampler.integer(8, 20), 0, _roomy(sampler, max_blocks=sampler.integer(9, 30))
    )


def _quarters(sampler: Sampler) -> Launch:
    """The four quarters' remainders together would hold the warps of one block more."""
    of_a_quarter, warps = sampler.choice([(5, 3), (5, 7), (6, 5), (8, 3), (8, 11), (11, 5), (11, 9)])
    registers = 8 * sampler.integer(5, 15)
    whole = 4 * (32 * registers * of_a_quarter + 16 * registers)
    return _launch("registers", 32 * warps, registers, 0, _roomy(sampler, registers=whole, register_unit=256))


def _units(sampler: Sampler) -> Launch:
    """One register above a multiple: a warp takes a whole unit more, and a block fewer fits."""
    sm = _roomy(sampler, registers=65536, register_unit=256)
    return _launch("registers", 256, 8 * sampler.choice([4, 5, 6]) + 1, 0, sm)


def _reserved(sampler: Sampler) -> Launch:
    """Blocks that would fill the memory exactly, had the system no share of each."""
    each = 128 * sampler.integer(60, 140)
    return _launch("shared", 64, 16, each, _roomy(sampler, shared_unit=128, shared_bytes=sampler.integer(5, 9) * each))


def _rounded(sampler: Sampler) -> Launch:
    """One byte above a multiple: a block takes a whole unit more, and a block fewer fits."""
    unit, units, blocks = sampler.choice([128, 256]), sampler.integer(60, 120), sampler.integer(5, 9)
    sm = _roomy(sampler, shared_unit=unit, shared_bytes=unit * (blocks * (units + 1) - 1))
    return _launch("shared", 64, 16, unit * units + 1 - sm["shared_reserved"], sm)


def _halves(sampler: Sampler) -> Launch:
    """Half a unit and the system's half are a whole one; rounded apart they are two."""
    unit, units, blocks = sampler.choice([128, 256]), sampler.integer(20, 40), sampler.integer(5, 9)
    sm = _roomy(sampler, shared_unit=unit, shared_reserved=unit // 2, shared_bytes=unit * units * blocks)
    return _launch("shared", 64, 16, unit * units - unit // 2, sm)


def resident(threads: int, registers: int, shared_bytes: int, sm: dict) -> dict[str, int]:
    """Blocks that each limit allows."""
    warps = -(-threads // WARP)
    of_a_warp = -(-WARP * registers // sm["register_unit"]) * sm["register_unit"]
    of_a_block = -(-(shared_bytes + sm["shared_reserved"]) // sm["shared_unit"]) * sm["shared_unit"]
    return {
        "warps": sm["max_warps"] // warps,
        "blocks": sm["max_blocks"],
        "registers": 4 * (sm["registers"] // 4 // of_a_warp) // warps,
        "shared": sm["shared_bytes"] // of_a_block if of_a_block else sm["max_blocks"],
    }


_WHAT = {
    "warps": "A block takes whole warps: a part of one takes the place of one.",
    "blocks": "However small they are, a multiprocessor holds only so many blocks.",
    "registers": "Registers are given to whole warps in units, and a warp lives in one quarter of the multiprocessor.",
    "shared": "A block's shared memory is rounded up to a unit, the system's share of it included.",
}


def _wrong(criterion: str, question: tuple, result: Any) -> str | None:
    launch, sm = question
    if type(result) is not int:
        return f"The function returned {type_name(result)}; expected an int."
    limits = resident(*launch, sm)
    expected = min(limits.values())
    if result == expected:
        return None
    binding = min(limits, key=limits.get)
    return f"{'Too many' if result > expected else 'Too few'} blocks. {_WHAT[binding]}"


def _traits(launch: tuple[int, int, int], sm: dict) -> dict[str, str]:
    threads, _, shared_bytes = launch
    limits, warps = resident(*launch, sm), -(-threads // WARP)
    return {
        "what limits the blocks": " and ".join(f"`{name}`" for name in limits if limits[name] == min(limits.values())),
        "a block": "too large to fit" if not min(limits.values()) else "small enough to fit",
        "`threads`": "no multiple of 32" if threads % WARP else "a multiple of 32",
        "the number of warps of a block": "no multiple of 4" if warps % 4 else "a multiple of 4",
        "`shared_bytes`": "greater than 0" if shared_bytes else "0",
        "`shared_reserved`": "greater than 0" if sm["shared_reserved"] else "0",
    }


exercise = answers(
    criteria=(
        Criterion("warps", 1, "the limit on warps, with a partial warp counted as a whole one"),
        Criterion("blocks", 1, "the limit on blocks", ("warps",)),
        Criterion("registers", 2, "the limit by registers, in units for each warp and by quarters", ("warps",)),
        Criterion("shared", 2, "the limit by shared memory, with the system's share and in units", ("warps",)),
        Criterion("misfits", 1, "a block that does not fit gives 0, an invalid one is refused", ("warps",)),
    ),
    cases=_cases,
    arguments=lambda question: (*question[0], SimpleNamespace(**question[1])),
    wrong=_wrong,
    traits=lambda question: _traits(*question),
)
