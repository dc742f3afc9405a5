"""What every page of the book must have before it is built."""

import re
from pathlib import Path

import pytest
import yaml

from gpulab.book.contents import Contents
from gpulab.book.length import minutes

CHAPTERS = Path(__file__).parents[2] / "chapters"
CONTENTS = Contents.read(CHAPTERS.parent)
PAGES = {p.relative_to(CHAPTERS).as_posix(): p.read_text("utf-8") for p in sorted(CHAPTERS.rglob("*.md"))}
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def cells(text):
    return CELL.findall(text)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_describes_itself_to_search_engines(page):
    header = yaml.safe_load(PAGES[page].split("---")[1])
    assert 50 <= len(header["myst"]["html_meta"]["description"]) <= 300


@pytest.mark.parametrize("page", PAGES)
def test_nothing_on_a_page_is_left_to_write(page):
    assert not re.findall(r"WRITE\(\w+\): .*", PAGES[page])


@pytest.mark.parametrize("page", PAGES)
def test_a_quiz_does_not_show_its_answers(page):
    for cell in cells(PAGES[page]):
        if "Question.ask(" in cell:
            assert ":tags: [remove-input]" in cell.splitlines()[0], cell[:120]


@pytest.mark.parametrize("page", PAGES)
def test_visible_code_fits_the_column(page):
    for cell in cells(PAGES[page]):
        if "remove-input" not in cell:
            long = [line for line in cell.splitlines() if len(line) > 79]
            assert not long, long


@pytest.mark.parametrize("page", PAGES)
def test_nothing_on_a_page_needs_a_kernel(page):
    assert not re.search(r"\binteract(ive)?\(|\.observe\(lambda|ipywidgets", PAGES[page])


def test_there_are_pages_and_cells():
    assert "tensors/views.md" in PAGES and len(cells(PAGES["tensors/views.md"])) > 10


@pytest.mark.parametrize("page", sorted(set(CONTENTS.numbers) & set(CONTENTS.pages)))
def test_a_chapter_is_read_in_forty_minutes(page):
    assert minutes(CHAPTERS.parent / f"{page}.md") <= 40
