"""What learners wrote, made such that nothing of it can run in an instructor's or a learner's browser."""

import html
import re
from urllib.parse import unquote

import bleach
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import List

from autograder.notebooks.inert import inert, is_the_referees

_TAGS = frozenset(
    "a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span "
    "img strong sub sup table tbody td th thead tr ul".split()
)

_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=]*")
_OF_DATA = re.compile(r"[\x00-\x20]*d[\x00-\x20]*a[\x00-\x20]*t[\x00-\x20]*a[\x00-\x20]*:", re.IGNORECASE)
_PROTOCOLS = ("http", "https", "mailto", "data")
MOST_MARKDOWN = 64 * 1024
"""Characters of a cell that are rendered; a longer one is shown as it was typed."""


def clean(page: str) -> str:
    """HTML with harmless tags only; links keep http(s) and in-page targets, pictures are those that lie in the page."""
    return bleach.clean(page, tags=_TAGS, attributes=_is_kept, protocols=_PROTOCOLS, strip=True)


def _is_kept(tag: str, name: str, value: str) -> bool:
    if tag == "img":
        return name == "alt" or name == "src" and _PICTURE.fullmatch(value) is not None
    return name == "class" or (tag == "a" and name == "href" and not _OF_DATA.match(value))


class PicturesOfTheCell(IPythonRenderer):
    """nbconvert's renderer of Markdown. Pictures that are attached are shown; of others their text and address: nothing is fetched."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        kinds = (
            self.attachments.get(unquote(url.removeprefix("attachment:")), {}) if url.startswith("attachment:") else {}
        )
        for kind, data in kinds.items():
            source = f"data:{kind};base64,{''.join(data.split())}"
            if _PICTURE.fullmatch(source):
                return f'<img alt="{html.escape(text)}" src="{source}">'
        why = "not handed in with the notebook" if url.startswith("attachment:") else "not shown"
        return f"<em>[Picture {html.escape(text or url)}, {why}]</em>"


class InertExporter(HTMLExporter):
    """nbconvert's HTML, but Markdown carries no script, and raw cells are text."""

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        return self.markdown_of({**context.get("cell", {}), "source": source})

    def markdown_of(self, cell: dict) -> str:
        """A Markdown cell as HTML in which nothing runs and that fetches nothing; whatever a learner typed, there is a page."""
        source = cell["source"]
        renderer = PicturesOfTheCell(
            escape=False,
            attachments=cell.get("attachments", {}),
            anchor_link_text=self.anchor_link_text,
            exclude_anchor_links=self.exclude_anchor_links,
            **self.lexer_options,
        )
        if len(source) <= MOST_MARKDOWN:
            try:
                return clean(MarkdownWithMath(renderer=renderer).render(source))
            except Exception:
                pass  # learners can type whatever a renderer of Markdown trips over
        return f"<pre>{html.escape(source)}</pre>"

    def default_filters(self):
        yield from super().default_filters()
        yield "markdown_of", self.markdown_of


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
