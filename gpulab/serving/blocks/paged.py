"""A paged KV cache: blocks of a few tokens, anywhere in memory, as in vLLM."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import blocks_for, check_size
from gpulab.serving.requests import Live


class Paged:
    """A request holds as many blocks as its tokens fill, and wastes less than one (Kwon et al., SOSP 2023; 16 tokens there
    and in vLLM 0.33.0). When none is free, someone who runs has to be preempted."""

    shares = False

    def __init__(self, total: int, size: int = 16) -> None:
        check_size(total, size)
        self.total, self.size = total, size
        self._free = list(range(total))[::-1]
        self._tables: dict[Live, list[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    def reserve(self, live: Live, tokens: int) -> bool:
        table = self._tables.get(live, [])
        more = blocks_for(live.computed + tokens, self.size) - len(table)
        if more > len(self._free):
            return False
        if more > 0:
            table.extend(self._free.pop() for _ in range(more))
            self._tables[live] = table
        return True

    def release(self, live: Live) -> None:
        self._free.extend(reversed(self._tables.pop(live, [])))

    def table(self, live: Live) -> Sequence[int]:
        return self._tables.get(live, ())
