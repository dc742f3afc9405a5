"""E14.1: what a rank launched in each step, in the order in which the broker heard it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from autograder.judge.ranks import Launch, marker_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass
class Span:
    """What a rank launched up to the end of a step, and its count of requests when backward passed each place."""

    launches: list[Launch] = field(default_factory=list)
    passed: dict[int, int] = field(default_factory=dict)


def spans(launches: Sequence[Launch]) -> list[Span]:
    """The call of the function, each step, and what comes after: a marker of -1 ends each."""
    found = [Span()]
    for launch in launches:
        if (marker := marker_of(launch, 1)) is None:
            found[-1].launches.append(launch)
        else:
            found[-1].passed[marker[0]] = launch.at
        if marker == [-1]:
            found.append(Span())
    return found


def is_all_reduce(launch: Launch) -> bool:
    """Whether it adds numbers of a gradient's dtype."""
    entry = launch.collective.entry
    return entry.operation == "all_reduce" and entry.dtype in DTYPES and entry.reduces in ("SUM", "AVG")


def dtype_of(launch: Launch) -> torch.dtype:
    return DTYPES[launch.collective.entry.dtype]


def flat(launch: Launch, given: bytes) -> torch.Tensor:
    """What a rank handed in to an all-reduce, as float64."""
    return torch.frombuffer(bytearray(given), dtype=dtype_of(launch)).double() if given else torch.zeros(0).double()
