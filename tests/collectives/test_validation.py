"""The network model against collectives that others measured, in four classes of size."""

from dataclasses import replace

import pytest

from gpulab.collectives.network.validation import (
    ALLOWED,
    SIZES,
    WHY,
    Summary,
    by_size,
    modelled,
    reasons,
    rows,
    summary,
    table,
)
from gpulab.published import measurements

FOUND = rows()


def test_every_published_collective_is_compared():
    assert {row.measurement.id for row in FOUND} == {m.id for m in measurements() if m.group == "collective"}


def test_every_size_has_measurements_that_were_fitted_to_and_some_that_were_not():
    for use in ("fit", "hold"):
        assert all(found.count >= 7 for found in by_size(FOUND, use).values())
    held = {row.measurement.source.title for row in FOUND if row.measurement.use == "hold"}
    assert len(held) >= 10


@pytest.mark.parametrize("size", SIZES)
def test_the_median_of_those_held_out_is_near_the_measured_time(size):
    low, high = ALLOWED
    assert low <= by_size(FOUND, "hold")[size].median <= high and size in modelled(FOUND)


def test_no_run_is_fitted_to_in_part_and_held_out_in_part():
    runs = {}
    for row in FOUND:
        runs.setdefault((row.measurement.source.place.partition(", row of")[0], row.measurement.card), set()).add(
            row.measurement.use
        )
    assert all(len(uses) == 1 for uses in runs.values())


def test_as_many_machines_were_held_out_for_small_sizes_as_the_page_says():
    held = [row for row in FOUND if row.measurement.use == "hold"]
    assert [len({row.measurement.card for row in held if row.size == size}) for size in list(SIZES)[:2]] == [3, 4]


def test_a_model_that_is_twice_as_fast_is_of_no_size_class():
    fast = [replace(row, model=row.model / 2 if row.measurement.unit == "us" else 2 * row.model) for row in FOUND]
    assert not modelled(fast) and summary(fast).count("not modelled") == len(SIZES)


def test_a_ratio_is_one_of_times_whatever_was_measured():
    twice = {unit: next(row for row in FOUND if row.measurement.unit == unit) for unit in ("us", "GB/s busbw")}
    slow = [replace(twice["us"], model=2 * twice["us"].measurement.value),
            replace(twice["GB/s busbw"], model=twice["GB/s busbw"].measurement.value / 2)]  # fmt: skip
    assert [row.ratio for row in slow] == [2, 2]


def test_each_that_was_held_out_and_is_far_off_has_a_reason_and_no_other_has():
    far = {row.measurement.id for row in FOUND if row.far and row.measurement.use == "hold"}
    assert set(reasons(FOUND)) == set(WHY) == far


def test_a_class_without_measurements_is_refused():
    with pytest.raises(ValueError, match="no measurement"):
        Summary.of([])


def test_the_tables_show_every_row_and_every_class_in_eighty_columns():
    lines, sizes = table(FOUND).splitlines(), summary(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 1 and len(sizes) == len(SIZES) + 2
    assert max(map(len, lines)) <= 80 and max(map(len, sizes)) <= 79
