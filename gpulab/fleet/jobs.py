"""Jobs on a cluster, played event by event under a policy."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulab.fleet.constants import GPUS_PER_NODE

Placement = dict[int, int]
"""GPUs by node."""
Policy = Callable[[list[dict], dict], list[tuple[str, Placement]]]
"""Of the waiting jobs, in order of arrival, and the cluster: which of them get what now. See :func:`play`."""


class Job(NamedTuple):
    """``gpus`` that have to run together for ``hours``; it arrives ``at`` an hour."""

    name: str
    gpus: int
    hours: float
    at: float = 0.0


@dataclass
class Played:
    """What became of the jobs: by name when they began and ended; ``deadlocked``: those that never will.

    GPU-hours: ``worked`` while the job ran, ``held`` by jobs that waited for the rest of theirs, ``free`` by nobody; together all that there were
    until ``end_h``. ``queue_hours``: the length of the queue, integrated over time.
    """

    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    deadlocked: list[str] = field(default_factory=list)
    worked: float = 0.0
    held: float = 0.0
    free: float = 0.0
    queue_hours: float = 0.0
    end_h: float = 0.0
    moments: list[dict] = field(default_factory=list)
    """After each event: ``at_h``, ``cells`` (by node the jobs that hold its GPUs), ``waiting`` and ``running`` (names)."""

    @property
    def utilisation(self) -> float:
        """Of all GPU-hours until the end, those that worked."""
        return self.worked / (self.worked + self.held + self.free)

    def waits(self, jobs: Sequence[Job]) -> dict[str, float]:
        """Hours from arrival to beginning, of the jobs that began."""
        return {job.name: self.began[job.name] - job.at for job in jobs if job.name in self.began}


class _Cluster:
    def __init__(self, nodes: int) -> None:
        self.free = [GPUS_PER_NODE] * nodes
        self.holds: dict[str, Placement] = {}
        self.ends: dict[str, float] = {}

    def give(self, job: Job, placement: Placement, now: float) -> None:
        """Raises ValueError for GPUs that are not there, and for more than the job asks for."""
        held = self.holds.setdefault(job.name, {})
        for node, gpus in placement.items():
            if not 0 <= node < len(self.free) or not 0 < gpus <= self.free[node]:
                raise ValueError(
                    f"{job.name} gets {gpus} GPUs of node {node}, which has {self.free[node] if 0 <= node < len(self.free) else 'no'} free"
                )
            self.free[node] -= gpus
            held[node] = held.get(node, 0) + gpus
        if sum(held.values()) > job.gpus:
            raise ValueError(f"{job.name} asks for {job.gpus} GPUs and gets {sum(held.values())}")
        if sum(held.values()) == job.gpus:
            self.ends[job.name] = now + job.hours

    def end(self, name: str) -> None:
        for node, gpus in self.holds.pop(name).items():
            self.free[node] += gpus
        del self.ends[name]

    def seen(self, now: float) -> dict:
        running = [{"nodes": dict(self.holds[name]), "left": end - now} for name, end in self.ends.items()]
        return {"free": list(self.free), "running": running}


def play(jobs: Sequence[Job], nodes: int, policy: Policy) -> Played:
    """Ask a policy at every arrival and at every end, until nothing more happens.

    The policy sees ``jobs``, dictionaries of ``name``, ``gpus`` and ``hours``, the longest-waiting first, with ``held`` GPUs where a job has a part of them,
    and the cluster: ``free`` GPUs by node, and what is ``running``, on which ``nodes`` and for how many hours ``left``. It returns pairs of a name and
    a placement. A job runs from the moment when it has all its GPUs. Raises ValueError for a placement that cannot be.
    """
    played, cluster = Played(), _Cluster(nodes)
    coming, waiting, now = sorted(jobs, key=lambda job: job.at), [], 0.0
    while coming or cluster.ends:
        then = min([job.at for job in coming[:1]] + list(cluster.ends.values()))
        _pass_time(played, cluster, waiting, then - now)
        now = then
        for name in [name for name, end in cluster.ends.items() if end <= now]:
            cluster.end(name)
            played.ended[name] = now
        while coming and coming[0].at <= now:
            waiting.append(coming.pop(0))
        asked = [{"name": job.name, "gpus": job.gpus, "hours": job.hours} | _held(cluster, job) for job in waiting]
        by_name = {job.name: job for job in waiting}
        for name, placement in policy(asked, cluster.seen(now)):
            cluster.give(by_name[name], placement, now)
            if name in cluster.ends:
                played.began[name] = now
        waiting = [job for job in waiting if job.name not in cluster.ends]
        played.moments.append(_moment(cluster, waiting, now))
    played.end_h, played.deadlocked = now, [job.name for job in waiting]
    return played


def _held(cluster: _Cluster, job: Job) -> dict:
    held = sum(cluster.holds.get(job.name, {}).values())
    return {"held": held} if held else {}


def _pass_time(played: Played, cluster: _Cluster, waiting: list[Job], hours: float) -> None:
    played.free += hours * sum(cluster.free)
    for name, placement in cluster.holds.items():
        if name in cluster.ends:
            played.worked += hours * sum(placement.values())
        else:
            played.held += hours * sum(placement.values())
    played.queue_hours += hours * len(waiting)


def _moment(cluster: _Cluster, waiting: list[Job], now: float) -> dict:
    cells = [
        [name for name, placement in cluster.holds.items() for _ in range(placement.get(node, 0))]
        for node in range(len(cluster.free))
    ]
    return {"at_h": now, "cells": cells, "waiting": [job.name for job in waiting], "running": list(cluster.ends)}


def draw_jobs(count: int, nodes: int, seed: int, load: float = 0.9) -> list[Job]:
    """Jobs that arrive over time: most small, some as large as half of the cluster; ``load``: of the GPU-hours there are, what they ask for."""
    rng = random.Random(seed)
    whole = [GPUS_PER_NODE * n for n in (1, 1, 2, max(1, nodes // 2))]
    sizes = [rng.choice([1, 2, 4, 4]) if rng.random() < 0.5 else rng.choice(whole) for _ in range(count)]
    hours = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(count)]
    span = sum(gpus * lasts for gpus, lasts in zip(sizes, hours, strict=True)) / (GPUS_PER_NODE * nodes * load)
    arrivals = sorted(rng.randrange(int(4 * span) + 1) / 4 for _ in range(count))
    return [
        Job(f"job{i}", gpus, lasts, at) for i, (gpus, lasts, at) in enumerate(zip(sizes, hours, arrivals, strict=True))
    ]
