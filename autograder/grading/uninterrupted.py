"""Loaded by local Dask workers as they start: Ctrl-C is the command's affair, which stops them; and their judges import."""

import signal

from autograder.judge.judge_server import judge_server


def dask_setup(worker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    judge_server()
