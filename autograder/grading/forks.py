"""The process that local workers are forked from: it imports everything once."""

import multiprocessing
from multiprocessing import forkserver

_WARM = ["autograder.nbgrader.config", "autograder.grading.converter", "distributed"]


def start() -> None:
    """Start it now, without waiting; where it runs already, nothing happens."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(_WARM)
    forkserver.ensure_running()
