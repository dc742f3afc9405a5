"""What a CUDA build of PyTorch says of itself, and an index that means the card."""

import functools

import torch

from gpulab.compat.cuda import binding
from gpulab.compat.functions import PARSE_TO, script_names
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.streams import EventBase, StreamBase

# The CUDA that PyTorch's own wheels of this time bring, and a cuDNN of that time: no library is behind them.
CUDA_VERSION, CUDNN_VERSION = "13.0", 91300
_DEVICE, _STREAM, _EVENT = torch.device, torch.Stream, torch.Event


def install(patches: Patches) -> None:
    """Versions, ``torch.device(0)``, and streams and events of no named kind."""
    patches.set(torch.version, "cuda", CUDA_VERSION)
    patches.set(*binding("getCompiledVersion"), lambda: int(CUDA_VERSION.replace(".", "0")) * 10)
    patches.set(torch.backends.cudnn, "version", lambda: CUDNN_VERSION)
    patches.set(torch, "device", device)
    scripted = script_names()
    if id(_DEVICE) in scripted:
        patches.put(scripted, id(device), scripted[id(_DEVICE)])
    patches.set(torch, "Stream", Stream)
    patches.set(torch, "Event", Event)
    patches.set(*PARSE_TO, _parsed(PARSE_TO.value))


class _StandsFor(type):
    """A class that is taken for the one in its place: by isinstance, by ``==`` and as a key."""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, cls.kinds)

    def __subclasscheck__(cls, other) -> bool:
        return issubclass(other, cls.kinds)

    def __eq__(cls, other) -> bool:
        return other is cls or other is cls.kinds[0]

    def __hash__(cls) -> int:
        return hash(cls.kinds[0])


class device(metaclass=_StandsFor):
    """``torch.device``: an index alone is the card's."""

    kinds = (_DEVICE,)

    def __new__(cls, *args, **kwargs):
        if len(args) == 1 and not kwargs:
            args = (_of_index(args[0]),)
        return _DEVICE(*args, **kwargs)


class Stream(metaclass=_StandsFor):
    """``torch.Stream``: the card's, unless another device is named."""

    kinds = (_STREAM, StreamBase)

    def __new__(cls, device=None, *, priority=0, **kwargs):
        on_card = device is None or state.is_cuda(device)
        return (
            torch.cuda.Stream(priority=priority, **kwargs) if on_card else _STREAM(device, priority=priority, **kwargs)
        )


class Event(metaclass=_StandsFor):
    """``torch.Event``: the card's, unless another device is named."""

    kinds = (_EVENT, EventBase)

    def __new__(cls, device=None, **kwargs):
        return torch.cuda.Event(**kwargs) if device is None or state.is_cuda(device) else _EVENT(device, **kwargs)


for _kind in (device, Stream, Event):
    _kind.__module__ = "torch"


def _of_index(value):
    is_index = isinstance(value, int) and not isinstance(value, bool)
    return _DEVICE("cuda", value) if is_index else value


def _parsed(original):
    @functools.wraps(original)
    def parse_to(*args, **kwargs):
        if "device" in kwargs:
            kwargs["device"] = _of_index(kwargs["device"])
        return original(*(_of_index(value) for value in args[:1]), *args[1:], **kwargs)

    return parse_to
