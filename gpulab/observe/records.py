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
    it returned.
    """

    op: str
    new_bytes: int
    live_bytes: int
    line: SourceLine | None


@dataclass(frozen=True)
class Copy:
    """One operation that moved elements and computed nothing.

    ``kind``: ``clone``, ``cast``, ``copy_``, ``gather``, ``cat`` or ``pad``.
    ``bytes``: bytes written to the destination.
    """

    kind: str
    op: str
    bytes: int
    line: SourceLine | None
