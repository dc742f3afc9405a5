"""The caching allocator's segments and blocks: traces in steps, and mallocs and frees of the reader's own."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.allocator_blocks.recording import training_step
from gpulab.widgets.allocator_blocks.traces import WRITTEN, Trace

RECORDED = "a training step, recorded"


def traces() -> dict[str, Trace]:
    """All that a reader may choose among, by what it is called."""
    return {**WRITTEN, RECORDED: training_step()}


class AllocatorBlocks(anywidget.AnyWidget):
    """Segments as bars with their blocks, the counters, and what the last action did. The reader steps, mallocs and frees.

    The training steps are run on a virtual card when the first such widget is made.

    Args:
        trace: a key of :func:`traces`. step: actions that are done at first; at most all of them are.

    ``own`` is what the reader went on with: empty, or the number of actions after which, and the actions.

    Raises:
        ValueError: for a trace or a step that there is not.
    """

    _esm = module("allocator_blocks")
    _css = style("allocator_blocks")
    trace = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    own = traitlets.Dict().tag(sync=True)
    traces = traitlets.Dict().tag(sync=True)

    def __init__(self, trace: str = "split and merge", step: int = 0):
        known = {name: one.plain() for name, one in traces().items()}
        if trace not in known:
            raise ValueError(f"trace is one of {', '.join(known)}, not {trace!r}")
        if step < 0:
            raise ValueError(f"step is 0 or more, not {step}")
        super().__init__(trace=trace, step=step, own={}, traces=known)
