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
    it returned. ``device``: where its result is (``cpu``, ``cuda:0``). ``dtype``: its result's
    (``bfloat16``), or that of its first argument where it gives no tensor; empty without either.
    """

    op: str
    new_bytes: int
    live_bytes: int
    line: SourceLine | None
    device: str = "cpu"
    dtype: str = ""


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
class Collective:
    """One collective, or one message between two ranks, as this rank took part in it.

    ``operation``: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast``,
    ``reduce``, ``gather``, ``scatter``, ``barrier``, ``send``, ``recv``. ``bytes``: of the whole, the size that
    nccl-tests names: of an all-gather what each rank has afterwards, of a reduce-scatter what each had before;
    of an all-to-all what this rank gives. ``reduces``: ``SUM``, ``AVG``, ``MAX`` ..., empty where nothing is
    reduced. ``ranks``: who takes part, by their numbers in the whole job; of a message the sender, then the
    receiver. ``group``: PyTorch's name of the process group. ``number``: counts those of this rank.

    Modelled microseconds of the clock that all ranks share: ``ready_us``, from when this rank could begin;
    ``start_us``, when the last rank could; ``end_us``. The last two are None when nobody had waited for it by
    the end of the block. ``stream``: the communicator's own; None for host tensors.
    """

    number: int
    operation: str
    bytes: int
    dtype: str
    reduces: str
    group: str
    ranks: tuple[int, ...]
    stream: int | None
    ready_us: float
    start_us: float | None
    end_us: float | None
    line: SourceLine | None

    @property
    def us(self) -> float | None:
        """How long it took, once the last rank had come; None while it is under way."""
        return None if self.end_us is None else self.end_us - self.start_us


@dataclass(frozen=True)
class Held:
    """What held the bytes of the device while a ``gpulab.memory.track`` block ran, which ended inside this one.

    ``peak``, ``end``: bytes by kind (``parameters``, ``gradients``, ``optimizer``, ``activations``, ``temporaries``,
    ``cache``), when their sum was largest and at the end. ``peak_at``: after which operation, ``backward: aten.mm``.
    ``timeline``: (after what, bytes by kind) for each change.
    """

    peak: dict[str, int]
    peak_at: str
    end: dict[str, int]
    timeline: tuple[tuple[str, dict[str, int]], ...]


@dataclass(frozen=True)
class Saved:
    """One tensor that autograd saved for the backward pass, in the order in which it did.

    ``op``: the operation that saved it (``aten.exp``), or the name of the ``torch.autograd.Function``; empty where
    the operation raised before it ran. ``what``: ``argument`` or ``result``, of ``op``; of a ``Function``
    whatever is none of its results is ``argument``. ``bytes``: of the storage that is kept with it, all of it; 0 where
    an earlier one kept that storage already. ``storage``: its number; equal numbers share one.
    ``origin``: the storage is a ``parameter``'s, was made inside the block (``new``), or came from outside (``input``).
    ``kept``: the graph still held it when the block ended. ``shape``: of the tensor, which may show a part of it.
    """

    op: str
    what: str
    bytes: int
    storage: int
    origin: str
    kept: bool
    line: SourceLine | None
    device: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """One batch that a loop took from a ``torch.utils.data.DataLoader``. Real microseconds, on a modelled card too.

    ``loader``: counts the passes over loaders that this block saw; ``number``: the batch in its pass, from 0.
    ``workers``: of the loader. ``worker``, ``pid``: who made the batch; None without workers. ``samples``: in it.
    ``dataset_us``: fetching its samples. ``collate_us``: making a batch of them. ``pin_us``: copying it into pinned
    memory, in the pinning thread where there are workers; None where nothing is pinned. ``ready_us``, ``asked_us``,
    ``given_us``: since the block began, when it was done, when the consumer asked, and when it had the batch.
    ``queued``: batches that lay done when the consumer asked, this one among them. ``start_us``: starting the workers,
    which ``iter(loader)`` does before anything is asked; of the first batch of a pass that started some, else None.

    Of workers that were started before the block nothing is seen: of their batches only ``asked_us`` and ``given_us``
    are known. Drawing indices from the sampler is the consumer's, and is part of its wait.
    """

    loader: int
    number: int
    workers: int
    worker: int | None
    pid: int | None
    samples: int | None
    dataset_us: float | None
    collate_us: float | None
    pin_us: float | None
    ready_us: float | None
    asked_us: float
    given_us: float
    queued: int | None
    start_us: float | None
    line: SourceLine | None

    @property
    def wait_us(self) -> float:
        """For how long the consumer stood still for it."""
        return self.given_us - self.asked_us


@dataclass(frozen=True)
class Wait:
    """The host stood still for the device, or asked it and had nothing to wait for.

    ``reason``: the call that waits (``cudaDeviceSynchronize``), the operation whose result the
    host reads (``aten._local_scalar_dense``), or the copy; on a virtual card also ``polling``, where it asked an event or a
    stream again and again, and for nothing else, until the answer was yes.
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
