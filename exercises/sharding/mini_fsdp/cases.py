"""E15.2: what is drawn: models of unlike units, alike in all ranks, and each rank's own passes.

Units that the ranks do not divide, without parameters, with buffers, modules inside or odd strides are not where
gradients, collectives and memory are judged: what they cost is lost once.
"""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from exercises.sharding.mini_fsdp.units import sharded

_WIDTH, _ROWS = 3, 2
_ODD, _ANY = (3, 5, 7), (3, 4, 5, 6)
"""Sizes of blocks of which each makes parts of another length than all other units; of odd ones two ranks have equal parts."""
_LARGE_WIDTH, _LARGE_ODD = 64, range(191, 203, 2)
_TRAIN, _STEP = ("train", "keep"), ("train", "to none")


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_steps, _layouts, _large, _forward_alone, _refused):
        yield case(sampler)


def _steps(sampler: Sampler) -> Case:
    """The first unit gets nothing to pass a gradient to; two backward passes before a step."""
    first, second, third = (_block(sampler, inner) for inner in sampler.permutation(_ODD))
    units = [first, second, _linear(sampler, _WIDTH), third]
    return _case(sampler, ("gradients", "gathers", "scattered"), units, 2, [_TRAIN, _STEP, _STEP])


def _layouts(sampler: Sampler) -> Case:
    """More ranks than a unit has parameters; units without any."""
    inner = sampler.permutation(_ANY)
    units = [_bend(), _block(sampler, inner[0], rich=True), _bend(), _scale(sampler), _linear(sampler)]
    return _case(sampler, ("shards",), units, sampler.choice([3, 4]), [_STEP, _TRAIN])


def _large(sampler: Sampler) -> Case:
    """Units of nearly one size, next to which nothing else counts."""
    units = [_block(sampler, inner, _LARGE_WIDTH) for inner in sampler.permutation(_LARGE_ODD)]
    return _case(sampler, ("memory", "between"), units, 2, [_STEP, _TRAIN], width=_LARGE_WIDTH)


def _forward_alone(sampler: Sampler) -> Case:
    """The same step, twice, and again after each pass that goes forward alone, which finds gradients; nothing is trained."""
    units = [_block(sampler, inner, _LARGE_WIDTH) for inner in sampler.permutation(_LARGE_ODD)[:4]]
    first, second = sampler.shuffled("no_grad", "forward")
    passes = [
        ("train", "zero"),
        *(p for alone in (first, second) for p in (_TRAIN, (alone, "zero"))),
        ("train", "zero"),
    ]
    case = _case(sampler, ("evaluation",), units, 2, passes, width=_LARGE_WIDTH)
    for own in case.per_rank_inputs:
        own["passes"] = [own["passes"][0] | {"do": do, "then": then} for do, then in passes]
    return case


def _refused(sampler: Sampler) -> Case:
    """Models that are to be refused, for a unit's own parameter or one of a module inside, and the like of them that are sound."""
    models, half = [], sampler.choice(["float16", "bfloat16"])
    faults = [
        ("tied", 0),
        ("frozen", sampler.integer(0, 1)),
        ("frozen", sampler.integer(2, 3)),
        ("float64", 0),
        (half, 0),
    ]
    for kind, number in sampler.permutation([*faults, ("twice", 0), ("none", 0)]):
        units = [
            _linear(sampler, _WIDTH),
            *(_block(sampler, inner, rich=True) for inner in sampler.permutation(_ANY)[:3]),
        ]
        models.append({"units": units, "fault": {"kind": kind, "unit": sampler.integer(2, 3), "number": number}})
    return Case(("errors",), {"world": 2, "refused": True}, ranks=2, per_rank_inputs=({"models": models},) * 2)


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    units: list,
    world: int,
    passes: Sequence[tuple[str, str]],
    width: int = _WIDTH,
) -> Case:
    """``passes``: of each whether it goes back, and what follows it."""
    parts = [unit.part for unit in sharded(units, world)]
    if len(set(parts)) < len(parts):
        raise ValueError(f"two units have parts of one length: {parts}")
    each = []
    for _ in range(world):
        xs = [_numbers(sampler, 1 if width == _LARGE_WIDTH else _ROWS, width) for _ in passes]
        own = [{"x": x, "do": do, "then": then} for x, (do, then) in zip(xs, passes, strict=True)]
        each.append({"units": units, "passes": own})
    inputs = {"world": world, "refused": False, "lr": 1 / 64, "with_gradient": "gradients" not in criteria}
    return Case(criteria, inputs, ranks=world, per_rank_inputs=tuple(each))


def _block(sampler: Sampler, inner: int, width: int = _WIDTH, rich: bool = False) -> dict:
    """``rich``: with a buffer, a module inside and a parameter that lies by columns."""
    down = 0.5 / inner * _WIDTH * _numbers(sampler, width, inner).t()
    tensors = {
        "g": 0.5 * _numbers(sampler),
        "down": down if rich else down.contiguous(),
        "weight": _WIDTH / width * 0.3 * _numbers(sampler, inner, width),
        "bias": 0.3 * _numbers(sampler, inner),
    }
    return _unit("block", tensors | ({"scale": 1 + 0.1 * _numbers(sampler, width)} if rich else {}), deep=rich)


def _linear(sampler: Sampler, out: int = 2) -> dict:
    return _unit("linear", {"weight": 0.5 * _numbers(sampler, out, _WIDTH), "bias": 0.5 * _numbers(sampler, out)})


def _scale(sampler: Sampler) -> dict:
    return _unit("scale", {"by": _numbers(sampler)})


def _bend() -> dict:
    return _unit("bend", {})


def _unit(kind: str, tensors: dict, deep: bool = False) -> dict:
    return {"kind": kind, "tensors": tensors, "deep": deep}


def _numbers(sampler: Sampler, *shape: int) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return sampler.values(*shape, kind="mixed") / 8
