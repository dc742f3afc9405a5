"""What the tests of this folder have in common: a launch under observation."""

import numpy as np
import torch

import gpulab
from gpulab.kernels import warp_order
from tests.sampling import sampled

ORDERS = sampled((None, 0, 1, 2), now=(None, 0))
"""Lockstep, and an order in which warps take turns; an audit tries two more."""


def launched(kernel, grid, block, *arguments, shared_bytes=0, order=None):
    """Launch under ``observe()`` and give the :class:`gpulab.observe.Launch`."""
    with warp_order(order), gpulab.observe() as seen:
        kernel[grid, block, 0, shared_bytes](*arguments)
    (launch,) = seen.launches
    return launch


def at_line(launch, text):
    """The counts of the one source line of a launch that holds ``text``."""
    (found,) = [counts for counts in launch.lines if text in counts.line.text]
    return found


def floats(count, start=0):
    return torch.arange(start, start + count, dtype=torch.float32)


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype)


def sound(launch):
    """Nothing was found wrong with it."""
    return not launch.races and not launch.faults


def as_array(tensor):
    return np.asarray(tensor)
