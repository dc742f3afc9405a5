"""bfloat16 as Triton's interpreter holds it, uint16 bits, to and from float32, exactly."""

import numpy as np

_NAN = np.uint16(0x7FC0)


def widened(bits: np.ndarray) -> np.ndarray:
    """uint16 bits of bfloat16 to float32: exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: np.ndarray) -> np.ndarray:
    """float32 to the uint16 bits of the nearest bfloat16, ties to even, as a GPU does."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    nearest = ((bits + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), _NAN, nearest)
