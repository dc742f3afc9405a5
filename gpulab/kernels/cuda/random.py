"""The names of ``numba.cuda.random``: the generator xoroshiro128+, bit for bit Numba's.

The states are an array of shape (n, 2), uint64, on the device.
"""

import numpy as np
import torch

from gpulab.kernels.simt import generator
from gpulab.kernels.simt.host import DeviceArray, to_device
from gpulab.kernels.simt.intrinsics import Operation

__all__ = [
    "create_xoroshiro128p_states",
    "init_xoroshiro128p_states",
    "xoroshiro128p_next",
    "xoroshiro128p_normal_float32",
    "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32",
    "xoroshiro128p_uniform_float64",
]


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream=0) -> DeviceArray:
    """States for ``n`` threads, 2**64 numbers apart."""
    return to_device(generator.states(int(n), int(seed), int(subsequence_start)), stream)


def init_xoroshiro128p_states(states: DeviceArray, seed: int, subsequence_start: int = 0, stream=0) -> None:
    """Fill ``states`` anew."""
    fresh = generator.states(len(states), int(seed), int(subsequence_start))
    with torch.no_grad():
        states.copy_to_device(fresh, stream)


def _next(group, mask, place, states, index):
    words = [(index, np.int64(0)), (index, np.int64(1))]
    number, *after = generator.step(*(states.load(group, mask, word, place) for word in words))
    for word, value in zip(words, after):
        states.store(group, mask, word, value, place)
    return number


def _uniform64(group, mask, place, states, index):
    return (_next(group, mask, place, states, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _uniform32(group, mask, place, states, index):
    return _uniform64(group, mask, place, states, index).astype(np.float32)


def _normal(dtype):
    def implement(group, mask, place, states, index):
        """Box and Muller's transform of two float32 numbers."""
        one, other = (_uniform32(group, mask, place, states, index) for _ in range(2))
        return np.sqrt(dtype(-2.0) * np.log(one)) * np.cos(dtype(2 * np.pi) * other)

    return implement


def _named(name: str, implement) -> Operation:
    return Operation(f"random.{name}", implement, (2,), touches=("read", "write"))


xoroshiro128p_next = _named("xoroshiro128p_next", _next)
xoroshiro128p_uniform_float32 = _named("xoroshiro128p_uniform_float32", _uniform32)
xoroshiro128p_uniform_float64 = _named("xoroshiro128p_uniform_float64", _uniform64)
xoroshiro128p_normal_float32 = _named("xoroshiro128p_normal_float32", _normal(np.float32))
xoroshiro128p_normal_float64 = _named("xoroshiro128p_normal_float64", _normal(np.float64))
