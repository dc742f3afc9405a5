"""``observe()``: a dispatch mode that sees every operation of this thread."""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from gpulab.compat.dispatch import DispatchMode
from gpulab.observe import device
from gpulab.observe.arguments import tensors_of
from gpulab.observe.authors import AuthorLedger
from gpulab.observe.causal_bias import causal_biases_can_be_made
from gpulab.observe.copies import copy_kind
from gpulab.observe.device import Tell, tell_nobody
from gpulab.observe.errors import InstrumentError
from gpulab.observe.lines import learners_line
from gpulab.observe.loading import LoaderLog, watching
from gpulab.observe.observation import Observation
from gpulab.observe.real import RealDevice
from gpulab.observe.records import Copy, Op
from gpulab.observe.saved import SavedLedger
from gpulab.observe.storage import StorageLedger

device.measures_gpus_with(RealDevice)

# Their argument was made outside the dispatcher: torch.tensor([...]) allocates, then lifts.
_LIFTS = ("aten.lift", "aten.lift_fresh", "aten.lift_fresh_copy")


class Recorder(DispatchMode):
    """Records operations, copies and storages; blind to other threads and to NumPy."""

    def __init__(self, tell: Tell = tell_nobody) -> None:
        super().__init__()
        self._tell = tell
        self.ops: list[Op] = []
        self.copies: list[Copy] = []
        self.storages = StorageLedger()
        self.authors = AuthorLedger()
        self.saved: SavedLedger | None = None
        self.log: device.DeviceLog | None = None
        self.ops_seen = 0
        self._checking = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops_seen += 1
        if self._checking:
            return func(*args, **(kwargs or {}))
        kwargs = kwargs or {}
        tensors_in = tensors_of((*args, *kwargs.values()))
        name = func._schema.name.replace("::", ".")
        if self.saved is not None:
            self.saved.operation(name)
        if device.device() is not None:
            device.device().host_operation(name, tensors_in)
        if name not in _LIFTS:
            for tensor in tensors_in:
                self.storages.met_as_argument(tensor)
        read, outside = self.storages.sources(tensors_in)
        self.authors.before(func, args, kwargs)
        result = func(*args, **kwargs)
        results = tensors_of((result,))
        self.authors.operation(func, args, kwargs, results, read, outside)
        self._record(name, tensors_in, results)
        return result

    def _record(self, name: str, tensors_in: list, results: list) -> None:
        new_bytes = sum(self.storages.met_as_result(tensor) for tensor in results)
        line = learners_line()
        at = next(iter((*results, *tensors_in)), None)
        where, dtype = ("cpu", "") if at is None else (_name(at.device), _name(at.dtype))
        op = Op(name, new_bytes, self.storages.live_bytes, line, where, dtype)
        self._tell("op", op)
        self.ops.append(op)
        for result in results[:1]:
            kind = copy_kind(name, tensors_in, result)
            if kind is not None and not self._is_the_devices(kind, tensors_in, result):
                self.copied(Copy(kind, name, result.nbytes, line))

    def _is_the_devices(self, kind: str, tensors_in: list, result: torch.Tensor) -> bool:
        """Whether the device's instrument records this copy: it crosses between host and device."""
        watched = self.log is not None and self.log.device is not None
        return watched and kind in ("clone", "copy_", "cast") and any(t.device != result.device for t in tensors_in)

    def copied(self, copy: Copy) -> None:
        self._tell("copy", copy)
        self.copies.append(copy)

    def allocated(self, tensor: torch.Tensor) -> None:
        """Memory for ``tensor`` was found without an operation."""
        self._tell("new", self.storages.met_as_result(tensor))

    def saving(self) -> AbstractContextManager:
        """From now on, what autograd saves for the backward pass is recorded too."""
        self.saved = SavedLedger(self.storages.origin, self._tell)
        return self.saved.hooks()

    def prove_alive(self) -> None:
        """Run one operation that must be seen. Raises InstrumentError when it is not."""
        before, self._checking = self.ops_seen, True
        try:
            torch.empty(0)
        finally:
            self._checking = False
        if self.ops_seen == before:
            raise InstrumentError(
                "observe() did not see an operation that it ran itself: something switched "
                "PyTorch's dispatch modes off. Run the block again in a fresh kernel."
            )


@functools.lru_cache(maxsize=256)
def _name(place_or_format: torch.device | torch.dtype) -> str:
    return str(place_or_format).removeprefix("torch.")


@contextmanager
def observe(tell: Tell = tell_nobody, *, saved: bool = False) -> Iterator[Observation]:
    """Record what PyTorch does on this thread inside the ``with`` block.

    Yields an :class:`Observation`, to be read after the block, also after one that raised.
    Work outside PyTorch (NumPy, plain Python) and on other threads is not seen, but for a DataLoader's: what its
    workers and its pinning thread took for each batch is.
    tell: is called with each record as it is made, its kind before it.
    saved: also record what autograd saves for the backward pass. Tensors that saved-tensor hooks set inside the
    block take, as those of ``torch.utils.checkpoint``, are theirs and are not recorded. Backward then opens each
    saved tensor with a view more (``aten.detach``), and ``torch.func.grad`` and its kin, which refuse hooks, raise.
    Raises InstrumentError when the instrument was switched off inside the block.
    """
    recorder, seen = Recorder(tell), Observation.running()
    log = device.DeviceLog(
        on_copy=recorder.copied,
        on_new=recorder.allocated,
        on_written=recorder.authors.launch,
        tell=tell,
    )
    recorder.log, loads = log, LoaderLog(tell)
    with causal_biases_can_be_made(), recorder:
        recorder.prove_alive()
        try:
            # A real GPU's log is written when its instruments stop, so this block ends first.
            with watching(loads), device.logging(log), recorder.saving() if saved else nullcontext():
                yield seen
        finally:
            seen.finish(
                recorder.ops,
                recorder.copies,
                recorder.storages.new_bytes,
                recorder.storages.peak_bytes,
                origin=recorder.storages.origin,
                authors=recorder.authors.authors,
                made_of=recorder.authors.made_of,
                log=log,
                saved=None if recorder.saved is None else recorder.saved.records(),
                batches=loads.batches,
            )
        recorder.prove_alive()
        loads.prove_seen()
