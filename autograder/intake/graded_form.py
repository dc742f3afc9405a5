"""The form in which a notebook is graded: the course's cells as released, the learner's between them, tests behind answers."""

from uuid import uuid4

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder.intake.identity import Recognised, recognised
from autograder.intake.notebook_file import Read
from autograder.intake.order import counting_cell, in_order
from autograder.intake.put_back import put_back
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released


def graded_form(found: Read, released: Released) -> tuple[NotebookNode, list[str]]:
    """The notebook that is run, hidden tests in it; notes for the learner. ``found`` is used up.

    Raises NotGradable where nothing in it is the release's.
    """
    known = recognised(found.cells, released)
    if found.cells and not known.seen & released.its_own and not found.answers(released):
        raise NotGradable("The notebook holds no exercise of this assignment: was another one handed in?")
    cells, notes, numbers = put_back(found.cells, released, known)
    if known.without_metadata:
        notes.insert(0, _without_metadata(known.without_metadata))
    cells, moved = in_order(cells, released, numbers)
    _give_each_an_id_of_its_own(cells)
    return new_notebook(cells=cells), [*found.notes, *notes, *moved]


def answers_in(found: Read, released: Released) -> dict[str, str]:
    """The source that counts for each answer in code, by its grade_id. ``found`` is used up. Raises NotGradable."""
    notebook, _ = graded_form(found, released)
    counting = {answer: counting_cell(notebook.cells, released, answer) for answer in released.functions}
    return {answer: cell.source for answer, cell in counting.items() if cell is not None}


def not_graded(released: Released, why: str) -> NotebookNode:
    """What stands in the place of a notebook of which nothing could be made: the release, and why nothing was run."""
    cells, _, _ = put_back([new_markdown_cell(f"**Not graded.** {why}")], released, Recognised())
    return new_notebook(cells=cells, metadata={"autograder": {"not_graded": why}})


def why_not_graded(notebook: NotebookNode) -> str:
    """Empty for all others."""
    return notebook.metadata.get("autograder", {}).get("not_graded", "")


def _give_each_an_id_of_its_own(cells: list[NotebookNode]) -> None:
    seen: set[str] = set()
    for cell in cells:
        if cell["id"] in seen:
            cell["id"] = uuid4().hex[:8]
        seen.add(cell["id"])


def _without_metadata(grade_ids: list[str]) -> str:
    names = ", ".join(f"`{grade_id}`" for grade_id in grade_ids)
    return f"Cells had lost the course's metadata and were known by what they hold: {names}. That costs nothing."
