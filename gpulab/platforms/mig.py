"""NVIDIA's MIG tables: profiles, where each may lie, and what fits beside what.

Sizes and names: MIG User Guide, "Supported MIG Profiles", tables of A100-SXM4-40GB (with its note on 80 GB), H100 80GB and H200
141GB. Placements: NVIDIA/go-nvml (2f9e261f), pkg/nvml/mock/gpus/a100.go, and ``nvidia-smi mig -lgipp`` of an H100. What has no
MIG: "Supported GPUs" of the guide, as of its edition 620, lists it not.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import add, le

MEMORY_SLICES = 8
COMPUTE_SLICES = 7


@dataclass(frozen=True)
class Profile:
    """A size of GPU instance. ``compute``: of 7 slices; ``memory``: of 8; ``gb``: as its name counts; ``starts``: memory
    slices at which it may begin."""

    name: str
    compute: int
    memory: int
    gb: int
    starts: tuple[int, ...]


def _geometry(one: int, double: int, three: int, all_of_it: int, two: int | None = None) -> dict[str, Profile]:
    """From the gigabytes of 1g, of 1g with double memory, of 3g and of 7g."""
    profiles = (
        Profile(f"1g.{one}gb", 1, 1, one, (0, 1, 2, 3, 4, 5, 6)),
        Profile(f"1g.{double}gb", 1, 2, double, (0, 2, 4, 6)),
        Profile(f"2g.{two or double}gb", 2, 2, two or double, (0, 2, 4)),
        Profile(f"3g.{three}gb", 3, 4, three, (0, 4)),
        Profile(f"4g.{three}gb", 4, 4, three, (0,)),
        Profile(f"7g.{all_of_it}gb", 7, 8, all_of_it, (0,)),
    )
    return {profile.name: profile for profile in profiles}


GEOMETRY = {
    "A100-40GB": _geometry(5, 10, 20, 40),
    "A100-80GB": _geometry(10, 20, 40, 80),
    "H100-80GB": _geometry(10, 20, 40, 80),
    "H200-141GB": _geometry(18, 35, 71, 141),
}
NO_MIG = ("T4", "A10", "L4", "L40S", "RTX4090")


def geometry(gpu: str) -> dict[str, Profile]:
    """The profiles of a GPU by name. Raises ValueError for one that has no MIG, or is not in the table."""
    if gpu not in GEOMETRY:
        raise ValueError(
            f"{gpu} has no MIG" if gpu in NO_MIG else f"no table for {gpu!r}: there are {', '.join(GEOMETRY)}"
        )
    return GEOMETRY[gpu]


@dataclass(frozen=True)
class Placed:
    """A GPU instance: memory slices ``start`` to ``start + profile.memory``, without the last."""

    profile: Profile
    start: int

    @property
    def mask(self) -> int:
        return ((1 << self.profile.memory) - 1) << self.start


def free_starts(profile: Profile, taken: int) -> list[int]:
    """Where it may still begin, with ``taken`` a bit for each memory slice in use."""
    return [start for start in profile.starts if not Placed(profile, start).mask & taken]


@cache
def layouts(gpu: str) -> tuple[tuple[Placed, ...], ...]:
    """All ways to fill a GPU to which nothing can be added, by the slices from 0 on."""
    return tuple(_filled(tuple(geometry(gpu).values()), (), 0, 0))


def _filled(
    profiles: Sequence[Profile], so_far: tuple[Placed, ...], taken: int, at: int
) -> Iterator[tuple[Placed, ...]]:
    if at == MEMORY_SLICES:
        if not any(free_starts(profile, taken) for profile in profiles):
            yield so_far
        return
    yield from _filled(profiles, so_far, taken, at + 1)
    for profile in profiles:
        if at in profile.starts:
            one = Placed(profile, at)
            yield from _filled(profiles, (*so_far, one), taken | one.mask, at + profile.memory)


def most_placed(jobs: Sequence[tuple[float, int]], gpus: Sequence[str]) -> int:
    """How many of the jobs, each of (gigabytes, compute slices), can have an instance of their own at once.

    By trying, one GPU after the other, how many of each kind it holds. Raises ValueError as :func:`geometry` does.
    """
    kinds = Counter(jobs)
    reached = {(0,) * len(kinds)}
    for gpu in gpus:
        held = _holds(tuple(kinds), tuple(kinds.values()), gpu)
        reached = _most({tuple(map(min, kinds.values(), map(add, one, other))) for one in reached for other in held})
    return max(map(sum, reached))


@cache
def _holds(kinds: tuple[tuple[float, int], ...], counts: tuple[int, ...], gpu: str) -> frozenset[tuple[int, ...]]:
    """How many of each kind one GPU can hold at once, where no other way has as many of each."""
    enough = [
        [one for one in geometry(gpu).values() if one.gb >= gb and one.compute >= compute] for gb, compute in kinds
    ]
    start = ((0,) * len(kinds), 0)
    states, frontier = {start}, [start]
    while frontier:
        held, taken = frontier.pop()
        for kind, profiles in enumerate(enough):
            if held[kind] == counts[kind]:
                continue
            more = (*held[:kind], held[kind] + 1, *held[kind + 1 :])
            new = {(more, taken | Placed(one, at).mask) for one in profiles for at in free_starts(one, taken)} - states
            states |= new
            frontier += new
    return frozenset(_most({held for held, _ in states}))


def _most(sets: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Without those of which another has as many of each kind."""
    return {one for one in sets if not any(one != other and all(map(le, one, other)) for other in sets)}
