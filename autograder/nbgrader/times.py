"""Due dates and times of hand-ins, read as they are meant or refused; nbgrader keeps them without a zone, in UTC."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from dateutil import parser

from autograder.core.printable import printable
from autograder.intake.encodings import decoded
from autograder.intake.files import TIMESTAMP, is_plain

RIGHT = "2026-10-12 23:59:00 +0200"
_ISO = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ]+|-)(?P<hour>\d\d?)[:-](?P<minute>\d\d)(?:[:-](?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r"(?P<half> ?[AaPp]\.?[Mm]\.?)? ?(?P<zone>.*)"
)
_IN_WORDS = re.compile(
    r"(?:[A-Za-z]{3,9},? +)?(?P<date>\d{1,2}\.? +[A-Za-z]{3,9}\.?,? +\d{4}|[A-Za-z]{3,9}\.? +\d{1,2},? +\d{4}),?(?: +at)? +"
    r"(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?(?P<half> ?[AaPp]\.?[Mm]\.?)? ?(?P<zone>.*)"
)
_OFFSET = re.compile(r"(?:UTC|GMT)? ?([+-]|\u2212)(\d\d?):?(\d\d)?")
_HOURS = {"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3}
_HOURS |= {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
"""Abbreviations with one meaning, those of RFC 2822 among them: CST is North America's."""


class UnreadableTime(ValueError):
    """Says what was read and what the right form is."""


def parsed_utc(text: datetime | str | None) -> datetime | None:
    """In the place of ``nbgrader.utils.parse_utc``: a time in UTC, without a zone. None stays None.

    A time without a zone is one in UTC. Raises UnreadableTime: for a date alone, for days and months in figures
    that change places from country to country, for zones that it does not know.
    """
    if isinstance(text, datetime):
        return text.astimezone(UTC).replace(tzinfo=None) if text.tzinfo else text
    if text is None:
        return None
    said = " ".join(text.replace("\ufeff", "").split())
    found = _ISO.fullmatch(said) or _IN_WORDS.fullmatch(said)
    try:
        if not found:
            raise ValueError
        local = _date(found["date"]) + _time_of_day(found)
        return (local - _offset(found["zone"].strip(), local)).replace(tzinfo=None)
    except (ValueError, OverflowError, LookupError, OSError):
        raise UnreadableTime(
            f"`{printable(said)}` is no time that can be read for certain: write it as `{RIGHT}`"
        ) from None


def _date(text: str) -> datetime:
    if text[:4].isdigit() and text[4] == "-":
        return datetime.strptime(text, "%Y-%m-%d")
    return parser.parse(text.replace(".", " "), default=datetime(2000, 1, 1))


def _time_of_day(found: re.Match) -> timedelta:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if "p" in found["half"].lower() else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return timedelta(hours=hour, minutes=minute, seconds=second + float(f"0.{found['fraction'] or 0}"))


def _offset(zone: str, local: datetime) -> timedelta:
    """Of local time from UTC. An abbreviation, an offset, or a zone of the IANA's such as Europe/Berlin."""
    zone = zone.strip("()")
    if not zone:
        return timedelta()
    if zone.upper() in _HOURS:
        return timedelta(hours=_HOURS[zone.upper()])
    if found := _OFFSET.fullmatch(zone.upper()):
        hours, minutes = int(found[2]), int(found[3] or 0)
        if hours > 14 or minutes > 59:
            raise ValueError
        return (1 if found[1] == "+" else -1) * timedelta(hours=hours, minutes=minutes)
    if "/" not in zone:
        raise LookupError
    return local.replace(tzinfo=ZoneInfo(zone)).utcoffset() or timedelta()


def time_of(folder: Path) -> tuple[datetime | None, str]:
    """When a submission was handed in, by its ``timestamp.txt``, in UTC without a zone; and a sentence where that needs one.

    None where there is no such file, where it is empty, and where no time can be read in it. Nothing is written.
    """
    path = folder / TIMESTAMP
    if not path.is_symlink() and not path.exists():
        return None, ""
    if not is_plain(path) or path.stat().st_size > 1000:
        return None, f"`{TIMESTAMP}` is no file with a time: the time of the hand-in is unknown."
    text = decoded(path.read_bytes())[0].strip()
    if not text:
        return None, ""
    try:
        time = parsed_utc(text)
    except UnreadableTime as error:
        return None, f"The time of the hand-in is unknown, so the work counts as in time: {error}, in `{TIMESTAMP}`."
    said = "" if _is_nbgraders(text) else f"The time of the hand-in, `{printable(text)}`, was read as {time} UTC."
    return time, said


def existing_timestamp(course: object, folder: str) -> datetime | None:
    """In the place of ``CourseDirectory.get_existing_timestamp``, which ends the whole run at what is no time."""
    return time_of(Path(folder))[0]


def submitted_timestamp(api: object, assignment: str, student: str) -> datetime | None:
    """In the place of ``NbGraderAPI.get_submitted_timestamp``, by which Formgrader lists hand-ins."""
    course = api.coursedir
    return time_of(Path(course.format_path(course.submitted_directory, student, assignment)))[0]


def _is_nbgraders(text: str) -> bool:
    """Whether a time is written as nbgrader writes it, so that nothing needs to be said of how it was read."""
    return re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(UTC|Z|\+0000))?", text.strip()) is not None
