"""The one process from which tests fork what must not begin with all that pytest holds: it has imported what they need.

multiprocessing has one fork server a process, whoever asks for it: what it imports is said here and nowhere else.
"""

import multiprocessing

NEEDED = (
    "torch._dynamo",
    "gpulab.cuda.device.install",
    "gpulab.plots.figure",
    "autograder.grading.converter",
    "autograder.verdicts",
    "tests.pipeline.shell",
    "tests.gates.small",
    "tests.faults.conftest",
)
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload([*NEEDED, "tests.shared"])
