"""A contiguous KV cache: one piece for each request, as long as it can become, as servers did before vLLM."""

from collections.abc import Sequence

from gpulab.serving.blocks.blocks import blocks_for, check_size
from gpulab.serving.requests import Live


class Contiguous:
    """Room for prompt and longest output in one piece, the first gap that is wide enough, taken when a request is let in.

    Nobody is ever preempted for want of room. The price is what an output might have needed and did not, and gaps that
    are too narrow for anyone: in the systems of that time 20.4 % to 38.2 % of the cache held tokens
    (Kwon et al., SOSP 2023).
    """

    shares = False

    def __init__(self, total: int, size: int = 1) -> None:
        check_size(total, size)
        self.total, self.size = total, size
        self._pieces: dict[Live, range] = {}

    @property
    def free(self) -> int:
        return self.total - sum(map(len, self._pieces.values()))

    def reserve(self, live: Live, tokens: int) -> bool:
        if live in self._pieces:
            return True
        wide = blocks_for(live.longest, self.size)
        for start, stop in self._gaps():
            if stop - start >= wide:
                self._pieces[live] = range(start, start + wide)
                return True
        return False

    def release(self, live: Live) -> None:
        self._pieces.pop(live, None)

    def table(self, live: Live) -> Sequence[int]:
        return self._pieces.get(live, range(0))

    def _gaps(self) -> list[tuple[int, int]]:
        """First block of every gap, and the one after its last."""
        pieces = sorted(self._pieces.values(), key=lambda piece: piece.start)
        starts, stops = [0, *(piece.stop for piece in pieces)], [*(piece.start for piece in pieces), self.total]
        return list(zip(starts, stops, strict=True))
