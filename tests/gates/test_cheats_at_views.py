"""Cheating solutions to the chapter "Tensors are views" score zero."""

import pytest
import torch

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from tests.gates.threads import in_a_thread


class Liar(torch.Tensor):
    """Claims to be equal to everything."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True


def right_patches(images, patch):
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


def right_tokens(frames, patch, dtype):
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.to(dtype, memory_format=torch.contiguous_format).flatten(3).flatten(1, 2)


def everything_equal(x):
    class Equal:
        __eq__ = __ne__ = lambda self, other: True

    return Equal()


def wiped(x):
    """Wipes the input, so that a comparison with it would agree."""
    x.zero_()
    return x


PREDICT = {
    "floats": lambda size, stride, new_size: tuple(1.0 for _ in new_size),
    "booleans": lambda size, stride, new_size: tuple(True for _ in new_size),
    "a generator": lambda size, stride, new_size: (1 for _ in new_size),
    "the old strides": lambda size, stride, new_size: stride,
    "equal to everything": lambda size, stride, new_size: everything_equal(size),
    "strides of ones": lambda size, stride, new_size: (1,) * len(new_size),
    "an empty tuple": lambda size, stride, new_size: (),
    "torch in meta": lambda size, stride, new_size: (
        torch.empty_strided(size, stride, device="meta").view(new_size).stride()
    ),
    "torch under no_grad": lambda size, stride, new_size: (
        torch.zeros(100).as_strided(size, stride).reshape(new_size).stride()
    ),
}
PATCHIFY = {
    "a subclass": lambda images, patch: right_patches(images, patch).as_subclass(Liar),
    "wiped images": lambda images, patch: right_patches(wiped(images), patch),
    "not a number": lambda images, patch: torch.full_like(
        right_patches(images, patch), float("nan"), dtype=torch.float32
    ),
    "a broadcast zero": lambda images, patch: images.new_zeros(()).expand(right_patches(images, patch).shape),
    "the right shape, uninitialised": lambda images, patch: torch.empty_like(right_patches(images, patch)),
    "the images": lambda images, patch: images,
    "a list": lambda images, patch: right_patches(images, patch).tolist(),
    "NumPy": lambda images, patch: right_patches(images, patch).numpy(),
}
COMPACT = {
    "wiped batch": lambda batch: [torch.zeros_like(wiped(t.detach())) for t in batch],
    "shrunk storages": lambda batch: [t for t in batch if t.untyped_storage().resize_(t.nbytes) or True],
    "zeros": lambda batch: [torch.zeros_like(t) for t in batch],
    "subclasses": lambda batch: [t.clone().as_subclass(Liar) for t in batch],
    "one broadcast element": lambda batch: [t.new_zeros(()).expand(t.shape) for t in batch],
    "flattened": lambda batch: [t.flatten().clone() for t in batch],
    "one tensor too few": lambda batch: [t.clone() for t in batch][1:],
    "in reverse": lambda batch: [t.clone() for t in batch][::-1],
    "doubled": lambda batch: [t.to(torch.complex128) for t in batch],
    "the batch": lambda batch: batch,
    "None for each": lambda batch: [None for _ in batch],
    "a generator": lambda batch: (t.clone() for t in batch),
    "not a number": lambda batch: [torch.full_like(t, float("nan"), dtype=torch.float32) for t in batch],
}
TOKENS = {
    "a subclass": lambda frames, patch, dtype: right_tokens(frames, patch, dtype).as_subclass(Liar),
    "wiped frames": lambda frames, patch, dtype: right_tokens(wiped(frames), patch, dtype),
    "uninitialised": lambda frames, patch, dtype: torch.empty(right_tokens(frames, patch, dtype).shape, dtype=dtype),
    "a broadcast zero": lambda frames, patch, dtype: torch.zeros((), dtype=dtype).expand(
        right_tokens(frames, patch, dtype).shape
    ),
    "the frames": lambda frames, patch, dtype: frames,
    "the first image's tokens for all": lambda frames, patch, dtype: right_tokens(frames, patch, dtype)[:1].expand(
        frames.shape[0], -1, -1
    ),
    "wrong dtype": lambda frames, patch, dtype: right_tokens(frames, patch, torch.float16),
}


@pytest.mark.parametrize(
    ("exercise", "cheats"),
    [("predict_view", PREDICT), ("patchify", PATCHIFY), ("compact", COMPACT), ("to_tokens", TOKENS)],
)
def test_a_cheat_earns_nothing(exercise, cheats):
    scores = {what: score(exercise, cheat) for what, cheat in cheats.items()}
    assert scores == dict.fromkeys(cheats, 0)


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"views.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def test_the_answers_behind_these_cheats_are_right():
    assert score("to_tokens", right_tokens) == 8
    assert score("patchify", right_patches) == 7


def test_patches_copied_in_numpy_are_found_by_their_storage():
    def patchify(images, patch):
        return torch.from_numpy(right_patches(images, max(patch, 1)).numpy().copy())

    assert score("patchify", patchify) == 2


def test_tokens_made_in_another_thread_earn_nothing():
    def to_tokens(frames, patch, dtype):
        return in_a_thread(lambda: right_tokens(frames.clone().clone(), patch, dtype))

    assert score("to_tokens", to_tokens) == 0


def test_a_result_remembered_by_shape_is_found_by_fresh_values():
    memory: dict = {}

    def to_tokens(frames, patch, dtype):
        return memory.setdefault((frames.shape[1], patch, dtype), right_tokens(frames, patch, dtype))

    assert score("to_tokens", to_tokens) < 8
    assert score("to_tokens", to_tokens, seed=8) < 8


def test_copies_that_are_thrown_away_count():
    def compact(batch):
        copies = [
            t.detach().clone(memory_format=torch.contiguous_format).requires_grad_(t.requires_grad) for t in batch
        ]
        return [t if t.untyped_storage().nbytes() <= t.nbytes else copy for t, copy in zip(batch, copies)]

    assert score("compact", compact) == 6


def test_hidden_inputs_are_never_the_same_twice():
    def inputs(exercise: str) -> list[bytes]:
        seen: list[bytes] = []
        name = f"views.{exercise}"
        judge_here(name, lambda data: seen.append(data) or run_case(name, {}, data))
        return seen

    for exercise in ("predict_view", "compact", "to_tokens"):
        first, second = inputs(exercise), inputs(exercise)
        differ = sum(a != b for a, b in zip(first, second, strict=True))
        assert differ >= len(first) - 2, exercise
