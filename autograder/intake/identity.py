"""Which of the released cells a learner's cell is: by its grade_id, its id, its text, or what it defines."""

from collections.abc import Callable
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.core.cell_id import cell_id
from autograder.intake.names import facts
from autograder.intake.released import Released, same_text


@dataclass
class Recognised:
    """``of``: the grade_id of each cell by its index. ``without_metadata``: those that were known otherwise than by it.
    ``twice``: cells with the grade_id of an earlier one, by their index.
    """

    of: dict[int, str] = field(default_factory=dict)
    without_metadata: list[str] = field(default_factory=list)
    twice: dict[int, str] = field(default_factory=dict)

    @property
    def seen(self) -> set[str]:
        return set(self.of.values())


def recognised(cells: list[NotebookNode], released: Released) -> Recognised:
    found = Recognised()
    for index, cell in enumerate(cells):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if isinstance(grade_id, str) and grade_id in released.cells:
            if grade_id in found.seen:
                found.twice[index] = grade_id
            else:
                found.of[index] = grade_id
    for is_one in (_has_id, _has_text, _answers, _defines_the_same):
        _match(cells, released, found, is_one)
    return found


Test = Callable[[Released, str, NotebookNode], bool]


def _match(cells: list[NotebookNode], released: Released, found: Recognised, is_one: Test) -> None:
    """Each released cell that was not seen yet is the first of the unknown cells that ``is_one``."""
    for grade_id in [grade_id for grade_id in released.cells if grade_id not in found.seen]:
        unknown = (index for index, cell in enumerate(cells) if index not in found.of and index not in found.twice)
        index = next((index for index in unknown if is_one(released, grade_id, cells[index])), None)
        if index is not None:
            found.of[index] = grade_id
            found.without_metadata.append(grade_id)


def _has_id(released: Released, grade_id: str, cell: NotebookNode) -> bool:
    return cell.get("id") == cell_id(grade_id) and cell.cell_type == released.cells[grade_id].cell_type


def _has_text(released: Released, grade_id: str, cell: NotebookNode) -> bool:
    return cell.cell_type == released.cells[grade_id].cell_type and same_text(cell.source, released.texts[grade_id])


def _answers(released: Released, grade_id: str, cell: NotebookNode) -> bool:
    """A cell of code that answers this question and no other."""
    return cell.cell_type == "code" and released.answered_by(cell.source) == [grade_id]


def _defines_the_same(released: Released, grade_id: str, cell: NotebookNode) -> bool:
    """A locked cell of code, formatted anew."""
    if cell.cell_type != "code" or not released.is_locked(grade_id) or released.answered_by(cell.source):
        return False
    defines = facts(released.texts[grade_id]).bound
    return any(name.startswith("_") for name in defines) and defines == facts(cell.source).bound
