"""nbgrader's Autograde, one submission at a time and none lost."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.converters.base import BaseConverter

from autograder.core.flag import in_a_line
from autograder.core.ledger import NOT_GRADED, Entry, Ledger
from autograder.core.printable import printable, say
from autograder.core.report import points
from autograder.flags.beside import python_beside
from autograder.flags.submission import flags_of
from autograder.intake.archives import unpack_beside
from autograder.intake.beside import put_away
from autograder.intake.files import OF_THE_HAND_IN, Handed, copy, digest, handed_in, taken_along
from autograder.intake.found import found_in
from autograder.intake.graded_form import graded_form, not_graded
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released
from autograder.nbgrader.execute import ExecuteGraded
from autograder.nbgrader.folders import folders
from autograder.nbgrader.penalties import penalties_now
from autograder.nbgrader.released import released_notebooks
from autograder.nbgrader.times import time_of
from autograder.sandbox.workspace import SandboxRequired, why_unsandboxed


class TakesFilesAlong(BaseConverter):
    """In the place of nbgrader's own copying, which follows links, and puts a learner's programs where an instructor works."""

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        folder = Path(self._format_source(assignment_id, student_id))
        with tempfile.TemporaryDirectory() as staged:
            for beside in sorted({folder, *self._folders_of_notebooks}):
                others = [] if beside == folder else [beside / name for name in OF_THE_HAND_IN]
                files = [path for path in self._files if path not in others]
                self._entry.notes += copy(files, beside, Path(staged))
            for archive, notebook in self._archives:
                unpack_beside(archive, notebook, Path(staged))
            beside = python_beside(Path(staged))
            self._entry.flags = [flag for one in self._taken.items() for flag in flags_of(*one, beside)]
            put_away(Path(staged), Path(self._format_dest(assignment_id, student_id)))
        self.ledger.write(self._entry)


class AutogradeSubmissions(Autograde, TakesFilesAlong):
    """The converter behind ``nbgrader autograde`` and the formgrader's button.

    Beyond nbgrader's own: a submission is held by one grader at a time; one that a killed
    run left half done is done again, and one whose files have changed, whatever its time says;
    what was handed in is made into a notebook by ``autograder.intake``; scores of an earlier
    hand-in do not outlive a later one that fails.
    """

    _why = ""

    def convert_notebooks(self) -> None:
        self._require_sandbox()
        self.ledger = Ledger(self.coursedir.root)
        self._held = ExitStack()
        self._entry: Entry | None = None
        try:
            super().convert_notebooks()
        finally:
            self._let_go()

    def _require_sandbox(self) -> None:
        """Nothing is touched where submissions could not be held."""
        try:
            self.require_sandbox()
        except SandboxRequired as error:
            self.log.error("Nothing was graded: %s", error)
            raise NbGraderException(str(error)) from error

    def require_sandbox(self) -> None:
        """Raises SandboxRequired where kernels cannot be sandboxed and the configuration does not say that they need not."""
        why_unsandboxed(ExecuteGraded(parent=self).sandbox)

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        self._let_go()
        if not self._held.enter_context(self.ledger.lock(assignment_id, student_id)):
            self._held_by_another(student_id)
            return False
        self._drop_unfinished(assignment_id, student_id)
        if super().init_destination(assignment_id, student_id):
            return True
        self._penalties(assignment_id, student_id)
        return False

    def _held_by_another(self, student_id: str) -> None:
        self.log.info("Skipping %s: another grader has it", printable(student_id))

    def init_notebooks(self) -> None:
        """Also takes folders without any notebook: they are graded, with the reason."""
        course = self.coursedir
        found = folders(course, self._input_directory, course.student_id, course.assignment_id)
        try:
            super().init_notebooks()
        except NbGraderException:
            if not found:
                raise
        self.assignments |= {folder: [] for folder in found if folder not in self.assignments}

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        self._entry = Entry(assignment_id, student_id)
        self._started = time.monotonic()
        folder = Path(self._format_source(assignment_id, student_id))
        refuse_links(folder)
        self.ledger.write(self._entry)
        self._reset_scores(assignment_id, student_id)
        self._take_in(folder, assignment_id)
        self.ledger.write(self._entry)
        self.notebooks = [str(folder / f"{name}.ipynb") for name in self._taken]
        super().init_assignment(assignment_id, student_id)

    def _take_in(self, folder: Path, assignment_id: str) -> None:
        """Find, read and put in order each of the assignment's notebooks."""
        handed = handed_in(folder)
        self._files, notes = taken_along(handed)
        self._entry.notes += [note for note in [time_of(folder)[1]] if note] + notes
        self._entry.handed_in = digest(handed)
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            releases = released_notebooks(gradebook, assignment_id)
        self._taken, self._folders_of_notebooks, self._archives = {}, set(), []
        for name, released in releases.items():
            self._taken[name] = self._taken_in(handed, name, released, frozenset(releases) - {name})

    def _taken_in(self, handed: Handed, name: str, released: Released, others: frozenset[str]) -> NotebookNode:
        try:
            found = found_in(handed, name, released, others)
            notebook, notes = graded_form(found, released)
        except NotGradable as problem:
            self.log.warning("%s: %s", name, problem)
            self._entry.outcome = NOT_GRADED
            self._entry.notes.insert(0, f"Not graded: {problem}")
            return not_graded(released, str(problem))
        self._entry.notes += notes
        for one in (found, *found.others):
            self._folders_of_notebooks.add(one.path.parent)
            self._archives += [(one.path, one.member)] * bool(one.member)
        return notebook

    def init_single_notebook_resources(self, notebook_filename: str) -> dict:
        """What was taken in goes to the exporter, once: after that nbgrader reads what it wrote itself."""
        resources = super().init_single_notebook_resources(notebook_filename)
        resources["nbgrader"]["taken"] = self._taken.pop(resources["nbgrader"]["notebook"], None)
        return resources

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        super().set_permissions(assignment_id, student_id)
        entry = self.ledger.read(assignment_id, student_id)
        entry.state = "graded"
        self.ledger.write(entry)
        self._entry = None
        self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        if entry.outcome == NOT_GRADED:
            say(f"NOT GRADED {printable(entry.student)}: {entry.notes[0].partition(': ')[2]}")
            return
        earned = sum(verdict.score for verdict in entry.verdicts.values())
        expected = sum(verdict.max_score for verdict in entry.verdicts.values())
        seconds = time.monotonic() - self._started
        again = f", again: {self._why}" if self._why else ""
        remark = f"  ({entry.notes[0]})" if entry.notes else ""
        scores = f"{points(earned)} of {points(expected)}"
        say(f"graded {printable(entry.student)}: {scores} in {seconds:.1f} s{again}{remark}")
        for sentence in entry.broken:
            say(f"  BROKEN HIDDEN TEST, points may be due: {sentence}")
        if entry.flags:
            say(f"  TO LOOK AT: {in_a_line(entry.flags)}")

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
        """Also what was graded before and is to be graded again; ``_why`` says why, and is empty for the first time."""
        graded = Path(self._format_dest(assignment_id, student_id))
        entry = self.ledger.read(assignment_id, student_id)
        self._why = ""
        if not graded.exists():
            return
        if entry is None or entry.state != "graded":
            self._why = "the last grading was interrupted"
        elif self.force:
            self._why = "--force"
        elif self._is_newer(assignment_id, student_id):
            self._why = "handed in again"
        elif entry.handed_in and entry.handed_in != digest(
            handed_in(Path(self._format_source(assignment_id, student_id)))
        ):
            self._why = "its files have changed"
        if not self._why:
            return
        self.log.warning("Grading %s again: %s", printable(student_id), self._why)
        if entry is not None:
            # A run killed here must not leave half a folder that counts as graded.
            entry.state = "running"
            self.ledger.write(entry)
        shutil.rmtree(graded)

    def _is_newer(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission was handed in again after it was graded, as nbgrader sees it."""
        both = (self._format_source(assignment_id, student_id), self._format_dest(assignment_id, student_id))
        submitted, graded = (time_of(Path(folder))[0] for folder in both)
        return submitted is not None and graded is not None and submitted > graded

    def _penalties(self, assignment_id: str, student_id: str) -> None:
        """Of what is not graded again: a due date, or the time of a hand-in, may have moved."""
        handed_in_at, _ = time_of(Path(self._format_source(assignment_id, student_id)))
        for sentence in penalties_now(self, assignment_id, student_id, handed_in_at):
            self._tell_of(student_id, sentence)

    def _tell_of(self, student_id: str, sentence: str) -> None:
        say(f"{printable(student_id)}: {sentence}")

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


def refuse_links(folder: Path) -> None:
    """nbgrader would follow them to a solution, the gradebook, another learner's work. Raises PermissionError."""
    for part in (folder, folder.parent):
        if part.is_symlink():
            raise PermissionError(f"{part} is a link: put the submission itself there")
