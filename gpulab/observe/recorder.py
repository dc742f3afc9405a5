"""``observe()``: a dispatch mode that sees every operation of this thread."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpulab.observe import device
from gpulab.observe.authors import AuthorLedger
from gpulab.observe.copies import copy_kind
from gpulab.observe.device import Tell, tell_nobody
from gpulab.observe.errors import InstrumentError
from gpulab.observe.lines import learners_line
from gpulab.observe.observation import Observation
from gpulab.observe.real import RealDevice
from gpulab.observe.records import Copy, Op
from gpulab.observe.storage import StorageLedger


device.measures_gpus_with(RealDevice)

# Their argument was made outside the dispatcher: torch.tensor([...]) allocates, then lifts.
_LIFTS = ("aten.lift", "aten.lift_fresh", "aten.lift_fresh_copy")


class Recorder(TorchDispatchMode):
    """Records operations, copies and storages; blind to other threads and to NumPy."""

    def __init__(self, tell: Tell = tell_nobody) -> None:
        super().__init__()
        self._tell = tell
        self.ops: list[Op] = []
        self.copies: list[Copy] = []
        self.storages = StorageLedger()
        self.authors = AuthorLedger()
        self.ops_seen = 0
        self._checking = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops_seen += 1
        if self._checking:
            return func(*args, **(kwargs or {}))
        tensors_in = _tensors((args, kwargs))
        name = func._schema.name.replace("::", ".")
        if device.device() is not None:
            device.device().host_operation(name, tensors_in)
        if name not in _LIFTS:
            for tensor in tensors_in:
                self.storages.met_as_argument(tensor)
        read, outside = self.storages.sources(tensors_in)
        result = func(*args, **(kwargs or {}))
        results = _tensors(result)
        self.authors.operation(func, args, kwargs or {}, results, read, outside)
        self._record(name, tensors_in, results)
        return result

    def _record(self, name: str, tensors_in: list, results: list) -> None:
        new_bytes = sum(self.storages.met_as_result(tensor) for tensor in results)
        line = learners_line()
        at = next(iter((*results, *tensors_in)), None)
        where, dtype = ("cpu", "") if at is None else (str(at.device), str(at.dtype).removeprefix("torch."))
        op = Op(name, new_bytes, self.storages.live_bytes, line, where, dtype)
        self._tell("op", op)
        self.ops.append(op)
        for result in results[:1]:
            kind = copy_kind(name, tensors_in, result)
            if kind is not None:
                self.copied(Copy(kind, name, result.nbytes, line))

    def copied(self, copy: Copy) -> None:
        self._tell("copy", copy)
        self.copies.append(copy)

    def allocated(self, tensor: torch.Tensor) -> None:
        """Memory for ``tensor`` was found without an operation."""
        self._tell("new", self.storages.met_as_result(tensor))

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


def _tensors(tree) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@contextmanager
def observe(tell: Tell = tell_nobody) -> Iterator[Observation]:
    """Record what PyTorch does on this thread inside the ``with`` block.

    Yields an :class:`Observation`, to be read after the block, also after one that raised.
    Work outside PyTorch (NumPy, plain Python) and on other threads is not seen.
    tell: is called with each record as it is made, its kind before it.
    Raises InstrumentError when the instrument was switched off inside the block.
    """
    recorder, seen = Recorder(tell), Observation.running()
    log = device.DeviceLog(
        on_copy=recorder.copied,
        on_new=recorder.allocated,
        on_written=recorder.authors.launch,
        tell=tell,
    )
    with recorder:
        recorder.prove_alive()
        try:
            # A real GPU's log is written when its instruments stop, so this block ends first.
            with device.logging(log):
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
            )
        recorder.prove_alive()
