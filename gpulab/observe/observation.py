"""The Observation: plain data about one block of code, with its table and its figure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch

from gpulab.observe.records import Copy, Op, SourceLine


class Observation:
    """What PyTorch did while a block ran.

    ops: tuple of :class:`Op`, in order.
    copies: tuple of :class:`Copy`, in order: the operations that only moved elements.
    new_bytes: bytes of storage allocated inside the block.
    peak_bytes: most bytes of that storage alive at once.
    """

    ops: tuple[Op, ...]
    copies: tuple[Copy, ...]
    new_bytes: int
    peak_bytes: int

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
    ) -> "Observation":
        self.ops, self.copies = tuple(ops), tuple(copies)
        self.new_bytes, self.peak_bytes = new_bytes, peak_bytes
        self._origin = origin
        return self

    def __getattr__(self, name: str):
        if name in ("ops", "copies", "new_bytes", "peak_bytes"):
            raise RuntimeError(f"{name} is known after the observe() block ends: read it below it")
        raise AttributeError(name)

    @property
    def copied_bytes(self) -> int:
        """Bytes written by all copies together."""
        return sum(copy.bytes for copy in self.copies)

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

    def to_dict(self) -> dict:
        """Lists, strings and integers only."""
        return {
            "ops": [asdict(op) for op in self.ops],
            "copies": [asdict(copy) for copy in self.copies],
            "new_bytes": self.new_bytes,
            "peak_bytes": self.peak_bytes,
        }

    @classmethod
    def from_dict(cls, data: dict) -> "Observation":
        """The inverse of :meth:`to_dict`. Raises KeyError or TypeError on anything else."""
        return cls.running().finish(
            [Op(**_with_line(op)) for op in data["ops"]],
            [Copy(**_with_line(copy)) for copy in data["copies"]],
            data["new_bytes"],
            data["peak_bytes"],
        )

    def table(self) -> str:
        """One row for each line of code and operation, as text."""
        from gpulab.observe.table import observation_table

        return observation_table(self)

    def timeline(self):
        """A figure: operations in order, bytes alive after each, copies marked."""
        from gpulab.plots.memory import memory_timeline

        return memory_timeline(self)

    def __repr__(self) -> str:
        return self.table()


def _with_line(record: dict) -> dict:
    line = record["line"]
    return {**record, "line": None if line is None else SourceLine(**line)}
