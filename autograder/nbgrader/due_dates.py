"""``nbgrader db assignment add --duedate``: says what was kept, and refuses what could be another time."""

from functools import wraps

from nbgrader.api import Gradebook
from nbgrader.apps.dbapp import DbAssignmentAddApp

from autograder.nbgrader.times import UnreadableTime

_start = DbAssignmentAddApp.start


@wraps(_start)
def start(self: DbAssignmentAddApp) -> None:
    try:
        _start(self)
    except UnreadableTime as error:
        self.fail("Nothing was changed: %s", error)
    (assignment,) = self.extra_args
    with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
        due = gradebook.find_assignment(assignment).duedate
    if due is None:
        print(f"{assignment} has no due date")
        return
    print(
        f"{assignment} is due {due:%Y-%m-%d %H:%M:%S} UTC; for what is graded already the next grading moves the penalties"
    )
