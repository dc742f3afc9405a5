"""A launch's arguments: tensors and NumPy arrays become arrays of global memory, in place."""

from collections.abc import Iterator

import numpy as np
import torch

from gpulab.compat.dispatch import DisableTorchDispatch
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device.transfer import plain
from gpulab.cuda.errors import GhostHasNoValues
from gpulab.kernels.errors import LaunchError
from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.lanes import compact
from gpulab.kernels.simt.races import Shadow
from gpulab.kernels.simt.values import literal
from gpulab.observe.launches import ArrayUse


class Argument:
    """One array that a launch was given. ``memory``: a NumPy view of its elements; ``base_bytes``:
    where it begins in its allocation; ``tensor``: the torch tensor that it came as, if it did;
    ``parameter``: the kernel's name for it, or for the tuple that it is a part of.
    """

    def __init__(self, name: str, memory: np.ndarray, base_bytes: int, tensor: torch.Tensor | None) -> None:
        self.name, self.memory, self.base_bytes, self.tensor = name, memory, base_bytes, tensor
        self.parameter = name.partition("[")[0]

    def extent(self) -> tuple[int, int]:
        """First byte of its memory and the end of it."""
        return np.lib.array_utils.byte_bounds(self.memory) if self.memory.size else (0, 0)


def read_argument(name: str, value):
    """An :class:`Argument` for an array, a NumPy scalar for a number, a tuple of them for a tuple.

    Parts of a tuple ``pair`` are called ``pair[0]``, ``pair[1]``.

    Raises LaunchError for anything that Numba has no type for.
    """
    if isinstance(value, torch.Tensor):
        return _tensor(name, value)
    if isinstance(value, np.ndarray) and value.ndim:
        return Argument(name, _plain(name, value), _offset_in_allocation(value), None)
    if isinstance(value, np.ndarray):
        return Argument(name, _plain(name, value), 0, None)
    if isinstance(value, tuple):
        parts = [read_argument(f"{name}[{i}]", part) for i, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    number = literal(value)
    if number is None:
        raise LaunchError(
            f"the argument {name} is a {type(value).__name__}: a kernel takes tensors, NumPy arrays, "
            "numbers and tuples of these"
        )
    return number


def arguments_in(values) -> Iterator[Argument]:
    """The arrays among a launch's arguments, those in tuples too."""
    for value in values:
        if isinstance(value, tuple):
            yield from arguments_in(value)
        elif isinstance(value, Argument):
            yield value


def _tensor(name: str, tensor: torch.Tensor) -> Argument:
    if tensor.requires_grad:
        raise LaunchError(f"{name} requires grad: autograd does not see a kernel of yours. Pass {name}.detach()")
    if tensor.dtype == torch.bfloat16:
        raise LaunchError(f"{name} is bfloat16, which NumPy and this interpreter do not have: use float32 or float16")
    if tensor.layout is not torch.strided:
        raise LaunchError(f"{name} holds no values that a thread could index ({tensor.device}, {tensor.layout})")
    memory = _host_view(tensor)
    return Argument(name, memory, tensor.storage_offset() * tensor.element_size(), tensor)


def _host_view(tensor: torch.Tensor) -> np.ndarray:
    # The learner's kernel touches the elements; looking at them is no operation of PyTorch's.
    guard = DisableTorchDispatch()
    try:
        memory = plain(tensor)
        if memory.is_meta:
            raise GhostHasNoValues()
        return TensorBase.numpy(memory)
    finally:
        del guard


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biufc" or not array.dtype.isnative:
        raise LaunchError(f"{name} has dtype {array.dtype}: a kernel takes numbers")
    return array


def _offset_in_allocation(array: np.ndarray) -> int:
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return array.ctypes.data - root.ctypes.data


def as_array(argument: Argument, history: Shadow | None, start: int, tracing: bool) -> "GlobalArray":
    """The argument as a kernel indexes it. ``start``: its first element in the shared history."""
    memory, item = argument.memory, argument.memory.itemsize
    strides = tuple(s // item for s in memory.strides)
    if any(s < 0 or s % item for s in memory.strides):
        raise LaunchError(f"{argument.name} has strides of {memory.strides} bytes: make it contiguous first")
    span = 1 + sum((n - 1) * s for n, s in zip(memory.shape, strides)) if memory.size else 0
    flat = np.lib.stride_tricks.as_strided(memory, (span,), (item,), writeable=memory.flags.writeable)
    return GlobalArray(argument, flat, strides, None if history is None else _Part(history, start), tracing)


class GlobalArray(Array):
    """An argument. Arrays that overlap share one history of accesses."""

    def __init__(self, argument: Argument, flat, strides, shadow, tracing: bool) -> None:
        super().__init__(argument.name, flat, argument.memory.shape, strides, argument.base_bytes, shadow)
        self.argument = argument
        self._read = np.zeros(len(flat) if tracing else 0, dtype=bool)
        self._written = np.zeros(len(flat) if tracing else 0, dtype=bool)
        self._loads = self._stores = 0
        self._atomics: np.ndarray | None = None
        self._by_thread: np.ndarray | None = None

    def _count(self, group, mask, at, place, store) -> None:
        super()._count(group, mask, at, place, store)
        if group.launch.trace is None:
            return
        if store:
            self._stores += mask.active
            self._written[at] = True
            self._count_threads(group, mask)
        else:
            self._loads += mask.active
            self._read[at] = True

    def _count_atomic(self, group, mask, at, place) -> None:
        super()._count_atomic(group, mask, at, place)
        if group.launch.trace is None:
            return
        if self._atomics is None:
            self._atomics = np.zeros(len(self.flat), dtype=np.int64)
        np.add.at(self._atomics, at, 1)
        self._loads += mask.active
        self._stores += mask.active
        self._read[at] = self._written[at] = True
        self._count_threads(group, mask)

    def _count_threads(self, group, mask) -> None:
        """One more store of each thread in ``mask``."""
        if self._by_thread is None:
            shape = group.batch.shape
            self._by_thread = np.zeros(shape.blocks * shape.lanes, dtype=np.int32)
        self._by_thread[compact(group.who, mask, group.size)] += 1

    def use(self) -> ArrayUse:
        """What the launch has done to it so far."""
        item = self.dtype.itemsize
        read, written = (item * int(np.count_nonzero(seen)) for seen in (self._read, self._written))
        size = int(self.argument.memory.size) * item
        done = (0, 0) if self._atomics is None else (int(self._atomics.sum()), int(self._atomics.max()))
        most = 0 if self._by_thread is None else int(self._by_thread.max())
        return ArrayUse(self.name, size, self._loads * item, read, self._stores * item, written, *done, most)

    def written_bytes(self) -> np.ndarray:
        """For every byte from the first element on, whether the launch wrote it."""
        return np.repeat(self._written, self.dtype.itemsize)


class _Part:
    """A shadow seen by an array that begins at its element ``start``."""

    def __init__(self, history: Shadow, start: int) -> None:
        self._history, self._start = history, start

    def read(self, at, mine, floor, place):
        return self._history.read(at + self._start, mine, floor, place)

    def write(self, at, mine, floor, place):
        return self._history.write(at + self._start, mine, floor, place)

    def atomic(self, at, mine, floor, place, acquires):
        return self._history.atomic(at + self._start, mine, floor, place, acquires)


def histories(arguments: list[Argument], used: dict[str, set[str]], threads: int, warn, releases) -> dict[str, tuple]:
    """For each argument that a kernel writes, or that overlaps one: its history and where it begins.

    ``used``: by name, which of ``read``, ``write`` and ``atomic`` the kernel does.
    """
    found: dict[str, tuple] = {}
    for together in _overlapping(arguments):
        kinds = set().union(*(used.get(argument.parameter, set()) for argument in together))
        if not kinds & {"write", "atomic"}:
            continue
        items = {argument.memory.itemsize for argument in together}
        if len(items) > 1:
            names = ", ".join(argument.name for argument in together)
            warn(f"{names} overlap with elements of different sizes: races between them are not looked for")
            continue
        item, low = items.pop(), min(argument.extent()[0] for argument in together)
        size = (max(argument.extent()[1] for argument in together) - low) // item
        reads, atomics = "read" in kinds, "atomic" in kinds
        history = Shadow(size, False, threads, reads=reads, atomics=atomics, releases=releases)
        for argument in together:
            found[argument.name] = (history, (argument.extent()[0] - low) // item)
    return found


def _overlapping(arguments: list[Argument]) -> list[list[Argument]]:
    groups: list[list[Argument]] = []
    end = -1
    for argument in sorted((a for a in arguments if a.memory.size), key=Argument.extent):
        low, high = argument.extent()
        if low < end:
            groups[-1].append(argument)
        else:
            groups.append([argument])
        end = max(end, high)
    return groups
