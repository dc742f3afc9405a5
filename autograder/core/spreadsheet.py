"""Tables as CSV that a spreadsheet opens and does not act on."""

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO


def write_table(file: TextIO, columns: Sequence[str], lines: Iterable[dict]) -> None:
    """A line of columns' names, then the lines; what one does not have stays empty."""
    writer = csv.DictWriter(file, columns, restval="")
    writer.writeheader()
    writer.writerows({column: _plain(value) for column, value in line.items()} for line in lines)


def _plain(value: object) -> object:
    """A text that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
