"""Processes that play hidden tests with the course's own code, beside the grader and never beside a learner's."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from autograder.core.layout import ROOT


def start(module: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen:
    """Runs a module that reads what it is asked from its standard input: a seed stands in no list of processes."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(player: subprocess.Popen) -> None:
    """With all that it has forked."""
    with suppress(ProcessLookupError):
        os.killpg(player.pid, signal.SIGKILL)
    player.wait()
