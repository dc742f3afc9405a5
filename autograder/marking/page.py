"""The page a learner reads after marking: points by criterion, what to read again, hints, the solution."""

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from autograder.marking.mark import Marked
from autograder.report import as_html, points, with_code
from autograder.verdict import Verdict

HERE = Path(__file__).parent
STYLES = (HERE.parent / "notebooks" / "feedback.css", HERE / "page.css")


def page(marked: Marked, name: str, solutions: bool = False) -> str:
    """HTML that stands alone: no script, nothing loaded. ``name``: of the notebook's file.

    ``solutions``: the reference solutions of all functions, not only of those with full marks.
    """
    styles = "\n".join(path.read_text("utf-8") for path in STYLES)
    return _template().render(marked=marked, name=name, solutions=solutions, styles=styles)


def is_full(verdict: Verdict) -> bool:
    """Whether nothing was lost; what this machine cannot show is no loss."""
    return not any(line.status == "lost" for line in verdict.lines)


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "points": points,
        "with_code": lambda sentence: Markup(with_code(" ".join(sentence.split()))),
        "as_table": lambda verdict: Markup(as_html(verdict)),
    }
    environment.tests["full"] = is_full
    return environment.get_template("page.html.j2")
