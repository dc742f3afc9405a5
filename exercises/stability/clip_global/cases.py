"""E17.1 clip_global: what is drawn."""

import math
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler

Tensor = torch.Tensor
ELEMENTS = 64
"""With so many in each gradient new memory is judged."""


def cases(sampler: Sampler) -> Iterator[Case]:
    for make in sampler.permutation((_alone, _many, _odd, _not_finite, _sharded, _refused)):
        yield from make(sampler)


def _case(criteria: tuple[str, ...], grads: list, max_norm: float, once: bool = False, raises: str = "") -> Case:
    return Case(criteria, {"grads": grads, "max_norm": max_norm, "once": once}, raises)


def norm_of(grads: list) -> float:
    """In double precision."""
    return math.sqrt(sum(float(grad.double().square().sum()) for grad in grads if grad is not None))


def _grads(
    sampler: Sampler, sizes: list[int], dtype: torch.dtype = torch.float32, buffer: bool = False
) -> list[Tensor]:
    """No two alike, each of another length, of one or two dimensions; slices of one ``buffer``, or not."""
    made = [sampler.within_one(size, dtype=torch.float64) * sampler.integer(1, 40) / 10 for size in sizes]
    made = [(one.view(2, -1) if one.numel() % 2 == 0 and one.numel() else one).to(dtype) for one in made]
    if buffer:
        whole = torch.cat([one.flatten() for one in made])
        parts = whole.split(sizes)
        made = [part.view(one.shape) for part, one in zip(parts, made, strict=True)]
    return made


def _alone(sampler: Sampler) -> Iterator[Case]:
    """Norms above the limit and below it, by much and by little; in both dtypes; in memory of their own, and in slices."""
    for chosen in sampler.cover(
        share=(0.02, 0.97, 1.03, 50.0), dtype=(torch.float32, torch.bfloat16), buffer=(False, True), once=(False, True)
    ):
        grads = _grads(
            sampler, [sampler.integer(5, 40) for _ in range(sampler.integer(2, 6))], chosen["dtype"], chosen["buffer"]
        )
        yield _case(("norm", "clipped"), grads, norm_of(grads) * chosen["share"], chosen["once"])
    large = [torch.full((4096,), 1.0, dtype=torch.bfloat16), *_grads(sampler, [7], torch.bfloat16)]
    yield _case(("norm", "clipped"), large, sampler.integer(1, 9))


def _many(sampler: Sampler) -> Iterator[Case]:
    """Two and up to a hundred, of 64 elements and more, clipped or not; generators, too."""
    for count, share, dtype in sampler.shuffled(
        (2, 0.3, torch.float32),
        (100, 0.2, torch.float32),
        (sampler.integer(40, 90), 0.1, torch.bfloat16),
        (60, 3.0, torch.float32),
    ):
        grads = _grads(sampler, [sampler.integer(ELEMENTS, ELEMENTS + 60) for _ in range(count)], dtype)
        yield _case(("device", "norm", "clipped"), grads, norm_of(grads) * share, sampler.chance(0.5))


def _odd(sampler: Sampler) -> Iterator[Case]:
    """Parameters without gradients, none with one, none at all; gradients of one element, of no dimension, of none; zeros; limits at the ends."""
    some = _grads(sampler, [1, 0, sampler.integer(3, 9)])
    yield _case(
        ("norm", "clipped"),
        sampler.permutation([*some, None, torch.tensor(sampler.integer(3, 9) / 2), None]),
        0.25,
        True,
    )
    for grads in sampler.shuffled([None, None], [], [torch.zeros(0)]):
        yield _case(("norm", "clipped"), grads, sampler.choice([0.0, 1.0]))
    yield _case(("norm", "clipped"), [torch.zeros(3), torch.zeros(2, 2)], 0.0)
    yield _case(("norm", "clipped"), [torch.zeros(5)], 1.0)
    for max_norm in sampler.shuffled(0.0, 0, math.inf):
        yield _case(("norm", "clipped"), _grads(sampler, [4, 6]), max_norm)


def _not_finite(sampler: Sampler) -> Iterator[Case]:
    """NaN, both infinities, both at once; in one element, in the only gradient, under limits of all kinds."""
    for bad, max_norm in sampler.shuffled(
        (math.nan, 1.0),
        (math.inf, 1.0),
        (-math.inf, 0.5),
        (math.nan, 0.0),
        (math.inf, math.inf),
        (math.nan, math.inf),
        (math.inf, 0.0),
    ):
        grads = _grads(sampler, [6, sampler.integer(5, 20), 4], sampler.choice([torch.float32, torch.bfloat16]))
        grads[sampler.integer(0, 2)].view(-1)[sampler.integer(0, 3)] = bad
        yield _case(("finite",), grads, max_norm)
    both = _grads(sampler, [5, 7])
    both[0][1], both[1][2] = math.inf, -math.inf
    yield _case(("finite",), both, 1.0)
    yield _case(("finite",), [torch.tensor([math.nan, 2.0])], 0.1)


def _sharded(sampler: Sampler) -> Iterator[Case]:
    """All ranks in one group, in two, some in none; a rank without gradients; limits between a rank's norm and everyone's; a NaN."""
    everyone, halves, pair = [[0, 1, 2]], [[0, 2], [1, 3]], [[1, 2]]
    for groups, world, what in sampler.shuffled(
        (halves, 4, "plain"), (pair, 3, "empty"), (everyone, 3, "nan"), ([], 2, "plain")
    ):
        each = [
            {"grads": _grads(sampler, [sampler.integer(4, 12) for _ in range(sampler.integer(1, 3))], torch.float32)}
            for _ in range(world)
        ]
        if what == "empty":
            each[sampler.choice([1, 2])]["grads"] = sampler.choice([[], [None]])
        if what == "nan":
            each[sampler.integer(0, 2)]["grads"][0].view(-1)[1] = sampler.choice([math.nan, math.inf])
        for rank, own in enumerate(each):
            together = norm_of(sum((each[one]["grads"] for one in members(groups, rank)), []))
            own["max_norm"] = together * sampler.choice([0.1, 0.9]) if math.isfinite(together) else 1.0
        for ranks in groups:  # all ranks of a group have one limit
            for rank in ranks:
                each[rank]["max_norm"] = each[ranks[0]]["max_norm"]
        yield Case(
            ("finite" if what == "nan" else "shards",),
            {"groups": groups, "world": world},
            ranks=world,
            per_rank_inputs=tuple(each),
        )


def members(groups: list[list[int]], rank: int) -> list[int]:
    """Those whose gradients count with a rank's: of its group, or it alone."""
    return next((ranks for ranks in groups if rank in ranks), [rank])


def _refused(sampler: Sampler) -> Iterator[Case]:
    for max_norm in sampler.shuffled(-1.0, -1e-9, math.nan, -math.inf, -sampler.integer(2, 9)):
        yield _case(("errors",), _grads(sampler, [4, 6]), max_norm, raises="ValueError")
    each = tuple({"grads": _grads(sampler, [4]), "max_norm": max_norm} for max_norm in (-1.0, -1.0))
    yield Case(("errors",), {"groups": [[0, 1]], "world": 2}, "ValueError", ranks=2, per_rank_inputs=each)
