"""Sphinx extension: labels of the bibliography, as ``RRRH20``, and by its name an organisation's: ``PyTorch26ab``.

pybtex's own tell entries of one name and year apart by one letter, and after z by what ASCII has next.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from pybtex.database import Entry, Person
from pybtex.plugin import register_plugin
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels.alpha import LabelStyle

_LEFT_OUT = {"The", "Team", "team", "developers", "project"}


def letters(place: int) -> str:
    """a, b ... z, aa, ab ...: the columns of a spreadsheet, from 0."""
    before, last = divmod(place, 26)
    return (letters(before - 1) if before else "") + chr(ord("a") + last)


class CourseLabels(LabelStyle):
    """Alphabetic labels."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        labels = [self.format_label(entry) for entry in sorted_entries]
        several, met = Counter(labels), Counter()
        for label in labels:
            yield label + letters(met[label]) if several[label] > 1 else label
            met[label] += 1

    def format_lab_names(self, persons: list[Person]) -> str:
        """An organisation stands in braces in references.bib, and is one word to pybtex."""
        name = persons[0].last_names[0]
        if not name.startswith("{"):
            return super().format_lab_names(persons)
        words = re.findall(r"[\w-]+", name.partition(",")[0])
        return "-".join(word for word in words if word not in _LEFT_OUT)


class CourseStyle(Style):
    """pybtex's ``alpha``, with the course's labels."""

    default_label_style = CourseLabels


def setup(app):
    register_plugin("pybtex.style.formatting", "course", CourseStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
