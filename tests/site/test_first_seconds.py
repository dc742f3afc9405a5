"""What a reader waits for: the page's weight, its first paint, what moves while it loads, what stands without scripts."""

import gzip
from dataclasses import dataclass
from functools import cache

import pytest

from tests.site.probe import Report, reader, settle
from tests.site.test_every_page import DESKTOP, PAGES, PHONE, WIDGET

SCREENS = [pytest.param(PHONE, id="phone"), pytest.param(DESKTOP, id="desktop", marks=pytest.mark.audit)]
LIMIT_BYTES, LANDING_BYTES = 250_000, 200_000
PAINTED = "performance.getEntriesByName('first-contentful-paint').length > 0"
SHIFT = """() => new Promise((done) => {
  let sum = 0;
  const add = (entries) => { for (const entry of entries) if (!entry.hadRecentInput) sum += entry.value; };
  const observer = new PerformanceObserver((list) => add(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  setTimeout(() => { add(observer.takeRecords()); done(sum); }, 300);
})"""


HEIGHTS = "() => [...document.querySelectorAll('.anywidget-view')].map((view) => Math.round(view.offsetHeight))"


@dataclass
class Visit:
    """A page as one reader saw it: before any script arrived, and after all did."""

    painted: bool
    kept: list[int]  # heights of the widgets' pictures, CSS pixels
    taken: list[int]  # heights of the widgets
    shift: float  # cumulative layout shift
    sizes: dict[str, int]  # compressed bytes of each thing asked for, by address


class HeldBack:
    """A handler of requests that answers none before it is told to."""

    def __init__(self) -> None:
        self._held, self._go = [], False

    def __call__(self, route) -> None:
        route.continue_() if self._go else self._held.append(route)

    def let_go(self) -> None:
        self._go = True
        for route in self._held:
            route.continue_()


def visited(tab, url) -> Visit:
    """``url`` opened in a new ``tab``: looked at while its scripts are on their way, and again once all have run."""
    answers, scripts = {}, HeldBack()
    tab.on("response", lambda response: answers.setdefault(response.url, response))
    tab.route("**/*.js*", scripts)
    tab.goto(url, wait_until="commit")
    tab.wait_for_function(PAINTED, timeout=60_000)
    tab.locator(".bd-footer-content").wait_for(state="attached")
    painted, kept = tab.locator("h1:visible").count() > 0, tab.evaluate(HEIGHTS)
    scripts.let_go()
    tab.wait_for_load_state("load")
    settle(tab, Report())
    shift, taken = tab.evaluate(SHIFT), tab.evaluate(HEIGHTS)
    return Visit(painted, kept, taken, shift, _sizes(answers))


def _sizes(answers: dict) -> dict[str, int]:
    return {at: len(gzip.compress(found.body())) for at, found in answers.items() if at.startswith("http")}


@pytest.fixture(scope="module")
def visit(browser, address):
    """visit(page, screen) -> Visit; each page is visited once on each screen."""

    @cache
    def visit(page, screen):
        with reader(browser, *screen) as context:
            return visited(context.new_page(), f"{address}/{page}")

    return visit


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_light(visit, page, screen):
    sizes = visit(page, screen).sizes
    assert len(sizes) > 5
    limit = LANDING_BYTES if page == PAGES[0] else LIMIT_BYTES
    assert sum(sizes.values()) < limit, sorted(sizes.items(), key=lambda item: -item[1])[:5]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_painted_before_any_script_arrives(visit, page, screen):
    assert visit(page, screen).painted


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_little_moves_while_a_page_loads(visit, page, screen):
    assert visit(page, screen).shift < 0.1


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_a_widget_takes_the_room_that_its_picture_kept(visit, site, page, screen):
    seen = visit(page, screen)
    assert len(seen.kept) == len(seen.taken) == (site / page).read_text("utf-8").count(WIDGET)
    # A question drawn anew may be a line longer or shorter.
    assert all(abs(before - after) <= 30 for before, after in zip(seen.kept, seen.taken, strict=True)), (
        seen.kept,
        seen.taken,
    )


def test_without_scripts_a_widget_shows_its_question_its_picture_and_its_answers(browser, site, address):
    shown = [page for page in PAGES if WIDGET in (site / page).read_text("utf-8")]
    assert shown
    context = browser.new_context(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    for page in shown:
        tab = context.new_page()
        tab.goto(f"{address}/{page}")
        assert tab.locator(".anywidget-view").count() == (site / page).read_text("utf-8").count(WIDGET)
        for view in tab.locator(".anywidget-view").all():
            assert view.locator(".gpulab").first.is_visible() and len(view.inner_text()) > 40, page
        for quiz in tab.locator(".gpulab.quiz").all():
            assert quiz.get_by_role("radio").count() > 1 and quiz.locator("legend").first.is_visible()
        for answers in tab.locator(".anywidget-view details.answers").all():
            answers.locator("summary").click()
            assert "Right." in answers.inner_text() and "No." in answers.inner_text()
        assert tab.locator("details.answers").count() >= tab.locator(".gpulab.quiz").count()
    context.close()
