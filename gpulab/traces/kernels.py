"""What the name of a kernel or of an operation says about it, as far as a name can."""

import re

# Products, convolutions and attention by the names of cuBLAS, cuDNN, CUTLASS, MIOpen, Triton's templates and PyTorch.
_MATRIX = re.compile(
    r"gemm|cutlass|xmma|nvjet|cijk_|scudnn|wgrad|dgrad|fprop|bprop|winograd|convol|implicit_con"
    r"|flash|fmha|attention|triton_tem|matmul|\b(add|badd)?b?mm\b|\bconv\dd",
    re.IGNORECASE,
)
_INPUT = re.compile(r"enumerate\(DataLoader\)#.*|input")
_COLLECTIVE = re.compile(r"(nccl|rccl|gloo|mpi):.*")
_WAIT = re.compile(r"(cuda|hip|cu)((Device|Stream|Event|Ctx)Synchronize|Memcpy|MemcpyWithStream|Free)")
_NO_WORK = re.compile(
    r"aten::(empty\w*|view\w*|_unsafe_view|reshape|_reshape_alias|t|transpose|permute|expand\w*|as_strided|detach\w*|select|slice"
    r"|narrow|unsqueeze|squeeze|alias|result_type|is_nonzero|item|_local_scalar_dense|resize_\w*|set_|lift_fresh)"
)


def is_matrix(name: str) -> bool:
    """Whether its work is a product, a convolution or attention. All others move more than they compute.

    A name does not say the shape: a product with few rows is bound by memory, too.
    """
    return bool(_MATRIX.search(name))


def is_input(name: str) -> bool:
    """Whether a host range waits for data: PyTorch's own around a DataLoader, or one that its author called ``input``."""
    return bool(_INPUT.fullmatch(name))


def is_collective(name: str) -> bool:
    """Whether a host range is a collective's, as ``gloo:all_reduce``."""
    return bool(_COLLECTIVE.fullmatch(name))


def is_wait(name: str) -> bool:
    """Whether a runtime call returns only when the device has done what it asks about."""
    return bool(_WAIT.fullmatch(name))


def works(name: str) -> bool:
    """Whether a host range is an operation that computes: of a library, as ``aten::mm``, and more than a view or memory."""
    library = name.partition("::")[0] if "::" in name else ""
    return library not in ("", "autograd", "c10d", "torch") and not _NO_WORK.fullmatch(name)
