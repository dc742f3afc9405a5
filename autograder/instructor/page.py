"""The instructor's page of a class: no script, nothing loaded, every text of a learner's escaped."""

from functools import cache
from pathlib import Path

import jinja2

from autograder.core.layout import ROOT
from autograder.core.printable import printable
from autograder.instructor.standing import Row, Standing, outcome
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.page import template

SIGNS = {"earned": "+", "lost": "0", "not judged": "-", "not gradable": "?", "missing": " "}
"""What stands in a cell of the heat map, beside its colour."""
ALONE = 2
"""In an anonymous report a sentence that fewer learners were told is left out: it may quote one of them."""


def page(standing: Standing) -> str:
    """HTML that stands alone."""
    return _template().render(standing=standing, signs=SIGNS, least=ALONE if standing.anonymous else 1)


def section(row: Row) -> tuple[str, str]:
    """Title and address of the section to teach again; the address is empty where no site is known."""
    chapter, _, function = row.exercise.partition(".")
    about = Chapter(ROOT / "exercises" / chapter)
    title = about.help(function).read
    return title, about.where(title)


@cache
def _template() -> jinja2.Template:
    return template(Path(__file__).parent, {"printable": printable, "outcome": outcome, "section": section})
