"""What CUDA allows: blocks, grids and shared memory.

Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
"""

from gpulab.cards.multiprocessors import multiprocessor
from gpulab.kernels.errors import LaunchError

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
STATIC_SHARED_BYTES = 48 * 1024


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
