"""What autograd keeps for the backward pass: which operation saved which tensor, at which line.

Saved-tensor hooks see each tensor that autograd saves. PyTorch itself stops comparing versions where such
hooks are set, so what is kept here compares them: a block that is watched raises what it raises unwatched.
"""

import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gpulab.compat import function_apply
from gpulab.compat.autograd import saved_tensor_hooks, sequence_number
from gpulab.observe.authors import computes
from gpulab.observe.device import Tell, tell_nobody
from gpulab.observe.lines import learners_line
from gpulab.observe.records import Saved, SourceLine


class _Kept:
    """What the graph holds of a saved tensor: the tensor, and the version that it was saved at."""

    __slots__ = ("__weakref__", "result_of", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, is_result: bool) -> None:
        self.version, self.result_of = tensor._version, _maker(tensor) if is_result else ""
        # A node that held its own result, with the graph behind it, would hold itself: PyTorch detaches it too.
        self.tensor = tensor.detach() if self.result_of else tensor

    def unpacked(self) -> torch.Tensor:
        """Raises RuntimeError, in PyTorch's words, where the tensor was written to since."""
        if self.tensor._version != self.version:
            raise RuntimeError(self._complaint())
        return self.tensor

    def _complaint(self) -> str:
        tensor, maker = self.tensor, self.result_of or _maker(self.tensor)
        of = f", which is {maker}," if maker else ""
        return (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{tensor.type()} {list(tensor.shape)}]{of} is at version {tensor._version}; expected version "
            f"{self.version} instead. Hint: enable anomaly detection to find the operation that failed to compute "
            "its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )


class _Handed:
    """What the graph holds of a tensor that hooks from outside the block took: what they gave, and how to open it."""

    __slots__ = ("__weakref__", "packed", "unpack")

    def __init__(self, packed: object, unpack: Callable) -> None:
        self.packed, self.unpack = packed, unpack

    def unpacked(self) -> torch.Tensor:
        return self.unpack(self.packed)


def _unpack(kept: _Kept | _Handed) -> torch.Tensor:
    return kept.unpacked()


def _maker(tensor: torch.Tensor) -> str:
    if tensor.grad_fn is None:
        return ""
    return f"output {tensor.output_nr} of {re.sub(r'Backward[0-9]+$', '', tensor.grad_fn.name())}"


@dataclass
class _Entry:
    op: str
    what: str
    bytes: int
    storage: int
    origin: str
    line: SourceLine | None
    tensor: tuple[str, str, tuple[int, ...]]
    kept: weakref.ref

    def record(self, kept: bool) -> Saved:
        device, dtype, shape = self.tensor
        return Saved(self.op, self.what, self.bytes, self.storage, self.origin, kept, self.line, device, dtype, shape)


class SavedLedger:
    """The tensors that autograd saved on this thread while a block ran, in order.

    origin: says of a tensor whether the block's operations made its storage (``new``). tell: is told each record.
    """

    def __init__(self, origin: Callable[[torch.Tensor], str], tell: Tell = tell_nobody) -> None:
        self._origin, self._tell = origin, tell
        self._entries: list[_Entry] = []
        self._unnamed: list[_Entry] = []
        self._running, self._began, self._newest = "", -1, -1
        self._numbers: dict[int, int] = {}
        self._parameters: set[int] = set()
        self._watchers: dict[int, weakref.ref] = {}
        self._storages = 0

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Inside it, what autograd saves is recorded; hooks in force already get it as before."""
        outer = saved_tensor_hooks(True)
        # The graph outlives the block: it must not hold what the block recorded.
        ledger = weakref.ref(self)
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: ledger()._saved(tensor, outer), _unpack)
        with function_apply.leaving_a_frame(), hooks:
            yield

    def operation(self, name: str) -> None:
        """``name`` is about to run: what was saved since the last one are its arguments."""
        self._newest = sequence_number()
        if not computes(name):  # a view saves nothing, and autograd makes views anew in the middle of an operation
            return
        self._name_arguments(name)
        self._running, self._began = name, self._newest

    def records(self) -> tuple[Saved, ...]:
        """All of them, when the block has ended."""
        self._name_arguments("")
        return tuple(entry.record(entry.kept() is not None) for entry in self._entries)

    def _name_arguments(self, op: str) -> None:
        for entry in self._unnamed:
            entry.op = op
            self._tell("saved", entry.record(kept=True))
        self._unnamed.clear()

    def _saved(self, tensor: torch.Tensor, outer: tuple[Callable, Callable] | None) -> _Kept | _Handed:
        function = _function_of_the_learners()
        if function is None:
            is_result = self._is_result(tensor)
            op = self._running if is_result else ""
        else:
            op, is_result = function, type(tensor.grad_fn).__name__ == f"{function}Backward"
        kept = _Kept(tensor, is_result) if outer is None else _Handed(outer[0](tensor), outer[1])
        self._enter(tensor, op, "result" if is_result else "argument", kept)
        return kept

    def _is_result(self, tensor: torch.Tensor) -> bool:
        """Whether the operation that ran last is saving it, and not the next one, before it runs.

        An operation makes its node, which takes a number, saves its arguments, runs, and then saves its results.
        Written to a view, it makes two more nodes in between.
        """
        number = sequence_number()
        wrote_to_a_view = self._running.endswith("_") and tensor._is_view()
        return number == self._newest or (wrote_to_a_view and number == self._began + 2)

    def _enter(self, tensor: torch.Tensor, op: str, what: str, kept: _Kept | _Handed) -> None:
        storage = tensor.untyped_storage()
        key, new_bytes = storage._cdata, 0
        if key not in self._numbers:
            self._storages += 1
            self._numbers[key], new_bytes = self._storages, storage.nbytes()
            self._watchers[key] = weakref.ref(storage, lambda _: self._freed(key))
        described = (str(tensor.device), str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        entry = _Entry(
            op,
            what,
            new_bytes,
            self._numbers[key],
            self._where_from(tensor, key),
            learners_line(),
            described,
            weakref.ref(kept),
        )
        self._entries.append(entry)
        if op:
            self._tell("saved", entry.record(kept=True))
        else:
            self._unnamed.append(entry)

    def _where_from(self, tensor: torch.Tensor, key: int) -> str:
        whole = tensor if tensor._base is None else tensor._base
        if isinstance(whole, torch.nn.Parameter):
            self._parameters.add(key)
        if key in self._parameters:
            return "parameter"
        return "new" if self._origin(tensor) == "new" else "input"

    def _freed(self, key: int) -> None:
        # An address is used again once its storage is gone: forget it now.
        self._numbers.pop(key, None)
        self._watchers.pop(key, None)
        self._parameters.discard(key)


def _function_of_the_learners() -> str | None:
    """The name of the ``torch.autograd.Function`` that is saving what it was told to, or None."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_locals["cls"].__name__ if frame.f_code is function_apply.CODE else None
