"""Copies between host and device, for ``to``, ``cuda``, ``cpu``, ``copy_`` and pinning."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gpulab.compat.dispatch import DisableTorchDispatch, is_traceable_wrapper_subclass
from gpulab.compat.tensors import FakeTensor, make_subclass
from gpulab.cuda.device import state, wrappers
from gpulab.cuda.device.cost import duration_us
from gpulab.cuda.device.memory import is_dense, use
from gpulab.cuda.errors import GhostHasNoValues, NotModelled

Tensor = torch.Tensor


class ToCopy(torch.autograd.Function):
    """A copy to the other side; its gradient travels back."""

    @staticmethod
    def forward(ctx, source: Tensor, to_device: bool, non_blocking: bool) -> Tensor:
        return (to_card if to_device else to_host)(source, non_blocking)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return moved(gradient, not gradient.is_cuda), None, None


def moved(source: Tensor, to_device: bool, non_blocking: bool = False) -> Tensor:
    """``source`` on the other side; differentiable."""
    if source.requires_grad and torch.is_grad_enabled():
        return ToCopy.apply(source, to_device, non_blocking)
    return (to_card if to_device else to_host)(source, non_blocking)


def to_card(source: Tensor, non_blocking: bool = False) -> Tensor:
    """A device tensor with the bytes of a host tensor, in the current stream."""
    if is_traceable_wrapper_subclass(source):
        return wrappers.moved(source, state.CUDA, non_blocking)
    device = state.device_on()
    _check_can_move(source)
    guard = DisableTorchDispatch()
    try:
        with device.operation("aten::_to_copy"):
            with _as_copies_left_it(device, source):
                target = state.tag(_twin(device, source))
            _host_to_device(device, target, source, non_blocking)
        _tell(device, target)
    finally:
        del guard
    return target


def to_host(source: Tensor, non_blocking: bool = False) -> Tensor:
    """A host tensor with the bytes of a device tensor.

    As in PyTorch, ``non_blocking`` allocates pinned memory and returns at once: the bytes
    arrive when the host has synchronised with the copy.
    """
    if is_traceable_wrapper_subclass(source):
        return wrappers.moved(source, wrappers.HOST, non_blocking)
    device = state.device_on()
    if device.ghost:
        raise GhostHasNoValues()
    if device.later:
        device.use([source])
    guard = DisableTorchDispatch()
    try:
        target = plain(source).clone(memory_format=torch.preserve_format)
        if non_blocking:
            device.pinned.pin(target)
        with device.operation("aten::_to_copy"):
            _device_to_host(device, target, source, target, non_blocking)
        _tell(device, target)
    finally:
        del guard
    return target


def _check_can_move(source: Tensor) -> None:
    if source.layout is not torch.strided:
        raise NotModelled(f"a tensor of layout {source.layout}")
    if isinstance(source, FakeTensor) or source.is_nested:
        raise NotModelled(f"a {type(source).__name__} on the device, nested or fake,")
    if source.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def _twin(device, source: Tensor) -> Tensor:
    if device.ghost:
        return torch.empty_like(plain(source), device="meta")
    return plain(source).clone(memory_format=torch.preserve_format)


def nothing_on_card(like: Tensor) -> Tensor:
    """An empty device tensor of the dtype of ``like``: what ``new_zeros`` and its kin ask."""
    guard = DisableTorchDispatch()
    try:
        return state.tag(torch.empty(0, dtype=like.dtype, device=state.device_on().memory_of))
    finally:
        del guard


def nothing_on_host(like: Tensor) -> Tensor:
    """An empty host tensor of the dtype of ``like``."""
    guard = DisableTorchDispatch()
    try:
        return torch.empty(0, dtype=like.dtype, device="cpu")
    finally:
        del guard


def twin_on_host(like: Tensor) -> Tensor:
    """A host tensor of the shape, strides and dtype of ``like``, without its values."""
    guard = DisableTorchDispatch()
    try:
        return torch.empty_like(plain(like), device="cpu")
    finally:
        del guard


def _tell(device, target: Tensor) -> None:
    for log in device.machine.logs:
        log.on_new(target)


def plain(source: Tensor) -> Tensor:
    """The same bytes as an ordinary CPU tensor, unknown to the machine."""
    guard = DisableTorchDispatch()
    try:
        return make_subclass(Tensor, source)
    finally:
        del guard


def _host_to_device(device, target: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Record the copy, with the temporaries that PyTorch makes for what does not travel as it lies.

    After ``copy_kernel_cuda`` in ATen/native/cuda/Copy.cu: conversions happen on the host when the
    copy is blocking, on the card when it is not.
    """
    if not target.nbytes:
        return
    if device.capture is not None:
        raise NotModelled("a copy between host and device inside a CUDA graph")
    direct, converted = _is_direct(target, source), target.dtype != source.dtype
    on_card = converted and non_blocking or not is_dense(target)
    as_it_is = direct or (is_dense(source) and target.shape == source.shape and (non_blocking or not converted))
    accesses = device.pinned.accesses_of(source) if as_it_is else None
    nbytes = target.numel() * (source if converted and non_blocking else target).element_size()
    written = [use(device.memory.of(target).accesses, target)]
    if on_card:
        device.memory.use_for_a_moment(nbytes)
    device.pinned.look()
    mark = device.machine.copy(
        "HtoD",
        nbytes,
        pinned=accesses is not None,
        blocking=not non_blocking,
        reads=[] if accesses is None else [use(accesses, source)],
        writes=[] if on_card else written,
    )
    if non_blocking:
        device.pinned.used(source, device.machine.current.number)
    if non_blocking and accesses is not None:
        device.pinned.sent(source, mark)
    if on_card:
        _kernel_of_a_temporary(device, nbytes, [], [(written[0][0], target)], target.nbytes)


def _device_to_host(device, target: Tensor, source: Tensor, values: Tensor, non_blocking: bool) -> None:
    """Record the copy. ``values`` holds what arrives; while it is under way ``target`` shows zeros."""
    if not target.nbytes:
        return
    if device.capture is not None:
        raise NotModelled("a copy between host and device inside a CUDA graph")
    converted = target.dtype != source.dtype
    accesses = device.pinned.accesses_of(target) if is_dense(target) and (non_blocking or not converted) else None
    nbytes = target.numel() * (target if converted and non_blocking else source).element_size()
    read = use(device.memory.of(source).accesses, source)
    on_card = converted and non_blocking or not is_dense(source)
    if on_card:
        device.memory.use_for_a_moment(nbytes)
        _kernel_of_a_temporary(device, source.nbytes, [(read[0], source)], [], nbytes)
    late = non_blocking and accesses is not None
    if late:
        arriving = values.detach().clone()
        target.data.zero_() if values is target else None
    mark = device.machine.copy(
        "DtoH",
        nbytes,
        pinned=accesses is not None,
        blocking=not non_blocking,
        reads=[] if on_card else [read],
        writes=[] if accesses is None else [use(accesses, target)],
    )
    if late:
        device.pinned.used(target, device.machine.current.number)
        device.undelivered.append((mark, target.data, arriving))


def _is_direct(target: Tensor, source: Tensor) -> bool:
    """Whether the bytes travel as they lie."""
    alike = all(n == 1 or s == t for n, s, t in zip(target.shape, target.stride(), source.stride()))
    return target.dtype == source.dtype and target.shape == source.shape and alike and is_dense(target)


def _kernel_of_a_temporary(device, bytes_read: int, reads, writes, bytes_written: int) -> None:
    machine = device.machine
    us = duration_us(machine.card, 0, bytes_read + bytes_written, 1.0)
    machine.kernel("aten.copy_", us, bytes_written, 0, reads, writes, bytes_read, bytes_written)


def deliver(device) -> None:
    """Write what copies to the host brought, once the host has seen them end."""
    clock, waiting = device.machine.host_vector_clock, []
    for mark, target, arriving in device.undelivered:
        if mark.is_before(clock):
            _below(target.copy_, arriving)
        else:
            waiting.append((mark, target, arriving))
    device.undelivered = waiting


@contextmanager
def _as_copies_left_it(device, source: Tensor) -> Iterator[None]:
    """A copy back to the card reads what the copies before it in the stream wrote, while the host sees nothing of it yet."""
    storage = source.untyped_storage()._cdata
    under_way = [copy for copy in device.undelivered if copy[1].untyped_storage()._cdata == storage]
    seen = [(target, _below(target.clone)) for _, target, _ in under_way]
    for _, target, arriving in under_way:
        _below(target.copy_, arriving)
    try:
        yield
    finally:
        for target, before in reversed(seen):
            _below(target.copy_, before)


def _below(do: Callable, *arguments):
    """``do(...)`` where no instrument sees it."""
    guard = DisableTorchDispatch()
    try:
        return do(*arguments)
    finally:
        del guard


def copy_between(cls, device, func, args, kwargs) -> Tensor:
    """``target.copy_(source)`` where one of the two is on the card."""
    target, source = args[0], args[1]
    non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
    if device.ghost and not isinstance(target, cls):
        raise GhostHasNoValues()
    if device.capture is not None:
        raise NotModelled("a copy between host and device inside a CUDA graph")
    if isinstance(target, cls):
        with _as_copies_left_it(device, source):
            _copied(func, target, source)
        _host_to_device(device, target, source, non_blocking)
        return target
    if non_blocking and device.pinned.accesses_of(target) is not None:
        _device_to_host(device, target, source, _as_it_arrives(target, source), True)
        return target
    _copied(func, target, source)
    _device_to_host(device, target, source, target, non_blocking)
    return target


def _as_it_arrives(target: Tensor, source: Tensor) -> Tensor:
    guard = DisableTorchDispatch()
    try:
        return torch.empty_like(target).copy_(plain(source))
    finally:
        del guard


def _copied(func, target: Tensor, source: Tensor) -> Tensor:
    guard = DisableTorchDispatch()
    try:
        func(target, source)
    finally:
        del guard
    return target
