"""What a page is about can be seen: no box hides it at a desk, no figure is too small on a phone."""

import pytest

from tests.site.probe import Report, reader, settle
from tests.site.test_every_page import DESKTOP, PAGES, PHONE

# Of each figure's text, what is drawn smaller than 9 px.
SMALL = """() => [...document.querySelectorAll('figure.gpulab-figure svg')].flatMap((svg) => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim())
    .map((text) => [Math.round(10 * scale * parseFloat(getComputedStyle(text).fontSize)) / 10, text.textContent])
    .filter(([size]) => size < 9);
})"""
HIDDEN = """() => [...document.querySelectorAll('table.gpulab-claims')].map((table) => {
  const box = table.closest('.output');
  return box.scrollWidth - box.clientWidth;
})"""


@pytest.mark.parametrize("page", [page for page in PAGES if "device/" in page or "tensors/" in page])
def test_the_text_of_a_figure_is_9_px_high_on_a_phone(browser, address, page):
    with reader(browser, *PHONE) as context:
        tab = context.new_page()
        tab.goto(f"{address}/{page}", wait_until="load")
        assert tab.evaluate(SMALL) == []


@pytest.mark.parametrize("width", [DESKTOP[0], 1024, 1440])
def test_the_sources_of_the_folklore_are_in_sight(browser, address, width):
    with reader(browser, width, DESKTOP[1]) as context:
        tab = context.new_page()
        tab.goto(f"{address}/chapters/folklore.html", wait_until="load")
        settle(tab, Report())
        hidden = tab.evaluate(HIDDEN)
        assert hidden and max(hidden) <= 0
