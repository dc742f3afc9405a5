"""What must hold of a course folder after any run, whatever was killed in it."""

from collections import Counter
from pathlib import Path

from nbgrader.api import Gradebook

from autograder.core.ledger import Entry, Ledger


def assert_consistent(root: Path, assignment: str, db_url: str | None = None) -> None:
    """Every submission is graded once; gradebook, ledger and autograded folder say the same."""
    students = {path.parent.name for path in root.glob(f"submitted/*/{assignment}")}
    assert students, "no submission: nothing was checked"
    ledger = Ledger(root)
    entries = {student: ledger.read(assignment, student) for student in students}
    assert {student: entry and entry.state for student, entry in entries.items()} == dict.fromkeys(students, "graded")
    with Gradebook(db_url or f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        submissions = gradebook.find_assignment(assignment).submissions
        assert Counter(submission.student.id for submission in submissions) == dict.fromkeys(students, 1)
        for submission in submissions:
            _assert_scores_are_the_ledgers(submission, entries[submission.student.id])
            _assert_folder_is_whole(root / "autograded" / submission.student.id / assignment, submission)
    for student in students:
        with ledger.lock(assignment, student) as free:
            assert free, f"{student} is still held"


def _assert_scores_are_the_ledgers(submission, entry: Entry) -> None:
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    assert len({grade.name for grade in grades}) == len(grades)
    assert {grade.name: grade.auto_score for grade in grades if grade.max_score} == {
        grade_id: verdict.score for grade_id, verdict in entry.verdicts.items()
    }


def _assert_folder_is_whole(folder: Path, submission) -> None:
    names = {notebook.name for notebook in submission.notebooks}
    assert {path.stem for path in folder.glob("*.ipynb")} == names
