"""Which hints a page offers: those of the misconceptions that points were lost by, else those of the function."""

import pytest

from autograder.core.layout import ROOT
from autograder.core.verdict import Line, Verdict
from autograder.misconceptions.sentences import misconceptions_of
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.mark import Marked
from autograder.selfcheck.page import Solutions, page
from tests.screens import px_beyond

CHAPTER = Chapter(ROOT / "exercises" / "hierarchy")
SAID = misconceptions_of("hierarchy.sectors")
OF_THE_FUNCTION = CHAPTER.help("sectors").hints
SPAN, SIZES, BARE = "the_whole_span", "item_sizes", "one_a_lane"
"""The last has no hints of its own."""


def of(*keys: str) -> Verdict:
    """A verdict on ``sectors`` of which each criterion but the first was lost, by these misconceptions; by "" without a name."""
    lost = [Line(f"c{at}", "it holds", 1, "lost", f"Told {key}.", key) for at, key in enumerate(keys)]
    return Verdict("hierarchy.sectors", (Line("kept", "it holds", 1, "earned"), *lost))


def shown(verdict: Verdict, solutions: Solutions = Solutions.EARNED) -> str:
    return page(Marked(CHAPTER, {"sectors": verdict}), "mine.ipynb", solutions)


@pytest.fixture
def opened(browser):
    """A page in a browser."""
    context = browser.new_context()
    page = context.new_page()
    yield lambda html: page.set_content(html) or page
    context.close()


def summaries(page) -> list[str]:
    return [text for text in page.locator("#sectors summary").all_text_contents() if "hint" in text]


def held(page, hints: tuple[str, ...]) -> bool:
    text = " ".join(page.locator("body").text_content().split())
    return all(" ".join(hint.replace("`", "").split()) in text for hint in hints)


@pytest.mark.parametrize("solutions", Solutions)
def test_a_misconception_with_hints_of_its_own_offers_those_in_the_place_of_the_functions(opened, solutions):
    page = opened(shown(of(SPAN, "", SPAN), solutions))
    assert summaries(page) == ["A hint", "Another hint"]
    assert held(page, SAID[SPAN].hints) and not held(page, OF_THE_FUNCTION[:1])


def test_one_without_and_a_loss_without_a_name_offer_the_functions(opened):
    for key in (BARE, ""):
        page = opened(shown(of(key)))
        assert summaries(page) == ["A hint", "Another hint"] and held(page, OF_THE_FUNCTION)


def test_of_several_each_says_what_its_hints_are_on(opened):
    page = opened(shown(of(SPAN, SIZES)))
    assert summaries(page) == [
        "A hint on the whole span",
        "Another hint on the whole span",
        "A hint on item sizes",
        "Another hint on item sizes",
    ]
    assert held(page, SAID[SPAN].hints + SAID[SIZES].hints) and not held(page, OF_THE_FUNCTION[:1])


@pytest.mark.parametrize("other", [BARE, "renamed_since"])
def test_beside_one_that_has_none_the_functions_are_offered_too(opened, other):
    page = opened(shown(of(SPAN, other)))
    assert summaries(page)[1:3] == ["Another hint on the whole span", "A hint on sectors"]
    assert held(page, SAID[SPAN].hints + OF_THE_FUNCTION)


def test_the_second_lies_within_the_first(opened):
    page = opened(shown(of(SPAN, SIZES)))
    hints = page.locator("#sectors details > summary")
    assert [hint.is_visible() for hint in hints.all()] == [True, False, True, False]
    hints.nth(2).click()
    assert [hint.is_visible() for hint in hints.all()] == [True, False, True, True]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(browser, width):
    assert px_beyond(browser, shown(of(*SAID)), width) <= 0


def test_after_full_marks_there_is_none():
    assert "hint" not in shown(of()).split("<main>")[1]
