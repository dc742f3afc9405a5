"""The archives that Canvas, Moodle and Blackboard make of an assignment's hand-ins: who handed in which file, and when.

Whose a file is says the outermost part of its name alone, which the LMS writes; what follows is the learner's.
"""

import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograder.intake.files import MAX_FILE_BYTES, MAX_FILES, MAX_NOTEBOOK_BYTES

MAX_MEMBERS = 100_000
MAX_HAND_IN_BYTES = MAX_NOTEBOOK_BYTES + MAX_FILE_BYTES
"""What is graded of one learner's hand-in at most."""
_CANVAS = re.compile(r"(?P<name>[^_/]+)(?P<late>_LATE)?_(?P<id>\d+)_(?P<attempt>\d+)_(?P<file>.+)")
_MOODLE = re.compile(r"(?P<name>[^/]+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?[/_]?(?P<file>.*)")
_BLACKBOARD = re.compile(
    r"(?P<name>.+_(?P<id>[^_/]+))_attempt_(?P<time>\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)(?:_(?P<file>.+)|\.txt)"
)


class NoArchive(ValueError):
    """Says what is wrong with an archive, and what is due."""


@dataclass(frozen=True)
class Member:
    """One file of a hand-in.

    ``lms``: ``Canvas``, ``Moodle`` or ``Blackboard``. ``lms_id``: the LMS' number of the learner or of the hand-in,
    at Blackboard the user name, or its last part where that has underscores. ``name``: the learner's as the LMS writes
    it in file names; at Blackboard assignment and user name. ``path``: the file's, as the learner called it. ``time``: as
    the LMS writes it, without a zone, or empty. ``late``: what Canvas says. ``entry``: in the archive.
    """

    lms: str
    lms_id: str
    name: str
    path: PurePosixPath
    time: str
    late: bool
    entry: str


def members(archive: zipfile.ZipFile) -> tuple[list[Member], list[str]]:
    """The files of an archive whose learner is known, and the entries of which nobody can say whose they are."""
    found, strange = list[Member](), list[str]()
    entries = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > MAX_MEMBERS:
        raise NoArchive(f"it holds {len(entries)} files, {MAX_MEMBERS} are taken at most")
    inside = _common_folder(entries)
    for entry in entries:
        if "__MACOSX/" in entry or entry.endswith((".DS_Store", "Thumbs.db")):
            continue
        member = _member(entry, entry.removeprefix(inside))
        found.append(member) if member else strange.append(entry)
    return [one for one in found if one.path.name], strange


def latest(found: list[Member]) -> list[Member]:
    """Of a learner who handed in several times at Blackboard, the files of the last time."""
    last: dict[str, str] = {}
    for one in found:
        last[one.name] = max(one.time, last.get(one.name, ""))
    return [one for one in found if one.time == last[one.name] or one.lms != "Blackboard"]


def contents(archive: zipfile.ZipFile, files: list[Member]) -> dict[PurePosixPath, bytes]:
    """Of one hand-in, by the files' paths. Raises NoArchive where it holds more than is ever graded, whatever sizes the archive claims."""
    if len(files) > MAX_FILES:
        raise NoArchive(f"{len(files)} files, {MAX_FILES} are taken at most")
    found, left = dict[PurePosixPath, bytes](), MAX_HAND_IN_BYTES
    for member in files:
        data = _content(archive, member.entry, left)
        found[member.path] = data
        left -= len(data)
    return found


def _content(archive: zipfile.ZipFile, entry: str, most: int) -> bytes:
    try:
        with archive.open(entry) as file:
            data = file.read(most + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, zlib.error, EOFError) as error:
        raise NoArchive(f"`{entry}` cannot be unpacked: {error}") from None
    if len(data) > most:
        raise NoArchive(f"its files hold more than {MAX_HAND_IN_BYTES >> 20} MiB")
    return data


def opened(path: Path) -> zipfile.ZipFile:
    """Raises NoArchive."""
    if not path.exists():
        raise NoArchive("there is no such file")
    if path.is_dir() or not zipfile.is_zipfile(path):
        raise NoArchive("it is no zip file: take the one that the LMS makes of an assignment's hand-ins")
    return zipfile.ZipFile(path)


def _member(entry: str, path: str) -> Member | None:
    for lms, pattern in (("Moodle", _MOODLE), ("Blackboard", _BLACKBOARD), ("Canvas", _CANVAS)):
        outermost = path if lms == "Moodle" else path.split("/")[-1]
        if found := pattern.fullmatch(outermost):
            parts = found.groupdict("")
            safe = _safe(parts["file"])
            if safe is not None:
                late = bool(parts.get("late"))
                return Member(lms, parts["id"], parts["name"], safe, parts.get("time", ""), late, entry)
    return None


def _safe(path: str) -> PurePosixPath | None:
    """Below the hand-in's folder; None for a way out of it. Empty for what the LMS wrote beside the files."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if any(part == ".." or "\0" in part for part in parts):
        return None
    return PurePosixPath(*parts)


def _common_folder(entries: list[str]) -> str:
    """Of an archive that was unpacked and packed again: everything lies in one folder."""
    first = {entry.partition("/")[0] for entry in entries if "__MACOSX" not in entry}
    (folder,) = first if len(first) == 1 else ("",)
    return (
        f"{folder}/"
        if folder and all("/" in entry for entry in entries) and not _MOODLE.fullmatch(folder + "/x")
        else ""
    )
