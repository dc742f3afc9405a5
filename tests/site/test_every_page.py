"""Every page, as readers meet it: desktop and phone, light and dark, server and disk.

Every change meets each page on a desk by day and on a phone by night; an audit in every pair, and from disk. axe takes longer
than all else: of each page it is asked by day, of one of each kind by night too, and in an audit always. What widgets show
by night is asked where each is tested.
"""

import pytest

from gpulab.book.contents import Contents
from tests.sampling import looks, sampled
from tests.site.conftest import ROOT
from tests.site.probe import probe, reader

DESKTOP, PHONE = (1280, 900), (390, 844)
WIDGET, FORMULA = "application/vnd.jupyter.widget-view+json", 'class="math'
BY_NIGHT_TOO = ("chapters/index.html", "chapters/tensors/views.html", "search.html")
PAGES = [*(f"{page}.html" for page in Contents.read(ROOT).pages), "search.html"]


def test_every_page_of_the_site_is_tried(pages):
    assert {page.as_posix() for page in pages} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("screen, scheme", looks(DESKTOP, PHONE))
def test_nothing_is_wrong_with_the_page(browser, site, address, page, screen, scheme, pytestconfig):
    accessibility = scheme == "light" or page in BY_NIGHT_TOO or pytestconfig.option.audit
    with reader(browser, *screen, scheme) as context:
        report = probe(context, f"{address}/{page}", scheme, accessibility)
    assert not report.findings, "\n".join(report.findings)
    # An instrument that saw nothing proves nothing.
    source = (site / page).read_text("utf-8")
    assert report.requests
    assert bool(report.widgets) == (WIDGET in source) and bool(report.formulas) == (FORMULA in source)


@pytest.mark.parametrize("page", sampled(PAGES, PAGES[:2]))
def test_the_page_works_from_disk(browser, site, page):
    with reader(browser) as context:
        report = probe(context, (site / page).as_uri(), accessibility=False)
    assert not report.findings, "\n".join(report.findings)
    assert bool(report.widgets) == (WIDGET in (site / page).read_text("utf-8"))
