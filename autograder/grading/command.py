"""``python -m autograder grade``: a progress bar, then a summary."""

import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace

from tqdm import tqdm

from autograder.core.printable import printable
from autograder.grading import forks
from autograder.grading.job import Graded, Job
from autograder.grading.summary import summary
from autograder.sandbox import sandbox
from autograder.sandbox.server import KernelServer


def run(job: Job, jobs: int, scheduler: str | None = None) -> int:
    """Grade, print, return the exit status: 1 when a submission could not be graded, or a hidden test is broken."""
    started = time.monotonic()
    if scheduler is not None:
        return _run(job, jobs, scheduler, started)
    # Both import at the same time as this process does.
    forks.start()
    with closing(KernelServer(sandboxed=not sandbox.problem())) as server:
        return _run(replace(job, kernel_server=server.address.to_json()), jobs, None, started)


def _run(job: Job, jobs: int, scheduler: str | None, started: float) -> int:
    from autograder.grading.engine import cluster, grade_class

    with ExitStack() as stack:
        try:
            client = stack.enter_context(cluster(jobs, scheduler))
        except (OSError, ValueError) as error:
            if scheduler is None:
                raise
            return _refused(f"no Dask scheduler at {scheduler}: {error}")
        try:
            count, results = grade_class(client, job)
        except LookupError as error:
            return _refused(error)
        try:
            done = _watched(count, results)
        except KeyboardInterrupt:
            print("\nautograder grade: interrupted; type it again to grade the rest", file=sys.stderr)
            return 130
    print(summary(done, time.monotonic() - started))
    return 1 if any(result.ending == "failed" or result.broken for result in done) else 0


def _refused(why: object) -> int:
    print(f"autograder grade: {why}", file=sys.stderr)
    return 2


def _watched(count: int, results) -> list[Graded]:
    done = []
    with tqdm(total=count, unit="submission", dynamic_ncols=True) as bar:
        for result in results:
            done.append(result)
            bar.set_postfix_str(printable(result.student), refresh=False)
            bar.update()
    return done
