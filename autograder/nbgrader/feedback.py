"""The feedback page: every lost point's sentence, nothing hidden, nothing that can run."""

import hashlib
import shutil
from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateFeedback
from traitlets import Bool

from autograder.core.hidden_region import without_hidden_tests
from autograder.core.ledger import Ledger
from autograder.core.printable import printable, say
from autograder.core.report import reasons, with_code
from autograder.intake.files import OF_THE_HAND_IN
from autograder.nbgrader.inert import InertExporter, OfPages

TEMPLATES = [str(Path(__file__).parent / "templates")]
STYLES = [str(Path(__file__).parents[1] / "notebooks")]


class FeedbackExporter(InertExporter):
    """nbconvert's HTML with the course's template."""


class FeedbackOfToday(GenerateFeedback):
    """nbgrader's converter; pages that show other points, penalties, comments or notes than those of today are written again."""

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        folder = Path(self._format_dest(assignment_id, student_id))
        pages = list(folder.glob("*.html"))
        if pages and not self.force and self.coursedir.notebook_id == "*":
            today = shown(self.coursedir.db_url, assignment_id, student_id)
            if any(today not in page.read_text("utf-8", "replace")[:4096] for page in pages):
                say(f"feedback of {printable(student_id)} is written again: what it shows has changed")
                shutil.rmtree(folder)
        return super().init_destination(assignment_id, student_id)

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """The page is all that is fed back: of the files beside the notebook nbgrader's own go along.

        By the time it knows what is stale, and ``release_feedback`` needs the secret.
        """
        source, target = (Path(path(assignment_id, student_id)) for path in (self._format_source, self._format_dest))
        target.mkdir(parents=True, exist_ok=True)
        for name in OF_THE_HAND_IN:
            if (source / name).exists():
                shutil.copyfile(source / name, target / name)


def shown(db_url: str, assignment: str, student: str) -> str:
    """A digest of all that a learner's feedback shows: of the gradebook's points, penalties and comments, and of the ledger."""
    with Gradebook(db_url) as gradebook:
        try:
            submission = gradebook.find_submission(assignment, student)
        except MissingEntry:
            return ""
        rows = [
            (notebook.name, notebook.late_submission_penalty, *_rows(notebook.grades), *_comments(notebook.comments))
            for notebook in submission.notebooks
        ]
    entry = Ledger.of_course().path(assignment, student)
    found = entry.read_bytes() if entry.exists() else b""
    return hashlib.sha256(repr(sorted(rows)).encode() + found).hexdigest()


def _rows(grades: list) -> list[tuple]:
    return sorted((grade.name, grade.auto_score, grade.manual_score, grade.extra_credit) for grade in grades)


def _comments(comments: list) -> list[tuple]:
    return sorted((comment.name, str(comment.auto_comment), str(comment.manual_comment)) for comment in comments)


class HideHiddenTests(OfPages):
    """Leaves hidden tests out of feedback unless the instructor wants them shown."""

    show_hidden_tests = Bool(False, help="Show hidden tests in feedback.").tag(config=True)

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, cell_index: int):
        if not self.show_hidden_tests:
            cell.source = without_hidden_tests(cell.source)
        return cell, resources


class ShowLedger(OfPages):
    """Hands the ledger's notes and lost points to the page."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict):
        where = resources["nbgrader"]
        entry = Ledger.of_course().read(where["assignment"], where["student"])
        resources["shown"] = shown(where["db_url"], where["assignment"], where["student"])
        resources["notes"] = [with_code(note) for note in entry.notes] if entry else []
        resources["lost"] = {
            grade_id: [with_code(reason) for reason in reasons(verdict)]
            for grade_id, verdict in (entry.verdicts if entry else {}).items()
        }
        return nb, resources
