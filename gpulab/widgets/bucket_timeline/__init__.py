"""Buckets of gradients on a link: how small ones pay the latency, how large ones leave late, and the U between."""

import anywidget
import traitlets

from gpulab.collectives.network.overlap import Link, Overlap, overlap
from gpulab.widgets._source import module, style

POWERS = {"layer_us": (0, 10), "alpha_us": (0, 10), "gb_per_s": (0, 9), "ranks": (1, 10)}
"""What moves by powers of two, with the exponents at the ends of its slider."""


class BucketTimeline(anywidget.AnyWidget):
    """A backward pass of equal layers over the all-reduces of their gradients, and the step by bucket size.

    Args:
        bucket_mib: a bucket's size in MiB, a whole number of layers. layers: 2 to 64. layer_mib: gradients of each, 1 to 1024.
        layer_us: microseconds of a layer's backward pass. alpha_us: latency of an all-reduce, in microseconds.
        gb_per_s: bandwidth, in 10^9 bytes a second. ranks: 2 to 1024. These four are powers of two.

    Raises:
        ValueError: for what the sliders cannot hold.
    """

    _esm = module("bucket_timeline")
    _css = style("bucket_timeline")
    layers = traitlets.Int().tag(sync=True)
    layer_mib = traitlets.Int().tag(sync=True)
    bucket_mib = traitlets.Int().tag(sync=True)
    layer_us = traitlets.Int().tag(sync=True)
    alpha_us = traitlets.Int().tag(sync=True)
    gb_per_s = traitlets.Int().tag(sync=True)
    ranks = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        bucket_mib: int = 2,
        layers: int = 24,
        layer_mib: int = 1,
        layer_us: int = 32,
        alpha_us: int = 32,
        gb_per_s: int = 64,
        ranks: int = 8,
    ):
        moved = {"layer_us": layer_us, "alpha_us": alpha_us, "gb_per_s": gb_per_s, "ranks": ranks}
        for name, value in moved.items():
            low, high = POWERS[name]
            if value not in (2**power for power in range(low, high + 1)):
                raise ValueError(f"{name} is a power of two from {2**low} to {2**high}, not {value}")
        if not (2 <= layers <= 64 and 1 <= layer_mib <= 1024):
            raise ValueError(f"there are 2 to 64 layers of 1 to 1024 MiB, not {layers} of {layer_mib}")
        if bucket_mib % layer_mib or not layer_mib <= bucket_mib <= layers * layer_mib:
            raise ValueError(f"a bucket holds 1 to {layers} layers of {layer_mib} MiB, not {bucket_mib} MiB")
        super().__init__(bucket_mib=bucket_mib, layers=layers, layer_mib=layer_mib, **moved)

    def overlapped(self) -> Overlap:
        """The same backward pass by ``gpulab.collectives.network``; times in microseconds."""
        link = Link(self.alpha_us, self.gb_per_s * 1e3, self.ranks)
        return overlap(self.layers, self.layer_us, self.layer_mib << 20, self.bucket_mib << 20, link)
