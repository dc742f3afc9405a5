"""E1.4 to_tokens: cases and judge."""

import itertools
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import device_problem, shares_input_storage, tensor_problem
from exercises.views.pictures import change_problem, grids, pictures, same_elements, with_special_values
from gpulab import Observation, shares_storage, storage_bytes
from gpulab.units import format_bytes

_SAME = (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.float64)
_CASTS = (
    (torch.uint8, torch.float32),
    (torch.uint8, torch.bfloat16),
    (torch.int16, torch.int64),
    (torch.int64, torch.float64),
    (torch.float64, torch.float32),
    (torch.float32, torch.float64),
    (torch.int64, torch.int32),
)
"""Pixels that differ become numbers that differ: a wrong order shows in each of the grids, of which there are fewer."""
_LOSING_CASTS = ((torch.float32, torch.uint8), (torch.uint8, torch.bool), (torch.bool, torch.float16))


def _to_tokens_cases(sampler: Sampler) -> Iterator[Case]:
    """Every pair of dtypes, every layout and every grid once for each criterion that they can settle."""
    counts = itertools.cycle(((2, 3), (1, 3), (3, 2), (2, 1)))
    tiled = itertools.cycle(sampler.shuffled(*(grid for grid in grids(sampler) if grid[0] > 1 and grid[2] > 1)))
    same, casts = (
        itertools.cycle(sampler.shuffled(*_SAME)),
        [*sampler.shuffled(*_CASTS), *sampler.shuffled(*_LOSING_CASTS)],
    )
    every_grid = itertools.cycle(sampler.shuffled(*grids(sampler)))
    for layout in sampler.shuffled("contiguous", "channels_last", "offset"):
        dtype = next(same)
        yield _case("reorder", _frames(sampler, layout, next(counts), next(tiled), dtype), dtype)
    for rows, columns in sampler.shuffled((1, 1), (sampler.integer(2, 3), 1), (1, 2)):
        dtype = next(same)
        yield _case("reorder", _frames(sampler, "contiguous", (2, 3), (3, rows, columns), dtype), dtype)
    for criteria, dtype, other in (
        ("reorder", torch.float32, torch.float32),
        ("cast", torch.float64, torch.float32),
        ("cast", torch.float32, torch.int32),
    ):
        frames, patch = _frames(sampler, "contiguous", (2, 3), (2, 3, 2), dtype)
        yield _case(criteria, (with_special_values(frames), patch), other, refilled=True)
    for i, (dtype, other) in enumerate(casts):
        layout = ("contiguous", "channels_last")[i % 2]
        yield _case("cast", _frames(sampler, layout, next(counts), next(every_grid), dtype), other)
    for frames, patch in _in_token_order(sampler, same):
        yield _case("as_is", (frames, patch), frames.dtype)
    pairs = [*_CASTS[:4], *((dtype, dtype) for dtype in _SAME[1:4])]
    for layout, (dtype, other) in zip(
        sampler.shuffled("stepped", "padded", "transposed", "expanded", "windows", "padded"), sampler.permutation(pairs)
    ):
        yield _case("edges", _frames(sampler, layout, next(counts), next(tiled), dtype), other)
    camera, patch = _frames(sampler, "channels_last", (2, 3), (3, 2, 3), torch.uint8)
    yield _case("edges", (_crop(camera), patch), torch.float32, refilled=True)
    for _ in range(2):
        yield _case("edges", (_crop(_camera_like(sampler, 4, 5)), 1), torch.int32)
    for dtype in (torch.float32, torch.uint8):
        yield _case("edges", (camera[:0], patch), dtype)


def _case(criteria: str, framed: tuple[torch.Tensor, int], dtype: torch.dtype, refilled: bool = False) -> Case:
    """refilled: tokens have been made of these frames before, when they showed something else."""
    frames, patch = framed
    name = str(dtype).removeprefix("torch.")
    return Case((criteria,), {"frames": frames, "patch": patch, "dtype": name, "refilled": refilled})


def _frames(
    sampler: Sampler, layout: str, counts: tuple[int, int], grid: tuple[int, int, int], dtype: torch.dtype
) -> tuple[torch.Tensor, int]:
    """Frames and their patch. counts: images, channels. grid: patch, rows, columns."""
    patch, rows, columns = grid
    return pictures(sampler, layout, *counts, rows * patch, columns * patch, dtype), patch


def _camera_like(
    sampler: Sampler, height: int, width: int, n: int = 2, c: int = 3, dtype: torch.dtype = torch.int32
) -> torch.Tensor:
    return pictures(sampler, "channels_last", n, c, height, width, dtype)


def _crop(frames: torch.Tensor) -> torch.Tensor:
    """As many pixels less on each side as leave whole patches of 1 or 3: 1 above and left, 2 below and right."""
    return frames[:, :, 1:-2, 1:-2]


def _in_token_order(sampler: Sampler, dtypes: Iterator[torch.dtype]) -> Iterator[tuple[torch.Tensor, int]]:
    """Frames and a patch for which strides reach the elements in the order of the tokens."""
    a, b, p = sampler.integer(3, 5), sampler.integer(6, 8), sampler.integer(2, 4)
    yield _camera_like(sampler, a, b, dtype=next(dtypes)), 1
    yield pictures(sampler, "contiguous", 2, 3, a, b, next(dtypes)), 1
    yield _camera_like(sampler, a * p, p, dtype=next(dtypes)), p
    yield _camera_like(sampler, p, p, n=3, dtype=next(dtypes)), p
    yield _camera_like(sampler, a * p, p, dtype=next(dtypes))[:, :, p:], p
    yield _camera_like(sampler, a * p, p, n=4, dtype=next(dtypes))[::2], p
    yield _camera_like(sampler, a * p, p, n=1, dtype=next(dtypes)), p
    yield pictures(sampler, "contiguous", 2, 1, a * p, p, next(dtypes)), p
    yield pictures(sampler, "expanded", 2, 3, a, b, next(dtypes)), 1
    yield _camera_like(sampler, 1, b, dtype=next(dtypes))[..., 2:], 1
    yield _camera_like(sampler, a, 2 * b, dtype=next(dtypes))[..., ::2], 1
    for patch in sampler.shuffled(1, p, p):  # of one layout: what was kept of one call is wrong for others
        yield _camera_like(sampler, (a + 1) * p, p), patch


def _grid(frames: torch.Tensor, patch: int) -> torch.Tensor:
    return frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)


def _flat(grid: torch.Tensor) -> torch.Tensor:
    return grid.flatten(3).flatten(1, 2)


def _judge_to_tokens(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    frames, dtype = case.inputs["frames"], getattr(torch, case.inputs["dtype"])
    grid = _grid(frames, case.inputs["patch"])
    expected = _flat(grid).to(dtype)
    tokens = evidence["tokens"]
    problem = tensor_problem(tokens, expected) or _wrong_tokens(
        tokens, expected, _flat(_has_a_value(grid, dtype)), frames.shape[1]
    )
    problem = problem or change_problem(frames, evidence["frames"], evidence["given"])
    if not problem and expected.numel():
        seen = Observation.from_dict(evidence["seen"])
        problem = device_problem(seen) or (_needless_copy if criteria == "as_is" else _over_budget)(seen, evidence)
    if problem:
        yield Failure(criteria, problem.replace("{}", "frames"))


def _has_a_value(pixels: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where a cast gives something definite: no floating-point number beyond the integers of ``dtype``."""
    if not pixels.is_floating_point() or dtype.is_floating_point or dtype is torch.bool:
        return torch.ones_like(pixels, dtype=torch.bool)
    limits, whole = torch.iinfo(dtype), pixels.double().trunc()
    return (whole >= limits.min) & (whole <= limits.max)


def _wrong_tokens(tokens: torch.Tensor, expected: torch.Tensor, has_a_value: torch.Tensor, channels: int) -> str | None:
    both_nan = (tokens != tokens) & (expected != expected)
    if ((tokens == expected) | both_nan | ~has_a_value).all():
        return None
    if not same_elements(tokens, expected):
        return "The tokens do not hold the frames' pixels."
    if torch.equal(tokens, expected.unflatten(-1, (-1, channels)).transpose(-1, -2).flatten(-2)):
        return "Inside each token the channels come one after the other; those of a pixel belong side by side."
    return "The pixels are there, but in the wrong order: a view of merged dimensions does not reorder them."


def _over_budget(seen: Observation, evidence: dict) -> str | None:
    if seen.copied_bytes > evidence["tokens"].nbytes:
        made = ", ".join(copy.op.removeprefix("aten.") for copy in seen.copies[:4])
        took = f"{format_bytes(seen.copied_bytes)} were copied for {format_bytes(evidence['tokens'].nbytes)} of tokens"
        return f"The tokens are right, but {took} ({made}): {_why(seen)}"
    if seen.new_bytes > evidence["tokens"].nbytes:
        return (
            f"The tokens are right, but {format_bytes(seen.new_bytes)} of storage were allocated, more than they take."
        )
    return _UNSEEN if _came_from_outside(seen, evidence) else None


_UNSEEN = "The tokens were made outside PyTorch, where no copy can be counted: write it in PyTorch."


def _came_from_outside(seen: Observation, evidence: dict) -> bool:
    """True unless PyTorch's operations wrote the tokens, and read the frames for it."""
    if _lie_in_the_frames(evidence):
        return False
    if seen.new_bytes < storage_bytes(evidence["tokens"]) or evidence["made_of_frames"] is not True:
        return True
    return any(op.op.startswith("aten.lift") for op in seen.ops)


def _lie_in_the_frames(evidence: dict) -> bool:
    return shares_storage(evidence["tokens"], evidence["given"]) and shares_input_storage(evidence)


def _why(seen: Observation) -> str:
    kinds = [copy.kind for copy in seen.copies]
    if kinds.count("cast") > 1:
        return "to convert twice is to copy twice."
    if "cast" in kinds:
        return "a conversion writes every element once, and can write them in the order that is needed."
    return "reorder with views first, and let one operation write the result."


def _needless_copy(seen: Observation, evidence: dict) -> str | None:
    if seen.copies:
        return (
            f"The frames' elements already lie in this order, and {seen.copies[0].op} copied them: reshape asks first."
        )
    if seen.new_bytes or not _lie_in_the_frames(evidence):
        return "The frames' elements already lie in this order, and yet the tokens have a storage of their own."
    return None


exercise = Exercise(
    criteria=(
        Criterion("reorder", 2, "frames of the right dtype become the right tokens with at most one copy"),
        Criterion("cast", 3, "frames of another dtype become the right tokens with one copy, the conversion"),
        Criterion("as_is", 2, "frames that already lie in token order become tokens without a copy"),
        Criterion("edges", 1, "crops and an empty batch become the right tokens with at most one copy"),
    ),
    cases=_to_tokens_cases,
    judge=_judge_to_tokens,
)
