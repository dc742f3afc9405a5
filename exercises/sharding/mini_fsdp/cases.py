"""E15.2: what is drawn: models of unlike units, alike in all ranks, and each rank's own passes."""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from exercises.sharding.mini_fsdp.units import sharded

_WIDTH, _ROWS = 3, 2
_INNER = (3, 4, 5, 6)
"""Sizes of blocks of which each makes parts of another length, among two ranks to four, than all other units."""
_LARGE_WIDTH, _LARGE_INNER = 64, range(190, 200)
_VALUES = ("gradients", "gathers", "scattered")


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_two_ranks, _more_ranks, _two_models, _large, _forward_alone, _refused):
        yield case(sampler)


def _two_ranks(sampler: Sampler) -> Case:
    """Tokens first, whose unit gets nothing to pass a gradient to; two backward passes before a step."""
    first, second, third = sampler.permutation(_INNER)[:3]
    blocks = [_block(sampler, inner) for inner in (first, second, third)]
    units = [_embed(sampler), blocks[0], _bend(), blocks[1], _scale(sampler), blocks[2], _linear(sampler)]
    thens = [*sampler.shuffled(*["keep", "to zero"]), "to none", "to zero", "to none"]
    return _case(sampler, ("shards", *_VALUES), [units], 2, [("train", then) for then in thens], "tokens")


def _more_ranks(sampler: Sampler) -> Case:
    """More ranks than a unit has parameters; a unit without any comes first; the input takes a gradient."""
    inner = sampler.permutation(_INNER)
    units = [_bend(), _block(sampler, inner[0]), _scale(sampler), _linear(sampler, _WIDTH), _block(sampler, inner[1])]
    passes = [("train", then) for then in sampler.shuffled("to none", "keep", "to zero")]
    return _case(sampler, ("shards", *_VALUES), [units], sampler.choice([3, 4]), passes, "wants gradient")


def _two_models(sampler: Sampler) -> Case:
    """One behind the other; after the first pass the parts' data lie elsewhere."""
    inner = sampler.permutation(_INNER)
    models = [
        [_block(sampler, inner[0]), _block(sampler, inner[1])],
        [_scale(sampler), _block(sampler, inner[2]), _linear(sampler)],
    ]
    case = _case(
        sampler,
        _VALUES,
        models,
        2,
        [("train", then) for then in sampler.shuffled("to none", "to zero", "to none")],
        "plain",
    )
    for own in case.per_rank_inputs:
        own["passes"][0]["moved"] = True
    return case


def _large(sampler: Sampler) -> Case:
    """Units of nearly one size, next to which nothing else counts, on three cards: elsewhere there are two."""
    units = [_block(sampler, inner, _LARGE_WIDTH) for inner in sampler.permutation(_LARGE_INNER)[:6]]
    passes = [("train", "to none"), ("train", sampler.choice(["keep", "to zero"]))]
    return _case(sampler, ("memory", "between"), [units], 3, passes, "plain", _LARGE_WIDTH, 1)


def _forward_alone(sampler: Sampler) -> Case:
    """Passes forward with and without a graph that no backward pass follows, before and between steps."""
    inner = sampler.permutation(_LARGE_INNER)
    units = [
        *(_block(sampler, size, _LARGE_WIDTH) for size in inner[:2]),
        _scale(sampler),
        *(_block(sampler, size, _LARGE_WIDTH) for size in inner[2:4]),
    ]
    first, second = sampler.shuffled("no_grad", "forward")
    passes = [(first, "keep"), ("train", "to none"), (second, "keep"), ("train", "to none")]
    case = _case(sampler, ("evaluation",), [units], 2, passes, "plain", _LARGE_WIDTH, 1)
    modes = sampler.shuffled(True, False)
    for own in case.per_rank_inputs:
        for one, training in zip(
            own["passes"], [first == "forward", modes[0], second == "forward", modes[1]], strict=True
        ):
            one["training"] = training
    return case


def _refused(sampler: Sampler) -> Case:
    """Models that are to be refused, and the like of them that are sound."""
    models = []
    kinds = ["tied", "twice", "frozen", "float64", sampler.choice(["float16", "bfloat16"]), "none", "none"]
    for kind in sampler.permutation(kinds):
        units = [
            _linear(sampler, _WIDTH),
            *(_block(sampler, inner) for inner in sampler.permutation(_INNER)[:3]),
            _bend(),
        ]
        number = sampler.integer(0, 3) if kind == "frozen" else 0
        fault = {"kind": kind, "unit": sampler.integer(2, 3), "number": number}
        models.append({"units": units, "fault": fault, "x": _numbers(sampler, _ROWS, _WIDTH)})
    return Case(("errors",), {"world": 2, "refused": True}, ranks=2, per_rank_inputs=({"models": models},) * 2)


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    models: list,
    world: int,
    passes: Sequence[tuple[str, str]],
    batch: str,
    width: int = _WIDTH,
    rows: int = _ROWS,
) -> Case:
    """``passes``: of each whether it goes back, and what follows it; ``batch``: what the ranks' own inputs are like."""
    parts = [unit.part for unit in sharded(models, world)]
    if len(set(parts)) < len(parts):
        raise ValueError(f"two units have parts of one length: {parts}")
    each = []
    for _ in range(world):
        own = [
            {
                "x": _batch(sampler, batch, rows, width),
                "do": do,
                "then": then,
                "training": True,
                "input_requires_grad": batch == "wants gradient",
            }
            for do, then in passes
        ]
        each.append({"models": models, "passes": own})
    return Case(criteria, {"world": world, "refused": False, "lr": 1 / 64}, ranks=world, per_rank_inputs=tuple(each))


def _batch(sampler: Sampler, batch: str, rows: int, width: int) -> torch.Tensor:
    if batch == "tokens":
        return torch.tensor([sampler.integer(0, 4) for _ in range(rows)])
    return _numbers(sampler, rows, width)


def _embed(sampler: Sampler) -> dict:
    return {"kind": "embed", "tensors": {"table": _numbers(sampler, 5, _WIDTH)}}


def _block(sampler: Sampler, inner: int, width: int = _WIDTH) -> dict:
    tensors = {
        "g": 0.5 * _numbers(sampler),
        "down": 0.5 / inner * _WIDTH * _numbers(sampler, width, inner).t(),
        "weight": _WIDTH / width * 0.3 * _numbers(sampler, inner, width),
        "bias": 0.3 * _numbers(sampler, inner),
        "scale": 1 + 0.1 * _numbers(sampler, width),
    }
    return {"kind": "block", "tensors": tensors}


def _linear(sampler: Sampler, out: int = 2) -> dict:
    return {
        "kind": "linear",
        "tensors": {"weight": 0.5 * _numbers(sampler, out, _WIDTH), "bias": 0.5 * _numbers(sampler, out)},
    }


def _scale(sampler: Sampler) -> dict:
    return {"kind": "scale", "tensors": {"by": _numbers(sampler)}}


def _bend() -> dict:
    return {"kind": "bend", "tensors": {}}


def _numbers(sampler: Sampler, *shape: int) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return sampler.values(*shape, kind="mixed") / 8
