"""What learners wrote, made such that nothing of it can run in an instructor's or a learner's browser."""

import html
import time
from collections.abc import Callable
from urllib.parse import unquote

from jinja2 import pass_context
from mistune.core import BlockState
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbconvert.filters import Highlight2HTML, ansi2html, strip_ansi
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float, List, Unicode

from autograder.core.printable import visible
from autograder.nbgrader.links import leads_outside
from autograder.nbgrader.sanitized import PICTURE, sanitized
from autograder.nbgrader.size_of_page import Room, SizeOfPage
from autograder.notebooks.inert import inert, is_the_referees

MOST_MARKDOWN = 64 * 1024
"""Characters of a cell that are rendered; a longer one is shown as it was typed."""
MOST_RENDERED = 1024**2
"""Characters of HTML that a cell becomes, pictures aside; of a definition that is used a thousand times it may be far more."""


class TooLong(ValueError):
    """More HTML than a cell may become."""


class InertRenderer(IPythonRenderer):
    """nbconvert's renderer of Markdown: attached pictures are shown; of others, and of links that lead nowhere outside, text and address."""

    def __init__(self, own_hosts: list[str], room: Room, **options) -> None:
        super().__init__(escape=False, **options)
        self._own_hosts, self._for_pictures = own_hosts, room
        self._made, self._most = 0, MOST_RENDERED

    def render_token(self, token: dict, state: BlockState) -> str:
        """Raises TooLong."""
        before = self._made
        text = super().render_token(token, state)
        self._made = before + len(text)  # that of what is in it included
        if self._made > self._most:
            raise TooLong
        return text

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if not url.startswith("attachment:"):
            return _in_its_place(text or url, "not shown")
        kinds = self.attachments.get(unquote(url.removeprefix("attachment:")), {})
        sources = [f"data:{kind};base64,{''.join(data.split())}" for kind, data in kinds.items()]
        sources = list(filter(PICTURE.fullmatch, sources))
        for source in filter(self._for_pictures.takes, sources):
            self._most += len(source)
            return f'<img alt="{html.escape(text)}" src="{source}">'
        why = "one too many for this page" if sources else "not handed in with the notebook"
        return _in_its_place(text or url, why)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if leads_outside(url, self._own_hosts):
            return super().link(text, url, title)
        address = html.escape(url)
        return f"<code>{address}</code>" if text == address else f"{text} (<code>{address}</code>)"


class InertExporter(HTMLExporter):
    """nbconvert's HTML, but Markdown carries no script, raw cells are text, and what is slow to render is shown as text."""

    page_seconds = Float(
        20, help="Processor seconds for Markdown and colours of a page; the rest is shown as text."
    ).tag(config=True)
    own_hosts = List(
        Unicode(), help="Hosts that learners' links may not lead to, as that of the course's JupyterHub."
    ).tag(config=True)
    host = ""
    """The server's that shows the page, where one does."""

    def from_notebook_node(self, nb: NotebookNode, resources: ResourcesDict | None = None, **kwargs):
        self.begin_page()
        # HTMLExporter's own parses the finished page once more, for texts of pictures: EscapeLearners gives them.
        return super(HTMLExporter, self).from_notebook_node(nb, self._init_resources(resources), **kwargs)

    def begin_page(self) -> None:
        """Its time and its room begin."""
        self._until, self._room = time.process_time() + self.page_seconds, Room()

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        return self.markdown_of({**context.get("cell", {}), "source": source})

    def markdown_of(self, cell: dict) -> str:
        """A Markdown cell as HTML in which nothing runs and that fetches nothing; whatever a learner typed, there is a page."""
        source = cell["source"]
        if len(source) <= MOST_MARKDOWN and self._has_time():
            try:
                rendered = self._rendered(source, cell.get("attachments", {}))
                if self._room.takes(rendered):
                    return rendered
            except Exception:
                pass  # learners can type whatever a renderer of Markdown trips over
        return _as_text(source)

    def _rendered(self, source: str, attachments: dict) -> str:
        own_hosts = [*self.own_hosts, self.host]
        renderer = InertRenderer(
            own_hosts,
            Room(self._room.left - MOST_RENDERED),
            attachments=attachments,
            anchor_link_text=self.anchor_link_text,
            exclude_anchor_links=self.exclude_anchor_links,
            **self.lexer_options,
        )
        return sanitized(MarkdownWithMath(renderer=renderer).render(source), own_hosts)

    def default_filters(self):
        yield from super().default_filters()
        yield "markdown_of", self.markdown_of
        yield "ansi2html", self._in_bounds(ansi2html, lambda text: html.escape(strip_ansi(text)))
        yield "highlight_code", self._in_bounds(Highlight2HTML(pygments_lexer="ipython3", parent=self), _as_text)

    def _in_bounds(self, render: Callable, plainly: Callable) -> Callable:
        """The filter ``render`` for as long as the page's time and room last."""

        def shown(text: str, **options) -> str:
            if self._has_time() and self._room.takes(rendered := visible(render(text, **options))):
                return rendered
            return visible(plainly(text))

        return shown

    def _has_time(self) -> bool:
        return time.process_time() < self._until


def _in_its_place(picture: str, why: str) -> str:
    return f"<em>[Picture {html.escape(picture)}, {why}]</em>"


def _as_text(source: str) -> str:
    return f"<pre>{html.escape(source)}</pre>"


class OfPages(NbGraderPreprocessor):
    """A preprocessor of HTML pages."""

    # nbconvert's HTML configuration sets this on every preprocessor.
    display_data_priority = List().tag(config=True)


class EscapeLearners(OfPages):
    """Keeps text and pictures of what learners wrote and their code displayed, as much as a page holds; the referee's tables stay whole."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict):
        self._size = SizeOfPage()
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: ResourcesDict, cell_index: int):
        if not is_the_referees(cell):
            for output in cell.get("outputs", []):
                inert(output)
            cell.metadata["alt"] = "A figure that this cell drew"
            self._size.bound(cell)
            cell.source = visible(cell.source)
        if cell.cell_type == "raw":
            cell.source = html.escape(cell.source)
        return cell, resources
