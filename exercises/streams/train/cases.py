"""E6.2 train: cases."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case
from autograder.core.sampler import Sampler

_US = 800.0
"""Of the device for each step: so the host can run ahead."""
STILL = 1e-9
"""A learning rate with which no loss depends on what became of the parameters."""
_ALL = ("metrics", "updates", "waits")


@dataclass(frozen=True)
class Job(Case):
    """``about``: what the parameters depend on; they are right in the jobs before, or it is not what is told."""

    about: str = ""


def train_cases(sampler: Sampler) -> Iterator[Case]:
    """``broken``: the steps whose loss is above the limit."""
    many = sampler.integer(10, 12)  # entries: more than a small ring has slots
    yield _case(_ALL, sampler, every=1, steps=many, broken=[sampler.integer(0, many - 2)], depth=2, side_stream=True)
    every = sampler.integer(2, 3)
    yield _case(("updates",), sampler, every=2, steps=2, broken=[], stale=True, about="stale")
    yield _case(_ALL, sampler, every=every, steps=2 * every, broken=[1], groups=True, about="groups")
    yield _case(_ALL, sampler, every=2, steps=4, broken=[0, 1], at_limit=2, about="at_limit")
    yield _case(_ALL, sampler, every=2, steps=2, broken=[0, 1], stale=True, huge=True)
    yield _drift(sampler)
    broken = [*range(every), 2 * every - 1]
    yield _case(("metrics", "waits"), sampler, every=every, steps=2 * every, broken=broken, at_limit=every, lr=STILL)
    few = sampler.integer(4, 5)
    for every, steps in ((3, 4), (few, few - 1), (few, 0)):
        yield _case(("edges", "waits"), sampler, every=every, steps=steps, broken=[], lr=STILL)


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    every: int,
    steps: int,
    broken: list[int],
    depth=1,
    at_limit=None,
    huge=False,
    about="",
    **others,
) -> Job:
    """``at_limit``: a step whose loss is the limit exactly, at parameters that are zeros until then.

    ``huge``: a broken step's loss is finite in float32, and the sum of two is not.
    """
    width, out = sampler.integer(4, 7), 1 if huge else sampler.integer(2, 3)
    rows = [1 if huge else sampler.integer(5, 9) - step % 3 for step in range(steps)]
    xs, ys = [sampler.within_one(n, width) for n in rows], [sampler.within_one(n, out) for n in rows]
    limit = 100.0 if at_limit is not None else float(sampler.integer(50, 150))
    for step in broken:
        ys[step] = ys[step] + ((sampler.integer(20, 30) * 1e37) ** 0.5 if huge else 3 * limit**0.5)
    sizes = [width, *[sampler.integer(3, 6)] * (depth - 1), out]
    layers = [[sampler.within_one(wide, narrow), sampler.within_one(wide)] for narrow, wide in zip(sizes, sizes[1:])]
    if at_limit is not None:
        ys[at_limit] = torch.full_like(ys[at_limit], 10.0)
        layers = [[torch.zeros_like(tensor) for tensor in layer] for layer in layers]
    return _job(criteria, about, layers=layers, xs=xs, ys=ys, every=every, limit=limit, **others)


def _drift(sampler: Sampler) -> Job:
    """The second loss is above the limit at first and not when its turn comes, the third the other way round."""
    width, out = sampler.integer(4, 7), sampler.integer(2, 3)
    xs = [sampler.within_one(sampler.integer(4, 9), width) / 8 for _ in range(3)]
    ys = [torch.full((len(x), out), target) for x, target in zip(xs, (9.0, 12.0, -6.0))]
    layers = [[torch.zeros(out, width), torch.zeros(out)]]
    return _job(_ALL, "drift", layers=layers, xs=xs, ys=ys, every=3, limit=100.0, lr=out / 4)


def _job(criteria: tuple[str, ...], about: str, **inputs) -> Job:
    given = {"lr": 0.05, "us": _US, "stale": False, "groups": False, "side_stream": False}
    return Job(criteria, given | inputs, about=about)
