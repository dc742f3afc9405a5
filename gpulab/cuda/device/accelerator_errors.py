"""Errors of CUDA as PyTorch raises them: ``c10_cuda_check_implementation`` in c10/cuda/CUDAException.cpp."""

import torch

_TEXT = (
    "CUDA error: {said}\n"
    "Search for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
    "for more information.\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


def accelerator_error(name: str, said: str) -> torch.AcceleratorError:
    """The error ``name`` of the CUDA runtime; ``said``: what ``cudaGetErrorString`` says of it."""
    return torch.AcceleratorError(_TEXT.format(name=name, said=said))
