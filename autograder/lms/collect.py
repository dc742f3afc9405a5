"""``python -m autograder collect ASSIGNMENT ARCHIVE``: hand-ins from an LMS' archive into ``submitted/``."""

import logging
import shutil
import sys
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from nbgrader.api import Gradebook
from nbgrader.apps import NbGrader

from autograder.core.printable import printable, say
from autograder.intake.files import TIMESTAMP
from autograder.lms.archives import Member, NoArchive, contents, latest, members, opened
from autograder.nbgrader.gradebook import find_alembic
from autograder.nbgrader.times import UnreadableTime, parsed_utc


@dataclass(frozen=True)
class Student:
    """One of the gradebook's. ``lms_id``: empty where the gradebook does not know it."""

    id: str
    first_name: str
    last_name: str
    lms_id: str

    def is_called(self, member: Member) -> bool:
        """By the LMS' own number, or by the name as this LMS writes it in the names of files."""
        if member.lms == "Blackboard":
            return f"_{member.name}".endswith(f"_{self.id}")
        if self.lms_id:
            return member.lms_id == self.lms_id
        name = _letters(member.name)
        given = {_letters(self.first_name + self.last_name), _letters(self.last_name + self.first_name)} - {""}
        return name in given or name == _letters(self.id)


def run(course: Path, assignment: str, archive: Path, zone: str, gradebook_url: str = "") -> int:
    """Collect, say what was collected. Returns 1 when some hand-in was left, 2 when nothing could be read."""
    students = _students(gradebook_url or _configured())
    try:
        with opened(archive) as zipped:
            found, strange = members(zipped)
            if not found:
                raise NoArchive("no name in it is one that Canvas, Moodle or Blackboard gives a hand-in")
            left = _collect(zipped, latest(found), students, course, assignment, zone)
    except (NoArchive, UnreadableTime) as why:
        print(f"autograder collect: {archive.name}: {why}", file=sys.stderr)
        return 2
    for sentence in [*left, *(f"whose is it? {printable(entry)}" for entry in strange[:20])]:
        say(f"LEFT {sentence}")
    return 1 if left or strange else 0


def _collect(
    zipped: zipfile.ZipFile, found: list[Member], students: list[Student], course: Path, assignment: str, zone: str
) -> list[str]:
    """Returns what was left where it was, and why."""
    unknown, by_student = dict[str, str](), dict[str, list[Member]]()
    for member in found:
        same = [student.id for student in students if student.is_called(member)]
        if member.lms == "Blackboard":  # of `ada` and `van_ada` the longer one
            same = sorted(same, key=len)[-1:]
        if len(same) == 1:
            by_student.setdefault(same[0], []).append(member)
        else:
            unknown[member.name] = _who(member, same)
    left = []
    for student, files in sorted(by_student.items()):
        folder = course / "submitted" / student / assignment
        try:
            done = _put(zipped, files, folder, course / "collected" / assignment / student, zone)
        except NoArchive as why:
            left.append(f"{printable(student)}: {why}")
            continue
        late = (
            f", which Canvas calls late: its time belongs into {folder / TIMESTAMP}"
            if any(one.late for one in files)
            else ""
        )
        print(f"{done} {printable(student)}{late}")
    if not zone and any(one.time for one in found):
        print(
            "Blackboard's times are in its own time zone. Name it, as in --zone=Europe/Berlin: until then all work is in time"
        )
    return [*unknown.values(), *left]


def _put(zipped: zipfile.ZipFile, files: list[Member], folder: Path, kept: Path, zone: str) -> str:
    """``new``, ``changed`` (what was there before lies in ``kept``) or ``unchanged``."""
    handed_in = contents(zipped, files)
    if zone and (time := files[0].time):
        handed_in[PurePosixPath(TIMESTAMP)] = f"{parsed_utc(f'{time} {zone}')} UTC\n".encode()
    before = {PurePosixPath(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    if before.keys() == handed_in.keys() and all(_holds(before[name], data) for name, data in handed_in.items()):
        return "unchanged"
    if before:
        kept.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, kept / f"{datetime.now(UTC):%Y-%m-%d-%H-%M-%S-%f}")
    for path, data in handed_in.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return "changed" if before else "new"


def _holds(path: Path, data: bytes) -> bool:
    return path.stat().st_size == len(data) and path.read_bytes() == data


def _configured() -> str:
    """The gradebook that nbgrader's commands use in this folder."""
    app = NbGrader(log_level=logging.ERROR)
    app.initialize([])
    return app.coursedir.db_url


def _students(url: str) -> list[Student]:
    find_alembic()
    with Gradebook(url) as gradebook:
        return [
            Student(one.id, one.first_name or "", one.last_name or "", str(one.lms_user_id or ""))
            for one in gradebook.students
        ]


def _who(member: Member, same: list[str]) -> str:
    who = printable(f"{member.name or member.lms_id} ({member.lms} {member.lms_id})")
    if same:
        return (
            f"{who}: may be {' or '.join(same)}; give each their number: nbgrader db student add ID --lms-user-id=..."
        )
    if member.lms == "Blackboard":
        return f"{who}: the gradebook knows nobody of this id: nbgrader db student add {printable(member.lms_id)}"
    return f"{who}: the gradebook knows nobody of this number or name: nbgrader db student add ID --lms-user-id={member.lms_id}"


def _letters(name: str) -> str:
    """Without blanks, hyphens, apostrophes and capitals: Canvas writes ``lovelaceada``."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
