"""The one process from which tests fork what must not begin with all that pytest holds: it has imported what they need.

multiprocessing has one fork server a process, whoever asks for it: what it imports is said here and nowhere else.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

NEEDED = (
    "torch._dynamo",
    "gpulab.cuda.device.install",
    "gpulab.plots.figure",
    "autograder.grading.converter",
    "autograder.judge.referee",
    "tests.pipeline.shell",
    "tests.gates.small",
    "tests.faults.conftest",
)
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload([*NEEDED, "tests.fork_server_preload"])


def in_a_fork(function: Callable, *arguments: Any) -> Any:
    """What ``function`` returns in a process of its own. Raises EOFError where that ends before it is done."""
    mine, its = forks.Pipe(duplex=False)
    process = forks.Process(target=_tell, args=(its, function, *arguments))
    process.start()
    its.close()
    with mine:
        try:
            return mine.recv()
        finally:
            process.join()


def _tell(its: Connection, function: Callable, *arguments: Any) -> None:
    its.send(function(*arguments))
