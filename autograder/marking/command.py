"""``python -m autograder marking``: the service of a graded course, and its learners' tokens."""

import argparse
import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path

from autograder.client.token import write_for_oneself
from autograder.core.printable import say
from autograder.marking.records import FOLDER, Records
from autograder.marking.tokens import secret_of, token_of


def add_options(parser: argparse.ArgumentParser, jobs: int) -> None:
    does = parser.add_subparsers(dest="does", required=True)
    serve = does.add_parser("serve", help="run hidden tests on the notebooks that learners send")
    serve.add_argument(
        "--tries",
        nargs="+",
        default=[],
        metavar="N",
        help="how often a learner may ask, for every chapter or as CHAPTER=N (default: 5)",
    )
    serve.add_argument("--jobs", type=at_least(1), default=jobs, help="notebooks at once (default: one a core)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    serve.add_argument("--port", type=at_least(0, 65535), default=8091, help="(default: 8091; 0: any that is free)")
    serve.add_argument("--certificate", type=Path, help="PEM file, for HTTPS without a proxy before it")
    serve.add_argument("--key", type=Path, help="PEM file of the certificate's key, where that does not hold it")
    tokens = does.add_parser("tokens", help="write a learner's token for the service in each line, as CSV")
    tokens.add_argument("students", nargs="*", metavar="STUDENT", help="(default: all of the gradebook)")
    tokens.add_argument("--to", type=Path, metavar="FILE", help="a file that only you can read (default: the terminal)")
    does.add_parser(
        "list", help="a line for each try: when, whose, what came of it, and the folder to delete to give it back"
    )


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """The number that an option's text is."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text}: a number from {least}{f' to {most}' if most else ''} is needed")
        return int(text)

    return number


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
