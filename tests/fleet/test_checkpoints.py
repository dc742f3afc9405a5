"""A run replayed failure by failure against the closed form, Young's and Daly's."""

import math
import random

import pytest

from gpulab.fleet import best_interval, daly, replay, up_times, useful_share, young


@pytest.mark.parametrize("cost", [0.001, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("restart", [0.0, 0.5])
def test_the_replay_meets_the_closed_form(cost, restart):
    ups = up_times(1.0, 60_000, seed=1)
    for interval in (0.3, 1, 3):
        interval *= best_interval(cost, 1.0)
        run = replay(interval, cost, restart, ups)
        rounds = run.useful / interval
        assert (
            run.share == pytest.approx(useful_share(interval, cost, 1.0, restart), rel=0.01 + 4 / math.sqrt(rounds))
            and rounds > 1000
        )


@pytest.mark.parametrize("cost", [0.0001, 0.003, 0.1, 0.5, 1.0, 3.0])
def test_no_interval_is_better_than_the_best(cost):
    best = best_interval(cost, 1.0)
    found = useful_share(best, cost, 1.0, 0.2)
    assert all(useful_share(best * factor, cost, 1.0, 0.2) < found for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2))


def test_young_is_right_where_checkpoints_are_short_and_daly_up_to_a_long_one():
    for cost in (1e-6, 1e-4):
        assert young(cost, 1.0) == pytest.approx(best_interval(cost, 1.0), rel=0.01)
    for cost in (1e-4, 0.01, 0.3, 1.0):
        assert daly(cost, 1.0) == pytest.approx(best_interval(cost, 1.0), rel=0.02)
    assert young(1.0, 1.0) > 1.5 * best_interval(1.0, 1.0)
    assert daly(2.0, 1.0) == 1.0


def test_the_four_parts_are_all_of_the_time():
    rng = random.Random(0)
    for _ in range(200):
        ups = [rng.expovariate(1) for _ in range(20)]
        run = replay(rng.uniform(0.01, 1), rng.uniform(0, 0.3), rng.uniform(0, 1), ups, notice=rng.choice([0, 1]))
        assert run.wall == pytest.approx(sum(ups) + run.restarting) and min(run) > -1e-9


def test_a_notice_as_long_as_a_checkpoint_saves_what_would_be_lost():
    ups = up_times(1.0, 2_000, seed=2)
    without, with_notice = replay(0.5, 0.02, 0.1, ups), replay(0.5, 0.02, 0.1, ups, notice=0.02)
    assert with_notice.lost <= 0.02 * len(ups) < without.lost and with_notice.useful > without.useful
    assert replay(0.5, 0.02, 0.1, ups, notice=0.01) == without


def test_a_job_that_never_fails_needs_no_checkpoint():
    assert useful_share(math.inf, 1.0, math.inf, 5.0) == 1.0 and useful_share(3.0, 1.0, math.inf, 5.0) == 0.75
    assert replay(10.0, 1.0, 1.0, [0.5]).overhead == math.inf
