"""Imported last by :mod:`tests.forks`' process."""

from tests.sharing import share_before_forking

share_before_forking()
