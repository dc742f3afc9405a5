"""A pipeline's schedule that the reader mends: what breaks it by name, the bubble, and what every GPU holds."""

from functools import cache

import anywidget
import traitlets

from gpulab.parallel import INTERVIEW_NOTES, Table, gpipe, of_torch, one_f_one_b, places, zero_bubble
from gpulab.widgets._source import module, pairs, style

MOST_SLOTS = 30
NOTES, OWN = "the interview notes' figure", "your own"


class ScheduleEditor(anywidget.AnyWidget):
    """A table of actions, as :mod:`gpulab.parallel` has it; the reader moves actions in their GPU's row.

    Args:
        table: one of your own, which is then the first that is shown. story: by name, one of :func:`stories`.

    Raises:
        ValueError: for a story that is not there, a cell that is no action, no action at all, and more than 28 slots.
    """

    _esm = module("schedule_editor")
    _css = style("schedule_editor")
    story = traitlets.Unicode().tag(sync=True)
    table = traitlets.List().tag(sync=True)
    stories = traitlets.List().tag(sync=True)

    def __init__(self, table: Table | None = None, story: str = NOTES):
        known = {name: padded(rows) for name, rows in stories().items()}
        if table is not None:
            known, story = {OWN: padded(table), **known}, OWN
        if story not in known:
            raise ValueError(f"story is one of {', '.join(known)}, not {story!r}")
        super().__init__(story=story, table=known[story], stories=pairs(known))


@cache
def stories() -> dict[str, Table]:
    """Schedules by name, of four GPUs each. The interleaved one is PyTorch's."""
    return {
        NOTES: INTERVIEW_NOTES,
        "GPipe": gpipe(4, 4),
        "1F1B": one_f_one_b(4, 4),
        "1F1B, eight microbatches": one_f_one_b(4, 8),
        "interleaved, two stages a GPU": of_torch("Interleaved1F1B", 4, 4, 2),
        "zero-bubble (ZB-H1)": zero_bubble(4, 4),
    }


def padded(table: Table) -> list[list[str | None]]:
    """Rows of one length, two free slots behind the last action. Raises ValueError as the editor does."""
    last = max((place.slot for _, place in places(table)), default=-1)
    if not 0 <= last < MOST_SLOTS - 2:
        raise ValueError(f"an action has to be there, and {MOST_SLOTS - 2} slots at most")
    return [[*row[: last + 1], *[None] * (last + 3 - len(row[: last + 1]))] for row in table]
