"""axe finds nothing, and nothing overflows: light and dark, desk and phone."""

import pytest

from gpulab.widgets import Question, Quiz, StrideExplorer, right, wrong
from tests.widgets.looks import assert_accessible, in_every_look


def quiz():
    return Quiz(Question.ask("`a` or b?", right("`a`", "`a` is."), wrong("b", "b is not.")))


def answered_quiz(page):
    page.get_by_role("radio").nth(1).check()
    page.get_by_role("button", name="Commit").click()


def answered_puzzle(page):
    page.get_by_role("spinbutton", name="Storage index").fill("1")
    page.get_by_role("button", name="Answer").click()


CASES = {
    "quiz": (quiz, None),
    "quiz answered": (quiz, answered_quiz),
    "strides": (StrideExplorer, None),
    "strides 4-D": (lambda: StrideExplorer((1, 3, 2, 4), (24, 1, 12, 3)), None),
    "strides out of storage": (lambda: StrideExplorer((3, 3), (3, 1), 1, storage=6), None),
    "strides quiz": (lambda: StrideExplorer(quiz=True, seed=5), answered_puzzle),
}


@pytest.mark.parametrize("case", CASES)
@in_every_look
def test_axe_finds_nothing(mount, case, scheme, width):
    make, act = CASES[case]
    page = mount(make(), width=width, scheme=scheme)
    if act:
        act(page)
    assert_accessible(page, width)
