"""Chapters carry the course's numbers, their exercises too."""

import re
from pathlib import Path

import pytest

from gpulab.book.contents import Contents

ROOT = Path(__file__).parents[2]
CONTENTS = Contents.read(ROOT)
NUMBERS = CONTENTS.numbers


def test_no_two_chapters_have_one_number():
    assert len(set(NUMBERS.values())) == len(NUMBERS) > 5


@pytest.mark.parametrize("page", [page for page in NUMBERS if page in CONTENTS.pages])
def test_a_page_shows_its_number_in_its_titles_and_in_the_contents(site, page):
    text = (site / f"{page}.html").read_text("utf-8")
    shown = re.findall(r'<h([12])><span class="section-number">([\d.]+)\. </span>', text)
    assert shown[0] == ("1", str(NUMBERS[page]))
    assert [number for level, number in shown if level == "2"] == [f"{NUMBERS[page]}.{n}" for n in range(1, len(shown))]
    contents = re.findall(r'<a class="(?:current )?reference internal" href="[^"]*">(\d+)\. ', text)
    assert {int(number) for number in contents} == set(CONTENTS.chapters.values()), page


@pytest.mark.parametrize("page", [page for page in CONTENTS.unnumbered if page in CONTENTS.pages])
def test_a_page_without_a_number_shows_none(site, page):
    text = (site / f"{page}.html").read_text("utf-8")
    titles = re.findall(r"<h[12]>.*", text)
    assert titles and not any("section-number" in title for title in titles)
    assert re.search(r'<a class="current reference internal" href="#">\D', text)


@pytest.mark.parametrize("page", NUMBERS)
def test_exercises_are_one_series_with_the_chapters_number(page):
    chapter = Path(page).name
    text = (ROOT / "exercises" / chapter / "notebook.py").read_text("utf-8")
    headings = re.findall(r"^# ## (E\S+) `(\w+)`", text, flags=re.M)
    assert [number for number, _ in headings] == [f"E{NUMBERS[page]}.{n}" for n in range(1, len(headings) + 1)]
    for number, function in headings:
        assert re.search(rf"\*\*{number} `{function}`\*\*", (ROOT / f"{page}.md").read_text("utf-8")), (
            f"{page}.md lists no {number} {function}"
        )
