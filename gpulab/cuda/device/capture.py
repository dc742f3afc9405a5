"""Recording operations while a stream is capturing, and running them again.

Nothing runs on a card while a stream captures: what was written meanwhile is undone when the
capture ends. What is recorded is the operation and, for each tensor, which storage it shows and how.
Storages that are there when the capture ends are kept as addresses: from before the capture or made in it, a
replay uses what lies there by then. A temporary that is gone gets plain memory for the run.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gpulab.compat.dispatch import DisableTorchDispatch, DisableTorchFunction
from gpulab.compat.pytree import tree_flatten, tree_map_only
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device import state
from gpulab.cuda.device.accelerator_errors import accelerator_error
from gpulab.cuda.device.addresses import Addresses, Mapped, Place
from gpulab.cuda.device.forks import Forks
from gpulab.cuda.device.memory import extent
from gpulab.cuda.device.op_rules import OpRule
from gpulab.cuda.device.randomness import drawing, numbers_of
from gpulab.cuda.machine.order import Extent

Tensor = torch.Tensor
# Written by batch normalisation, whose schema does not say so.
_WRITTEN_UNSAID = {"running_mean", "running_var"}


@dataclass(frozen=True)
class Shown:
    """A tensor, by the number of its storage and the part of it that it shows."""

    storage: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Node:
    """One recorded operation. ``results``: what it makes anew, by position among its tensors."""

    call: object
    args: tuple
    kwargs: dict
    results: tuple[tuple[int, Shown], ...]
    rule: OpRule | None


@dataclass(frozen=True)
class Kernel:
    """One recorded kernel.

    ``work``: its name, microseconds, threads and operations; ``reads``, ``writes``: storages by number and the bytes of
    them that it touches; ``moved``: bytes read and written.
    """

    work: tuple
    reads: list[tuple[int, Extent]]
    writes: list[tuple[int, Extent]]
    moved: tuple[int, int]


class Capture:
    """The operations and the kernels of one graph. ``pool``: where its memory is; ``origin``: the stream it began in."""

    def __init__(self, generator: torch.Generator, pool: tuple[int, int], origin: int) -> None:
        self._generator, self._drawn_from = generator, generator.get_state()
        self.pool, self.forks, self.failed = pool, Forks(origin), False
        self._saved: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.places: dict[int, Place | None] = {}
        self.kernels: list[Kernel] = []
        self._numbers: dict[int, int] = {}
        self._outside: dict[int, torch.UntypedStorage] = {}
        self._inside: dict[int, weakref.ref] = {}
        self._unrecorded: set[int] = set()
        self._count = 0

    def made(self, storage: torch.UntypedStorage) -> None:
        """The device has taken memory for a new storage."""
        number, key = self._number(storage), storage._cdata
        self._inside[number] = weakref.ref(storage, lambda _: self._numbers.pop(key, None))
        self._unrecorded.add(number)

    def launched(self, stream: int, name, duration_us, threads, flops, reads, writes, *moved) -> None:
        """A kernel has been put into ``stream``; what the machine is told of it."""
        self.check()
        self.forks.work(stream)
        used = [
            [(self._number_of(tensor.untyped_storage()), extent(tensor)) for _, tensor in uses]
            for uses in (reads, writes)
        ]
        self.kernels.append(Kernel((name, duration_us, threads, flops), *used, moved))

    def check(self) -> None:
        """Raise AcceleratorError, as CUDA does, once something in the capture has failed."""
        if self.failed:
            raise accelerator_error(
                "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"
            )

    def before(self, cls, rule: OpRule, args, kwargs) -> None:
        """Keep what an operation that is about to run will write over in storages from outside."""
        for name, value in (*zip(rule.argument_names, args), *kwargs.items()):
            if name in rule.writes_by_name or name in _WRITTEN_UNSAID:
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, cls):
                        self._keep(tensor)

    def _keep(self, tensor: Tensor) -> None:
        number = self._number_of(tensor.untyped_storage())
        if number in self._outside and number not in self._saved:
            self._saved[number] = _bytes(self._outside[number]).clone()

    def end(self, addresses: Addresses) -> None:
        """The capture is over: of the storages that are there, only their places are kept."""
        inside = {number: storage() for number, storage in self._inside.items()}
        there = self._outside | {number: storage for number, storage in inside.items() if storage is not None}
        self.places = {number: addresses.place(storage) for number, storage in there.items()}
        self._outside, self._inside, self._numbers = {}, {}, {}

    def undo(self) -> None:
        """Outside all is as it was, inside nothing has been written yet."""
        guard = DisableTorchDispatch()
        try:
            for number, before in self._saved.items():
                _bytes(self._outside[number]).copy_(before)
            for alive in filter(None, (storage() for storage in self._inside.values())):
                _bytes(alive).zero_()
        finally:
            del guard
        self._saved.clear()
        self._generator.set_state(self._drawn_from)

    def record(self, cls, call, args, kwargs, outputs: list, rule: OpRule | None = None) -> None:
        """Note an operation that has just run. Views are none: every use says what it shows."""
        fresh = [(i, self._shown(t)) for i, t in enumerate(outputs) if self._is_fresh(t)]
        args, kwargs = tree_map_only(cls, self._shown, (args, kwargs))
        self.nodes.append(Node(call, args, kwargs, tuple(fresh), rule))

    def launches(self, mapped: Mapped) -> Iterator[tuple]:
        """What the machine is told of each kernel at a replay."""
        for kernel in self.kernels:
            yield *kernel.work, mapped.uses(kernel.reads), mapped.uses(kernel.writes), *kernel.moved

    def run(self, mapped: Mapped) -> None:
        """All operations again, in order, on the values that lie at their places now."""
        storages = dict(mapped.storages)
        guard = DisableTorchDispatch()
        try:
            # No tensor here asks for a gradient; some kernels keep a workspace only where one might be wanted.
            with torch.enable_grad(), DisableTorchFunction():
                for node in self.nodes:
                    self._run(node, storages)
        finally:
            del guard

    def _run(self, node: Node, storages: dict) -> None:
        args, kwargs = tree_map_only(Shown, lambda s: self._tensor(s, storages), (node.args, node.kwargs))
        out = _drawn(node, args, kwargs)
        made = [t for t in tree_flatten(out)[0] if isinstance(t, Tensor)]
        for position, shown in node.results:
            if shown.storage in self.places:
                self._tensor(shown, storages).copy_(made[position])
            else:
                storages[shown.storage] = made[position].untyped_storage()

    def _tensor(self, shown: Shown, storages: dict) -> Tensor:
        empty = torch.empty(0, dtype=shown.dtype)
        tensor = TensorBase.set_(empty, storages[shown.storage], shown.offset, shown.size, shown.stride)
        return state.tag(tensor) if shown.storage in self.places else tensor

    def _number(self, storage: torch.UntypedStorage) -> int:
        self._count += 1
        self._numbers[storage._cdata] = self._count
        return self._count

    def _number_of(self, storage: torch.UntypedStorage) -> int:
        """Its number; one that has none is from outside."""
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = self._number(storage)
            self._outside[number] = storage
        return number

    def _is_fresh(self, tensor: Tensor) -> bool:
        """Whether the operation that has just run made its storage: said once for each."""
        number = self._numbers.get(tensor.untyped_storage()._cdata)
        fresh = number in self._unrecorded
        self._unrecorded.discard(number)
        return fresh

    def _shown(self, tensor: Tensor) -> Shown:
        number = self._number_of(tensor.untyped_storage())
        return Shown(number, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype)


def _drawn(node: Node, args, kwargs):
    """What the operation returns; if it draws, it draws from where its generator is by now."""
    if node.rule is None and "generator" in kwargs:
        kwargs = {**kwargs, "generator": numbers_of(kwargs["generator"])}
    if node.rule is None or not node.rule.random:
        return node.call(*args, **kwargs)
    with drawing(state.device_on(), node.rule, args, kwargs) as (args, kwargs):
        return node.call(*args, **kwargs)


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    guard = DisableTorchDispatch()
    try:
        empty = torch.empty(0, dtype=torch.uint8)
        return TensorBase.set_(empty, storage)
    finally:
        del guard
