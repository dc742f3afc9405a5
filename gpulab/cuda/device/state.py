"""The virtual device that is switched on, if any."""

from collections.abc import Callable
from contextlib import nullcontext

import torch

from gpulab.cards.cards import Card
from gpulab.compat.default_device import default_device as default_device
from gpulab.cuda.device.addresses import Addresses
from gpulab.cuda.device.memory import DeviceMemory, PinnedMemory, use
from gpulab.cuda.device.snapshot import History
from gpulab.cuda.errors import DeviceIsOff, NotModelled
from gpulab.cuda.machine.machine import Machine
from gpulab.observe.lines import learners_line

CUDA = torch.device("cuda", 0)
"""The card, by its number among those of the machine."""
COUNT = 1
"""How many cards the machine has: one for each process of a job with many ranks."""


def number_the_card(index: int, count: int) -> None:
    """This process's card is number ``index`` of ``count``. To be called while none is on."""
    global CUDA, COUNT
    CUDA, COUNT = torch.device("cuda", index), count


class VirtualDevice:
    """One card with its memory, its streams and its random numbers.

    ``ghost``: tensors have shapes and no values, so that a model that no laptop could hold runs
    for its memory and its time. ``under_way``: the capture of a CUDA graph, if there is one; ``capture``: the
    same, where the current stream is in it.
    """

    def __init__(self, card: Card, ghost: bool = False) -> None:
        self.card, self.ghost = card, ghost
        self.memory_of = "meta" if ghost else "cpu"
        self.machine = Machine(card)
        self.machine.find_line = learners_line
        self.machine.uses = use
        self.memory = DeviceMemory(self.machine)
        self.addresses = Addresses(self.memory, self.machine.allocator, keeps_bytes=not ghost)
        self.pinned = PinnedMemory(self.machine)
        self.history = History(self)
        self.generator: torch.Generator | None = None
        self.sync_debug_mode = 0
        self.undelivered: list = []
        self.later: dict[int, Callable[[], object]] = {}
        self.capture = self.under_way = None
        self.trace = None
        self.host_autocast = False

    def comes_later(self, tensor: torch.Tensor, wait: Callable[[], object]) -> None:
        """The bytes of ``tensor``'s storage are on their way: whoever uses it first is made to ``wait``.

        ``wait`` keeps the storage alive.
        """
        self.later[tensor.untyped_storage()._cdata] = wait

    def use(self, tensors: list[torch.Tensor]) -> None:
        """These are about to be used by an operation or a copy."""
        for tensor in tensors:
            wait = self.later.pop(tensor.untyped_storage()._cdata, None)
            if wait is not None:
                wait()

    def operation(self, name: str):
        """A block that a profiler shows as one operation of PyTorch."""
        return _UNSEEN if self.trace is None else self.trace.operation(name)


_UNSEEN = nullcontext()
_on: VirtualDevice | None = None
_tag: Callable[[torch.Tensor], torch.Tensor] | None = None


def tags_with(tag: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """To be called by the class of device tensors, which is above all who make one."""
    global _tag
    _tag = tag


def tag(tensor: torch.Tensor) -> torch.Tensor:
    """The same storage as a device tensor; a leaf."""
    return _tag(tensor)


def switch(device: VirtualDevice | None) -> None:
    global _on
    _on = device


def device_on() -> VirtualDevice:
    """The device that is on. Raises DeviceIsOff."""
    if _on is None:
        raise DeviceIsOff()
    return _on


def is_on() -> bool:
    return _on is not None


def is_cuda(device) -> bool:
    """Whether ``device`` (a torch.device, a string, an index or None) names the card.

    Raises RuntimeError, as CUDA does, for an index that there is no card for, and NotModelled for the card of
    another rank: a rank has the memory of its own.
    """
    if device is None:
        return False
    if isinstance(device, int):
        device = torch.device("cuda", device)
    elif not isinstance(device, torch.device):
        device = torch.device(device)
    if device.type != "cuda":
        return False
    if device.index is not None and device.index != CUDA.index:
        check_exists(device.index)
        raise NotModelled(f"cuda:{device.index} in the rank of {CUDA}, that is, the card of another rank,")
    return True


def check_exists(index: int) -> None:
    """Raises RuntimeError, as CUDA does, for an index that there is no card for."""
    if not 0 <= index < COUNT:
        raise torch.AcceleratorError(_INVALID_DEVICE)


_INVALID_DEVICE = (
    "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
