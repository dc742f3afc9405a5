"""The clauses of an exercise's statement: what a wrong solution can break."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

_ITEM = re.compile(r"^[ ]{0,3}[-*] (?P<text>.*(?:\n(?![ ]{0,3}[-*] )[ \t]+\S.*)*)", re.M)
_END = re.compile(r"(?<=[.;:])\s+(?=\S)")
_LEAST_WORDS = 4


@dataclass(frozen=True)
class Clause:
    """A sentence, or a part of one, of the statement's list; ``start`` and ``stop`` are places in :func:`plain`."""

    text: str
    start: int
    stop: int


def statement(notebook: NotebookNode, function: str) -> str:
    """The Markdown between the solution cell before that of ``function`` and its own, as it stands."""
    text: list[str] = []
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("grade_id") == function:
            break
        if nbgrader.get("solution"):
            text = []
        text += [cell.source] if cell.cell_type == "markdown" else []
    return "\n\n".join(text)


def plain(text: str) -> str:
    """``text`` without emphasis and line breaks: what a quotation is compared with."""
    text = re.sub(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+)(?<=\S)\1(?![\w*])", r"\2", text)
    return re.sub(r"\s+", " ", text).strip()


def clauses(text: str) -> Iterator[Clause]:
    """Every sentence of the items of the statement's lists, cut at full stops, semicolons and colons."""
    whole, at = plain(text), 0
    for item in _ITEM.finditer(text):
        for part in _parts(plain(item["text"])):
            start = whole.index(part, at)
            at = start + len(part)
            if re.search(r"\w", part):
                yield Clause(part, start, at)


def _parts(item: str) -> Iterator[str]:
    """Cut where a clause ends; the few words that only name what follows stay with it."""
    head = ""
    for part in _END.split(item):
        head = f"{head} {part}".strip()
        if len(head.split()) >= _LEAST_WORDS:
            yield head
            head = ""
    if head:
        yield head


def unquoted(text: str, quotations: Iterable[str]) -> list[str]:
    """The clauses that no quotation touches."""
    whole = plain(text)
    quoted = [span for quotation in quotations for span in _spans(whole, plain(quotation))]
    return [
        clause.text
        for clause in clauses(text)
        if not any(start < clause.stop and clause.start < stop for start, stop in quoted)
    ]


def is_quoted(text: str, quotation: str) -> bool:
    return bool(plain(quotation)) and plain(quotation) in plain(text)


def _spans(whole: str, quotation: str) -> Iterator[tuple[int, int]]:
    start = whole.find(quotation) if quotation else -1
    while start >= 0:
        yield start, start + len(quotation)
        start = whole.find(quotation, start + 1)
