"""A verdict as its learner reads it."""

from autograder.core.report import UNWRITTEN, as_html, as_text, is_unwritten, points, reasons
from autograder.core.verdict import Line, Verdict
from autograder.judge.expect import raised_problem

MADE = Verdict(
    "views.patchify",
    (
        Line("values", "values are right", 2.5, "earned"),
        Line("copies", "nothing is copied", 3, "lost", "<script>alert(1)</script> & more"),
        Line("speed", "it is fast", 1, "not gradable here", "There is no GPU."),
    ),
)


def test_points_are_shown_without_needless_zeros():
    assert [points(value) for value in (3.0, 2.5, 0)] == ["3", "2.5", "0"]


def test_text_has_a_line_for_each_criterion_and_a_reason_for_each_lost_one():
    assert as_text(MADE).splitlines() == [
        "views.patchify: 2.5 of 6.5 points",
        "  2.5/2.5  values are right",
        "  0/3  nothing is copied",
        "        <script>alert(1)</script> & more",
        "  0/1  it is fast",
        "        not gradable here: There is no GPU.",
    ]


def test_html_escapes_what_a_learner_had_a_hand_in():
    page = as_html(MADE)
    assert "<script>" not in page and "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page


def test_html_says_what_this_machine_cannot_grade():
    assert "Not gradable on this machine. There is no GPU." in as_html(MADE)


def test_what_one_misconception_lost_twice_is_explained_once():
    says = "You return the column first."
    lost = [Line(name, name, 1, "lost", says, "column_first", "Places") for name in ("values", "order")]
    shown = Verdict("rows.place_of", (*lost, Line("kept", "kept", 1, "lost", "You changed it.")))
    for page in (as_text(shown), as_html(shown)):
        assert (
            page.count(says) == page.count("Lost for the same reason as above.") == page.count("You changed it.") == 1
        )


STARTER = Verdict(
    "rows.place_of",
    (
        Line("values", "values are right", 2, "lost", raised_problem({"type": "NotImplementedError"})),
        Line("copies", "nothing is copied", 1, "lost", "Not judged until this holds: values are right."),
    ),
)


def test_a_function_that_is_not_written_is_one_line():
    for page in (as_text(STARTER), as_html(STARTER)):
        assert "0 of 3 points" in page and page.count("not written yet") == 1 and "copied" not in page
    assert reasons(STARTER) == [UNWRITTEN]


def test_a_function_that_earned_something_has_all_its_lines():
    line = Line("host", "it works on the host", 1, "earned")
    verdict = Verdict("rows.place_of", (line, *STARTER.lines))
    assert not is_unwritten(verdict) and "nothing is copied" in as_html(verdict) and len(reasons(verdict)) == 2
