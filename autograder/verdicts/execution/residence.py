"""E3.3 occupancy: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import error_problem, type_name

_WARP = 32


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
    for _ in range(3):
        yield _case("registers", 32 * draw.integer(1, 12), draw.integer(60, 120), 0, _roomy(draw))
        yield _case("shared", 64, 16, draw.integer(7_000, 30_000), _roomy(draw))
    yield _case("misfits", 1024, draw.integer(90, 250), 0, _multiprocessor(draw))
    yield _case("misfits", 64, 16, 1024 * draw.integer(240, 300), _multiprocessor(draw))
    for launch in ((0, 16, 0), (1025, 16, 0), (64, 0, 0), (64, 256, 0), (64, 16, -draw.integer(1, 9))):
        yield Case(("misfits",), {"launch": list(launch), "sm": _multiprocessor(draw), "refused": True})


def _case(about: str, threads: int, registers: int, shared_bytes: int, sm: dict) -> Case:
    return Case((about,), {"launch": [threads, registers, shared_bytes], "sm": sm, "refused": False})


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


def resident(threads: int, registers: int, shared_bytes: int, sm: dict) -> dict[str, int]:
    """Blocks that each limit allows."""
    warps = -(-threads // _WARP)
    of_a_warp = -(-_WARP * registers // sm["register_unit"]) * sm["register_unit"]
    of_a_block = -(-(shared_bytes + sm["shared_reserved"]) // sm["shared_unit"]) * sm["shared_unit"]
    return {
        "warps": sm["max_warps"] // warps,
        "blocks": sm["max_blocks"],
        "registers": 4 * (sm["registers"] // 4 // of_a_warp) // warps,
        "shared": sm["shared_bytes"] // of_a_block,
    }


_WHAT = {
    "warps": "A block takes whole warps: a part of one takes the place of one.",
    "blocks": "However small they are, a multiprocessor holds only so many blocks.",
    "registers": "Registers are given to whole warps in units, and a warp lives in one quarter of the multiprocessor.",
    "shared": "A block's shared memory is rounded up to a unit, the system's share of it included.",
}


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    if problem := _problem(case.inputs, evidence):
        yield Lost(about, problem)


def _problem(inputs: dict, evidence: dict) -> str | None:
    if evidence["called"]:
        return f"The function calls {evidence['called'][0]}; plain Python is due."
    if inputs["refused"]:
        return error_problem(evidence, "ValueError")
    result = evidence["result"]
    if type(result) is not int:
        return f"The function returned {type_name(result)}; an int is due."
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
