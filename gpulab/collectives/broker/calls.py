"""A rank's call of a collective or message, as the broker parses it."""

from dataclasses import dataclass, field

from gpulab.collectives.wire import BadMessage
from gpulab.observe.records import SourceLine

MESSAGES = ("send", "recv")
_HANDS_ALL_IN = ("send", "all_reduce", "reduce")
"""By these every rank hands in as many bytes as it says that all agree on."""


@dataclass
class Call:
    """A rank's part in one collective, or one end of a message.

    ``whole``: bytes by which the ranks must agree; -1 where each has its own. ``gives`` and ``takes``: bytes by
    rank of the group, where they differ from rank to rank. ``ghost``: sizes without values. ``came``: the broker's
    own number for it, in the order in which calls came.
    """

    rank: int
    number: int
    operation: str
    group: str
    ranks: tuple[int, ...]
    sequence: int
    dtype: str
    whole: int
    shape: str
    reduces: str
    root: int
    peer: int
    tag: int
    gives: tuple[int, ...]
    takes: tuple[int, ...]
    size: int
    ghost: bool
    ready_us: float
    line: SourceLine | None
    stamp: int
    payload: bytearray = field(repr=False, default_factory=bytearray)
    came: int = 0

    @property
    def is_message(self) -> bool:
        return self.operation in MESSAGES

    def agrees_on(self) -> tuple:
        """What all ranks of a collective must say alike."""
        return self.operation, self.dtype, self.whole, self.reduces, self.root


def call_of(rank: int, meta: dict, payload: bytearray, world_size: int, ghosts: bool = True) -> Call:
    """Raises BadMessage for what no rank of ours sends."""
    try:
        call = Call(rank=rank, payload=payload, line=source_line(meta["line"]), **_checked(meta))
    except (KeyError, TypeError, ValueError) as error:
        raise BadMessage(str(error)) from None
    inside = all(0 <= other < world_size for other in call.ranks)
    if not inside or rank not in call.ranks or len(set(call.ranks)) != len(call.ranks):
        raise BadMessage(f"a group of ranks {call.ranks}")
    if call.is_message and call.peer not in call.ranks:
        raise BadMessage(f"a message to rank {call.peer}")
    if len(payload) != (0 if call.ghost else call.size):
        raise BadMessage(f"{call.size} bytes were announced, {len(payload)} came")
    if call.ghost and not ghosts:
        raise BadMessage("bytes without values, where all have values")
    if call.operation in _HANDS_ALL_IN and call.whole != call.size:
        raise BadMessage(f"{call.operation} of {call.whole} bytes, of which {call.size} are handed in")
    return call


def source_line(data: dict | None) -> SourceLine | None:
    if data is None:
        return None
    return SourceLine(str(data["file"]), int(data["number"]), str(data["text"]), str(data["function"]))


_INTEGERS = ("number", "sequence", "whole", "root", "peer", "tag", "size", "stamp")
_TEXTS = ("operation", "group", "dtype", "shape", "reduces")
_MANY = ("ranks", "gives", "takes")


def _checked(meta: dict) -> dict:
    fields = {name: int(meta[name]) for name in _INTEGERS}
    fields |= {name: str(meta[name])[:200] for name in _TEXTS}
    fields |= {name: tuple(int(value) for value in meta[name]) for name in _MANY}
    return fields | {"ghost": bool(meta["ghost"]), "ready_us": float(meta["ready_us"])}
