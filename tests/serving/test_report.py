"""The metrics, against sums by hand."""

import numpy as np
import pytest

from gpulab.serving import Budget, Contiguous, Continuous, Paged, Static, compare, serve
from tests.serving.parts import Flat, asks

TRACE = [
    asks("a", 4, 3, deadline_us=3060.0),
    asks("b", 2, 1, at=10_000.0, deadline_us=1000.0),
    asks("c", 2, 9, at=20_000.0, leaves_us=2500.0),
]


@pytest.fixture(scope="module")
def report():
    """a: tokens at 1040, 2050, 3060. b: at 11020. c: at 21020 and 22030, gone at 22500."""
    return serve(TRACE, Continuous(), Paged(8, 4), Flat(), budget=Budget(requests=2))


def test_times(report):
    assert report.ttft_us.tolist() == [1040, 1020, 1020] and report.tpot_us.tolist() == [1010, 1010]
    assert report.gaps_us.tolist() == [1010, 1010, 1010] and report.total_us.tolist() == [3060, 1020]
    assert report.queue_us.tolist() == [0, 0, 0]
    assert report.percentiles(np.array([1.0, 3.0]), 50, 100) == (2.0, 3.0) and np.isnan(
        report.percentiles(np.array([]), 50)[0]
    )


def test_counts_and_rates(report):
    assert (report.finished, report.aborted, report.refused, report.preemptions, report.late) == (2, 1, 0, 0, 1)
    assert report.makespan_us == 23_040 and report.tokens_per_s == pytest.approx(6 / 0.02304)
    assert report.requests_per_s == pytest.approx(2 / 0.02304)
    assert (
        report.goodput() == pytest.approx(1 / 0.02304)
        and report.goodput(ttft_us=1039) == report.goodput(tpot_us=1009) == 0
    )


def test_who_waits_queues():
    report = serve([asks("a", 4, 3), asks("b", 2, 1)], Continuous(), Paged(8, 4), Flat(), budget=Budget(requests=1))
    assert report.queue_us.tolist() == [0, 3060] and report.ttft_us.tolist() == [1040, 4080]
    assert [step.waiting for step in report.steps] == [1, 1, 1, 0]


def test_shares(report):
    us = [1040, 1010, 1010, 1020, 1020, 1010, 1010]
    assert [step.us for step in report.steps] == us and report.busy_us == sum(us)
    assert report.idle_slots == pytest.approx(0.5), "one of two places, in every step"
    assert report.idle_while_waiting == 0, "nobody waits in it"
    stored, reserved = [4, 5, 6, 2, 2, 3, 4], [4, 8, 8, 4, 4, 4, 4]
    assert report.kv_waste == pytest.approx(1 - np.dot(us, stored) / np.dot(us, reserved))


def test_places_are_idle_while_somebody_waits_where_a_batch_drains():
    trace = [asks("a", 2, 1), asks("b", 2, 4), asks("c", 2, 1)]
    static, step = (
        serve(trace, rule, Paged(8, 4), Flat(), budget=Budget(requests=2)) for rule in (Static(), Continuous())
    )
    us = [step.us for step in static.steps]
    assert us == [1040, 1010, 1010, 1010, 1020], "a and b, b three times, c"
    assert static.idle_while_waiting == pytest.approx(0.5 * sum(us[1:4]) / sum(us[:4]))
    assert step.idle_while_waiting == 0


def test_pieces_for_the_longest_waste_what_is_not_written():
    report = serve([asks("a", 4, 97, writes=1)], Continuous(), Contiguous(100), Flat())
    assert report.kv_waste == pytest.approx(0.96)


def test_a_run_of_nothing():
    report = serve([], Continuous(), Paged(8, 4), Flat())
    assert report.tokens_per_s == report.kv_waste == report.idle_slots == 0 and "finished" in report.table()
    refused = serve([asks("a", 99)], Continuous(), Paged(8, 4), Flat())
    assert refused.refused == 1 and " -" in refused.table()


def test_tables_stand_in_eighty_columns(report):
    assert max(map(len, compare({name * 30: report for name in "abcd"}).splitlines())) <= 80
    with pytest.raises(ValueError, match="four at a time"):
        compare({name: report for name in "abcde"})
