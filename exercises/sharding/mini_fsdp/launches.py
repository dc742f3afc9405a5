"""E15.2: whether each unit was gathered, and its gradients reduced, as often as is due, and nothing else crossed."""

from collections import Counter

import torch

from autograder.judge.ranks import Launch, handed_in, is_of_all
from exercises.sharding.mini_fsdp.log import Pass
from exercises.sharding.mini_fsdp.played import Played, is_near_in_any_order

_ELSEWHERE = (
    "Something crosses in another group than the default process group: all ranks have a part in all that crosses."
)
_ONCE = "A unit is not gathered again for its backward pass: it was freed after its forward pass, or should have been."


def gathers_problem(played: Played) -> str | None:
    if any(said.before for said in played.rank_logs):
        return "Something crosses before the first pass: the ranks begin with the same weights."
    for number in range(len(played.passes)):
        for rank, one in enumerate(played.logged(number)):
            if problem := _crossed_problem(played, one) or _pass_problem(played, number, rank, one):
                return problem
    return None


def _crossed_problem(played: Played, one: Pass) -> str | None:
    if max(one.forward.values(), default=0) > 1:
        return "A unit runs more than once in a step: what it computed is not to be computed again."
    others = [launch for launch in one.launches if not launch.reduces]
    if any(not is_of_all(launch.collective, played.world) for launch in others):
        return _ELSEWHERE
    if any(launch.operation != "all_gather" for launch in others):
        return "Something else crosses than all-gathers of parameters and reduce-scatters of gradients."
    return None


def _pass_problem(played: Played, number: int, rank: int, one: Pass) -> str | None:
    counted = gathered(played, one)
    if sum(counted.values()) != sum(launch.operation == "all_gather" for launch in one.launches):
        return "An all-gather has another size or dtype than a unit's parts: a unit crosses in one flat tensor."
    for i, unit in enumerate(played.units):
        had = [played.parts[rank][earlier][i] for earlier in range(number + 1)]
        for launch in (launch for launch in one.launches if _is_gather_of(launch, unit.part_bytes)):
            if not any(torch.equal(handed_in(launch.given, launch.dtype), part) for part in had):
                return "What a rank hands in to an all-gather is not its part of the unit."
        back = played.passes[number]["do"] == "train"
        if counted[i] == 0:
            return "A unit runs without an all-gather: between passes no rank has all of its parameters."
        if counted[i] > 1 + back:
            return "A unit is gathered more than once forward and once backward."
        if back and counted[i] < 2:
            return _ONCE
    return None


def gathered(played: Played, one: Pass) -> Counter[int]:
    """How often each unit was gathered."""
    return Counter(
        i for launch in one.launches for i, unit in enumerate(played.units) if _is_gather_of(launch, unit.part_bytes)
    )


def hands_in(played: Played, rank: int, one: Pass) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What went into a unit's all-gather, and what the rank's part was at the beginning."""
    pairs = [
        (launch, i)
        for launch in one.launches
        for i, unit in enumerate(played.units)
        if _is_gather_of(launch, unit.part_bytes)
    ]
    return [(handed_in(launch.given, launch.dtype), played.parts[rank][0][i]) for launch, i in pairs]


def _is_gather_of(launch: Launch, nbytes: int) -> bool:
    return launch.operation == "all_gather" and launch.dtype == "float32" and len(launch.given) == nbytes


def scattered_problem(played: Played) -> str | None:
    """What is handed in is looked at in the first pass: later another fault may have spoilt weights or left gradients."""
    for number in range(len(played.passes)):
        for rank, one in enumerate(played.logged(number)):
            reduced = [launch for launch in one.launches if launch.reduces]
            problem = _reduced_problem(played, reduced)
            if problem or number == 0 and (problem := _given_problem(played, number, rank, reduced)):
                return problem
    return None


def _reduced_problem(played: Played, reduced: list[Launch]) -> str | None:
    if any(not is_of_all(launch.collective, played.world) for launch in reduced):
        return _ELSEWHERE
    if any(launch.operation != "reduce_scatter" for launch in reduced):
        return "Gradients cross by another collective than a reduce-scatter, which sends a rank no more than its part."
    if len(reduced) != len(played.units):
        which = "More" if len(reduced) > len(played.units) else "Fewer"
        return f"{which} reduce-scatters cross in a step than there are units: one flat tensor is due for each."
    return None


def _given_problem(played: Played, number: int, rank: int, reduced: list[Launch]) -> str | None:
    for i, unit in enumerate(played.units):
        launch = next((one for one in reduced if len(one.given) == unit.part_bytes * played.world), None)
        if launch is None or launch.dtype != "float32":
            return "A reduce-scatter has another size or dtype than a unit's parameters with their padding."
        own = played.due[number].own[rank][i]
        if not any(is_near_in_any_order(by * handed_in(launch.given, launch.dtype), own) for by in (1, played.world)):
            return "What a rank hands in to a reduce-scatter are not its own gradients of the unit in this pass."
    return None
