"""Where submissions cannot be held, grading refuses to begin until the instructor says that none need be."""

import pytest

from autograder.cli import demo
from autograder.grading import worker
from autograder.grading.job import Job
from autograder.sandbox import sandbox

PROBLEM = "bubblewrap is not installed (Debian: apt-get install bubblewrap)"


@pytest.fixture
def no_bubblewrap(monkeypatch):
    monkeypatch.setattr(sandbox, "problem", lambda: PROBLEM)


def test_nothing_is_graded_and_nothing_is_touched(course, no_bubblewrap):
    course.hand_in("unheld", course.answered())
    before = sorted(course.root.rglob("*unheld*"))
    result = course.autograde("unheld")
    assert not result["success"]
    assert PROBLEM in result["log"] and 'c.ExecuteGraded.sandbox = "off"' in result["log"]
    assert sorted(course.root.rglob("*unheld*")) == before


def test_the_instructors_word_is_enough(course, no_bubblewrap):
    course.hand_in("trusted", course.answered())
    assert course.autograde("trusted", sandbox="off")["success"]
    assert course.scores("trusted") == course.full_marks()
    assert course.entry("trusted")["notes"][0].startswith("This ran without a sandbox")


def test_the_command_for_many_refuses_before_the_first(monkeypatch):
    class Converter:
        _format_source = staticmethod(lambda *arguments, **options: "*")

        def require_sandbox(self):
            raise RuntimeError(PROBLEM)

    monkeypatch.setattr(worker, "_converter", lambda job: Converter())
    assert PROBLEM in str(worker.submissions(Job("views", folder="/")))


def test_the_demo_says_loudly_that_its_class_is_trusted(no_bubblewrap, capsys):
    assert demo._sandbox_options() == ["--ExecuteGraded.sandbox=off"]
    assert f"NO SANDBOX: {PROBLEM}" in capsys.readouterr().out


def test_with_a_sandbox_the_demo_needs_no_option():
    assert demo._sandbox_options() == []
