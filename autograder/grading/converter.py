"""nbgrader's converter, opened once and used for many submissions."""

import glob
import logging
import os
import re
import time
from contextlib import suppress
from dataclasses import replace

from nbgrader.api import Gradebook
from nbgrader.apps.autogradeapp import AutogradeApp
from nbgrader.converters import NbGraderException

from autograder.core.ledger import Entry
from autograder.grading.job import Graded, Job
from autograder.nbgrader.folders import folders
from autograder.nbgrader.submission import AutogradeSubmissions
from autograder.sandbox import workspace
from autograder.sandbox.server import Address


class OneSubmission(AutogradeSubmissions):
    """Grades one student's submission a call and says what became of it."""

    def enter_course(self) -> None:
        """Opening a gradebook writes the course's row where it is missing: done once, not by all workers at once."""
        Gradebook(self.coursedir.db_url, self.coursedir.course_id).close()

    def students(self, pattern: str) -> list[str]:
        """Whose submissions there are, of an id or a glob of ids. Raises LookupError where there are none."""
        assignment = self.coursedir.assignment_id
        student = re.compile(self._format_source(assignment, "(?P<student>.*)", escape=True))
        found = [
            student.match(folder) for folder in folders(self.coursedir, self._input_directory, pattern, assignment)
        ]
        if not found:
            raise LookupError(f"no submission matches {self._format_source(assignment, pattern)}")
        return sorted(match["student"] for match in found if match)

    def grade(self, student: str) -> Graded:
        self.coursedir.student_id = glob.escape(student)
        self._finished: Entry | None = None
        self._was_held = False
        self._moved: list[str] = []
        started = time.monotonic()
        with suppress(NbGraderException):  # its reason is in the log, the failure in the ledger
            self.start()
        entry = self._finished or self.ledger.read(self.coursedir.assignment_id, student)
        graded = _graded(student, entry, self._ending(entry), time.monotonic() - started)
        return replace(graded, why=self._why, moved=tuple(self._moved))

    def _ending(self, entry: Entry | None) -> str:
        if self._finished is not None:
            return "graded"
        if self._was_held:
            return "held"
        return "skipped" if entry is not None and entry.state == "graded" else "failed"

    def _held_by_another(self, student_id: str) -> None:
        super()._held_by_another(student_id)
        self._was_held = True

    def _tell(self, entry: Entry) -> None:
        self._finished = entry

    def _tell_of(self, student_id: str, sentence: str) -> None:
        self._moved.append(sentence)


def open_converter(job: Job) -> OneSubmission:
    """The converter as ``nbgrader autograde`` configures it in the job's folder."""
    if job.kernel_server:
        workspace.share(Address.from_json(job.kernel_server))
    os.chdir(job.folder)
    if job.course:
        os.environ["COURSE"] = job.course
    app = AutogradeApp(log_level=logging.ERROR)  # beside a progress bar; the options may say otherwise
    app.initialize(list(job.options))
    app.coursedir.assignment_id = job.assignment
    return OneSubmission(coursedir=app.coursedir, parent=app)


def _graded(student: str, entry: Entry | None, ending: str, seconds: float) -> Graded:
    if entry is None:
        return Graded(student, ending, remark="nothing was graded: see nbgrader's log", seconds=seconds)
    verdicts = entry.verdicts.values()
    return Graded(
        student,
        ending,
        entry.outcome,
        sum(verdict.score for verdict in verdicts),
        sum(verdict.max_score for verdict in verdicts),
        len(entry.incidents),
        len(entry.flags),
        entry.notes[0] if entry.notes else "",
        seconds,
        tuple(entry.broken),
        unexplained=len(entry.unexplained),
    )
