"""The clauses of an exercise's statement, each behind its tag: ``- [c1] returns the last rows; [c2] nothing is copied.``

An attempt names the tags that it breaks. Learners see no tag.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from nbformat import NotebookNode

_TAG = re.compile(r"\[(c\d+)\] ")
_ITEM = re.compile(r"^[ ]{0,3}[-*] (?P<text>.*(?:\n(?![ ]{0,3}[-*] )[ \t]+\S.*)*)", re.M)


@dataclass(frozen=True)
class Statement:
    """``clauses``: their texts by tag, in order. ``untagged``: list items that begin without one; ``repeated``: tags."""

    clauses: dict[str, str] = field(default_factory=dict)
    untagged: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


def without_tags(text: str) -> str:
    """As learners read it."""
    return _TAG.sub("", text)


def statement(notebook: NotebookNode, function: str) -> Statement:
    """That of ``function``, in a notebook with tags: the Markdown between the solution cell before its own and its own."""
    text: list[str] = []
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("grade_id") == function:
            break
        if nbgrader.get("solution"):
            text = []
        text += [cell.source] if cell.cell_type == "markdown" else []
    return read_statement("\n\n".join(text))


def read_statement(text: str) -> Statement:
    """The clauses of a statement's lists."""
    items = [item["text"] for item in _ITEM.finditer(text)]
    parts = [_TAG.split(item) for item in items]
    tagged = [(tag, " ".join(clause.split())) for _, *rest in parts for tag, clause in zip(rest[::2], rest[1::2])]
    counts = Counter(tag for tag, _ in tagged)
    return Statement(
        dict(tagged),
        tuple(" ".join(before.split()) for before, *_ in parts if before.strip()),
        tuple(tag for tag, count in counts.items() if count > 1),
    )
