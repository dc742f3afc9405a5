"""What is graded again, and what a moved due date does to what is not."""

import pytest
from nbgrader.api import Gradebook

from tests.pipeline.conftest import Course

WRONG = "def patchify(images, patch):\n    return None"


@pytest.fixture
def late_course(course, monkeypatch) -> Course:
    """A course that takes a point off for late work."""
    from nbgrader.plugins import LateSubmissionPlugin

    monkeypatch.setattr(LateSubmissionPlugin, "late_submission_penalty", lambda self, student, score, seconds: 1.0)
    return course


def due(course: Course, time: str) -> None:
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_assignment(course.chapter, duedate=time)


def penalty(course: Course, student: str) -> float:
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission(course.chapter, student).notebooks
        return notebook.late_submission_penalty or 0.0


def test_a_notebook_that_changed_is_graded_again_though_its_time_did_not(course, capsys):
    course.hand_in("same_time", course.answered(patchify=WRONG))
    course.autograde("same_time")
    course.hand_in("same_time", course.answered())
    course.autograde("same_time", force=False)
    assert course.scores("same_time") == course.full_marks()
    assert "again: its files have changed" in capsys.readouterr().out


def test_a_file_beside_it_that_changed_counts_too(course):
    folder = course.hand_in("helper_changes", course.answered(patchify="from mine import patchify"))
    (folder / "mine.py").write_text(WRONG)
    course.autograde("helper_changes")
    assert course.scores("helper_changes")["patchify_hidden"] == 0
    (folder / "mine.py").write_text(f"import torch\n{course.solution('patchify')}")
    course.autograde("helper_changes", force=False)
    assert course.scores("helper_changes") == course.full_marks()


def test_a_moved_due_date_moves_the_penalty_and_the_feedback_without_a_new_grading(late_course, capsys):
    course = late_course
    due(course, "2025-12-31 00:00:00 UTC")
    course.hand_in("late", course.answered())
    course.autograde("late")
    assert penalty(course, "late") == 1.0
    assert "Late submission" in course.feedback("late")
    graded_at = course.ledger.path(course.chapter, "late").stat().st_mtime_ns

    due(course, "2026-01-01 01:00:00 +0100")
    course.autograde("late", force=False)
    assert penalty(course, "late") == 0.0
    assert course.ledger.path(course.chapter, "late").stat().st_mtime_ns == graded_at
    assert "late: 0 points are taken off views for late work, and no longer 1" in capsys.readouterr().out
    assert "Late submission" not in course.feedback("late", force=False)


def test_feedback_that_shows_what_still_holds_is_left_as_it_is(course):
    course.hand_in("left_alone", course.answered())
    course.autograde("left_alone")
    course.feedback("left_alone")
    page = course.root / "feedback" / "left_alone" / course.chapter / f"{course.chapter}.html"
    before = page.stat().st_mtime_ns
    course.feedback("left_alone", force=False)
    assert page.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "time, says",
    [
        ("2026-10-12 23:30:00 -0800", "was read as 2026-10-13 07:30:00 UTC"),
        ("yesterday evening", "`yesterday evening` is no time that can be read for certain"),
        ("\ufeff2026-10-12 23:30:00 UTC", None),
    ],
)
def test_the_time_of_a_hand_in_is_read_as_it_is_meant_and_never_written(course, time, says):
    folder = course.hand_in("a_time", course.answered())
    (folder / "timestamp.txt").write_text(time, encoding="utf-8")
    course.autograde("a_time")
    notes = " ".join(course.entry("a_time")["notes"])
    assert says in notes if says else notes == ""
    assert (folder / "timestamp.txt").read_text("utf-8") == time


def test_points_that_an_instructor_gave_in_the_assignments_editor_count(course):
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        cell = gradebook.find_graded_cell("patchify_hidden", "views", "views")
        cell.max_score = 16
        gradebook.db.commit()
    try:
        course.hand_in("more_points", course.answered())
        course.autograde("more_points")
        assert course.scores("more_points")["patchify_hidden"] == 16
        assert "is worth 16 points here, for the 8 of its hidden tests" in " ".join(
            course.entry("more_points")["notes"]
        )
    finally:
        with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
            gradebook.find_graded_cell("patchify_hidden", "views", "views").max_score = 8
            gradebook.db.commit()
