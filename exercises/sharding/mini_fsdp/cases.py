"""E15.2: what is drawn: models of unlike units, alike in all ranks, and each rank's own passes.

Units with padding, without parameters, with buffers, modules inside or odd strides are not where more than `shards` is
judged, nor is an input without a gradient where collectives are: what they cost is lost once.
"""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler

_WIDTH, _ROWS = 3, 2
_ODD, _ANY = (3, 5, 7), (3, 4, 5)
"""Inner sizes of blocks. A block with an odd one has an even number of elements."""
_LARGE_WIDTH, _LARGE_ODD = 64, range(191, 203, 2)
_TRAIN, _STEP, _ZERO = ("train", "keep"), ("train", "step"), ("train", "zero")


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_steps, _layouts, _large, _forward_alone, _refused):
        yield case(sampler)


def _steps(sampler: Sampler) -> Case:
    """The first unit gets nothing to pass a gradient to; two backward passes before a step."""
    first, second, third = (_block(sampler, inner) for inner in sampler.permutation(_ODD))
    return _case(sampler, ("gradients",), [first, second, _linear(sampler, _WIDTH), third], [_TRAIN, _STEP, _STEP])


def _layouts(sampler: Sampler) -> Case:
    """More ranks than a unit has parameters; units without any."""
    block = _block(sampler, sampler.choice(_ANY), rich=True)
    units = [{}, block, {}, {"by": _numbers(sampler)}, _linear(sampler, 2)]
    return _case(sampler, ("shards",), units, [_STEP, _TRAIN], world=3)


def _large(sampler: Sampler) -> Case:
    """Units of nearly one size, next to which nothing else counts."""
    units = [_block(sampler, inner, _LARGE_WIDTH) for inner in sampler.permutation(_LARGE_ODD)]
    return _case(sampler, ("gathers", "scattered", "memory"), units, [_TRAIN])


def _forward_alone(sampler: Sampler) -> Case:
    """The same step, twice, and again after each pass that goes forward alone, which finds gradients; nothing is trained."""
    units = [_block(sampler, inner, _LARGE_WIDTH) for inner in sampler.permutation(_LARGE_ODD)[:3]]
    passes = [_ZERO, *(p for alone in sampler.shuffled("no_grad", "forward") for p in (_TRAIN, (alone, "zero"))), _ZERO]
    case = _case(sampler, ("evaluation",), units, passes)
    for own in case.per_rank_inputs:
        own["passes"] = [one | {"x": own["passes"][0]["x"]} for one in own["passes"]]
    return case


def _refused(sampler: Sampler) -> Case:
    """Models that are to be refused, for a unit's own parameter or one of a module inside, and the like of them that are sound."""
    numbers = [("frozen", sampler.integer(0, 1)), ("frozen", sampler.integer(2, 3))]
    kinds, models = ("tied", "float64", sampler.choice(["float16", "bfloat16"]), "twice", "none"), []
    for kind, number in sampler.permutation([*numbers, *((kind, 0) for kind in kinds)]):
        blocks = [_block(sampler, inner, rich=True) for inner in sampler.permutation(_ANY)]
        fault = {"kind": kind, "unit": sampler.integer(2, 3), "number": number}
        models.append({"units": [_linear(sampler, _WIDTH), *blocks], "fault": fault})
    return Case(("errors",), {"world": 1, "refused": True}, ranks=1, per_rank_inputs=({"models": models},))


def _case(sampler: Sampler, criteria: tuple, units: list, passes: Sequence[tuple[str, str]], world: int = 2) -> Case:
    """``passes``: of each whether it goes back, and what follows it."""
    width, each = units[-1]["weight"].shape[1], []
    for _ in range(world):
        own = [{"x": _numbers(sampler, _ROWS, width), "do": do, "then": then} for do, then in passes]
        each.append({"units": units, "passes": own})
    inputs = {"world": world, "refused": False, "lr": 1 / 64, "with_gradient": "gradients" not in criteria}
    return Case(criteria, inputs, ranks=world, per_rank_inputs=tuple(each))


def _block(sampler: Sampler, inner: int, width: int = _WIDTH, rich: bool = False) -> dict:
    """``rich``: with a buffer, a module inside and a parameter that lies by columns."""
    down = 0.5 / inner * _WIDTH * _numbers(sampler, width, inner).t()
    return {
        "g": 0.5 * _numbers(sampler),
        "down": down if rich else down.contiguous(),
        "weight": _WIDTH / width * 0.3 * _numbers(sampler, inner, width),
        "bias": 0.3 * _numbers(sampler, inner),
    } | ({"scale": 1 + 0.1 * _numbers(sampler, width)} if rich else {})


def _linear(sampler: Sampler, out: int) -> dict:
    return {"weight": 0.5 * _numbers(sampler, out, _WIDTH), "bias": 0.5 * _numbers(sampler, out)}


def _numbers(sampler: Sampler, *shape: int) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return sampler.values(*shape, kind="mixed") / 8
