"""A page on paper: nothing is cut at its right edge, and it is white whatever the screen was."""

import pytest

from tests.sampling import sampled
from tests.site.probe import Report, reader, settle
from tests.site.test_every_page import PAGES

A4 = 718, 1047
"""CSS pixels inside the margins of 1 cm that Chromium leaves."""
KERNELS = "chapters/device/kernels.html"
CUT = """() => {
  const held = [...document.querySelectorAll(".bd-main, .bd-main *")].filter((box) => box.clientWidth);
  const name = (box) => `${box.tagName.toLowerCase()}.${box.className}`;
  const scrolls = (box) => /auto|scroll/.test(getComputedStyle(box).overflowX);
  const cut = held.filter((box) => scrolls(box) && box.scrollWidth > box.clientWidth);
  const beyond = held.filter((box) => box.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  return {
    seen: held.length,
    cut: cut.map((box) => `${name(box)} shows ${box.clientWidth} of ${box.scrollWidth} px`),
    beyond: beyond.map((box) => `${name(box)} leaves the page`),
  };
}"""


@pytest.mark.parametrize(
    "page", sampled(PAGES, (KERNELS, "chapters/device/streams.html", "chapters/instructors/grading.html"))
)
def test_nothing_is_cut_at_the_edge_of_the_paper(browser, address, page):
    with reader(browser, *A4) as context:
        tab = context.new_page()
        tab.goto(f"{address}/{page}")
        settle(tab, Report())
        tab.emulate_media(media="print")
        found = tab.evaluate(CUT)
    assert found["seen"] and found["cut"] + found["beyond"] == []


def test_a_page_that_is_read_at_night_is_printed_as_by_day(browser, address):
    with reader(browser, scheme="dark") as context:
        tab = context.new_page()
        tab.goto(f"{address}/{KERNELS}")
        tab.evaluate(
            "addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme; })"
        )
        tab.pdf()
        assert tab.evaluate("[window.printed, document.documentElement.dataset.theme]") == ["light", "dark"]
