"""A verdict as a learner reads it: in a terminal and on the feedback page."""

import html
import re

from autograder.core.verdict import Line, Verdict

_ACTED_ON = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Not line breaks and tabs."""


def points(value: float) -> str:
    """``3`` for 3.0, ``2.5`` for 2.5."""
    return f"{value:g}"


def printable(name: str) -> str:
    """Text that a learner chose, on one line: what a terminal or a page would act on is spelt out; 200 characters at most."""
    return "".join(c if c.isprintable() else _spelt_out(c) for c in name[:200])[:200]


def visible(text: str) -> str:
    """Text of many lines: control characters, bidirectional marks and broken Unicode are spelt out, as ``\\x1b`` and ``\\u202e``."""
    return _ACTED_ON.sub(lambda found: _spelt_out(found[0]), text)


def say(text: str) -> None:
    """Print what may hold a learner's words."""
    print(visible(text).replace("\r", r"\r"), flush=True)


def _spelt_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


def as_text(verdict: Verdict) -> str:
    lines = [f"{verdict.exercise}: {points(verdict.score)} of {points(verdict.max_score)} points"]
    lines += [f"  {_mark(line)}  {line.says}{_reason(line)}" for line in verdict.lines]
    return "\n".join(lines)


def as_html(verdict: Verdict) -> str:
    """A table. Messages may hold text of the learner's process: all of it is escaped."""
    rows = "".join(_row(line) for line in verdict.lines)
    title = f"{points(verdict.score)} of {points(verdict.max_score)} points"
    return (
        '<table class="verdict">'
        f"<caption>Hidden tests: {title}</caption>"
        '<thead><tr><th scope="col">Points</th><th scope="col">For</th><th scope="col">What happened</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


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
