"""The feedback page: every lost point's sentence, nothing hidden, nothing that can run."""

from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from traitlets import Bool

from autograder.core.hidden_region import without_hidden_tests
from autograder.core.ledger import Ledger
from autograder.core.report import with_code
from autograder.nbgrader.inert import InertExporter, OfPages

TEMPLATES = [str(Path(__file__).parent / "templates")]
STYLES = [str(Path(__file__).parents[1] / "notebooks")]


class FeedbackExporter(InertExporter):
    """nbconvert's HTML with the course's template."""


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
        resources["notes"] = [with_code(note) for note in entry.notes] if entry else []
        resources["lost"] = {
            grade_id: [with_code(line.message) for line in verdict.lines if line.status != "earned"]
            for grade_id, verdict in (entry.verdicts if entry else {}).items()
        }
        return nb, resources
