"""Jobs played on a cluster: nothing is lost and nothing is made, and each policy has its weakness."""

import random

import pytest

from gpulab.fleet import POLICIES, Job, draw_jobs, earliest_start, placements, play
from gpulab.fleet.constants import GPUS_PER_NODE

GANGS = [name for name in POLICIES if name != "pod by pod"]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_gpu_hours_are_conserved(name, seed):
    jobs = draw_jobs(30, 4, seed)
    played = play(jobs, 4, POLICIES[name])
    assert played.worked + played.held + played.free == pytest.approx(played.end_h * 4 * GPUS_PER_NODE)
    assert played.worked == pytest.approx(sum(job.gpus * job.hours for job in jobs if job.name in played.began))
    assert all(played.ended[job.name] == played.began[job.name] + job.hours for job in jobs if job.name in played.began)


@pytest.mark.parametrize("name", GANGS)
@pytest.mark.parametrize("seed", range(6))
def test_littles_law(name, seed):
    """The mean length of the queue is the rate of arrivals times the mean wait: both sides times the time."""
    jobs = draw_jobs(40, 4, seed)
    played = play(jobs, 4, POLICIES[name])
    assert played.queue_hours == pytest.approx(sum(played.waits(jobs).values())) and not played.deadlocked


@pytest.mark.parametrize("name", GANGS)
def test_nobody_holds_gpus_without_running(name):
    for seed in range(6):
        played = play(draw_jobs(30, 4, seed), 4, POLICIES[name])
        assert played.held == 0 and len(played.began) == 30


def test_pod_by_pod_two_large_jobs_wait_for_each_other_for_ever():
    jobs = [Job("a", 24, 2), Job("b", 24, 2)]
    played = play(jobs, 4, POLICIES["pod by pod"])
    assert played.deadlocked == ["a", "b"] and not played.began
    assert all(len(cell) == GPUS_PER_NODE for cell in played.moments[-1]["cells"])
    assert not play(jobs, 4, POLICIES["in order"]).deadlocked


def test_greedy_starves_a_large_job_that_backfilling_does_not():
    small = [Job(f"s{i}", 8, 2, at=float(i)) for i in range(40)]
    jobs = [*small, Job("large", 16, 1, at=1.5)]
    waits = {name: play(jobs, 2, POLICIES[name]).waits(jobs)["large"] for name in GANGS}
    assert waits["greedy"] > 30 and waits["backfill"] == waits["in order"] < 2


def test_backfilling_never_makes_the_head_of_the_queue_wait_longer():
    rng = random.Random(0)

    def watched(jobs, cluster):
        started = POLICIES["backfill"](jobs, cluster)
        alone = POLICIES["in order"](jobs, cluster)
        assert started[: len(alone)] == alone
        return started

    for seed in range(8):
        jobs = draw_jobs(40, rng.choice([2, 4]), seed)
        nodes = max(2, max(job.gpus for job in jobs) // GPUS_PER_NODE)
        assert len(play(jobs, nodes, watched).began) == 40


def test_backfilling_uses_more_of_the_cluster_than_order_alone():
    used = {
        name: [play(draw_jobs(60, 4, seed, load=1.2), 4, POLICIES[name]).utilisation for seed in range(8)]
        for name in GANGS
    }
    assert sum(used["backfill"]) > 1.05 * sum(used["in order"])


def test_where_a_job_fits():
    assert (
        placements(4, [3, 8, 5]) == [{2: 4}, {1: 4}]
        and placements(16, [8, 7, 8]) == [{0: 8, 2: 8}]
        and placements(16, [8, 7]) == []
    )
    running = [{"nodes": {0: 5}, "left": 2.0}, {"nodes": {1: 8}, "left": 3.0}]
    assert earliest_start(8, {"free": [3, 0], "running": running}) == 2.0
    assert earliest_start(16, {"free": [3, 0], "running": running}) == 3.0
    assert earliest_start(24, {"free": [3, 0], "running": running}) == float("inf")


def test_what_cannot_be_given_is_refused():
    for placement in ({0: 9}, {3: 1}, {0: 0}, {0: 5}):
        with pytest.raises(ValueError):
            play([Job("a", 4, 1)], 2, lambda jobs, cluster, given=placement: [("a", given)])
