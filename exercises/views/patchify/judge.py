"""E1.2 patchify: cases and judge."""

import itertools
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import device_problem, error_problem, shares_input_storage, tensor_problem
from exercises.views.pictures import LAYOUTS, change_problem, dtypes, grids, pictures, same_elements
from gpulab import Observation, shares_storage
from gpulab.units import format_bytes


def _patchify_cases(sampler: Sampler) -> Iterator[Case]:
    """Every layout, dtype and grid once, with one channel and several, one image, several and none."""
    dtype, counts = dtypes(sampler), itertools.cycle(((1, 3), (2, 1), (3, 2)))
    for grid in sampler.shuffled(*grids(sampler)):
        yield _case(("values", "no_copy"), _images(sampler, "contiguous", next(counts), grid, next(dtype)), grid[0])
    counts = itertools.cycle(((1, 2), (4, 1), (2, 4)))  # no shape of the cases before
    several = itertools.cycle(sampler.shuffled(*(grid for grid in grids(sampler) if grid[1] * grid[2] > 1)))
    for layout in sampler.shuffled(*LAYOUTS[1:]):
        grid = next(several)
        yield _case(("layouts",), _images(sampler, layout, next(counts), grid, next(dtype)), grid[0])
    yield from _alike_but_for_one(sampler)
    none = _images(sampler, "padded", (2, 3), (4, 2, 3), torch.float32)[:0]
    yield _case(("layouts",), none, 4)
    yield _case(("layouts",), none.contiguous(), 4)
    for n, height, width, patch in _untiled(sampler):
        because = _why_refused(height, width, patch)
        yield _case(("errors",), sampler.tensor(n, 2, height, width), patch, raises="ValueError", because=because)


def _alike_but_for_one(sampler: Sampler) -> Iterator[Case]:
    """One shape: what was kept of one call is wrong for other images, other strides, and another patch; one address too."""
    for layout, patch in sampler.shuffled(
        ("contiguous", 2), ("contiguous", 2), ("contiguous", 1), ("channels_last", 2), ("transposed", 2)
    ):
        yield _case(("layouts",), _images(sampler, layout, (2, 3), (2, 2, 3), torch.float32), patch)
    square = _images(sampler, sampler.choice(LAYOUTS), (2, 3), (2, 3, 3), torch.float32)
    yield _case(("layouts",), square, 2, turned_first=True)


def _case(
    criteria: tuple[str, ...],
    images: torch.Tensor,
    patch: int,
    raises: str = "",
    because: str = "",
    turned_first: bool = False,
) -> Case:
    return Case(criteria, {"images": images, "patch": patch, "turned_first": turned_first}, raises, because)


def _images(
    sampler: Sampler, layout: str, counts: tuple[int, int], grid: tuple[int, int, int], dtype: torch.dtype
) -> torch.Tensor:
    """counts: images, channels. grid: patch, rows, columns."""
    patch, rows, columns = grid
    return pictures(sampler, layout, *counts, rows * patch, columns * patch, dtype)


def _untiled(sampler: Sampler) -> list[tuple[int, int, int, int]]:
    """(n, height, width, patch): one side is not divided, or both, or their product or sum alone is, by patch or its pixels; no patch at all."""
    n, patch = sampler.integer(1, 2), sampler.integer(3, 5)
    wholes = [patch * sampler.integer(2, 3), patch * sampler.integer(2, 3)]
    rest = sampler.integer(1, patch - 1)
    return sampler.shuffled(
        (n, wholes[0] + rest, wholes[1], patch),
        (n, wholes[0], wholes[1] + rest, patch),
        (n, wholes[0] + rest, wholes[1] + patch - rest, patch),
        (n, 6, 10, 4),
        (n, 9, 8, 6),
        (n, patch**2, patch + 1, patch),
        (n, patch + 1, patch**2, patch),
        (n, *wholes, 0),
        (n, *wholes, -1),
        (n, *wholes, -patch),
        (n, patch, 2 * patch, patch + 1),
        (n, patch, patch, 2 * patch),
        (0, wholes[0] + rest, wholes[1], patch),
        (0, *wholes, 0),
    )


def _why_refused(height: int, width: int, patch: int) -> str:
    if patch < 1:
        return f"patch {patch} is less than 1"
    undivided = [f"{name} of {side}" for name, side in (("H", height), ("W", width)) if side % patch]
    return f"patch {patch} does not divide {' or '.join(undivided)}"


def _patchify_reference(images: torch.Tensor, patch: int) -> torch.Tensor:
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


def _judge_patchify(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        if problem := error_problem(evidence, case.raises, case.because):
            yield Failure("errors", problem)
        return
    images, patches = case.inputs["images"], evidence["patches"]
    right = _patchify_reference(images, case.inputs["patch"])
    problem = tensor_problem(patches, right) or _wrong_patches(patches, right)
    problem = problem or change_problem(images, evidence["images"], evidence["given"])
    if problem:
        yield Failure(case.criteria[0], problem.replace("{}", "images"))
    elif copied := _copied(Observation.from_dict(evidence["seen"]), evidence):
        yield Failure(case.criteria[-1], copied)


def _wrong_patches(patches: torch.Tensor, right: torch.Tensor) -> str | None:
    if torch.equal(patches, right):
        return None
    if not same_elements(patches, right):
        return "The result does not hold the images' pixels."
    if patches.shape == right.shape and torch.equal(patches, right.transpose(4, 5)):
        return "Inside each patch rows and columns are exchanged."
    return "The pixels are there, but in the wrong patch: [n, i, j] is row i, column j of the grid."


def _copied(seen: Observation, evidence: dict) -> str | None:
    if evidence["given"].numel() == 0:
        return None
    if problem := device_problem(seen):
        return problem
    if seen.copies:
        copy = seen.copies[0]
        return (
            f"The patches are right, but {format_bytes(seen.copied_bytes)} were copied "
            f"({copy.op}): splitting and reordering dimensions needs no copy, merging them does."
        )
    if not shares_storage(evidence["patches"], evidence["given"]) or not shares_input_storage(evidence):
        return "The patches are right, but they live in a storage of their own: the pixels were copied."
    if allocated := sum(op.new_bytes for op in seen.ops if op.op != "aten.set_"):
        return f"The patches are right, but {format_bytes(allocated)} of storage were allocated: a view takes none."
    return None


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "every patch holds its own pixels"),
        Criterion("no_copy", 3, "no byte is copied and the patches share the images' storage", ("values",)),
        Criterion("layouts", 2, "other layouts and an empty batch are cut correctly, also without a copy", ("values",)),
        Criterion("errors", 1, "a patch that does not tile the image is refused with ValueError", ("values",)),
    ),
    cases=_patchify_cases,
    judge=_judge_patchify,
)
