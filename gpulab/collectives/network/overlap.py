"""A backward pass of equal layers over a link that sums their gradients bucket by bucket: what runs when, and what is exposed."""

from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Link:
    """What an all-reduce meets. ``alpha_us``: microseconds that each one takes whatever its size."""

    alpha_us: float
    bytes_per_us: float
    ranks: int

    def __post_init__(self):
        if self.alpha_us < 0 or self.bytes_per_us <= 0 or self.ranks < 2:
            raise ValueError(f"{self}: no latency below 0, more than no bytes a microsecond, at least 2 ranks")


@dataclass(frozen=True)
class Sent:
    """One bucket. ``layers``: how many are in it. Ready, begun and over: microseconds since the backward pass began."""

    layers: int
    ready_us: float
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Overlap:
    """``backward_us``: of the whole pass, whose layers follow one another without a pause. ``sent``: its buckets in order."""

    backward_us: float
    sent: tuple[Sent, ...]

    @property
    def step_us(self) -> float:
        """Microseconds until everything is computed and summed."""
        return self.sent[-1].end_us

    @property
    def exposed_us(self) -> float:
        """Of the step, after the backward pass."""
        return self.step_us - self.backward_us


def overlap(layers: int, layer_us: float, layer_bytes: int, bucket_bytes: int, link: Link) -> Overlap:
    """Every layer takes ``layer_us`` and makes ``layer_bytes``; a bucket is full when it holds ``bucket_bytes`` or more.

    A bucket's all-reduce is over when the slowest way to it is: a bucket becomes ready, and it and all after it are summed
    one behind the other. Raises ValueError for no layers and for sizes below 1, and for a layer that takes less than no time.
    """
    if layers < 1 or layer_bytes < 1 or bucket_bytes < 1 or layer_us < 0:
        raise ValueError(f"{layers} layers of {layer_us} us and {layer_bytes} bytes, buckets of {bucket_bytes}")
    most = min(layers, -(-bucket_bytes // layer_bytes))
    held = [min(most, layers - first) for first in range(0, layers, most)]
    ready = [layer_us * behind for behind in accumulate(held)]
    crossing = 2 * (link.ranks - 1) / link.ranks * layer_bytes / link.bytes_per_us
    takes = [link.alpha_us + crossing * count for count in held]
    before = [0.0, *accumulate(takes)]
    slowest = accumulate((at - gone for at, gone in zip(ready, before, strict=False)), max)
    over = [wait + gone for wait, gone in zip(slowest, before[1:], strict=True)]
    sent = (Sent(count, at, end - us, end) for count, at, us, end in zip(held, ready, takes, over, strict=True))
    return Overlap(layer_us * layers, tuple(sent))
