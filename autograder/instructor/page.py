"""The instructor's page of a class: no script, nothing loaded, every text of a learner's escaped."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from autograder.core.printable import printable, visible
from autograder.instructor.named import Named
from autograder.instructor.standing import Learner, Standing, outcome
from autograder.selfcheck.page import template

SIGNS = {"earned": "+", "named": "A", "lost": "0", "not judged": "-", "not written": "w", "not gradable": "?"}
"""What stands in a cell of the map, beside its colour; a named one's is its letter."""
SIGNS |= {"missing": " "}


@dataclass(frozen=True)
class Mark:
    """A learner's cell of one criterion."""

    kind: str
    sign: str
    title: str = ""


def page(standing: Standing, named: Named, least: int = 1) -> str:
    """HTML that stands alone. ``least``: sentences that fewer learners were told are left out."""
    return _template().render(standing=standing, named=named, signs=SIGNS, least=least)


def marks(learner: Learner, standing: Standing, named: Named) -> list[Mark]:
    """In the order of the rows."""
    return [_mark(learner, row.exercise, row.criterion, standing, named) for row in standing.rows]


def _mark(learner: Learner, exercise: str, criterion: str, standing: Standing, named: Named) -> Mark:
    line = learner.line(exercise, criterion)
    kind = outcome(line)
    if shown := named.of(exercise, line):
        return Mark(kind, shown.letter, shown.said.name)
    quoted = kind in ("lost", "not gradable") and not standing.anonymous
    return Mark(kind.replace(" ", "-"), SIGNS[kind], visible(line.message) if line and quoted else "")


@cache
def _template() -> jinja2.Template:
    return template(Path(__file__).parent, {"printable": printable, "visible": visible, "marks": marks})
