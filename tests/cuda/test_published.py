"""What others measured: every entry is whole, and the model stays as close to it as the book says."""

from fnmatch import fnmatchcase

import pytest

from evidence.published import MATMUL, MEMORY, errors, rows, summary, table
from gpulab.cards import constants
from gpulab.published import GROUPS, measurement, measurements


@pytest.fixture(scope="module")
def compared():
    return rows()


def test_there_are_enough_of_every_kind_and_each_says_where_it_stands():
    found = measurements()
    assert len(found) >= 120 and {m.group for m in found} == set(GROUPS)
    for m in found:
        assert m.card and m.what and m.workload and m.source.title and m.source.authors and m.source.year > 2000
        assert m.source.url.startswith("https://") and m.source.place, m.id


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("group", "guess"), ("use", "both"), ("value", 0), ("unit", ""), ("url", "ftp://x"), ("place", "")],
)
def test_an_entry_that_is_not_whole_is_refused(tmp_path, field, wrong):
    source = {"title": "t", "authors": "a", "year": 2024, "place": "p", "url": "https://x"}
    entry = dict(
        id="i",
        group="copy",
        card="c",
        what="w",
        workload={},
        value=1,
        unit="s",
        conditions="",
        use="fit",
        source=source,
    )
    (source if field in source else entry)[field] = wrong
    file = tmp_path / "published.yml"
    import yaml

    file.write_text(yaml.safe_dump([entry]))
    with pytest.raises(ValueError, match="'i'"):
        measurements(file)


def test_what_a_constant_was_fitted_to_is_marked_and_nothing_else_is():
    named = {name for names in constants.FITTED.values() for name in names}
    found = {name: [m for m in measurements() if fnmatchcase(m.id, name)] for name in named}
    assert all(found.values())
    assert {m.id for m in measurements() if m.use == "fit"} == {m.id for ms in found.values() for m in ms}
    assert all(hasattr(constants, name) for name in constants.FITTED)
    assert measurement("triton-add-4096").unit == "GB/s"


def test_the_held_out_ones_are_met_where_memory_or_products_bind(compared):
    found = errors(compared)
    for group in (MEMORY, MATMUL):
        error, count = found[group]
        assert error <= 0.15 and count >= 10, group


def test_a_fitted_constant_meets_what_it_was_fitted_to(compared):
    for row in compared:
        if row.measurement.use == "fit":
            assert row.ratio == pytest.approx(1, abs=0.12), row.measurement.id


def test_the_table_shows_every_row_and_the_summary_every_measurement(compared):
    text, said = table(compared), summary(compared)
    assert all(row.measurement.id in text for row in compared) and "held out" in said and "not modelled" in said
