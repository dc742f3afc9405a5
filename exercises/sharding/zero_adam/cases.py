"""E15.1: what is drawn: parameters alike in all ranks, and for each rank gradients of its own, step after step."""

from collections.abc import Iterator, Sequence

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler
from autograder.core.strata import laid_out

_SINGLE, _DOUBLE = torch.float32, torch.float64
_LAYOUTS = ("contiguous", "transposed", "padded", "stepped")
Shape = tuple[int, ...]


def cases(sampler: Sampler) -> Iterator[Case]:
    for case in sampler.shuffled(_alone, _usual, _defaults, _several, _few_and_cut, _missing):
        yield case(sampler)


def _alone(sampler: Sampler) -> Case:
    """One rank: nobody to hear from. And what is refused."""
    one = _optimizer(sampler, [(sampler.integer(2, 5), 3), ()], sampler.choice([_SINGLE, _DOUBLE]))
    return _case(sampler, ("values", "errors"), 1, [one], [0, 0], refused=_refused(sampler))


def _usual(sampler: Sampler) -> Case:
    """Four ranks, every layout, three steps; before the second someone else writes to the parameters."""
    shapes = sampler.permutation([(sampler.integer(30, 34), 20), (4, 23), (2, 5), (sampler.integer(300, 400),), ()])
    one = _optimizer(sampler, _until(sampler, shapes, 4, {1, 2, 3}), _SINGLE)
    for shape, layout in (((4, 23), "transposed"), ((2, 5), sampler.choice(["padded", "stepped"]))):
        place = _shapes_of(one).index(shape)
        one["values"][place] = laid_out(one["values"][place], layout)
    return _case(sampler, ("values", "crossing", "state"), 4, [one], [0, 0, 0], written_before=1)


def _defaults(sampler: Sampler) -> Case:
    """Gradients so small that eps shows, and elements that the ranks divide."""
    shapes = sampler.permutation([(sampler.integer(20, 24), 10), (sampler.integer(50, 90),), (2, 2)])
    one = _optimizer(sampler, _until(sampler, shapes, 2, {0}), _DOUBLE, options={})
    return _case(sampler, ("values", "crossing", "state"), 2, [one], [0, 0], scale=1e-7)


def _several(sampler: Sampler) -> Case:
    """Optimizers of both dtypes in turn, with numbers of their own, some of them 0, and with steps of their own."""
    numbers = [{"betas": [0.0, 0.9], "eps": 0.0}, {"betas": [0.7, 0.0]}, {"lr": 0.0}]
    shapes = [[(sampler.integer(2, 5), 2), (3,)], [(sampler.integer(4, 9),)], [(2, 2)]]
    dtypes = sampler.shuffled(_SINGLE, _DOUBLE) + [sampler.choice([_SINGLE, _DOUBLE])]
    drawn = zip(shapes, dtypes, numbers, strict=True)
    made = [_optimizer(sampler, *one, options=_numbers(sampler) | own) for *one, own in drawn]
    return _case(sampler, ("values", "crossing"), 2, made, [0, 1, 0, 2, 0, 1])


def _few_and_cut(sampler: Sampler) -> Case:
    """Fewer elements than ranks, where a share may be all padding; and shares that end inside a large parameter.

    Where eps is 0, padding of zeros becomes what is not a number.
    """
    one = _optimizer(sampler, [(), (0, 3)], _SINGLE, options=_numbers(sampler) | {"eps": 0.0})
    other = _optimizer(sampler, [(sampler.integer(2, 3),), (0,)], _DOUBLE)
    shapes = sampler.permutation([(sampler.integer(5, 7), 5), *[(sampler.integer(1, 3),) for _ in range(5)]])
    cut = _optimizer(sampler, _until(sampler, shapes, 4, {1}), _SINGLE, options=_numbers(sampler) | {"eps": 0.0})
    return _case(sampler, ("uneven", "crossing"), 4, sampler.permutation([one, other, cut]), [0, 1, 2, 1, 0, 2])


def _missing(sampler: Sampler) -> Case:
    """Gradients that some ranks, or none, have, of the dtype that is not the usual one; frozen parameters; optimizers of nothing and of one parameter."""
    shapes = [(2, 3), (sampler.integer(2, 5),), (3, 1), (4,)]
    one = _optimizer(sampler, shapes, _DOUBLE)
    for place, value in zip(
        sampler.permutation(range(4)),
        (sampler.values(3, 2, kind="mixed", dtype=_DOUBLE), sampler.tensor(3, dtype=torch.int64) + 2**60),
        strict=False,
    ):
        one["values"].insert(place, value)
        one["frozen"].insert(place, True)
    frozen = _optimizer(sampler, [(3,)], _SINGLE)
    frozen["frozen"] = [True]
    nothing, of_no_elements = (
        _optimizer(sampler, [], _SINGLE),
        _optimizer(sampler, [(0, sampler.integer(1, 4))], _SINGLE),
    )
    lone = _optimizer(sampler, [(3, sampler.integer(1, 3))], _SINGLE)
    made = [one, frozen, nothing, of_no_elements, lone]
    case = _case(sampler, ("unused", "crossing"), 3, made, sampler.shuffled(1, 2, 3, 4) + [0, 0, 0, 0])
    _take_away(sampler, case, [place for place, is_frozen in enumerate(one["frozen"]) if not is_frozen])
    return case


def _take_away(sampler: Sampler, case: Case, trained: list[int]) -> None:
    """In the second step a gradient in some ranks, and one in all; in the third all of them; in the fourth all of one rank's.

    Before the fourth what was trained is frozen, and what was frozen requires gradients: that comes too late.
    One of the second step's is the first parameter: what follows it is then seen to keep its place.
    """
    some, every = sampler.permutation([trained[0], sampler.choice(trained[1:])])
    lacking, idle = sampler.shuffled(0, 1, 2)[:2]
    for rank, own in enumerate(case.per_rank_inputs):
        of_it = [step for step in own["steps"] if step["of"] == 0]
        of_it[3]["exchanged"] = True
        _, second, third, fourth = (step["grads"] for step in of_it)
        for place in trained:
            if place == every or place == some and rank != lacking:
                second[place] = None
            third[place] = None
            if rank == idle:
                fourth[place] = None


def _refused(sampler: Sampler) -> list[dict]:
    """What ValueError is due for, and the like of it that is sound."""
    bad = [{"lr": -1e-3}, {"eps": -1e-8}]
    for beta in (-0.1, 1.0, 1.5):
        bad += [{"betas": [beta, 0.9]}, {"betas": [0.9, beta]}]
    refused = [_optimizer(sampler, [(2, 2)], _SINGLE, options=_numbers(sampler) | one) for one in bad]
    for dtypes in sampler.shuffled((_SINGLE, _DOUBLE), (_DOUBLE, _SINGLE), (_SINGLE, _SINGLE, torch.bfloat16)):
        refused.append(_optimizer(sampler, [(2, 2)] * len(dtypes), _SINGLE))
        refused[-1]["values"] = [value.to(dtype) for value, dtype in zip(refused[-1]["values"], dtypes, strict=True)]
    sound = [_optimizer(sampler, [(2, 2)] * many, sampler.choice([_SINGLE, _DOUBLE])) for many in (1, 1, 2, 3)]
    return sampler.permutation(refused + sound)


def _case(
    sampler: Sampler,
    criteria: tuple[str, ...],
    world: int,
    optimizers: list[dict],
    of: Sequence[int],
    written_before: int | None = None,
    scale: float = 1.0,
    refused: Sequence[dict] = (),
) -> Case:
    """``of``: which optimizer makes each step; ``scale``: how large gradients are; ``refused``: of calls beside."""
    steps: list[list[dict]] = [[] for _ in range(world)]
    for number, which in enumerate(of):
        likes = [
            None if f else v for v, f in zip(optimizers[which]["values"], optimizers[which]["frozen"], strict=True)
        ]
        written = [_weights(sampler, like) if number == written_before and like is not None else None for like in likes]
        lone = len(likes) == 1  # of one parameter: its gradient in one piece is the flat tensor itself
        grads = [[None] * world if like is None else _gradients(sampler, like, world, scale, lone) for like in likes]
        for rank in range(world):
            own = [one[rank] for one in grads]
            steps[rank].append({"of": which, "grads": own, "written": written, "exchanged": False})
    each = tuple({"optimizers": optimizers, "steps": own, "refused": list(refused)} for own in steps)
    return Case(criteria, {"world": world}, ranks=world, per_rank_inputs=each)


def _optimizer(sampler: Sampler, shapes: list[Shape], dtype: torch.dtype, options: dict | None = None) -> dict:
    values = [_laid_out(sampler, _weights(sampler, torch.empty(shape, dtype=dtype))) for shape in shapes]
    return {
        "values": values,
        "frozen": [False] * len(values),
        "once": sampler.chance(0.5),
        "options": _numbers(sampler) if options is None else options,
    }


def _shapes_of(optimizer: dict) -> list[Shape]:
    return [tuple(value.shape) for value in optimizer["values"]]


def _numbers(sampler: Sampler) -> dict:
    """Not far from 1 all of them, so that each shows after a step or two."""
    tenths = lambda low, high: sampler.integer(low, high) / 10
    return {"lr": tenths(5, 9) / 10, "betas": [tenths(5, 8), tenths(6, 9) + 0.05], "eps": tenths(2, 9)}


def _until(sampler: Sampler, shapes: list[Shape], ranks: int, rests: set[int]) -> list[Shape]:
    """``shapes``, and a row more, so that the ranks leave one of ``rests`` of all elements."""
    elements = sum(torch.Size(shape).numel() for shape in shapes)
    lengths = [length for length in range(1, ranks + 1) if (elements + length) % ranks in rests]
    places = sampler.integer(0, len(shapes))
    return [*shapes[:places], (sampler.choice(lengths),), *shapes[places:]]


def _weights(sampler: Sampler, like: torch.Tensor) -> torch.Tensor:
    return sampler.values(*like.shape, kind="mixed", dtype=like.dtype) / 8


def _gradients(
    sampler: Sampler, like: torch.Tensor, world: int, scale: float, in_one_piece: bool
) -> list[torch.Tensor]:
    """Of each rank, unlike the others'; what all have in common is larger, so that no mean is near 0."""
    common = _weights(sampler, like)
    own = [scale * (common + 0.3 * _weights(sampler, like)) for _ in range(world)]
    return own if in_one_piece else [_laid_out(sampler, one) for one in own]


def _laid_out(sampler: Sampler, x: torch.Tensor) -> torch.Tensor:
    """In one of the layouts that its dimensions allow: of rows in one piece, by columns, or in something larger."""
    if x.ndim == 0 or x.numel() == 0:
        return x
    return next(made for name in sampler.permutation(_LAYOUTS) if (made := laid_out(x, name)) is not None)
