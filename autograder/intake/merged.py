"""Answers that lie in several notebooks, as where a learner keeps one for each exercise: made into one."""

from dataclasses import replace

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.intake.identity import recognised
from autograder.intake.notebook_file import Read, is_given
from autograder.intake.released import Released


def completed(main: Read, others: list[Read], released: Released) -> tuple[Read, list[Read]]:
    """The first notebook, what it does not answer taken from the others in their order; and those from which nothing was taken.

    What it answers itself counts. Learners' cells that come along stand behind it, with the course's that it lacks.
    """
    left = list[Read]()
    for other in others:
        answered = main.answered(released)
        taken = [answer for answer in released.functions if answer in other.answered(released) - answered]
        if taken:
            both = bool(answered & other.answered(released))
            main = _with(main, other, taken, released, _said(main, other, taken, both, released))
        else:
            left.append(other)
    return main, left


def _with(main: Read, other: Read, taken: list[str], released: Released, said: str) -> Read:
    there, known = recognised(main.cells, released).seen, recognised(other.cells, released)
    cells = list[NotebookNode]()
    for index, cell in enumerate(other.cells):
        grade_id = known.of.get(index)
        if grade_id is not None and grade_id not in there:
            cell.metadata["nbgrader"] = NotebookNode(grade_id=grade_id)
            cells.append(cell)
        elif _is_needed(cell, grade_id, taken, released):
            cells.append(new_code_cell(cell.source))
    notes = (*main.notes, said, *(f"`{other.name}`: {note}" for note in other.notes))
    return replace(main, cells=[*main.cells, *cells], notes=notes, others=(*main.others, other))


def _is_needed(cell: NotebookNode, grade_id: str | None, taken: list[str], released: Released) -> bool:
    """A learner's code, but for starters and for answers that nobody asked for."""
    if cell.cell_type != "code" or (grade_id is not None and released.is_locked(grade_id)):
        return False
    answers = released.answered_by(cell.source)
    return bool(set(answers) & set(taken)) or not (answers or is_given(cell.source, released))


def _said(main: Read, other: Read, taken: list[str], both: bool, released: Released) -> str:
    *names, last = (f"`{released.functions[answer]}`" for answer in taken)
    of = f"answers to {', '.join(names)} and {last}: those of" if names else f"answer to {last}: that of"
    were = "were" if names else "was"
    counts = f" Where both answer, `{main.name}` counts." if both else ""
    return f"`{main.name}` holds no {of} `{other.name}` {were} graded.{counts}"
