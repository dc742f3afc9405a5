"""Penalties for late work, as they are by the due date and the time of the hand-in of today."""

from datetime import datetime

from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.converters.base import BaseConverter
from nbgrader.preprocessors import AssignLatePenalties

from autograder.core.report import points


def penalties_now(converter: BaseConverter, assignment: str, student: str, time: datetime | None) -> list[str]:
    """Take the penalties of a graded submission off anew. A sentence for each that is another one than before.

    ``time``: of the hand-in, in UTC without a zone; None where it is unknown.
    """
    course = converter.coursedir
    with Gradebook(course.db_url, course.course_id) as gradebook:
        try:
            submission = gradebook.find_submission(assignment, student)
        except MissingEntry:
            return []
        before = _penalties(submission)
        if submission.timestamp != time:
            submission.timestamp = time
            gradebook.db.commit()
        late = submission.total_seconds_late
    if not late and not any(before.values()):
        return []
    for notebook in before:
        where = {"student": student, "assignment": assignment, "notebook": notebook, "db_url": course.db_url}
        AssignLatePenalties(parent=converter).preprocess(new_notebook(), {"nbgrader": where})
    with Gradebook(course.db_url, course.course_id) as gradebook:
        after = _penalties(gradebook.find_submission(assignment, student))
    return [_said(name, before[name], after[name]) for name in before if before[name] != after[name]]


def _penalties(submission: SubmittedAssignment) -> dict[str, float]:
    return {notebook.name: notebook.late_submission_penalty or 0.0 for notebook in submission.notebooks}


def _said(notebook: str, before: float, after: float) -> str:
    return (
        f"{points(after)} points are taken off {notebook} for late work, and no longer {points(before)}: "
        "its due date or the time of its hand-in was moved"
    )
