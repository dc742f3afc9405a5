"""E3.3 divergence_cost: cases and judge."""

from collections.abc import Iterable, Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from gpulab.observe.launches import WARP

Launch = tuple[list[int], list[int], int]
"""The kind of each thread, the instructions of each kind, the threads of a block."""


def _cases(sampler: Sampler) -> Iterator[Questions]:
    for criterion, questions in sampler.shuffled(
        ("uniform", _uniform), ("uniform", _alike_but_for_one), ("mixed", _mixed), ("blocks", _blocks), ("tail", _tails)
    ):
        yield ask(criterion, list(questions(sampler)))


def _uniform(sampler: Sampler) -> Iterator[Launch]:
    aligned = [
        kind for _ in range(sampler.integer(2, 4)) for kind in sampler.permutation([0, 1, 2]) for _ in range(WARP)
    ]
    yield aligned, _costs(sampler), 3 * WARP
    yield aligned, _costs(sampler), 1024
    yield [0] * 2 * WARP, [sampler.integer(3, 9)], WARP


def _alike_but_for_one(sampler: Sampler) -> Iterator[Launch]:
    """What was kept of one call is wrong for another, of other costs or other kinds."""
    two, dear = [0] * WARP + [1] * WARP, sampler.integer(20, 9999)
    yield two, [dear, 3], WARP
    yield two, [dear, 5], WARP
    yield [0] * 2 * WARP, [dear, 3], WARP
    yield two, [dear, 7], WARP


def _mixed(sampler: Sampler) -> Iterator[Launch]:
    yield [sampler.integer(0, 1) for _ in range(WARP * sampler.integer(4, 8))], _costs(sampler), 4 * WARP
    yield _runs(sampler, WARP * sampler.integer(5, 9)), _costs(sampler), 2 * WARP
    many = sampler.permutation(range(40))
    yield many * 4, [sampler.integer(1, 99) for _ in many], 2 * WARP
    yield _of_many_kinds(sampler)
    alike = sampler.integer(3, 9)
    yield [0, 1, 3] * WARP, [alike, alike, 1000, alike, 0], 3 * WARP
    yield [2, 0] * WARP, [0, alike, alike], 2 * WARP


def _of_many_kinds(sampler: Sampler) -> Launch:
    """More kinds than calls may be nested, some of whose numbers end alike, and costs whose sum no float holds."""
    kinds = sampler.permutation(range(34 * WARP))
    return kinds, [2**62, 1, *(2 * sampler.integer(1, 49) for _ in kinds[2:])], 2 * WARP  # the sum is odd


def _blocks(sampler: Sampler) -> Iterator[Launch]:
    """Blocks of less than a warp, of one thread, and such as end in a part of one; one launch in blocks of two sizes."""
    yield _halves(sampler), _costs(sampler), WARP + WARP // 2
    less = sampler.integer(2, WARP - 1)
    yield _runs(sampler, 1200), _costs(sampler), 1
    for threads in sampler.shuffled(1, less, WARP - 1, WARP + 1, 1000):
        yield _runs(sampler, 4 * threads if threads < 100 else 1100), _costs(sampler), threads
    dear = sampler.integer(20, 9999)
    yield from (([1] * 3 * WARP, [3, dear], threads) for threads in (WARP, WARP // 2))


def _tails(sampler: Sampler) -> Iterator[Launch]:
    last = sampler.integer(3, 20)
    yield [0] * WARP * sampler.integer(1, 3) + [1] * last, _costs(sampler), 2 * WARP
    yield [2] * sampler.integer(1, 9), _costs(sampler), 2 * WARP
    yield from (([1], _costs(sampler), threads) for threads in (WARP, 1024))
    yield [1] * (2 * WARP) + [2], _costs(sampler), 2 * WARP


def _costs(sampler: Sampler) -> list[int]:
    return sampler.permutation([sampler.integer(3, 9), sampler.integer(21, 39), sampler.integer(101, 199)])


def _runs(sampler: Sampler, n: int) -> list[int]:
    """Kinds in runs of 5 to 40, so that some warps hold one, some two and some three."""
    kinds: list[int] = []
    while len(kinds) < n:
        kinds += [sampler.integer(0, 2)] * sampler.integer(5, 40)
    return kinds[:n]


def _halves(sampler: Sampler) -> list[int]:
    """For blocks of 48: the kind changes with every block's first warp and with its last, half one."""
    return [kind for _ in range(sampler.integer(2, 4)) for kind in [0] * WARP + [1] * (WARP // 2)]


def _held_by_warps(kinds: list[int], threads: int) -> Iterable[set[int]]:
    """The kinds that each warp holds."""
    warps: dict[tuple[int, int], set[int]] = {}
    for thread, kind in enumerate(kinds):
        warps.setdefault((thread // threads, thread % threads // WARP), set()).add(kind)
    return warps.values()


def cost(kinds: list[int], costs: list[int], threads: int) -> int:
    """Instructions that warps issue in branches: each warp, those of each kind that it holds."""
    return sum(costs[kind] for held in _held_by_warps(kinds, threads) for kind in held)


def _wrong(criterion: str, launch: Launch, result: Any) -> str | None:
    kinds, costs, threads = launch
    if type(result) is not int:
        return f"The function returned {type_name(result)}; expected an int."
    if result == cost(kinds, costs, threads):
        return None
    warps = sum(-(-len(kinds[at : at + threads]) // WARP) for at in range(0, len(kinds), threads))
    if result == warps * sum(costs):
        return "Every warp is charged for every branch: a warp whose lanes all take one branch issues only that one."
    if result == cost(kinds, costs, len(kinds)):
        return "A block's last warp ends with the block: the next block starts a warp of its own."
    if result == cost(kinds, costs, threads=1):
        return "Every thread is charged: the lanes of a warp that take the same branch share its instructions."
    if result == sum(max(costs[kind] for kind in held) for held in _held_by_warps(kinds, threads)):
        return (
            "Each warp is charged for its dearest branch alone: it issues one branch after the other, and they add up."
        )
    return "That is not what the warps issue: a warp issues each branch that any of its lanes takes, once, whole."


def _traits(kinds: list[int], costs: list[int], threads: int) -> dict[str, str]:
    several = sum(len(held) > 1 for held in _held_by_warps(kinds, threads))
    return {
        "`threads`": "a multiple of 32" if threads % WARP == 0 else "no multiple of 32",
        "the last block": "full" if len(kinds) % threads == 0 else "not full",
        "a warp of several kinds": "there" if several else "not there",
        "the number of kinds": "1" if len({*kinds}) == 1 else "2 or more",
        "the number of warps": "1" if len(kinds) <= min(threads, WARP) else "2 or more",
    }


exercise = answers(
    criteria=(
        Criterion("uniform", 1, "warps of one kind issue one branch each"),
        Criterion("mixed", 2, "a warp of several kinds issues each of their branches", ("uniform",)),
        Criterion("blocks", 1, "a block that is not a multiple of 32 ends in a partial warp", ("uniform",)),
        Criterion("tail", 1, "the last warp of the launch counts with its active threads only", ("uniform",)),
    ),
    cases=_cases,
    arguments=lambda launch: launch,
    wrong=_wrong,
    kept="The lists that were handed over are not as they were.",
    traits=lambda launch: _traits(*launch),
)
