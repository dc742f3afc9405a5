"""A hidden test that breaks by what a learner's function gives is a sentence to the learner; any other is the instructor's to hear of."""

import pytest

from autograder.authoring.subset import write_subset
from autograder.core.ledger import Ledger
from tests.pipeline.conftest import ROOT, Course

ODD = {
    "a_float": "return 1.5",
    "nothing": "return None",
    "a_generator": "return (row for row in x)",
    "a_tensor_of_another_shape": "return x.sum()",
}
"""What ``squash`` gives, which is called with ``.backward`` behind it."""


class Squash(Course):
    def __init__(self, root) -> None:
        self.root, self.chapter, self.ledger = root, "one", Ledger(root)
        write_subset(ROOT / "exercises", ["kernels.squash"], self.chapter, root)
        assert self.api().generate_assignment(self.chapter, force=True, create=True)["success"]

    def graded(self, learner: str, body: str, **settings) -> dict:
        self.hand_in(learner, self.answered(squash=f"def squash(x, limit):\n    {body}"))
        assert self.autograde(learner, **settings)["success"]
        return self.entry(learner)

    def said(self, learner: str) -> str:
        return " ".join(line["message"] for line in self.entry(learner)["verdicts"]["squash_hidden"]["lines"])


@pytest.fixture(scope="module")
def squash(tmp_path_factory) -> Squash:
    return Squash(tmp_path_factory.mktemp("squash"))


def is_told(squash: Squash, odd: str) -> None:
    entry = squash.graded(odd, ODD[odd])
    assert entry["broken"] == [] and entry["state"] == "graded"
    assert sum(squash.scores(odd).values()) == 0
    assert "or the hidden test is wrong" not in squash.said(odd)


def test_what_breaks_by_the_learners_answer_is_said_to_the_learner_alone(squash):
    is_told(squash, "a_float")
    assert "(AttributeError: 'float' object has no attribute 'backward')" in squash.said("a_float")
    assert "the course's own `squash` passes this very test" in squash.said("a_float")


@pytest.mark.audit
@pytest.mark.parametrize("odd", list(ODD)[1:])
def test_it_is_so_whatever_a_function_gives(squash, odd):
    is_told(squash, odd)


def test_where_no_time_is_left_to_find_out_the_instructor_hears_of_it(squash, monkeypatch):
    monkeypatch.setattr("autograder.judge.second_opinion.SECONDS", 0.01)
    entry = squash.graded("late", ODD["a_float"])
    assert "the scenario of kernels.squash failed at" in entry["broken"][0]
    assert "or the hidden test is wrong" in squash.said("late")
