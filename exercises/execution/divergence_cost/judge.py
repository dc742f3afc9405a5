"""E3.3 divergence_cost: cases and judge."""

from collections.abc import Iterator

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from gpulab.observe.launches import WARP


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield from sampler.shuffled(
        *_uniform(sampler), *_mixed(sampler), *_blocks(sampler), *_tails(sampler), *_alike_but_for_one(sampler)
    )


def _uniform(sampler: Sampler) -> Iterator[Case]:
    aligned = [
        kind for _ in range(sampler.integer(2, 4)) for kind in sampler.permutation([0, 1, 2]) for _ in range(WARP)
    ]
    yield _case("uniform", sampler, aligned, 3 * WARP)
    yield _case("uniform", sampler, aligned, 1024)
    yield Case(("uniform",), {"kinds": [0] * 2 * WARP, "costs": [sampler.integer(3, 9)], "threads": WARP})


def _alike_but_for_one(sampler: Sampler) -> Iterator[Case]:
    """What was kept of one call is wrong for another: of other costs, of other kinds, of other blocks."""
    two, dear = [0] * WARP + [1] * WARP, sampler.integer(20, 9999)
    for kinds, costs in ((two, [dear, 3]), (two, [dear, 5]), ([0] * 2 * WARP, [dear, 3])):
        yield Case(("uniform",), {"kinds": kinds, "costs": costs, "threads": WARP})
    yield Case(("uniform",), {"kinds": two, "costs": [dear, 7], "threads": WARP, "refilled": True})
    for threads in (WARP, WARP // 2):
        yield Case(("blocks",), {"kinds": [1] * 3 * WARP, "costs": [3, dear], "threads": threads})


def _mixed(sampler: Sampler) -> Iterator[Case]:
    yield _case("mixed", sampler, [sampler.integer(0, 1) for _ in range(WARP * sampler.integer(4, 8))], 4 * WARP)
    yield _case("mixed", sampler, _runs(sampler, WARP * sampler.integer(5, 9)), 2 * WARP)
    many = sampler.permutation(range(40))
    yield Case(("mixed",), {"kinds": many * 4, "costs": [sampler.integer(1, 99) for _ in many], "threads": 2 * WARP})
    yield _of_many_kinds(sampler)
    alike = sampler.integer(3, 9)
    yield Case(("mixed",), {"kinds": [0, 1, 3] * WARP, "costs": [alike, alike, 1000, alike, 0], "threads": 3 * WARP})
    yield Case(("mixed",), {"kinds": [2, 0] * WARP, "costs": [0, alike, alike], "threads": 2 * WARP})


def _of_many_kinds(sampler: Sampler) -> Case:
    """More kinds than calls may be nested, some of whose numbers end alike, and costs whose sum no float holds."""
    kinds = sampler.permutation(range(34 * WARP))
    costs = [2**62, 1, *(2 * sampler.integer(1, 49) for _ in kinds[2:])]  # the sum is odd
    return Case(("mixed",), {"kinds": kinds, "costs": costs, "threads": 2 * WARP})


def _blocks(sampler: Sampler) -> Iterator[Case]:
    """Blocks of less than a warp, of one thread, and such as end in a part of one."""
    yield _case("blocks", sampler, _halves(sampler), WARP + WARP // 2)
    less = sampler.integer(2, WARP - 1)
    yield _case("blocks", sampler, _runs(sampler, 1200), 1)
    for threads in sampler.shuffled(1, less, WARP - 1, WARP + 1, 1000):
        yield _case("blocks", sampler, _runs(sampler, 4 * threads if threads < 100 else 1100), threads)


def _tails(sampler: Sampler) -> Iterator[Case]:
    last = sampler.integer(3, 20)
    yield _case("tail", sampler, [0] * WARP * sampler.integer(1, 3) + [1] * last, 2 * WARP)
    yield _case("tail", sampler, [2] * sampler.integer(1, 9), 2 * WARP)
    for threads in (WARP, 1024):
        yield _case("tail", sampler, [1], threads)
    yield _case("tail", sampler, [1] * (2 * WARP) + [2], 2 * WARP)


def _case(criteria: str, sampler: Sampler, kinds: list[int], threads: int) -> Case:
    costs = sampler.permutation([sampler.integer(3, 9), sampler.integer(21, 39), sampler.integer(101, 199)])
    return Case((criteria,), {"kinds": kinds, "costs": costs, "threads": threads})


def _runs(sampler: Sampler, n: int) -> list[int]:
    """Kinds in runs of 5 to 40, so that some warps hold one, some two and some three."""
    kinds: list[int] = []
    while len(kinds) < n:
        kinds += [sampler.integer(0, 2)] * sampler.integer(5, 40)
    return kinds[:n]


def _halves(sampler: Sampler) -> list[int]:
    """For blocks of 48: the kind changes with every block's first warp and with its last, half one."""
    return [kind for _ in range(sampler.integer(2, 4)) for kind in [0] * WARP + [1] * (WARP // 2)]


def cost(kinds: list[int], costs: list[int], threads: int) -> int:
    """Instructions that warps issue in branches: each warp, those of each kind that it holds."""
    warps: dict[tuple[int, int], set[int]] = {}
    for thread, kind in enumerate(kinds):
        warps.setdefault((thread // threads, thread % threads // WARP), set()).add(kind)
    return sum(costs[kind] for held in warps.values() for kind in held)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    if problem := _problem(case.inputs, evidence):
        yield Failure(criteria, problem)


def _problem(inputs: dict, evidence: dict) -> str | None:
    result = evidence["result"]
    kinds, costs, threads = (inputs[name] for name in ("kinds", "costs", "threads"))
    if evidence["called"]:
        return f"The function calls {evidence['called'][0]}; expected plain Python."
    if type(result) is not int:
        return f"The function returned {type_name(result)}; expected an int."
    if evidence["after"] != [kinds, costs]:
        return "The lists that were handed over are not as they were."
    if result == cost(kinds, costs, threads):
        return None
    warps = sum(-(-len(kinds[at : at + threads]) // WARP) for at in range(0, len(kinds), threads))
    if result == warps * sum(costs):
        return "Every warp is charged for every branch: a warp whose lanes all take one branch issues only that one."
    if result == cost(kinds, costs, len(kinds)):
        return "A block's last warp ends with the block: the next block starts a warp of its own."
    if result == cost(kinds, costs, threads=1):
        return "Every thread is charged: the lanes of a warp that take the same branch share its instructions."
    return "That is not what the warps issue: a warp issues each branch that any of its lanes takes, once, whole."


exercise = Exercise(
    criteria=(
        Criterion("uniform", 1, "warps of one kind issue one branch each"),
        Criterion("mixed", 2, "a warp of several kinds issues each of their branches", ("uniform",)),
        Criterion("blocks", 1, "a block that is not a multiple of 32 ends in a partial warp", ("uniform",)),
        Criterion("tail", 1, "the last warp of the launch counts with its active threads only", ("uniform",)),
    ),
    cases=_cases,
    judge=_judge,
)
