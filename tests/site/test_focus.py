"""Whoever walks through a page with the Tab key sees where they are."""

import pytest

from tests.site.probe import Report, reader, settle

DESKTOP, PHONE = (1280, 900), (390, 844)
AROUND = ".bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .skip-link, .search-button__wrapper"
FOCUSED = """(around) => {
  const control = document.activeElement, style = (box) => getComputedStyle(box);
  const outlined = (box) => style(box).outlineStyle !== "none" && parseFloat(style(box).outlineWidth) >= 2;
  const marked = (box) => outlined(box) || style(box).boxShadow !== "none";
  // A part of it may show the mark: a chapter's arrow in the sidebar.
  return control.closest(around) && {
    name: (control.ariaLabel || control.title || control.textContent).trim(),
    seen: [control, ...control.children].some(marked),
  };
}"""
ALL_BEFORE_THE_TEXT = 60


def walked(tab) -> dict[str, bool]:
    """Whether each control around the text shows that it has the focus, by name, in the order of the Tab key."""
    seen = {}
    for _ in range(ALL_BEFORE_THE_TEXT):
        tab.keyboard.press("Tab")
        if control := tab.evaluate(FOCUSED, AROUND):
            seen[control["name"]] = control["seen"]
    return seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_control_around_the_text_shows_that_it_has_the_focus(browser, address, screen, scheme):
    with reader(browser, *screen, scheme) as context:
        tab = context.new_page()
        tab.goto(f"{address}/chapters/tensors/views.html")
        settle(tab, Report())
        seen = walked(tab)
    assert {"Skip to main content", "Toggle primary sidebar", "Download this page", "Color mode"} <= set(seen)
    assert [name for name, is_seen in seen.items() if not is_seen] == []


def test_every_entry_of_the_download_menu_shows_that_it_has_the_focus(browser, address):
    with reader(browser) as context:
        tab = context.new_page()
        tab.goto(f"{address}/chapters/tensors/views.html")
        settle(tab, Report())
        tab.get_by_role("button", name="Download this page").press("Enter")
        entries = []
        for _ in range(3):
            tab.keyboard.press("Tab")
            entries.append(tab.evaluate(FOCUSED, AROUND))
    assert [entry["name"] for entry in entries] == [".ipynb", ".md", ".pdf"]
    assert all(entry["seen"] for entry in entries)
