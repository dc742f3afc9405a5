"""The Observation: plain data about one block of code, with its table and its figure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from gpulab.observe.authors import Authors, computes
from gpulab.observe.device import DeviceLog
from gpulab.observe.launches import Launch
from gpulab.observe.records import Batch, Collective, Copy, Held, Kernel, Op, Race, Saved, SourceLine, Wait


class Observation:
    """What PyTorch did while a block ran.

    ops: tuple of :class:`Op`, in order.
    copies: tuple of :class:`Copy`, in order: the operations that only moved elements.
    new_bytes: bytes of storage allocated inside the block.
    peak_bytes: most bytes of that storage alive at once.

    On a CUDA device also, each a tuple and empty where no device took part:
    kernels: of :class:`Kernel`. waits: of :class:`Wait`. races: of :class:`Race`.
    device: what the device is, and whether its times are measured or modelled; None without.

    launches: of :class:`Launch`, kernels written in Python with :mod:`gpulab.kernels`, device or not.
    collectives: of :class:`Collective`, in the order in which this rank posted them, device or not.
    batches: of :class:`Batch`, in the order in which loops took them from DataLoaders, device or not.
    held: of :class:`Held`, what each :func:`gpulab.memory.track` block that ended inside this one found.
    saved: of :class:`Saved`, what autograd saved for the backward pass; known after ``observe(saved=True)`` alone.
    """

    ops: tuple[Op, ...]
    copies: tuple[Copy, ...]
    new_bytes: int
    peak_bytes: int
    kernels: tuple[Kernel, ...]
    waits: tuple[Wait, ...]
    races: tuple[Race, ...]
    device: str | None
    launches: tuple[Launch, ...]
    collectives: tuple[Collective, ...]
    held: tuple[Held, ...]
    saved: tuple[Saved, ...]
    batches: tuple[Batch, ...]

    @classmethod
    def running(cls) -> "Observation":
        """An observation whose block has not ended: reading it is an error until it has."""
        return cls.__new__(cls)

    def finish(
        self,
        ops: Sequence[Op],
        copies: Sequence[Copy],
        new_bytes: int,
        peak_bytes: int,
        origin: Callable[[torch.Tensor], str] | None = None,
        authors: Callable[[torch.Tensor], Authors] | None = None,
        made_of: Callable[[torch.Tensor, torch.Tensor], bool] | None = None,
        log: DeviceLog | None = None,
        saved: Sequence[Saved] | None = None,
        batches: Sequence[Batch] = (),
    ) -> "Observation":
        log = log or DeviceLog()
        self.device = log.device
        self.launches, self.batches = tuple(log.launches), tuple(batches)
        self.collectives, self.held = tuple(log.collectives), tuple(log.held)
        if not log.blind:
            self.kernels, self.waits, self.races = tuple(log.kernels), tuple(log.waits), tuple(log.races)
        if saved is not None:
            self.saved = tuple(saved)
        self.ops, self.copies = tuple(ops), tuple(copies)
        self.new_bytes, self.peak_bytes = new_bytes, peak_bytes
        self._origin, self._authors, self._made_of = origin, authors, made_of
        return self

    def __getattr__(self, name: str):
        if name in ("kernels", "waits", "races") and "ops" in vars(self):
            raise RuntimeError(
                f"{name}: not known, since the GPU was first used inside the block: call torch.cuda.init() before it"
            )
        if name == "saved" and "ops" in vars(self):
            raise RuntimeError("saved: nobody asked for it: write observe(saved=True)")
        if name in self.__class__.__annotations__:
            raise RuntimeError(f"{name} is known after the observe() block ends: read it below it")
        raise AttributeError(name)

    @property
    def copied_bytes(self) -> int:
        """Bytes written by all copies together."""
        return sum(copy.bytes for copy in self.copies)

    @property
    def counts_work(self) -> bool:
        """Whether FLOPs and bytes of the kernels are known: a GPU's profiler counts neither, and there they are None."""
        return all(kernel.flops is not None for kernel in self.kernels)

    @property
    def saved_bytes(self) -> int:
        """Bytes of storage that autograd saved for backward, each storage once, parameters left out."""
        return sum(saved.bytes for saved in self.saved if saved.origin != "parameter")

    @property
    def kept_bytes(self) -> int:
        """Those of ``saved_bytes`` that a graph still held when the block ended."""
        kept = {saved.storage for saved in self.saved if saved.kept and saved.origin != "parameter"}
        return sum(saved.bytes for saved in self.saved if saved.storage in kept)

    def beside(self, collective: Collective) -> tuple[Kernel, ...]:
        """The kernels of other streams that ran while ``collective`` did; none while its end is not known."""
        if collective.stream is None or collective.end_us is None:
            return ()
        own = {c.stream for c in self.collectives}
        return tuple(
            k
            for k in self.kernels
            if k.stream not in own and k.start_us < collective.end_us and collective.start_us < k.end_us
        )

    def hidden_us(self, collective: Collective) -> float:
        """For how many microseconds of ``collective`` some kernel of another stream ran: its overlap."""
        shares = [
            (max(k.start_us, collective.start_us), min(k.end_us, collective.end_us)) for k in self.beside(collective)
        ]
        hidden, until = 0.0, 0.0
        for start, end in sorted(shares):
            hidden += max(0.0, end - max(start, until))
            until = max(until, end)
        return hidden

    def origin(self, tensor: torch.Tensor) -> str:
        """Where a tensor's storage came from.

        ``"new"``: an operation inside the block allocated it. ``"input"``: an operation
        inside the block was handed it. ``"unseen"``: no operation touched it, so its bytes
        were there untouched or were made outside PyTorch. Known only in the process that
        observed, not after ``from_dict``.
        """
        if self._origin is None:
            raise RuntimeError("origin() needs the live tensors: ask in the process that observed")
        return self._origin(tensor)

    def authors(self, tensor: torch.Tensor) -> Authors:
        """Who wrote the bytes of ``tensor``: :class:`Authors`. In the process that observed only."""
        if self._authors is None:
            raise RuntimeError("authors() needs the live tensors: ask in the process that observed")
        return self._authors(tensor)

    def made_of(self, tensor: torch.Tensor, origin: torch.Tensor) -> bool:
        """Whether PyTorch's operations wrote all of ``tensor`` from ``origin``'s storage.

        False when they read anything else that was not made inside the block: an array of NumPy's,
        or a copy that was made where nothing is seen. In the process that observed only.
        """
        if self._made_of is None:
            raise RuntimeError("made_of() needs the live tensors: ask in the process that observed")
        return self._made_of(tensor, origin)

    @property
    def computing_ops(self) -> tuple[str, ...]:
        """PyTorch's operations that computed or moved elements: no views, no bare allocations."""
        return tuple(op.op for op in self.ops if computes(op.op))

    def to_dict(self) -> dict:
        """Lists, strings and integers only."""
        return {
            "ops": [_plain(op) for op in self.ops],
            "copies": [_plain(copy) for copy in self.copies],
            "new_bytes": self.new_bytes,
            "peak_bytes": self.peak_bytes,
            **{name: self._known_records(name) for name in ("kernels", "waits", "races", "saved")},
            "device": self.device,
            "launches": [asdict(launch) for launch in self.launches],
            "collectives": [_plain(collective) for collective in self.collectives],
            "held": [asdict(held) for held in self.held],
            "batches": [_plain(batch) for batch in self.batches],
        }

    def _known_records(self, name: str) -> list[dict] | None:
        records = vars(self).get(name)
        return None if records is None else [_plain(record) for record in records]

    @classmethod
    def from_dict(cls, data: dict) -> "Observation":
        """The inverse of :meth:`to_dict`. Raises KeyError or TypeError on anything else."""
        return cls.running().finish(
            [Op(**_with_line(op)) for op in data["ops"]],
            [Copy(**_with_line(copy)) for copy in data["copies"]],
            data["new_bytes"],
            data["peak_bytes"],
            log=_device_log(data),
            saved=_saved(data),
            batches=[Batch(**_with_line(batch)) for batch in data.get("batches", ())],
        )

    def table(self) -> str:
        """One row for each line of code and operation, as text."""
        from gpulab.observe.table import observation_table

        return observation_table(self)

    def saved_table(self) -> str:
        """One row for each tensor that autograd saved for backward, as text. RuntimeError where nobody asked."""
        from gpulab.observe.saved_table import saved_table

        return saved_table(self)

    def loader_table(self) -> str:
        """One row for each batch that a loop took from a DataLoader, as text."""
        from gpulab.observe.loader_table import loader_table

        return loader_table(self)

    def timeline(self):
        """A figure. With a device: host, streams and copy engines over time.

        Without one: operations in order, bytes alive after each, copies marked.
        """
        if self.device is not None:
            from gpulab.plots.device import device_timeline

            return device_timeline(self)
        from gpulab.plots.memory import memory_timeline

        return memory_timeline(self)

    def __repr__(self) -> str:
        return self.table()


def _plain(record: Any) -> dict:
    """As :func:`dataclasses.asdict`, which copies every string and number, for records that hold nothing deeper than a line."""
    return {name: dict(vars(value)) if isinstance(value, SourceLine) else value for name, value in vars(record).items()}


def _device_log(data: dict) -> DeviceLog:
    log = DeviceLog(data["device"])
    log.launches = [Launch.from_dict(launch) for launch in data["launches"]]
    for collective in data["collectives"]:
        log.posted(Collective(**_with_line(collective) | {"ranks": tuple(collective["ranks"])}))
    log.held = [Held(**held | {"timeline": tuple(map(tuple, held["timeline"]))}) for held in data["held"]]
    if data["kernels"] is None:
        log.blind = True
        return log
    log.kernels = [Kernel(**_with_line(kernel)) for kernel in data["kernels"]]
    log.waits = [Wait(**_with_line(wait)) for wait in data["waits"]]
    log.races = [Race(**_with_line(race, "first_line", "second_line")) for race in data["races"]]
    return log


def _saved(data: dict) -> list[Saved] | None:
    if data.get("saved") is None:
        return None
    return [Saved(**_with_line(saved) | {"shape": tuple(saved["shape"])}) for saved in data["saved"]]


def _with_line(record: dict, *names: str) -> dict:
    lines = {name: record[name] for name in names or ("line",)}
    return {**record, **{n: None if line is None else SourceLine(**line) for n, line in lines.items()}}
