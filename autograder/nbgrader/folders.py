"""Folders of a course, found by their names: brackets in them are no patterns."""

import glob
import os

from nbgrader.converters import NbGraderException
from nbgrader.converters.base import BaseConverter
from nbgrader.coursedir import CourseDirectory


def folders(course: CourseDirectory, step: str, student: str, assignment: str) -> list[str]:
    """Those of a step (``submitted``, ``autograded`` ...). ``student``: an id, whatever signs it holds, or a pattern; ``assignment`` too."""
    whole = course.format_path(step, student, assignment)
    if os.path.isdir(whole):
        return [whole]
    return _matching(course, step, student, glob.escape(assignment)) or _matching(course, step, student, assignment)


def _matching(course: CourseDirectory, step: str, student: str, assignment: str) -> list[str]:
    below = os.path.relpath(course.format_path(step, student, assignment), course.root)
    return sorted(filter(os.path.isdir, glob.glob(os.path.join(glob.escape(course.root), below))))


def init_notebooks(self: BaseConverter) -> None:
    """In the place of ``BaseConverter.init_notebooks``, which takes the course's own folder for a pattern."""
    course = self.coursedir
    self.notebooks, self.assignments = [], {}
    for folder in folders(course, self._input_directory, course.student_id, course.assignment_id):
        if found := glob.glob(os.path.join(glob.escape(folder), f"{course.notebook_id}.ipynb")):
            self.assignments[folder] = found
        else:
            self.log.warning("No notebook is called %s.ipynb in %s", course.notebook_id, folder)
    if not self.assignments:
        searched = self._format_source(course.assignment_id, course.student_id)
        self.log.error("No notebooks were matched by '%s'", searched)
        raise NbGraderException(f"No notebooks were matched by '{searched}'")
