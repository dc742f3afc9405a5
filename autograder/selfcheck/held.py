"""Which of a chapter's exercises a notebook holds: an assignment may have some of them alone."""

from collections.abc import Collection

from autograder.intake.identity import recognised
from autograder.intake.notebook_file import Read
from autograder.intake.released import Released


def held(found: Read, released: Released, graded: Collection[str]) -> tuple[Released, list[str]]:
    """The release of the exercises that have a cell in the notebook or are answered in it, and what grades the others.

    ``graded``: the grade_ids of the cells that give points. An exercise is what stands after the one before it, up to its own.
    """
    seen = recognised(found.cells, released).seen | found.answered(released)
    kept, others, group = dict(released.cells), list[str](), list[str]()
    for grade_id in released.cells:
        group.append(grade_id)
        if grade_id in graded:
            if not seen.intersection(group):
                others.append(grade_id)
                kept = {name: cell for name, cell in kept.items() if name not in group}
            group = []
    return Released(kept), others
