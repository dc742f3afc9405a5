"""E3.5 occupancy: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import error_problem, type_name
from gpulab.observe.launches import WARP


def _multiprocessor(draw: Draw, **others: int) -> dict:
    """Such as no card has, so that no table of cards helps."""
    drawn = {
        "max_warps": 4 * draw.integer(9, 17),
        "max_blocks": draw.integer(13, 33),
        "registers": 4096 * draw.integer(13, 17),
        "shared_bytes": 1024 * draw.integer(90, 230),
        "shared_reserved": draw.choice([512, 1024, 1536]),
        "shared_unit": draw.choice([128, 256, 512]),
        "register_unit": draw.choice([128, 256]),
    }
    return drawn | others


def _cases(draw: Draw) -> Iterator[Case]:
    for make in (_partial_warp, _small, _quarters, _units, _reserved, _rounded):
        yield make(draw)
    for registers in draw.each(1, draw.integer(60, 120), 255):
        yield _case("registers", 32 * draw.integer(2, 4), registers, 0, _roomy(draw))
    yield _case("registers", 64, draw.choice([36, 44]), 0, _roomy(draw, registers=65536, register_unit=128))
    yield _case("shared", 64, 16, draw.integer(7_000, 30_000), _roomy(draw))
    yield _halves(draw)
    yield from _ends_of_ranges(draw)
    yield from _just_fits(draw)
    yield from _alike_but_for_one(draw)
    yield _case("misfits", 1024, draw.integer(90, 250), 0, _multiprocessor(draw))
    yield _case("misfits", 64, 16, 1024 * draw.integer(240, 300), _multiprocessor(draw))
    for launch in (
        (0, 16, 0),
        (-32, 16, 0),
        (1025, 16, 0),
        (64, 0, 0),
        (64, 256, 0),
        (64, 16, -1),
        (64, 16, -draw.integer(2_000, 9_000)),
    ):
        yield Case(("misfits",), {"launch": list(launch), "sm": _multiprocessor(draw)}, raises="ValueError")
    yield from _refused_where_nothing_fits(draw)


def _refused_where_nothing_fits(draw: Draw) -> Iterator[Case]:
    """What makes no sense is refused first: each number out of its range, where another store, or its own, has no room either."""
    full = {"max_warps": 4, "registers": 2048, "shared_bytes": 0}
    for launch in (
        (draw.integer(3000, 9000), 16, 0),
        (1024, 0, 0),
        (1024, draw.integer(3000, 9000), 0),
        (1024, 16, -1),
        (0, 255, 4096),
    ):
        for store in draw.each(*full):
            yield Case(
                ("misfits",), {"launch": list(launch), "sm": _roomy(draw, **{store: full[store]})}, raises="ValueError"
            )


def _ends_of_ranges(draw: Draw) -> Iterator[Case]:
    """A block of one thread, of 1024, one that takes no shared memory, not even for the system, and one that takes the system's alone."""
    yield _case("blocks", 1, 1, 0, _roomy(draw, max_blocks=draw.integer(9, 30)))
    yield _case("warps", 1024, 32, 0, _roomy(draw, registers=65536, register_unit=256))
    yield _case("shared", 128, 16, 0, _roomy(draw, shared_reserved=0))
    share = 128 * draw.integer(5, 12)
    yield _case(
        "shared",
        32,
        16,
        0,
        _roomy(draw, shared_unit=128, shared_reserved=share, shared_bytes=share * draw.integer(8, 12)),
    )


def _alike_but_for_one(draw: Draw) -> Iterator[Case]:
    """All four stores end together, and then one number more or less: what was kept of the first answer is wrong."""
    blocks, registers, share = 4 * draw.integer(3, 8), draw.choice([24, 32]), 64 * draw.integer(12, 31)
    launch = {"threads": draw.integer(33, 64), "registers": registers, "shared_bytes": share}
    sm = {"max_warps": 2 * blocks, "max_blocks": blocks, "registers": 64 * registers * blocks, "register_unit": 256}
    sm |= {"shared_bytes": 2 * share * blocks, "shared_reserved": share, "shared_unit": 64}
    yield _case("warps", *launch.values(), sm)
    again = _case("warps", *launch.values(), sm)
    again.inputs["refilled"] = True
    yield again
    for about, name, value in (
        ("warps", "threads", 128),
        ("registers", "registers", 2 * registers),
        ("shared", "shared_bytes", 3 * share),
    ):
        yield _case(about, *(launch | {name: value}).values(), sm)
    for about, name, value in (
        ("warps", "max_warps", blocks),
        ("blocks", "max_blocks", blocks // 2),
        ("registers", "registers", 32 * registers * blocks),
        ("registers", "register_unit", 2048),
        ("shared", "shared_bytes", share * blocks),
        ("shared", "shared_reserved", 3 * share),
        ("shared", "shared_unit", 4096),
    ):
        yield _case(about, *launch.values(), sm | {name: value})


def _just_fits(draw: Draw) -> Iterator[Case]:
    """One block fills a store to its end; with one byte, one register or one warp more not even one fits."""
    sm = _roomy(draw)
    free = sm["shared_bytes"] - sm["shared_reserved"]
    yield _case("shared", 64, 16, free, sm)
    yield _case("misfits", 64, 16, free + 1, sm)
    for most, about in ((32, "warps"), (31, "misfits")):
        yield _case(about, 1024, 16, 0, _roomy(draw, max_warps=most))
    for registers, about in ((64, "registers"), (65, "misfits")):
        yield _case(about, 1024, registers, 0, _roomy(draw, registers=65536, register_unit=256))


def _case(about: str, threads: int, registers: int, shared_bytes: int, sm: dict) -> Case:
    return Case((about,), {"launch": [threads, registers, shared_bytes], "sm": sm})


def _roomy(draw: Draw, **others: int) -> dict:
    return _multiprocessor(draw, **{"max_warps": 64, "max_blocks": 32, **others})


def _partial_warp(draw: Draw) -> Case:
    """Counted in threads one block more would fit."""
    warps, blocks = draw.integer(10, 15), draw.integer(3, 4)
    threads = 32 * (warps - 1) + draw.integer(1, 8)
    return _case("warps", threads, 16, 0, _multiprocessor(draw, max_warps=warps * blocks - 1))


def _small(draw: Draw) -> Case:
    return _case("blocks", draw.integer(1, 32), draw.integer(8, 20), 0, _roomy(draw, max_blocks=draw.integer(9, 30)))


def _quarters(draw: Draw) -> Case:
    """The four quarters' remainders together would hold the warps of one block more."""
    of_a_quarter, warps = draw.choice([(5, 3), (5, 7), (6, 5), (8, 3), (8, 11), (11, 5), (11, 9)])
    registers = 8 * draw.integer(5, 15)
    whole = 4 * (32 * registers * of_a_quarter + 16 * registers)
    return _case("registers", 32 * warps, registers, 0, _roomy(draw, registers=whole, register_unit=256))


def _units(draw: Draw) -> Case:
    """One register above a multiple: a warp takes a whole unit more, and a block fewer fits."""
    sm = _roomy(draw, registers=65536, register_unit=256)
    return _case("registers", 256, 8 * draw.choice([4, 5, 6]) + 1, 0, sm)


def _reserved(draw: Draw) -> Case:
    """Blocks that would fill the memory exactly, had the system no share of each."""
    each = 128 * draw.integer(60, 140)
    return _case("shared", 64, 16, each, _roomy(draw, shared_unit=128, shared_bytes=draw.integer(5, 9) * each))


def _rounded(draw: Draw) -> Case:
    """One byte above a multiple: a block takes a whole unit more, and a block fewer fits."""
    unit, units, blocks = draw.choice([128, 256]), draw.integer(60, 120), draw.integer(5, 9)
    sm = _roomy(draw, shared_unit=unit, shared_bytes=unit * (blocks * (units + 1) - 1))
    return _case("shared", 64, 16, unit * units + 1 - sm["shared_reserved"], sm)


def _halves(draw: Draw) -> Case:
    """Half a unit and the system's half are a whole one; rounded apart they are two."""
    unit, units, blocks = draw.choice([128, 256]), draw.integer(20, 40), draw.integer(5, 9)
    sm = _roomy(draw, shared_unit=unit, shared_reserved=unit // 2, shared_bytes=unit * units * blocks)
    return _case("shared", 64, 16, unit * units - unit // 2, sm)


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


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    problem = error_problem(evidence, case.raises) if case.raises else _problem(case.inputs, evidence)
    if problem:
        yield Lost(about, problem)


def _problem(inputs: dict, evidence: dict) -> str | None:
    if evidence["called"]:
        return f"The function calls {evidence['called'][0]}; expected plain Python."
    result = evidence["result"]
    if type(result) is not int:
        return f"The function returned {type_name(result)}; expected an int."
    limits = resident(*inputs["launch"], inputs["sm"])
    due = min(limits.values())
    if result == due:
        return None
    binding = min(limits, key=limits.get)
    return f"{'Too many' if result > due else 'Too few'} blocks. {_WHAT[binding]}"


occupancy = Exercise(
    "execution.occupancy",
    criteria=(
        Criterion("warps", 1, "the warps of the multiprocessor bind, a part of a warp counted as one"),
        Criterion("blocks", 1, "the number of blocks binds", ("warps",)),
        Criterion("registers", 2, "registers bind, in units for each warp and by quarters", ("warps",)),
        Criterion("shared", 2, "shared memory binds, with the system's share and in units", ("warps",)),
        Criterion("misfits", 1, "a block that does not fit gives 0, one that makes no sense is refused", ("warps",)),
    ),
    cases=_cases,
    judge=_judge,
)
