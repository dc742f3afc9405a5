"""Orders of actions, GPU by GPU, as tables and spans of time: each action as early as what it needs allows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpulab.parallel.actions import Action, Table, needs

Orders = Sequence[Sequence[str]]
"""For each GPU its actions, one after another, without slots."""


class Span(NamedTuple):
    """When an action runs, in units of time."""

    action: str
    start: float
    end: float


def orders(table: Table) -> list[list[str]]:
    """A table without its slots."""
    return [[cell for cell in row if cell is not None] for row in table]


def timed(of: Orders, takes: Mapping[str, float] | None = None, hop: float = 0.0) -> list[list[Span]]:
    """When each action runs if its GPU begins it as soon as it is free and what the action needs has run.

    takes: units of time by kind, 1 for those that it does not name; hop: what passes between two stages on unlike GPUs takes
    so long. Raises ValueError where GPUs wait for each other for good, and for a text that is no action.
    """
    queues = [[Action.of(text) for text in row] for row in of]
    gpu_of = {action: gpu for gpu, queue in enumerate(queues) for action in queue}
    stages = max((action.stage + 1 for action in gpu_of), default=0)
    ends: dict[Action, float] = {}
    found: list[list[Span]] = [[] for _ in queues]

    def ready(action: Action, gpu: int) -> float | None:
        """When what it needs is there; None: not yet known."""
        when = 0.0
        for needed in needs(action, stages):
            there = [ends[one] + (hop if gpu_of[one] != gpu else 0.0) for one in needed if one in ends]
            if not there:
                return None
            when = max(when, min(there))
        return when

    def advance(gpu: int) -> bool:
        action = queues[gpu][len(found[gpu])]
        begins = ready(action, gpu)
        if begins is None:
            return False
        start = max(begins, found[gpu][-1].end if found[gpu] else 0.0)
        ends[action] = start + (takes or {}).get(action.kind, 1)
        found[gpu].append(Span(str(action), start, ends[action]))
        return True

    while waiting := [gpu for gpu, queue in enumerate(queues) if len(found[gpu]) < len(queue)]:
        if not any([advance(gpu) for gpu in waiting]):
            stuck = ", ".join(str(queues[gpu][len(found[gpu])]) for gpu in waiting)
            raise ValueError(f"the GPUs wait for each other for good: next would be {stuck}")
    return found


def placed(of: Orders) -> list[list[str | None]]:
    """The table in which every action takes one slot and stands as early as :func:`timed` has it; all rows are of one length."""
    spans = timed(of)
    slots = max((int(row[-1].end) for row in spans if row), default=0)
    table: list[list[str | None]] = [[None] * slots for _ in spans]
    for row, own in zip(table, spans, strict=True):
        for span in own:
            row[int(span.start)] = span.action
    return table
