"""E15.2: what is drawn: models of unlike units, alike in all ranks, and each rank's own passes."""

from collections.abc import Iterator, Sequence

import torch

from autograder.draw import Draw
from autograder.exercise import Case
from autograder.verdicts.sharding.fsdp_units import sharded

_WIDTH, _ROWS = 3, 2
_INNER = (3, 4, 5, 6)
"""Sizes of blocks of which each makes parts of another length, among two ranks to four, than all other units."""
_LARGE_WIDTH, _LARGE_INNER = 64, range(190, 200)
_VALUES = ("gradients", "gathers", "scattered")


def cases(draw: Draw) -> Iterator[Case]:
    for case in draw.each(_two_ranks, _more_ranks, _two_models, _large, _forward_alone, _refused):
        yield case(draw)


def _two_ranks(draw: Draw) -> Case:
    """Tokens first, whose unit gets nothing to pass a gradient to; two backward passes before a step."""
    first, second, third = draw.shuffled(_INNER)[:3]
    blocks = [_block(draw, inner) for inner in (first, second, third)]
    units = [_embed(draw), blocks[0], _bend(), blocks[1], _scale(draw), blocks[2], _linear(draw)]
    thens = [*draw.each(*["keep", "to zero"]), "to none", "to zero", "to none"]
    return _case(draw, ("shards", *_VALUES), [units], 2, [("train", then) for then in thens], "tokens")


def _more_ranks(draw: Draw) -> Case:
    """More ranks than a unit has parameters; a unit without any comes first; the input takes a gradient."""
    inner = draw.shuffled(_INNER)
    units = [_bend(), _block(draw, inner[0]), _scale(draw), _linear(draw, _WIDTH), _block(draw, inner[1])]
    passes = [("train", then) for then in draw.each("to none", "keep", "to zero")]
    return _case(draw, ("shards", *_VALUES), [units], draw.choice([3, 4]), passes, "wants gradient")


def _two_models(draw: Draw) -> Case:
    """One behind the other; after the first pass the parts' data lie elsewhere."""
    inner = draw.shuffled(_INNER)
    models = [[_block(draw, inner[0]), _block(draw, inner[1])], [_scale(draw), _block(draw, inner[2]), _linear(draw)]]
    case = _case(
        draw, _VALUES, models, 2, [("train", then) for then in draw.each("to none", "to zero", "to none")], "plain"
    )
    for own in case.each:
        own["passes"][0]["moved"] = True
    return case


def _large(draw: Draw) -> Case:
    """Units of nearly one size, next to which nothing else counts, on three cards: elsewhere there are two."""
    units = [_block(draw, inner, _LARGE_WIDTH) for inner in draw.shuffled(_LARGE_INNER)[:6]]
    passes = [("train", "to none"), ("train", draw.choice(["keep", "to zero"]))]
    return _case(draw, ("memory", "between"), [units], 3, passes, "plain", _LARGE_WIDTH, 1)


def _forward_alone(draw: Draw) -> Case:
    """Passes forward with and without a graph that no backward pass follows, before and between steps."""
    inner = draw.shuffled(_LARGE_INNER)
    units = [
        *(_block(draw, size, _LARGE_WIDTH) for size in inner[:2]),
        _scale(draw),
        *(_block(draw, size, _LARGE_WIDTH) for size in inner[2:4]),
    ]
    first, second = draw.each("no_grad", "forward")
    passes = [(first, "keep"), ("train", "to none"), (second, "keep"), ("train", "to none")]
    case = _case(draw, ("evaluation",), [units], 2, passes, "plain", _LARGE_WIDTH, 1)
    modes = draw.each(True, False)
    for own in case.each:
        for one, training in zip(
            own["passes"], [first == "forward", modes[0], second == "forward", modes[1]], strict=True
        ):
            one["training"] = training
    return case


def _refused(draw: Draw) -> Case:
    """Models that are to be refused, and the like of them that are sound."""
    models = []
    kinds = ["tied", "twice", "frozen", "float64", draw.choice(["float16", "bfloat16"]), "none", "none"]
    for kind in draw.shuffled(kinds):
        units = [_linear(draw, _WIDTH), *(_block(draw, inner) for inner in draw.shuffled(_INNER)[:3]), _bend()]
        number = draw.integer(0, 3) if kind == "frozen" else 0
        fault = {"kind": kind, "unit": draw.integer(2, 3), "number": number}
        models.append({"units": units, "fault": fault, "x": _numbers(draw, _ROWS, _WIDTH)})
    return Case(("errors",), {"world": 2, "refused": True}, ranks=2, each=({"models": models},) * 2)


def _case(
    draw: Draw,
    about: tuple[str, ...],
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
                "x": _batch(draw, batch, rows, width),
                "do": do,
                "then": then,
                "training": True,
                "input_requires_grad": batch == "wants gradient",
            }
            for do, then in passes
        ]
        each.append({"models": models, "passes": own})
    return Case(about, {"world": world, "refused": False, "lr": 1 / 64}, ranks=world, each=tuple(each))


def _batch(draw: Draw, batch: str, rows: int, width: int) -> torch.Tensor:
    if batch == "tokens":
        return torch.tensor([draw.integer(0, 4) for _ in range(rows)])
    return _numbers(draw, rows, width)


def _embed(draw: Draw) -> dict:
    return {"kind": "embed", "tensors": {"table": _numbers(draw, 5, _WIDTH)}}


def _block(draw: Draw, inner: int, width: int = _WIDTH) -> dict:
    tensors = {
        "g": 0.5 * _numbers(draw),
        "down": 0.5 / inner * _WIDTH * _numbers(draw, width, inner).t(),
        "weight": _WIDTH / width * 0.3 * _numbers(draw, inner, width),
        "bias": 0.3 * _numbers(draw, inner),
        "scale": 1 + 0.1 * _numbers(draw, width),
    }
    return {"kind": "block", "tensors": tensors}


def _linear(draw: Draw, out: int = 2) -> dict:
    return {
        "kind": "linear",
        "tensors": {"weight": 0.5 * _numbers(draw, out, _WIDTH), "bias": 0.5 * _numbers(draw, out)},
    }


def _scale(draw: Draw) -> dict:
    return {"kind": "scale", "tensors": {"by": _numbers(draw)}}


def _bend() -> dict:
    return {"kind": "bend", "tensors": {}}


def _numbers(draw: Draw, *shape: int) -> torch.Tensor:
    """From 0.5 to 1.5, of either sign."""
    return draw.values(*shape, kind="mixed") / 8
