"""Updates of a weight, one after another in the same memory; the weight is looked at whenever one is asked for."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from gpulab.observe.authors import memory

Note = Callable[..., None]


class Updates:
    """A caller's side of the stream: what it looks at and writes to, no instrument sees, for the virtual card's memory is the host's.

    Notes as it happens: ``look``, the bytes of the whole base tensor; ``held``, bytes on the card beside what was there when
    an update was asked for; ``given``, an update was handed out; ``written``, somebody else wrote to one.
    """

    def __init__(
        self, weight: torch.Tensor, base: torch.Tensor, updates: list[torch.Tensor], turned: bool, note: Note
    ) -> None:
        """``turned``: an update's first dimension is the last in memory."""
        shape, dtype = (updates[0].shape, updates[0].dtype) if updates else (weight.shape, torch.float32)
        self._base, self._updates, self._note, self._turned = base, updates, note, turned
        self._buffer = torch.empty(shape, dtype=dtype, device="cuda")
        self._before = torch.cuda.memory_allocated()
        self._handed: np.ndarray | None = None

    def stream(self) -> Iterator[torch.Tensor]:
        """What a learner is handed: a generator, which has no attributes to write to."""
        for update in self._updates:
            self._asked()
            yield self._filled(update)
        self._asked()

    def look(self) -> None:
        """Note what the weight holds now, and that the update is no more what was handed out."""
        self._note("look", memory(self._base).tobytes())
        if self._handed is not None and not np.array_equal(memory(self._buffer), self._handed):
            self._note("written")

    def _asked(self) -> None:
        self.look()
        self._note("held", torch.cuda.memory_allocated() - self._before)

    def _filled(self, update: torch.Tensor) -> torch.Tensor:
        if update.shape != self._buffer.shape:
            self._buffer = torch.empty(update.shape, dtype=self._buffer.dtype, device="cuda")
        laid_out = update.t() if self._turned else update
        self._handed = laid_out.contiguous().view(-1).view(torch.uint8).numpy()
        memory(self._buffer)[:] = self._handed
        self._note("given")
        return self._buffer.view(laid_out.shape).t() if self._turned else self._buffer
