"""The released notebook that a submission is held against."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode

from autograder.core.hidden_region import without_hidden_tests, without_solution
from autograder.intake import names


@dataclass(frozen=True)
class Released:
    """``cells``: those that carry a grade_id, by it, in order; hidden tests and solutions may be in them."""

    cells: Mapping[str, NotebookNode]

    def is_locked(self, grade_id: str) -> bool:
        return bool(self.cells[grade_id].metadata["nbgrader"]["locked"])

    @cached_property
    def texts(self) -> dict[str, str]:
        """As learners were given them, line ends and blanks at the ends of lines aside."""
        return {
            grade_id: without_hidden_tests(without_solution(text_of(cell))) for grade_id, cell in self.cells.items()
        }

    @cached_property
    def functions(self) -> dict[str, str]:
        """For each answer in code the name that its hidden tests call: that of the cell, or else the last that it defines."""
        found = {}
        for grade_id, cell in self.cells.items():
            if not self.is_locked(grade_id) and cell.cell_type == "code":
                defines = names.defined(self.texts[grade_id])
                if defines:
                    found[grade_id] = grade_id if grade_id in defines else sorted(defines)[-1]
        return found

    @cached_property
    def tests(self) -> dict[str, list[str]]:
        """For each answer in code the locked cells of code that follow it: visible checks and hidden tests."""
        found: dict[str, list[str]] = {grade_id: [] for grade_id in self.functions}
        answer = None
        for grade_id, cell in self.cells.items():
            if not self.is_locked(grade_id):
                answer = grade_id
            elif cell.cell_type == "code" and answer in found:
                found[answer].append(grade_id)
        return found

    def is_untouched(self, grade_id: str, source: str) -> bool:
        """Whether an answer's cell says what the release said."""
        return same_text(source, self.texts[grade_id])

    def is_answer(self, grade_id: str, source: str) -> bool:
        """Whether a cell holds work for an answer: it defines its function, and is no starter."""
        function = self.functions[grade_id]
        if function not in names.defined(source) or self.is_untouched(grade_id, source):
            return False
        return names.is_written(source, function)


def text_of(cell: NotebookNode) -> str:
    return cell.source.replace("\r\n", "\n").replace("\r", "\n")


def same_text(one: str, other: str) -> bool:
    """Equal but for blanks at the ends of lines and empty lines."""
    return _bare(one) == _bare(other)


def _bare(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]
