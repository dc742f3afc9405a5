"""The interview cards: SM-2 as published, in Python and in JavaScript alike, and a deck that a browser keeps."""

import json
import random
from datetime import date

import pytest

from gpulab.widgets import InterviewCards
from gpulab.widgets.interview_cards.sm2 import AGAIN, EASY, GOOD, HARD, LEAST_EASE, graded
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

DAY = (date(2026, 11, 26) - date(1970, 1, 1)).days
STAGES = ["Part I: Tensors", "Part II: The device"]
CARDS = [
    {
        "id": f"card-{i}",
        "stage": 1 + i % 2,
        "question": f"Question {i} about `view`?",
        "answer": f"Answer {i}, with `code`.",
        "notes": [["The notes say:", "Something."]],
        "links": [["tensors/views.html#exercises", "Exercise `compact`"]],
    }
    for i in range(24)
]


def deck(count=24, today=DAY):
    return InterviewCards(CARDS[:count], STAGES, today=today)


javascript = functions_of("interview_cards/model.js")


def played(*grades, day=0):
    """The state after one grade on each due day."""
    state = None
    for quality in grades:
        state = graded(state, quality, day) | {"again": None}
        day = state["due"]
    return state


# What is published: P. A. Woźniak, 1990, section 3.2, steps 2 to 7.


def test_intervals_are_one_day_then_six_then_the_last_times_the_factor_rounded_up():
    assert [played(*[GOOD] * n)["interval"] for n in (1, 2, 3, 4)] == [1, 6, 15, 38]


def test_a_good_answer_leaves_the_factor_and_others_move_it_as_published():
    assert played(GOOD)["ease"] == pytest.approx(2.5)
    assert played(EASY)["ease"] == pytest.approx(2.6)
    assert played(HARD)["ease"] == pytest.approx(2.36)
    assert played(*[HARD] * 30)["ease"] == LEAST_EASE


def test_a_card_that_was_not_known_begins_anew_and_keeps_its_factor():
    before, after = played(EASY, GOOD, EASY), played(EASY, GOOD, EASY, AGAIN)
    assert (after["streak"], after["interval"], after["ease"]) == (0, 1, before["ease"])
    assert played(EASY, GOOD, EASY, AGAIN, GOOD)["interval"] == 1


@pytest.mark.parametrize("quality", [AGAIN, HARD])
def test_a_card_below_four_comes_again_that_day_until_it_is_good(quality):
    first = graded(None, quality, DAY)
    assert first["again"] == DAY
    for once_more in (AGAIN, HARD):
        assert graded(first, once_more, DAY) == first
    assert graded(first, GOOD, DAY) == first | {"again": None}
    assert graded(first, GOOD, DAY + first["interval"])["streak"] == first["streak"] + 1


def test_the_browser_schedules_as_python_does(javascript):
    rng = random.Random(0)
    for _ in range(60):
        state, day, moves, due = None, rng.randrange(20_000, 21_000), [], []
        for _ in range(rng.randint(1, 25)):
            quality = rng.choice((0, 1, AGAIN, HARD, GOOD, EASY))
            moves.append([quality, day])
            state = graded(state, quality, day)
            due.append(state)
            day = rng.choice((day, state["due"], state["due"] + rng.randint(0, 90)))
        got = javascript("given.reduce((all, [q, d]) => [...all, m.graded(all.at(-1) ?? null, q, d)], [])", moves)
        assert got == due


def test_due_cards_come_first_then_new_ones_then_those_of_today(javascript):
    states = {
        "card-3": played(GOOD, day=DAY - 3),
        "card-5": played(GOOD, GOOD, day=DAY - 9),
        "card-7": graded(None, AGAIN, DAY),
        "card-9": graded(None, GOOD, DAY),
    }
    ids = [card["id"] for card in CARDS]
    todo = javascript("m.lines(...given)", [states, ids, DAY])
    assert todo["due"] == sorted(["card-3", "card-5"], key=lambda id: states[id]["due"])
    assert len(todo["fresh"]) == 8 and todo["again"] == ["card-7"]
    assert javascript("m.following(given, null)", todo) == todo["due"][0]
    assert javascript("m.following(given, null)", todo | {"due": [], "fresh": []}) == "card-7"
    assert javascript("m.following(given, null)", {"due": [], "fresh": [], "again": []}) is None
    assert len(javascript("m.lines(...given)", [states, ids, DAY, 5])["fresh"]) == 13


def test_a_day_begins_at_the_readers_midnight(javascript):
    assert javascript("m.dayOf(new Date(2026, 10, 26, 0, 0, 1))", None) == DAY
    assert javascript("m.dayOf(new Date(2026, 10, 26, 23, 59, 59))", None) == DAY


def test_a_file_of_states_is_read_back_and_strange_cards_are_left_out(javascript):
    states = {"card-0": graded(None, GOOD, DAY), "gone": graded(None, GOOD, DAY)}
    assert javascript("m.read(m.written(given[0]), given[1])", [states, ["card-0", "card-1"]]) == {
        "card-0": states["card-0"]
    }


@pytest.mark.parametrize(
    "text, words",
    [
        ("not json", "no JSON"),
        ("[]", "not exported here"),
        (json.dumps({"format": "gpulab-interview", "version": 9, "cards": {}}), "not exported here"),
        (json.dumps({"format": "gpulab-interview", "version": 1, "cards": []}), "not exported here"),
        *(
            (
                json.dumps(
                    {"format": "gpulab-interview", "version": 1, "cards": {"card-0": graded(None, GOOD, DAY) | wrong}}
                ),
                "card-0 is broken",
            )
            for wrong in (
                {"ease": "2.5"},
                {"ease": 1.0},
                {"due": None},
                {"interval": -1},
                {"streak": 0.5},
                {"again": "x"},
            )
        ),
    ],
)
def test_a_file_that_is_something_else_is_refused(mount, tmp_path, text, words):
    page = mount(deck(2))
    grade(page, "Good")
    kept = stored(page)
    (tmp_path / "wrong.json").write_text(text)
    page.get_by_label("Import a file").set_input_files(tmp_path / "wrong.json")
    page.get_by_text(words).wait_for()
    assert stored(page) == kept


def question(page):
    return page.locator(".question").inner_text()


def grade(page, words):
    page.get_by_role("button", name="Show the answer").click()
    page.get_by_role("button", name=words).click()


def stored(page):
    return json.loads(page.evaluate("localStorage.getItem('gpulab-interview')") or '{"cards": {}}')["cards"]


def reopened(page):
    page.reload()
    page.wait_for_function("window.ready")
    return page


def test_the_answer_stays_covered_until_it_is_asked_for(mount):
    page = mount(deck())
    assert question(page) == "Question 0 about view?" and "Answer 0" not in page.locator(".interview").inner_text()
    assert not page.get_by_role("button", name="Good").is_visible()
    page.get_by_role("button", name="Show the answer").click()
    told = page.locator(".answer").inner_text()
    assert "Answer 0, with code." in told and "The notes say: Something." in told
    assert page.locator(".answer a").get_attribute("href") == "tensors/views.html#exercises"


def test_each_grade_says_when_the_card_comes_back(mount):
    page = mount(deck())
    page.get_by_role("button", name="Show the answer").click()
    shown = page.get_by_role("group", name="How well did you know it?").get_by_role("button").all_inner_texts()
    assert shown == ["Again: once more today", "Hard: once more today", "Good: in 1 day", "Easy: in 1 day"]


def test_a_graded_card_gives_way_to_the_next_and_is_remembered(mount):
    page = mount(deck())
    grade(page, "Good")
    assert question(page).startswith("Question 1 ")
    assert stored(page) == {"card-0": graded(None, GOOD, DAY)}
    assert question(reopened(page)).startswith("Question 1 ")


def test_a_card_that_was_not_known_ends_the_day_once_it_is(mount):
    page = mount(deck(2))
    for words in ("Again", "Good"):
        grade(page, words)
    assert question(page).startswith("Question 0 ") and "1 once more" in page.locator(".left").inner_text()
    grade(page, "Good")
    assert question(page) == "Done for today. The next card is due on 27 November 2026."


def test_ten_new_cards_a_day_and_more_on_request(mount):
    page = mount(deck())
    for _ in range(10):
        grade(page, "Good")
    assert question(page).startswith("Done for today.")
    page.get_by_role("button", name="10 more new ones").click()
    assert question(page).startswith("Question 10 ")


def test_what_is_due_is_asked_on_its_day(mount):
    page = mount(deck(1))
    grade(page, "Good")
    page = reopened(page)
    assert question(page).startswith("Done")
    tomorrow = mount(deck(1, today=DAY + 1))
    tomorrow.evaluate(
        "([key, value]) => localStorage.setItem(key, value)",
        ["gpulab-interview", kept_as({"card-0": graded(None, GOOD, DAY)})],
    )
    assert question(reopened(tomorrow)).startswith("Question 0 ")


def kept_as(states):
    return json.dumps({"format": "gpulab-interview", "version": 1, "cards": states})


def test_a_part_alone_can_be_asked(mount):
    page = mount(deck())
    page.get_by_label("Part").select_option("Part II: The device")
    assert question(page).startswith("Question 1 ") and "Seen: 0 of 12" in page.locator(".left").inner_text()
    grade(page, "Good")
    assert question(page).startswith("Question 3 ")


def test_the_keyboard_alone_is_enough(mount):
    page = mount(deck())
    page.get_by_role("button", name="Show the answer").focus()
    for key in ("Enter", "3", "Enter", "1", "Enter"):
        page.keyboard.press(key)
    assert stored(page) == {"card-0": graded(None, GOOD, DAY), "card-1": graded(None, AGAIN, DAY)}
    assert "Answer 2" in page.locator(".answer").inner_text()


def test_a_digit_grades_nothing_that_is_still_covered(mount):
    page = mount(deck())
    page.get_by_role("button", name="Show the answer").focus()
    page.keyboard.press("3")
    assert stored(page) == {} and question(page).startswith("Question 0 ")


def test_grades_leave_as_a_file_and_come_back(mount, tmp_path):
    page = mount(deck())
    grade(page, "Good")
    grade(page, "Again")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "interview-cards.json"
    download.value.save_as(tmp_path / "out.json")
    kept = stored(page)
    page.get_by_role("button", name="Forget all grades").click()
    page.get_by_role("button", name="Yes, forget them").click()
    assert stored(page) == {} and question(page).startswith("Question 0 ")
    page.get_by_label("Import a file").set_input_files(tmp_path / "out.json")
    page.get_by_text("2 cards taken over.").wait_for()
    assert stored(page) == kept and question(page).startswith("Question 2 ")


@pytest.mark.parametrize("uncovered", [False, True])
def test_what_another_tab_grades_is_not_overwritten(mount, uncovered):
    page = mount(deck())
    if uncovered:
        page.get_by_role("button", name="Show the answer").click()
    page.evaluate(
        """(value) => {
          localStorage.setItem("gpulab-interview", value);
          dispatchEvent(new StorageEvent("storage", { key: "gpulab-interview" }));
        }""",
        kept_as({"card-5": graded(None, GOOD, DAY)}),
    )
    if not uncovered:
        page.get_by_role("button", name="Show the answer").click()
    page.get_by_role("button", name="Easy").click()
    assert stored(page) == {"card-5": graded(None, GOOD, DAY), "card-0": graded(None, EASY, DAY)}


def test_a_page_without_storage_asks_and_says_that_it_keeps_nothing(mount):
    page = mount(deck(2), changed=True)
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } })")
    reopened(page)
    grade(page, "Good")
    assert question(page).startswith("Question 1 ")
    assert "This browser keeps nothing for this page" in page.locator(".interview").inner_text()


def test_what_was_kept_and_is_broken_is_begun_anew(mount):
    page = mount(deck(2))
    page.evaluate("localStorage.setItem('gpulab-interview', '{')")
    assert question(reopened(page)).startswith("Question 0 ")


def test_markup_in_a_card_is_text(mount):
    page = mount(InterviewCards([CARDS[0] | {"question": "<b>x</b>", "answer": "<img src=x>"}], STAGES, today=DAY))
    page.get_by_role("button", name="Show the answer").click()
    assert page.locator(".card img, .question b").count() == 0


def test_without_a_script_the_reader_is_sent_to_the_text_below():
    assert "All of them stand below, as text." in still_of(deck(2))


def test_the_widget_is_not_printed(mount):
    page = mount(deck(2), changed=True)
    page.emulate_media(media="print")
    assert not page.locator(".interview").is_visible()


@pytest.mark.parametrize("uncovered", [False, True])
@in_every_look
def test_axe_finds_nothing(mount, scheme, width, uncovered):
    page = mount(deck(), width=width, scheme=scheme)
    if uncovered:
        page.get_by_role("button", name="Show the answer").click()
    assert_accessible(page, width)


@pytest.mark.parametrize(
    "cards, words", [([], "0 cards"), (CARDS[:1] * 2, "an id of its own"), ([CARDS[0] | {"stage": 3}], "one of 1 to 2")]
)
def test_a_deck_that_cannot_be_asked_is_refused(cards, words):
    with pytest.raises(ValueError, match=words):
        InterviewCards(cards, STAGES)
