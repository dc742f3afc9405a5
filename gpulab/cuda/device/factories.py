"""``torch.zeros(..., device="cuda")`` and its kin."""

import functools
from contextlib import nullcontext

import torch

from gpulab.compat.default_device import DeviceContext, constructors
from gpulab.compat.dispatch import is_traceable_wrapper_subclass
from gpulab.compat.functions import nn_functions, script_names
from gpulab.compat.functorch import innermost_transform, is_wrapped, temporarily_clear_interpreter_stack
from gpulab.cuda.device import cost, randomness, state, transfer
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.errors import MachineTooSmall, NotModelled

_NOTHING = nullcontext()
_NO_KERNEL = {"empty", "empty_strided", "empty_like", "empty_permuted"}
_FROM_HOST_DATA = {"tensor", "as_tensor", "asarray", "scalar_tensor"}
_RANDOM = {"rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like", "randint_like"}
_LIKE = (
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
)
# From about here on the card is asked for room before this machine's memory is touched.
_LARGE_BYTES = 1 << 24


def install(patches: Patches) -> None:
    """Wrap every function of torch that takes ``device=``."""
    # TorchScript knows functions by identity: it reads the table now, and learns the wrappers.
    scripted = script_names()
    wrappers: dict = {}
    for owner, name, value in _constructors():
        wrappers[value] = _wrapped(name, value)
        patches.set(owner, name, wrappers[value])
        if id(value) in scripted:
            patches.put(scripted, id(wrappers[value]), scripted[id(value)])
    for name in _LIKE:
        original, like = getattr(torch, name), _like(name, getattr(torch, name))
        patches.set(torch, name, like)
        patches.put(scripted, id(like), scripted[id(original)])
    _teach_device_context(patches, wrappers)
    for owner in (torch, torch.Tensor):
        patches.set(owner, "tensor_split", _tensor_split(owner.tensor_split))
    one_hot = _one_hot(nn_functions.one_hot)
    patches.put(scripted, id(one_hot), scripted[id(nn_functions.one_hot)])
    for owner in (torch.nn.functional, nn_functions):
        patches.set(owner, "one_hot", one_hot)


def _tensor_split(original):
    # PyTorch's C++ reads the places where they lie, on the host, and so refuses those of a card.
    @functools.wraps(original)
    def tensor_split(tensor, *args, **kwargs):
        for places in (*args[:1], *kwargs.values()):
            if isinstance(places, CudaTensor):
                raise RuntimeError(
                    f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {places.device}"
                )
        return original(tensor, *args, **kwargs)

    return tensor_split


def _one_hot(original):
    # PyTorch composes it of a host tensor that its C++ makes and this device never sees.
    @functools.wraps(original)
    def one_hot(tensor, num_classes=-1):
        if not isinstance(tensor, CudaTensor):
            return original(tensor, num_classes)
        classes = int(tensor.max()) + 1 if num_classes == -1 else num_classes
        zeros = torch.zeros(*tensor.shape, classes, dtype=torch.int64, device=state.CUDA)
        return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)

    return one_hot


@functools.cache  # PyTorch's own, found before any is replaced
def _constructors() -> list[tuple]:
    """Where each stands, its name, and what it is."""
    # Generator has its own treatment. The default device does not reach torch.normal, device= does.
    wanted = (constructors() | {torch.normal}) - {torch.Generator}
    places = [(owner, name, value) for owner in (torch, torch.fft) for name, value in vars(owner).items()]
    return [place for place in places if callable(place[2]) and _hashable(place[2]) and place[2] in wanted]


def _hashable(value) -> bool:
    return getattr(type(value), "__hash__", None) is not None


def _wrapped(name: str, original):
    @functools.wraps(original)
    def factory(*args, **kwargs):
        device = kwargs.get("device")
        if name in _FROM_HOST_DATA and args:
            if isinstance(args[0], CudaTensor):
                return _from_card_data(name, args[0], **kwargs)
            args = (_read(args[0]), *args[1:])
        if device is None and name != "normal":
            device = state.default_device()
        if device is not None and state.is_cuda(device):
            return _on_card(name, original, args, kwargs)
        return _on_host(original, args, kwargs)

    return factory


def _read(data):
    # PyTorch's C++ asks each device tensor in a list for its value: the host waits for each.
    if isinstance(data, CudaTensor):
        return transfer.to_host(data.detach())
    if isinstance(data, torch.Tensor) and is_wrapped(data):
        return data.tolist()
    if isinstance(data, (list, tuple)) and _has_card_data(data):
        return [_read(item) for item in data]
    return data


def _has_card_data(data) -> bool:
    return any(_may_be_on_card(item) or isinstance(item, (list, tuple)) and _has_card_data(item) for item in data)


def _may_be_on_card(item) -> bool:
    return isinstance(item, CudaTensor) or isinstance(item, torch.Tensor) and is_wrapped(item)


def _on_host(original, args, kwargs):
    if not kwargs.get("pin_memory"):
        return original(*args, **kwargs)
    kwargs = {**kwargs, "pin_memory": False}
    return state.device_on().pinned.pin(original(*args, **kwargs))


def _on_card(name: str, original, args, kwargs):
    if name.startswith("sparse_") or name == "nested_tensor":
        raise NotModelled(f"torch.{name} on the device")
    kwargs = {**kwargs, "device": "cpu" if name in _FROM_HOST_DATA else state.device_on().memory_of}
    requires_grad = kwargs.pop("requires_grad", False)
    if kwargs.get("pin_memory"):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if kwargs.get("layout", torch.strided) is not torch.strided:
        raise NotModelled(f"a tensor of layout {kwargs['layout']}")
    if name in _FROM_HOST_DATA:
        with _outside_transforms():
            out = transfer.to_card(original(*args, **kwargs))
    else:
        out = _generated(name, original, args, kwargs)
    return out.requires_grad_(requires_grad) if requires_grad else out


def _from_card_data(name: str, data, dtype=None, device=None, requires_grad=False, **others):
    out = data.to(data.device if device is None else device, dtype or data.dtype)
    if name == "tensor":
        out = out.detach().clone() if out is data else out.detach()
    return out.requires_grad_(True) if requires_grad else out


def _generated(name: str, original, args, kwargs):
    if name in _RANDOM and innermost_transform() is not None:
        raise NotModelled(f"torch.{name} on the device inside torch.func's transforms")
    with _outside_transforms():
        return _made(name, original, args, kwargs)


def _outside_transforms():
    """What is made here does not depend on what vmap or grad goes over."""
    if innermost_transform() is None:
        return _NOTHING
    return temporarily_clear_interpreter_stack()


def _made(name: str, original, args, kwargs):
    device = state.device_on()
    if "out" in kwargs and kwargs["out"] is not None:
        kwargs.pop("device")
        return original(*args, **kwargs)
    if name in _RANDOM or "generator" in kwargs:
        kwargs["generator"] = randomness.numbers_of(kwargs.get("generator"))
    with _room(device, name, original, args, kwargs):
        try:
            out = CudaTensor.tag(original(*args, **kwargs))
        except RuntimeError as error:
            MachineTooSmall.raise_if_that_is(error)
            raise
        return accounted(name, original, args, kwargs, out)


def accounted(name: str, original, args, kwargs, out):
    """``out``, which the factory ``name`` has made: its memory, the kernel that fills it, and its place in a graph."""
    device = state.device_on()
    accesses = device.memory.of(out).accesses
    if name not in _NO_KERNEL:
        card = device.machine.card
        duration = cost.duration_us(card, 0, out.nbytes, card.flops_per_s["fp32"])
        device.machine.kernel(f"aten.{name}", duration, out.numel(), 0, [], [(accesses, out)], 0, out.nbytes)
    if device.capture is not None:
        device.capture.record(CudaTensor, original, args, kwargs, [out])
    return out


def _room(device, name: str, original, args, kwargs):
    """A block in which the card's memory for a large tensor is there before this machine's is touched."""
    if not _may_be_large(args, kwargs):
        return _NOTHING
    shadow = {k: v for k, v in kwargs.items() if k not in ("generator", "out")}
    like = original(*args, **{**shadow, "device": "meta"}) if name != "randperm" else None
    return device.memory.room_for(8 * args[0] if like is None else like.untyped_storage().nbytes())


def _may_be_large(args, kwargs) -> bool:
    product = 1
    for size in (*args, *(kwargs.get("size") or ())):
        for extent in size if isinstance(size, (tuple, list)) else (size,):
            if isinstance(extent, int) and extent > 1:
                product *= extent
    return product > _LARGE_BYTES // 16


def _like(name: str, original):
    @functools.wraps(original)
    def like(source, *args, **kwargs):
        device = kwargs.get("device")
        if device is None:
            if kwargs.get("pin_memory") and isinstance(source, CudaTensor):
                raise RuntimeError("Only dense CPU tensors can be pinned")
            return _on_host(original, (source, *args), kwargs)
        if isinstance(source, CudaTensor) and not state.is_cuda(device):
            source = transfer.twin_on_host(source)
        elif isinstance(source, CudaTensor):
            return original(source, *args, **{**kwargs, "device": None})
        if not state.is_cuda(device):
            return _on_host(original, (source, *args), kwargs)
        if is_traceable_wrapper_subclass(source):
            return _around(like, source, *args, **kwargs)
        return _on_card(name, original, (source, *args), kwargs)

    return like


def _around(like, source, *args, **kwargs):
    """A DTensor, or another wrapper, around what ``like`` makes of the tensors in it: how FSDP gives memory to a model on ``meta``."""
    names, context = source.__tensor_flatten__()
    parts = {name: getattr(source, name) for name in names}
    within = {
        name: like(part, *args, **kwargs) if isinstance(part, torch.Tensor) else part for name, part in parts.items()
    }
    return type(source).__tensor_unflatten__(within, context, source.size(), source.stride())


def _teach_device_context(patches: Patches, wrappers: dict) -> None:
    # ``with torch.device("cuda")`` and set_default_device reach functions bound before use().
    original = DeviceContext.__torch_function__

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if self.device.type == "cuda" and func in wrappers and not (kwargs or {}).get("device"):
            return wrappers[func](*args, **{**(kwargs or {}), "device": self.device})
        return original(self, func, types, args, kwargs)

    patches.set(DeviceContext, "__torch_function__", __torch_function__)
