"""The network model against collectives that others measured."""

import pytest

from gpulab.collectives.network.validation import WHY, median_error, reasons, rows, table
from gpulab.published import measurements

FOUND = rows()
BY_ID = {row.measurement.id: row for row in FOUND}


def test_every_published_collective_is_compared():
    assert {row.measurement.id for row in FOUND} == {m.id for m in measurements() if m.group == "collective"}


def test_more_than_twenty_that_nothing_was_fitted_to_are_met_within_a_tenth():
    held = [row for row in FOUND if row.near and row.measurement.use == "hold"]
    assert len(held) > 20 and median_error(FOUND) < 0.05
    assert len({row.measurement.source.title for row in held}) >= 5


@pytest.mark.parametrize(
    "start", ["ar-h200-ring", "ar-h200-nvls", "ar-b200-ring", "ar-a100-8", "ar-a100-256", "ar-a100-24", "deepep"]
)
def test_bandwidth_and_latency_inside_and_between_nodes_are_met(start):
    assert all(row.near for id, row in BY_ID.items() if id.startswith(start))


def test_each_that_is_further_off_has_a_reason_and_no_other_has():
    assert set(reasons(FOUND)) == set(WHY) == {id for id, row in BY_ID.items() if not row.near}


def test_the_table_shows_every_row_in_eighty_columns():
    lines = table(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 2 and max(map(len, lines)) <= 80
