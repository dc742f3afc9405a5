"""The released notebook that a submission is held against."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode

from autograder.core.hidden_region import without_hidden_tests, without_solution
from autograder.intake.names import facts


@dataclass(frozen=True)
class Released:
    """``cells``: those that carry a grade_id, by it, in order; hidden tests and solutions may be in them."""

    cells: Mapping[str, NotebookNode]

    def is_locked(self, grade_id: str) -> bool:
        return bool(self.cells[grade_id].metadata["nbgrader"]["locked"])

    @cached_property
    def texts(self) -> dict[str, str]:
        """As learners were given them."""
        return {name: without_hidden_tests(without_solution(cell.source)) for name, cell in self.cells.items()}

    @cached_property
    def functions(self) -> dict[str, str]:
        """For each answer in code the name that its hidden tests call: that of the cell, or else the last that it defines."""
        found = {}
        for grade_id, cell in self.cells.items():
            if not self.is_locked(grade_id) and cell.cell_type == "code":
                defines = [name for name, _ in facts(self.texts[grade_id]).held]
                if defines:
                    found[grade_id] = grade_id if grade_id in defines else defines[-1]
        return found

    @cached_property
    def tests(self) -> dict[str, list[str]]:
        """For each answer in code the locked cells of code behind it, to the one that gives points: checks and hidden tests."""
        found: dict[str, list[str]] = {grade_id: [] for grade_id in self.functions}
        answer = None
        for grade_id, cell in self.cells.items():
            if not self.is_locked(grade_id):
                answer = grade_id
            elif cell.cell_type == "code" and answer in found:
                found[answer].append(grade_id)
                if cell.metadata["nbgrader"].get("points"):
                    answer = None
        return found

    @cached_property
    def its_own(self) -> frozenset[str]:
        """The cells that no other assignment has: answers and their tests."""
        return frozenset(self.functions).union(*self.tests.values())

    def is_untouched(self, grade_id: str, source: str) -> bool:
        """Whether an answer's cell says what the release said."""
        return same_text(source, self.texts[grade_id])

    def is_answer(self, grade_id: str, source: str) -> bool:
        """Whether a cell holds work for an answer: it defines its function, and is no starter."""
        function = self.functions[grade_id]
        if function not in source or self.is_untouched(grade_id, source):
            return False
        return facts(source).is_written(function)

    def answered_by(self, source: str) -> list[str]:
        return [answer for answer in self.functions if self.is_answer(answer, source)]


def same_text(one: str, other: str) -> bool:
    """Equal but for blanks at the ends of lines and empty lines."""
    return one == other or (abs(len(one) - len(other)) < 5000 and _bare(one) == _bare(other))


def _bare(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]
