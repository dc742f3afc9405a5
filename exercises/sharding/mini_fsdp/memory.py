"""E15.2: what each rank's card held when a unit's forward or backward began, and between two passes."""

from collections.abc import Iterator

from exercises.sharding.mini_fsdp.launches import runs_problem
from exercises.sharding.mini_fsdp.log import Pass
from exercises.sharding.mini_fsdp.played import Played

_BLOCK_BYTES = 512
"""The card's allocator rounds up to these."""
_FORWARD, _BACKWARD = 2, 4
"""Of full size, in units of the largest: parameters of two, and in the backward pass gradients of two."""


def memory_problem(played: Played) -> str | None:
    if problem := _less_problem(played):
        return problem
    for number, one in _passes(played):
        if problem := _vain_problem(played, number, one) or _held_problem(played, number, one):
            return problem
    return None


def _less_problem(played: Played) -> str | None:
    """Why the figures cannot be the card's, which holds the parts all the time, or None."""
    parts = sum(unit.part_bytes for unit in played.units)
    for said in played.rank_logs:
        figures = [
            said.held,
            *(one.left for one in said.passes),
            *(held for one in said.passes for _, held, _ in one.held),
        ]
        if min(figures) < parts:
            return "The card holds less than the rank's parts, which lie there all the time."
    return None


def _held_problem(played: Played, number: int, one: Pass) -> str | None:
    for told, held, at in one.held:
        back = told % 2 == 1
        rest = _parts_bytes(played) + _grads_bytes(played, number, one, at) + _largest(played) // 2
        if held - rest > (_BACKWARD if back else _FORWARD) * _largest(played):
            return _TOO_MUCH_BACK if back else _TOO_MUCH
    return None


_TOO_MUCH = (
    "When a unit's forward begins, the card holds more than two units' parameters: those before it are not freed."
)
_TOO_MUCH_BACK = "When a unit's backward begins, the card holds more than two units' parameters and gradients: those behind it are not freed."


def between_problem(played: Played) -> str | None:
    if problem := _less_problem(played):
        return problem
    for number, one in _passes(played):
        if problem := _vain_problem(played, number, one):
            return problem
    if any(said.held > _room(played) for said in played.rank_logs):
        return "After the call the card holds more than the rank's parts: something of full size is still there."
    return next(filter(None, (_left_problem(played, number, one) for number, one in _passes(played))), None)


def _left_problem(played: Played, number: int, one: Pass) -> str | None:
    if one.left > _room(played) + _grads_bytes(played, number, one, one.ended):
        return "After a pass the card holds more than the rank's parts and their gradients: something of full size is left."
    return None


def _room(played: Played) -> int:
    return _parts_bytes(played) + _largest(played) // 4


def forward_alone_problem(played: Played) -> str | None:
    """Of the passes that no backward pass follows."""
    if problem := _less_problem(played):
        return problem
    for number, one in _passes(played):
        if played.passes[number]["do"] != "train":
            if problem := _held_problem(played, number, one) or _left_problem(played, number, one):
                return problem
    return None


def _passes(played: Played) -> Iterator[tuple[int, Pass]]:
    for said in played.rank_logs:
        yield from enumerate(said.passes)


def _vain_problem(played: Played, number: int, one: Pass) -> str | None:
    """Why what is held says nothing, or None."""
    if problem := runs_problem(played, number, one):
        return problem
    gathered = {len(launch.given) for launch in one.launches if launch.operation == "all_gather"}
    if not gathered >= {unit.part_bytes for unit in played.units}:
        return "The units run without an all-gather of each: whatever they compute with lies there all the time."
    return None


def _largest(played: Played) -> int:
    """Bytes of the largest unit, padded."""
    return max(unit.part_bytes for unit in played.units) * played.world


def _parts_bytes(played: Played) -> int:
    return sum(_rounded(unit.part_bytes) for unit in played.units)


def _grads_bytes(played: Played, number: int, one: Pass, at: int) -> int:
    """Of the parts' gradients that are there at a place of a pass: from the last unit on, so many as were reduced before it."""
    reduced = sum(launch.reduces and launch.at < at for launch in one.launches)
    if number and played.passes[number - 1]["then"] != "to none":
        reduced = len(played.units)
    return sum(_rounded(unit.part_bytes) for unit in played.units[max(0, len(played.units) - reduced) :])


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _BLOCK_BYTES) * _BLOCK_BYTES
