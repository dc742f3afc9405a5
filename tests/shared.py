"""Imported last by :mod:`tests.forks`' process."""

from autograder.kernels.fork_server import share_before_forking

share_before_forking()
