"""Sixteen ranks on a dashboard: what is shown is what was simulated, and every culprit is the one that was planted."""

import random
from statistics import median

import pytest

from gpulab.fleet import delays, groups, holds_up
from gpulab.widgets import RankDashboard
from gpulab.widgets.rank_dashboard import JOBS, METRICS, QUESTIONS, RANKS, TP
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

PLANTED = {"late rank": 9, "one step": None, "late group": None, "throttled": 14, "two late": 5}


javascript = functions_of("rank_dashboard/model.js")


def shown(page, name):
    return page.locator("dt").get_by_text(name, exact=True).locator("xpath=following-sibling::dd[1]").inner_text()


def test_medians_and_delays_are_those_of_the_library(javascript):
    rng = random.Random(0)
    for _ in range(30):
        tp, replicas, steps = rng.choice([(2, 3), (4, 2), (1, 4), (3, 3)]) + (rng.randint(1, 9),)
        rows = [[rng.choice([rng.uniform(0, 50), 20.0]) for _ in range(tp * replicas)] for _ in range(steps)]
        assert javascript("m.medians(given)", rows) == pytest.approx(
            [median(column) for column in zip(*rows, strict=True)]
        )
        assert javascript("m.groups(...given)", [tp * replicas, tp]) == groups(tp * replicas, tp)
        meetings = groups(tp * replicas, tp)["dp"]
        if replicas > 1:
            assert javascript("m.holdsUp(given)", rows[0]) == pytest.approx(holds_up(rows[0]))
            assert javascript("m.delays(...given)", [rows, meetings]) == pytest.approx(delays(rows, meetings))


def test_shades_go_from_the_least_to_the_most(javascript):
    assert javascript("given.flat().map(m.scale(given))", [[1, 2], [3, 3]]) == [0, 0.5, 1, 1]
    assert javascript("given.flat().map(m.scale(given))", [[7, 7]]) == [0, 0]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_rule_finds_what_was_planted(name):
    held = [delays(JOBS[name][f"{kind}_ms"], groups(RANKS, TP)[kind]) for kind in ("tp", "dp")]
    both = [min(pair) for pair in zip(*held, strict=True)]
    found = [rank for rank, by in enumerate(both) if by >= 5]
    assert found == ([] if PLANTED[name] is None else [PLANTED[name]])
    expected = next(choice.text for choice in QUESTIONS[name].choices if choice.correct)
    assert expected.startswith("None" if PLANTED[name] is None else f"Rank {PLANTED[name]}")


def test_every_card_looks_busy():
    assert all(set(map(min, job["utilisation"])) == {100} for job in JOBS.values())


def test_the_cursor_reads_what_was_simulated(mount):
    page = mount(RankDashboard(rank=9, step=3))
    page.get_by_role("group", name="Ranks and steps").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("[model.get('rank'), model.get('step')]") == [9, 4]
    assert float(shown(page, METRICS["tp_ms"])) == JOBS["late rank"]["tp_ms"][4][9]
    picture = page.get_by_role("img")
    picture.click(position={"x": picture.bounding_box()["width"] - 82, "y": 24})
    assert page.evaluate("[model.get('rank'), model.get('step')]") == [0, 23]


def test_another_metric_is_drawn(mount):
    page = mount(RankDashboard())
    page.get_by_label("metric").select_option("temperature")
    assert (
        "GPU temperature" in page.get_by_role("img").get_attribute("aria-label")
        and page.locator(".cell").count() == 16 * 24
    )


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_every_job_is_judged_with_why_and_then_measured(mount, number):
    page = mount(RankDashboard())
    page.get_by_role("button", name=f"Job {'ABCDE'[number]}").click()
    name = list(QUESTIONS)[number]
    expected = next(choice for choice in QUESTIONS[name].choices if choice.correct)
    assert page.locator(".after").inner_text() == ""
    page.get_by_label(expected.text, exact=True).check()
    page.get_by_role("button", name="Commit").click()
    whys = [text for text in page.locator(".why").all_inner_texts() if text]
    assert len(whys) == len(QUESTIONS[name].choices) and sum(text.startswith("Right.") for text in whys) == 1
    assert (
        "1 of 5 jobs judged, 1 rightly" in page.get_by_role("status").first.inner_text()
        or page.get_by_text("1 of 5 jobs judged, 1 rightly").count() == 1
    )
    measured = "no rank" if PLANTED[name] is None else f"rank {PLANTED[name]} holds up"
    assert measured in page.locator(".after").inner_text()


def test_without_a_script_the_answers_are_there():
    assert still_of(RankDashboard()).count("<details") == len(QUESTIONS)


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(RankDashboard(job=3, metric="clock"), width=width, scheme=scheme), width)


def test_what_is_not_there_is_refused():
    for wrong in ({"job": 5}, {"metric": "loss"}, {"rank": 16}, {"step": -1}):
        with pytest.raises(ValueError, match="there are 5 jobs of 16 ranks and 24 steps"):
            RankDashboard(**wrong)
