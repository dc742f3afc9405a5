"""Loaded by local Dask workers as they start: Ctrl-C is the command's affair, which stops them."""

import signal


def dask_setup(worker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
