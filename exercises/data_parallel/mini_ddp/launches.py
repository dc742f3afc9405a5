"""E14.1: what crossed in each step, and what each rank launched when, in the order in which the broker heard it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from autograder.judge.collective_broker import CollectiveRecord
from autograder.judge.ranks import Launch, launches_of, marker_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass
class RankLog:
    """A rank's steps, from the numbers that it alone let cross: when it came by which place, and what it launched.

    ``numbers``: all that it let cross alone, in order, in how many ``groups``. ``sends``: how many messages it sent.
    """

    before: list[Launch] = field(default_factory=list)
    launches: list[list[Launch]] = field(default_factory=list)
    places: list[dict[int, int]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    sends: int = 0


def log_of_rank(collectives: Sequence[CollectiveRecord], rank: int) -> RankLog:
    """What ``rank`` did, in order."""
    found, step = RankLog(), -1
    for launch in launches_of(collectives, rank):
        if (alone := marker_of(launch, 1)) is None:
            found.sends += launch.operation == "send" and launch.collective.entry.ranks[0] == rank
            (found.launches[step] if step >= 0 else found.before).append(launch)
            continue
        (number,) = alone
        found.numbers.append(number)
        found.groups.add(launch.collective.entry.group)
        if number < 0:
            step += 1
            found.launches.append([])
            found.places.append({})
        elif step >= 0:
            found.places[step][number] = launch.at
    return found


def values(launch: Launch) -> torch.Tensor:
    """What was handed in, as float64. Raises KeyError for a dtype that no gradient has."""
    return _decoded(launch.collective, launch.given)


def of_all_ranks(launch: Launch) -> list[torch.Tensor]:
    """What each rank handed in, as float64."""
    return [_decoded(launch.collective, given) for given in launch.collective.given]


def _decoded(collective: CollectiveRecord, given: bytes) -> torch.Tensor:
    dtype = DTYPES[collective.entry.dtype]
    return torch.frombuffer(bytearray(given), dtype=dtype).double() if given else torch.zeros(0, dtype=torch.float64)


def is_all_reduce(launch: Launch) -> bool:
    entry = launch.collective.entry
    return entry.operation == "all_reduce" and entry.dtype in DTYPES and entry.reduces in ("SUM", "AVG")


def same_in_any_order(one: torch.Tensor, other: torch.Tensor, near: float) -> bool:
    """Whether two flat tensors have the same elements, in whatever order."""
    return len(one) == len(other) and bool(((one.sort()[0] - other.sort()[0]).abs() <= near * _size(other)).all())


def _size(values: torch.Tensor) -> float:
    return float(values.abs().amax()) if len(values) else 0.0
