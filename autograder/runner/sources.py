"""Whether kernels worked on what they were handed, and on nothing that came about elsewhere."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from gpulab.observe.authors import memory
from gpulab.observe.launches import Launch

_POISON = 0xFF
"""Not a number in every floating-point format, -1 in every integer one."""


class Sources:
    """Fed before and after each launch; ``problem`` says the parameter by which a kernel read what it should not have.

    handed: the tensors that the learner's function was given. A kernel may read those, as they
    were handed over, and what kernels wrote; zeros may come from anywhere. All other memory is
    poisoned while a launch runs, since somebody may have put the answer there.
    """

    def __init__(self, handed: Iterable[torch.Tensor]) -> None:
        # The tensors are kept: a storage that is freed could give its number to another.
        self._known: dict[int, tuple[torch.Tensor, np.ndarray]] = {}
        # By parameter: the bytes of an array, and what they were.
        self._strange: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.problem = ""
        for tensor in handed:
            self._know(tensor)

    def before(self, arguments: dict[str, Any]) -> None:
        """A launch with these arguments, by parameter, is about to run."""
        poisoned: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._strange = {name: list(self._poisoned(value, poisoned)) for name, value in arguments.items()}

    def after(self, launch: Launch, written: Iterable[tuple[torch.Tensor, np.ndarray]] = ()) -> None:
        """It ran, and wrote those tensors."""
        for use in launch.arrays:
            strange = self._strange.get(use.array.partition("[")[0], [])
            if not use.written_bytes:
                _put_back(strange)
            if strange and use.read_bytes and not use.written_bytes:
                self.problem = self.problem or f"{use.array:.30}"
        for tensor, _ in written:
            self._know(tensor)

    def _poisoned(self, value: Any, already: dict) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The tensors in an argument that nobody accounts for: their bytes, poisoned, and what they were.

        ``already``: those of the launch's other arguments, by address.
        """
        if isinstance(value, tuple):
            for part in value:
                yield from self._poisoned(part, already)
            return
        value = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
        if isinstance(value, torch.Tensor) and (held := memory(value)).any() and not self._is_known(value, held):
            if held.ctypes.data not in already:
                already[held.ctypes.data] = held, held.copy()
                held[...] = _POISON
            yield already[held.ctypes.data]

    def _is_known(self, tensor: torch.Tensor, held: np.ndarray) -> bool:
        _, bytes_then = self._known.get(tensor.untyped_storage()._cdata, (None, None))
        return bytes_then is not None and np.array_equal(bytes_then, held)

    def _know(self, tensor: torch.Tensor) -> None:
        self._known[tensor.untyped_storage()._cdata] = tensor, memory(tensor).copy()


def _put_back(strange: list[tuple[np.ndarray, np.ndarray]]) -> None:
    for held, were in strange:
        held[...] = were
