"""E3.1 add_vectors and shade: cases and judges."""

from collections.abc import Iterator

import numpy as np
import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.execution.launches import bounds_problem, grid_problem, one_launch_problem
from autograder.verdicts.expect import tensor_problem
from gpulab import Observation
from gpulab.observe.launches import SECTOR_BYTES, WARP, Launch

_ITEM_BYTES = 4


def _add_cases(draw: Draw) -> Iterator[Case]:
    threads = draw.choice([32, 64, 96, 128])
    yield _add_case(("values", "once", "launch"), draw, draw.integer(3, 6) * threads, threads)
    threads = draw.choice([50, 100, 128, 200])
    yield _add_case(("tail", "bounds", "launch"), draw, draw.integer(2, 4) * threads + draw.integer(1, threads - 2), threads)
    yield _add_case(("tail", "bounds"), draw, draw.integer(1, 60), draw.choice([64, 128, 256]))
    yield _add_case(("empty",), draw, 0, 64)


def _add_case(about: tuple[str, ...], draw: Draw, n: int, threads: int) -> Case:
    return Case(about, {"a": draw.tensor(n), "b": draw.tensor(n) * 8, "threads": threads})


def _judge_add(case: Case, evidence: dict) -> Iterator[Lost]:
    seen = Observation.from_dict(evidence["seen"])
    if case.about == ("empty",):
        if seen.launches:
            yield Lost("empty", "For vectors of no elements a kernel is launched.")
        return
    a, b, threads = (case.inputs[name] for name in ("a", "b", "threads"))
    if problem := one_launch_problem(evidence, seen, a.nbytes) or _values_problem(evidence["out"], a + b):
        yield from (Lost(criterion, problem) for criterion in case.about if criterion in ("values", "tail"))
    if len(seen.launches) == 1:
        launch, n = seen.launches[0], a.numel()
        problems = {
            "bounds": bounds_problem(launch),
            "once": _once_problem(launch, loads=2 * n, stores=n),
            "launch": grid_problem(launch, (-(-n // threads), 1, 1), (threads, 1, 1)),
        }
        yield from (Lost(name, found) for name, found in problems.items() if found and name in case.about)


def _values_problem(out: object, due: torch.Tensor) -> str | None:
    if problem := tensor_problem(out, due):
        return problem
    if out.isnan().any():
        return "Some elements are never written: which threads are there, and which element is whose?"
    return None if out.equal(due) else "Some elements of the result are wrong."


def _once_problem(launch: Launch, loads: int, stores: int) -> str | None:
    if launch.total("stores") != stores:
        return "Elements are written more than once: several threads do the same element, or one thread does all."
    if launch.total("loads") > loads:
        return "Elements are read more often than needed: each is to be read once."
    if launch.races:
        return "Two threads use the same element, one of them to write it."
    return None


def _shade_cases(draw: Draw) -> Iterator[Case]:
    block = draw.choice([(32, 4), (32, 8), (64, 2)])
    columns, rows = draw.shuffled([2, 3])
    yield _shade_case(("values", "once", "launch", "sectors"), draw, rows * block[1] * 4, columns * block[0], block)
    block = draw.choice([(16, 8), (32, 4), (32, 6)])
    height = draw.integer(1, 3) * block[1] + draw.integer(1, block[1] - 1)
    width = draw.integer(4, 5) * block[0] + draw.integer(1, block[0] - 1)
    yield _shade_case(("values", "bounds", "launch"), draw, height, width, block)


def _shade_case(about: tuple[str, ...], draw: Draw, height: int, width: int, block: tuple[int, int]) -> Case:
    image, gain = draw.tensor(height, width), draw.tensor(width)
    return Case(about, {"image": image, "gain": gain, "block": list(block)})


def _judge_shade(case: Case, evidence: dict) -> Iterator[Lost]:
    image, gain, block = (case.inputs[name] for name in ("image", "gain", "block"))
    seen = Observation.from_dict(evidence["seen"])
    problem = one_launch_problem(evidence, seen, image.nbytes) or _values_problem(evidence["out"], image * gain)
    if problem:
        yield Lost("values", problem)
    if len(seen.launches) == 1:
        launch, (height, width) = seen.launches[0], image.shape
        grid = (-(-width // block[0]), -(-height // block[1]), 1)
        problems = {
            "bounds": bounds_problem(launch),
            "once": _once_problem(launch, loads=2 * image.numel(), stores=image.numel()),
            "launch": grid_problem(launch, grid, (*block, 1)),
            "sectors": _sectors_problem(launch, _least_sectors(height, width, block), loads=2 * image.numel()),
        }
        yield from (Lost(name, found) for name, found in problems.items() if found and name in case.about)


def _least_sectors(height: int, width: int, block: list[int]) -> tuple[int, int]:
    """Sectors read and written where x runs over the columns and each thread does its pixel."""
    rows, columns = -(-height // block[1]) * block[1], -(-width // block[0]) * block[0]
    y, x = np.mgrid[:rows, :columns]
    blocks = y // block[1] * (columns // block[0]) + x // block[0]
    warps = blocks * -(-block[0] * block[1] // WARP) + (y % block[1] * block[0] + x % block[0]) // WARP
    inside = (y < height) & (x < width)
    pixels = _distinct(warps[inside], (y * width + x)[inside])
    return pixels + _distinct(warps[inside], x[inside]), pixels


def _distinct(warps: np.ndarray, elements: np.ndarray) -> int:
    sectors = elements * _ITEM_BYTES // SECTOR_BYTES
    return len(np.unique(np.stack([warps, sectors]), axis=1).T)


def _sectors_problem(launch: Launch, least: tuple[int, int], loads: int) -> str | None:
    found = launch.total("read_sectors"), launch.total("written_sectors")
    if found[0] <= least[0] and found[1] <= least[1]:
        return None
    why = (
        "what is read again moves again."
        if launch.total("loads") > loads
        else "neighbours in a warp differ in threadIdx.x first, so x must be the index that runs along memory."
    )
    return f"The launch moves {sum(found) / sum(least):.2f} times the sectors that it needs: {why}"


add_vectors = Exercise(
    "execution.add_vectors",
    criteria=(
        Criterion("values", 2, "one launch of the learner's kernel writes the sum"),
        Criterion("tail", 1, "lengths that do not fill the last block come out whole", ("values",)),
        Criterion("bounds", 1, "no thread touches anything outside the arrays", ("values",)),
        Criterion("once", 1, "each element is read once and written once", ("values",)),
        Criterion("launch", 1, "the block is the one asked for and the grid the smallest that suffices", ("values",)),
        Criterion("empty", 1, "for vectors of no elements nothing is launched", ("values",)),
    ),
    cases=_add_cases,
    judge=_judge_add,
)
shade = Exercise(
    "execution.shade",
    criteria=(
        Criterion("values", 2, "one launch of the learner's kernel writes the picture"),
        Criterion("bounds", 1, "no thread touches anything outside the arrays", ("values",)),
        Criterion("once", 1, "each pixel is read once and written once", ("values",)),
        Criterion("launch", 1, "the block is the one asked for and the grid the smallest that suffices", ("values",)),
        Criterion("sectors", 2, "no more sectors move than one pixel a thread needs", ("values",)),
    ),
    cases=_shade_cases,
    judge=_judge_shade,
)
