"""E3.4 regroup: cases and judge."""

from collections.abc import Iterator, Sequence

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from exercises.execution.launches import one_launch_problem
from gpulab import Observation
from gpulab.observe.launches import SECTOR_BYTES, WARP

_KIND_BYTES, _VALUE_BYTES = 8, 4
_BRANCHES = 4
"""Of the scenario's kernel; objects of further kinds take the last one."""
_LARGEST = 99_999


def _cases(sampler: Sampler) -> Iterator[Case]:
    """Two kinds, four, some that are far apart, aligned runs, runs among mixed warps, one warp, one kind, more than a block holds.

    And kinds of few objects: numbers that end alike, and more kinds than calls may be nested.
    """
    two, apart = sampler.permutation(range(_BRANCHES))[:2], [1, sampler.integer(5, 9), sampler.integer(1000, 2000)]
    runs = [kind for _ in range(4) for kind in sampler.permutation(range(3)) for _ in range(WARP)]
    for kinds in sampler.shuffled(
        _of_two(sampler, *two),
        _mixed(sampler, range(_BRANCHES), WARP * sampler.integer(17, 21)),
        _mixed(sampler, apart, WARP * sampler.integer(9, 12)),
        runs,
        [kind for run in sampler.permutation(range(3)) for kind in (*_mixed(sampler, range(3), WARP), *[run] * WARP)],
        _mixed(sampler, range(3), 1024 + WARP * sampler.integer(2, 4)),
        _mixed(sampler, [0, 1], WARP),
        [sampler.integer(0, 3)] * WARP * 2,
        _mixed(sampler, _ending_alike(sampler), 4 * WARP),
        sampler.permutation([*range(34 * WARP), *(sampler.integer(0, 99) for _ in range(2 * WARP))]),
    ):
        yield _case(("order", "splits", "sectors"), sampler, kinds)
    again = _case(("order", "splits", "sectors"), sampler, _mixed(sampler, range(_BRANCHES), 2 * WARP))
    again.inputs["refilled"] = True
    yield again


def _of_two(sampler: Sampler, one: int, other: int) -> list[int]:
    """Two kinds at random places. With one of them between halves of the other, warps split twice."""
    while True:
        n, ones = WARP * sampler.integer(13, 17), WARP * sampler.integer(5, 8) + sampler.integer(1, WARP - 1)
        halves = [(ones + up) // 2 for up in (0, 1)] + [(n - ones + up) // 2 for up in (0, 1)]
        if all(half % WARP and (n - half) % WARP for half in halves):
            return sampler.permutation([one] * ones + [other] * (n - ones))


def _ending_alike(sampler: Sampler) -> list[int]:
    """The largest number, and some that differ by a power of two or of ten: those that share a bucket are too many for one warp."""
    low = sampler.integer(0, 9)
    return [
        _LARGEST,
        low,
        *(low + base**power for base, powers in ((2, range(4, 17)), (10, range(1, 5))) for power in powers),
    ]


def _mixed(sampler: Sampler, kinds: Sequence[int], n: int) -> list[int]:
    """Each of the kinds, at random places: the first objects hold every kind at least twice."""
    first = [kind for kind in kinds for _ in range(2)]
    return sampler.permutation(first + [sampler.choice(kinds) for _ in range(n - len(first))])


def _case(criteria: tuple[str, ...], sampler: Sampler, kinds: list[int]) -> Case:
    turns = [sampler.integer(1, 6) for _ in range(_BRANCHES)]
    return Case(criteria, {"kinds": kinds, "turns": turns, "threads": sampler.choice([32, 64])})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    kinds = case.inputs["kinds"]
    problem = _order_problem(kinds, evidence) or _run_problem(kinds, case.inputs["turns"], evidence)
    if problem:
        yield Failure("order", problem)
        return
    (launch,) = Observation.from_dict(evidence["seen"]).launches
    order = evidence["order"]
    found, borders = splits(order, kinds), len(set(kinds)) - 1
    if found > borders:
        yield Failure(
            "splits",
            (
                f"Warps diverge {found / max(1, borders):.1f} times as often as one boundary between each two "
                "kinds needs: a warp whose lanes hold different kinds issues a branch for each of them."
            ),
        )
    if not _ascends(order, kinds):
        ratio = launch.sectors / _sectors(
            sorted(sorted(order), key=lambda j: _first(order, kinds).index(kinds[j])), kinds
        )
        yield Failure(
            "sectors",
            (
                f"Objects of one kind are not in ascending order, and {ratio:.2f} times the sectors move: in "
                "ascending order, neighbouring lanes read neighbouring objects and share sectors."
            ),
        )


def splits(order: list[int], kinds: list[int]) -> int:
    """Divergent branches of a kernel with a branch for each kind: a warp splits once for each further kind that it holds."""
    return sum(len({kinds[j] for j in order[at : at + WARP]}) - 1 for at in range(0, len(order), WARP))


def _ascends(order: list[int], kinds: list[int]) -> bool:
    of_kind: dict[int, list[int]] = {}
    for j in order:
        of_kind.setdefault(kinds[j], []).append(j)
    return all(objects == sorted(objects) for objects in of_kind.values())


def _first(order: list[int], kinds: list[int]) -> list[int]:
    """The kinds, in the order in which they come first."""
    return list(dict.fromkeys(kinds[j] for j in order))


def _order_problem(kinds: list[int], evidence: dict) -> str | None:
    order = evidence["order"]
    if type(order) is not list:
        return f"The function returned {type_name(order)}; expected a list."
    if evidence["kinds_after"] != kinds:
        return "The list of kinds is not as it was."
    if stranger := next((j for j in order if type(j) is not int), None):
        return f"The list holds {type_name(stranger)}; expected Python's own int: an array's `tolist()` gives them."
    if "seen" not in evidence:
        return "The result is not a permutation: expected every object exactly once."
    return None


def _run_problem(kinds: list[int], turns: list[int], evidence: dict) -> str | None:
    """Whether the kernel that ran over the order did its work: its values are known."""
    expected = [j + turns[branch] * (branch + 1) for j, branch in enumerate(min(kind, _BRANCHES - 1) for kind in kinds)]
    foreign = one_launch_problem(evidence, Observation.from_dict(evidence["seen"]), _VALUE_BYTES * len(kinds))
    if foreign or evidence["out"].tolist() != expected:
        return "The kernel did not run over the order as it is."
    return None


def _sectors(order: list[int], kinds: list[int]) -> int:
    """Sectors of the scenario's kernel: order itself, then kinds, x and out by the order; and ``turns``."""
    total = 0
    for at in range(0, len(order), WARP):
        lanes = order[at : at + WARP]
        total += WARP * _KIND_BYTES // SECTOR_BYTES
        total += len({j * _KIND_BYTES // SECTOR_BYTES for j in lanes})
        total += 2 * len({j * _VALUE_BYTES // SECTOR_BYTES for j in lanes})
        total += len({min(kinds[j], _BRANCHES - 1) for j in lanes})
    return total


exercise = Exercise(
    criteria=(
        Criterion("order", 1, "the result is a permutation of all objects"),
        Criterion("splits", 3, "warps diverge no more often than there are boundaries between kinds", ("order",)),
        Criterion(
            "sectors", 2, "objects of a kind are in ascending order, so that the gather stays coalesced", ("splits",)
        ),
    ),
    cases=_cases,
    judge=_judge,
)
