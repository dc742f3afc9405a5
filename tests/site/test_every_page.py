"""Every page, as readers meet it: desktop and phone, light and dark, server and disk."""

import pytest
from tests.site.probe import probe, reader

DESKTOP, PHONE = (1280, 900), (390, 844)


def wrong_with(reports):
    return [f"{page}: {finding}" for page, report in reports.items() for finding in report.findings]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wrong_with_any_page(browser, address, pages, screen, scheme):
    with reader(browser, *screen, scheme) as context:
        reports = {page: probe(context, f"{address}/{page}", scheme) for page in pages}
    assert not wrong_with(reports), "\n".join(wrong_with(reports))
    # An instrument that saw nothing proves nothing.
    assert all(report.requests for report in reports.values())
    assert sum(report.widgets for report in reports.values()) > 0
    assert sum(report.formulas for report in reports.values()) > 0


def test_the_site_works_from_disk(browser, site, pages):
    with reader(browser) as context:
        reports = {page: probe(context, (site / page).as_uri(), accessibility=False) for page in pages}
    assert not wrong_with(reports), "\n".join(wrong_with(reports))
    assert sum(report.widgets for report in reports.values()) > 0
