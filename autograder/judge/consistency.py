"""Whether a recorded observation can be true: an honest record agrees with itself."""

from collections import Counter

from gpulab import Observation
from gpulab.observe.copies import copy_kind


def inconsistency(seen: dict) -> str | None:
    """What in the plain data of an observation contradicts itself, or None.

    Records of a device that did something are left alone: its copies and allocations have no
    operation of their own on the host. Raises KeyError or TypeError on what is no observation.
    """
    observation = Observation.from_dict(seen)
    if observation.kernels or any(copy.kind in ("HtoD", "DtoH") for copy in observation.copies):
        return None
    if sum(op.new_bytes for op in observation.ops) != observation.new_bytes:
        return "its operations did not allocate what it says was allocated"
    if not max((op.live_bytes for op in observation.ops), default=0) <= observation.peak_bytes <= observation.new_bytes:
        return "its peak does not lie between what was alive and what was allocated"
    copying = Counter(op.op for op in observation.ops if copy_kind(op.op, [], None))
    if copying != Counter(copy.op for copy in observation.copies):
        return "its copies are not those of its operations"
    return None
