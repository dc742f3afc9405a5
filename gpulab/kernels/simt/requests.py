"""What a warp's access costs the memory: 32-byte sectors of global memory, banks of shared memory."""

import numpy as np

from gpulab.observe.launches import SECTOR_BYTES

BANKS, BANK_BYTES = 32, 4


def distinct_per_warp(keys: np.ndarray, warps: np.ndarray) -> int:
    """How many different keys each warp holds, summed over the warps. ``keys`` are below 2**40."""
    ordered = (warps << 40) + keys
    steps = np.diff(ordered)
    if steps.size and steps.min() < 0:
        ordered.sort()
        steps = np.diff(ordered)
    return int(np.count_nonzero(steps)) + 1 if ordered.size else 0


def sectors(addresses: np.ndarray, warps: np.ndarray) -> tuple[int, int]:
    """32-byte sectors of all warps' requests, and the requests that are misaligned.

    addresses: byte addresses, one a lane, lanes of a warp together. warps: each lane's warp.
    A request is misaligned when it would touch fewer sectors if it began where one begins.
    """
    count = distinct_per_warp(addresses >> 5, warps)
    starts = np.flatnonzero(np.diff(warps, prepend=-1))
    late = np.minimum.reduceat(addresses, starts) & (SECTOR_BYTES - 1)
    if not late.any():
        return count, 0
    return count, _misaligned(addresses, warps, starts, late)


def _misaligned(addresses, warps, starts, late) -> int:
    sizes = np.diff(starts, append=len(addresses))
    shifted = addresses - np.repeat(late, sizes)
    found = 0
    for start, size, offset in zip(starts, sizes, late):
        if offset:
            lanes = slice(start, start + size)
            before, after = np.unique(addresses[lanes] >> 5), np.unique(shifted[lanes] >> 5)
            found += before.size > after.size
    return found


def atomic_conflicts(addresses: np.ndarray, warps: np.ndarray) -> int:
    """Of all warps' atomic operations those that wait for another lane of their warp at their address.

    The busiest address of a warp decides how long its request takes.
    """
    found, times = np.unique((warps << 40) + addresses, return_counts=True)
    starts = np.flatnonzero(np.diff(found >> 40, prepend=-1))
    return int((np.maximum.reduceat(times, starts) - 1).sum()) if len(addresses) else 0


def bank_conflicts(addresses: np.ndarray, item_bytes: int, lanes: np.ndarray, atomic: bool = False) -> int:
    """Passes over the shared memory beyond those that a conflict-free request takes.

    addresses: byte addresses within a block's shared memory. lanes: each one's position, whose
    warp is ``lane // 32``. Lanes of one 4-byte word share a pass (a broadcast), but for ``atomic``
    operations, which take one each. Elements of 8 bytes go by half warps, of 16 bytes by quarters.
    """
    unit = max(BANK_BYTES, item_bytes)
    banks = BANKS * BANK_BYTES // unit
    part = lanes // banks
    element = addresses // unit
    keys = (part << 24) + ((element % banks) << 18) + element // banks
    if np.any(np.diff(keys) < 0):
        keys.sort()
    distinct = keys if atomic else keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    cell = distinct >> 18
    cell -= (cell[0] >> 6) << 6
    passes = np.bincount(cell, minlength=(int(cell[-1]) // 64 + 1) * 64)
    worst = passes.reshape(-1, 64).max(axis=1)
    return int(worst.sum() - np.count_nonzero(worst))
