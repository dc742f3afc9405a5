"""Triton kernels under the microscope: ``from gpulab.kernels import triton, tl``."""

try:
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        "Triton is not installed. It exists for Linux: pip install 'triton==3.7.1'. On Windows use WSL 2, on "
        "a Mac Colab or any Linux machine; no GPU is needed"
    ) from error

from gpulab.kernels.tiles.errors import DeviceAssertion
from gpulab.kernels.tiles.facade import triton

__all__ = ["DeviceAssertion", "tl", "triton"]
