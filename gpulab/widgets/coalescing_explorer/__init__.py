"""What one request of a warp moves, in the reader's hand."""

import anywidget
import traitlets

from gpulab.widgets._source import module, style

ITEM_BYTES = (1, 2, 4, 8, 16)
MAX_STRIDE, MAX_OFFSET = 40, 31


class CoalescingExplorer(anywidget.AnyWidget):
    """Lane i of a warp reads item ``offset + stride * i``: the 32-byte sectors that move.

    Args:
        stride: items from one lane's to the next one's, 0 to 40.
        offset: the first lane's item, 0 to 31, in an array that begins a sector.
        item_bytes: bytes that each lane reads: 1, 2, 4, 8 or 16.
        quiz: start in quiz mode.
        seed: repeat the same questions; 0 draws new ones on each visit.

    Raises:
        ValueError: for a request that is out of these ranges.
    """

    _esm = module("coalescing_explorer")
    _css = style("coalescing_explorer")
    stride = traitlets.Int(1).tag(sync=True)
    offset = traitlets.Int(0).tag(sync=True)
    item_bytes = traitlets.Int(4).tag(sync=True)
    mode = traitlets.Enum(["explore", "quiz"], "explore").tag(sync=True)
    seed = traitlets.Int(0).tag(sync=True)

    def __init__(self, stride: int = 1, offset: int = 0, item_bytes: int = 4, *, quiz: bool = False, seed: int = 0):
        if not (0 <= stride <= MAX_STRIDE and 0 <= offset <= MAX_OFFSET and item_bytes in ITEM_BYTES):
            raise ValueError(
                f"stride {stride}, offset {offset}, items of {item_bytes} bytes: choose a stride of 0 to {MAX_STRIDE}, "
                f"an offset of 0 to {MAX_OFFSET}, and items of {', '.join(map(str, ITEM_BYTES))} bytes"
            )
        mode = "quiz" if quiz else "explore"
        super().__init__(stride=stride, offset=offset, item_bytes=item_bytes, mode=mode, seed=seed)
