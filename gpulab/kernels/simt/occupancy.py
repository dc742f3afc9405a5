"""How many blocks a multiprocessor holds at once, and which limit binds.

The rules are those of CUDA's own ``cuda_occupancy.h``: registers are given to warps, in each of a
multiprocessor's four partitions; shared memory is rounded up, with the system's reserve in each block.
"""

from gpulab.cards.multiprocessors import Multiprocessor
from gpulab.kernels.simt.limits import MAX_THREADS
from gpulab.observe.launches import WARP, Occupancy


def occupancy(threads: int, registers: int, shared_bytes: int, sm: Multiprocessor) -> Occupancy:
    """Resident blocks of ``threads`` threads with ``registers`` each and ``shared_bytes`` a block.

    ``registers`` 0: not known, and no limit. Raises ValueError for a block that no multiprocessor
    of this kind can run.
    """
    if not 1 <= threads <= 1024:
        raise ValueError(f"a block of {threads} threads: from 1 to 1024")
    warps = -(-threads // WARP)
    fits = {
        "warps": sm.max_warps // warps,
        "blocks": sm.max_blocks,
        "shared memory": _by_shared(shared_bytes, sm),
        "registers": _by_registers(warps, registers, sm),
    }
    limit = min(fits, key=fits.get)
    blocks = fits[limit]
    if blocks == 0:
        raise ValueError(f"no multiprocessor of capability {sm.capability} can run this block: {limit}")
    return Occupancy(blocks, blocks * warps, sm.max_warps, limit, registers > 0)


def best_block(registers: int, shared_bytes: int, sm: Multiprocessor) -> int:
    """Threads of the largest block with which a multiprocessor holds the most warps."""
    sizes = range(MAX_THREADS, 0, -WARP)

    def warps(threads: int) -> int:
        try:
            return occupancy(threads, registers, shared_bytes, sm).warps
        except ValueError:
            return 0

    return max(sizes, key=warps)


def _by_shared(shared_bytes: int, sm: Multiprocessor) -> int:
    if shared_bytes > sm.max_shared_bytes_per_block:
        return 0
    taken = _up(shared_bytes + sm.shared_reserved, sm.shared_unit)
    return sm.shared_bytes // taken if taken else sm.max_blocks


def _by_registers(warps: int, registers: int, sm: Multiprocessor) -> int:
    if not registers:
        return sm.max_blocks
    of_a_warp = _up(registers * WARP, sm.register_unit)
    # The hardware checks a block as if its warps came in fours, one for each partition.
    too_many = of_a_warp * _up(warps, sm.partitions) > sm.registers
    if registers > sm.max_registers_per_thread or too_many:
        return 0
    return sm.registers // sm.partitions // of_a_warp * sm.partitions // warps


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
