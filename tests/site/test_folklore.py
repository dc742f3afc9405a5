"""The folklore page is searched and filtered where it stands."""

import pytest

from tests.site.probe import reader

VISIBLE = "[...document.querySelectorAll('.gpulab-claims.whole tbody tr')].filter(row => row.getClientRects().length)"


@pytest.fixture
def folklore(browser, address):
    with reader(browser) as context:
        page = context.new_page()
        page.goto(f"{address}/chapters/folklore.html")
        yield page


def told(page):
    return page.locator(".claims-filter output").text_content()


def test_all_claims_are_there_at_first(folklore):
    count = folklore.evaluate(f"{VISIBLE}.length")
    assert count > 100 and told(folklore) == f"{count} of {count} claims"


def test_words_are_all_in_each_claim_that_is_left(folklore):
    folklore.get_by_label("Words").fill("RESHAPE contiguous")
    texts = folklore.evaluate(f"{VISIBLE}.map(row => row.textContent.toLowerCase())")
    assert texts and all("reshape" in text and "contiguous" in text for text in texts)
    assert told(folklore).startswith(f"{len(texts)} of ")


def test_a_verdict_a_chapter_and_what_settles_are_chosen_together(folklore):
    folklore.get_by_label("Verdict").select_option("wrong")
    wrong = folklore.evaluate(f"{VISIBLE}.length")
    folklore.get_by_label("Settled").select_option("runs")
    folklore.get_by_label("Chapter").select_option(label="1. Tensors are views")
    left = folklore.evaluate(
        f"{VISIBLE}.map(row => [row.dataset.verdict, row.dataset.chapter, row.dataset.settled.includes('runs')])"
    )
    assert 0 < len(left) < wrong and {tuple(one) for one in left} == {("wrong", "tensors/views", True)}


def test_nothing_found_is_said_and_nothing_is_lost(folklore):
    folklore.get_by_label("Words").fill("no claim has this")
    assert told(folklore).startswith("0 of ")
    folklore.get_by_label("Words").fill("")
    assert folklore.evaluate(f"{VISIBLE}.length") > 100
