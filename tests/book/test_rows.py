"""Every row of the interview notes is taught somewhere, drafts included, and says under which heading."""

import re
from pathlib import Path

import pytest

from gpulab.book.contents import Contents
from gpulab.yaml_files import read_yaml

CHAPTERS = Path(__file__).parents[2] / "chapters"
ROWS = read_yaml(CHAPTERS / "rows.yml")
NUMBERED = Contents.read(CHAPTERS.parent).numbers


def test_all_201_rows_are_there_once_and_in_order():
    assert [row["row"] for row in ROWS] == [f"R{number:03d}" for number in range(1, 202)]


@pytest.mark.parametrize("page", sorted({row["page"] for row in ROWS}))
def test_every_heading_that_a_row_names_stands_on_its_page(page):
    headings = set(re.findall(r"^#{2,4} (.+)$", (CHAPTERS / f"{page}.md").read_text("utf-8"), re.M))
    assert {row["heading"] for row in ROWS if row["page"] == page} - headings == set()


def test_every_chapter_in_the_book_teaches_some_and_what_has_no_number_none():
    teaching = {f"chapters/{row['page']}" for row in ROWS}
    assert set(NUMBERED) - set(Contents.read(CHAPTERS.parent).draft_pages) <= teaching <= set(NUMBERED)
