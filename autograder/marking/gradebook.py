"""Whom nbgrader's gradebook knows."""

from pathlib import Path

from autograder.nbgrader.gradebook import gradebook_of


def students_of(course: Path) -> list[str]:
    """Their ids, in order, of the gradebook that the course's nbgrader_config.py names. Raises ValueError where there are none."""
    with gradebook_of(course) as gradebook:
        found = sorted(student.id for student in gradebook.students) if gradebook else []
    if not found:
        raise ValueError(
            "The gradebook knows no students: nbgrader db student import FILE, or name them after `tokens`."
        )
    return found
