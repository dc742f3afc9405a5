"""Sphinx extension: chapters carry the numbers of the whole course, also while some of them are drafts.

``meta: chapters:`` in _toc.yml gives each numbered page its number. Sphinx counts what is there; its count is replaced, and
taken from the pages of ``meta: unnumbered:``.
"""

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

from gpulab.book.contents import Contents

ROOT = Path(__file__).parents[2]


def numbers() -> dict[str, int]:
    """The number of each chapter in the book, by its page."""
    contents = Contents.read(ROOT)
    return {page: number for page, number in contents.numbers.items() if page in contents.pages}


def renumbered(assign):
    """``assign_section_numbers``, whose chapters then get their own numbers."""

    def assign_section_numbers(self, env) -> list[str]:
        before = env.toc_secnumbers
        assign(self, env)
        own, contents = numbers(), Contents.read(ROOT)
        without = [page for page in contents.unnumbered if page in contents.pages]
        if unnumbered := sorted(
            page
            for page, sections in env.toc_secnumbers.items()
            if any(sections.values()) and page not in (*own, *without)
        ):
            raise ExtensionError(f"_toc.yml: meta: chapters: gives no number to {', '.join(unnumbered)}")
        for page, number in own.items():
            sections = env.toc_secnumbers[page]
            env.toc_secnumbers[page] = {anchor: told and (number, *told[1:]) for anchor, told in sections.items()}
            for node in _numbered(env, page):
                node["secnumber"] = [number, *node["secnumber"][1:]]
        for page in without:
            env.toc_secnumbers.pop(page, None)
            for node in _numbered(env, page):
                del node["secnumber"]
        return [page for page, sections in env.toc_secnumbers.items() if sections != before.get(page)]

    return assign_section_numbers


def _numbered(env, page: str) -> Iterator[nodes.Element]:
    """What shows a section's number: the references of the page's table of contents, and its title."""
    yield from (node for node in env.tocs[page].findall(nodes.reference) if node.get("secnumber"))
    if (title := env.titles.get(page)) is not None and title.get("secnumber"):
        yield title


def setup(app):
    # The collector that stands in for Sphinx's own, and counts last.
    collector = TocTreeCollectorWithStyles
    collector.assign_section_numbers = renumbered(collector.assign_section_numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
