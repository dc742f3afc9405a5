"""nbgrader's Autograde, one submission at a time and none lost."""

import errno
import glob
import os
import shutil
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import parse_utc

from autograder.core.ledger import Entry, Ledger
from autograder.core.report import points, printable
from autograder.nbgrader.execute import ExecuteGraded
from autograder.sandbox.workspace import SandboxRequired, why_unsandboxed

# What may lie beside a notebook: a kernel's working folder takes twice as much.
MAX_FILE_BYTES = 128 * 1024**2
MAX_FILES = 1000


class AutogradeSubmissions(Autograde):
    """The converter behind ``nbgrader autograde`` and the formgrader's button.

    Beyond nbgrader's own: a submission is held by one grader at a time; one that a killed
    run left half done is done again; links are refused before anything is copied; scores of
    an earlier hand-in do not outlive a later one that fails.
    """

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
        self._time_notes = replace_broken_timestamp(Path(self._format_source(assignment_id, student_id)))
        self._drop_unfinished(assignment_id, student_id)
        return super().init_destination(assignment_id, student_id)

    def _held_by_another(self, student_id: str) -> None:
        self.log.info("Skipping %s: another grader has it", printable(student_id))

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
        folder = Path(self._format_source(assignment_id, student_id))
        self._entry.notes += self._time_notes + replace_odd_files(folder)
        ignored, notes = what_to_leave(folder)
        self._entry.notes += notes
        self.ledger.write(self._entry)
        self._reset_scores(assignment_id, student_id)
        self.notebooks = self._notebooks_to_grade(assignment_id, student_id)
        ignored_otherwise, self.coursedir.ignore = self.coursedir.ignore, [*self.coursedir.ignore, *ignored]
        try:
            super().init_assignment(assignment_id, student_id)
        finally:
            self.coursedir.ignore = ignored_otherwise

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        super().set_permissions(assignment_id, student_id)
        entry = self.ledger.read(assignment_id, student_id)
        entry.state = "graded"
        self.ledger.write(entry)
        self._entry = None
        self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        earned = sum(verdict.score for verdict in entry.verdicts.values())
        expected = sum(verdict.max_score for verdict in entry.verdicts.values())
        seconds = time.monotonic() - self._started
        remark = f"  ({entry.notes[0]})" if entry.notes else ""
        print(
            f"graded {printable(entry.student)}: {points(earned)} of {points(expected)} in {seconds:.1f} s{remark}",
            flush=True,
        )
        for sentence in entry.broken:
            print(f"  BROKEN HIDDEN TEST, points may be due: {sentence}", flush=True)

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
        if not graded.exists():
            return
        if entry is None or entry.state != "graded":
            self.log.warning("Grading of %s was interrupted: starting it again", printable(student_id))
            shutil.rmtree(graded)
        elif self.force or self._is_newer(assignment_id, student_id):
            # nbgrader is about to remove the folder file by file: a run killed there must not
            # leave half a folder that counts as graded.
            entry.state = "running"
            self.ledger.write(entry)

    def _is_newer(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission was handed in again after it was graded, as nbgrader sees it."""
        folders = (self._format_source(assignment_id, student_id), self._format_dest(assignment_id, student_id))
        submitted, graded = map(self.coursedir.get_existing_timestamp, folders)
        return submitted is not None and graded is not None and submitted > graded

    def _notebooks_to_grade(self, assignment_id: str, student_id: str) -> list[str]:
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


def replace_odd_files(folder: Path) -> list[str]:
    """Turn links, pipes, sockets and devices of a submission into text files that say so.

    nbgrader would follow a link and copy what it points to: a solution, the gradebook, another
    learner's work. Raises PermissionError when the submission's own folder is a link.
    """
    for part in (folder, folder.parent):
        if part.is_symlink():
            raise PermissionError(f"{part} is a link: put the submission itself there")
    notes = []
    found = contents(folder)
    for path in found if found is not None else sorted(folder.iterdir()):
        if path.is_symlink():
            target = os.readlink(path)
            path.unlink()
            path.write_text(f"This was a symbolic link to {target}; links are not followed.\n")
            notes.append(f"`{_printable(path, folder)}` was a link and was not followed.")
        elif not path.is_file() and not path.is_dir():
            path.unlink()
            path.write_text("This was no ordinary file.\n")
            notes.append(f"`{_printable(path, folder)}` is no ordinary file and was not opened.")
    return notes


def contents(folder: Path) -> list[Path] | None:
    """All that lies in a submission, in order, links not followed; None when that is more than ``MAX_FILES``.

    Folders that lie too deep to be named count as too many.
    """
    found, todo = [], [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as inside:
                entries = list(islice(inside, MAX_FILES + 1 - len(found)))
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return None
        found += [Path(entry.path) for entry in entries]
        todo += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        if len(found) > MAX_FILES:
            return None
    return sorted(found)


def replace_broken_timestamp(folder: Path) -> list[str]:
    """Empty a timestamp that is no time: nbgrader would end the whole run at it."""
    path = folder / "timestamp.txt"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.unlink() if not path.is_dir() else shutil.rmtree(path)
    elif not path.exists() or _is_time(path):
        return []
    path.write_text("")
    return ["The time of the hand-in (`timestamp.txt`) could not be read: it is unknown."]


def _is_time(path: Path) -> bool:
    try:
        text = path.read_text() if path.stat().st_size < 1000 else "too long"
        return not text.strip() or bool(parse_utc(text.strip()))
    except (ValueError, OverflowError):
        return False


def what_to_leave(folder: Path) -> tuple[list[str], list[str]]:
    """Patterns of what is not copied from a submission, since it is too much, and notes on it."""
    if (found := contents(folder)) is None:
        return ["*"], [f"The submission holds more than {MAX_FILES} files and folders: only the notebook was taken."]
    files = [path for path in found if path.suffix != ".ipynb" and path.is_file()]
    total, ignored, notes = 0, [], []
    for path in files:
        if total + path.stat().st_size > MAX_FILE_BYTES:
            ignored.append(glob.escape(path.name))
            size = f"{MAX_FILE_BYTES // 1024**2} MiB"
            notes.append(f"`{_printable(path, folder)}` was left out: the files handed in hold more than {size}.")
        else:
            total += path.stat().st_size
    return ignored, notes


def _printable(path: Path, folder: Path) -> str:
    """A file's name for notes and terminals, without line breaks, escapes and broken Unicode."""
    return printable(str(path.relative_to(folder)))
