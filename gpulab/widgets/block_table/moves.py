"""What a scripted story of a paged KV cache does to its blocks: it says which block is taken, this only keeps the books.

Nothing here decides anything: which block is free, when one is copied and who may share is written in the story, move by move.

=========================  ====================================================================================
``take seq block``         a block that nobody holds becomes the last of the table; a sequence begins with its first
``fill seq tokens``        so many tokens are computed and written behind the others
``share seq blocks n``     a new sequence begins with n tokens that lie in these blocks already
``copy seq old new``       the tokens in the table's last block are copied into one that nobody holds, which takes its place
``drop seq``               the sequence is gone, and so is its table
=========================  ====================================================================================
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

Move = tuple


class Event(NamedTuple):
    """One step of a story: what happens in words, and move by move."""

    say: str
    moves: Sequence[Move] = ()


@dataclass(frozen=True)
class Story:
    """total blocks of ``size`` tokens. keeps: whether a full block of which the last owner is gone can still be found."""

    name: str
    total: int
    size: int
    keeps: bool
    sequences: str
    events: Sequence[Event]

    def frames(self) -> list["Frame"]:
        """How all stands after each event. Raises ValueError for a move that no cache could make."""
        books, found = Frame.empty(self.total), []
        for event in self.events:
            for move in event.moves:
                make(move, books, self)
            found.append(Frame(**asdict(books)))
        return found


@dataclass
class Frame:
    """tables, lengths: of each sequence, blocks and tokens. counts: of each block, the tables that name it; filled: tokens in it;
    kept: in no table, and findable. computed, copied, shared: tokens so far."""

    counts: list[int]
    filled: list[int]
    kept: list[bool]
    tables: dict[str, list[int]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    computed: int = 0
    copied: int = 0
    shared: int = 0

    @classmethod
    def empty(cls, total: int) -> "Frame":
        return cls([0] * total, [0] * total, [False] * total)


def make(move: Move, frame: Frame, story: Story) -> None:
    """Change ``frame`` by one move. Raises ValueError, with nothing changed, for one that no cache could make, and KeyError for a
    sequence that is not there."""
    name, *rest = move
    getattr(_Books(frame, story), name)(*rest)


class _Books:
    """The moves, each checked before it changes anything."""

    def __init__(self, frame: Frame, story: Story) -> None:
        self.frame, self.story = frame, story

    def take(self, sequence: str, block: int) -> None:
        frame = self.frame
        _need(not frame.counts[block], f"block {block} is held")
        frame.tables.setdefault(sequence, []).append(block)
        frame.lengths.setdefault(sequence, 0)
        self._new(block, 0)

    def fill(self, sequence: str, tokens: int) -> None:
        frame, size = self.frame, self.story.size
        table, length = frame.tables[sequence], frame.lengths[sequence]
        _need(length + tokens <= len(table) * size, f"{sequence} has no room for {tokens} tokens")
        written = {table[token // size] for token in range(length, length + tokens)}
        _need(all(frame.counts[block] == 1 for block in written), f"{sequence} would write where another reads")
        for token in range(length, length + tokens):
            frame.filled[table[token // size]] = token % size + 1
        frame.lengths[sequence] += tokens
        frame.computed += tokens

    def share(self, sequence: str, blocks: Sequence[int], tokens: int) -> None:
        frame, size = self.frame, self.story.size
        _need(sequence not in frame.tables, f"{sequence} is there")
        _need(all(frame.counts[block] or frame.kept[block] for block in blocks), "a free block holds nothing")
        held = [min(size, tokens - size * place) for place in range(len(blocks))]
        _need(
            all(0 < due <= frame.filled[block] for due, block in zip(held, blocks, strict=True)),
            "not all of it lies there",
        )
        _need(tokens <= size * len(blocks), "not all of it lies there")
        frame.tables[sequence], frame.lengths[sequence] = list(blocks), tokens
        for block in blocks:
            frame.counts[block] += 1
            frame.kept[block] = False
        frame.shared += tokens

    def copy(self, sequence: str, old: int, new: int) -> None:
        frame, size = self.frame, self.story.size
        tokens = (frame.lengths[sequence] - 1) % size + 1
        _need(
            frame.tables[sequence][-1] == old and frame.counts[old] > 1 and tokens < size,
            f"no need to copy block {old}",
        )
        _need(not frame.counts[new], f"block {new} is held")
        frame.tables[sequence][-1] = new
        frame.counts[old] -= 1
        self._new(new, tokens)
        frame.copied += tokens

    def drop(self, sequence: str) -> None:
        frame = self.frame
        del frame.lengths[sequence]
        for block in frame.tables.pop(sequence):
            frame.counts[block] -= 1
            if frame.counts[block]:
                continue
            frame.kept[block] = self.story.keeps and frame.filled[block] == self.story.size
            frame.filled[block] *= frame.kept[block]

    def _new(self, block: int, filled: int) -> None:
        frame = self.frame
        frame.counts[block], frame.filled[block], frame.kept[block] = 1, filled, False


def _need(holds: bool, said: str) -> None:
    if not holds:
        raise ValueError(said)
