"""What a GPU platform decides before and around a model: cold starts, warm pools, networks and roles, slices of a GPU.

>>> from gpulab.platforms import Load, Work, timeline
>>> found = timeline([Work("container", 2), Load("weights", 26e9, ("disk",), after=("container",))], {"disk": 6.5e9})
>>> found.ready, found.bottleneck
(6.0, 'disk')

Nothing is started here: times come of bytes and bandwidths, and all of them are modelled. ``mig`` holds NVIDIA's tables.
"""

from gpulab.platforms.arrivals import day, pulses, quiet_nights, steady
from gpulab.platforms.audit import Endpoint, Graph, Policies, Statement, allows, audit, least, matches, reached
from gpulab.platforms.coldstart import Load, Stage, Timeline, Work, timeline
from gpulab.platforms.mig import GEOMETRY, NO_MIG, Placed, Profile, free_starts, geometry, layouts, most_placed
from gpulab.platforms.pool import Pool, Replay, fixed, keeping, replay
from gpulab.platforms.tiers import TIERS, bandwidths

__all__ = [
    "GEOMETRY", "NO_MIG", "TIERS", "Endpoint", "Graph", "Load", "Placed", "Policies", "Pool", "Profile", "Replay", "Stage", "Statement",
    "Timeline", "Work", "allows", "audit", "bandwidths", "day", "fixed", "free_starts", "geometry", "keeping", "layouts", "least",
    "matches", "most_placed", "pulses", "quiet_nights", "reached", "replay", "steady", "timeline",
]  # fmt: skip
