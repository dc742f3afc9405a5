"""E4.1 sectors: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

_SIZES = (1, 2, 4, 8, 16)


def _sectors_cases(sampler: Sampler) -> Iterator[Questions]:
    neighbours = [_lanes(sampler, size) for size in _SIZES]
    yield ask("neighbours", neighbours + 2 * [_lanes(sampler, 4)])
    far = [_lanes(sampler, size, 2**16 // size) for size in _SIZES]
    beyond_32_bits = [_lanes(sampler, size, 2**32 // size, lanes=2) for size in _SIZES]
    yield ask(
        "strides",
        far + beyond_32_bits + [_lanes(sampler, size, stride) for size in _SIZES for stride in _strides(sampler, size)],
    )
    yield ask(
        "misaligned", [_lanes(sampler, size, offset=offset) for size in _SIZES for offset in _offsets(sampler, size)]
    )
    yield ask("shared", list(_shared(sampler)))
    wider = [{**question, "item_bytes": 2 * question["item_bytes"]} for question in neighbours]
    yield refuse("errors", [(question, _why_refused(**question)) for question in (*wider, *_refused(sampler))])


def _strides(sampler: Sampler, size: int) -> list[int]:
    """Two items in a sector and more, a sector for each, one on either side of that, and far apart."""
    return sampler.shuffled(2, 3, *(max(2, 32 // size + step) for step in (-1, 0, 1)), sampler.integer(33, 300))


def _offsets(sampler: Sampler, size: int) -> set[int]:
    """From the first item of a sector that is not its beginning to the last."""
    return {1, sampler.integer(1, 32 // size - 1), 32 // size - 1}


def _lanes(sampler: Sampler, size: int, stride: int = 1, offset: int = 0, lanes: int = 32) -> dict:
    """Lane i reads item offset + stride * i of an array that begins at a multiple of 256 bytes."""
    base = 256 * sampler.integer(1, 1000)
    return {"addresses": [base + size * (offset + stride * lane) for lane in range(lanes)], "item_bytes": size}


def _shared(sampler: Sampler) -> Iterator[dict]:
    """Lanes that use one address, come in any order, or are fewer than a warp; the first byte of memory, and the last ones."""
    one = _lanes(sampler, 4, stride=0, offset=sampler.integer(1, 7))
    yield one
    for size, stride in ((4, sampler.integer(2, 5)), (2, 1), (8, sampler.integer(3, 7)), (16, 1)):
        question = _lanes(sampler, size, stride)
        yield {**question, "addresses": _mixed(sampler, question["addresses"])}
    yield {**one, "addresses": _mixed(sampler, [one["addresses"][0] + 128 * sampler.integer(0, 3) for _ in range(28)])}
    yield from (
        {"addresses": [base + 4 * item for item in _mixed(sampler, range(32))], "item_bytes": 4} for base in (0, 2**46)
    )
    for lanes in sampler.shuffled(1, sampler.integer(2, 8), sampler.integer(9, 30), 31):
        yield _lanes(sampler, 4, lanes=lanes)
    yield from ({"addresses": [], "item_bytes": size} for size in (1, sampler.choice(_SIZES[1:])))


def _mixed(sampler: Sampler, addresses: list[int] | range) -> list[int]:
    """In an order that neither rises nor falls, and begins with none of the extremes."""
    low, *middle, high = sorted(addresses)
    middle = sampler.permutation(middle)
    return [*middle[:9], high, *middle[9:18], low, *middle[18:]]


def _refused(sampler: Sampler) -> Iterator[dict]:
    for lanes in (33, sampler.integer(34, 64)):
        yield _lanes(sampler, sampler.choice(_SIZES), lanes=lanes)
        yield _lanes(sampler, 4, stride=0, lanes=lanes)
    for size in _SIZES:
        yield {"addresses": [-size], "item_bytes": size}
        yield {"addresses": [32, 64, -32 * sampler.integer(1, 9), 96], "item_bytes": size}
    for size in (0, 3, 5, 6, 12, 15, 24, 32, 64, -1, -4):
        yield {"addresses": [960 * abs(size), 960 + 960 * abs(size)], "item_bytes": size}
        yield {"addresses": [], "item_bytes": size}
    for size, off in ((size, off) for size in _SIZES for off in _SIZES if off < size):
        aligned, one = _lanes(sampler, size), 256 * sampler.integer(1, 9) + off
        yield {"addresses": [one], "item_bytes": size}
        yield {**aligned, "addresses": [*aligned["addresses"][:-1], one]}
        yield {**aligned, "addresses": [address + size - off for address in aligned["addresses"]]}


def _why_refused(addresses: list[int], item_bytes: int) -> str:
    if len(addresses) > 32:
        return f"{len(addresses)} addresses are more than a warp has lanes"
    if item_bytes not in _SIZES:
        return f"item_bytes {item_bytes} is none of 1, 2, 4, 8 and 16"
    if min(addresses) < 0:
        return f"the address {min(addresses)} is negative"
    odd = next(address for address in addresses if address % item_bytes)
    return f"the address {odd} is no multiple of item_bytes {item_bytes}"


_HINTS = {
    "neighbours": "Each lane reads item_bytes, and a sector moves once however many lanes want something of it.",
    "strides": "Lanes that are far apart do not share a sector, and what lies between two sectors does not move.",
    "misaligned": "Sectors begin at multiples of 32 bytes, wherever the first lane begins.",
    "shared": "A sector moves once for a warp, in whatever order its lanes name it, and however many they are.",
}


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    expected = len({address // 32 for address in question["addresses"]})
    if type(value) is not int:
        return f"The function returned {type_name(value)}; expected an integer."
    if value == expected:
        return None
    return f"The number of sectors is too {'large' if value > expected else 'small'}. {_HINTS[criteria]}"


def _traits(addresses: list[int], item_bytes: int) -> dict[str, str]:
    lanes, low, high = len(addresses), min(addresses, default=1), max(addresses, default=0)
    return {
        "the number of addresses": "32" if lanes == 32 else "0" if not lanes else "from 1 to 31",
        "the lowest address": "0" if not low else "a multiple of 32" if low % 32 == 0 else "no multiple of 32",
        "the highest address": "2^32 or more" if high >= 2**32 else "less than 2^32",
        "`item_bytes`": f"{item_bytes}",
        "the addresses' order": "rising" if addresses == sorted(addresses) else "mixed",
        "one address": "used by several lanes" if len({*addresses}) < lanes else "used by one lane",
    }


def _criteria(name: str, points: float, says: str, *requires: str) -> Criterion:
    return Criterion(name, points, says, requires)


exercise = answers(
    criteria=(
        _criteria("neighbours", 1, "lanes that read neighbouring items of any size fill their sectors"),
        _criteria("strides", 2, "lanes with strided addresses cost a sector each", "neighbours"),
        _criteria("misaligned", 1, "a misaligned request touches one more sector", "neighbours"),
        _criteria("shared", 1, "lanes that share a sector share its cost, in any order and number", "neighbours"),
        _criteria("errors", 1, "invalid requests are refused with ValueError", "neighbours"),
    ),
    cases=_sectors_cases,
    arguments=lambda question: (question["addresses"], question["item_bytes"]),
    wrong=_wrong,
    kept="The function changed the list that it was given.",
    in_kernel=True,
    traits=lambda question: _traits(**question),
)
