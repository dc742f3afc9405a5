"""Cheating solutions to the chapter "Tensors are views" score zero."""

from operator import setitem

import numpy as np
import pytest
import torch

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from tests.gates.threads import in_a_thread


def right_patches(images, patch):
    return images.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)


def right_tokens(frames, patch, dtype):
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    return grid.to(dtype, memory_format=torch.contiguous_format).flatten(3).flatten(1, 2)


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


def with_a_second_copy(write, touch=False):
    """The dtype is changed by one copy, and the order by another, which NumPy makes in the first one's memory.

    ``touch``: an operation that changes nothing writes to a byte of it afterwards.
    """

    def to_tokens(frames, patch, dtype):
        right = right_tokens(frames, patch, dtype)
        made = frames.permute(0, 2, 3, 1).to(dtype, memory_format=torch.contiguous_format, copy=True)
        write(made.view(torch.uint8).numpy().reshape(-1), right.contiguous().view(torch.uint8).numpy().reshape(-1))
        if touch:
            made.view(torch.uint8).reshape(-1)[:1].mul_(1)
        return made.view(right.shape)

    return to_tokens


@pytest.mark.parametrize("write", [np.copyto, lambda at, what: setitem(memoryview(at), slice(None), what.tobytes())])
@pytest.mark.parametrize("touch", [False, True])
def test_tokens_that_numpy_wrote_over_an_operations_are_nobodys(write, touch):
    assert score("to_tokens", with_a_second_copy(write, touch)) == 0


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
