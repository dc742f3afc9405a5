"""``track()``: what holds the bytes of one device while a block runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gpulab.compat.autograd import current_graph_task
from gpulab.compat.dispatch import DispatchMode
from gpulab.memory.categories import Bytes
from gpulab.memory.lifetimes import Ledger, Moment
from gpulab.memory.owners import Owners, storages
from gpulab.memory.resizes import heard
from gpulab.memory.table import table
from gpulab.observe import records
from gpulab.observe.arguments import tensors_of
from gpulab.observe.device import record_held
from gpulab.observe.errors import InstrumentError


class Held:
    """What is held, and was. All figures are bytes of the model's device, as they were asked for."""

    def __init__(self, watch: "_Watch") -> None:
        self._watch = watch
        self._last: Bytes | None = None

    @property
    def now(self) -> Bytes:
        """What is held at this moment; after the block, what was held at its end."""
        if self._last is not None:
            return self._last
        self._watch.look()
        return self._watch.ledger.now()

    @property
    def peak(self) -> Bytes:
        """What was held when the sum was largest."""
        self._look_once_more()
        return self._watch.ledger.at(self._watch.ledger.peak_moment)

    @property
    def peak_at(self) -> Moment:
        """After which operation, and in which phase, the sum was largest."""
        return self._watch.ledger.moments[self._watch.ledger.peak_moment]

    @property
    def timeline(self) -> list[tuple[str, Bytes]]:
        """``("backward: aten.mm", Bytes)`` for every operation after which something else was held."""
        self._look_once_more()
        return [
            (f"{at.phase}: {at.operation}" if at.operation else at.phase, held)
            for at, held in self._watch.ledger.changes()
        ]

    def table(self) -> str:
        """The kinds at the peak and now, in at most 80 columns."""
        return table(self.peak, self.now, self.peak_at)

    def record(self) -> records.Held:
        """The same as plain data: what an Observation keeps of it."""
        at = self.peak_at
        peak_at = f"{at.phase}: {at.operation}" if at.operation else at.phase
        timeline = tuple((after, asdict(held)) for after, held in self.timeline)
        return records.Held(asdict(self.peak), peak_at, asdict(self.now), timeline)

    def _look_once_more(self) -> None:
        if self._last is None:
            self._watch.look()


class _Watch(DispatchMode):
    """Sees every operation, and asks the model, the optimizer and the cache whose its results are."""

    def __init__(self, holders: Owners) -> None:
        super().__init__()
        self.ledger, self.operations = Ledger(), 0
        self._holders, self._device = holders, _device_of(holders)
        self._stepping = self._was_forward = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        phase = self._phase()
        if phase in ("backward", "step") and self._was_forward:
            self.ledger.forward_ended()
        self._was_forward = phase in ("forward", "inference", "recomputation")
        out = func(*args, **(kwargs or {}))
        self.operations += 1
        if func.namespace != "profiler":
            self.ledger.begin(Moment(func._schema.name.replace("::", "."), phase))
        for tensor in tensors_of((*args, *(kwargs or {}).values(), out)):
            self._meet(tensor)
        self.ledger.settle()
        return out

    def look(self) -> None:
        """Ask the holders again."""
        known = set()
        for kind, tensor in self._holders.tensors():
            for life in self._meet(tensor):
                if life not in known:
                    life.kind = kind
                    known.add(life)
        self.ledger.settle()

    def step_begins(self, optimizer: Any, *_) -> None:
        self._stepping = True

    def step_ended(self, optimizer: Any, *_) -> None:
        self._stepping = False
        self.look()

    def gradient_made(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            for life in self._meet(parameter.grad):
                life.kind = life.kind or "gradients"

    def _meet(self, tensor: Any) -> list:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != self._device:
            return []
        to_come = self._was_forward and torch.is_grad_enabled()
        return [self.ledger.meet(storage, self._was_forward, to_come) for storage in storages(tensor)]

    def _phase(self) -> str:
        if self._stepping:
            return "step"
        if current_graph_task() != -1:
            return "recomputation" if torch.is_grad_enabled() else "backward"
        return "forward" if torch.is_grad_enabled() else "inference"


@contextmanager
def track(model: torch.nn.Module, optimizer: Any = None, cache: Any = ()) -> Iterator[Held]:
    """What holds the bytes while the block runs: on a GPU, a virtual or ghost card, the host or ``meta``.

    model: its first parameter says which device is watched. optimizer: anything with ``state`` and
    ``param_groups``, as ``torch.optim``'s. cache: tensors, or objects that hold them.
    Yields a :class:`Held`, to be read inside the block and after it. Of PyTorch only ``UntypedStorage.resize_`` is replaced.

    Bytes that no operation of the block made, and that nobody named here holds, count from the first operation
    that takes them (on the virtual card a batch that was copied from the host, for one). Not seen at all: other
    threads than the block's and its backward passes', and what a library takes inside one operation (cuBLAS
    workspaces). Raises InstrumentError when the block ran no operation, ValueError for a model without
    parameters and buffers, and for sparse tensors.
    """
    watch = _Watch(Owners(model, optimizer, cache))
    held = Held(watch)
    watch.look()
    with ExitStack() as hooks:
        _hook(hooks, watch, model)
        with watch, heard(watch.ledger.resized):
            yield held
        held._last = held.now
        watch.ledger.stop()
    if not watch.operations:
        raise InstrumentError("memory.track() saw no operation: nothing ran in the block, or on another thread")
    record_held(held.record())


def _hook(hooks: ExitStack, watch: _Watch, model: torch.nn.Module) -> None:
    handles = [
        register_optimizer_step_pre_hook(watch.step_begins),
        register_optimizer_step_post_hook(watch.step_ended),
    ]
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.is_leaf:
            handles.append(parameter.register_post_accumulate_grad_hook(watch.gradient_made))
    for handle in handles:
        hooks.callback(handle.remove)


def _device_of(holders: Owners) -> str:
    for tensor in (*holders.parameters(), *holders.model.buffers()):
        return tensor.device.type
    raise ValueError("a model without parameters and buffers is on no device")
