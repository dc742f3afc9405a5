"""The page of a self-check: points by criterion, what to read again, hints, the solution."""

from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from autograder.core.report import as_html, points, with_code
from autograder.core.verdict import Verdict
from autograder.misconceptions.sentences import misconceptions_of
from autograder.selfcheck.mark import Marked

HERE = Path(__file__).parent
FEEDBACK = HERE.parent / "notebooks" / "feedback.css"


class Solutions(Enum):
    """Which reference solutions a page shows: of functions with full marks, of all, none."""

    EARNED, ALL, NONE = "earned", "all", "none"


def page(marked: Marked, name: str, solutions: Solutions = Solutions.EARNED) -> str:
    """HTML that stands alone: no script, nothing loaded. ``name``: of the notebook's file.

    Without solutions it is for another machine, and leads to the published book alone.
    """
    return _template().render(marked=marked, name=name, solutions=solutions.value)


def is_full(verdict: Verdict) -> bool:
    """Whether nothing was lost; what this machine cannot show is no loss."""
    return not any(line.status == "lost" for line in verdict.lines)


def to_read(verdict: Verdict, otherwise: str) -> list[str]:
    """The sections that teach what was got wrong, or the one that teaches the function."""
    return list(dict.fromkeys(line.read for line in verdict.lines if line.read)) or [otherwise]


def hints(verdict: Verdict, otherwise: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Each with what it helps with, where there are several: those of the misconceptions that points were lost by.

    Those of the function stand for a misconception that has none of its own, and where none is named.
    """
    keys = {line.misconception for line in verdict.lines} - {""}
    named = [one for key, one in misconceptions_of(verdict.exercise).items() if key in keys] if keys else []
    own = [(one.name, one.hints) for one in named if one.hints]
    return own if own and len(own) == len(keys) else [*own, (f"`{verdict.exercise.partition('.')[2]}`", otherwise)]


@cache
def _template() -> jinja2.Template:
    filters = {"as_table": lambda verdict: Markup(as_html(verdict)), "to_read": to_read, "hints": hints}
    return template(HERE, filters, {"full": is_full})


def template(folder: Path, filters: dict[str, Callable], tests: dict[str, Callable] | None = None) -> jinja2.Template:
    """``page.html.j2`` of ``folder``, which escapes what it is given; ``styles`` are the feedback page's and ``page.css`` there.

    Filters beside its own: ``points`` and ``with_code``.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "points": points,
        "with_code": lambda sentence: Markup(with_code(" ".join(sentence.split()))),
        **filters,
    }
    environment.tests |= tests or {}
    environment.globals["styles"] = "\n".join(path.read_text("utf-8") for path in (FEEDBACK, folder / "page.css"))
    return environment.get_template("page.html.j2")
