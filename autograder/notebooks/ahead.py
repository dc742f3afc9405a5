"""Starts what running notebooks takes, for whoever is about to import the rest of what that takes."""

import atexit
import sys
from functools import cache

from autograder.judge.judge_server import judge_server
from autograder.notebooks import watchdog
from autograder.sandbox import sandbox, workspace
from autograder.sandbox.server import KernelServer


@cache
def start(sandboxed: bool = True) -> None:
    """The servers that kernels and judges are forked from: both import for seconds, side by side. They end with this process.

    It is a command's: :mod:`~autograder.notebooks.watchdog` may end it where grading hangs.

    ``sandboxed``: as far as this machine has a sandbox.
    """
    watchdog.arm()
    judge_server()
    if sys.platform == "linux":
        server = KernelServer(sandboxed and not sandbox.problem())
        atexit.register(server.close)
        workspace.share(server.address)
