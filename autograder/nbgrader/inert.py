"""What learners wrote, made such that nothing of it can run in an instructor's or a learner's browser."""

import html

import bleach
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import List

from autograder.notebooks.inert import inert, is_the_referees

_TAGS = frozenset(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span "
    "strong sub sup table tbody td th thead tr ul".split()
)


def clean(page: str) -> str:
    """HTML with harmless tags only; links keep http(s) and in-page targets."""
    return bleach.clean(page, tags=_TAGS, attributes={"a": ["href"], "*": ["class"]}, strip=True)


class InertExporter(HTMLExporter):
    """nbconvert's HTML, but Markdown carries no script, and raw cells are text."""

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        return clean(super().markdown2html(context, source))


class OfPages(NbGraderPreprocessor):
    """A preprocessor of HTML pages."""

    # nbconvert's HTML configuration sets this on every preprocessor.
    display_data_priority = List().tag(config=True)


class EscapeLearners(OfPages):
    """Keeps text and pictures of what learners' code displayed; the referee's tables stay whole."""

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, cell_index: int):
        if cell.cell_type == "raw":
            cell.source = html.escape(cell.source)
        if cell.cell_type == "code" and not is_the_referees(cell):
            cell.outputs = [inert(output) for output in cell.outputs]
        return cell, resources
