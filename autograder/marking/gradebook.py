"""Whom nbgrader's gradebook knows."""

from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps.baseapp import NbGrader


def students_of(course: Path) -> list[str]:
    """Their ids, in order, of the gradebook that the course's nbgrader_config.py names. Raises ValueError where there are none."""
    nbgrader = NbGrader()
    nbgrader.initialize([f"--CourseDirectory.root={course}", "--log-level=WARN"])
    with Gradebook(nbgrader.coursedir.db_url, nbgrader.coursedir.course_id) as gradebook:
        found = sorted(student.id for student in gradebook.students)
    if not found:
        raise ValueError(
            "The gradebook knows no students: nbgrader db student import FILE, or name them after `tokens`."
        )
    return found
