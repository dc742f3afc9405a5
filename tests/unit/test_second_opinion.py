"""Whose fault it is that a hidden test broke: the course's own solution is asked."""

import os
from dataclasses import replace

import pytest

from autograder.core.exercise import Failure
from autograder.judge import second_opinion
from autograder.judge.second_opinion import is_the_learners_fault
from autograder.selfcheck import own_solution

BROKE = ["the judge of views.patchify failed at exercises/views/patchify/judge.py:3 (KeyError: 'y')"]


def test_where_the_courses_own_solution_passes_it_is_the_learners():
    assert is_the_learners_fault(BROKE, "views.patchify", 1, 60)


def test_where_there_is_no_such_exercise_or_no_time_nobody_is_blamed():
    assert not is_the_learners_fault(BROKE, "views.none_such", 1, 60)
    assert not is_the_learners_fault(BROKE, "views.patchify", 1, 0)
    assert not is_the_learners_fault(BROKE, "views.patchify", 1, 0.01)


@pytest.mark.parametrize("error", ["OSError: [Errno 28]", "MemoryError", "BlockingIOError: [Errno 11]"])
def test_what_the_machine_may_have_refused_is_nobodys_fault(monkeypatch, error):
    monkeypatch.setattr(second_opinion, "_passes", lambda asked, seconds: True)
    assert not is_the_learners_fault([f"the scenario of a.b failed at run.py:3 ({error})"], "a.b", 1, 60)
    assert is_the_learners_fault(["the scenario of a.b failed at run.py:3 (ValueError: OSError)"], "a.b", 1, 60)


def _of_a_fork(ask) -> bool:
    if (child := os.fork()) == 0:
        os._exit(ask())
    return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@pytest.mark.parametrize("judge", [lambda case, evidence: 1 / 0, lambda case, evidence: [_lost(case)]])
def test_a_judge_that_fails_the_courses_own_solution_stays_the_instructors(monkeypatch, judge):
    from exercises.views.patchify import judge as module

    monkeypatch.setattr(module, "exercise", replace(module.exercise, judge=judge))
    assert not _of_a_fork(lambda: own_solution.passes("views.patchify", 1))


def test_a_judge_that_is_right_passes_it():
    assert _of_a_fork(lambda: own_solution.passes("views.patchify", 1))


def _lost(case):

    return Failure(case.criteria[0], "lost whatever is handed in")
