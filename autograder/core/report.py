"""A verdict as a learner reads it: in a terminal and on the feedback page."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace

from autograder.core.verdict import Line, Verdict

UNWRITTEN = "The function is not written yet: it raised NotImplementedError."
"""What :func:`autograder.judge.expect.raised_problem` says of a starter."""
AS_ABOVE = "Lost for the same reason as above."


def points(value: float) -> str:
    """``3`` for 3.0, ``2.5`` for 2.5."""
    return f"{value:g}"


def is_unwritten(verdict: Verdict) -> bool:
    """Whether the function is still the starter: what each criterion lost says nothing then."""
    return not verdict.score and any(line.message == UNWRITTEN for line in verdict.lines)


def reasons(verdict: Verdict) -> list[str]:
    """What lost points, each once."""
    if is_unwritten(verdict):
        return [UNWRITTEN]
    return list(dict.fromkeys(line.message for line in verdict.lines if line.status != "earned"))


def as_text(verdict: Verdict) -> str:
    if is_unwritten(verdict):
        return f"{verdict.exercise}: 0 of {points(verdict.max_score)} points\n  {UNWRITTEN}"
    lines = [f"{verdict.exercise}: {points(verdict.score)} of {points(verdict.max_score)} points"]
    lines += [f"  {_mark(line)}  {line.says}{_reason(line)}" for line in _said_once(verdict)]
    return "\n".join(lines)


def as_html(verdict: Verdict) -> str:
    """A table; of a function that is not written one line. Messages may hold text of the learner's process: all of it is escaped."""
    if is_unwritten(verdict):
        return f'<p class="verdict">Hidden tests: 0 of {points(verdict.max_score)} points. {UNWRITTEN}</p>'
    rows = "".join(_row(line) for line in _said_once(verdict))
    title = f"{points(verdict.score)} of {points(verdict.max_score)} points"
    return (
        '<table class="verdict">'
        f"<caption>Hidden tests: {title}</caption>"
        '<thead><tr><th scope="col">Points</th><th scope="col">For</th><th scope="col">What happened</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _said_once(verdict: Verdict) -> Iterator[Line]:
    """The lines; what one misconception lost in several is explained in the first."""
    said: set[str] = set()
    for line in verdict.lines:
        yield replace(line, message=AS_ABOVE) if line.misconception in said else line
        said |= {line.misconception} - {""}


def _row(line: Line) -> str:
    earned = line.points if line.status == "earned" else 0
    what = line.message if line.message else "Earned."
    if line.status == "not gradable here":
        what = f"Not gradable on this machine. {what}"
    cells = (f"{points(earned)} / {points(line.points)}", line.says, what)
    return "<tr>" + "".join(f"<td>{with_code(cell)}</td>" for cell in cells) + "</tr>"


def with_code(sentence: str) -> str:
    """The sentence as HTML: text in backticks as ``<code>``, everything escaped."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def _mark(line: Line) -> str:
    earned = line.points if line.status == "earned" else 0
    return f"{points(earned)}/{points(line.points)}"


def _reason(line: Line) -> str:
    if line.status == "earned":
        return ""
    prefix = "not gradable here: " if line.status == "not gradable here" else ""
    return f"\n        {prefix}{line.message}"
