"""Trials in processes of their own."""

import os

import pytest

from autograder.authoring import isolated
from autograder.authoring.authored import HiddenTestBroken
from autograder.authoring.isolated import STOPPED, IsolatedRuns, Trial


class AuthoredExercise:
    """Loses the criterion that its source names, or does what it says."""

    grade_id, check = "a_hidden", "a_seen"

    def begin(self, anew: bool = False) -> None:
        self.begun, self.seen = os.getpid(), []

    def go_on(self, source: str, until: str) -> None:
        assert self.begun == os.getppid()
        self.stopped_at = until

    def lost(self, source: str, seed: int, to_the_first: bool, until: frozenset[str]) -> set[str]:
        if to_the_first:
            return {"the first"}
        if source == "endless":
            while True:
                pass
        if source == "dies":
            os._exit(3)
        if source == "broken judge":
            raise HiddenTestBroken("the judge of a.b failed at exercises/a/b/judge.py:3")
        if source == "broken exercise":
            raise LookupError("no such exercise")
        if source == "where it stopped":
            return {self.stopped_at}
        self.seen.append(seed)
        return {f"{source}{self.seen[0]}"}


@pytest.mark.parametrize(("checked", "until"), [(True, AuthoredExercise.grade_id), (False, AuthoredExercise.check)])
def test_a_trial_may_go_without_the_visible_check(checked, until):
    assert IsolatedRuns().all([Trial(AuthoredExercise(), "where it stopped", (1,), checked=checked)]) == [[[until]]]


def test_a_seed_may_end_with_the_first_case_that_lost_something():
    assert IsolatedRuns().all([Trial(AuthoredExercise(), "a", (1, 2), to_the_first=True)]) == [
        [["the first"], ["the first"]]
    ]


@pytest.mark.parametrize("jobs", [1, 3])
def test_verdicts_come_back_in_the_order_of_the_trials_and_no_seed_knows_another(jobs):
    trials = [Trial(AuthoredExercise(), source, (1, 2)) for source in "abcde"]
    assert IsolatedRuns(jobs).all(trials) == [[[f"{source}1"], [f"{source}2"]] for source in "abcde"]


@pytest.mark.parametrize("source", ["endless", "dies"])
def test_a_trial_that_does_not_end_by_itself_is_stopped_and_hurts_no_other(source, monkeypatch):
    monkeypatch.setattr(isolated, "CPU_SECONDS", 0.5)
    lost = IsolatedRuns(2, cpu_seconds=0.5).all(
        [Trial(AuthoredExercise(), source, (1,)), Trial(AuthoredExercise(), "a", (1,))]
    )
    assert lost == [[[STOPPED]], [["a1"]]]


def test_a_hidden_test_that_breaks_is_said_in_place_of_what_was_lost():
    assert IsolatedRuns(1).all([Trial(AuthoredExercise(), "broken judge", (1,))]) == [
        [["the judge of a.b failed at exercises/a/b/judge.py:3"]]
    ]


def test_a_fault_of_the_bench_is_no_verdict():
    with pytest.raises(RuntimeError, match="no verdict"):
        IsolatedRuns(1).all([Trial(AuthoredExercise(), "broken exercise", (1,))])
