"""What PyTorch's ``ProcessGroupNCCL`` refuses before it calls NCCL, in its words, and what NCCL makes of memory.

NCCL is handed an address and a count: what is not contiguous goes out as it lies in memory. Source:
``torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`` and ``Utils.hpp``.
"""

import warnings

import torch

from gpulab.cuda.device.memory import is_dense
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
_NAMES = {
    torch.int16: "Short",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
    torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}
_BITWISE = ("BAND", "BOR", "BXOR")
_MESSAGE = (
    "Detected non-contiguous tensor in P2P operations. It is user responsibility to guarantee that source and "
    "destination tensors have the same contiguity format."
)


class NcclRules:
    """The checks of ``ProcessGroupNCCL``. What takes tensors gives them as NCCL sees them."""

    _warned = False

    def contiguous(self, tensors: list[Tensor]) -> list[Tensor]:
        """Raises ValueError for a tensor that is not contiguous in its memory format."""
        if not all(_is_contiguous(tensor) for tensor in tensors):
            raise ValueError("Tensors must be contiguous")
        return [_as_it_lies(tensor) for tensor in tensors]

    def unchecked(self, tensors: list[Tensor], operation: str) -> list[Tensor]:
        """Raises NotModelled for what NCCL would read, or write, in the order of memory, unnoticed."""
        if not all(_is_contiguous(tensor) for tensor in tensors):
            raise NotModelled(
                f"{operation} of what is not contiguous (NCCL takes its memory as it lies: .contiguous())"
            )
        return [_as_it_lies(tensor) for tensor in tensors]

    def message(self, tensors: list[Tensor]) -> list[Tensor]:
        """Warns, once, of a message that goes out as it lies. Raises NotModelled where there are gaps in memory."""
        self.convertible(tensors)
        if all(_is_contiguous(tensor) for tensor in tensors):
            return [_as_it_lies(tensor) for tensor in tensors]
        if not NcclRules._warned:
            NcclRules._warned = True
            warnings.warn(_MESSAGE, stacklevel=2)
        if not all(is_dense(tensor) for tensor in tensors):
            raise NotModelled("a message of a tensor with gaps in memory (NCCL would send the gaps: .contiguous())")
        return [_as_it_lies(tensor) for tensor in tensors]

    def convertible(self, tensors: list[Tensor], complex_too: bool = False) -> None:
        """Raises TypeError for a dtype that NCCL has not."""
        for tensor in tensors:
            if tensor.dtype in _NAMES and not (complex_too and tensor.is_complex()):
                text = "Input tensor data type is not supported for NCCL process group: "
                raise TypeError(text + _NAMES[tensor.dtype])

    def sendable(self, tensors: list[Tensor]) -> None:
        """The same of collectives that are made of messages. Raises RuntimeError."""
        for tensor in tensors:
            if tensor.dtype in _NAMES:
                raise RuntimeError(f"Unconvertible NCCL type {_NAMES[tensor.dtype]}")

    def reducible(self, tensors: list[Tensor], reduction: str) -> None:
        """Raises TypeError or ValueError for a reduction that NCCL has not."""
        self.convertible(tensors, complex_too=True)
        if reduction in _BITWISE:
            raise ValueError(f"Cannot use ReduceOp.{reduction} with NCCL")
        if reduction == "AVG" and any(tensor.dtype == torch.bool for tensor in tensors):
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")

    def gathered(self, output: Tensor, source: Tensor, size: int) -> None:
        """Raises TypeError or ValueError where ``output`` does not hold ``source`` of all ranks."""
        if output.dtype != source.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if output.numel() != source.numel() * size:
            raise ValueError("output tensor size must be equal to world_size times input tensor size")

    def scattered(self, output: Tensor, source: Tensor, size: int) -> None:
        """Raises TypeError or ValueError where ``source`` is not one ``output`` for each rank."""
        if output.dtype != source.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if source.numel() != output.numel() * size:
            raise ValueError("input tensor must be the same size as output size times world size")

    def split(self, tensors: dict[str, tuple[Tensor, list]], size: int) -> None:
        """Raises RuntimeError for rows that ``splits`` do not cut; without splits NotModelled for what has no equal shares."""
        equal = not any(splits for _, splits in tensors.values())
        for tensor, splits in tensors.values():
            if equal and tensor.numel() % size:
                raise NotModelled(
                    f"all_to_all of {tensor.numel()} elements among {size} ranks (NCCL would cut one in two: give split sizes)"
                )
            if not equal:
                _check_split_sizes(splits, tensor, size)

    def of_one_size(self, name: str, tensors: list[Tensor], like: Tensor) -> None:
        """Raises ValueError for a tensor of another shape than ``like``."""
        for index, tensor in enumerate(tensors):
            if tensor.shape != like.shape:
                raise ValueError(
                    f"ProcessGroupNCCL::{name}: invalid tensor size at index {index} "
                    f"(expected {list(like.shape)}, got {list(tensor.shape)})"
                )


class NoRules:
    """Everything as it is: what gloo refuses is not looked at."""

    def contiguous(self, tensors, *rest):
        return tensors

    unchecked = message = contiguous

    def reducible(self, *given, **options) -> None:
        pass

    convertible = sendable = gathered = scattered = split = of_one_size = reducible


def _check_split_sizes(splits: list, tensor: Tensor, size: int) -> None:
    rows = tensor.shape[0]
    if not splits:
        if rows % size:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
    elif len(splits) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    elif sum(splits) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")


def _is_contiguous(tensor: Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.is_contiguous():
        return True
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _as_it_lies(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_contiguous() else tensor.as_strided((tensor.numel(),), (1,))
