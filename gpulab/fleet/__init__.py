"""A cluster that trains, simulated: jobs on nodes of eight GPUs, failures at published rates, checkpoints, metrics of ranks and of cards.

``constants`` holds what others counted. Everything else is a model, and each part of it is held in ``tests/fleet`` to something that it was not made from.
"""

from gpulab.fleet.checkpoints import Replay, best_interval, daly, replay, useful_share, young
from gpulab.fleet.exposition import Sample, exposition, node_metrics
from gpulab.fleet.failures import Failure, failures, hours_between, up_times
from gpulab.fleet.jobs import Job, Played, draw_jobs, play
from gpulab.fleet.policies import POLICIES, backfill, earliest_start, fits, greedy, in_order, placements, pod_by_pod
from gpulab.fleet.ranks import delays, groups, holds_up, step

__all__ = [
    "POLICIES", "Failure", "Job", "Played", "Replay", "Sample", "backfill", "best_interval", "daly", "delays", "draw_jobs", "earliest_start",
    "exposition", "failures", "fits", "greedy", "groups", "holds_up", "hours_between", "in_order", "node_metrics", "placements", "play",
    "pod_by_pod", "replay", "step", "up_times", "useful_share", "young",
]  # fmt: skip
