"""The device tensor: CPU memory that says it is on the card and counts what is done to it."""

import torch

from gpulab.compat.dispatch import DispatchKey, disabled_torch_function, excluded_keys, is_traceable_wrapper_subclass
from gpulab.compat.functions import parse_to
from gpulab.compat.functorch import is_wrapped
from gpulab.compat.tensors import FakeTensor, TensorBase, make_subclass, printed
from gpulab.cuda.device import refusals, state, transfer
from gpulab.cuda.device.dispatch import dispatch
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
A_FAKE = "a fake tensor on the device (torch.export, torch.compile, make_fx)"
_grad = TensorBase.grad
STAYED_ON_HOST = "_stayed_on_the_host"
"""The mark of a gradient whose tensor's data alone went to the card."""


def dispatched(cls, func, types, args=(), kwargs=None):
    """``__torch_dispatch__`` of every class of device tensors."""
    if len(types) > 1 and not all(issubclass(kind, CudaTensor) for kind in types):
        # A DTensor, a nested tensor or another wrapper has no memory of its own: it takes itself apart.
        return NotImplemented
    return dispatch(CudaTensor, func, args, kwargs or {})


class CudaTensor(Tensor):
    """A tensor on the virtual card. Storage, strides, views and autograd are PyTorch's own."""

    __torch_function__ = disabled_torch_function

    __torch_dispatch__ = classmethod(dispatched)

    @staticmethod
    def tag(tensor: Tensor) -> "CudaTensor":
        """The same storage as a device tensor; a leaf."""
        if isinstance(tensor, CudaTensor):
            return tensor
        if isinstance(tensor, FakeTensor):
            raise NotModelled(A_FAKE)
        return make_subclass(CudaTensor, tensor, tensor.requires_grad)

    device = property(lambda self: state.CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def get_device(self) -> int:
        return state.CUDA.index

    @property
    def grad(self):
        gradient = _grad.__get__(self)
        if gradient is None or isinstance(gradient, CudaTensor) or STAYED_ON_HOST in vars(gradient):
            return gradient
        gradient = brought_to_card(gradient)
        _grad.__set__(self, gradient)
        return gradient

    @grad.setter
    def grad(self, value) -> None:
        if isinstance(value, Tensor) and not value.is_cuda:
            raise refusals.gradient_elsewhere(value.device, self.device)
        _grad.__set__(self, value)

    @grad.deleter
    def grad(self) -> None:
        _grad.__delete__(self)

    def to(self, *args, **kwargs) -> Tensor:
        return converted(self, *args, **kwargs)

    def type_as(self, other: Tensor) -> Tensor:
        return converted(self, other.device, other.dtype)

    def cpu(self, memory_format=torch.preserve_format) -> Tensor:
        return converted(self, "cpu", memory_format=memory_format)

    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format) -> Tensor:
        return converted(self, the_card(device), non_blocking=non_blocking, memory_format=memory_format)

    def copy_(self, source, non_blocking=False) -> Tensor:
        return copied_into(self, source, non_blocking)

    def numpy(self, *, force: bool = False):
        if not force:
            raise refusals.no_numpy()
        return self.detach().cpu().resolve_conj().resolve_neg().numpy()

    def __array__(self, dtype=None, copy=None):
        raise refusals.no_numpy()

    def tolist(self):
        return transfer.to_host(self.detach()).tolist()

    def pin_memory(self, device=None):
        raise refusals.only_host_can_be_pinned(self.type())

    def is_pinned(self, device=None) -> bool:
        return False

    def type(self, dtype=None, non_blocking=False, **kwargs):
        if dtype is None:
            return "torch.cuda." + transfer.plain(self).type().removeprefix("torch.")
        if not isinstance(dtype, torch.dtype):
            raise NotModelled(f"Tensor.type({dtype!r}), a type that is no dtype (use Tensor.to)")
        return self.to(dtype, non_blocking=non_blocking)

    def record_stream(self, stream) -> None:
        state.device_on().memory.used_by(self, stream.stream_id)

    def new(self, *args, device=None) -> Tensor:
        """The old spelling: a size makes an empty tensor, a list one with its values."""
        device = self.device if device is None else device
        if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], torch.Size):
            return torch.tensor(args[0], dtype=self.dtype, device=device)
        return torch.empty(*(args or (0,)), dtype=self.dtype, device=device)

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
        device = self.device if device is None else device
        return torch.tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)

    def __reduce_ex__(self, protocol):
        return _as_saved(self, protocol)

    def __deepcopy__(self, memo):
        return _deep_copy(self, memo)

    def __repr__(self, *, tensor_contents=None) -> str:
        return _text(self)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def share_memory_(self):
        raise NotModelled("Tensor.share_memory_ on a device tensor")

    @property
    def __cuda_array_interface__(self):
        raise NotModelled("__cuda_array_interface__")

    def __dlpack__(self, **kwargs):
        raise NotModelled("DLPack exchange of a device tensor")


state.tags_with(CudaTensor.tag)


def brought_to_card(made: Tensor) -> Tensor:
    """What PyTorch's C++ made for a device tensor, as the device tensor that it would be on a card."""
    if made is None or isinstance(made, CudaTensor) or not _is_plain(made):
        return made
    if made._is_zerotensor():
        return torch.zeros_like(made, device=state.CUDA)
    return CudaTensor.tag(made)


def _is_plain(made) -> bool:
    return isinstance(made, Tensor) and not is_wrapped(made)


def _new(name: str):
    inherited = getattr(Tensor, name)

    def make(self, *args, device=None, **kwargs):
        if device is None or state.is_cuda(device):
            return inherited(self, *args, **kwargs)
        return getattr(transfer.nothing_on_host(self), name)(*args, device=device, **kwargs)

    make.__name__ = name
    return make


def _scalar(name: str, kind: type):
    inherited = getattr(TensorBase, name)

    def scalar(self):
        if excluded_keys().has(DispatchKey.Python):
            return kind(dispatch(CudaTensor, torch.ops.aten._local_scalar_dense.default, (self,), {}))
        return inherited(self)

    scalar.__name__ = name
    return scalar


# PyTorch's C++ asks for these below the dispatch, too, such as torch.FloatTensor of a list of tensors.
SCALARS = {"__bool__": bool, "__int__": int, "__index__": int, "__float__": float, "__complex__": complex}
for _name, _kind in SCALARS.items():
    setattr(CudaTensor, _name, _scalar(_name, _kind))


NEW = ("new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided")
for _name in NEW:
    setattr(CudaTensor, _name, _new(_name))


def converted(tensor: Tensor, *args, **kwargs) -> Tensor:
    """``Tensor.to`` between host and device, and within the device."""
    copy = kwargs.pop("copy", False)
    if args and isinstance(args[0], Tensor):
        other, args = args[0], args[1:]
        kwargs = {"device": other.device, "dtype": other.dtype, **kwargs}
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        args = (torch.device("cuda", args[0]), *args[1:])
    if isinstance(kwargs.get("device"), int):
        kwargs["device"] = torch.device("cuda", kwargs["device"])
    flags = [value for value in args if isinstance(value, bool)]
    args = [value for value in args if not isinstance(value, bool)]
    kwargs |= dict(zip(("non_blocking", "copy"), flags))
    copy = kwargs.pop("copy", copy)
    device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
    on_card = isinstance(tensor, CudaTensor) or is_traceable_wrapper_subclass(tensor) and tensor.is_cuda
    if on_card and device is not None and device.type not in ("cuda", "cpu"):
        return host_to(transfer.plain(tensor), device, dtype, non_blocking)
    to_card = on_card if device is None else state.is_cuda(device)
    if to_card != on_card:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise NotModelled("a lazy module moved before its first batch (run one on the host first)")
        # PyTorch converts on the host what it waits for, and on the card what it does not.
        if to_card == non_blocking:
            return _cast(transfer.moved(tensor, to_card, non_blocking), dtype, memory_format, False)
        return transfer.moved(_cast(tensor, dtype, memory_format, False), to_card, non_blocking)
    return _cast(tensor, dtype, memory_format, copy)


_copy = Tensor.copy_


def copied_into(target: Tensor, source, non_blocking=False) -> Tensor:
    """``target.copy_(source)``; across the two sides the gradient travels back, as ``Tensor.to``'s does."""
    if isinstance(source, Tensor) and source.requires_grad and torch.is_grad_enabled():
        if isinstance(target, CudaTensor) != isinstance(source, CudaTensor):
            source = transfer.moved(source, isinstance(target, CudaTensor))
    return _copy(target, source, non_blocking)


def the_card(device) -> torch.device:
    """The card that ``Tensor.cuda(device)`` means. Raises RuntimeError, as CUDA does, for another device."""
    if device is not None and not state.is_cuda(device):
        raise RuntimeError("Invalid device, must be cuda device")
    return state.CUDA


def _cast(tensor: Tensor, dtype, memory_format, copy: bool) -> Tensor:
    dtype = tensor.dtype if dtype is None else dtype
    kwargs = {} if memory_format is None else {"memory_format": memory_format}
    return host_to(tensor, dtype=dtype, copy=copy, **kwargs)


host_to = Tensor.to


def _as_saved(tensor: Tensor, protocol):
    # Pickled as what it stands for: an ordinary tensor whose storage is tagged "cuda:0".
    state.device_on().memory.of(tensor)
    plain = transfer.plain(tensor).requires_grad_(tensor.requires_grad)
    if getattr(tensor, "_is_param", False):
        plain = torch.nn.Parameter(plain, tensor.requires_grad)
    return plain.__reduce_ex__(protocol)


def _deep_copy(tensor: Tensor, memo):
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
        )
    twin = tensor.detach().clone()
    twin.requires_grad_(tensor.requires_grad)
    if getattr(tensor, "_is_param", False):
        twin._is_param = True
    memo[id(tensor)] = twin
    if tensor.grad is not None:
        twin.grad = tensor.grad.__deepcopy__(memo)
    return twin


def _text(tensor: Tensor) -> str:
    if state.device_on().ghost:
        return f"tensor(..., device='{state.CUDA}', size={tuple(tensor.shape)}, dtype={tensor.dtype})"
    shown = transfer.to_host(tensor.detach()).as_subclass(_Shown)
    shown.of = tensor
    text = printed(shown)
    return "Parameter containing:\n" + text if getattr(tensor, "_is_param", False) else text


class _Shown(Tensor):
    """The values of a device tensor with what PyTorch's printer asks besides."""

    __torch_function__ = disabled_torch_function
    device = property(lambda self: state.CUDA)
    requires_grad = property(lambda self: self.of.requires_grad)
    grad_fn = property(lambda self: self.of.grad_fn)


# The printer begins with the name of the class.
_Shown.__name__ = "tensor"
