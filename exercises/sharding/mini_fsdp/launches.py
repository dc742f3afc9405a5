"""E15.2: whether each unit was gathered, and its gradients reduced, in its turn."""

import torch

from autograder.judge.ranks import Launch, is_of_all
from exercises.sharding.mini_fsdp.log import Pass, handed_in
from exercises.sharding.mini_fsdp.played import Played

_NEAR = 2e-5
Tensor = torch.Tensor


def gathers_problem(played: Played) -> str | None:
    for said in played.rank_logs:
        if said.before:
            return "Something crosses before the first pass: the ranks begin with the same weights."
        if said.after:
            return "Something crosses after the last pass."
    for number in range(len(played.passes)):
        for rank in range(played.world):
            if problem := _pass_problem(played, number, rank):
                return problem
    return None


def _pass_problem(played: Played, number: int, rank: int) -> str | None:
    one = played.rank_logs[rank].passes[number]
    if problem := runs_problem(played, number, one) or _twice_problem(one):
        return problem
    if any(not is_of_all(launch.collective, played.world) for launch in one.launches):
        return _ELSEWHERE
    if any(launch.operation != "all_gather" and not launch.reduces for launch in one.launches):
        return "Something else crosses than all-gathers of parameters and reduce-scatters of gradients."
    gathers = [launch for launch in one.launches if launch.operation == "all_gather"]
    if any(not _is_whole(played, launch) for launch in gathers):
        return "An all-gather has another size or dtype than a unit's parts: a unit crosses in one flat tensor."
    for i, unit in enumerate(played.units):
        of_it = [launch for launch in gathers if len(launch.given) == unit.part_bytes]
        if any(not torch.equal(handed_in(launch), played.parts[rank][number][i]) for launch in of_it):
            return "What a rank hands in to an all-gather is not what its part of the unit holds at the time."
        if problem := _turn_problem(played, number, i, one, [launch.at for launch in of_it]):
            return problem
    return None


def runs_problem(played: Played, number: int, one: Pass) -> str | None:
    """Why not every unit ran, or None."""
    back = played.passes[number]["do"] == "train"
    if any(unit.number not in one.forward or (unit.number in one.backward) != back for unit in played.units):
        return "A unit does not run in a pass, or not backward."
    return None


def _twice_problem(one: Pass) -> str | None:
    if any(len(at) > 1 for runs in (one.forward, one.backward) for at in runs.values()):
        return "A unit runs more than once in a pass: what it computed is not to be computed again."
    return None


def _is_whole(played: Played, launch: Launch) -> bool:
    entry = launch.collective.entry
    sizes = {unit.part_bytes for unit in played.units}
    return entry.dtype == "float32" and len(launch.given) in sizes


def _turn_problem(played: Played, number: int, i: int, one: Pass, at: list[int]) -> str | None:
    """Why a unit that is gathered at the places ``at`` is not gathered in its turn, or None."""
    if not at:
        return "A unit runs without an all-gather: between passes no rank has all of its parameters."
    if problem := _forward_problem(played, i, one, at[0]):
        return problem
    if played.passes[number]["do"] != "train":
        return "A pass that goes forward alone gathers a unit more than once." if len(at) > 1 else None
    if len(at) > 2:
        return "A unit is gathered more than twice in a step: once for the forward pass and once for the backward pass."
    if len(at) < 2:
        return _ONCE if played.units[i].needed else None
    return _backward_problem(played, i, one, at[1])


def _forward_problem(played: Played, i: int, one: Pass, at: int) -> str | None:
    numbers = [unit.number for unit in played.units]
    if i >= 2 and at < one.begins(numbers[i - 2]):
        return "In the forward pass a unit is gathered too early: more than two units are whole at once."
    if i + 1 < len(numbers) and at > one.begins(numbers[i + 1]):
        return "In the forward pass a unit is gathered after its turn."
    return None


def _backward_problem(played: Played, i: int, one: Pass, at: int) -> str | None:
    numbers = [unit.number for unit in played.units]
    after = one.begins(numbers[i + 2], backward=True) if i + 2 < len(numbers) else one.begins(numbers[-1])
    if at < after:
        return "In the backward pass a unit is gathered too early: more than two units are whole at once."
    if i and at > one.begins(numbers[i - 1], backward=True):
        return "In the backward pass a unit is gathered after its turn."
    return None


_ELSEWHERE = (
    "Something crosses in another group than the default process group: all ranks have a part in all that crosses."
)
_ONCE = "A unit is not gathered again for its backward pass: it was freed after its forward pass, or should have been."


# ---- gradients


def scattered_problem(played: Played) -> str | None:
    for number, what in enumerate(played.passes):
        for rank in range(played.world):
            one = played.rank_logs[rank].passes[number]
            if problem := runs_problem(played, number, one) or _reduced_problem(played, number, rank, one):
                return problem
            if what["do"] == "train" and (problem := _turns_problem(played, one)):
                return problem
    return None


def _reduced_problem(played: Played, number: int, rank: int, one: Pass) -> str | None:
    reduced = [launch for launch in one.launches if launch.reduces]
    if any(not is_of_all(launch.collective, played.world) for launch in reduced):
        return _ELSEWHERE
    if any(launch.operation != "reduce_scatter" for launch in reduced):
        return "Gradients cross by another collective than a reduce-scatter, which sends a rank no more than its part."
    if any(launch.collective.entry.reduces not in ("SUM", "AVG") for launch in reduced):
        return "A reduce-scatter takes something else than a sum or a mean."
    if played.passes[number]["do"] != "train":
        return "A pass that goes forward alone reduces something." if reduced else None
    if len(reduced) != len(played.units):
        which = "More" if len(reduced) > len(played.units) else "Fewer"
        return f"{which} reduce-scatters cross in a step than there are units: one flat tensor is due for each."
    for i, unit in enumerate(played.units):
        launch = _of_unit(reduced, unit.part_bytes * played.world)
        if launch is None or launch.collective.entry.dtype != "float32":
            return "A reduce-scatter has another size or dtype than a unit's parameters with their padding."
        expected = played.own(rank, number)[i][: played.world * unit.part - played.padding(i)]
        if not _is_own(launch, expected, (1, played.world), _NEAR * played.size(number, expected)):
            return "What a rank hands in to a reduce-scatter are not its own gradients of the unit, laid out like the parts."
    return None


def _of_unit(reduced: list[Launch], nbytes: int) -> Launch | None:
    return next((launch for launch in reduced if len(launch.given) == nbytes), None)


def _is_own(launch: Launch, expected: Tensor, factors: tuple[int, ...], near: float) -> bool:
    """What stands behind ``expected`` may be anything."""
    given = handed_in(launch).double()[: len(expected)]
    return any(bool(((factor * given - expected).abs() <= near).all()) for factor in factors)


def _turns_problem(played: Played, one: Pass) -> str | None:
    numbers = [unit.number for unit in played.units]
    for i, unit in enumerate(played.units):
        launch = _of_unit([launch for launch in one.launches if launch.reduces], unit.part_bytes * played.world)
        if launch.at < one.begins(numbers[i], backward=True):
            return "A unit's gradients are reduced before its backward pass."
        if i >= 2 and launch.at > one.begins(numbers[i - 2], backward=True):
            return "A unit's gradients are reduced later than they could be: units before it go backward meanwhile."
    return None
