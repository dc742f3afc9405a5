"""A profiler's Chrome trace, read: typed events, intervals, where a step's time went.

``read`` opens what ``torch.profiler`` exports, of 2021 to now. ``breakdown`` divides the time of its
steps, ``diagnosis`` names the bottleneck, ``self_times`` says what each host operation took itself.
"""

from gpulab.traces.breakdown import Breakdown, breakdown
from gpulab.traces.events import Event, Trace
from gpulab.traces.reader import NotATrace, read
from gpulab.traces.self_times import OperationTime, self_times

__all__ = ["Breakdown", "Event", "NotATrace", "OperationTime", "Trace", "breakdown", "read", "self_times"]
