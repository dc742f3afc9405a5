"""E14.1: what crossed in each step, and what each rank launched when, in the order in which the switchboard heard it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from autograder.boards import Crossing

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Launch:
    """A rank's part in what crossed: what it handed in, and when, by the switchboard's count of that rank's wishes."""

    crossing: Crossing
    at: int
    given: bytes


@dataclass
class Told:
    """A rank's steps, from the numbers that it alone let cross: when it came by which place, and what it launched."""

    before: list[Launch]
    launches: list[list[Launch]]
    places: list[dict[int, int]]


def told(crossings: Sequence[Crossing], rank: int) -> Told:
    """What ``rank`` did, in order."""
    found, step = Told([], [], []), -1
    for at, crossing, given in sorted(_parts(crossings, rank), key=lambda part: part[0]):
        if not _is_alone(crossing):
            (found.launches[step] if step >= 0 else found.before).append(Launch(crossing, at, given))
            continue
        number = int(torch.frombuffer(bytearray(given), dtype=torch.int64)[0])
        if number < 0:
            step += 1
            found.launches.append([])
            found.places.append({})
        elif step >= 0:
            found.places[step][number] = at
    return found


def _parts(crossings: Sequence[Crossing], rank: int) -> Iterator[tuple[int, Crossing, bytes]]:
    for crossing in crossings:
        entry = crossing.entry
        for who, at, given in zip(entry.ranks, entry.came, crossing.given, strict=True):
            if who == rank:
                yield at, crossing, given


def _is_alone(crossing: Crossing) -> bool:
    entry = crossing.entry
    return (entry.operation, entry.dtype, entry.bytes, len(entry.ranks)) == ("reduce", "int64", 8, 1)


def values(launch: Launch) -> torch.Tensor:
    """What was handed in, as float64. Raises KeyError for a dtype that no gradient has."""
    return _decoded(launch.crossing, launch.given)


def of_all_ranks(launch: Launch) -> list[torch.Tensor]:
    """What each rank handed in, as float64."""
    return [_decoded(launch.crossing, given) for given in launch.crossing.given]


def _decoded(crossing: Crossing, given: bytes) -> torch.Tensor:
    dtype = DTYPES[crossing.entry.dtype]
    return torch.frombuffer(bytearray(given), dtype=dtype).double() if given else torch.zeros(0, dtype=torch.float64)


def is_all_reduce(launch: Launch) -> bool:
    entry = launch.crossing.entry
    return entry.operation == "all_reduce" and entry.dtype in DTYPES and entry.reduces in ("SUM", "AVG")


def same_in_any_order(one: torch.Tensor, other: torch.Tensor, near: float) -> bool:
    """Whether two flat tensors have the same elements, in whatever order."""
    return len(one) == len(other) and bool(((one.sort()[0] - other.sort()[0]).abs() <= near * _size(other)).all())


def _size(values: torch.Tensor) -> float:
    return float(values.abs().amax()) if len(values) else 0.0
