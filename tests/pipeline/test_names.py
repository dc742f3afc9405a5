"""Ids and folders of any letters and signs work in every command."""

import pytest

from tests.exploits.conftest import autograde
from tests.pipeline.conftest import Course

LEARNERS = ["[x]", "x", "Ada Lovelace", "Zoë Müller", "张伟", "o'neill-smith", "a+b@example.org", "$HOME", "100%"]


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("names") / "Course [a] für 张")


def test_one_called_like_a_pattern_is_graded_alone_and_gets_feedback(course):
    for learner in ("[x]", "x"):
        course.hand_in(learner, course.answered())
    assert course.autograde("[x]")["success"]
    assert course.scores("[x]") == course.full_marks()
    assert course.ledger.read("views", "x") is None
    assert "32 of 32 points" in course.feedback("[x]")


@pytest.mark.audit
def test_a_class_of_all_of_them_is_graded(course):
    for learner in LEARNERS:
        course.hand_in(learner, course.answered())
    autograde(course)
    for learner in LEARNERS:
        assert course.scores(learner) == course.full_marks(), learner
        assert "32 of 32 points" in course.feedback(learner), learner
