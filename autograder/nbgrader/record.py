"""Writes the ledger's scores into nbgrader's gradebook, whatever the notebook printed."""

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import is_grade, is_solution

from autograder.core.ledger import Ledger
from autograder.core.verdict import Verdict
from autograder.intake.graded_form import why_not_graded


class SaveLedgerGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades with the referee's ledger for a source.

    Cells that a person grades stay nbgrader's affair. A graded code cell for which the
    ledger has nothing scores 0 and says so; where nothing could be made of the submission, all wait for a person, and
    where its code was flagged, what that code could have earned.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict):
        self._ledger = Ledger.of_course()
        where = resources["nbgrader"]
        self._not_graded = bool(why_not_graded(nb))
        self._answers = {cell.metadata["nbgrader"]["grade_id"] for cell in nb.cells if is_solution(cell)}
        self._entry = self._ledger.read(where["assignment"], where["student"])
        return super().preprocess(nb, resources)

    def _add_score(self, cell: NotebookNode, resources: ResourcesDict) -> None:
        if is_solution(cell) or cell.cell_type != "code" or not is_grade(cell):
            super()._add_score(cell, resources)
            return
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(grade_id, self.notebook_id, self.assignment_id, self.student_id)
        worth_nothing = self._not_graded or not grade.max_score
        grade.auto_score = 0.0 if worth_nothing else self._score(grade_id, grade.max_score, resources)
        flagged = bool(grade.max_score) and self._is_flagged(grade_id)
        grade.needs_manual_grade = grade.manual_score is not None or self._not_graded or flagged
        self.gradebook.db.commit()

    def _is_flagged(self, grade_id: str) -> bool:
        """A flag in an answer is that exercise's; one elsewhere, in a helper or in a file beside, may serve every exercise."""
        flags = [flag for flag in self._entry.flags if flag.notebook == self.notebook_id] if self._entry else []
        return any(f"{flag.cell}_hidden" == grade_id or flag.cell not in self._answers for flag in flags)

    def _score(self, grade_id: str, points: float, resources: ResourcesDict) -> float:
        verdict = self._entry.verdicts.get(grade_id) if self._entry else None
        if verdict is None:
            self._ledger.note(resources, f"The referee has no verdict for `{grade_id}`: it scores 0.")
            return 0.0
        return verdict.score * self._worth(grade_id, verdict, points, resources)

    def _worth(self, grade_id: str, verdict: Verdict, points: float, resources: ResourcesDict) -> float:
        """What a point of the hidden tests is worth in the assignment, where an instructor gave the cell other points."""
        if points == verdict.max_score or not verdict.max_score:
            return 1.0
        tests = f"{verdict.max_score:g} of its hidden tests"
        self._ledger.note(resources, f"`{grade_id}` is worth {points:g} points here, for the {tests}.")
        return points / verdict.max_score
