"""``python -m autograder grade``: a progress bar, then a summary."""

import sys
import time

from tqdm import tqdm

from autograder.grading import forks
from autograder.grading.job import Graded, Job
from autograder.grading.summary import summary


def run(job: Job, jobs: int, scheduler: str | None = None) -> int:
    """Grade, print, return the exit status: 1 when a submission could not be graded."""
    started = time.monotonic()
    if scheduler is None:
        forks.start()  # before the imports below: it imports at the same time
    from autograder.grading.engine import cluster, grade_class

    with cluster(jobs, scheduler) as client:
        try:
            count, results = grade_class(client, job)
        except LookupError as error:
            print(f"autograder grade: {error}", file=sys.stderr)
            return 2
        try:
            done = _watched(count, results)
        except KeyboardInterrupt:
            print("\nautograder grade: interrupted; type it again to grade the rest", file=sys.stderr)
            return 130
    print(summary(done, time.monotonic() - started))
    return 1 if any(result.ending == "failed" for result in done) else 0


def _watched(count: int, results) -> list[Graded]:
    done = []
    with tqdm(total=count, unit="submission", dynamic_ncols=True) as bar:
        for result in results:
            done.append(result)
            bar.set_postfix_str(result.student, refresh=False)
            bar.update()
    return done
