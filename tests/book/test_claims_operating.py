"""Tests that settle the claims of the chapter "Operating at scale: observability, failures, cost", one per claim."""

import pytest

from gpulab.fleet import POLICIES, Job, best_interval, play, replay, up_times, useful_share


def test_pods_placed_one_by_one_leave_two_jobs_waiting_for_ever_and_gangs_do_not():
    jobs = [Job("a", 24, 4), Job("b", 24, 4)]
    stuck = play(jobs, 4, POLICIES["pod by pod"])
    assert (
        stuck.deadlocked == ["a", "b"]
        and stuck.worked == 0
        and all(len(names) == 8 for names in stuck.moments[-1]["cells"])
    )
    for name in ("in order", "greedy", "backfill"):
        played = play(jobs, 4, POLICIES[name])
        assert not played.deadlocked and played.end_h == 8 and played.held == 0


def price_of_a_useful_hour(price: float, every: float, cost: float, restart: float) -> float:
    up = every - restart
    return price / replay(best_interval(cost, up), cost, restart, up_times(up, 20_000, seed=1)).share


def test_a_third_of_the_price_is_a_bargain_or_a_loss_by_what_a_restart_takes():
    reserved = price_of_a_useful_hour(1.0, every=50_000, cost=60, restart=300)
    assert price_of_a_useful_hour(1 / 3, every=6 * 3600, cost=60, restart=300) < 0.45 * reserved
    assert price_of_a_useful_hour(1 / 3, every=1_800, cost=300, restart=900) > 1.2 * reserved
    assert price_of_a_useful_hour(1 / 3, every=1_800, cost=20, restart=120) < 0.5 * reserved, (
        "the same machines, faster saves and restarts"
    )


def test_to_save_as_often_as_possible_wastes_more_than_half_or_twice_the_best_interval():
    up = 3.09 * 3600
    for cost in (5, 60, 600):
        best = best_interval(cost, up)
        waste = {factor: 1 / useful_share(best * factor, cost, up, 0) - 1 for factor in (0.5, 1, 2)}
        assert waste[0.5] < 1.35 * waste[1] and waste[2] < 1.35 * waste[1]
        assert 1 / useful_share(cost, cost, up, 0) - 1 > 1 > 1.5 * waste[2]
    # A checkpoint of a tenth wastes about a third of it: more than any choice of the interval gains.
    wastes = [1 / useful_share(best_interval(cost, up), cost, up, 0) - 1 for cost in (6, 60)]
    assert wastes[1] / wastes[0] == pytest.approx(10**0.5, rel=0.1)
