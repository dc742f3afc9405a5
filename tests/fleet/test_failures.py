"""Failures come as often as was published, and in the published shares."""

import math
from collections import Counter

import pytest

from gpulab.fleet import failures, hours_between, up_times
from gpulab.fleet.constants import (
    LLAMA3_ALL,
    LLAMA3_DAYS,
    LLAMA3_GPUS,
    LLAMA3_PLANNED,
    LLAMA3_PRINTED_SHARE_OF_GPUS,
    LLAMA3_UNEXPECTED,
)

UNEXPECTED = sum(one.count for one in LLAMA3_UNEXPECTED)


def test_the_counts_add_up_to_what_the_text_says():
    assert UNEXPECTED == LLAMA3_ALL - LLAMA3_PLANNED == 419


def test_the_counts_of_gpus_are_more_than_the_share_that_is_printed():
    of_gpus = sum(one.count for one in LLAMA3_UNEXPECTED if one.category == "GPU")
    assert of_gpus / UNEXPECTED == pytest.approx(0.640, abs=5e-4)
    assert of_gpus / UNEXPECTED > LLAMA3_PRINTED_SHARE_OF_GPUS + 0.05


def test_a_job_of_the_published_size_fails_about_every_three_hours():
    assert hours_between(LLAMA3_GPUS) == pytest.approx(3.09, abs=0.005)


def test_many_such_runs_have_as_many_interruptions_as_the_published_one():
    runs = [len(failures(LLAMA3_GPUS, LLAMA3_DAYS * 24, seed)) for seed in range(40)]
    assert abs(sum(runs) / len(runs) - UNEXPECTED) < 3 * math.sqrt(UNEXPECTED / len(runs))


def test_components_fail_in_the_shares_of_their_counts():
    seen = Counter(one.component for one in failures(LLAMA3_GPUS, 20 * LLAMA3_DAYS * 24, seed=1))
    for one in LLAMA3_UNEXPECTED:
        expected = 20 * one.count
        assert abs(seen[one.component] - expected) < 5 * math.sqrt(expected), one.component


def test_half_the_gpus_fail_half_as_often():
    assert hours_between(LLAMA3_GPUS // 2) == 2 * hours_between(LLAMA3_GPUS)
    with pytest.raises(ValueError):
        hours_between(0)


def test_up_times_have_the_mean_and_the_spread_of_an_exponential():
    ups = up_times(7.0, 40_000, seed=3)
    mean = sum(ups) / len(ups)
    assert mean == pytest.approx(7.0, rel=0.02)
    assert math.sqrt(sum((up - mean) ** 2 for up in ups) / len(ups)) == pytest.approx(7.0, rel=0.03)
