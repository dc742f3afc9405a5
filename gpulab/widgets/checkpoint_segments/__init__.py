"""A chain of layers in checkpointed segments: what is held through a step, what runs twice, and the peak by their number."""

import anywidget
import traitlets

from gpulab.memory.checkpoints import Pass, held_bytes
from gpulab.widgets._source import module, style

MOST_LAYERS = 64
MIB = tuple(sorted(2**power * part // 2 for power in range(1, 11) for part in (2, 3)))
"""What a layer or a checkpoint may hold: 2, 3, 4, 6, 8, 12 and so on to 1536 MiB."""


class CheckpointSegments(anywidget.AnyWidget):
    """A training step of equal layers under ``checkpoint_sequential``; the reader moves chain, segments and bytes.

    Args:
        layers: 2 to 64. segments: 1 to ``layers``. layer_mib: what a layer saves for its backward pass, its input
            among them, in MiB, one of :data:`MIB`. checkpoint_mib: a segment's input, of :data:`MIB`, at most ``layer_mib``.
        last: whether the last segment is checkpointed too; ``checkpoint_sequential`` does not.

    Raises:
        ValueError: for what the sliders cannot hold.
    """

    _esm = module("checkpoint_segments")
    _css = style("checkpoint_segments")
    layers = traitlets.Int().tag(sync=True)
    segments = traitlets.Int().tag(sync=True)
    layer_mib = traitlets.Int().tag(sync=True)
    checkpoint_mib = traitlets.Int().tag(sync=True)
    last = traitlets.Bool().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        layers: int = 24,
        segments: int = 4,
        layer_mib: int = 64,
        checkpoint_mib: int = 16,
        last: bool = False,
    ):
        if not 2 <= layers <= MOST_LAYERS:
            raise ValueError(f"there are 2 to {MOST_LAYERS} layers, not {layers}")
        if not 1 <= segments <= layers:
            raise ValueError(f"{layers} layers make 1 to {layers} segments, not {segments}")
        for name, value in (("layer_mib", layer_mib), ("checkpoint_mib", checkpoint_mib)):
            if value not in MIB:
                raise ValueError(f"{name} is one of {', '.join(map(str, MIB))}, not {value}")
        if checkpoint_mib > layer_mib:
            raise ValueError(
                f"a layer saves its input among others: {layer_mib} MiB hold no checkpoint of {checkpoint_mib}"
            )
        moved = {
            "layers": layers,
            "segments": segments,
            "layer_mib": layer_mib,
            "checkpoint_mib": checkpoint_mib,
            "last": last,
        }
        super().__init__(**moved, known={"most_layers": MOST_LAYERS, "mib": list(MIB)})

    def passes(self) -> list[Pass]:
        """The same step by ``gpulab.memory.checkpoints``; bytes."""
        return held_bytes(self.layers, self.segments, self.layer_mib << 20, self.checkpoint_mib << 20, self.last)
