"""A queue of jobs before a few nodes of eight GPUs, played under four policies."""

import anywidget
import traitlets

from gpulab.fleet import POLICIES, Job, draw_jobs
from gpulab.widgets._source import module, style

NODES = 4
QUEUES: dict[str, list[Job]] = {
    "two large jobs": [Job("a", 24, 4), Job("b", 24, 4), Job("c", 2, 3, 1.0)],
    "a large job among small ones": [Job("a", 8, 3), Job("b", 8, 5), Job("c", 8, 4), Job("L", 32, 3, 1.0)]
    + [Job(name, 8, 4, at) for name, at in zip("defghijk", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 9.0), strict=True)],
    "a mixed day": [
        job._replace(name=name)
        for job, name in zip(draw_jobs(18, NODES, seed=5, load=1.2), "abcdefghijklmnopqr", strict=True)
    ],
}


class GangScheduler(anywidget.AnyWidget):
    """The reader chooses a queue and a policy, and steps through what happens at each arrival and each end.

    Args:
        queue: one of :data:`QUEUES`. policy: one of ``gpulab.fleet.POLICIES``. moment: the event to begin with, from 0.

    Raises:
        ValueError: for another queue, another policy, a moment below 0.
    """

    _esm = module("gang_scheduler")
    _css = style("gang_scheduler")
    queue = traitlets.Unicode().tag(sync=True)
    policy = traitlets.Unicode().tag(sync=True)
    moment = traitlets.Int().tag(sync=True)
    nodes = traitlets.Int(NODES).tag(sync=True)
    policies = traitlets.List().tag(sync=True)
    queues = traitlets.Dict().tag(sync=True)

    def __init__(self, queue: str = "two large jobs", policy: str = "pod by pod", moment: int = 0):
        for value, known in ((queue, QUEUES), (policy, POLICIES)):
            if value not in known:
                raise ValueError(f"{value!r} is none of {', '.join(known)}")
        if moment < 0:
            raise ValueError(f"moment {moment}: they are counted from 0")
        queues = {name: [job._asdict() for job in jobs] for name, jobs in QUEUES.items()}
        super().__init__(queue=queue, policy=policy, moment=moment, policies=list(POLICIES), queues=queues)
