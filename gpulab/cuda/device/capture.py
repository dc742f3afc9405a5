"""Recording operations while a stream is capturing, and running them again.

Nothing runs on a card while a stream captures: what was written meanwhile is undone when the
capture ends. What is recorded is the operation and, for each tensor, which storage it shows and how. A
storage from before the capture is used again as it then is. One made inside is written again
in place while the program holds it; a temporary that is gone gets plain memory for the run.
"""

import weakref
from dataclasses import dataclass

import torch

from gpulab.compat.dispatch import DisableTorchDispatch, DisableTorchFunction
from gpulab.compat.pytree import tree_flatten, tree_map_only
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device import state
from gpulab.cuda.device.op_rules import OpRule
from gpulab.cuda.device.randomness import drawing

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


class Capture:
    """The operations and the kernels of one graph."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator, self._drawn_from = generator, generator.get_state()
        self._saved: dict[int, Tensor] = {}
        self.nodes: list[Node] = []
        self.kernels: list[tuple] = []
        self._numbers: dict[int, int] = {}
        self._outside: dict[int, torch.UntypedStorage] = {}
        self._inside: dict[int, weakref.ref] = {}
        self._unrecorded: set[int] = set()
        self._count = 0

    def made(self, storage: torch.UntypedStorage) -> None:
        """The device has taken memory for a new storage."""
        number = self._number(storage)
        self._inside[number] = weakref.ref(storage)
        self._unrecorded.add(number)

    def before(self, cls, rule: OpRule, args, kwargs) -> None:
        """Keep what an operation that is about to run will write over in storages from outside."""
        for name, value in (*zip(rule.argument_names, args), *kwargs.items()):
            if name in rule.writes_by_name or name in _WRITTEN_UNSAID:
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, cls):
                        self._keep(tensor)

    def _keep(self, tensor: Tensor) -> None:
        number = self._shown(tensor).storage
        if number in self._outside and number not in self._saved:
            self._saved[number] = _bytes(self._outside[number]).clone()

    def undo(self) -> None:
        """The capture ends: outside all is as it was, inside nothing has been written yet."""
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

    def run(self) -> None:
        """All operations again, in order, on the values that the storages have now."""
        temporaries: dict[int, torch.UntypedStorage] = {}
        guard = DisableTorchDispatch()
        try:
            # No tensor here asks for a gradient; some kernels keep a workspace only where one might be wanted.
            with torch.enable_grad(), DisableTorchFunction():
                for node in self.nodes:
                    self._run(node, temporaries)
        finally:
            del guard

    def _run(self, node: Node, temporaries: dict) -> None:
        args, kwargs = tree_map_only(Shown, lambda s: self._tensor(s, temporaries), (node.args, node.kwargs))
        if node.rule is None or node.rule.random != "default":  # what takes a generator has kept it
            out = node.call(*args, **kwargs)
        else:
            with drawing(state.device_on(), node.rule, args, kwargs) as (args, kwargs):
                out = node.call(*args, **kwargs)
        made = [t for t in tree_flatten(out)[0] if isinstance(t, Tensor)]
        for position, shown in node.results:
            alive = self._inside[shown.storage]()
            if alive is None:
                temporaries[shown.storage] = made[position].untyped_storage()
            else:
                self._tensor(shown, temporaries).copy_(made[position])

    def _tensor(self, shown: Shown, temporaries: dict) -> Tensor:
        storage = self._storage(shown.storage, temporaries)
        empty = torch.empty(0, dtype=shown.dtype)
        tensor = TensorBase.set_(empty, storage, shown.offset, shown.size, shown.stride)
        return state.tag(tensor) if state.device_on().memory.holds(storage) else tensor

    def _storage(self, number: int, temporaries: dict) -> torch.UntypedStorage:
        if number in self._outside:
            return self._outside[number]
        alive = self._inside[number]()
        return temporaries[number] if alive is None else alive

    def _number(self, storage: torch.UntypedStorage) -> int:
        self._count += 1
        self._numbers[storage._cdata] = self._count
        return self._count

    def _is_fresh(self, tensor: Tensor) -> bool:
        """Whether the operation that has just run made its storage: said once for each."""
        number = self._numbers.get(tensor.untyped_storage()._cdata)
        fresh = number in self._unrecorded
        self._unrecorded.discard(number)
        return fresh

    def _shown(self, tensor: Tensor) -> Shown:
        storage = tensor.untyped_storage()
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = self._number(storage)
            self._outside[number] = storage
        return Shown(number, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype)


def _bytes(storage: torch.UntypedStorage) -> Tensor:
    guard = DisableTorchDispatch()
    try:
        empty = torch.empty(0, dtype=torch.uint8)
        return TensorBase.set_(empty, storage)
    finally:
        del guard
