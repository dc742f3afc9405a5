"""Every source has a label of its own that can be read aloud."""

import re

from chapters._extensions.labels import letters
from tests.site.probe import reader


def test_letters_go_on_after_z():
    assert [letters(place) for place in (0, 25, 26, 51, 52, 701, 702)] == ["a", "z", "aa", "az", "ba", "zz", "aaa"]


def test_every_label_is_of_letters_and_a_year_and_no_two_are_alike(site):
    page = (site / "chapters/sources.html").read_text("utf-8")
    labels = re.findall(r'<span class="label"><span class="fn-bracket">\[</span>(?:<a[^>]*>)?([^<]+)', page)
    assert len(labels) > 100 and len(set(labels)) == len(labels)
    assert [label for label in labels if not re.fullmatch(r"[\w-]+\+?(\d\d)[a-z]*", label)] == []


LETTERS_OF_AN_ICON_FONT = """() => [...document.querySelectorAll('body *')].filter(
  one => ['::before', '::after'].some(side => /[\\ue000-\\uf8ff]/.test(getComputedStyle(one, side).content))).length"""


def test_no_link_begins_with_a_letter_of_an_icon_font_that_is_not_there(browser, address):
    with reader(browser) as context:
        page = context.new_page()
        page.goto(f"{address}/chapters/sources.html")
        assert page.locator("a.github").count() > 10 and page.evaluate(LETTERS_OF_AN_ICON_FONT) == 0
