"""Pools: conservation, Little's law, and the Poisson law of M/G/infinity."""

import random
from math import exp, factorial

import pytest

from gpulab.platforms import Pool, day, fixed, keeping, pulses, quiet_nights, replay, steady
from gpulab.platforms.arrivals import _poisson


def drawn_policy(rng):
    return lambda seen: rng.randint(0, 12)


def test_every_request_is_served_once_and_none_waits_longer_than_a_start():
    rng = random.Random(1)
    for seed in range(30):
        arrivals = steady(200, rng.uniform(0, 1.5), seed)
        cold, service = rng.randint(1, 20), rng.randint(1, 9)
        found = replay(drawn_policy(rng), arrivals, cold, service)
        assert len(found.waits) == sum(arrivals) and max(found.waits, default=0) <= cold
        assert min(found.waits, default=0) >= 0


def test_instances_are_conserved_and_paid_seconds_add_up():
    rng = random.Random(2)
    for seed in range(20):
        arrivals, cold, service = steady(150, 0.8, seed), rng.randint(1, 15), rng.randint(1, 9)
        pool, paid, busy = Pool(cold, service), 0, 0
        for arrived in arrivals:
            pool.admit(arrived)
            before, starts = pool.instances, pool.starts
            pool.resize(rng.randint(0, 10))
            assert pool.instances <= before + pool.starts - starts and pool.idle >= 0
            paid, busy = paid + pool.instances, busy + len(pool.busy)
            pool.tick()
        assert paid == busy + pool.unused


def test_without_waiting_the_number_at_work_is_poisson_whose_mean_is_littles():
    per_s, service, counts = 0.5, 8, {}

    def counting(seen):
        counts[seen["busy"]] = counts.get(seen["busy"], 0) + 1
        return 40

    replay(counting, steady(60_000, per_s, 7), 1, service)
    total, mean = sum(counts.values()), per_s * service
    assert sum(n * count for n, count in counts.items()) / total == pytest.approx(mean, rel=0.02)
    for n in range(10):
        assert counts.get(n, 0) / total == pytest.approx(exp(-mean) * mean**n / factorial(n), abs=0.01), n


def test_an_instance_that_nobody_asked_for_is_started_for_who_waits():
    found = replay(fixed(0), [1] + [0] * 60, 20, 5)
    assert found.waits == (20,) and found.starts == 1 and found.unused == 20


def test_a_settling_time_is_played_and_not_counted():
    arrivals = [3] + [0] * 50 + [1] + [0] * 20
    whole, late = replay(fixed(2), arrivals, 10, 4), replay(fixed(2), arrivals, 10, 4, settle=40)
    assert len(whole.waits) == 4 and late.waits == (0,) and late.starts == 0 and late.unused < whole.unused


def test_the_pool_in_hindsight_is_the_least_that_keeps_the_limit():
    for seed in range(4):
        arrivals = steady(1500, 0.6, seed)
        size = keeping(arrivals, 20, 8, 2, settle=200)
        late = [replay(fixed(n), arrivals, 20, 8, settle=200).percentile(99) for n in (size - 1, size)]
        assert late[0] > 2 >= late[1]


def test_percentiles_are_of_the_nearest_rank():
    from gpulab.platforms import Replay

    hundred = Replay(tuple(range(1, 101)), 0, 0, ())
    assert [hundred.percentile(p) for p in (1, 50, 99, 100)] == [1, 50, 99, 100] and Replay((), 0, 0, ()).percentile(
        99
    ) == 0


def test_loads_are_drawn_from_their_seed_with_the_means_they_say():
    assert steady(500, 0.7, 3) == steady(500, 0.7, 3) != steady(500, 0.7, 4)
    assert sum(steady(20_000, 0.7, 1)) / 20_000 == pytest.approx(0.7, rel=0.03)
    assert sum(day(20_000, 1.0, 1, least=0)) / 20_000 == pytest.approx(0.5, rel=0.04)
    nights = quiet_nights(1200, 2.0, 1, busy=300, quiet=300)
    assert sum(nights[300:600]) == sum(nights[900:]) == 0 < sum(nights[:300])
    assert [second for second, count in enumerate(pulses(300, 0.0, 1, every=100, size=6)) if count] == [50, 150, 250]


def test_poisson_numbers_have_their_mean_as_variance():
    rng = random.Random(5)
    drawn = [_poisson(rng, 3.0) for _ in range(20_000)]
    mean = sum(drawn) / len(drawn)
    assert (
        mean == pytest.approx(3, rel=0.03) == pytest.approx(sum((n - mean) ** 2 for n in drawn) / len(drawn), rel=0.05)
    )
    assert {_poisson(rng, 0.0) for _ in range(50)} == {0}
