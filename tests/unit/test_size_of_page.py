"""A page has a size, whatever a learner typed: what becomes far more HTML than it is Markdown is shown as it was typed."""

import html

import pytest
from nbformat.v4 import new_code_cell, new_output

from autograder.nbgrader.inert import MOST_RENDERED, InertExporter
from autograder.nbgrader.size_of_page import MOST_OF_A_PAGE, MOST_OF_A_TEXT, Room, SizeOfPage

FAR = f"https://example.com/{'a' * 30_000}"
EXPANDING = {
    "links of one definition": f"[a]: {FAR}\n\n{'[a] ' * 8000}",
    "titles of one definition": f"[a]: https://example.com '{'a' * 30_000}'\n\n{'[a] ' * 8000}",
    "pictures of one definition": f"[a]: {FAR}\n\n{'![a] ' * 6000}",
    "references to one footnote": f"{'x[^a] ' * 5000}\n\n[^a]: {'b' * 30_000}",
    "references with a long name": "".join(f"[^{'n' * 200}] " for _ in range(150)) + f"\n\n[^{'n' * 200}]: x",
}


@pytest.fixture
def exporter() -> InertExporter:
    exporter = InertExporter()
    exporter.begin_page()
    return exporter


@pytest.mark.parametrize("source", EXPANDING.values(), ids=EXPANDING)
def test_a_cell_of_64_kib_becomes_no_more_than_1_mib(exporter, source):
    assert len(source) < 64 * 1024
    assert len(exporter.markdown_of({"source": source})) <= MOST_RENDERED


def test_an_ordinary_cell_of_many_links_is_rendered(exporter):
    shown = exporter.markdown_of({"source": "[a]: https://example.com\n\n" + "- [a] **b** `c`\n" * 2000})
    assert shown.count("<a ") == 2000 and shown.count("<strong>") == 2000


def test_a_picture_that_is_shown_a_thousand_times_fills_a_page_once(exporter):
    picture = {"a.png": {"image/png": "A" * 40_000}}
    shown = exporter.markdown_of({"source": "![x](attachment:a.png) " * 2000, "attachments": picture})
    assert 100 < shown.count("<img ") < 300 and len(shown) <= MOST_OF_A_PAGE
    assert "[Picture x, one too many for this page]" in shown
    assert "[Picture x, one too many" in exporter.markdown_of(
        {"source": "![x](attachment:a.png)", "attachments": picture}
    )


def test_colours_are_dropped_where_they_would_make_the_page_too_large(exporter):
    exporter._room.left = 1024**2
    show = dict(exporter.default_filters())["ansi2html"]
    first, second = (show("\x1b[31mx\x1b[0m" * 20_000) for _ in range(2))
    assert first.count("<span") == 20_000 and second == "x" * 20_000


def test_texts_are_counted_as_they_stand_on_the_page():
    size = SizeOfPage()
    cells = [new_code_cell("", outputs=[new_output("stream", text='"' * MOST_OF_A_TEXT)]) for _ in range(10)]
    for cell in cells:
        size.bound(cell)
    assert sum(len(html.escape(cell.outputs[0].text)) for cell in cells) < MOST_OF_A_PAGE + 10 * 100
    assert "more characters are not shown" in cells[-1].outputs[0].text


def test_what_does_not_fit_takes_no_room():
    room = Room(10)
    assert not room.takes("x" * 11) and room.takes("x" * 10) and not room.takes("x")
