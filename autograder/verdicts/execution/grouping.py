"""E3.2 regroup: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.execution.launches import one_launch_problem
from autograder.verdicts.expect import type_name
from gpulab import Observation
from gpulab.observe.launches import SECTOR_BYTES, WARP

_KIND_BYTES, _VALUE_BYTES = 8, 4
_KINDS = 4
_SLACK = 1.05
"""Which kind comes first decides where in a warp its objects begin, and so a few sectors."""


def _cases(draw: Draw) -> Iterator[Case]:
    about = ("order", "splits", "sectors")
    yield _case(about, draw, [draw.integer(0, 1) for _ in range(128 * draw.integer(4, 6))])
    yield _case(about, draw, [draw.integer(0, _KINDS - 1) for _ in range(128 * draw.integer(5, 7))])
    runs = [kind for _ in range(4) for kind in draw.shuffled(range(3)) for _ in range(WARP)]
    yield _case(about, draw, runs)


def _case(about: tuple[str, ...], draw: Draw, kinds: list[int]) -> Case:
    turns = [draw.integer(1, 6) for _ in range(_KINDS)]
    return Case(about, {"kinds": kinds, "turns": turns, "threads": draw.choice([32, 64])})


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    kinds = case.inputs["kinds"]
    problem = _order_problem(kinds, evidence) or _run_problem(kinds, case.inputs["turns"], evidence)
    if problem:
        yield Lost("order", problem)
        return
    (launch,) = Observation.from_dict(evidence["seen"]).launches
    if launch.total("divergent_branches") > len(set(kinds)) - 1:
        yield Lost(
            "splits",
            f"Warps split {launch.total('divergent_branches') / max(1, len(set(kinds)) - 1):.0f} times as often as they "
            "must: lanes of a warp that hold different kinds issue every branch of theirs.",
        )
    if launch.sectors > _SLACK * _sectors(sorted(range(len(kinds)), key=lambda j: kinds[j]), kinds):
        yield Lost(
            "sectors",
            "More sectors move than needed: the objects of a warp lie further apart than their kind makes them. Within "
            "a kind, ascending order keeps neighbours in one sector.",
        )


def _order_problem(kinds: list[int], evidence: dict) -> str | None:
    order = evidence["order"]
    if type(order) is not list:
        return f"The function returned {type_name(order)}; a list is due."
    if evidence["kinds_after"] != kinds:
        return "The list of kinds is not as it was."
    if "seen" not in evidence:
        return "The result is not an order: every object once, as an int."
    return None


def _run_problem(kinds: list[int], turns: list[int], evidence: dict) -> str | None:
    """Whether the kernel that ran over the order did its work: its values are known."""
    due = [j + turns[kind] * (kind + 1) for j, kind in enumerate(kinds)]
    foreign = one_launch_problem(evidence, Observation.from_dict(evidence["seen"]), _VALUE_BYTES * len(kinds))
    if foreign or evidence["out"].tolist() != due:
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
        total += len({kinds[j] for j in lanes})
    return total


regroup = Exercise(
    "execution.regroup",
    criteria=(
        Criterion("order", 1, "the result is an order of all objects"),
        Criterion("splits", 3, "warps split no more often than they must", ("order",)),
        Criterion("sectors", 2, "no more sectors move than with ascending order within each kind", ("splits",)),
    ),
    cases=_cases,
    judge=_judge,
)
