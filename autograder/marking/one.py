"""Marks the notebook of one record, in a process of its own: ``python -m autograder.marking.one FOLDER``."""

import sys
from pathlib import Path

from autograder.marking.records import Record
from autograder.notebooks import ahead
from autograder.selfcheck.mark import mark
from autograder.selfcheck.page import Solutions, page
from autograder.selfcheck.reading import CannotMark


def main(record: Record) -> None:
    """No solution is shown, not even after full marks."""
    ahead.start()
    try:
        marked = mark(record.notebook)
    except CannotMark as why:
        record.refuse(str(why))
    else:
        record.keep(marked.marks(), page(marked, record.notebook.name, Solutions.NONE))


if __name__ == "__main__":
    main(Record(Path(sys.argv[1])))
