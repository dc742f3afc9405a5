"""The plain records an Observation is made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """The line of the learner's code that caused something."""

    file: str
    number: int
    text: str
    function: str

    def __str__(self) -> str:
        return self.text or f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Op:
    """One PyTorch operation, in the order in which it ran.

    ``new_bytes``: bytes of storage it allocated for its results; 0 for a view.
    ``live_bytes``: bytes of storage allocated since the block began that were alive when
    it returned. ``device``: where its result is (``cpu``, ``cuda:0``).
    """

    op: str
    new_bytes: int
    live_bytes: int
    line: SourceLine | None
    device: str = "cpu"


@dataclass(frozen=True)
class Copy:
    """One operation that moved elements and computed nothing.

    ``kind``: ``clone``, ``cast``, ``copy_``, ``gather``, ``cat``, ``pad``, or between host and
    device ``HtoD``, ``DtoH``. ``bytes``: bytes written to the destination. Between host and
    device also: ``pinned`` (the host side is page-locked), ``stream`` (0 is the default one),
    ``start_us`` and ``end_us`` on the copy engine.
    """

    kind: str
    op: str
    bytes: int
    line: SourceLine | None
    pinned: bool | None = None
    stream: int | None = None
    start_us: float | None = None
    end_us: float | None = None


@dataclass(frozen=True)
class Kernel:
    """One kernel on the device. Times in microseconds of the device's clock.

    ``flops``, ``bytes_read``, ``bytes_written``: modelled; None on a real GPU, whose profiler
    does not count them.
    """

    name: str
    stream: int
    start_us: float
    end_us: float
    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    line: SourceLine | None


@dataclass(frozen=True)
class Wait:
    """The host stood still for the device, or asked it and had nothing to wait for.

    ``reason``: the call that waits (``cudaDeviceSynchronize``), the operation whose result the
    host reads (``aten._local_scalar_dense``), or the copy.
    """

    reason: str
    start_us: float
    end_us: float
    line: SourceLine | None

    @property
    def us(self) -> float:
        """Microseconds that the host lost."""
        return self.end_us - self.start_us


@dataclass(frozen=True)
class Race:
    """Two uses of the same bytes that no stream order, event or host wait puts in order.

    ``kind``: ``read after write``, ``write after write``, ``write after read``. ``reuse``: the
    first use was of an earlier tensor, whose memory the allocator handed out again. A stream
    is a number; ``-1`` stands for the host.
    """

    kind: str
    first_op: str
    first_stream: int
    first_line: SourceLine | None
    second_op: str
    second_stream: int
    second_line: SourceLine | None
    reuse: bool = False
