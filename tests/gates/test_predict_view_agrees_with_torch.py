"""E1.1's solution against Tensor.view, far beyond what one grading asks."""

from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autograder.authoring.text import read_text_notebook
from autograder.notebooks.cells import solution_of

VIEWS = Path(__file__).parents[2] / "exercises" / "views" / "notebook.py"
NEEDS_A_COPY = "not compatible with input tensor's size and stride"


def solution():
    import math

    namespace = {"math": math}
    exec(solution_of(read_text_notebook(VIEWS), "predict_view"), namespace)
    return namespace["predict_view"]


predict_view = solution()


def truth(size, stride, new_size):
    """Shape and strides of the view, None where it takes a copy, ValueError where it is no size."""
    try:
        view = torch.empty_strided(size, stride, device="meta").view(new_size)
    except RuntimeError as error:
        return None if NEEDS_A_COPY in str(error) else ValueError
    return view.shape, view.stride()


@st.composite
def questions(sampler):
    size = sampler(st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 4, 6]), max_size=4))
    stride, step = [], 1
    for n in reversed(size):
        stride.insert(0, sampler(st.sampled_from([step, step, step, 0, 1, 2, 7])))
        step *= max(n, 1)
    order = sampler(st.permutations(range(len(size))))
    factors = [f for n in size for f in {0: [0], 1: [], 2: [2], 3: [3], 4: [2, 2], 6: [2, 3]}[n]]
    new_size: list[int] = []
    for factor in factors:
        if new_size and sampler(st.booleans()):
            new_size[-1] *= factor
        else:
            new_size.append(factor)
    for _ in range(sampler(st.integers(0, 2))):
        new_size.insert(sampler(st.integers(0, len(new_size))), sampler(st.sampled_from([1, 1, 1, 1, -1, 2, -2, 0])))
    return tuple(size[i] for i in order), tuple(stride[i] for i in order), tuple(new_size)


@pytest.mark.audit
@given(questions())
@example(((4, 3), (1, 4), (2, 2, 3)))
@example(((4, 3), (1, 4), (12,)))
@example(((), (), ()))
@example(((), (), (1, 1)))
@example(((0, 3), (3, 1), (0, -1)))
@example(((0, 3), (3, 1), (-1, 3)))
@example(((2, 3), (0, 0), (6,)))
@example(((2, 3), (0, 1), (6,)))
@settings(max_examples=1500, deadline=None)
def test_the_solution_agrees_with_torch(question):
    size, stride, new_size = question
    expected = truth(size, stride, new_size)
    if expected is ValueError:
        with pytest.raises(ValueError):
            predict_view(size, stride, new_size)
        return
    mine = predict_view(size, stride, new_size)
    if expected is None:
        assert mine is None
        return
    shape, strides = expected
    assert isinstance(mine, tuple) and len(mine) == len(shape)
    if 0 not in shape:
        assert [s for s, n in zip(mine, shape) if n > 1] == [s for s, n in zip(strides, shape) if n > 1]


def test_the_questions_meet_every_answer():
    seen = set()

    @given(questions())
    @settings(max_examples=300, deadline=None, database=None)
    def ask(question):
        expected = truth(*question)
        seen.add("refused" if expected is ValueError else "copy" if expected is None else "view")

    ask()
    assert seen == {"refused", "copy", "view"}
