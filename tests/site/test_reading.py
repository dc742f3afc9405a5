"""What a reader does: searches, opens the menu on a phone, takes the notebook home."""

import json

import pytest

from tests.site.probe import reader


@pytest.fixture
def desktop(browser):
    with reader(browser) as context:
        yield context.new_page()


@pytest.fixture
def phone(browser):
    with reader(browser, 390, 844) as context:
        yield context.new_page()


def results(page, address, word):
    page.goto(f"{address}/search.html?q={word}")
    page.wait_for_function("document.querySelector('.search-summary')?.textContent.match(/found|did not match/)")
    return page.locator("#search-results li").count()


def test_search_finds_a_word(desktop, address):
    assert results(desktop, address, "storage") > 0


def test_search_finds_no_nonsense(desktop, address):
    assert results(desktop, address, "qwxzzv") == 0


@pytest.mark.parametrize("page", ["search.html", "chapters/index.html"])
def test_the_search_fields_icon_covers_no_word(desktop, address, page):
    desktop.goto(f"{address}/{page}")
    if page != "search.html":
        desktop.locator("button.search-button__button:visible").first.click()
    field = desktop.locator("form.bd-search:visible").first
    icon, words = (field.locator(part).bounding_box() for part in ("svg", "input"))
    assert icon["x"] + icon["width"] <= words["x"]


def test_the_phones_menu_button_opens_the_sidebar(phone, address):
    phone.goto(f"{address}/chapters/index.html")
    chapters = phone.get_by_role("navigation", name="Main").get_by_role("link")
    assert not chapters.first.is_visible()
    phone.get_by_role("button", name="Toggle primary sidebar").click()
    chapters.first.wait_for(state="visible")


def test_the_theme_button_changes_the_colours(desktop, address):
    desktop.goto(f"{address}/chapters/index.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = set()
    for _ in range(3):
        desktop.locator("button.theme-switch-button:visible").first.click()
        seen.add(desktop.evaluate(ground))
    assert len(seen) == 2


def test_the_front_door_leads_to_the_landing_page(desktop, address):
    desktop.goto(f"{address}/index.html")
    desktop.wait_for_url("**/chapters/index.html")


def test_a_page_with_code_offers_its_notebook(desktop, address):
    desktop.goto(f"{address}/chapters/index.html")
    link = desktop.locator(".btn-download-notebook-button").first.get_attribute("href")
    notebook = json.loads(desktop.request.get(f"{address}/chapters/{link}").text())
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    first = next(place for place, (kind, source) in enumerate(cells) if kind == "code" and "gpulab" in source)
    assert any("gpulab.observe()" in source for kind, source in cells if kind == "code")
    assert "%pip install" in cells[first - 1][1] and "chapters/index.html" in cells[first - 1][1]


@pytest.mark.parametrize("kind", ["notebook", "source"])
def test_the_download_menu_saves_a_file_that_a_browser_could_open(desktop, address, kind):
    desktop.context.route("**/_sources/**", lambda route: route.fulfill(content_type="application/json", body="{}"))
    desktop.goto(f"{address}/chapters/index.html")
    desktop.get_by_role("button", name="Download this page").click()
    with desktop.expect_download() as taken:
        desktop.locator(f".btn-download-{kind}-button:visible").click()
    assert taken.value.suggested_filename == {"notebook": "index.ipynb", "source": "index.md"}[kind]
