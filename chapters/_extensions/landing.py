"""Sphinx extension: ``{arc}`` and ``{parts}``, the landing page's map and table, which say what is here and what is planned."""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from gpulab.book.contents import FILE, Contents, in_words, spans

ROOT = Path(__file__).parents[2]
ARC = ROOT / "chapters" / "_pictures" / "arc.html"
STATION = re.compile(r'<li data-chapters="([\w ]+)">(.*?)</li>', re.S)


def arc(drawing: str, contents: Contents) -> str:
    """The drawing, each station of which says the numbers of its chapters that are here. Raises KeyError for an unknown name."""
    numbers = contents.chapters | contents.drafts

    def station(found: re.Match) -> str:
        here = sorted(numbers[name] for name in found[1].split() if numbers[name] in contents.chapters.values())
        kind = ' class="here"' if here else ""
        return f'<li{kind}>{found[2]}<p class="state">{in_words(here)}</p>\n</li>'

    return STATION.sub(station, drawing)


def table(topics: dict[str, str], contents: Contents) -> list[str]:
    """As Markdown a row for each part of the course: its chapters, what they are about, and what is planned.

    ``topics``: of each chapter, by its name. Raises KeyError where one in the book has none.
    """
    rows = [_row(number, part, topics, contents) for number, part in enumerate(contents.parts, 1)]
    return [_line(["Part", "Chapters", "About"]), _line(["---"] * 3), *map(_line, rows)]


def _row(number: int, part: str, topics: dict[str, str], contents: Contents) -> list[str]:
    def of_part(chapters: dict[str, int]) -> list[str]:
        return [name for name in sorted(chapters, key=chapters.get) if contents.part_of(chapters[name]) == number]

    here = of_part(contents.chapters)
    planned = "; ".join(topics[name] for name in of_part(contents.drafts) if name in topics)
    about = [*(topics[name] for name in here), f"*planned:* {planned}" if here and planned else planned]
    numbers = spans(contents.chapters[name] for name in here) or "planned"
    return [part.removeprefix("Part ").replace(":", ".", 1), numbers, "; ".join(filter(None, about))]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


class Arc(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        for known in (ARC, ROOT / FILE):
            self.env.note_dependency(str(known))
        return [nodes.raw("", arc(ARC.read_text("utf-8"), Contents.read(ROOT)), format="html")]


class Parts(SphinxDirective):
    """Its lines are ``chapter: what it is about``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(ROOT / FILE))
        topics = dict(line.split(": ", 1) for line in self.content if line.strip())
        try:
            lines = table(topics, Contents.read(ROOT))
        except KeyError as chapter:
            raise ExtensionError(f"chapters/index.md: {{parts}} says nothing of the chapter {chapter}") from None
        held = nodes.container()
        self.state.nested_parse(StringList(lines, source=self.env.docname), self.content_offset, held)
        return held.children


def setup(app):
    app.add_directive("arc", Arc)
    app.add_directive("parts", Parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
