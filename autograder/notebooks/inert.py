"""Outputs of learners' code with nothing in them that runs, and the cells that are the referee's."""

from nbformat import NotebookNode

from autograder.core.hidden_region import named_exercise

_KINDS = ("text/plain", "image/png", "image/jpeg")


def inert(output: NotebookNode) -> NotebookNode:
    """An output with its text and pictures alone: no HTML, no SVG, no JavaScript, no formula."""
    if "data" in output:
        output.data = NotebookNode({kind: output.data[kind] for kind in output.data if kind in _KINDS})
        output.metadata = NotebookNode()
    return output


def is_the_referees(cell: NotebookNode) -> bool:
    """Whether the referee wrote what stands under a cell: a locked, graded cell that names an exercise."""
    nbgrader = cell.metadata.get("nbgrader", {})
    return bool(nbgrader.get("grade") and not nbgrader.get("solution") and named_exercise(cell.source))
