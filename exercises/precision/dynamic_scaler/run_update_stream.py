"""Updates of a weight, one after another in the same memory; looks at the weight whenever one is asked for."""

import numpy as np
import torch

from gpulab.observe.authors import memory


class Stream:
    """An iterator. What it looks at and writes to, no instrument sees: the virtual card's memory is the host's."""

    def __init__(self, weight: torch.Tensor, base: torch.Tensor, updates: list[torch.Tensor]) -> None:
        shape, dtype = (updates[0].shape, updates[0].dtype) if updates else (weight.shape, torch.float32)
        self._base, self._updates, self._next = base, updates, 0
        self._bytes = [update.contiguous().view(-1).view(torch.uint8).numpy() for update in updates]
        self._buffer = torch.empty(shape, dtype=dtype, device="cuda")
        self._before = torch.cuda.memory_allocated()
        self._looks: list[np.ndarray] = []
        self._held: list[int] = []
        self._unwritten = True

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> torch.Tensor:
        self.look()
        self._held.append(torch.cuda.memory_allocated() - self._before)
        if self._next == len(self._updates):
            raise StopIteration
        if self._updates[self._next].shape != self._buffer.shape:
            self._buffer = torch.empty(self._updates[self._next].shape, dtype=self._buffer.dtype, device="cuda")
        memory(self._buffer)[:] = self._bytes[self._next]
        self._next += 1
        return self._buffer

    def look(self) -> None:
        """Keep what the weight holds now, and whether the update is as it was handed out."""
        self._looks.append(memory(self._base).copy())
        if self._next and not np.array_equal(memory(self._buffer), self._bytes[self._next - 1]):
            self._unwritten = False

    def told(self) -> dict:
        """``looks``: a row of the whole base tensor's elements for each; ``held``: bytes when each update was asked for."""
        looks = torch.empty(len(self._looks), self._base.numel(), dtype=self._base.dtype)
        looks.view(torch.uint8).numpy()[:] = np.stack(self._looks)
        return {"looks": looks, "held": self._held, "unwritten": self._unwritten, "given": self._next}
