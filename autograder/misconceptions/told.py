"""A verdict with the misconceptions by which points were lost."""

from collections.abc import Mapping
from dataclasses import replace

from autograder.core.verdict import Line, Verdict
from autograder.misconceptions.sentences import Misconception


def with_names(verdict: Verdict, named: Mapping[str, Misconception]) -> Verdict:
    """With each lost criterion's misconception in the place of its own sentence, where one is ``named``."""
    return replace(verdict, lines=tuple(_with_name(line, named.get(line.criterion)) for line in verdict.lines))


def _with_name(line: Line, one: Misconception | None) -> Line:
    if one is None or line.status != "lost":
        return line
    return replace(line, message=one.says, misconception=one.key, read=one.read)
