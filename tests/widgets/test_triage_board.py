"""The triage board shows what the jobs do: its states are runs, and a change leads from one to the next."""

import random

import pytest

from gpulab.capstone import OPTIONS, Job, healthy, targets
from gpulab.widgets import TriageBoard
from gpulab.widgets.triage_board.recorded import BUDGET, OFFERED, PLANTED, SHOWN, key, ran, recorded, states, told
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

javascript = functions_of("triage_board/model.js")


def test_every_state_that_the_budget_reaches_is_recorded():
    assert list(recorded()["states"]) == [key(made) for made in states()]


def test_what_is_recorded_is_what_the_jobs_do():
    for made in [(), *random.Random(22).sample(list(states()), 4)]:
        assert recorded()["states"][key(made)] == ran(made)


def test_targets_and_options_are_the_librarys():
    board = recorded()
    assert [(figure["name"], figure["most"]) for figure in board["figures"]] == [
        (name, round(targets()[name], 3)) for name in SHOWN
    ]
    assert [(option["name"], option["does"]) for option in board["options"]] == [
        (name, OPTIONS[name].does) for name in OFFERED
    ]
    assert board["budget"] == BUDGET and board["loss"] == told(healthy())["loss"]


def test_the_page_finds_the_state_that_the_library_would_run(javascript):
    """Whatever the order, and with a part that is changed twice."""
    rng, board = random.Random(1), recorded()
    for _ in range(40):
        made = [rng.randrange(len(OFFERED)) for _ in range(rng.randint(0, BUDGET))]
        code = Job(PLANTED).code([OFFERED[number] for number in made])
        found = javascript("m.inForce(given[0].options, given[1])", [board, made])
        assert Job(PLANTED).code([OFFERED[number] for number in found]) == code
        assert javascript("m.stateOf(given[0], given[1])", [board, made]) == board["states"][key(tuple(sorted(found)))]


def test_the_page_calls_mended_what_meets_its_targets_and_learns_the_same(javascript):
    board = recorded()
    for made in states():
        state = board["states"][key(made)]
        right = state["same"] and all(
            value <= figure["most"] for value, figure in zip(state["figures"], board["figures"])
        )
        assert javascript("m.mended(given[0], given[1])", [board, list(made)]) == right
    mended = [made for made in states() if javascript("m.mended(given[0], given[1])", [board, list(made)])]
    assert [sorted(OFFERED[number] for number in made) for made in mended] == [
        ["losses stay on the card", "one all-reduce", "workers read ahead"]
    ]


def test_a_change_moves_the_figures_and_the_budget(mount):
    page = mount(TriageBoard())
    page.get_by_role("button", name="workers read ahead").click()
    assert "lowers step_us, input_us" in page.get_by_role("status").inner_text()
    assert page.locator(".budget").inner_text() == "Changes left: 2"
    page.get_by_role("button", name="no clipping").click()
    assert "learns something else" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="pinned buffers").click()
    assert "budget is spent" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="one all-reduce").click(force=True)
    assert page.evaluate("model.get('made').length") == BUDGET
    page.get_by_role("button", name="Start again").click()
    assert page.locator(".budget").inner_text() == "Changes left: 3"


def test_the_three_repairs_mend_the_job_by_keyboard(mount):
    page = mount(TriageBoard())
    for name in ("workers read ahead", "one all-reduce", "losses stay on the card"):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
    assert "Every figure meets its target" in page.get_by_role("status").inner_text()
    assert page.locator(".over").count() == 0


def test_without_a_script_the_broken_job_is_there():
    assert "input_us" in still_of(TriageBoard())


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(TriageBoard(made=(0, 3)), width=width, scheme=scheme), width)


def test_changes_that_are_not_offered_or_too_many_are_refused():
    for made in ((8,), (-1,), (0, 1, 2, 3)):
        with pytest.raises(ValueError, match="up to 3 of 8"):
            TriageBoard(made=made)
