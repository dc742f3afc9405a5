"""Marks the notebook of one record, in a process of its own: ``python -m autograder.marking.one FOLDER``."""

import sys
from pathlib import Path

from autograder.marking.records import Record
from autograder.notebooks import ahead
from autograder.selfcheck.chapters import chapters
from autograder.selfcheck.mark import mark
from autograder.selfcheck.page import Solutions, page
from autograder.selfcheck.reading import CannotMark


def main(record: Record) -> None:
    """No solution is shown, not even after full marks."""
    ahead.start()
    chapter = next(one for one in chapters() if one.name == record.folder.parent.name)
    try:
        marked = mark(record.notebook, begin=lambda chapter: record.run(), known=[chapter])
    except CannotMark as why:
        record.refuse(str(why))
    else:
        record.keep(marked.marks(), page(marked, f"{record.notebook.name}, {record.when()}", Solutions.NONE))


if __name__ == "__main__":
    main(Record(Path(sys.argv[1])))
