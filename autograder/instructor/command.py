"""``python -m autograder report ASSIGNMENT``: one page for an instructor, and its table as CSV."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from autograder.core.printable import say
from autograder.core.problems import Unreadable
from autograder.core.replaced import replaced
from autograder.core.spreadsheet import write_table
from autograder.instructor.candidates import CannotWrite, write_candidates
from autograder.instructor.named import Named
from autograder.instructor.page import page
from autograder.instructor.standing import Standing, standing
from autograder.instructor.table import COLUMNS, lines

ALONE = 2
"""In an anonymous report a sentence that fewer learners were told is left out: it may quote one of them."""


def run(course: Path, assignment: str, anonymous: bool = False, to: Path | None = None, new: Path | None = None) -> int:
    """Write the page and the table, and with ``new`` the candidates for the corpora; name them.

    Returns 2 when nothing was graded, or nothing can be written there.
    """
    path = to or course / "reports" / f"{assignment}{'-anonymous' if anonymous else ''}.html"
    try:
        if path.suffix == ".csv":
            raise CannotWrite(f"{path} is to be a page: the table is written beside it, as .csv")
        found = standing(course, assignment, anonymous)
        _write(found, path)
        if new:
            for sentence in write_candidates(course, found, new):
                say(sentence)
    except (LookupError, Unreadable, CannotWrite) as why:
        print(f"autograder report: {why}", file=sys.stderr)
        return 2
    return 0


def _write(found: Standing, path: Path) -> None:
    named, least = Named(found), ALONE if found.anonymous else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    with _said(path) as file:
        file.write(page(found, named, least))
    with _said(path.with_suffix(".csv")) as file:
        write_table(file, COLUMNS, lines(found, named, least))


@contextmanager
def _said(path: Path) -> Iterator[TextIO]:
    """A file to write; its name is said once it is there."""
    with replaced(path) as file:
        yield file
    print(path)
