"""E15.2: what each rank's card held when a unit's forward or backward began, and between two passes.

All units are of nearly one size, next to which the allocator's rounding is nothing.
"""

from autograder.judge.ranks import Span
from exercises.sharding.mini_fsdp.crossing import often
from exercises.sharding.mini_fsdp.training import Training


def memory_problem(played: Training) -> str | None:
    whole = 4 * max(map(len, played.units))
    part = whole // played.case.ranks
    at_rest = len(played.units) * part + whole // 4
    for parts, (call, *passes) in zip(played.parts, played.spans, strict=True):
        if _left(call) > at_rest:
            return "After the call the card holds more than the rank's parts: something is still there that is to be freed."
        for one in passes:
            stay = sum(times == 1 for times in often(parts[0], one)) * whole  # not gathered again: lost elsewhere
            for told in one.told[:-1]:
                reduced = sum(launch.reduces and launch.at < told.at for launch in one.launches)
                back = told.number % 2  # then there may be gradients of two units besides
                more = told.measured[0] - at_rest - whole // 4 - reduced * part - stay
                if more > (4 if back else 2) * whole:
                    return _TOO_MUCH_BACK if back else _TOO_MUCH
            if _left(one) > 2 * at_rest:
                return "After a pass the card holds more than the rank's parts and their gradients."
    return None


_TOO_MUCH = "When a unit's forward begins, the card holds more than the rank's parts and two whole units."
_TOO_MUCH_BACK = (
    "When a unit's backward begins, the card holds more than the parts and two units' parameters and gradients."
)


def left_problem(played: Training) -> str | None:
    """Of passes that go forward alone, which are to leave what was there before, and to take no more than a step does.

    Where a step does not gather twice, units wait for their backward pass: that is another criterion's.
    """
    room = max(map(len, played.units))  # a quarter of its bytes
    for parts, spans in zip(played.parts, played.spans, strict=True):
        waits = min(often(parts[0], spans[1])) < 2
        passes = list(zip(played.passes, spans, spans[1:], strict=False))
        most = max(_rise(*spans) for step, *spans in passes if step["do"] == "train")
        for step, before, one in passes:
            alone = step["do"] == "no_grad" or step["do"] == "forward" and not waits
            if alone and _left(one) > _left(before) + room:
                return "A pass that goes forward alone leaves something on the card."
            if alone and _rise(before, one) > most + room:
                return "In a pass that goes forward alone the card holds more than in a step."
    return None


def _rise(before: Span, one: Span) -> int:
    """By how much a pass takes more than was there, at most, when a unit's forward begins."""
    return max(told.measured[0] for told in one.told if told.number % 2 == 0) - _left(before)


def _left(one: Span) -> int:
    return one.told[-1].measured[0]
