"""A broken job, its figures and a budget of changes: the reader mends it."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.triage_board.recorded import recorded


class TriageBoard(anywidget.AnyWidget):
    """One job of :mod:`gpulab.capstone` in every state that a budget of changes can reach, each of them run and recorded.

    Args:
        made: the changes that have been made, in order, as numbers from 0.

    Raises:
        ValueError: for a change that is not offered, and for more than the budget.
    """

    _esm = module("triage_board")
    _css = style("triage_board")
    made = traitlets.List(traitlets.Int()).tag(sync=True)
    told = traitlets.Dict().tag(sync=True)

    def __init__(self, made: tuple[int, ...] = ()):
        told = recorded()
        if len(made) > told["budget"] or not all(0 <= number < len(told["options"]) for number in made):
            raise ValueError(f"changes {list(made)}: up to {told['budget']} of {len(told['options'])}, from 0")
        super().__init__(made=list(made), told=told)
