"""Methods of host tensors that reach for the device: ``to``, ``cuda``, pinning, late reads."""

import functools

import torch

from gpulab.compat.dispatch import DispatchKey, excluded_keys
from gpulab.compat.functorch import is_wrapped, temporarily_clear_interpreter_stack, unwrapped
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device import state, storages, transfer
from gpulab.cuda.device.memory import extent
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import NEW, SCALARS, STAYED_ON_HOST, CudaTensor, converted, copied_into, the_card
from gpulab.cuda.device.wrappers import is_on_card
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
_to, _numpy, _tolist, _type_as = Tensor.to, Tensor.numpy, Tensor.tolist, Tensor.type_as
_data, _grad, _set = TensorBase.data, TensorBase.grad, Tensor.set_


def install(patches: Patches) -> None:
    """Replace them on torch.Tensor."""
    patches.set(Tensor, "copy_", lambda self, *args, **kwargs: copied_into(self, *args, **kwargs))
    for method in (to, cpu, type_as, cuda, pin_memory, is_pinned, numpy, tolist, set_):
        patches.set(Tensor, method.__name__, method)
    for name in NEW:
        patches.set(Tensor, name, _new(getattr(Tensor, name)))
    patches.set(Tensor, "data", property(_data.__get__, _set_data))
    for name in SCALARS:
        patches.set(Tensor, name, _scalar(name))
    for name, on_card in (("device", state.CUDA), ("is_cuda", True), ("is_cpu", False)):
        patches.set(Tensor, name, _place(name, on_card))


def to(self, *args, **kwargs):
    if is_wrapped(self):
        return _inside_a_transform(self, *args, **kwargs)
    if not isinstance(self, CudaTensor) and not is_on_card(self) and _stays_on_host(args, kwargs):
        return _to(self, *args, **kwargs)
    return converted(self, *args, **kwargs)


def _inside_a_transform(self, *args, device=None, **kwargs):
    if args and isinstance(args[0], (Tensor, str, torch.device, int)):
        device, args = args[0], args[1:]
    if isinstance(device, Tensor):
        device, kwargs = device.device, {"dtype": device.dtype, **kwargs}
    if device is not None and state.is_cuda(device) != self.is_cuda:
        raise NotModelled("a copy between host and device inside torch.func's transforms")
    return _to(self, *args, **kwargs) if args or kwargs else self


def cpu(self, memory_format=torch.preserve_format):
    return to(self, "cpu", memory_format=memory_format)


def _place(name: str, on_card) -> property:
    original = getattr(TensorBase, name).__get__

    def read(self):
        if is_wrapped(self):
            # Inside vmap or grad a tensor stands for another one, and is none of this device's own.
            return getattr(unwrapped(self), name)
        return on_card if is_on_card(self) else original(self)

    return property(read)


def _new(original):
    @functools.wraps(original)
    def new(self, *args, pin_memory=False, **kwargs):
        if kwargs.get("device") is not None and state.is_cuda(kwargs["device"]):
            return getattr(transfer.nothing_on_card(self), original.__name__)(*args, **kwargs)
        out = original(self, *args, **kwargs)
        return state.device_on().pinned.pin(out) if pin_memory else out

    return new


def _set_data(self, value) -> None:
    """``self.data = value``: across the two sides ``self`` becomes a tensor of the other kind; its gradient stays."""
    if isinstance(self, CudaTensor) == isinstance(value, CudaTensor):
        _data.__set__(self, value)
        return
    moved = _data.__get__(value).requires_grad_(self.requires_grad)
    if isinstance(self, torch.nn.Parameter):
        moved = torch.nn.Parameter(moved, self.requires_grad)
    gradient = self.grad
    try:
        torch.utils.swap_tensors(self, moved)
    except RuntimeError as why:
        what = "tensor.data = a tensor of another device, of a tensor that autograd holds (a gradient moves by p.grad = ...)"
        raise NotModelled(what) from why
    if gradient is not None:
        if not gradient.is_cuda:
            setattr(gradient, STAYED_ON_HOST, True)
        _grad.__set__(self, gradient)


def type_as(self, other):
    return converted(self, other.device, other.dtype) if other.is_cuda else _type_as(self, other)


def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    if is_wrapped(self):
        return _inside_a_transform(self, the_card(device))
    return converted(self, the_card(device), non_blocking=non_blocking, memory_format=memory_format)


def pin_memory(self, device=None):
    pinned = state.device_on().pinned
    if pinned.accesses_of(self) is not None:
        return self
    copy = pinned.pin(self.clone(memory_format=torch.preserve_format))
    pinned.filled(copy)
    return copy


def is_pinned(self, device=None):
    return state.device_on().pinned.accesses_of(self) is not None


def numpy(self, *args, **kwargs):
    if isinstance(self, CudaTensor):
        return CudaTensor.numpy(self, *args, **kwargs)
    _host_reads(self, "numpy")
    return _numpy(self, *args, **kwargs)


def tolist(self):
    if isinstance(self, CudaTensor):
        return CudaTensor.tolist(self)
    if is_wrapped(self):
        return _list_inside_a_transform(self)
    _host_reads(self, "tolist")
    return _tolist(self)


def _list_inside_a_transform(self):
    values = _tolist(self)  # or the error of vmap
    _read_inside_a_transform(self)
    return values


def _read_inside_a_transform(tensor) -> None:
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    if isinstance(tensor, CudaTensor):
        with temporarily_clear_interpreter_stack():
            transfer.to_host(tensor.detach())


def _scalar(name: str):
    # PyTorch's C++ asks for it below the dispatch, too, as CudaTensor's own: of what a transform wraps, here.
    inherited = getattr(TensorBase, name)

    @functools.wraps(inherited)
    def scalar(self):
        if is_wrapped(self) and excluded_keys().has(DispatchKey.Python):
            _read_inside_a_transform(self)
        return inherited(self)

    return scalar


def set_(self, source=None, *args, **kwargs):
    """Raises RuntimeError, as CUDA does, for memory on the other side."""
    if source is not None and _is_on_card(source) != isinstance(self, CudaTensor):
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device '
            f'"{source.device}".  This is no longer allowed; the devices must match.'
        )
    return _set(self) if source is None else _set(self, source, *args, **kwargs)


def _is_on_card(source) -> bool:
    return source.is_cuda if isinstance(source, Tensor) else storages.on_card(source)


def _stays_on_host(args, kwargs) -> bool:
    device = kwargs.get("device", args[0] if args else None)
    if isinstance(device, Tensor):
        return not device.is_cuda
    if isinstance(device, (str, torch.device, int)):
        return not state.is_cuda(device)
    return not isinstance(kwargs.get("other"), Tensor) or not kwargs["other"].is_cuda


def _host_reads(tensor: Tensor, op: str) -> None:
    device = state.device_on()
    device.memory.refuse_on_host(tensor, op)
    accesses = device.pinned.accesses_of(tensor)
    if accesses is not None:
        device.machine.host_access(accesses, False, op, extent(tensor))
