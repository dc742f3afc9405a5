"""What a device did, from a record that the notebook's code is not handed."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpulab import Observation, observe
from gpulab.observe.device import DeviceLog, logging


@contextmanager
def device_told() -> Iterator[Observation]:
    """As :func:`gpulab.observe`; kernels, waits and races are those that the device told.

    The log of an ``observe()`` block is a list that any code in the process can edit.
    """
    kept, line = DeviceLog(), DeviceLog()
    line.kernel, line.wait, line.race = kept.kernel, kept.wait, kept.race
    with logging(line), observe() as seen:
        yield seen
    seen.kernels, seen.waits, seen.races = tuple(kept.kernels), tuple(kept.waits), tuple(kept.races)
