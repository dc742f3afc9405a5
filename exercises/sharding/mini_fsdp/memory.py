"""E15.2: what each rank's card held when a unit's forward or backward began, and between two passes."""

from exercises.sharding.mini_fsdp.launches import gathered
from exercises.sharding.mini_fsdp.log import Pass
from exercises.sharding.mini_fsdp.played import Played

_BLOCK_BYTES = 512
"""The card's allocator rounds up to these."""
_FORWARD, _BACKWARD = 2, 4
"""Of full size, in units of the largest: parameters of two, and in the backward pass gradients of two."""


def memory_problem(played: Played) -> str | None:
    if problem := _less_problem(played):
        return problem
    for number in range(len(played.passes)):
        for one in played.logged(number):
            for told, held, at in one.held:
                back = told % 2 == 1
                rest = _parts_bytes(played) + _grads_bytes(played, number, one, at) + played.largest // 2
                if held - rest > (_BACKWARD if back else _FORWARD) * played.largest:
                    return _TOO_MUCH_BACK if back else _TOO_MUCH
    return None


_TOO_MUCH = "When a unit's forward begins, the card holds more than the rank's parts and two whole units."
_TOO_MUCH_BACK = (
    "When a unit's backward begins, the card holds more than the rank's parts and two units' parameters and gradients."
)


def _less_problem(played: Played) -> str | None:
    """Why the figures cannot be the card's, which holds the parts all the time and runs every unit, or None."""
    parts, numbers = sum(unit.part_bytes for unit in played.units), {unit.number for unit in played.units}
    for said in played.rank_logs:
        held = [held for one in said.passes for _, held, _ in one.held]
        if min(said.held, *(one.left for one in said.passes), *held) < parts:
            return "The card holds less than the rank's parts, which lie there all the time."
        if not all(numbers <= {n for n, times in one.forward.items() if times} for one in said.passes):
            return "A unit does not run in a pass."
    return None


def between_problem(played: Played) -> str | None:
    if problem := _less_problem(played):
        return problem
    room = _parts_bytes(played) + played.largest // 4
    if any(said.held > room for said in played.rank_logs):
        return "After the call the card holds more than the rank's parts: something is still there that is to be freed."
    for number in range(len(played.passes)):
        if any(one.left > room + _grads_bytes(played, number, one, one.ended) for one in played.logged(number)):
            return "After a pass the card holds more than the rank's parts and their gradients."
    return None


def left_problem(played: Played) -> str | None:
    """Of passes that go forward alone: they are to leave what was there before, and to take no more than a step does.

    Where a step does not gather twice, units wait for their backward pass: that is another criterion's.
    """
    if problem := _less_problem(played):
        return problem
    room = played.largest // 4
    for said in played.rank_logs:
        keeps = any(times < 2 for times in gathered(played, said.passes[0]).values())
        before = said.held
        for step, one in zip(played.passes, said.passes, strict=True):
            if step["do"] == "no_grad" or step["do"] == "forward" and not keeps:
                if one.left > before + room:
                    return "A pass that goes forward alone leaves something on the card."
                if _rise(one, before) > _rise(said.passes[0], said.held) + room:
                    return "In a pass that goes forward alone the card holds more than in a step."
            before = one.left
    return None


def _rise(one: Pass, before: int) -> int:
    """By how much a pass takes more than was there, at most, when a unit's forward begins."""
    return max(held for told, held, _ in one.held if told % 2 == 0) - before


def _parts_bytes(played: Played) -> int:
    return sum(_rounded(unit.part_bytes) for unit in played.units)


def _grads_bytes(played: Played, number: int, one: Pass, at: int) -> int:
    """Of the parts' gradients that are there at a place of a pass: from the last unit on, so many as were reduced before it."""
    reduced = sum(launch.reduces and launch.at < at for launch in one.launches)
    if number and played.passes[number - 1]["then"] == "keep":
        reduced = len(played.units)
    return sum(_rounded(unit.part_bytes) for unit in played.units[max(0, len(played.units) - reduced) :])


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _BLOCK_BYTES) * _BLOCK_BYTES
