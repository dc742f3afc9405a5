"""Errors in PyTorch's own words."""

import torch

# Kernels that are "structured" in native_functions.yaml: their wrapper carries no overload name.
_STRUCTURED = {"mm", "addmm", "bmm", "baddbmm", "cat", "gather", "scatter", "index_add", "argmax"}

# Composed of another kernel, which is the one that checks, under its own argument's name.
_CHECKED_BY = {("embedding", "indices"): ("index_select", "index")}


def different_device(plan, args, kwargs) -> RuntimeError:
    """The error for the first tensor that lives elsewhere than those before it."""
    text = "Expected all tensors to be on the same device, but "
    if plan.pointwise:
        return RuntimeError(f"{text}found at least two devices, cuda:0 and cpu!")
    first, name, other = _first_difference(plan, args, kwargs)
    short = plan.name.removeprefix("aten.")
    short, name = _CHECKED_BY.get((short, name), (short, name))
    method = f"wrapper_CUDA_{short}" if short in _STRUCTURED else f"wrapper_CUDA__{short}"
    return RuntimeError(
        f"{text}got {name} is on {other}, different from other tensors on {first} "
        f"(when checking argument in method {method})"
    )


def _first_difference(plan, args, kwargs) -> tuple[str, str, str]:
    common = None
    named = [*zip(plan.argument_names, args), *kwargs.items()]
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


def no_numpy() -> TypeError:
    return TypeError(
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to "
        "copy the tensor to host memory first."
    )


def only_host_can_be_pinned(type_name: str) -> RuntimeError:
    return RuntimeError(f"cannot pin '{type_name}' only dense CPU tensors can be pinned")
