"""E3.2 shade: cases and judge."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from exercises.execution.launches import (
    faults_problem,
    grid_problem,
    once_problem,
    values_problem,
    work_problem,
)
from gpulab import Observation
from gpulab.observe.launches import SECTOR_BYTES, WARP, Launch

_ITEM_BYTES = 4
_ABOUT = ("values", "bounds", "once", "launch", "sectors")


def _cases(sampler: Sampler) -> Iterator[Case]:
    kinds = itertools.cycle(sampler.shuffled("mixed", "ties", "tiny", "negative"))
    for height, width, block in _sizes(sampler):
        kind = next(kinds)
        image, gain = (
            sampler.values(height, width, kind=kind),
            sampler.values(width, kind="mixed" if kind == "tiny" else kind),
        )
        yield Case(_ABOUT, {"image": image, "gain": gain, "block": list(block)})
    yield _of_special_values(sampler)


def _of_special_values(sampler: Sampler) -> Case:
    """Each of them times each."""
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1.5, sampler.integer(2, 99)])
    image, gain = sampler.values(sampler.integer(13, 19), 6, kind="mixed"), special[sampler.permutation(range(6))]
    image[3:9] = special[sampler.permutation(range(6))][:, None]
    return Case(_ABOUT, {"image": image, "gain": gain, "block": [4, 8]})


def _sizes(sampler: Sampler) -> list[tuple[int, int, tuple[int, int]]]:
    """Height, width, block: whole and ragged along each side, wide, tall and square, one row, one column, one pixel, many rows.

    One size in several blocks, one block for several sizes, and blocks of more than half of the threads that there may be.
    """
    again = sampler.integer(18, 23), sampler.integer(41, 47)
    wide, tall, odd = (
        sampler.choice([(32, 4), (64, 2)]),
        sampler.choice([(8, 16), (4, 40)]),
        sampler.choice([(5, 7), (12, 5)]),
    )
    return sampler.shuffled(
        (wide[1] * sampler.integer(5, 7), wide[0] * sampler.integer(2, 3), wide),
        (sampler.integer(6, 9), wide[0] * 2 + sampler.integer(1, 7), (16, 8)),
        (tall[1] * 2, tall[0] * sampler.integer(3, 4) + 1, tall),
        (odd[1] * 2 + 1, odd[0] * 5, odd),
        (*[sampler.integer(33, 39)] * 2, (32, 4)),
        (sampler.integer(17, 30), 8 * sampler.integer(5, 6), sampler.choice([(8, 8), (16, 16)])),
        (sampler.integer(150, 200), sampler.integer(3, 9), (32, 1)),
        (1, sampler.integer(40, 90), (32, sampler.integer(2, 8))),
        (sampler.integer(40, 90), 1, (sampler.choice([1, 16]), 32)),
        (1, 1, sampler.choice([(1, 1), (1024, 1), (1, 1024)])),
    ) + [(*again, block) for block in ((5, 7), (16, 8), sampler.choice([(25, 40), (40, 25), (32, 32)]))]


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    image, gain, block = (case.inputs[name] for name in ("image", "gain", "block"))
    seen = Observation.from_dict(evidence["seen"])
    if problem := work_problem(evidence, seen, image.nbytes) or values_problem(seen, evidence["out"], image * gain):
        yield Failure("values", problem)
    if len(seen.launches) != 1:
        return
    launch, (height, width) = seen.launches[0], image.shape
    grid = (-(-width // block[0]), -(-height // block[1]), 1)
    problems = {
        "bounds": faults_problem(launch),
        "once": once_problem(launch, image.nbytes, reads=None if height == 1 else image.nbytes),
        "launch": grid_problem(launch, grid, (*block, 1)),
        "sectors": _sectors_problem(launch, least_sectors(height, width, block)),
    }
    yield from (Failure(name, found) for name, found in problems.items() if found)


def least_sectors(height: int, width: int, block: list[int]) -> tuple[int, int]:
    """Sectors read and written where x runs over the columns and each thread does its pixel.

    From whichever corner x and y begin: rows that begin inside a sector are then shared by other warps.
    """
    counts = [_sectors(height, width, block, *corner) for corner in itertools.product((False, True), repeat=2)]
    return max(read for read, _ in counts), max(written for _, written in counts)


def _sectors(height: int, width: int, block: list[int], from_below: bool, from_the_right: bool) -> tuple[int, int]:
    rows, columns = -(-height // block[1]) * block[1], -(-width // block[0]) * block[0]
    y, x = np.mgrid[:rows, :columns]
    blocks = y // block[1] * (columns // block[0]) + x // block[0]
    warps = blocks * -(-block[0] * block[1] // WARP) + (y % block[1] * block[0] + x % block[0]) // WARP
    inside = (y < height) & (x < width)
    y, x = height - 1 - y if from_below else y, width - 1 - x if from_the_right else x
    pixels = _distinct(warps[inside], (y * width + x)[inside])
    return pixels + _distinct(warps[inside], x[inside]), pixels


def _distinct(warps: np.ndarray, elements: np.ndarray) -> int:
    sectors = elements * _ITEM_BYTES // SECTOR_BYTES
    return len(np.unique(np.stack([warps, sectors]), axis=1).T)


def _sectors_problem(launch: Launch, least: tuple[int, int]) -> str | None:
    found = launch.total("read_sectors"), launch.total("written_sectors")
    if found[0] <= least[0] and found[1] <= least[1]:
        return None
    return (
        f"The launch moves {sum(found) / sum(least):.2f} times the sectors that it needs: neighbours in a warp differ in "
        "threadIdx.x first, so x must be the index that runs along memory; and what is read again moves again."
    )


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "one launch of the learner's kernel writes the picture, and nothing is returned"),
        Criterion("bounds", 1, "no access is out of bounds, and there are no races or missed barriers", ("values",)),
        Criterion("once", 1, "each pixel is read once and written once", ("values",)),
        Criterion(
            "launch", 1, "the block is as passed and the grid the smallest that covers all elements", ("values",)
        ),
        Criterion(
            "sectors", 2, "accesses are coalesced: no more sectors move than with one pixel per thread", ("values",)
        ),
    ),
    cases=_cases,
    judge=_judge,
)
