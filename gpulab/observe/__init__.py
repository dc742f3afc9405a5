"""What the machine did while a block of code ran.

One object, the :class:`Observation`, is the figure in the book, the hint in the notebook
and the evidence in the grader.
"""

from gpulab.observe.authors import Authors
from gpulab.observe.errors import InstrumentError
from gpulab.observe.launches import ArrayUse, Fault, Launch, LineCounts, Occupancy, ThreadRace
from gpulab.observe.observation import Observation
from gpulab.observe.recorder import observe
from gpulab.observe.records import Batch, Collective, Copy, Held, Kernel, Op, Race, Saved, SourceLine, Wait
from gpulab.observe.storage import shares_storage, storage_bytes

__all__ = [
    "ArrayUse",
    "Authors",
    "Batch",
    "Collective",
    "Copy",
    "Fault",
    "Held",
    "InstrumentError",
    "Kernel",
    "Launch",
    "LineCounts",
    "Observation",
    "Occupancy",
    "Op",
    "Race",
    "Saved",
    "SourceLine",
    "ThreadRace",
    "Wait",
    "observe",
    "shares_storage",
    "storage_bytes",
]
