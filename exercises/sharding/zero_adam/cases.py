"""E15.1 zero_adam: what is drawn: parameters alike in all ranks, and for each rank gradients of its own, step after step.

What one criterion turns on, no other case holds: strides and formulas, lengths, missing gradients, refusals.
"""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from autograder.core.strata import laid_out

_SINGLE, _DOUBLE = torch.float32, torch.float64
_LAYOUTS = ("contiguous", "transposed", "padded", "stepped")
Shape = tuple[int, ...]


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_strided, _defaults, _crossing, _few, _uneven, _missing, _refused):
        yield case(sampler)


def _strided(sampler: Sampler) -> Case:
    """Three steps with numbers that show, every layout, parameters and gradients, out of a generator."""
    shapes = sampler.permutation([(4, 23), (8, sampler.integer(2, 5)), (4, 2 * sampler.integer(2, 5)), (3,), ()])
    one = _optimizer(sampler, shapes, _SINGLE)
    names = iter(sampler.permutation(["transposed", "padded", "stepped"]))
    one["values"] = [laid_out(value, next(names)) if value.ndim == 2 else value for value in one["values"]]
    one["once"] = True
    case = _case(sampler, ("values",), 4, [one], [0, 0, 0])
    for own in case.per_rank_inputs:
        for step in own["steps"]:
            step["grads"] = [_laid_out(sampler, grad) for grad in step["grads"]]
    return case


def _defaults(sampler: Sampler) -> Case:
    """One parameter, whose gradient in one piece is the flat tensor itself, and so small that eps shows."""
    one = _optimizer(sampler, [(2, sampler.integer(20, 60))], _DOUBLE, {})
    return _case(sampler, ("values",), 2, [one], [0, 0], scale=1e-7)


def _crossing(sampler: Sampler) -> Case:
    """Tensors that the ranks divide each; one that is not trained."""
    shapes = [(4 * sampler.integer(40, 60), 5), (4 * sampler.integer(2, 5),), (2, 2)]
    one = _optimizer(sampler, sampler.permutation(shapes), _SINGLE)
    place = sampler.integer(0, len(shapes))
    one["values"].insert(place, _weights(sampler, torch.empty(3, 4)))
    one["frozen"].insert(place, True)
    return _case(sampler, ("crossing", "state"), 2, [one], [0, 0])


def _few(sampler: Sampler) -> Case:
    """Fewer elements than ranks: a share may be all padding."""
    few = _optimizer(sampler, [(), (sampler.integer(1, 2),)], _SINGLE)
    return _case(sampler, ("uneven",), 4, [few], [0, 0])


def _uneven(sampler: Sampler) -> Case:
    """Shares that end inside a large parameter, and most of a row of padding."""
    shapes = sampler.permutation([(sampler.integer(5, 7), 5), *[(sampler.integer(1, 3),) for _ in range(5)]])
    return _case(sampler, ("uneven",), 3, [_optimizer(sampler, _one_over(sampler, shapes, 3), _SINGLE)], [0, 0])


def _missing(sampler: Sampler) -> Case:
    """Three optimizers alike: what the first one's ranks lack, the second one's have as zeros; the third's go the other way.

    In the second step a gradient in some ranks and one in all, in the third all of them, in the fourth all of one rank's.
    """
    shapes = [(2, 3), (sampler.integer(1, 3), 3), (3, 1), (6,)]
    one = _optimizer(sampler, shapes, _DOUBLE)
    alike = [one, *(one | {"values": [value.clone() for value in one["values"]]} for _ in range(2))]
    case = _case(sampler, ("unused",), 3, alike, [0] * 4)
    some, every = sampler.permutation([0, sampler.integer(1, 3)])
    lacking, idle = sampler.shuffled(0, 1, 2)[:2]
    for rank, own in enumerate(case.per_rank_inputs):
        lost = [set(), {every} | ({some} if rank != lacking else set()), set(range(4)), set(range(4 * (rank == idle)))]
        of_zeros, others = [], {"of": 2, "grads": [-grad for grad in own["steps"][0]["grads"]]}
        for step, places in zip(own["steps"], lost, strict=True):
            zeros = [torch.zeros_like(g) if at in places else g.clone() for at, g in enumerate(step["grads"])]
            of_zeros.append({"of": 1, "grads": zeros})
            step["grads"] = [None if at in places else grad for at, grad in enumerate(step["grads"])]
        own["steps"] += [*of_zeros, others]
    return case


def _refused(sampler: Sampler) -> Case:
    """What ValueError is due for, and what is at the edge of it and sound."""
    betas = [pair for beta in (-0.1, 1.0, 1.5) for pair in ([beta, 0.9], [0.9, beta])] + [[0.0, 0.9], [0.9, 0.0]]
    numbers = [{"lr": -1e-3}, {"lr": 0.0}, {"eps": -1e-8}, {"eps": 0.0}, *({"betas": pair} for pair in betas)]
    asked = [_optimizer(sampler, [(2, 2)], _SINGLE, _numbers(sampler) | one) for one in numbers]
    for dtypes in sampler.shuffled((_SINGLE, _DOUBLE), (_DOUBLE, _SINGLE), (_DOUBLE, _DOUBLE)):
        two = _optimizer(sampler, [(2, 2)] * 2, _SINGLE)
        asked.append(two | {"values": [value.to(dtype) for value, dtype in zip(two["values"], dtypes, strict=True)]})
    quantized = _optimizer(sampler, [(2, 2)] * 2, _SINGLE)
    quantized["values"][0], quantized["frozen"][0] = torch.ones(2, 2, dtype=torch.int8), True
    asked.append(quantized)
    own = {"optimizers": [], "steps": [], "refused": sampler.permutation(asked)}
    return Case(("errors",), {"world": 1}, ranks=1, per_rank_inputs=(own,))


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    world: int,
    optimizers: list[dict],
    of: Sequence[int],
    scale: float = 1.0,
) -> Case:
    """``of``: which optimizer makes each step; ``scale``: how large gradients are."""
    steps: list[list[dict]] = [[] for _ in range(world)]
    for which in of:
        grads = [
            [None] * world if frozen else _gradients(sampler, value, world, scale)
            for value, frozen in zip(optimizers[which]["values"], optimizers[which]["frozen"], strict=True)
        ]
        for rank in range(world):
            steps[rank].append({"of": which, "grads": [one[rank] for one in grads]})
    each = tuple({"optimizers": optimizers, "steps": own, "refused": []} for own in steps)
    return Case(criteria, {"world": world}, ranks=world, per_rank_inputs=each)


def _optimizer(sampler: Sampler, shapes: list[Shape], dtype: torch.dtype, options: dict | None = None) -> dict:
    values = [_weights(sampler, torch.empty(shape, dtype=dtype)) for shape in shapes]
    options = _numbers(sampler) if options is None else options
    return {"values": values, "frozen": [False] * len(values), "once": False, "options": options}


def _numbers(sampler: Sampler) -> dict:
    """Not far from 1 all of them, so that each shows after a step or two."""
    tenths = lambda low, high: sampler.integer(low, high) / 10
    return {"lr": tenths(5, 9) / 10, "betas": [tenths(5, 8), tenths(6, 9) + 0.05], "eps": tenths(2, 9)}


def _one_over(sampler: Sampler, shapes: list[Shape], ranks: int) -> list[Shape]:
    """``shapes``, and a row more, so that the ranks leave one element of all."""
    elements = sum(torch.Size(shape).numel() for shape in shapes)
    places = sampler.integer(0, len(shapes))
    return [*shapes[:places], (-elements % ranks + 1,), *shapes[places:]]


def _weights(sampler: Sampler, like: torch.Tensor) -> torch.Tensor:
    return sampler.values(*like.shape, kind="mixed", dtype=like.dtype) / 8


def _gradients(sampler: Sampler, like: torch.Tensor, world: int, scale: float) -> list[torch.Tensor]:
    """Of each rank, unlike the others'; what all have in common is larger, so that no mean is near 0."""
    common = _weights(sampler, like)
    return [scale * (common + 0.3 * _weights(sampler, like)) for _ in range(world)]


def _laid_out(sampler: Sampler, x: torch.Tensor) -> torch.Tensor:
    """In one of the layouts that its dimensions allow: of rows in one piece, by columns, or in something larger."""
    if x.ndim == 0:
        return x
    return next(made for name in sampler.permutation(_LAYOUTS) if (made := laid_out(x, name)) is not None)
