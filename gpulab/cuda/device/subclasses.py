"""Subclasses of Tensor and Parameter keep their class and their attributes on the card.

A device tensor is an object of one class. One that a program derived is joined with it: an instance
is of both. What an operation on it returns is a device tensor of no further class. A parameter that a
module moves keeps what was set on it, as it does where only its ``data`` changes.
"""

import functools
import sys

import torch

from gpulab.compat.tensors import MAKE_SUBCLASS, make_subclass
from gpulab.cuda.device import transfer
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.swapping import alias_for_apply
from gpulab.cuda.device.tensor import CudaTensor, dispatched
from gpulab.cuda.errors import NotModelled

Tensor, Parameter = torch.Tensor, torch.nn.Parameter
_MOVES = ("to", "cuda", "cpu")


def install(patches: Patches) -> None:
    """Replace what makes an object of a class of a tensor."""
    patches.set(*MAKE_SUBCLASS, staticmethod(_make_subclass))
    patches.set(Parameter, "__new__", _new_parameter(Parameter.__new__))
    patches.set(CudaTensor, "as_subclass", _as_subclass)
    for name in _MOVES:
        patches.set(Tensor, name, _keeping_class(getattr(Tensor, name)))
    patches.set(torch.utils, "swap_tensors", _keeping_attributes(torch.utils.swap_tensors))


def on_card(kind: type) -> type:
    """The class of ``kind``'s instances that lie on the card."""
    return kind if issubclass(kind, CudaTensor) else _joined(kind)


@functools.cache
def _joined(kind: type) -> type:
    moves = {name: _keeping_class(getattr(CudaTensor, name)) for name in _MOVES if not _defines(kind, name)}
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind)(
        kind.__name__, (kind, CudaTensor), moves | names | {"__torch_dispatch__": classmethod(dispatched)}
    )


def _defines(kind: type, name: str) -> bool:
    derived = kind.__mro__[: kind.__mro__.index(Tensor)]
    return any(name in vars(base) for base in derived)


def on_host(kind: type) -> type:
    """The program's own class of a class on the card."""
    return kind.__bases__[0] if issubclass(kind, CudaTensor) and kind is not CudaTensor else kind


def _is_derived(kind: type) -> bool:
    return on_host(kind) not in (Tensor, Parameter, CudaTensor)


def _dispatches(kind: type) -> bool:
    """Whether the class itself makes what operations on it return, as FakeTensor does."""
    return on_host(kind).__torch_dispatch__ is not Tensor.__torch_dispatch__


def _make_subclass(cls, data, requires_grad=False, **kwargs):
    if cls is Tensor or not isinstance(data, Tensor):
        return make_subclass(cls, data, requires_grad, **kwargs)
    if isinstance(data, CudaTensor):
        return make_subclass(on_card(cls), transfer.plain(data), requires_grad, **kwargs)
    return make_subclass(on_host(cls), data, requires_grad, **kwargs)


def _new_parameter(original):
    @functools.wraps(original)
    def __new__(cls, data=None, requires_grad=True):
        if not isinstance(data, CudaTensor):
            return original(cls if data is None else on_host(cls), data, requires_grad)
        if on_host(cls) is not Parameter:
            return _make_subclass(cls, data, requires_grad)
        twin = data.detach().requires_grad_(requires_grad)
        twin._is_param = True
        return twin

    return __new__


def _as_subclass(self, cls):
    if issubclass(CudaTensor, cls):
        return self
    if self.requires_grad and torch.is_grad_enabled():
        raise NotModelled("as_subclass of a device tensor that asks for a gradient")
    return _make_subclass(cls, self)


def _keeping_class(original):
    @functools.wraps(original)
    def moved(self, *args, **kwargs):
        out = original(self, *args, **kwargs)
        kind = type(self)
        if kind is Tensor or kind is CudaTensor or type(out) is kind or not _is_derived(kind):
            return out
        if issubclass(kind, Parameter) or out.requires_grad or not isinstance(out, Tensor) or _dispatches(kind):
            return out
        return _make_subclass(on_host(kind), out)

    return moved


def _keeping_attributes(original):
    @functools.wraps(original)
    def swap_tensors(one, other):
        other = alias_for_apply(other, sys._getframe(1))
        if _is_derived(type(other)) or vars(other).keys() - {"_is_param"}:
            return original(one, other)
        kind, kept = on_host(type(one)), {k: v for k, v in vars(one).items() if k != "_is_param"}
        original(one, other)
        vars(one).update(kept)
        if kind not in (Tensor, Parameter, CudaTensor):
            one.__class__ = on_card(kind) if isinstance(one, CudaTensor) else kind

    return swap_tensors
