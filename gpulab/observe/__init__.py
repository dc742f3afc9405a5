"""What the machine did while a block of code ran.

One object, the :class:`Observation`, is the figure in the book, the hint in the notebook
and the evidence in the grader.
"""

from gpulab.observe.observation import Observation
from gpulab.observe.records import Copy, Kernel, Op, Race, SourceLine, Wait
from gpulab.observe.recorder import InstrumentError, observe
from gpulab.observe.storage import shares_storage, storage_bytes

__all__ = [
    "Copy",
    "InstrumentError",
    "Kernel",
    "Observation",
    "Op",
    "Race",
    "SourceLine",
    "Wait",
    "observe",
    "shares_storage",
    "storage_bytes",
]
