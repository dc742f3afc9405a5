"""nbgrader's Autograde, one submission at a time and none lost."""

import glob
import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, NbGraderException

from autograder.ledger import Entry, Ledger
from autograder.report import points


class AutogradeSubmissions(Autograde):
    """The converter behind ``nbgrader autograde`` and the formgrader's button.

    Beyond nbgrader's own: a submission is held by one grader at a time; one that a killed
    run left half done is done again; links are refused before anything is copied; scores of
    an earlier hand-in do not outlive a later one that fails.
    """

    def convert_notebooks(self) -> None:
        self.ledger = Ledger(self.coursedir.root)
        self._held = ExitStack()
        self._entry: Entry | None = None
        try:
            super().convert_notebooks()
        finally:
            self._let_go()

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        self._let_go()
        if not self._held.enter_context(self.ledger.lock(assignment_id, student_id)):
            self.log.info("Skipping %s: another grader has it", student_id)
            return False
        self._drop_unfinished(assignment_id, student_id)
        return super().init_destination(assignment_id, student_id)

    def init_notebooks(self) -> None:
        """Also takes folders without any notebook: they are graded, with the reason."""
        try:
            super().init_notebooks()
        except NbGraderException:
            if not self._folders_without_notebooks():
                raise
        self.assignments |= self._folders_without_notebooks()

    def _folders_without_notebooks(self) -> dict[str, list[str]]:
        pattern = self._format_source(self.coursedir.assignment_id, self.coursedir.student_id)
        folders = (folder for folder in glob.glob(pattern) if os.path.isdir(folder))
        return {folder: [] for folder in folders if folder not in self.assignments}

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        self._entry = Entry(assignment_id, student_id)
        self._started = time.monotonic()
        self._entry.notes += replace_links(Path(self._format_source(assignment_id, student_id)))
        self.ledger.write(self._entry)
        self._reset_scores(assignment_id, student_id)
        self.notebooks = self._notebooks_due(assignment_id, student_id)
        super().init_assignment(assignment_id, student_id)

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        super().set_permissions(assignment_id, student_id)
        entry = self.ledger.read(assignment_id, student_id)
        entry.state = "graded"
        self.ledger.write(entry)
        self._entry = None
        self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        earned = sum(verdict.score for verdict in entry.verdicts.values())
        due = sum(verdict.max_score for verdict in entry.verdicts.values())
        seconds = time.monotonic() - self._started
        remark = f"  ({entry.notes[0]})" if entry.notes else ""
        print(f"graded {entry.student}: {points(earned)} of {points(due)} in {seconds:.1f} s{remark}", flush=True)

    def _let_go(self) -> None:
        """Release the submission; one that did not reach its end is marked failed."""
        if self._entry is not None:
            entry = self.ledger.read(self._entry.assignment, self._entry.student) or self._entry
            entry.state = "failed"
            entry.notes.append("The submission could not be graded: see nbgrader's log.")
            self.ledger.write(entry)
            self._entry = None
        self._held.close()

    def _drop_unfinished(self, assignment_id: str, student_id: str) -> None:
        graded = Path(self._format_dest(assignment_id, student_id))
        entry = self.ledger.read(assignment_id, student_id)
        if graded.exists() and (entry is None or entry.state != "graded"):
            self.log.warning("Grading of %s was interrupted: starting it again", student_id)
            shutil.rmtree(graded)

    def _notebooks_due(self, assignment_id: str, student_id: str) -> list[str]:
        """Where each released notebook should be in the submission, there or not."""
        folder = self._format_source(assignment_id, student_id)
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            names = [notebook.name for notebook in gradebook.find_assignment(assignment_id).notebooks]
        return [os.path.join(folder, f"{name}.ipynb") for name in names]

    def _reset_scores(self, assignment_id: str, student_id: str) -> None:
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                submission = gradebook.find_submission(assignment_id, student_id)
            except MissingEntry:
                return
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    grade.auto_score = 0.0
            gradebook.db.commit()


def replace_links(folder: Path) -> list[str]:
    """Turn every symbolic link of a submission into a text file that names its target.

    nbgrader would follow it and copy what it points to: a solution, the gradebook, another
    learner's work. Raises PermissionError when the submission's own folder is a link.
    """
    for part in (folder, folder.parent):
        if part.is_symlink():
            raise PermissionError(f"{part} is a link: put the submission itself there")
    notes = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            target = os.readlink(path)
            path.unlink()
            path.write_text(f"This was a symbolic link to {target}; links are not followed.\n")
            notes.append(f"`{path.relative_to(folder)}` was a link and was not followed.")
    return notes
