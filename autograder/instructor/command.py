"""``python -m autograder report ASSIGNMENT``: one page for an instructor."""

import os
import sys
from pathlib import Path

from autograder.instructor.page import page
from autograder.instructor.standing import standing


def run(course: Path, assignment: str, anonymous: bool, to: Path | None) -> int:
    """Write the page and name it. Returns 2 when nothing was graded."""
    try:
        written = page(standing(course, assignment, anonymous))
    except LookupError as why:
        print(f"autograder report: {why}", file=sys.stderr)
        return 2
    path = to or course / "reports" / f"{assignment}{'-anonymous' if anonymous else ''}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(written, "utf-8")
    os.replace(draft, path)
    print(path)
    return 0
