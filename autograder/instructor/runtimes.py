"""How long a submission's cells ran, by what nbgrader's executor noted in the graded notebook."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autograder.core.ledger import Entry

_BEGAN, _ENDED = "iopub.status.busy", "iopub.status.idle"


@dataclass(frozen=True)
class Runtime:
    """Seconds of the clock in all cells, and the cell that took most of them."""

    seconds: float
    slowest: str
    slowest_seconds: float


def runtime_of(course: Path, entry: Entry) -> Runtime | None:
    """Of the notebooks in ``autograded/``, which the grader wrote; None where they are not there or no cell was timed."""
    seconds: dict[str, float] = {}
    for path in sorted((course / "autograded" / entry.student / entry.assignment).glob("*.ipynb")):
        seconds |= _of_cells(json.loads(path.read_bytes())["cells"])  # nbformat.read takes 8 times as long
    if not seconds:
        return None
    slowest = max(seconds, key=lambda cell: seconds[cell])
    return Runtime(sum(seconds.values()), slowest, seconds[slowest])


def _of_cells(cells: list[dict]) -> dict[str, float]:
    """Seconds by ``grade_id``; cells of the learner's own together under ``own cells``."""
    found: dict[str, float] = {}
    for cell in cells:
        name = str(cell["metadata"].get("nbgrader", {}).get("grade_id", "own cells"))
        if (seconds := _seconds(cell["metadata"].get("execution"))) is not None:
            found[name] = found.get(name, 0.0) + seconds
    return found


def _seconds(noted: object) -> float | None:
    """None where nothing was noted, or what a learner wrote there."""
    try:
        began, ended = (datetime.fromisoformat(noted[moment].replace("Z", "+00:00")) for moment in (_BEGAN, _ENDED))
        return (ended - began).total_seconds()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
