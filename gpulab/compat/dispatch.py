"""Dispatch: keys, guards, modes, and operators as objects."""

import functools

import torch
import torch.utils._python_dispatch as modes
from torch._C import DisableTorchFunction as DisableTorchFunction
from torch._C import DispatchKey as DispatchKey
from torch._C import DispatchKeySet as DispatchKeySet
from torch._C import NumberType as NumberType
from torch._library.custom_ops import OPDEFS as OPDEFS
from torch._ops import OpOverload as OpOverload
from torch.utils._mode_utils import no_dispatch as no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass

_eval_frame = torch._C._dynamo.eval_frame
_SKIP = _eval_frame._FrameAction.SKIP


class DispatchMode(TorchDispatchMode):
    """A mode whose handler, and whatever it calls, torch.compile does not trace.

    PyTorch's own way to say so imports all of torch._dynamo, which takes a second, at the first operation under a mode.
    In inference mode, too, it sees the operators that an operation is composed of.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        handler = vars(cls).get("__torch_dispatch__")
        if handler is not None:
            cls.__torch_dispatch__ = _decomposing(handler)
            for code in (handler.__code__, cls.__torch_dispatch__.__code__):
                _eval_frame.set_code_exec_strategy(code, _eval_frame._FrameExecStrategy(_SKIP, _SKIP))


def _decomposing(handler):
    @functools.wraps(handler)
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if in_inference_mode() and is_composed(func):
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return handler(self, func, types, args, kwargs)

    return __torch_dispatch__


def in_cpp(op: OpOverload):
    """``op`` as PyTorch's C++ has it: called without the Python in between."""
    return op._op


in_inference_mode = torch.is_inference_mode_enabled


@functools.cache
def is_composed(op: OpOverload) -> bool:
    """Whether PyTorch's C++ composes it of others: above the dispatch to Python, but in inference mode not before."""
    name = op.name()
    return has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU")


FILES = (torch._ops.__file__, modes.__file__, __file__)
"""Of PyTorch's Python between an operation and whoever called it."""

DisableTorchDispatch = torch._C._DisableTorchDispatch
"""A guard, as long as the object lives: operations below ``__torch_dispatch__``, of subclasses and of modes."""
disable_current_modes = modes._disable_current_modes
"""A block without any mode of dispatch."""
mode_count = modes._len_torch_dispatch_stack
pop_mode = modes._pop_mode
disabled_torch_function = torch._C._disabled_torch_function_impl
"""The ``__torch_function__`` of a class whose functions go straight to the operators."""

ExcludeDispatchKeyGuard = torch._C._ExcludeDispatchKeyGuard
ForceDispatchKeyGuard = torch._C._ForceDispatchKeyGuard
"""A block with these keys included and excluded, and no others."""
included_keys = torch._C._dispatch_tls_local_include_set
excluded_keys = torch._C._dispatch_tls_local_exclude_set
"""This thread's, as a :class:`DispatchKeySet`."""
registrations = torch._C._dispatch_get_registrations_for_dispatch_key
"""Names of the operators with a kernel for a key, said by its name."""
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
"""``(operator, key)``, both by name."""
