"""Jobs under four policies: the widget plays what the library plays, and shows the deadlock."""

import random

import pytest

from gpulab.fleet import POLICIES, draw_jobs, play
from gpulab.widgets import GangScheduler
from gpulab.widgets.gang_scheduler import NODES, QUEUES
from tests.widgets.looks import assert_accessible, functions_of, in_every_look, still_of

javascript = functions_of("gang_scheduler/model.js")


def random_queues():
    rng = random.Random(0)
    for seed in range(12):
        nodes = rng.choice([2, 3, 4])
        jobs = [
            job
            for job in draw_jobs(rng.randint(5, 25), nodes, seed, load=rng.choice([0.8, 1.5]))
            if job.gpus <= 8 * nodes
        ]
        yield nodes, jobs


def assert_same(theirs, ours):
    assert theirs["moments"] == ours.moments
    assert {name: theirs[name] for name in ("began", "ended", "deadlocked")} == {
        "began": ours.began,
        "ended": ours.ended,
        "deadlocked": ours.deadlocked,
    }
    for name in ("worked", "held", "free", "queue_hours", "end_h"):
        assert theirs[name] == pytest.approx(getattr(ours, name))


@pytest.mark.parametrize("policy", POLICIES)
def test_random_queues_are_played_as_by_the_library(javascript, policy):
    for nodes, jobs in random_queues():
        theirs = javascript("m.play(...given)", [[job._asdict() for job in jobs], nodes, policy])
        assert_same(theirs, play(jobs, nodes, POLICIES[policy]))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("queue", QUEUES)
def test_the_queues_shown_are_played_as_by_the_library(javascript, queue, policy):
    theirs = javascript("m.play(...given)", [[job._asdict() for job in QUEUES[queue]], NODES, policy])
    assert_same(theirs, play(QUEUES[queue], NODES, POLICIES[policy]))


def test_each_queue_shows_what_it_is_named_for():
    waits = {
        policy: play(QUEUES["a large job among small ones"], NODES, POLICIES[policy]).waits(
            QUEUES["a large job among small ones"]
        )
        for policy in POLICIES
    }
    assert play(QUEUES["two large jobs"], NODES, POLICIES["pod by pod"]).deadlocked == ["a", "b", "c"]
    assert waits["greedy"]["L"] > 2 * waits["backfill"]["L"]
    day = {
        policy: play(QUEUES["a mixed day"], NODES, POLICIES[policy]).utilisation for policy in ("in order", "backfill")
    }
    assert day["backfill"] > day["in order"]


def test_the_deadlock_is_said_and_drawn(mount):
    page = mount(GangScheduler())
    page.get_by_role("button", name="Next").click()
    assert "Deadlock: a, b and c" in page.get_by_role("status").inner_text()
    assert page.locator(".gpu.held").count() == 32
    page.get_by_label("policy").select_option("backfill")
    assert page.locator(".gpu.held").count() == 0 and page.evaluate("model.get('moment')") == 0


def test_the_reader_steps_to_the_end_by_keyboard(mount):
    page = mount(GangScheduler(policy="in order"))
    page.get_by_role("slider", name="Event").press("End")
    assert page.get_by_role("status").inner_text() == "Everybody has run."
    page.get_by_role("button", name="To the start").click()
    assert page.evaluate("model.get('moment')") == 0 and page.locator(".gpu.c0").count() == 24


@pytest.mark.parametrize("width", [1100, 390])
def test_a_step_moves_nothing_below_the_rack(mount, width):
    page = mount(GangScheduler(queue="a mixed day", policy="backfill"), width=width)
    tops = set()
    for _ in range(12):
        tops.add(page.locator(".note").bounding_box()["y"])
        page.get_by_role("button", name="Next").click()
    assert len(tops) == 1


def test_a_reader_without_a_script_sees_every_outcome():
    html = still_of(GangScheduler())
    assert "deadlock of a, b and c" in html and html.count("<tr>") == 1 + len(QUEUES) * len(POLICIES)


@in_every_look
def test_axe_finds_nothing(mount, scheme, width):
    assert_accessible(mount(GangScheduler(moment=1), width=width, scheme=scheme), width)


def test_what_is_not_there_is_refused():
    for wrong in ({"queue": "no"}, {"policy": "fair"}, {"moment": -1}):
        with pytest.raises(ValueError):
            GangScheduler(**wrong)
