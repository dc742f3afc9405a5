"""Quantities as people read them."""

import pytest

from gpulab.units import format_bytes, plural


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (3 * 1024**2, "3.0 MiB"),
        (5 * 1024**4, "5120.0 GiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_keeps_them_at_one_or_more(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"), [(1, "copy", "1 copy"), (2, "copy", "2 copies"), (0, "operation", "0 operations")]
)
def test_plural(count, noun, text):
    assert plural(count, noun) == text
