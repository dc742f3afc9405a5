"""What runs in a worker process: one converter, one kernel server, submission after submission."""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

from autograder.grading.job import Graded, Job

# nbclient keeps its event loop with the thread, the kernel server dies with the thread that
# started it, and the working directory is the process's: one thread does all of a worker's
# grading, whatever threads the cluster has.
_workspace = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grader")


def submissions(job: Job) -> list[str] | LookupError:
    """The students whose submissions the job is about, once the gradebook knows the course.

    Where the run cannot begin, the LookupError that says why: raised, Dask would print its
    traceback, and nbgrader's exit at an option it does not know would end the worker.
    """
    try:
        return _workspace.submit(_submissions, job).result()
    except SystemExit:
        return LookupError(f"nbgrader does not take {' '.join(job.options)}")
    except LookupError as error:
        return error
    except Exception as error:
        return LookupError(f"{type(error).__name__}: {error}")


def grade(job: Job, student: str) -> Graded:
    """Grade one submission as ``nbgrader autograde`` would; what goes wrong is in the answer."""
    return _workspace.submit(_grade, job, student).result()


def _submissions(job: Job) -> list[str]:
    converter = _converter(job)
    converter.require_sandbox()
    students = converter.students(job.students)
    converter.enter_course()
    return students


def _grade(job: Job, student: str) -> Graded:
    started = time.monotonic()
    try:
        converter = _converter(job)
        return converter.grade(student)
    except Exception as error:
        # A full disk, a database that is gone: this submission's trouble, not the class's.
        remark = f"{type(error).__name__}: {error}"
        return Graded(student, "failed", remark=remark, seconds=time.monotonic() - started)


@functools.cache
def _converter(job: Job):
    from autograder.grading.converter import open_converter

    return open_converter(job)
