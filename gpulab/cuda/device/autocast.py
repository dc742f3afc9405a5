"""``torch.autocast("cuda")`` for tensors that are CPU tensors underneath.

The dispatcher sees host tensors, so a CUDA region switches on the host's autocast key, and
Python kernels registered for that key apply CUDA's policy to device tensors alone. While
only a host region is open, PyTorch's own kernels for that key stand.
"""

import warnings
import weakref

import torch

from gpulab.compat.dispatch import DispatchKey, DispatchKeySet, ExcludeDispatchKeyGuard, registrations
from gpulab.cuda.device import state
from gpulab.cuda.device.autocast_policy import BANNED, RECURRENT, WITH_DTYPE, policy_of
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.errors import NotModelled

_KEY = "AutocastCPU"


class Autocast:
    """The state of CUDA autocast, and the kernels that carry it out."""

    def __init__(self) -> None:
        self._set, self._is = torch.set_autocast_enabled, torch.is_autocast_enabled
        self._clear = torch.clear_autocast_cache
        self._library: torch.library.Library | None = None
        self._cache: dict[int, tuple[weakref.ref, torch.Tensor]] = {}
        self._host_wanted = False
        self._dtype_before = torch.float16

    def install(self, patches: Patches) -> None:
        self._host_wanted = self._is("cpu")
        self._dtype_before = torch.get_autocast_dtype("cuda")
        patches.set(torch, "set_autocast_enabled", self._set_enabled)
        patches.set(torch, "is_autocast_enabled", self._is_enabled)
        patches.set(torch, "clear_autocast_cache", self._clear_cache)

    def remove(self) -> None:
        self._unregister()
        self._cache.clear()
        self._set("cuda", False)
        self._set("cpu", self._host_wanted)
        torch.set_autocast_dtype("cuda", self._dtype_before)

    def _set_enabled(self, device, enabled=None) -> None:
        if enabled is None:
            device, enabled = "cuda", device
        device = _type_of(device)
        if device not in ("cuda", "cpu"):
            return self._set(device, enabled)
        if device == "cuda":
            if enabled and state.device_on().ghost:
                raise NotModelled("autocast on a ghost card (convert the model: model.bfloat16())")
            self._set("cuda", enabled)
        else:
            self._host_wanted = enabled
        on_card = self._is("cuda")
        self._set("cpu", on_card or self._host_wanted)
        state.device_on().host_autocast = self._host_wanted and not on_card
        if on_card:
            self._register()
        elif self._host_wanted:
            self._unregister()

    def _is_enabled(self, device=None) -> bool:
        device = "cuda" if device is None else _type_of(device)
        return self._host_wanted if device == "cpu" else self._is(device)

    def _clear_cache(self) -> None:
        self._cache.clear()
        self._clear()

    def _register(self) -> None:
        if self._library is not None:
            return
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            for name in sorted(_names()):
                op = _operator(name)
                if op is not None:
                    self._library.impl(name, self._kernel(name, op), _KEY)

    def _unregister(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _kernel(self, name: str, op):
        policy = policy_of(name)
        if policy == "none":
            return torch.library.fallthrough_kernel
        rule = getattr(self, f"_{policy}")
        host_key = DispatchKeySet(getattr(DispatchKey, _KEY))

        def kernel(*args, **kwargs):
            with ExcludeDispatchKeyGuard(host_key):
                return rule(name, op, args, kwargs)

        return kernel

    def _lower(self, name: str, op, args, kwargs):
        return op(*self._all_cast(args, torch.get_autocast_dtype("cuda")), **kwargs)

    def _fp32(self, name: str, op, args, kwargs):
        return op(*self._all_cast(args, torch.float32), **kwargs)

    def _result(self, name: str, op, args, kwargs):
        if not _is_eligible(args[0]) or _names_a_dtype(op, args, kwargs):
            return op(*args, **kwargs)
        if name in WITH_DTYPE:
            op, args = _operator(WITH_DTYPE[name]), _all_positional(op, args)
        return op(*args, **{**kwargs, "dtype": torch.float32})

    def _widest(self, name: str, op, args, kwargs):
        floating = [t.dtype for t in _eligible(args)]
        widest = torch.float32 if torch.float32 in floating else torch.get_autocast_dtype("cuda")
        return op(*self._all_cast(args, widest), **kwargs)

    def _banned(self, name: str, op, args, kwargs):
        if any(True for _ in _eligible(args)):
            raise RuntimeError(BANNED[name])
        return op(*args, **kwargs)

    def _all_cast(self, value, dtype):
        if isinstance(value, (list, tuple)):
            return type(value)(self._all_cast(item, dtype) for item in value)
        if not _is_eligible(value) or value.dtype == dtype:
            return value
        return self._cached(value, dtype) if _is_weight(value, dtype) else value.to(dtype)

    def _cached(self, weight, dtype):
        # As PyTorch does: a weight is cast once in the outermost region, however often it is used.
        kept = self._cache.get(id(weight))
        if kept is not None and kept[0]() is weight and kept[1].dtype == dtype:
            return kept[1]
        cast = weight.to(dtype)
        self._cache[id(weight)] = (weakref.ref(weight), cast)
        return cast


def _type_of(device: str) -> str:
    """``cuda`` of ``cuda:0``: PyTorch takes both."""
    return device.partition(":")[0]


def _names() -> set[str]:
    listed = registrations
    return RECURRENT | {name.removeprefix("aten::") for key in ("AutocastCUDA", _KEY) for name in listed(key)}


def _operator(name: str):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def _all_positional(op, args) -> tuple:
    """``args``, and the defaults of those that were not given."""
    declared = [a for a in op._schema.arguments if not a.kwarg_only]
    return tuple(args) + tuple(a.default_value for a in declared[len(args) :])


def _names_a_dtype(op, args, kwargs) -> bool:
    declared = dict(zip((a.name for a in op._schema.arguments), args))
    return {**declared, **kwargs}.get("dtype") is not None


def _is_eligible(value) -> bool:
    return isinstance(value, CudaTensor) and value.is_floating_point() and value.dtype != torch.float64


def _eligible(args):
    for value in args:
        if isinstance(value, (list, tuple)):
            yield from _eligible(value)
        elif _is_eligible(value):
            yield value


def _is_weight(value, dtype) -> bool:
    return (
        dtype != torch.float32
        and value.dtype == torch.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
        and torch.is_autocast_cache_enabled()
    )
