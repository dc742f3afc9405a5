"""E4.1 sectors: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions

_SIZES = (1, 2, 4, 8, 16)


def _sectors_cases(draw: Draw) -> Iterator[Case]:
    yield _case("neighbours", [_lanes(draw, size) for size in _SIZES])
    yield _case("strides", [_lanes(draw, size, stride) for size in (4, 8, 4, 2) for stride in _strides(draw)])
    yield _case("misaligned", [_lanes(draw, size, offset=draw.integer(1, 32 // size - 1)) for size in (1, 2, 4, 8)])
    yield _case("shared", list(_shared(draw)))
    yield _case("errors", list(_refused(draw)), refused=True)


def _case(about: str, questions: list[dict], refused: bool = False) -> Case:
    return Case((about,), {"questions": questions, "refused": refused})


def _strides(draw: Draw) -> list[int]:
    return draw.shuffled([draw.integer(2, 3), draw.integer(5, 9), draw.integer(33, 300)])


def _lanes(draw: Draw, size: int, stride: int = 1, offset: int = 0, lanes: int = 32) -> dict:
    """Lane i reads item offset + stride * i of an array that begins at a multiple of 256 bytes."""
    base = 256 * draw.integer(0, 1000)
    return {"addresses": [base + size * (offset + stride * lane) for lane in range(lanes)], "item_bytes": size}


def _shared(draw: Draw) -> Iterator[dict]:
    """Lanes that use one address, come in any order, or are fewer than a warp."""
    one = _lanes(draw, 4, stride=0, offset=draw.integer(1, 7))
    yield one
    for size, stride in ((4, draw.integer(2, 5)), (2, 1), (8, draw.integer(3, 7))):
        question = _lanes(draw, size, stride)
        yield {**question, "addresses": draw.shuffled(question["addresses"])}
    yield {**one, "addresses": [draw.choice(one["addresses"]) + 128 * draw.integer(0, 3) for _ in range(32)]}
    yield _lanes(draw, 4, lanes=draw.integer(1, 31))
    yield {"addresses": [], "item_bytes": 4}


def _refused(draw: Draw) -> Iterator[dict]:
    yield _lanes(draw, 4, lanes=draw.integer(33, 64))
    yield {"addresses": [-4 * draw.integer(1, 9)], "item_bytes": 4}
    yield {"addresses": [96], "item_bytes": draw.choice((0, 3, 5, 12, 32))}
    for size in (2, 4, 8, 16):
        yield {"addresses": [256, 256 + size * draw.integer(1, 9) + draw.integer(1, size - 1)], "item_bytes": size}


_HINTS = {
    "neighbours": "Each lane reads item_bytes, and a sector moves once however many lanes want something of it.",
    "strides": "Lanes that are far apart do not share a sector, and what lies between two sectors does not move.",
    "misaligned": "Sectors begin at multiples of 32 bytes, wherever the first lane begins.",
    "shared": "A sector moves once for a warp, in whatever order its lanes name it, and however many they are.",
}


def _wrong(about: str, question: dict, answer: dict) -> str | None:
    if "returned" not in answer:
        return f"The function raised {answer['error']['type']} for a request that a warp may make."
    value, due = answer["returned"], len({address // 32 for address in question["addresses"]})
    if type(value) is not int:
        return f"The function returned {type_name(value)}; an int is due."
    if value == due:
        return None
    return f"The number of sectors is too {'large' if value > due else 'small'}. {_HINTS[about]}"


def _about(name: str, points: float, says: str, *rests_on: str) -> Criterion:
    return Criterion(name, points, says, rests_on)


sectors = Exercise(
    "hierarchy.sectors",
    criteria=(
        _about("neighbours", 1, "lanes that read neighbouring items of any size fill their sectors"),
        _about("strides", 2, "lanes that are far apart cost a sector each", "neighbours"),
        _about("misaligned", 1, "a request that begins inside a sector touches one more", "neighbours"),
        _about("shared", 1, "lanes that share a sector share its cost, in any order and number", "neighbours"),
        _about("errors", 1, "what no warp can ask for is refused with ValueError", "neighbours"),
    ),
    cases=_sectors_cases,
    judge=judge_questions(_wrong),
)
