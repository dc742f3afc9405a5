"""``python -m autograder similar``: which submissions have long stretches of code in common, with one another or with an
answer that the course publishes. A reason to look, no proof."""

import io
import itertools
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.core.printable import say
from autograder.grading.course_answers import course_answers
from autograder.intake.answers import answers_of, releases_in
from autograder.intake.files import handed_in

STRETCH = 12
"""Tokens that must agree in a row: a line or two of code."""
MOST_TOKENS = 20_000
"""Of a cell, the first that are compared."""
_KINDS = {tokenize.NAME: "name", tokenize.NUMBER: "number", tokenize.STRING: "text"}
_DROPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Pair:
    """A learner's cell, ``one``, and that of another or an answer of the course's.

    ``common``: the part, 0 to 1, of the shorter one's stretches that the other has too; of the learner's where the other is
    the course's, which ``published`` says.
    """

    common: float
    cell: str
    one: str
    other: str
    stretches: int
    published: bool = False


def similar(course: Path, assignment: str, least: float = 0.7) -> list[Pair]:
    """Submitted solution cells with ``least`` or more in common, the most alike first.

    Names, numbers and comments do not count: a renamed copy is a copy. What the release holds, and between learners what
    more than half of the class wrote, does not count either.
    """
    releases = releases_in(course / "release" / assignment)
    given = {answer: released.texts[answer] for released in releases.values() for answer in released.functions}
    ours = course_answers(given)
    written = {
        path.parent.name: answers_of(handed_in(path), releases)
        for path in sorted((course / "submitted").glob(f"*/{assignment}"))
    }
    pairs = []
    for cell, source in given.items():
        released = stretches_of(source)
        stretches = {
            student: stretches_of(cells[cell]) - released for student, cells in written.items() if cell in cells
        }
        pairs += _pairs(cell, _without_the_common(stretches))
        pairs += _taken_from(cell, stretches, {what: stretches_of(text) for what, text in ours.get(cell, {}).items()})
    return sorted(
        (pair for pair in pairs if pair.common >= least), key=lambda pair: (-pair.common, -pair.stretches, pair.one)
    )


def _pairs(cell: str, stretches: dict[str, set[int]]) -> Iterator[Pair]:
    for (one, of_one), (other, of_other) in itertools.combinations(stretches.items(), 2):
        if shorter := min(len(of_one), len(of_other)):
            yield Pair(len(of_one & of_other) / shorter, cell, one, other, shorter)


def _taken_from(cell: str, stretches: dict[str, set[int]], answers: dict[str, set[int]]) -> Iterator[Pair]:
    """For each learner the answer of the course's that is nearest."""
    for student, own in stretches.items():
        if own and answers:
            nearest = max(answers, key=lambda answer: len(own & answers[answer]))
            yield Pair(len(own & answers[nearest]) / len(own), cell, student, nearest, len(own), True)


def _without_the_common(stretches: dict[str, set[int]]) -> dict[str, set[int]]:
    """In a class of five or more what most wrote is the way to write it."""
    if len(stretches) < 5:
        return stretches
    written = Counter(itertools.chain.from_iterable(stretches.values()))
    usual = {stretch for stretch, count in written.items() if count > len(stretches) / 2}
    return {student: own - usual for student, own in stretches.items()}


def stretches_of(source: str) -> set[int]:
    """Those of its first ``MOST_TOKENS``, as far as they are Python."""
    return stretches_until(source)[0]


def stretches_until(source: str) -> tuple[set[int], int | None]:
    """The same, and the line at which the reading ended; None where it read all. Their hashes: a class fits into memory."""
    tokens, line = _tokens(source)
    return {hash(tuple(tokens[at : at + STRETCH])) for at in range(len(tokens) - STRETCH + 1)}, line


def _tokens(source: str) -> tuple[list[str], int | None]:
    """Keywords and signs as they are; every name, number and text as its kind."""
    found: list[str] = []
    try:
        for count, token in enumerate(tokenize.generate_tokens(io.StringIO(source).readline)):
            if count == MOST_TOKENS:
                return found, token.start[0]
            if token.type not in _DROPPED:
                found.append(token.string if keyword.iskeyword(token.string) else _KINDS.get(token.type, token.string))
    except tokenize.TokenError as error:
        return found, error.args[1][0]
    except SyntaxError as error:
        return found, error.lineno or 1
    return found, None


def run(course: Path, assignment: str, least: float) -> int:
    """Print the pairs, then what is near to an answer of the course's. Returns 2 when there is nothing to compare."""
    count = len(list((course / "submitted").glob(f"*/{assignment}")))
    if not count or not (course / "release" / assignment).is_dir():
        say(
            f"autograder similar: {count} submissions of {assignment!r} in {course / 'submitted'}, and its release: "
            "at least one and it are needed"
        )
        return 2
    pairs = similar(course, assignment, least)
    share = f"{least:.0%} or more of a cell's code (names and comments aside)"
    _print(f"{{}} pairs of {count} submissions share {share}", [pair for pair in pairs if not pair.published])
    _print(
        f"{{}} cells share {share} with an answer that the course publishes", [pair for pair in pairs if pair.published]
    )
    return 0


def _print(head: str, pairs: list[Pair]) -> None:
    say(head.format(len(pairs)))
    for pair in pairs:
        say(f"  {pair.common:4.0%} of {pair.stretches:3} stretches  {pair.cell}: {pair.one}, {pair.other}")
