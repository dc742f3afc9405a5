"""E1.2 patchify: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import error_problem, tensor_problem
from gpulab import Observation, shares_storage
from gpulab.units import format_bytes


def _patchify_cases(draw: Draw) -> Iterator[Case]:
    for layout in ("contiguous", "contiguous", "channels_last", "crop"):
        about = ("values", "no_copy") if layout == "contiguous" else ("layouts",)
        patch = draw.integer(2, 5)
        images = _images(draw, layout, patch)
        yield Case(about, {"images": images, "patch": patch, "refused": False})
    none = torch.empty(0, 3, 8, 12)
    yield Case(("values",), {"images": none, "patch": 4, "refused": False})
    for height, width, patch in ((13, 12, 4), (12, 13, 4), (12, 12, 0)):
        images = draw.tensor(1, 2, height, width)
        yield Case(("errors",), {"images": images, "patch": patch, "refused": True})


def _images(draw: Draw, layout: str, patch: int) -> torch.Tensor:
    """A batch whose grid has unequal numbers of rows and columns."""
    n, c, rows = draw.integer(2, 3), draw.integer(2, 4), draw.integer(2, 4)
    height, width = rows * patch, (rows + draw.integer(1, 3)) * patch
    dtype = draw.choice((torch.float32, torch.int32))
    if layout == "channels_last":
        return draw.tensor(n, c, height, width, dtype=dtype).contiguous(memory_format=torch.channels_last)
    if layout == "crop":
        return draw.tensor(n, c, height + 3, width + 5, dtype=dtype)[:, :, 2:-1, 1:-4]
    return draw.tensor(n, c, height, width, dtype=dtype)


def _patchify_reference(images: torch.Tensor, patch: int) -> torch.Tensor:
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


def _judge_patchify(case: Case, evidence: dict) -> Iterator[Lost]:
    if case.inputs["refused"]:
        problem = error_problem(evidence, "ValueError")
        if problem:
            yield Lost("errors", f"{problem} A patch that does not tile the image must be refused.")
        return
    images, patches = evidence["images"], evidence["patches"]
    right = _patchify_reference(case.inputs["images"], case.inputs["patch"])
    problem = tensor_problem(patches, right) or _wrong_patches(patches, right)
    value = case.about[0]
    if problem:
        yield Lost(value, problem)
    elif copied := _copied(Observation.from_dict(evidence["seen"]), patches, images):
        yield Lost(case.about[-1], copied)


def _wrong_patches(patches: torch.Tensor, right: torch.Tensor) -> str | None:
    if torch.equal(patches, right):
        return None
    if sorted(patches.flatten().tolist()) != sorted(right.flatten().tolist()):
        return "The result does not hold the images' pixels."
    if patches.shape == right.shape and torch.equal(patches, right.transpose(4, 5)):
        return "Inside each patch rows and columns are exchanged."
    return "The pixels are there, but in the wrong patch: [n, i, j] is row i, column j of the grid."


def _copied(seen: Observation, patches: torch.Tensor, images: torch.Tensor) -> str | None:
    if images.numel() == 0:
        return None
    if seen.copies:
        copy = seen.copies[0]
        return (
            f"The patches are right, but {format_bytes(seen.copied_bytes)} were copied "
            f"({copy.op}): splitting and reordering dimensions needs no copy, merging them does."
        )
    if not shares_storage(patches, images):
        return "The patches are right, but they live in a storage of their own: the pixels were copied."
    return None


patchify = Exercise(
    "views.patchify",
    criteria=(
        Criterion("values", 2, "every patch holds its own pixels"),
        Criterion("no_copy", 3, "no byte is copied and the patches share the images' storage", ("values",)),
        Criterion("layouts", 2, "channels_last images and crops are cut right, also without a copy", ("values",)),
        Criterion("errors", 1, "a patch that does not tile the image is refused with ValueError", ("values",)),
    ),
    cases=_patchify_cases,
    judge=_judge_patchify,
)
