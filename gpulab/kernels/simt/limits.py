"""What CUDA allows: blocks, grids and shared memory, by compute capability.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability";
units of allocation: ``cuda_occupancy.h`` of the CUDA toolkit.
"""

from dataclasses import dataclass

from gpulab.kernels.errors import LaunchError
from gpulab.observe.launches import WARP

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
STATIC_SHARED_BYTES = 48 * 1024


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor of a compute capability holds.

    Registers are 32 bits wide. ``register_unit``: registers are given to a warp in multiples of
    it; ``shared_unit``: bytes of shared memory to a block. ``shared_reserved``: bytes that the
    system takes of each block's share. ``partitions``: each has its part of the registers.
    """

    capability: tuple[int, int]
    max_warps: int
    max_blocks: int
    registers: int
    shared_bytes: int
    max_shared_bytes_per_block: int
    shared_reserved: int
    shared_unit: int
    register_unit: int = 256
    max_registers_per_thread: int = 255
    partitions: int = 4

    @property
    def max_threads(self) -> int:
        return WARP * self.max_warps


_KIB = 1024
MULTIPROCESSORS = {
    capability: Multiprocessor(capability, *rest)
    for capability, *rest in (
        # warps, blocks, registers, shared memory, most for one block, reserved a block, unit
        ((7, 0), 64, 32, 65536, 96 * _KIB, 96 * _KIB, 0, 256),
        ((7, 5), 32, 16, 65536, 64 * _KIB, 64 * _KIB, 0, 256),
        ((8, 0), 64, 32, 65536, 164 * _KIB, 163 * _KIB, 1024, 128),
        ((8, 6), 48, 16, 65536, 100 * _KIB, 99 * _KIB, 1024, 128),
        ((8, 9), 48, 24, 65536, 100 * _KIB, 99 * _KIB, 1024, 128),
        ((9, 0), 64, 32, 65536, 228 * _KIB, 227 * _KIB, 1024, 128),
    )
}


def multiprocessor(capability: tuple[int, int]) -> Multiprocessor:
    """Raises ValueError for a compute capability that is not in the table."""
    if capability not in MULTIPROCESSORS:
        known = ", ".join(f"{major}.{minor}" for major, minor in MULTIPROCESSORS)
        raise ValueError(f"no table for compute capability {capability}: choose one of {known}")
    return MULTIPROCESSORS[capability]


def three(extents, what: str) -> tuple[int, int, int]:
    """A grid or a block as (x, y, z). Raises LaunchError."""
    extents = tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)
    try:
        whole = tuple(int(n.__index__()) for n in extents)
    except AttributeError:
        raise LaunchError(f"{what} {extents}: whole numbers, such as 4 or (4, 2); use // to divide") from None
    if not 1 <= len(whole) <= 3:
        raise LaunchError(f"{what} {extents}: one, two or three numbers")
    return (*whole, 1, 1)[:3]


def check_launch(grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    """Raises LaunchError as CUDA's driver does, and says which limit it is."""
    threads = block[0] * block[1] * block[2]
    if min(block) < 1 or min(grid) < 1:
        raise _invalid(f"grid {grid}, block {block}: every extent is at least 1")
    if threads > MAX_THREADS:
        raise _invalid(f"a block of {threads} threads {block}: at most {MAX_THREADS}")
    for axis, extent, most in zip("xyz", block, MAX_BLOCK):
        if extent > most:
            raise _invalid(f"block.{axis} is {extent}: at most {most}")
    for axis, extent, most in zip("xyz", grid, MAX_GRID):
        if extent > most:
            raise _invalid(f"grid.{axis} is {extent}: at most {most}")


def check_static_shared(nbytes: int) -> None:
    """Raises LaunchError when static shared arrays are larger than any card allows."""
    if nbytes > STATIC_SHARED_BYTES:
        raise LaunchError(
            f"ptxas error: uses too much shared data (0x{nbytes:x} bytes, 0x{STATIC_SHARED_BYTES:x} max): "
            "make the shared arrays smaller, or ask for dynamic shared memory at the launch"
        )


def check_shared(nbytes: int, capability: tuple[int, int]) -> None:
    """Raises LaunchError when a block asks for more shared memory than the card gives one."""
    most = multiprocessor(capability).max_shared_bytes_per_block
    if nbytes > most:
        raise _invalid(
            f"{nbytes} bytes of shared memory a block: a card of compute capability "
            f"{capability[0]}.{capability[1]} gives a block at most {most}"
        )


def _invalid(reason: str) -> LaunchError:
    return LaunchError(f"CUDA_ERROR_INVALID_VALUE: {reason}")
