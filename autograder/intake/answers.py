"""What of a hand-in is graded, beside a grading: each answer's source, held against the assignment's release."""

from pathlib import Path

import nbformat

from autograder.intake.files import Handed
from autograder.intake.found import found_in
from autograder.intake.graded_form import answers_in
from autograder.intake.refused import NotGradable
from autograder.intake.released import Released


def releases_in(folder: Path) -> dict[str, Released]:
    """The released notebooks in a folder, by name."""
    found = {}
    for path in sorted(folder.glob("*.ipynb")):
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if "nbgrader" in cell.metadata]
        found[path.stem] = Released({cell.metadata["nbgrader"]["grade_id"]: cell for cell in cells})
    return found


def answers_of(handed: Handed, releases: dict[str, Released]) -> dict[str, str]:
    """The sources that are graded, by the grade_id of their cell in the release; none of what cannot be graded."""
    found: dict[str, str] = {}
    for name, released in releases.items():
        try:
            found |= answers_in(found_in(handed, name, released, frozenset(releases) - {name}), released)
        except NotGradable:
            continue  # grading says what it is
    return found
