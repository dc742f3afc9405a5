"""What the machine did while a block of code ran.

One object, the :class:`Observation`, is the figure in the book, the hint in the notebook
and the evidence in the grader.
"""

from gpulab.observe.launches import Fault, Launch, LineCounts, Occupancy, ThreadRace
from gpulab.observe.observation import Observation
from gpulab.observe.records import Copy, Kernel, Op, Race, SourceLine, Wait
from gpulab.observe.recorder import InstrumentError, observe
from gpulab.observe.storage import shares_storage, storage_bytes

__all__ = [
    "Copy",
    "Fault",
    "InstrumentError",
    "Kernel",
    "Launch",
    "LineCounts",
    "Observation",
    "Occupancy",
    "Op",
    "Race",
    "SourceLine",
    "ThreadRace",
    "Wait",
    "observe",
    "shares_storage",
    "storage_bytes",
]
