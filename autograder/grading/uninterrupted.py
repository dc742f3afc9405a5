"""Loaded by local Dask workers as they start.

Ctrl-C is the command's affair, which stops them. One that hangs ends: another grades its submission. And their judges import.
"""

import signal

from autograder.judge.judge_server import judge_server
from autograder.notebooks import watchdog


def dask_setup(worker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watchdog.arm()
    judge_server()
