"""Times that people and their systems write: read as they are meant, or refused in a sentence with the right form."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from autograder.nbgrader.times import UnreadableTime, parsed_utc

NOON = datetime(2026, 10, 12, 12, 0)


@pytest.mark.parametrize(
    "text",
    [
        "2026-10-12 12:00:00 UTC",
        "2026-10-12 12:00:00.123456 UTC",
        "2026-10-12T12:00:00Z",
        "2026-10-12T12:00",
        "\ufeff2026-10-12 12:00:00 UTC\n",
        "2026-10-12 04:00:00 -0800",
        "2026-10-12T14:00:00+02:00",
        "2026-10-12 14:00:00+0200",
        "2026-10-12 14:00 +02",
        "2026-10-12 17:30:00 +0530",
        "2026-10-12 14:00:00 UTC+2",
        "2026-10-12 14:00 Europe/Berlin",
        "2026-10-12 05:00:00 PDT",
        "2026-10-12 14:00:00 CEST",
        "2026-10-12 12:00 PM",
        "2026-10-12 5:00am PDT",
        "2026-10-12-12-00-00",
        "Mon, 12 Oct 2026 04:00:00 -0800",
        "Oct 12, 2026 at 12:00 PM",
        "12 October 2026 14:00 CEST",
        "12. Oct. 2026 12:00",
    ],
)
def test_it_is_noon_in_utc(text):
    assert parsed_utc(text).replace(microsecond=0) == NOON


def test_times_that_are_times_already_are_turned_to_utc():
    assert parsed_utc(None) is None and parsed_utc(NOON) == NOON
    assert parsed_utc(datetime(2026, 10, 12, 14, tzinfo=timezone(timedelta(hours=2)))) == NOON
    assert parsed_utc(NOON.replace(tzinfo=UTC)) == NOON


def test_a_zone_of_the_ianas_knows_summer_and_winter():
    assert parsed_utc("2026-12-12 13:00 Europe/Berlin") == datetime(2026, 12, 12, 12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday evening",
        "12.10.2026 12:00",
        "10/12/2026 12:00",
        "2026-10-12",
        "tomorrow",
        "12:00",
        "2026-13-01 12:00",
    ]
    + [
        "2026-10-12 25:00",
        "2026-10-12 13:00 PM",
        "2026-10-12 12:00 IST",
        "2026-10-12 12:00 Mars/Olympus",
        "99999999999",
    ]
    + ["2026-10-12 12:00 +9900", "2026-10-12 12:00 ../../etc/passwd", "2026-10-12 12:00 o'clock", "\0", "x" * 5000],
)
def test_what_could_be_another_time_is_refused_with_the_right_form(text):
    with pytest.raises(UnreadableTime, match="write it as `2026-10-12 23:59:00 .0200`"):
        parsed_utc(text)
