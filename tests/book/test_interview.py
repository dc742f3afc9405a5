"""The interview bank: every question of the notes once, answered in few sentences by what the book proves."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpulab.book import interview_cards, interview_deck, stages
from gpulab.book.contents import Contents
from gpulab.book.interview import Bank, headings

ROOT = Path(__file__).parents[2]
CHAPTERS = ROOT / "chapters"
BANK = Bank.read(CHAPTERS)
LEDGER = BANK.ledger
IN_THE_BOOK = [card for card in BANK.cards if card.chapter in BANK.pages]
# The rows of kind Q&A in the course's table of what the notes hold.
ROWS = """
    R002 R012 R020 R021 R024 R025 R026 R045 R046 R047 R048 R049 R051 R052 R053 R054 R056 R057 R058 R060 R072 R073 R074 R075 R076
    R079 R083 R084 R085 R086 R089 R090 R091 R095 R096 R097 R098 R099 R105 R106 R107 R108 R109 R110 R111 R112 R114 R115 R116 R117
    R118 R119 R120 R122 R128 R129 R167 R169 R171 R174 R175 R177 R178 R180 R181 R182 R183 R188 R189 R190 R192 R193 R194 R195 R197
""".split()
CODE = re.compile(r"`[^`]*`")
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")
named = pytest.mark.parametrize("card", BANK.cards, ids=lambda card: card.id)
proved = pytest.mark.parametrize("card", IN_THE_BOOK, ids=lambda card: card.id)


def sentences(text):
    return len(re.findall(r"[.!?](?=\s|$)", CODE.sub("code", text)))


def figures(text):
    return {figure.replace(",", "") for figure in FIGURE.findall(CODE.sub("", text))}


def in_the_book(names):
    """Those of the sections or exercises that are not in a draft."""
    return [name for name in names if Path(re.split("[#.]", name)[0]).name not in BANK.contents.draft_names]


def evidence(card):
    """All that a card leans on: the pages of the book that it points to, and the claims it names."""
    pages = {section.partition("#")[0] for section in in_the_book(card.sections)}
    texts = [(CHAPTERS / f"{page}.md").read_text("utf-8") for page in pages]
    claims = [claim.right + claim.quote for claim in LEDGER.claims if claim.id in card.claims]
    return figures(" ".join(texts + claims).replace("`", " "))


def test_every_question_of_the_notes_is_asked_once():
    assert sorted(card.row for card in BANK.cards if card.row) == ROWS


def test_twenty_five_questions_are_the_fields_and_not_the_notes():
    assert sum(card.row is None for card in BANK.cards) == 25


def test_no_two_cards_have_a_name_or_a_question_in_common():
    for field in ("id", "question"):
        values = [getattr(card, field) for card in BANK.cards]
        assert len(values) == len(set(values))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", card.id) for card in BANK.cards)


@named
def test_an_answer_has_at_most_six_sentences(card):
    assert 1 <= sentences(card.answer) <= 6
    assert card.answer.endswith(".") and card.question[-1] in "?."


@named
def test_what_the_notes_said_is_one_sentence_and_what_is_wrong_with_it_two_at_most(card):
    assert not card.said or sentences(card.said) == 1
    assert not card.wrong or sentences(card.wrong) <= 2


@proved
def test_an_answer_is_proved_by_sections_of_the_book_its_own_chapters_among_them_and_by_an_exercise(card):
    pages = {section.partition("#")[0] for section in card.sections}
    assert BANK.pages[card.chapter] in pages and card.exercises
    linked = [*in_the_book(card.sections), *in_the_book(card.exercises), *card.sources]
    assert len(BANK.links(card)) == len(linked)


@proved
def test_every_figure_of_an_answer_stands_on_a_page_or_in_a_claim_that_it_points_to(card):
    small = {str(n) for n in range(11)}
    told = figures(f"{card.answer} {card.wrong or ''}") - small
    assert told <= evidence(card), sorted(told - evidence(card))


def test_a_heading_is_found_by_the_anchor_that_the_site_gives_it():
    found = headings(CHAPTERS / "device/kernels.md")
    assert found["what-torch-compile-does"] == "What `torch.compile` does"
    assert next(iter(found)) == "kernels-from-python"


FIRST = {"id": "a", "chapter": 1, "question": "?", "answer": ".", "sections": ["tensors/views#exercises"]}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"sections": ["tensors/views#nowhere"]}, "a: no heading tensors/views#nowhere"),
        ({"sections": ["tensors/nowhere#exercises"]}, "a: no heading tensors/nowhere#exercises"),
        ({"exercises": ["views.nothing"]}, "a: no exercise views.nothing"),
        ({"exercises": ["nowhere.compact"]}, "a: no exercise nowhere.compact"),
        ({"claims": ["C999"]}, "a: no claim C999"),
        ({"sources": ["nobody"]}, "a: no source nobody"),
        ({"row": "R002"}, "a: `row` and `asked` go together"),
        ({"said": "x."}, "a: .*`said` needs them"),
        ({"row": "R002", "asked": "S0", "wrong": "x."}, "a: .*`wrong` needs `said`"),
        ({"verdict": "wrong"}, "interview.yml, a: .*verdict"),
    ],
)
def test_a_card_that_is_not_whole_is_refused(monkeypatch, changes, words):
    with_one(monkeypatch, FIRST | changes)
    with pytest.raises(ValueError, match=words):
        Bank.read(CHAPTERS)


def test_no_card_points_into_a_draft(monkeypatch):
    (claim, *_), contents = LEDGER.of("device/kernels"), BANK.contents
    without = replace(contents, pages=tuple(page for page in contents.pages if page != "chapters/device/kernels"))
    monkeypatch.setattr(Contents, "read", lambda root: without)
    with_one(
        monkeypatch,
        FIRST
        | {
            "sections": [*FIRST["sections"], "device/kernels#exercises"],
            "exercises": ["kernels.squash"],
            "claims": [claim.id],
        },
    )
    bank = Bank.read(CHAPTERS)
    assert [link.href for link in bank.links(bank.cards[0])] == ["tensors/views.html#exercises"]
    assert bank.judged(bank.cards[0]) == ()


def test_a_card_of_a_chapter_that_is_not_written_points_nowhere_yet(monkeypatch):
    with_one(monkeypatch, FIRST | {"chapter": 99, "sections": ["serving/nowhere#exercises"]})
    bank = Bank.read(CHAPTERS)
    assert bank.links(bank.cards[0]) == () and bank.stage(bank.cards[0]) == len(bank.stages)


def with_one(monkeypatch, record):
    read = Path.read_text
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *a, **k: yaml.safe_dump([record]) if path.name == "interview.yml" else read(path, *a, **k),
    )


def test_the_page_has_a_heading_and_the_cards_of_every_part():
    page = (CHAPTERS / "interview.md").read_text("utf-8")
    for number, caption in BANK.stages.items():
        assert f"## {caption}\n" in page and f"interview_cards({number})" in page


def test_a_card_as_text_has_its_question_answer_and_links_and_markup_is_text(monkeypatch):
    monkeypatch.chdir(CHAPTERS)
    text = interview_cards(1)._repr_html_().split("</style>")[1]
    assert text.count("<details") == len(BANK.of(1))
    first = BANK.of(1)[0]
    assert f'<details id="{first.id}"><summary>' in text and "`" not in text
    assert (
        '<a href="tensors/views.html#when-does-view-work">Tensors are views: When does <code>view</code> work?</a>'
        in text
    )
    assert 'section 1.1; judged under <a href="folklore.html#C003">C003</a>' in text


def test_the_deck_holds_every_card_once_with_plain_texts(monkeypatch):
    monkeypatch.chdir(CHAPTERS)
    deck = interview_deck()
    assert [card["id"] for card in deck] == [card.id for card in BANK.cards]
    assert {card["stage"] for card in deck} == set(BANK.stages) and len(stages()) == len(BANK.stages)
    assert all(
        ("The notes say:" in dict(told["notes"])) == bool(card.said)
        for told, card in zip(deck, BANK.cards, strict=True)
    )


def test_a_part_without_cards_is_an_error():
    with pytest.raises(KeyError, match="no card belongs to part 9"):
        BANK.of(9)


def test_a_figure_from_nowhere_is_noticed():
    card = IN_THE_BOOK[0]
    assert "1234567" not in evidence(card) and figures("1,234,567 GB and `99`") == {"1234567"}


def test_on_paper_every_answer_is_open_without_a_script(browser, monkeypatch):
    monkeypatch.chdir(CHAPTERS)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_content(f"<title>Cards</title>{interview_cards(1)._repr_html_()}")
    answers = page.locator(".interview-cards details > p")
    assert not answers.first.is_visible()
    page.emulate_media(media="print")
    assert all(answer.is_visible() for answer in answers.all())
    context.close()
