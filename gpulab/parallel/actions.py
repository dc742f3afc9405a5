"""One piece of a pipeline's work, and the table that says when each GPU does which.

A table is a list of rows, one for each GPU; a row is a list of cells, one for each slot; a cell is None where the GPU
idles, or an action as PyTorch writes it: ``"2F0"`` is stage 2's forward pass of microbatch 0, ``"2B0"`` its backward
pass, ``"2I0"`` the half of that which makes the gradient of the stage's input, ``"2W0"`` the half which makes those of its
weights. Rows that end early idle to the end.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

KINDS = ("F", "B", "I", "W")
Cell = str | None
Table = Sequence[Sequence[Cell]]
_WRITTEN = re.compile(r"([0-9]+)([FBIW])([0-9]+)")


class Action(NamedTuple):
    """``kind`` is one of :data:`KINDS`; stages and microbatches are counted from 0."""

    stage: int
    kind: str
    microbatch: int

    @classmethod
    def of(cls, text: str) -> "Action":
        """The action that is written ``text``. Raises ValueError for anything else."""
        found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"{text!r} is no action: 2F0 is stage 2's forward pass of microbatch 0; B, I and W are backward"
            )
        return cls(int(found[1]), found[2], int(found[3]))

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


class Place(NamedTuple):
    """Where an action stands in a table."""

    gpu: int
    slot: int


def places(table: Table) -> Iterator[tuple[Action, Place]]:
    """All actions of a table, GPU by GPU and slot by slot. Raises ValueError for a cell that is no action."""
    for gpu, row in enumerate(table):
        for slot, cell in enumerate(row):
            if cell is not None:
                yield Action.of(cell), Place(gpu, slot)


def needs(action: Action, stages: int) -> Iterator[tuple[Action, ...]]:
    """What has to have run before ``action``, in a pipeline of ``stages``: of each yield one action will do."""
    sys.audit("gpulab.answers", "needs")
    stage, kind, microbatch = action
    if kind == "F" and stage > 0:
        yield (Action(stage - 1, "F", microbatch),)
    if kind in "BI":
        yield (Action(stage, "F", microbatch),)
        if stage < stages - 1:
            yield Action(stage + 1, "B", microbatch), Action(stage + 1, "I", microbatch)
    if kind == "W":
        yield (Action(stage, "I", microbatch),)
