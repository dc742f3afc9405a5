"""``python -m autograder grade``: the same results as nbgrader's own loop, many at once."""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from autograder.grading.engine import cluster, grade_class
from autograder.grading.worker import grade, submissions
from tests.faults.conftest import written
from tests.grading.conftest import HANGS, Group
from tests.grading.consistent import assert_consistent


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Group:
    """A class graded by the command with two workers; what it printed is in ``run``."""
    group = Group(tmp_path_factory.mktemp("graded"))
    group.hand_in_all()
    group.hand_in("hangs", group.answered(patchify=HANGS))
    group.run = group.command("--jobs", "2", "--ExecuteGraded.timeout=12")
    return group


def test_every_submission_is_graded_once(graded):
    assert graded.run.returncode == 0, graded.run.stderr
    assert_consistent(graded.root, graded.chapter)


def test_scores_and_files_are_those_of_nbgrader_autograde(graded, tmp_path):
    alone = Group(tmp_path)
    students = alone.hand_in_all()
    for student in students:
        alone.autograde(student)
    for student in students:
        assert graded.scores(student) == alone.scores(student)
        assert _files(graded, student) == _files(alone, student)
        assert _without_cases(graded.entry(student)) == _without_cases(alone.entry(student))


def _files(group: Group, student: str) -> dict[str, int]:
    folder = group.root / "autograded" / student / group.chapter
    return {path.name: path.stat().st_mode for path in folder.iterdir()}


def _without_cases(entry: dict) -> dict:
    """An entry without the sentences and facts, which tell of random cases."""
    verdicts = {
        grade_id: [(line["criterion"], line["status"]) for line in verdict["lines"]]
        for grade_id, verdict in entry["verdicts"].items()
    }
    return {**entry, "verdicts": verdicts, "unexplained": [*entry["unexplained"]]}


def test_the_summary_names_who_crashed_and_who_timed_out(graded):
    assert "graded: 4 of 4 submissions" in graded.run.stdout
    assert "crashed (the kernel died): 1 (exits0)" in graded.run.stdout
    assert "timed out: 1 (hangs)" in graded.run.stdout


def test_a_worker_grades_nothing_again(graded):
    before = written(graded)
    assert {grade(graded.job(), student).ending for student in graded.students()} == {"skipped"}
    assert before == written(graded)


@pytest.mark.audit
def test_a_second_run_grades_nothing_again(graded):
    before = written(graded)
    again = graded.command("--jobs", "2")
    assert again.returncode == 0
    assert "graded: 0 of 4" in again.stdout and "skipped: graded before" in again.stdout
    assert before == written(graded)


@pytest.mark.audit
def test_a_glob_that_matches_nobody_is_an_error(graded):
    run = graded.command("--jobs", "1", "--students", "nobody*")
    assert run.returncode == 2
    assert "no submission matches" in run.stderr and "Traceback" not in run.stderr


CANNOT_BEGIN = {
    "--froce": "nbgrader does not take --froce",
    "--CourseDirectory.db_url=sqlite:////nowhere/at/all.db": "OperationalError",
}


@pytest.mark.parametrize("option", CANNOT_BEGIN)
def test_a_worker_says_why_a_run_cannot_begin(group, option, monkeypatch):
    monkeypatch.setenv("COURSE", str(group.root))  # the worker sets it for its process, here the tests'
    group.hand_in("right", group.answered())
    why = submissions(group.job(option))
    assert isinstance(why, LookupError) and str(why).startswith(CANNOT_BEGIN[option])


@pytest.mark.audit
@pytest.mark.parametrize(
    ("options", "says"),
    [
        *((["--jobs", "1", option], says) for option, says in CANNOT_BEGIN.items()),
        (["--scheduler", "nowhere"], "no Dask scheduler at nowhere"),
    ],
)
def test_a_run_that_cannot_begin_says_why_in_a_sentence(graded, options, says):
    run = graded.command(*options)
    assert run.returncode == 2
    assert f"autograder grade: {says}" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.audit
def test_a_submission_that_cannot_be_graded_makes_the_exit_status_1(group):
    group.hand_in_all()
    folder = group.root / "submitted" / "right0" / group.chapter
    folder.rename(group.root / "elsewhere")
    folder.symlink_to(group.root / "elsewhere")
    run = group.command("--jobs", "1")
    assert run.returncode == 1
    assert "FAILED right0" in run.stdout and "graded: 2 of 3" in run.stdout


def test_a_submission_that_another_grader_holds_is_said_to_be_held(group):
    group.hand_in("held", group.answered())
    with group.ledger.lock(group.chapter, "held"):
        assert grade(group.job(), "held").ending == "held"


@pytest.mark.audit
def test_a_worker_killed_in_mid_class_loses_nothing(group):
    group.hand_in_all(copies=3)
    with cluster(jobs=2) as client:
        workers = list(client.run(os.getpid).values())
        count, results = grade_class(client, group.job())
        killed = threading.Thread(target=_kill_when_busy, args=(group, workers[0]))
        killed.start()
        done = list(results)
        killed.join()
        assert workers[0] not in client.run(os.getpid).values()
    assert count == len(done) == 9
    assert {result.ending for result in done} <= {"graded", "skipped"}
    assert_consistent(group.root, group.chapter)


def _kill_when_busy(group: Group, pid: int) -> None:
    """SIGKILL once the class is under way."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(entry.state == "graded" for entry in group.ledger.entries(group.chapter)) >= 2:
            break
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)


def test_the_gradebook_knows_the_course_before_workers_open_it(group, monkeypatch):
    """Two workers that open a gradebook without the course's row both write it: one of them fails."""
    monkeypatch.setenv("COURSE", str(group.root))  # the worker sets it for its process, here the tests'
    group.hand_in_all()
    assert _courses(group) != ["tensors-to-tokens"]
    submissions(group.job())
    assert "tensors-to-tokens" in _courses(group)


def _courses(group: Group) -> list[str]:
    with closing(sqlite3.connect(group.root / "gradebook.db")) as gradebook:
        return [name for (name,) in gradebook.execute("SELECT id FROM course")]
