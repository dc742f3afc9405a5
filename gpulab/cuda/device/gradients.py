"""Gradients stay on the device of what they belong to, as PyTorch's engine demands on a card.

The engine compares the devices that its C++ knows, which are the host's on both sides here. What
its formulas make on the way (zeros, for what has no slope) it makes on that device too: such a
gradient becomes the card's where it leaves the engine.
"""

import functools

import torch
from torch.autograd import forward_ad
from torch.autograd.function import BackwardCFunction

from gpulab.compat import function_apply
from gpulab.compat.autograd import MAKE_GRADS, RUN_BACKWARD
from gpulab.compat.functorch import UNPACK_DUAL, is_wrapped
from gpulab.cuda.device.dispatch import follow_users
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor, brought_to_card

Tensor = torch.Tensor
_DEVICES = "_devices_of_inputs_and_outputs"


def install(patches: Patches) -> None:
    """Check what a program hands to the engine: the first gradients, and those of a Function's backward."""
    patches.set(*MAKE_GRADS, _first_gradients(MAKE_GRADS.value))
    run = _results_on_their_devices(RUN_BACKWARD[0].value)
    for place in RUN_BACKWARD:
        patches.set(*place, run)
    patches.set(*UNPACK_DUAL, _tangent_on_its_device(UNPACK_DUAL.value))
    patches.set(*function_apply.FUNCTION_APPLY, classmethod(_noting_devices(function_apply.apply)))
    patches.set(BackwardCFunction, "apply", _checking_results(BackwardCFunction.apply))


def _first_gradients(original):
    @functools.wraps(original)
    def make(outputs, grads, *args, **kwargs):
        moved = [_on_device_of(i, out, grad) for i, (out, grad) in enumerate(zip(outputs, grads))]
        return original(outputs, moved, *args, **kwargs)

    return make


def _results_on_their_devices(original):
    @functools.wraps(original)
    def run(outputs, *args, **kwargs):
        gradients = original(outputs, *args, **kwargs)
        if not gradients:
            return gradients
        inputs = args[3] if len(args) > 3 else kwargs.get("inputs", ())
        return tuple(_like(gradient, of) for gradient, of in zip(gradients, inputs))

    return run


def _tangent_on_its_device(original):
    @functools.wraps(original)
    def unpack(*args, **kwargs):
        primal, tangent = original(*args, **kwargs)
        return forward_ad.UnpackedDualTensor(primal, _like(tangent, primal))

    return unpack


def _like(gradient, of):
    return brought_to_card(gradient) if isinstance(of, CudaTensor) else gradient


def _on_device_of(index: int, out, grad):
    if not (isinstance(out, Tensor) and isinstance(grad, Tensor)) or out.is_cuda == grad.is_cuda:
        return grad
    if grad.dim() and not (is_wrapped(out) or is_wrapped(grad)):
        raise _elsewhere("invalid gradient", index, out.device, grad.device)
    return grad.to(out.device)


def _elsewhere(what: str, index: int, expected, got) -> RuntimeError:
    return RuntimeError(f"{what} at index {index} - expected device {expected} but got {got}")


def _noting_devices(original):
    @functools.wraps(original)
    def apply(cls, *args, **kwargs):
        out = original(cls, *args, **kwargs)
        outs = out if isinstance(out, tuple) else (out,)
        node = next((o.grad_fn for o in outs if isinstance(o, Tensor)), None)
        if isinstance(node, BackwardCFunction):
            setattr(node, _DEVICES, ([_device_of(a) for a in args], [_device_of(o) for o in outs]))
        return out

    return apply


def _device_of(value):
    return value.device if isinstance(value, Tensor) and not is_wrapped(value) else None


def _checking_results(original):
    @functools.wraps(original)
    def apply(self, *grads):
        of_inputs, of_outputs = getattr(self, _DEVICES, ((), ()))
        if len(of_outputs) == len(grads):
            grads = [_materialised(grad, device) for grad, device in zip(grads, of_outputs)]
        follow_users(grad for grad in grads if isinstance(grad, CudaTensor))
        results = original(self, *grads)
        given = results if isinstance(results, (tuple, list)) else (results,)
        for index, (grad, wanted) in enumerate(zip(given, of_inputs)):
            got = _device_of(grad)
            if wanted is not None and got is not None and grad.dim() and got.type != wanted.type:
                name = f"Function {type(self).__name__} returned an invalid gradient"
                raise _elsewhere(name, index, wanted, got)
        return results

    return apply


def _materialised(grad, device):
    # For an output that nobody used the engine makes zeros, on the device that its C++ knows.
    if device is None or device.type != "cuda" or not isinstance(grad, Tensor) or grad.is_cuda:
        return grad
    return torch.zeros_like(grad, device=device)
