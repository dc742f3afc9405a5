"""The report as a table: a line for each learner and criterion, to sort and to count in a spreadsheet."""

from collections.abc import Iterator

from autograder.core.printable import printable, visible
from autograder.instructor.named import Named
from autograder.instructor.standing import Learner, Row, Standing, outcome

COLUMNS = (
    "learner",
    "ended",
    "late",
    "exercise",
    "criterion",
    "points",
    "outcome",
    "misconception",
    "named",
    "section",
    "told",
)


def lines(standing: Standing, named: Named, least: int) -> Iterator[dict[str, object]]:
    """First those of graded submissions; then one for each learner without. ``least``: as of :meth:`Row.sentences`."""
    quotable = [{place for _, places in row.sentences(least) for place in places} for row in standing.rows]
    for place, learner in enumerate(standing.learners):
        about = {"learner": printable(learner.name), "ended": learner.entry.outcome, "late": learner.late}
        for row, quoted in zip(standing.rows, quotable, strict=True):
            yield (
                about
                | _judged(row, learner, named)
                | {"told": visible(row.lines[place].message) if place in quoted else ""}
            )
    yield from _others(standing)


def _judged(row: Row, learner: Learner, named: Named) -> dict[str, object]:
    line = learner.line(row.exercise, row.criterion)
    shown = named.of(row.exercise, line)
    by = {"misconception": shown.said.key, "named": shown.said.name, "section": shown.said.read} if shown else {}
    about = {"exercise": row.exercise, "criterion": row.criterion, "points": row.points}
    return about | {"outcome": outcome(line)} | by


def _others(standing: Standing) -> Iterator[dict[str, object]]:
    seen = {learner.person for learner in standing.learners}
    for group in standing.groups:
        for student in group.remarks:
            if (person := standing.people[student]) not in seen:
                seen.add(person)
                yield {"learner": printable(person.name), "ended": group.title.lower(), "late": standing.late(student)}
