"""What ``nbgrader export --exporter=...`` writes beside nbgrader's own totals: criteria as columns, and files for an LMS."""

from collections.abc import Iterator

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.core.ledger import Ledger
from autograder.core.spreadsheet import write_table


class ByCriterion(ExportPlugin):
    """A line for each learner and assignment, a column for each criterion of each graded cell.

    Points are the referee's, before manual grading; an empty cell is a criterion of another assignment, or
    no submission. ``score`` is nbgrader's: with manual points, the late penalty taken off.
    """

    def export(self, gradebook: Gradebook) -> None:
        lines = [{**who, **_criteria(who)} for who in _lines(gradebook, self.assignment, self.student)]
        columns = dict.fromkeys(column for line in lines for column in line)
        _write(self.to or "criteria.csv", list(columns), lines)


class Moodle(ExportPlugin):
    """For Moodle's *Import grades*: the learner's id number and e-mail address, and a column for each assignment."""

    def export(self, gradebook: Gradebook) -> None:
        rows, assignments = _by_student(gradebook, self.assignment, self.student)
        names = {"First name": "first_name", "Last name": "last_name", "ID number": "student", "Email address": "email"}
        lines = [{column: row[key] for column, key in names.items()} | row["scores"] for row in rows]
        _write(self.to or "moodle.csv", [*names, *assignments], lines)


class Canvas(ExportPlugin):
    """For Canvas' *Import* in the gradebook: Student, ID, SIS Login ID, Section, assignments; a line with the points possible.

    Canvas knows a learner by the SIS Login ID, which here is the learner's id in nbgrader.
    """

    def export(self, gradebook: Gradebook) -> None:
        rows, assignments = _by_student(gradebook, self.assignment, self.student)
        possible = {"Student": "    Points Possible"} | assignments
        lines = [{"Student": _sorted_name(row), "SIS Login ID": row["student"]} | row["scores"] for row in rows]
        _write(self.to or "canvas.csv", ["Student", "ID", "SIS Login ID", "Section", *assignments], [possible, *lines])


def _lines(gradebook: Gradebook, assignments: list[str], students: list[str]) -> Iterator[dict]:
    """Who, what for, and the score; every learner for every assignment, as nbgrader's own export has it."""
    for assignment in gradebook.assignments:
        for student in gradebook.students:
            if (assignments and assignment.name not in assignments) or (students and student.id not in students):
                continue
            yield {
                "assignment": assignment.name,
                "student": student.id,
                "last_name": student.last_name or "",
                "first_name": student.first_name or "",
                "email": student.email or "",
                "score": _score(gradebook, assignment.name, student.id),
                "max_score": assignment.max_score,
            }


def _score(gradebook: Gradebook, assignment: str, student: str) -> float:
    """After manual grading, the late penalty taken off; 0 where nothing was handed in."""
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        return 0.0
    return max(0.0, submission.score - (submission.late_submission_penalty or 0.0))


def _criteria(line: dict) -> dict[str, float]:
    """Points by ``<exercise>: <criterion>``, from the ledger."""
    entry = Ledger.of_course().read(line["assignment"], line["student"])
    return {
        f"{verdict.exercise}: {one.criterion}": one.points if one.status == "earned" else 0.0
        for verdict in (entry.verdicts.values() if entry else ())
        for one in verdict.lines
    }


def _by_student(
    gradebook: Gradebook, assignments: list[str], students: list[str]
) -> tuple[list[dict], dict[str, float]]:
    """A dictionary for each learner with ``scores`` by assignment, and each assignment's points."""
    rows: dict[str, dict] = {}
    possible: dict[str, float] = {}
    for line in _lines(gradebook, assignments, students):
        possible[line["assignment"]] = line["max_score"]
        rows.setdefault(line["student"], {**line, "scores": {}})["scores"][line["assignment"]] = line["score"]
    return list(rows.values()), possible


def _sorted_name(row: dict) -> str:
    """``Lovelace, Ada``; the id of a learner without a name."""
    return ", ".join(filter(None, (row["last_name"], row["first_name"]))) or row["student"]


def _write(path: str, columns: list[str], lines: list[dict]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        write_table(file, columns, lines)
