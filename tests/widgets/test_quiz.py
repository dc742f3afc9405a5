"""The quiz in a browser with no kernel: commit first, then read why."""

import pytest

from gpulab.widgets import Question, Quiz, right, wrong

RAISES = Question.ask(
    "Which of these raises for `t = torch.ones(2, 3)`?",
    wrong("`t.view(6)`", "`t` is contiguous."),
    right("`t.t().view(6)`", "Strides (1, 3) do not merge."),
    wrong("`t.t().view(3, 1, 2)`", "No dimension merges."),
)
STRIDE = Question.ask("`t.stride()`?", right("`(3, 1)`", "Rows of three."), wrong("`(1, 3)`", "That is `t.t()`."))


def whys(page):
    return [text for text in page.locator(".why").all_inner_texts() if text]


def commit(page, choice, question=0):
    form = page.locator("form").nth(question)
    form.get_by_label(choice).check()
    form.get_by_role("button", name="Commit").click()


def test_nothing_is_revealed_before_the_reader_commits(mount):
    page = mount(Quiz(RAISES))
    assert whys(page) == []
    assert page.get_by_role("button", name="Commit").is_disabled()
    page.get_by_label("t.view(6)", exact=True).check()
    assert whys(page) == []


def test_every_choice_says_why_once_committed(mount):
    page = mount(Quiz(RAISES))
    commit(page, "t.t().view(6)")
    assert whys(page) == [
        "Not this one. t is contiguous.",
        "Right. Strides (1, 3) do not merge.",
        "Not this one. No dimension merges.",
    ]


def test_a_wrong_choice_is_told_why_it_is_wrong(mount):
    page = mount(Quiz(RAISES))
    commit(page, "t.t().view(3, 1, 2)")
    assert whys(page)[2] == "No. No dimension merges."
    assert page.get_by_role("status").inner_text() == "No. No dimension merges."


def test_a_committed_answer_cannot_be_changed(mount):
    page = mount(Quiz(RAISES))
    commit(page, "t.t().view(6)")
    assert all(page.get_by_role("radio").nth(i).is_disabled() for i in range(3))


def test_backticks_are_code(mount):
    page = mount(Quiz(RAISES))
    assert page.locator("legend code").inner_text() == "t = torch.ones(2, 3)"
    assert "`" not in page.locator("form").inner_text()


def test_markup_in_a_choice_is_text(mount):
    page = mount(Quiz(Question.ask("<b>x</b>?", right("<img src=x>", "<i>why</i>"), wrong("b", "c"))))
    commit(page, "<img src=x>")
    assert page.locator("form b, form img, form i").count() == 0


def test_the_keyboard_alone_is_enough(mount):
    page = mount(Quiz(RAISES))
    for key in ("Tab", "Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert whys(page)[1].startswith("Right.")
    page.keyboard.press("Enter")  # the focus is on Answer again
    assert whys(page) == [] and not page.get_by_role("radio").first.is_disabled()


def test_the_choice_survives_a_reload(mount):
    page = mount(Quiz(RAISES, STRIDE))
    commit(page, "(1, 3)", question=1)
    page.reload()
    page.wait_for_function("window.ready")
    assert page.locator("form").nth(1).get_by_label("(1, 3)").is_checked()
    assert whys(page) == ["The right one. Rows of three.", "No. That is t.t()."]
    assert page.get_by_role("status").first.inner_text() == ""


def test_several_questions_are_tallied(mount):
    page = mount(Quiz(RAISES, STRIDE))
    commit(page, "t.t().view(6)", question=0)
    commit(page, "(1, 3)", question=1)
    assert "2 of 2 answered, 1 right." in page.locator(".quiz").inner_text()


def test_a_page_without_storage_still_asks(mount):
    page = mount(Quiz(RAISES), changed=True)
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } })")
    page.reload()
    page.wait_for_function("window.ready")
    commit(page, "t.t().view(6)")
    assert len(whys(page)) == 3


@pytest.mark.parametrize(
    "choices, words",
    [
        ([right("a", "b")], "two or more"),
        ([wrong("a", "b"), wrong("c", "d")], "exactly one"),
        ([right("a", "b"), right("c", "d")], "exactly one"),
        ([right("a", "b"), wrong("c", " ")], "say why 'c'"),
    ],
)
def test_a_question_without_reasons_or_an_answer_is_refused(choices, words):
    with pytest.raises(ValueError, match=words):
        Question.ask("?", *choices)


def test_an_empty_quiz_is_refused():
    with pytest.raises(ValueError, match="needs a question"):
        Quiz()
