"""``nbgrader db student import``: lists of students as spreadsheets write them."""

import csv
import io
import os
import tempfile
from functools import wraps
from pathlib import Path

from nbgrader.apps.dbapp import DbStudentImportApp

from autograder.intake.encodings import decoded

COLUMNS = ("id", "first_name", "last_name", "email", "lms_user_id")
_OTHERWISE = {"student_id": "id", "user_name": "id", "username": "id", "login": "id", "surname": "last_name"}
_OTHERWISE |= {"given_name": "first_name", "family_name": "last_name", "e_mail": "email", "email_address": "email"}
_start = DbStudentImportApp.start


class NoStudents(ValueError):
    """Says why a file is no list of students, and what is due."""


def as_nbgrader_reads_it(raw: bytes) -> str:
    """Commas, UTF-8 and nbgrader's names of columns: whatever separator, encoding and heading a spreadsheet writes.

    Raises NoStudents.
    """
    text = decoded(raw)[0].removeprefix("sep=;\n").strip()
    heading = text.partition("\n")[0]
    separator = max(",;\t", key=heading.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=separator)]
    rows = [row for row in rows if any(row)]
    names = [_column(cell) for cell in rows[0]] if rows else []
    if "id" not in names:
        found = ", ".join(cell for cell in rows[0]) if rows else "nothing"
        raise NoStudents(f"no column is called `id` (found: {found[:200]}); the columns are {', '.join(COLUMNS)}")
    students = [dict(zip(names, row, strict=False)) for row in rows[1:]]
    ids = [student.get("id", "") for student in students]
    if "" in ids:
        raise NoStudents(f"line {ids.index('') + 2} has no id")
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise NoStudents(f"more than one line has the id {', '.join(twice[:5])}")
    written = io.StringIO()
    kept = [name for name in COLUMNS if name in names]
    table = csv.DictWriter(written, kept, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(students)
    return written.getvalue()


@wraps(_start)
def start(self: DbStudentImportApp) -> None:
    """nbgrader's own, of what it can read."""
    if len(self.extra_args) != 1 or not Path(self.extra_args[0]).is_file():
        return _start(self)
    path = Path(self.extra_args[0])
    try:
        text = as_nbgrader_reads_it(path.read_bytes())
    except NoStudents as why:
        self.fail("Nothing was imported from %s: %s", path, why)
    with tempfile.TemporaryDirectory() as folder:
        readable = Path(folder) / os.path.basename(path)
        readable.write_text(text)
        self.extra_args = [str(readable)]
        _start(self)


def _column(cell: str) -> str:
    name = cell.casefold().strip().replace(" ", "_").replace("-", "_")
    return _OTHERWISE.get(name, name)
