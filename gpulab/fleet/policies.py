"""Who starts next: four policies for :func:`gpulab.fleet.play`, and the questions that they ask.

A job of up to eight GPUs runs in one node, a larger one on whole nodes. :func:`pod_by_pod` alone starts with less than all.
"""

import math
from collections.abc import Sequence

from gpulab.fleet.constants import GPUS_PER_NODE
from gpulab.fleet.jobs import Placement


def placements(gpus: int, free: Sequence[int]) -> list[Placement]:
    """Where a job may start, the tightest node first; of whole nodes, which are alike, one choice. Empty where it does not fit."""
    if gpus <= GPUS_PER_NODE:
        nodes = sorted((node for node, there in enumerate(free) if there >= gpus), key=lambda node: free[node])
        return [{node: gpus} for node in nodes]
    whole = [node for node, there in enumerate(free) if there == GPUS_PER_NODE][: gpus // GPUS_PER_NODE]
    return [dict.fromkeys(whole, GPUS_PER_NODE)] if GPUS_PER_NODE * len(whole) == gpus else []


def fits(gpus: int, free: Sequence[int]) -> bool:
    return bool(placements(gpus, free))


def earliest_start(gpus: int, cluster: dict) -> float:
    """In how many hours a job fits if nothing else begins: when what runs has ended by then. Infinite where it never does."""
    free = list(cluster["free"])
    ends = sorted(cluster["running"], key=lambda one: one["left"])
    now, i = 0.0, 0
    while not fits(gpus, free):
        if i == len(ends):
            return math.inf
        now = ends[i]["left"]
        while i < len(ends) and ends[i]["left"] == now:
            for node, many in ends[i]["nodes"].items():
                free[node] += many
            i += 1
    return now


def begun(cluster: dict, placement: Placement, hours: float) -> dict:
    """The cluster after a job has begun."""
    free = [there - placement.get(node, 0) for node, there in enumerate(cluster["free"])]
    return {"free": free, "running": [*cluster["running"], {"nodes": dict(placement), "left": hours}]}


def pod_by_pod(jobs: list[dict], cluster: dict) -> list[tuple[str, Placement]]:
    """What a scheduler of pods does: each free GPU goes to some job that wants one, in turn, and is kept until that job has run."""
    free, given = list(cluster["free"]), {job["name"]: {} for job in jobs}
    wants = {job["name"]: job["gpus"] - job.get("held", 0) for job in jobs}
    while any(free) and any(wants.values()):
        for name in [name for name, missing in wants.items() if missing]:
            node = max(range(len(free)), key=lambda node: free[node])
            if free[node]:
                free[node] -= 1
                given[name][node] = given[name].get(node, 0) + 1
                wants[name] -= 1
    return [(name, placement) for name, placement in given.items() if placement]


def in_order(jobs: list[dict], cluster: dict) -> list[tuple[str, Placement]]:
    """Strictly first come, first served: whoever does not fit holds up all behind it."""
    started = []
    for job in jobs:
        where = placements(job["gpus"], cluster["free"])
        if not where:
            break
        started.append((job["name"], where[0]))
        cluster = begun(cluster, where[0], job["hours"])
    return started


def greedy(jobs: list[dict], cluster: dict) -> list[tuple[str, Placement]]:
    """Whoever fits starts: a large job waits as long as small ones come."""
    started = []
    for job in jobs:
        if where := placements(job["gpus"], cluster["free"]):
            started.append((job["name"], where[0]))
            cluster = begun(cluster, where[0], job["hours"])
    return started


def backfill(jobs: list[dict], cluster: dict) -> list[tuple[str, Placement]]:
    """In order; behind the first job that does not fit, whoever does not delay that one."""
    started, head, due = [], None, math.inf
    for job in jobs:
        for where in placements(job["gpus"], cluster["free"]):
            after = begun(cluster, where, job["hours"])
            if head is None or earliest_start(head["gpus"], after) <= due:
                started.append((job["name"], where))
                cluster = after
                break
        else:
            if head is None:
                head, due = job, earliest_start(job["gpus"], cluster)
    return started


POLICIES = {"pod by pod": pod_by_pod, "in order": in_order, "greedy": greedy, "backfill": backfill}
