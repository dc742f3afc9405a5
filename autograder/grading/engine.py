"""The class, submission by submission, on a Dask cluster: on this machine or a larger one."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dask
from distributed import Client, LocalCluster, as_completed

from autograder.grading import forks, worker
from autograder.grading.job import Graded, Job

_LOCAL = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.daemon": False,
    "distributed.worker.preload": ["autograder.grading.uninterrupted"],
    "distributed.comm.timeouts.connect": "60s",
}


@contextmanager
def cluster(jobs: int, scheduler: str | None = None) -> Iterator[Client]:
    """A client of the cluster at ``scheduler``, or of ``jobs`` worker processes on this machine."""
    with ExitStack() as stack:
        if scheduler is None:
            forks.start()
            stack.enter_context(dask.config.set(_LOCAL))
            scheduler = stack.enter_context(_local_cluster(jobs))
        yield stack.enter_context(Client(scheduler))


def _local_cluster(jobs: int) -> LocalCluster:
    # What listens on this machine's loopback takes commands: only from who has the certificate.
    return LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        memory_limit=0,
        dashboard_address=None,
        silence_logs="ERROR",
        security=True,
    )


def grade_class(client: Client, job: Job) -> tuple[int, Iterator[Graded]]:
    """How many submissions there are, and what becomes of each, as it becomes known.

    Raises LookupError when no submission matches. A submission whose worker is lost is graded
    by another one; one that loses several workers in a row fails.
    """
    students = client.submit(worker.submissions, job, pure=False).result()
    if isinstance(students, LookupError):
        raise students
    futures = {client.submit(worker.grade, job, student, pure=False): student for student in students}
    return len(students), _results(futures)


def _results(futures: dict) -> Iterator[Graded]:
    for future in as_completed(futures):
        if future.status == "finished":
            yield future.result()
        else:
            yield Graded(futures[future], "failed", remark=f"the worker was lost: {future.exception()!r}"[:300])
        future.release()
