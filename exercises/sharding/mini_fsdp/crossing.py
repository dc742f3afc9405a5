"""E15.2: whether each of a rank's parts was gathered and its gradients reduced as often as is due, and nothing else crossed."""

from collections import Counter

import torch

from autograder.judge.ranks import Launch, Span, handed_in, is_of_all
from exercises.sharding.mini_fsdp.training import Tensor, Training, is_near_in_any_order

_ELSEWHERE = "Something crosses in another group than the default one: all ranks have a part in all that crosses."


def gathers_problem(played: Training) -> str | None:
    for rank, (call, *passes) in enumerate(played.spans):
        if call.launches:
            return "Something crosses before the first pass: the ranks begin with the same weights."
        for one in passes:
            if problem := _crossed_problem(played, rank, one) or _often_problem(often(played.parts[rank][0], one)):
                return problem
    return None


def _crossed_problem(played: Training, rank: int, one: Span) -> str | None:
    reduced = reductions(played.parts[rank], one)
    others = [launch for launch in one.launches if launch not in reduced]
    lengths = [part.nbytes for part in played.parts[rank][0]]
    if len(one.marks) + 1 < len(one.told):
        return "A unit runs more than once in a step: what it computed is not to be computed again."
    if not all(is_of_all(launch.collective, played.case.ranks) for launch in others):
        return _ELSEWHERE
    if any(launch.operation != "all_gather" for launch in others):
        return "Something else crosses than all-gathers of parameters and reduce-scatters of gradients."
    if any(launch.dtype != "float32" or len(launch.given) not in lengths for launch in others):
        return "An all-gather has another size or dtype than a unit's parts: a unit crosses in one flat tensor."
    if not are_parts(played.parts[rank], one):
        return "What a rank hands in to an all-gather is not its part of the unit."
    return None


def _often_problem(gathered: list[float]) -> str | None:
    if min(gathered) < 1:
        return "A unit runs without an all-gather: between passes no rank has all of its parameters."
    if min(gathered) < 2:
        return "A unit is not gathered again for its backward pass: it was freed after its forward pass, or should have been."
    return "A unit is gathered more than once forward and once backward." if max(gathered) > 2 else None


def often(parts: list[Tensor], one: Span) -> list[float]:
    """Of each part, how often one of its length was gathered."""
    lengths = [part.nbytes for part in parts]
    gathered = Counter(len(launch.given) for launch in one.launches if launch.operation == "all_gather")
    return [gathered[nbytes] / lengths.count(nbytes) for nbytes in lengths]


def are_parts(parts: list[list[Tensor]], one: Span) -> bool:
    """Whether all that a rank hands in to all-gathers of a part's length are its ``parts``, as they were at any time."""
    lengths = [part.nbytes for part in parts[0]]
    gathers = [launch for launch in one.launches if launch.operation == "all_gather" and len(launch.given) in lengths]
    return all(_is_a_part(parts, launch) for launch in gathers)


def reductions(parts: list[list[Tensor]], one: Span) -> list[Launch]:
    """What is reduced, but for a part among zeros."""
    return [launch for launch in one.launches if launch.reduces and not _is_a_part(parts, launch)]


def _is_a_part(parts: list[list[Tensor]], launch: Launch) -> bool:
    given = handed_in(launch.given, launch.dtype).float()
    given = given[given != 0]
    return any(len(given) <= part.numel() and torch.equal(given, part[part != 0]) for part in sum(parts, []))


def scattered_problem(played: Training) -> str | None:
    for rank, (parts, (_, *passes)) in enumerate(zip(played.parts, played.spans, strict=True)):
        for one in passes:
            reduced = reductions(parts, one)
            if not all(is_of_all(launch.collective, played.case.ranks) for launch in reduced):
                return _ELSEWHERE
            if any(launch.operation != "reduce_scatter" for launch in reduced):
                return "Gradients cross by another collective than a reduce-scatter, which sends a rank no more than its part."
            if len(reduced) != len(parts[0]):
                which = "More" if len(reduced) > len(parts[0]) else "Fewer"
                return f"{which} reduce-scatters cross in a step than there are units: one flat tensor is due for each."
            sizes = Counter((launch.dtype, len(launch.given)) for launch in reduced)
            if sizes != Counter(("float32", part.nbytes * played.case.ranks) for part in parts[0]):
                return "A reduce-scatter has another size or dtype than a unit's parameters with their padding."
        # later passes another fault may have spoilt: weights, or gradients that are left
        given = torch.cat([handed_in(launch.given, launch.dtype) for launch in reductions(parts, passes[0])])
        if not any(is_near_in_any_order(by * given, played.due[0].own[rank]) for by in (1, played.case.ranks)):
            return "What a rank hands in to a reduce-scatter are not its own gradients of the unit in this pass."
    return None
