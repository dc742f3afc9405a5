"""What was compiled and what one call launches, as plain data."""

from dataclasses import asdict, dataclass

from gpulab.observe.records import SourceLine
from gpulab.units import format_bytes, plural


@dataclass(frozen=True)
class FusedKernel:
    """One kernel that a call launches.

    ``kind``: ``triton``, one that Inductor generates, whose ``source`` is given; ``library``, a call
    into PyTorch's own (cuBLAS on a GPU). ``ops``: PyTorch's operations that went into it. ``lines``:
    the learner's lines that they came from. Bytes: each tensor it reads and writes, once.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    lines: tuple[SourceLine, ...]
    bytes_read: int
    bytes_written: int
    source: str = ""

    @classmethod
    def from_dict(cls, data: dict) -> "FusedKernel":
        lines = tuple(SourceLine(**line) for line in data["lines"])
        return cls(**{**data, "ops": tuple(data["ops"]), "lines": lines})


@dataclass(frozen=True)
class Call:
    """The kernels of one call, in order."""

    kernels: tuple[FusedKernel, ...]

    @property
    def bytes_read(self) -> int:
        return sum(kernel.bytes_read for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        return sum(kernel.bytes_written for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """Bytes moved between the chip and its memory."""
        return self.bytes_read + self.bytes_written

    def __str__(self) -> str:
        head = f"{plural(len(self.kernels), 'kernel')}, {format_bytes(self.bytes)} moved"
        rows = [
            f"  {kernel.name}: {', '.join(kernel.ops)} ({format_bytes(kernel.bytes_read + kernel.bytes_written)})"
            for kernel in self.kernels
        ]
        return "\n".join([head, *rows])


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo gave up on one graph: the learner's line and the reason in its words."""

    line: SourceLine | None
    reason: str
    explanation: str = ""


@dataclass(frozen=True)
class Recompilation:
    """A call did not fit what had been compiled. ``reasons``: the guards that failed."""

    function: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What :func:`gpulab.kernels.fusion.watch` saw.

    ``calls``: one for each call, with the compiled kernels that it launched; what ran in Python between
    graphs is not in them. ``graphs``: compiled so far, recompilations included.
    """

    calls: tuple[Call, ...]
    graphs: int
    graph_breaks: tuple[GraphBreak, ...]
    recompilations: tuple[Recompilation, ...]

    def to_dict(self) -> dict:
        """Lists, strings and integers only."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Report":
        """The inverse of :meth:`to_dict`. Raises KeyError or TypeError on anything else."""
        return cls(
            tuple(Call(tuple(FusedKernel.from_dict(kernel) for kernel in call["kernels"])) for call in data["calls"]),
            data["graphs"],
            tuple(
                GraphBreak(**{**found, "line": found["line"] and SourceLine(**found["line"])})
                for found in data["graph_breaks"]
            ),
            tuple(Recompilation(found["function"], tuple(found["reasons"])) for found in data["recompilations"]),
        )

    def __str__(self) -> str:
        head = (
            f"{plural(len(self.calls), 'call')}, {plural(self.graphs, 'graph')} compiled, "
            f"{plural(len(self.graph_breaks), 'graph break')}, {plural(len(self.recompilations), 'recompilation')}"
        )
        breaks = [f"  graph break: {found.line or 'no line of yours'}  ({found.reason})" for found in self.graph_breaks]
        again = [f"  recompiled {found.function}: {'; '.join(found.reasons)}" for found in self.recompilations]
        last = [f"last call: {self.calls[-1]}"] if self.calls else []
        return "\n".join([head, *breaks, *again, *last])
