"""The feedback page: every lost point's sentence, nothing hidden, nothing that can run."""

from pathlib import Path

import bleach
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, List

from autograder.glue.execute import exercise_of
from autograder.hidden_region import without_hidden_tests
from autograder.ledger import Ledger
from autograder.report import with_code

TEMPLATES = [str(Path(__file__).parent / "templates")]
_PICTURES = ("image/png", "image/jpeg")
_TAGS = frozenset(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span "
    "strong sub sup table tbody td th thead tr ul".split()
)


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTML with the course's template and Markdown that cannot carry a script."""

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        return clean(super().markdown2html(context, source))


def clean(page: str) -> str:
    """HTML with harmless tags only; links keep http(s) and in-page targets."""
    return bleach.clean(page, tags=_TAGS, attributes={"a": ["href"], "*": ["class"]}, strip=True)


class _OfFeedback(NbGraderPreprocessor):
    # nbconvert's HTML configuration sets this on every preprocessor.
    display_data_priority = List().tag(config=True)


class EscapeLearners(_OfFeedback):
    """Keeps text and pictures of what learners' code displayed; the referee's tables stay whole."""

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, cell_index: int):
        if cell.cell_type == "code" and exercise_of(cell) is None:
            cell.outputs = [_inert(output) for output in cell.outputs]
        return cell, resources


def _inert(output: NotebookNode) -> NotebookNode:
    if "data" in output:
        output.data = NotebookNode({kind: output.data[kind] for kind in output.data if kind in ("text/plain", *_PICTURES)})
        output.metadata = NotebookNode()
    return output


class HideHiddenTests(_OfFeedback):
    """Leaves hidden tests out of feedback unless the instructor wants them shown."""

    show_hidden_tests = Bool(False, help="Show hidden tests in feedback.").tag(config=True)

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, cell_index: int):
        if not self.show_hidden_tests:
            cell.source = without_hidden_tests(cell.source)
        return cell, resources


class ShowLedger(_OfFeedback):
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
