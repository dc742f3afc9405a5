"""Where in a notebook it was that its kernel told of something to look at."""

from collections.abc import Iterable

from nbformat import NotebookNode

from autograder.core.flag import REASONS, Flag
from autograder.flags.submission import sources_of
from autograder.protocol.channel import MOST_CODE, Noticed

SOMEWHERE = "while it ran"


def flags_of_noticed(name: str, notebook: NotebookNode, noticed: Iterable[Noticed]) -> list[Flag]:
    """``name``: the notebook's. What a kernel says is a claim: a line is looked for in the cells themselves."""
    sources = sources_of(notebook)
    return [Flag(name, *_place(sources, one), one.kind, one.name, one.code) for one in noticed if one.kind in REASONS]


def with_noticed(read: list[Flag], noticed: list[Flag]) -> list[Flag]:
    """What was read, and what was noticed but for lines that reading gave the same reason for."""
    known = {(flag.notebook, flag.cell, flag.line, flag.kind) for flag in read}
    return [*read, *(flag for flag in noticed if (flag.notebook, flag.cell, flag.line, flag.kind) not in known)]


def _place(sources: dict[str, str], noticed: Noticed) -> tuple[str, int]:
    """The cell and its line with the same text, the nearest to where the kernel counts it: IPython drops empty lines above."""
    alike = [
        (abs(number - noticed.line), place, number)
        for place, source in sources.items()
        for number, line in enumerate(source.split("\n"), 1)
        if noticed.code and line.strip()[:MOST_CODE] == noticed.code
    ]
    return min(alike)[1:] if alike else (SOMEWHERE, noticed.line)
