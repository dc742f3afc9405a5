"""What one multiprocessor holds, by compute capability.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability";
units of allocation: ``cuda_occupancy.h`` of the CUDA toolkit.
"""

from dataclasses import dataclass

THREADS_PER_WARP = 32


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
        return THREADS_PER_WARP * self.max_warps


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
