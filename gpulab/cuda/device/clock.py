"""The host clock of the model, where the learner's code reads the time.

``time.perf_counter()`` and its kin answer with the modelled host clock when the learner's
code asks, and with the real one when a library does. Python itself and work on host
tensors cost nothing in the model; ``time.sleep`` costs what it says.
"""

import sys
import time

from gpulab.cuda.device.patches import Patches
from gpulab.observe.lines import is_learners

_READ_US = 0.1
"""Host time that one look at the clock costs, so that no two looks are equal."""


def install(patches: Patches, device) -> None:
    """Replace the clocks of the ``time`` module."""
    machine, began = device.machine, time.time()

    def seconds() -> float:
        machine.host_us += _READ_US
        return machine.host_us / 1e6

    for name, modelled in {
        "perf_counter": seconds,
        "perf_counter_ns": lambda: int(seconds() * 1e9),
        "monotonic": seconds,
        "time": lambda: began + seconds(),
    }.items():
        patches.set(time, name, _for_learners(getattr(time, name), modelled))
    patches.set(time, "sleep", _sleep(time.sleep, machine))


def _for_learners(original, modelled):
    def read():
        return modelled() if is_learners(sys._getframe(1)) else original()

    read.__name__ = original.__name__
    return read


def _sleep(original, machine):
    def sleep(duration, /):
        original(duration)
        if is_learners(sys._getframe(1)):
            machine.host_us += duration * 1e6

    return sleep
