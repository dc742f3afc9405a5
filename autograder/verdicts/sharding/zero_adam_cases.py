"""E15.1: what is drawn: parameters alike in all ranks, and for each rank gradients of its own, step after step."""

from collections.abc import Iterator, Sequence

import torch

from autograder.draw import Draw
from autograder.exercise import Case
from autograder.strata import laid_out

_SINGLE, _DOUBLE = torch.float32, torch.float64
_LAYOUTS = ("contiguous", "transposed", "padded", "stepped")
Shape = tuple[int, ...]


def cases(draw: Draw) -> Iterator[Case]:
    for case in draw.each(_alone, _usual, _defaults, _several, _few_and_cut, _missing):
        yield case(draw)


def _alone(draw: Draw) -> Case:
    """One rank: nobody to hear from. And what is refused."""
    one = _optimizer(draw, [(draw.integer(2, 5), 3), ()], draw.choice([_SINGLE, _DOUBLE]))
    return _case(draw, ("values", "errors"), 1, [one], [0, 0], refused=_refused(draw))


def _usual(draw: Draw) -> Case:
    """Four ranks, every layout, three steps; before the second someone else writes to the parameters."""
    shapes = draw.shuffled([(draw.integer(30, 34), 20), (4, 23), (2, 5), (draw.integer(300, 400),), ()])
    one = _optimizer(draw, _until(draw, shapes, 4, {1, 2, 3}), _SINGLE)
    for shape, layout in (((4, 23), "transposed"), ((2, 5), draw.choice(["padded", "stepped"]))):
        place = _shapes_of(one).index(shape)
        one["values"][place] = laid_out(one["values"][place], layout)
    return _case(draw, ("values", "crossing", "state"), 4, [one], [0, 0, 0], written_before=1)


def _defaults(draw: Draw) -> Case:
    """Gradients so small that eps shows, and elements that the ranks divide."""
    shapes = draw.shuffled([(draw.integer(20, 24), 10), (draw.integer(50, 90),), (2, 2)])
    one = _optimizer(draw, _until(draw, shapes, 2, {0}), _DOUBLE, options={})
    return _case(draw, ("values", "crossing", "state"), 2, [one], [0, 0], scale=1e-7)


def _several(draw: Draw) -> Case:
    """Optimizers of both dtypes in turn, with numbers of their own, some of them 0, and with steps of their own."""
    numbers = [{"betas": [0.0, 0.9], "eps": 0.0}, {"betas": [0.7, 0.0]}, {"lr": 0.0}]
    shapes = [[(draw.integer(2, 5), 2), (3,)], [(draw.integer(4, 9),)], [(2, 2)]]
    dtypes = draw.each(_SINGLE, _DOUBLE) + [draw.choice([_SINGLE, _DOUBLE])]
    drawn = zip(shapes, dtypes, numbers, strict=True)
    made = [_optimizer(draw, *one, options=_numbers(draw) | own) for *one, own in drawn]
    return _case(draw, ("values", "crossing"), 2, made, [0, 1, 0, 2, 0, 1])


def _few_and_cut(draw: Draw) -> Case:
    """Fewer elements than ranks, where a share may be all padding; and shares that end inside a large parameter.

    Where eps is 0, padding of zeros becomes what is not a number.
    """
    one = _optimizer(draw, [(), (0, 3)], _SINGLE, options=_numbers(draw) | {"eps": 0.0})
    other = _optimizer(draw, [(draw.integer(2, 3),), (0,)], _DOUBLE)
    shapes = draw.shuffled([(draw.integer(5, 7), 5), *[(draw.integer(1, 3),) for _ in range(5)]])
    cut = _optimizer(draw, _until(draw, shapes, 4, {1}), _SINGLE, options=_numbers(draw) | {"eps": 0.0})
    return _case(draw, ("uneven", "crossing"), 4, draw.shuffled([one, other, cut]), [0, 1, 2, 1, 0, 2])


def _missing(draw: Draw) -> Case:
    """Gradients that some ranks, or none, have, of the dtype that is not the usual one; frozen parameters; optimizers of nothing and of one parameter."""
    shapes = [(2, 3), (draw.integer(2, 5),), (3, 1), (4,)]
    one = _optimizer(draw, shapes, _DOUBLE)
    for place, value in zip(
        draw.shuffled(range(4)),
        (draw.values(3, 2, kind="mixed", dtype=_DOUBLE), draw.tensor(3, dtype=torch.int64) + 2**60),
        strict=False,
    ):
        one["values"].insert(place, value)
        one["frozen"].insert(place, True)
    frozen = _optimizer(draw, [(3,)], _SINGLE)
    frozen["frozen"] = [True]
    nothing, of_no_elements = _optimizer(draw, [], _SINGLE), _optimizer(draw, [(0, draw.integer(1, 4))], _SINGLE)
    lone = _optimizer(draw, [(3, draw.integer(1, 3))], _SINGLE)
    made = [one, frozen, nothing, of_no_elements, lone]
    case = _case(draw, ("unused", "crossing"), 3, made, draw.each(1, 2, 3, 4) + [0, 0, 0, 0])
    _take_away(draw, case, [place for place, is_frozen in enumerate(one["frozen"]) if not is_frozen])
    return case


def _take_away(draw: Draw, case: Case, trained: list[int]) -> None:
    """In the second step a gradient in some ranks, and one in all; in the third all of them; in the fourth all of one rank's.

    Before the fourth what was trained is frozen, and what was frozen requires gradients: that comes too late.
    One of the second step's is the first parameter: what follows it is then seen to keep its place.
    """
    some, every = draw.shuffled([trained[0], draw.choice(trained[1:])])
    lacking, idle = draw.each(0, 1, 2)[:2]
    for rank, own in enumerate(case.each):
        of_it = [step for step in own["steps"] if step["of"] == 0]
        of_it[3]["exchanged"] = True
        _, second, third, fourth = (step["grads"] for step in of_it)
        for place in trained:
            if place == every or place == some and rank != lacking:
                second[place] = None
            third[place] = None
            if rank == idle:
                fourth[place] = None


def _refused(draw: Draw) -> list[dict]:
    """What ValueError is due for, and the like of it that is sound."""
    bad = [{"lr": -1e-3}, {"eps": -1e-8}]
    for beta in (-0.1, 1.0, 1.5):
        bad += [{"betas": [beta, 0.9]}, {"betas": [0.9, beta]}]
    refused = [_optimizer(draw, [(2, 2)], _SINGLE, options=_numbers(draw) | one) for one in bad]
    for dtypes in draw.each((_SINGLE, _DOUBLE), (_DOUBLE, _SINGLE), (_SINGLE, _SINGLE, torch.bfloat16)):
        refused.append(_optimizer(draw, [(2, 2)] * len(dtypes), _SINGLE))
        refused[-1]["values"] = [value.to(dtype) for value, dtype in zip(refused[-1]["values"], dtypes, strict=True)]
    sound = [_optimizer(draw, [(2, 2)] * many, draw.choice([_SINGLE, _DOUBLE])) for many in (1, 1, 2, 3)]
    return draw.shuffled(refused + sound)


def _case(
    draw: Draw,
    about: tuple[str, ...],
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
        written = [_weights(draw, like) if number == written_before and like is not None else None for like in likes]
        lone = len(likes) == 1  # of one parameter: its gradient in one piece is the flat tensor itself
        grads = [[None] * world if like is None else _gradients(draw, like, world, scale, lone) for like in likes]
        for rank in range(world):
            own = [one[rank] for one in grads]
            steps[rank].append({"of": which, "grads": own, "written": written, "exchanged": False})
    each = tuple({"optimizers": optimizers, "steps": own, "refused": list(refused)} for own in steps)
    return Case(about, {"world": world}, ranks=world, each=each)


def _optimizer(draw: Draw, shapes: list[Shape], dtype: torch.dtype, options: dict | None = None) -> dict:
    values = [_laid_out(draw, _weights(draw, torch.empty(shape, dtype=dtype))) for shape in shapes]
    return {
        "values": values,
        "frozen": [False] * len(values),
        "once": draw.chance(0.5),
        "options": _numbers(draw) if options is None else options,
    }


def _shapes_of(optimizer: dict) -> list[Shape]:
    return [tuple(value.shape) for value in optimizer["values"]]


def _numbers(draw: Draw) -> dict:
    """Not far from 1 all of them, so that each shows after a step or two."""
    tenths = lambda low, high: draw.integer(low, high) / 10
    return {"lr": tenths(5, 9) / 10, "betas": [tenths(5, 8), tenths(6, 9) + 0.05], "eps": tenths(2, 9)}


def _until(draw: Draw, shapes: list[Shape], ranks: int, rests: set[int]) -> list[Shape]:
    """``shapes``, and a row more, so that the ranks leave one of ``rests`` of all elements."""
    elements = sum(torch.Size(shape).numel() for shape in shapes)
    lengths = [length for length in range(1, ranks + 1) if (elements + length) % ranks in rests]
    places = draw.integer(0, len(shapes))
    return [*shapes[:places], (draw.choice(lengths),), *shapes[places:]]


def _weights(draw: Draw, like: torch.Tensor) -> torch.Tensor:
    return draw.values(*like.shape, kind="mixed", dtype=like.dtype) / 8


def _gradients(draw: Draw, like: torch.Tensor, world: int, scale: float, in_one_piece: bool) -> list[torch.Tensor]:
    """Of each rank, unlike the others'; what all have in common is larger, so that no mean is near 0."""
    common = _weights(draw, like)
    own = [scale * (common + 0.3 * _weights(draw, like)) for _ in range(world)]
    return own if in_one_piece else [_laid_out(draw, one) for one in own]


def _laid_out(draw: Draw, x: torch.Tensor) -> torch.Tensor:
    """In one of the layouts that its dimensions allow: of rows in one piece, by columns, or in something larger."""
    if x.ndim == 0 or x.numel() == 0:
        return x
    return next(made for name in draw.shuffled(_LAYOUTS) if (made := laid_out(x, name)) is not None)
