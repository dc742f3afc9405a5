"""The sample class, graded by nbgrader's own command, killed once on the way."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.authoring.classroom import BROKEN, sample, write_class
from autograder.misconceptions.corpus import CORPUS, read_corpus
from tests.pipeline.conftest import ROOT, Course

ASKED = "predict_view"
"""A function that the judge asks itself."""


def autograde(course: Course, kill_after: int | None = None) -> str:
    """Run `nbgrader autograde` from the repository's root; SIGKILL after that many are graded."""
    command = [sys.executable, "-m", "nbgrader", "autograde", course.chapter]
    command += ["--ExecuteGraded.timeout=4", "--Application.log_level=ERROR"]
    environment = os.environ | {"COURSE": str(course.root)}
    said = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout:
            said.append(line)
            if kill_after is not None and sum(text.startswith("graded ") for text in said) == kill_after:
                process.kill()
                break
    return "".join(said)


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """The course, and the submissions with what they must earn."""
    course = Course(tmp_path_factory.mktemp("class"))
    return course, write_class(course.root, ROOT / "exercises", course.chapter)


@pytest.fixture(scope="module")
def graded(handed_in):
    """The course after two runs, the submissions, what the runs said."""
    course, submissions = handed_in
    said = [autograde(course, kill_after=3), autograde(course)]
    return course, submissions, said


def test_the_class_holds_at_least_ten_submissions_and_every_attempt_that_is_no_cheat(handed_in):
    course, submissions = handed_in
    assert len(submissions) >= 10
    cells = "".join(submission.content.decode("utf-8", "replace") for submission in submissions)
    attempts = read_corpus(ROOT / "exercises" / course.chapter / CORPUS)
    for attempt in [attempt for attempt in attempts if attempt.kind != "cheat"]:
        assert attempt.source.split("\n")[1].strip().replace('"', '\\"') in cells, attempt.name


def test_a_sample_is_one_of_each_kind_and_breaks_things_in_its_own_way(handed_in):
    _, submissions = handed_in
    samples = [[one.student for one in sample(submissions, number)] for number in range(len(BROKEN))]
    assert all(one[:3] == ["solution", "untouched", "mistakes_1"] for one in samples)
    others = {
        s.student
        for s in submissions
        if not s.student.startswith(("solution", "untouched", "mistakes_", "alternative_"))
    }
    assert {one[3] for one in samples} == set(BROKEN) == others


@pytest.mark.audit
def test_every_submission_earns_exactly_what_it_must(graded):
    course, submissions, said = graded
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        scores = {s.student: gradebook.find_submission(course.chapter, s.student).score for s in submissions}
    assert scores == {s.student: s.score for s in submissions}, said[-1]


@pytest.mark.audit
def test_what_was_graded_before_the_kill_is_not_graded_again(graded):
    _, _, (before, after) = graded
    finished = [line.split()[1] for line in before.splitlines() if line.startswith("graded ")][:3]
    assert len(finished) == 3
    assert not [name for name in finished if f"graded {name}" in after]


@pytest.mark.audit
def test_what_went_wrong_is_said_by_name(graded):
    course, _, _ = graded
    said = {
        student: " ".join(course.entry(student)["notes"])
        for student in (
            "os_exit",
            "prints_100_mb",
            "deleted_graded_cell",
            "edited_graded_cell",
            "duplicated_cell",
            "empty_notebook",
            "not_a_notebook",
        )
    }
    assert "died" in said["os_exit"]
    assert "printed more than" in said["prints_100_mb"]
    assert "Missing" in said["deleted_graded_cell"]
    assert "was changed" in said["edited_graded_cell"]
    assert "twice" in said["duplicated_cell"]
    assert "empty" in said["empty_notebook"]
    assert "not a Jupyter notebook" in said["not_a_notebook"]


@pytest.mark.audit
def test_who_hands_in_a_form_of_a_misconception_is_told_it_and_nobody_else_is(graded):
    course, submissions, _ = graded
    attempts = [one for one in read_corpus(ROOT / "exercises" / course.chapter / CORPUS) if one.kind == "wrong"]
    named = 0
    for submission in (one for one in submissions if one.student.startswith("mistakes_")):
        notebook = nbformat.reads(submission.content.decode(), as_version=4)
        (source,) = [
            cell.source for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == ASKED
        ]
        form = next((one for one in attempts if one.function == ASKED and one.source.strip() == source.strip()), None)
        lines = course.entry(submission.student)["verdicts"][f"{ASKED}_hidden"]["lines"]
        assert {line["misconception"] for line in lines} - {""} == {form.says} - {""} if form else set(), (
            submission.student
        )
        named += bool(form and form.says)
    assert named > 10
