"""The runs to diagnose: the recorded numbers are shown, read by step, and every run has its question."""

import random

import pytest

from gpulab.recordings import FAULTS, recording
from gpulab.widgets import RunDiagnosis
from gpulab.widgets.run_diagnosis import QUESTIONS
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

RUNS = list(QUESTIONS)


javascript = functions_of("run_diagnosis/model.js")


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_every_recorded_run_is_asked_about_once():
    assert sorted(QUESTIONS) == sorted(FAULTS)


def test_lines_are_broken_where_a_number_is_not_finite(javascript):
    rng = random.Random(0)
    for _ in range(50):
        values = [None if rng.random() < 0.3 else rng.random() for _ in range(rng.randint(1, 40))]
        joined = [point for piece in javascript("m.pieces(given)", values) for point in piece]
        assert joined == [[step, value] for step, value in enumerate(values) if value is not None]
        assert javascript("m.missing(given)", values) == [step for step, value in enumerate(values) if value is None]
        pieces = javascript("m.pieces(given)", values)
        assert all(values[piece[0][0] - 1] is None for piece in pieces if piece[0][0] > 0)


def test_an_axis_of_powers_holds_all_that_is_there(javascript):
    rng = random.Random(1)
    for base in (2, 10):
        for _ in range(50):
            values = [base ** rng.uniform(-9, 9) for _ in range(5)] + [None]
            low, high = javascript("m.octaves(...given)", [values, base])
            assert (
                base**low <= min(values[:5]) * (1 + 1e-6) and max(values[:5]) <= base**high * (1 + 1e-6) and high > low
            )


def test_the_cursor_reads_what_was_recorded(mount):
    number = RUNS.index("bad batch")
    page = mount(RunDiagnosis(run=number, step=180))
    assert float(shown(page, "loss")) == pytest.approx(recording("bad batch")["loss"][180], rel=5e-3)
    assert float(shown(page, "gradient norm")) == pytest.approx(recording("bad batch")["norm"][180], rel=5e-3)
    page.get_by_role("slider", name="step").press("ArrowRight")
    assert float(shown(page, "loss")) == pytest.approx(recording("bad batch")["loss"][181], rel=5e-3)
    picture = page.get_by_role("img")
    picture.click(position={"x": picture.bounding_box()["width"] - 12, "y": 60})
    assert page.evaluate("model.get('step')") > 290


def test_a_number_that_is_not_finite_is_said_and_marked(mount):
    page = mount(RunDiagnosis(run=RUNS.index("overflow"), step=250))
    assert shown(page, "loss") == "not finite" and "2^-" in shown(page, "loss scale")
    assert page.locator(".gone").count() > 100


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_every_run_is_diagnosed_with_why(mount, number):
    page = mount(RunDiagnosis())
    page.get_by_role("button", name=f"Run {'ABCDEFG'[number]}").click()
    question = QUESTIONS[RUNS[number]]
    expected = next(choice for choice in question.choices if choice.correct)
    page.get_by_label(expected.text, exact=True).check()
    page.get_by_role("button", name="Commit").click()
    whys = [text for text in page.locator(".why").all_inner_texts() if text]
    assert len(whys) == len(question.choices) and sum(text.startswith("Right.") for text in whys) == 1
    assert "1 of 7 runs diagnosed, 1 rightly" in page.locator(".diagnosis > .note").first.inner_text()


def test_an_answer_stays_with_its_run(mount):
    page = mount(RunDiagnosis())
    page.get_by_label("Nothing: noise").check()
    page.get_by_role("button", name="Commit").click()
    page.get_by_role("button", name="Run B").click()
    assert page.get_by_role("button", name="Commit").is_visible()
    page.get_by_role("button", name="Run A").click()
    assert page.locator(".why").filter(has_text="No.").count() == 1


def test_without_a_script_the_curves_and_the_answers_are_there():
    html = still_of(RunDiagnosis())
    assert html.count("<details") == 7 and "<polyline" in html


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(RunDiagnosis(run=RUNS.index("overflow"), step=200), width=width, scheme=scheme), width)


def test_a_run_or_a_step_that_is_not_there_is_refused():
    for wrong in ({"run": 7}, {"step": 300}, {"run": -1}):
        with pytest.raises(ValueError, match="there are 7 runs of 300 steps"):
            RunDiagnosis(**wrong)
