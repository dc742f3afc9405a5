"""The generator xoroshiro128+ of ``numba.cuda.random``: states on the host, numbers in kernels.

David Blackman and Sebastiano Vigna, "Scrambled Linear Pseudorandom Number Generators" (ACM
Transactions on Mathematical Software 47, 2021), with its 2018 predecessor's constants 55, 14, 36;
states begin with splitmix64 of the seed, and each lies 2**64 steps after the one before it.
"""

import numpy as np

_U = np.uint64
_JUMP = (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922)


def _rotated(x, by: int):
    return (x << _U(by)) | (x >> _U(64 - by))


def step(s0, s1) -> tuple:
    """The next number, and the state after it. All uint64."""
    mixed = s1 ^ s0
    return s0 + s1, _rotated(s0, 55) ^ mixed ^ (mixed << _U(14)), _rotated(mixed, 36)


def first_state(seed: int) -> np.ndarray:
    """splitmix64's first number for ``seed``, twice."""
    z = (seed + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return np.array([[z ^ (z >> 31)] * 2], dtype=_U)


def states(count: int, seed: int, first: int = 0) -> np.ndarray:
    """Shape (count, 2), uint64: the states ``first`` to ``first + count`` of a seed's sequence of them."""
    found, jump = first_state(seed), _jump()
    while first:
        found = _applied(jump, found) if first & 1 else found
        jump, first = _applied(jump, jump), first >> 1
    jump = _jump()
    while len(found) < count:
        found = np.concatenate([found, _applied(jump, found)])
        jump = _applied(jump, jump)
    return found[:count]


def _jump() -> np.ndarray:
    """2**64 steps as a linear map: the image of each of the state's 128 bits."""
    bits = np.zeros((128, 2), dtype=_U)
    bits[np.arange(128), np.arange(128) // 64] = _U(1) << np.arange(128, dtype=_U) % _U(64)
    s0, s1, out = bits[:, 0], bits[:, 1], np.zeros_like(bits)
    for word in _JUMP:
        for bit in range(64):
            if word >> bit & 1:
                out ^= np.stack([s0, s1], axis=1)
            _, s0, s1 = step(s0, s1)
    return out


def _applied(linear: np.ndarray, to: np.ndarray) -> np.ndarray:
    out = np.zeros_like(to)
    for bit in range(128):
        held = to[:, bit // 64] >> _U(bit % 64) & _U(1)
        out ^= np.where(held[:, None] == 1, linear[bit], _U(0))
    return out
