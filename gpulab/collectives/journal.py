"""What crossed between ranks, as the broker saw it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from gpulab.observe.columns import columns
from gpulab.observe.records import SourceLine
from gpulab.units import format_bytes


@dataclass(frozen=True)
class Entry:
    """One collective of a group, or one message from a rank to another.

    Facts, counted where the bytes passed: ``order`` (in which it was complete), ``operation``, ``reduces``,
    ``dtype``, ``bytes`` (of the whole, as in :class:`gpulab.observe.Collective`; of an all-to-all what the rank that
    gives most gives), ``group``, ``ranks`` (of a message the sender, then the receiver), ``sent`` (the bytes that each of
    ``ranks`` handed in), ``came`` (for each of ``ranks`` the place of its part among all that was asked for: what a rank
    asked for first came first).

    By the clocks of the ranks: ``ready_us`` of each of ``ranks``, ``start_us`` and ``end_us``, in modelled
    microseconds. By what the ranks say: ``lines``, and ``stamps`` (whatever number a rank's instrument puts on
    what it posts). A grader bounds these by what else it knows.
    """

    order: int
    operation: str
    bytes: int
    dtype: str
    reduces: str
    group: str
    ranks: tuple[int, ...]
    sent: tuple[int, ...]
    ready_us: tuple[float, ...]
    start_us: float
    end_us: float
    lines: tuple[SourceLine | None, ...]
    stamps: tuple[int, ...] = ()
    came: tuple[int, ...] = ()

    @property
    def us(self) -> float:
        """How long it took, once the last rank had come."""
        return self.end_us - self.start_us

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> "Entry":
        """The inverse of :meth:`to_dict`, from lists too. Raises KeyError or TypeError on anything else."""
        lists = {name: tuple(data[name]) for name in ("ranks", "sent", "ready_us", "stamps", "came")}
        lines = tuple(None if line is None else SourceLine(**line) for line in data["lines"])
        return cls(**{**data, **lists, "lines": lines})


def table(journal: Iterable[Entry]) -> str:
    """One row for each entry, 80 columns wide."""
    rows = [("", "code", "operation", "bytes", "dtype", "ranks", "start us", "took us")]
    for number, entry in enumerate(journal):
        what = f"{entry.operation} {entry.reduces}".strip()
        who = (" -> " if entry.operation == "send" else " ").join(map(str, entry.ranks))
        line = next((line for line in entry.lines if line is not None), "")
        size = format_bytes(entry.bytes)
        rows.append((str(number), str(line), what, size, entry.dtype, who, f"{entry.start_us:.1f}", f"{entry.us:.1f}"))
    return "\n".join(columns(rows, left=(2, 4, 5))) if len(rows) > 1 else "Nothing crossed between the ranks."
