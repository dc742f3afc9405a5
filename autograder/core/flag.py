"""A place in a learner's code that a person should look at: it uses what no honest answer needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.core.printable import printable

REASONS = {
    "grader": "the grader, or a module of gpulab that makes its instruments",
    "private": "a private name of a library, or of an object that was handed over",
    "patch": "a part of a library is replaced",
    "system": "threads, processes, raw memory or the interpreter: no exercise needs them",
    "frames": "a frame, a closure or the code of a function is read",
    "stand_in": "a class that stands in for a tensor or a number, or answers comparisons itself",
    "value": "a library is handed around as a value",
    "dynamic": "code is run, or a name looked up, from text",
    "unreadable": "this could not be read before it ran",
}
"""By kind. Of the course's own solutions, and of all right attempts in its corpora, none is flagged."""


@dataclass(frozen=True)
class Flag:
    """``cell``: its grade_id, ``cell 3`` (from 1) or the name of a Python file. ``line`` of it, from 1; ``code``: that line.

    ``kind``: one of ``REASONS``. ``name``: what was found there, as ``torch.cuda.memory_allocated``.
    """

    notebook: str
    cell: str
    line: int
    kind: str
    name: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.cell}, line {self.line}"

    @property
    def reason(self) -> str:
        return f"`{self.name}`: {REASONS.get(self.kind, self.kind)}"


def in_a_line(flags: Sequence[Flag], most: int = 2) -> str:
    """``views_setup, line 3: `ctypes`: ...; and 4 more places``."""
    shown = [printable(f"{flag.place}: {flag.reason}") for flag in flags[:most]]
    more = [f"and {len(flags) - most} more places"] if len(flags) > most else []
    return "; ".join([*shown, *more])
