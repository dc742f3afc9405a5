"""Errors in PyTorch's own words."""

import torch

from gpulab.cuda.device import state

# Kernels that are "structured" in native_functions.yaml: their wrapper carries no overload name.
_STRUCTURED = {"mm", "addmm", "bmm", "baddbmm", "cat", "gather", "scatter", "index_add", "argmax", "nll_loss_forward"}

# Composed of another kernel, which is the one that checks, under its own argument's name.
_CHECKED_BY = {("embedding", "indices"): ("index_select", "index")}


def different_device(rule, args, kwargs) -> RuntimeError:
    """The error for the first tensor that lives elsewhere than those before it."""
    text = "Expected all tensors to be on the same device, but "
    if rule.name == "aten.convolution":
        return _of_convolution(*args[:3])
    if rule.pointwise or rule.name in _CHECKED_BY_ITERATOR:
        return RuntimeError(f"{text}found at least two devices, {state.CUDA} and cpu!")
    first, name, other = _first_difference(rule, args, kwargs)
    short = rule.name.removeprefix("aten.")
    short, name = _CHECKED_BY.get((short, name), (short, name))
    method = f"wrapper_CUDA_{short}" if short in _STRUCTURED else f"wrapper_CUDA__{short}"
    return RuntimeError(
        f"{text}got {name} is on {other}, different from other tensors on {first} "
        f"(when checking argument in method {method})"
    )


# Their device check is TensorIterator's, as that of pointwise operations is.
_CHECKED_BY_ITERATOR = {
    "aten.index_put",
    "aten.index_put_",
    "aten._index_put_impl_",
    "aten.mse_loss",
    "aten.smooth_l1_loss",
    "aten.huber_loss",
    "aten.allclose",
    "aten.masked_fill",
    "aten.masked_fill_",
}


def _of_convolution(source, weight, bias) -> RuntimeError:
    other, what = (weight, "weight") if weight.is_cuda != source.is_cuda else (bias, "bias")
    or_mkldnn = "" if source.is_cuda else f" or input should be a MKLDNN tensor and {what} is a dense tensor"
    return RuntimeError(f"Input type ({source.type()}) and {what} type ({other.type()}) should be the same{or_mkldnn}")


def _first_difference(rule, args, kwargs) -> tuple[str, str, str]:
    common = None
    named = [*zip(rule.argument_names, args), *kwargs.items()]
    for name, value in named:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(tensor, torch.Tensor):
                continue
            where = str(tensor.device)
            common = common or where
            if where != common:
                return common, name, where
    raise AssertionError("a mixed call has two devices")


def index_device() -> RuntimeError:
    return RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")


def gradient_elsewhere(of_gradient, of_tensor) -> RuntimeError:
    return RuntimeError(
        f"attempting to assign a gradient with device type '{of_gradient.type}' to a tensor with device "
        f"type '{of_tensor.type}'. Please ensure that the gradient and the tensor are on the same device"
    )


def no_numpy() -> TypeError:
    return TypeError(
        f"can't convert {state.CUDA} device type tensor to numpy. Use Tensor.cpu() to "
        "copy the tensor to host memory first."
    )


def only_host_can_be_pinned(type_name: str) -> RuntimeError:
    return RuntimeError(f"cannot pin '{type_name}' only dense CPU tensors can be pinned")
