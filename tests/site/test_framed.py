"""A page in a frame whose storage is blocked, as an LMS may show it: to name ``localStorage`` throws there."""

import pytest

from tests.site.probe import Report, listen, reader

FRAME = '<iframe sandbox="allow-scripts" src="{}" style="border: 0; width: 100%; height: 860px"></iframe>'
BLOCKED = """() => ["localStorage", "sessionStorage"].map((name) => window[name] instanceof Storage)"""
GROUND = "() => getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def framed(browser, address):
    """framed(page) -> the frame that shows it; an error in it fails the test."""
    report = Report()
    with reader(browser) as context:
        tab = context.new_page()
        listen(tab, report)

        def show(page):
            tab.set_content(FRAME.format(f"{address}/{page}"), wait_until="load")
            return tab.frames[1]

        yield show
    assert report.findings == []


def test_the_frames_storage_is_blocked(framed):
    assert framed("chapters/index.html").evaluate(BLOCKED) == [False, False]


def test_the_theme_button_changes_the_colours(framed):
    frame, seen = framed("chapters/index.html"), set()
    for _ in range(3):
        frame.locator("button.theme-switch-button:visible").first.click()
        seen.add(frame.evaluate(GROUND))
    assert len(seen) == 2


def test_the_search_button_opens_the_search(framed):
    frame = framed("chapters/index.html")
    field = frame.locator("#pst-search-dialog input[type=search]")
    assert not field.is_visible()
    frame.locator("button.search-button__button:visible").first.click()
    field.wait_for(state="visible")


def test_the_menu_button_hides_the_sidebar(framed):
    frame = framed("chapters/index.html")
    frame.get_by_role("button", name="Toggle primary sidebar").click()
    frame.get_by_role("navigation", name="Main").wait_for(state="hidden")


def test_cards_say_that_their_grades_are_not_kept(framed):
    cards = framed("chapters/interview.html").locator(".interview")
    cards.get_by_role("button", name="Show the answer").first.click()
    cards.get_by_role("button", name="Good").first.click()
    cards.get_by_text("This browser keeps nothing for this page").wait_for(state="visible")


def test_storage_that_is_open_stays_the_browsers_own(browser, address):
    with reader(browser) as context:
        tab = context.new_page()
        tab.goto(f"{address}/chapters/index.html")
        assert tab.evaluate(BLOCKED) == [True, True]
