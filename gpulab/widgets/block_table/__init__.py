"""Block tables of a paged KV cache, event by event: forks, copy-on-write, prefix hits, and who holds which block."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.block_table.moves import Frame, Story
from gpulab.widgets.block_table.stories import STORIES


class BlockTable(anywidget.AnyWidget):
    """A scripted story of sequences that share blocks; the reader steps through it.

    Args:
        story: of ``STORIES``. step: the event to start at, from 1.

    Raises:
        ValueError: for a story or an event that is not there.
    """

    _esm = module("block_table")
    _css = style("block_table")
    story = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(self, story: str = "fork", step: int = 1):
        if story not in STORIES:
            raise ValueError(f"story is one of {', '.join(STORIES)}, not {story!r}")
        last = len(STORIES[story].events)
        if not 1 <= step <= last:
            raise ValueError(f"step {step} of {last}: the first is 1")
        super().__init__(story=story, step=step, known={name: as_sent(one) for name, one in STORIES.items()})

    def frames(self) -> list[Frame]:
        """How all stands after each event of the story, by Python's books."""
        return STORIES[self.story].frames()


def as_sent(story: Story) -> dict:
    """What the browser is told of a story: its moves, and nothing that follows from them."""
    events = [{"say": event.say, "moves": [list(move) for move in event.moves]} for event in story.events]
    told = {name: getattr(story, name) for name in ("name", "total", "size", "keeps")}
    return {**told, "sequences": list(story.sequences), "events": events}
