"""One operation on the virtual device: run it on the CPU, account for it on the machine."""

import functools
import os
import sys
from contextlib import ExitStack

import torch

from gpulab.compat.autograd import RUN_BACKWARD_CODE, current_graph_task
from gpulab.compat.dispatch import (
    FILES,
    DisableTorchDispatch,
    DispatchKey,
    ForceDispatchKeyGuard,
    disable_current_modes,
    disabled_torch_function,
    excluded_keys,
    in_inference_mode,
    included_keys,
)
from gpulab.compat.tensors import make_subclass
from gpulab.cuda.device import cost, faults, kernels, state, tf32, wrappers
from gpulab.cuda.device.ghosts import shapes_of
from gpulab.cuda.device.memory import use
from gpulab.cuda.device.op_rules import OpRule, rule_of
from gpulab.cuda.device.refusals import different_device, index_device
from gpulab.cuda.errors import GhostHasNoValues, MachineTooSmall, NotModelled
from gpulab.observe import recorder
from gpulab.observe.device import DeviceLog

Tensor = torch.Tensor
# What stands between an operation and whoever called it.
_BETWEEN = (__file__, recorder.__file__, *FILES, os.path.join(os.path.dirname(__file__), "tensor.py"))
_RULES: dict[int, OpRule] = {}
"""By the ``id`` of the operator, which the rule keeps alive: PyTorch's own hash of it is Python and takes longer."""
in_deterministic_mode = torch.are_deterministic_algorithms_enabled
_LAZY = tuple(getattr(DispatchKey, name) for name in ("Conjugate", "Negative", "ZeroTensor"))
# Arguments that CUDA's kernels read on the host.
_HOST_ARGUMENTS = {
    "aten._ctc_loss": ("input_lengths", "target_lengths"),
    "aten._ctc_loss_backward": ("input_lengths", "target_lengths"),
    "aten._pack_padded_sequence": ("lengths",),
    "aten.tensor_split": ("tensor_indices_or_sections",),
}
# Results that CUDA's kernels leave on the host, by position.
_HOST_RESULTS = {"aten._pack_padded_sequence": 1}
# The element, count or flag that the host reads back; no more than eight bytes.
_COUNT_BYTES = 8
_RESULT_BYTES = {
    "aten.equal": 1,
    "aten.allclose": 1,
    "aten.nonzero": 4,
    "aten.masked_select": 4,
    "aten.index": 4,
    "aten.index_put_": 4,
}


def register_handler(namespace: str, run) -> None:
    """Operations of ``namespace`` are no kernels from now on: ``run(op, args, kwargs)`` answers them."""
    kernels.ANSWERED[namespace] = run
    for key in [key for key, rule in _RULES.items() if rule.op.namespace == namespace]:
        del _RULES[key]


def dispatch(cls, func, args, kwargs):
    """``__torch_dispatch__`` of the device tensor class ``cls``."""
    device = state._on
    if device is None:
        state.device_on()
    rule = _RULES.get(id(func))
    if rule is None:
        rule = _RULES[id(func)] = rule_of(func)
    if device.trace is None:
        return _dispatched(cls, device, rule, func, args, kwargs)
    with device.trace.operation(func._schema.name, _shapes(args)):
        return _dispatched(cls, device, rule, func, args, kwargs)


def _dispatched(cls, device, rule, func, args, kwargs):
    if rule.program is not None:
        return rule.program(*args, **kwargs)
    if rule.composed and in_inference_mode():
        return func.decompose(*args, **kwargs)
    inputs, hosts = [], []
    _sort(cls, args, inputs, hosts)
    if kwargs:
        _sort(cls, kwargs.values(), inputs, hosts)
    if hosts or "device" in kwargs or rule.random:
        return _slow_path(cls, device, rule, func, args, kwargs, inputs, hosts)
    return _run(cls, device, rule, func, args, kwargs, inputs)


def _shapes(args) -> list[list[int]]:
    return [list(value.shape) for value in args if isinstance(value, Tensor)]


def _sort(cls, values, inputs: list, hosts: list) -> None:
    for value in values:
        if isinstance(value, cls):
            inputs.append(value)
        elif isinstance(value, Tensor):
            hosts.append((value, sys.getrefcount(value)))
        elif isinstance(value, (list, tuple)):
            _sort(cls, value, inputs, hosts)


def _run(cls, device, rule, func, args, kwargs, inputs):
    if rule.refusal is not None and inputs:
        rule.refusal(inputs[0].dtype)
    if rule.alert is not None and in_deterministic_mode():
        rule.alert(args, kwargs)
    if device.later and not rule.view:
        device.use(inputs)
    if rule.name == "aten.equal" and _is_the_same_memory(*args):
        return True
    waits = rule.waits and _waits(rule, kwargs) or rule.may_wait_for_mask and _has_mask(cls, args)
    if device.ghost and (waits or rule.may_wait_for_mask and _has_mask(Tensor, args)):
        raise GhostHasNoValues()
    if device.host_autocast:
        raise NotModelled("an operation on a device tensor inside torch.autocast('cpu')")
    if device.capture is not None and not device.ghost:
        device.capture.before(cls, rule, args, kwargs)
    in_tf32 = rule.factors is not None and tf32.is_used(device.card, rule.factors, args)
    out = _computed(cls, device, rule, func, args, kwargs, in_tf32)
    if rule.view:
        return _tagged(cls, out, None)
    outputs: list = []
    result = _tagged(cls, out, outputs)
    if rule.name in _HOST_RESULTS:
        result = _left_on_host(_HOST_RESULTS[rule.name], out, result, outputs)
    if rule.kernel:
        _launch(device, rule, args, kwargs, inputs, outputs, result, in_tf32)
    else:
        _hold(device.memory, rule, outputs)
    if device.capture is not None:
        call = functools.partial(tf32.computed, func, rule.factors) if in_tf32 else rule.own or func
        device.capture.record(cls, call, args, kwargs, outputs, rule)
    if waits:
        _wait_for_result(device, rule, inputs)
    return result


def _waits(rule, kwargs) -> bool:
    return not (rule.spares_the_wait and kwargs.get(rule.spares_the_wait) is not None)


def _computed(cls, device, rule, func, args, kwargs, in_tf32):
    guard = DisableTorchDispatch()
    try:
        if device.ghost:
            return shapes_of(cls, func, args, kwargs)
        if in_tf32:
            return tf32.computed(func, rule.factors, *args, **kwargs)
        if rule.composite and _has_complex(args):
            return _composed(func, args, kwargs)
        return rule.compute(*args, **kwargs)
    except (RuntimeError, IndexError) as error:
        MachineTooSmall.raise_if_that_is(error)
        return _fallback(cls, device, rule, func, args, kwargs, error)
    finally:
        del guard


def _fallback(cls, device, rule, func, args, kwargs, error):
    """What a card does where the host's kernel raised ``error``: who raises it for a value has waited for that."""
    out = faults.result_despite(cls, device, func, args, kwargs, error)
    if out is not None:
        return out
    if isinstance(error, NotImplementedError):
        return kernels.widened(func, args, kwargs, error)
    if rule.waits or faults.is_of_a_value(func, args, kwargs):
        _wait_for_result(device, rule, [value for value in args if isinstance(value, cls)])
    raise error


def _has_complex(values) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value.is_complex():
                return True
        elif isinstance(value, (list, tuple)) and _has_complex(value):
            return True
    return False


def _composed(func, args, kwargs):
    # It may set a conjugate bit and hand that tensor on: below here PyTorch has switched off who reads the bit.
    off = excluded_keys()
    for key in _LAZY:
        off = off.remove(key)
    with ForceDispatchKeyGuard(included_keys(), off):
        return func(*args, **kwargs)


def _left_on_host(position: int, out, result, outputs: list):
    outputs[:] = [tensor for tensor in outputs if tensor is not result[position]]
    return (*result[:position], out[position], *result[position + 1 :])


def _tagged(cls, out, outputs: list | None):
    if isinstance(out, Tensor):
        if not isinstance(out, cls):
            if out.layout is not torch.strided:
                raise NotModelled(f"a tensor of layout {out.layout}")
            out = make_subclass(cls, out, out.requires_grad)
        if outputs is not None:
            outputs.append(out)
        return out
    if isinstance(out, (list, tuple)):
        return type(out)(_tagged(cls, item, outputs) for item in out)
    return out


def _hold(memory, rule, outputs) -> None:
    for tensor in outputs:
        if rule.resizes:
            memory.resized(tensor.untyped_storage())
        else:
            memory.of(tensor)


def _launch(device, rule, args, kwargs, inputs, outputs, result, in_tf32) -> None:
    """Memory for what is new, and the kernel."""
    machine, memory = device.machine, device.memory
    if rule.resizes:
        _hold(memory, rule, outputs)
    written = _written(rule, args, kwargs, outputs) if rule.writes_by_name else outputs
    reads, bytes_read, elements = _uses(memory, inputs)
    writes, bytes_written, made = _uses(memory, written)
    if len(machine.queues) > 1 and current_graph_task() != -1 and _called_by_the_engine():
        machine.follow_users((*reads, *writes))
    if rule.writes_by_name:
        again = {id(tensor) for tensor in written}
        reads = [use for use in reads if id(use[1]) not in again]
    if rule.overwrites:
        bytes_read -= bytes_written
    if rule.sparse:
        elements, spared = cost.sparse_work(rule, inputs, outputs)
        bytes_read -= spared
        bytes_written -= spared if rule.writes else 0
    else:
        elements = made if rule.pointwise else max(elements, made)
    flops = elements if rule.flops is None else cost.flops_of(rule, args, kwargs, inputs, result)
    first, nbytes = inputs[0] if inputs else written[0], bytes_read + bytes_written
    duration = cost.kernel_us(machine.card, rule, flops, nbytes, first, outputs, in_tf32)
    machine.kernel(rule.name, duration, elements, flops, reads, writes, bytes_read, bytes_written)


def follow_users(tensors) -> None:
    """The current stream starts after what others did to these: so the engine hands gradients to Python."""
    device = state.device_on()
    device.machine.follow_users([(device.memory.of(tensor).accesses, tensor) for tensor in tensors])


def _uses(memory, tensors: list) -> tuple[list, int, int]:
    """(accesses, tensor) of each, their bytes, and the elements of the largest: each in memory once."""
    uses, nbytes, elements, held_by = [], 0, 1, memory.held
    for tensor in tensors:
        storage = tensor.untyped_storage()
        held = held_by.get(storage._cdata) or memory.adopt(storage)
        uses.append((held.accesses, tensor))
        size, count = tensor.nbytes, tensor.numel()
        if size > held.nbytes:
            size = cost.distinct_bytes(tensor)
            count = size // tensor.element_size()
        nbytes += size
        if count > elements:
            elements = count
    return uses, nbytes, elements


def _written(rule, args, kwargs, outputs) -> list:
    found: dict[int, Tensor] = {}
    values = [args[i] for i in rule.writes if i < len(args)]
    values += [kwargs[name] for name in rule.writes_by_name if name in kwargs]
    for value in (*values, outputs):
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor):
                found[id(tensor)] = tensor
    return list(found.values())


_MASKS = (torch.bool, torch.uint8)


def _has_mask(kind: type, args) -> bool:
    return any(isinstance(i, kind) and i.dtype in _MASKS for i in args[1] or ())


def _is_the_same_memory(one: Tensor, other: Tensor) -> bool:
    return one.is_set_to(other) and one.dtype == other.dtype


def _wait_for_result(device, rule, inputs) -> None:
    # Into pinned memory: so says a real card's profile.
    nbytes = _RESULT_BYTES.get(rule.name, _COUNT_BYTES)
    if rule.scalar:
        nbytes = inputs[0].element_size()
    reads = [use(device.memory.of(t).accesses, t) for t in inputs[:1]]
    device.machine.copy("DtoH", nbytes, pinned=True, blocking=True, reads=reads, reason=rule.name)


def _send_indices(cls, device, indices) -> None:
    """Indices on the host travel first: of a mask the places that hold, pinned; others as they lie, with a wait."""
    for index in indices or ():
        if not isinstance(index, Tensor) or isinstance(index, cls) or not index.numel():
            continue
        if device.capture is not None:
            raise NotModelled("a copy between host and device inside a CUDA graph")
        masks = index.dtype in _MASKS
        for nbytes in [8 * int(index.count_nonzero())] * index.dim() if masks else [index.nbytes]:
            if nbytes:
                device.machine.copy("HtoD", nbytes, pinned=masks, blocking=not masks)


def _mask_to_fill(cls, rule, target, indices, value=None, accumulate=False):
    """The mask of ``x[mask] = a number``, which a card gives to ``masked_fill_``; None for all other uses of indices."""
    masks = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not rule.writes or accumulate or isinstance(value, cls) or value.numel() != 1 or len(masks) != 1:
        return None
    ((first, mask),) = masks
    fits = isinstance(mask, cls) and mask.dtype in _MASKS and mask.shape == target.shape[first : first + mask.dim()]
    return mask[(..., *[None] * (target.dim() - first - mask.dim()))] if fits else None


def _send_scalar(cls, device, value=None) -> None:
    """A number to be written at indices: it travels first, with a wait."""
    if value is not None and not isinstance(value, cls) and not value.dim():
        if device.capture is not None:
            raise NotModelled("a copy between host and device inside a CUDA graph")
        device.machine.copy("HtoD", value.element_size(), pinned=False, blocking=True)


def _slow_path(cls, device, rule, func, args, kwargs, inputs, hosts):
    """The paths that few operations take: host tensors, a device argument, random numbers."""
    from gpulab.cuda.device import randomness, transfer

    if hosts:
        if rule.name == "aten.copy_":
            return transfer.copy_between(cls, device, func, args, kwargs)
        _check_hosts(rule, args, kwargs, hosts)
        if rule.may_wait_for_mask:
            mask = _mask_to_fill(cls, rule, *args[:4])
            if mask is not None:
                return args[0].masked_fill_(mask, args[2])
            _send_indices(cls, device, args[1])
            _send_scalar(cls, device, *args[2:3])
    if "device" in kwargs:
        if not device.ghost and kwargs["device"] is not None and kwargs["device"].type == "meta":
            return _without_values(func, args, kwargs)
        if wrappers.part_leaves_the_card(rule.name, kwargs["device"]):
            return _part_to_host(*args, **kwargs)
        # PyTorch's C++ asks for "the same device", which it takes for the CPU. What the learner
        # asks for is answered above, in Python.
        kwargs = {name: value for name, value in kwargs.items() if name != "device"}
    if rule.random and not (device.ghost and rule.random == "default"):
        with randomness.drawing(device, rule, args, kwargs) as (args, kwargs):
            return _run(cls, device, rule, func, args, kwargs, inputs)
    return _run(cls, device, rule, func, args, kwargs, inputs)


def _part_to_host(part, *, dtype=None, non_blocking=False, memory_format=torch.preserve_format, **others):
    from gpulab.cuda.device import transfer

    on_host = transfer.to_host(part, non_blocking)
    return on_host if dtype is None else on_host.to(dtype)


def _without_values(func, args, kwargs):
    guard = DisableTorchDispatch()
    try:
        return func(*args, **kwargs)
    finally:
        del guard


def _check_hosts(rule, args, kwargs, hosts) -> None:
    """Raise as CUDA does when a host tensor takes part that may not."""
    if any(args[i] is tensor for i in rule.writes[:1] for tensor, _ in hosts):
        _check_written_host(rule, args, kwargs, hosts)
    if current_graph_task() != -1 and _called_by_the_engine():
        return
    strangers = [tensor for tensor, references in hosts if not _may_take_part(tensor, references)]
    if not strangers or all(_is_read_on_host(rule, args, s) for s in strangers):
        return
    if not rule.may_wait_for_mask:
        raise different_device(rule, args, kwargs)
    if any(args[0] is s for s in strangers):
        raise index_device()
    if any(value is s for value in args[2:3] for s in strangers):
        raise different_device(rule, args, kwargs)


def _called_by_the_engine() -> bool:
    """Whether no Python of a backward pass, a Function or a hook, called the operation."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame is None or frame.f_code is RUN_BACKWARD_CODE


def _is_read_on_host(rule, args, tensor: Tensor) -> bool:
    allowed = _HOST_ARGUMENTS.get(rule.name, ())
    return any(value is tensor and name in allowed for name, value in zip(rule.argument_names, args))


def _check_written_host(rule, args, kwargs, hosts) -> None:
    written, references = next((t, r) for t, r in hosts if t is args[rule.writes[0]])
    if references > references_of_a_temporary(_observers()):
        raise different_device(rule, args, kwargs)
    raise NotModelled(f"{rule.name} into a tensor that PyTorch's C++ allocated on the way")


def _may_take_part(tensor: Tensor, references: int) -> bool:
    if tensor.dim() == 0:
        return True
    if references > references_of_a_temporary(_observers()):
        return False
    return not (tensor._is_view() and _is_held(tensor))


def _is_held(view: Tensor) -> bool:
    """Whether the program holds the tensor that ``view`` shows, and not PyTorch's C++ alone."""
    base = view._base
    known = base.is_leaf and base.requires_grad
    del base
    return known or _references_of_base(view) > references_of_a_base()


def _references_of_base(view: Tensor) -> int:
    return sys.getrefcount(view._base)


@functools.cache
def references_of_a_base() -> int:
    """How often Python refers to a base that only a view holds. To be asked first outside an operation."""
    with disable_current_modes(), torch.inference_mode(False):
        return _references_of_base(torch.zeros(2, device="cpu").view(2))


def _observers() -> int:
    return sum(isinstance(log, DeviceLog) for log in state.device_on().machine.logs)


@functools.cache
def references_of_a_temporary(observers: int) -> int:
    """How often Python refers to a tensor that PyTorch's C++ made on the way.

    One that the program holds is referred to more often: by a name, a frame or a container.
    Found out by a function (``one_hot``) that makes such a tensor, with as many ``observe()``
    blocks open as there are: each of them holds an operation's arguments too. To be asked
    first outside an operation, inside which PyTorch cannot be put the question.
    """
    with disable_current_modes(), ExitStack() as modes:
        for _ in range(observers):
            modes.enter_context(recorder.Recorder())
        return _references_seen_by_a_probe()


def _references_seen_by_a_probe() -> int:
    seen: list[int] = []

    class Probe(Tensor):
        __torch_function__ = disabled_torch_function

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            hosts: list = []
            _sort(cls, args, [], hosts)
            seen.extend(references for _, references in hosts)
            guard = DisableTorchDispatch()
            try:
                out = func(*args, **(kwargs or {}))
            finally:
                del guard
            return make_subclass(cls, out) if isinstance(out, Tensor) else out

    torch.ops.aten.one_hot(make_subclass(Probe, torch.tensor([0], device="cpu")), 1)
    return max(seen)
