"""E1.4 to_tokens: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import nothing_wrote, tensor_problem
from gpulab import Observation, shares_storage, storage_bytes
from gpulab.units import format_bytes, plural

_OTHER_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


def _to_tokens_cases(draw: Draw) -> Iterator[Case]:
    patch = draw.integer(2, 4)
    dtype = draw.choice((torch.uint8, torch.float32))
    yield _case("reorder", _frames(draw, patch, dtype), patch, dtype)
    yield _case("reorder", _camera(_frames(draw, patch, dtype)), patch, dtype)
    yield _case("cast", _camera(_frames(draw, patch, torch.uint8)), patch, draw.choice(_OTHER_DTYPES))
    yield _case("cast", _frames(draw, patch, torch.int16), patch, draw.choice(_OTHER_DTYPES))
    yield _case("as_is", _camera(_frames(draw, 1, dtype)), 1, dtype)
    yield _case("as_is", _frames(draw, 1, dtype), 1, dtype)
    yield _case("as_is", _camera(_frames(draw, patch, dtype, columns=1)), patch, dtype)
    yield _case("as_is", _camera(_frames(draw, patch, torch.int64, columns=1))[:, :, patch:], patch, torch.int64)
    yield _case("edges", _crop(_camera(_frames(draw, patch, torch.uint8)), patch), patch, torch.float32)
    yield _case("edges", _crop(_frames(draw, patch, dtype), patch), patch, dtype)
    yield _case("edges", _frames(draw, patch, torch.uint8)[:0], patch, torch.float32)


def _case(about: str, frames: torch.Tensor, patch: int, dtype: torch.dtype) -> Case:
    name = str(dtype).removeprefix("torch.")
    return Case((about,), {"frames": frames, "patch": patch, "dtype": name})


def _frames(draw: Draw, patch: int, dtype: torch.dtype, columns: int = 0) -> torch.Tensor:
    """Contiguous frames, with more columns of patches than rows unless ``columns`` says how many."""
    n, c, rows = draw.integer(2, 3), draw.integer(2, 4), draw.integer(3, 4)
    columns = columns or rows + draw.integer(1, 3)
    return draw.tensor(n, c, rows * patch, columns * patch, dtype=dtype)


def _camera(frames: torch.Tensor) -> torch.Tensor:
    return frames.contiguous(memory_format=torch.channels_last)


def _crop(frames: torch.Tensor, patch: int) -> torch.Tensor:
    """One patch less each way, cut out in the middle of the pixels."""
    return frames[:, :, 1 : 1 - patch, 1 : 1 - patch]


def _to_tokens_reference(frames: torch.Tensor, patch: int, dtype: torch.dtype) -> torch.Tensor:
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.flatten(3).flatten(1, 2).to(dtype)


def _judge_to_tokens(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    frames, dtype = case.inputs["frames"], getattr(torch, case.inputs["dtype"])
    due = _to_tokens_reference(frames, case.inputs["patch"], dtype)
    tokens = evidence["tokens"]
    problem = tensor_problem(tokens, due) or _wrong_tokens(tokens, due, frames.shape[1])
    if not problem and not torch.equal(evidence["frames"], frames):
        problem = "The function changed the frames."
    if not problem and due.numel():
        seen = Observation.from_dict(evidence["seen"])
        problem = _needless_copy(seen, evidence) if about == "as_is" else _over_budget(seen, evidence)
    if problem:
        yield Lost(about, problem)


def _wrong_tokens(tokens: torch.Tensor, due: torch.Tensor, channels: int) -> str | None:
    if torch.equal(tokens, due):
        return None
    if sorted(tokens.flatten().tolist()) != sorted(due.flatten().tolist()):
        return "The tokens do not hold the frames' pixels."
    if torch.equal(tokens, due.unflatten(-1, (-1, channels)).transpose(-1, -2).flatten(-2)):
        return "Inside each token the channels come one after the other; those of a pixel belong side by side."
    return "The pixels are there, but in the wrong order: a view of merged dimensions does not reorder them."


def _over_budget(seen: Observation, evidence: dict) -> str | None:
    if len(seen.copies) > 1:
        made = ", ".join(copy.op.removeprefix("aten.") for copy in seen.copies[:4])
        return f"The tokens are right, but they took {plural(len(seen.copies), 'copy')} ({made}): {_why(seen)}"
    if seen.new_bytes > evidence["tokens"].nbytes:
        return f"The tokens are right, but {format_bytes(seen.new_bytes)} of storage were allocated, more than they take."
    return _UNSEEN if _came_from_outside(seen, evidence) else None


_UNSEEN = "The tokens were made outside PyTorch, where no copy can be counted: write it in PyTorch."


def _came_from_outside(seen: Observation, evidence: dict) -> bool:
    """True when NumPy, or whatever else, handed PyTorch the bytes: they are lifted, not allocated."""
    if shares_storage(evidence["tokens"], evidence["frames"]):
        return False
    if seen.new_bytes < storage_bytes(evidence["tokens"]) or nothing_wrote(seen):
        return True
    return evidence["origin"] != "new" or any(op.op.startswith("aten.lift") for op in seen.ops)


def _why(seen: Observation) -> str:
    kinds = [copy.kind for copy in seen.copies]
    if kinds.count("cast") > 1:
        return "to convert twice is to copy twice."
    if "cast" in kinds:
        return "a conversion writes every element once, and can write them in the order that is needed."
    return "reorder with views first, and let one operation write the result."


def _needless_copy(seen: Observation, evidence: dict) -> str | None:
    if seen.copies:
        return f"The frames' elements already lie in this order, and {seen.copies[0].op} copied them: reshape asks first."
    if seen.new_bytes or not shares_storage(evidence["tokens"], evidence["frames"]):
        return "The frames' elements already lie in this order, and yet the tokens have a storage of their own."
    return None


to_tokens = Exercise(
    "views.to_tokens",
    criteria=(
        Criterion("reorder", 2, "frames of the right dtype become the right tokens with at most one copy"),
        Criterion("cast", 3, "frames of another dtype become the right tokens with one copy, the conversion"),
        Criterion("as_is", 2, "frames that already lie in token order become tokens without a copy"),
        Criterion("edges", 1, "crops and an empty batch become the right tokens with at most one copy"),
    ),
    cases=_to_tokens_cases,
    judge=_judge_to_tokens,
)
