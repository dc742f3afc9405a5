"""E3.2 divergence_cost: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import type_name

_WARP = 32


def _cases(draw: Draw) -> Iterator[Case]:
    aligned = [kind for _ in range(draw.integer(2, 4)) for kind in draw.shuffled([0, 1, 2]) for _ in range(_WARP)]
    yield _case("uniform", draw, aligned, 3 * _WARP)
    yield _case("mixed", draw, [draw.integer(0, 1) for _ in range(_WARP * draw.integer(4, 8))], 4 * _WARP)
    yield _case("mixed", draw, _runs(draw, _WARP * draw.integer(5, 9)), 2 * _WARP)
    yield _case("blocks", draw, _halves(draw), _WARP + _WARP // 2)
    last = draw.integer(3, 20)
    yield _case("tail", draw, [0] * _WARP * draw.integer(1, 3) + [1] * last, 2 * _WARP)
    yield _case("tail", draw, [2] * draw.integer(1, 9), 2 * _WARP)


def _case(about: str, draw: Draw, kinds: list[int], threads: int) -> Case:
    costs = draw.shuffled([draw.integer(3, 9), draw.integer(21, 39), draw.integer(101, 199)])
    return Case((about,), {"kinds": kinds, "costs": costs, "threads": threads})


def _runs(draw: Draw, n: int) -> list[int]:
    """Kinds in runs of 5 to 40, so that some warps hold one, some two and some three."""
    kinds: list[int] = []
    while len(kinds) < n:
        kinds += [draw.integer(0, 2)] * draw.integer(5, 40)
    return kinds[:n]


def _halves(draw: Draw) -> list[int]:
    """For blocks of 48: the kind changes with every block's first warp and with its last, half one."""
    return [kind for _ in range(draw.integer(2, 4)) for kind in [0] * _WARP + [1] * (_WARP // 2)]


def cost(kinds: list[int], costs: list[int], threads: int) -> int:
    """Instructions that warps issue in branches: each warp, those of each kind that it holds."""
    warps: dict[tuple[int, int], set[int]] = {}
    for thread, kind in enumerate(kinds):
        warps.setdefault((thread // threads, thread % threads // _WARP), set()).add(kind)
    return sum(costs[kind] for held in warps.values() for kind in held)


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    if problem := _problem(case.inputs, evidence):
        yield Lost(about, problem)


def _problem(inputs: dict, evidence: dict) -> str | None:
    result = evidence["result"]
    if evidence["called"]:
        return f"The function calls {evidence['called'][0]}; plain Python is due."
    if type(result) is not int:
        return f"The function returned {type_name(result)}; an int is due."
    kinds, costs, threads = (inputs[name] for name in ("kinds", "costs", "threads"))
    if result == cost(kinds, costs, threads):
        return None
    warps = sum(-(-len(kinds[at : at + threads]) // _WARP) for at in range(0, len(kinds), threads))
    if result == warps * sum(costs):
        return "Every warp is charged for every branch: a warp whose lanes all take one branch issues only that one."
    if result == cost(kinds, costs, len(kinds)):
        return "A block's last warp ends with the block: the next block starts a warp of its own."
    if result == cost(kinds, costs, threads=1):
        return "Every thread is charged: the lanes of a warp that take the same branch share its instructions."
    return "That is not what the warps issue: a warp issues each branch that any of its lanes takes, once, whole."


divergence_cost = Exercise(
    "execution.divergence_cost",
    criteria=(
        Criterion("uniform", 1, "warps of one kind issue one branch each"),
        Criterion("mixed", 2, "a warp of several kinds issues each of their branches", ("uniform",)),
        Criterion("blocks", 1, "a block that is no multiple of 32 ends in a warp that is not full", ("uniform",)),
        Criterion("tail", 1, "the last warp of the launch counts, and only for who is in it", ("uniform",)),
    ),
    cases=_cases,
    judge=_judge,
)
