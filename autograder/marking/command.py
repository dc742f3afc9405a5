"""``python -m autograder marking``: the service of a graded course, and its learners' tokens."""

import argparse
import csv
import io
import sys
from pathlib import Path

from autograder.client.private import write_for_oneself
from autograder.core.printable import say
from autograder.marking.records import FOLDER, Records
from autograder.marking.tokens import secret_of, token_of


def run(course: Path, options: argparse.Namespace) -> int:
    """Returns 2, with a sentence, where what was asked for cannot be done."""
    try:
        if not course.is_dir():
            raise ValueError(f"There is no course folder {course}: COURSE names it.")
        return {"serve": _serve, "tokens": _tokens, "list": _list}[options.does](course, options)
    except (ValueError, OSError) as why:
        print(f"autograder marking: {why}", file=sys.stderr)
        return 2


def _tokens(course: Path, options: argparse.Namespace) -> int:
    from autograder.marking.gradebook import students_of

    students = options.students or students_of(course)
    for student in students:
        Records(course / FOLDER).of(student, "chapter", "digest")  # what cannot be kept gets no token
    secret = secret_of(course / FOLDER)
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerows([("id", "token"), *((student, token_of(student, secret)) for student in students)])
    if not options.to:
        print(written.getvalue(), end="")
        return 0
    write_for_oneself(options.to, written.getvalue())
    print(f"{len(students)} tokens: {options.to}")
    return 0


def _list(course: Path, options: argparse.Namespace) -> int:
    records = Records(course / FOLDER)
    for record in records.tries():
        student, chapter = record.folder.parts[-3:-1]
        say(f"{record.when()}  {student}  {chapter}  {record.said() or 'no marks'}  {record.folder}")
    return 0


def _serve(course: Path, options: argparse.Namespace) -> int:
    from autograder.marking.serve import serve  # it imports for a second

    serve(course, options)
    return 0
