"""The interface of a KV cache allocator: which blocks hold the keys and values of which request."""

from collections.abc import Sequence
from typing import Protocol

from gpulab.serving.requests import Live


class Blocks(Protocol):
    """Room for keys and values, in ``total`` blocks of ``size`` tokens each, numbered from 0.

    ``free`` is how many stand in nobody's table; they may still hold what someone computed. ``shares``: whether two tables
    may name the same block, as with a common prefix. The references here say no, and the engine then refuses it.
    """

    total: int
    size: int
    shares: bool

    @property
    def free(self) -> int: ...

    def reserve(self, live: Live, tokens: int) -> bool:
        """Make room for the tokens that ``live`` has computed and ``tokens`` more. False, and nothing changed, if there is none.

        A scheduler may reserve for more than the next step computes: what is in the blocks, ``live.computed`` says alone.
        """
        ...

    def release(self, live: Live) -> None:
        """Take all its blocks back. A request that has none is no error."""
        ...

    def table(self, live: Live) -> Sequence[int]:
        """Its blocks: token t lies in the block at ``t // size`` of this table, at ``t % size``. Empty if it has none."""
        ...

    def found(self, live: Live) -> int:
        """Tokens of ``live``, from the first on, whose keys and values are there already, because another began alike.

        Asked only where ``shares``, before every plan, of requests that wait: they count as computed in it, and a
        ``reserve`` that lets ``live`` in has to put their blocks first into its table. At most all tokens but the last.
        """
        ...

    def copies(self) -> Sequence[tuple[int, int]]:
        """Blocks to be copied, (source, target), one after the other, before the step's tokens are computed; each told once.

        Asked only where ``shares``, after every plan: a request whose next token falls into a block that another holds too
        gets one of its own, with what is in it. An allocator that never copies may leave this method out.
        """
        ...


def blocks_for(tokens: int, size: int) -> int:
    """As many blocks as hold ``tokens``."""
    return -(-tokens // size)


def check_size(total: int, size: int) -> None:
    if total < 1 or size < 1:
        raise ValueError(f"{total} blocks of {size} tokens hold nothing")
