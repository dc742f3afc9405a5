"""What tests of ranks share."""

import pytest

from gpulab.collectives import run_ranks


@pytest.fixture(params=[2, 4], ids=["2 ranks", "4 ranks"])
def world(request) -> int:
    return request.param


@pytest.fixture(autouse=True, scope="session")
def _imported_before():
    """The first run imports what ranks need; no test's time."""
    run_ranks(lambda rank, world: None, 1)
