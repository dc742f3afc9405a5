"""The server under load and after a crash, measured as for the record that the page shows."""

import pytest

from benchmarks.serve_model import hold, restart
from gpulab.serving.http.record import record

STREAMS, SECONDS = 200, 120
FLAT = 1.05
AGAIN_S = 10


@pytest.mark.timeout(300)
def test_two_hundred_streams_run_for_two_minutes_and_none_is_lost():
    """``hold`` raises for a stream that lacks a token, for an error, and for a request or block that is left."""
    found = hold(STREAMS, SECONDS)
    memory = found["server_mib"]
    assert memory["last quarter"] <= FLAT * memory["second quarter"], memory
    assert found["finished"] > STREAMS and found["left"] > 0


@pytest.mark.timeout(60)
def test_a_killed_server_serves_again_within_ten_seconds():
    assert restart()["again_s"] < AGAIN_S


def test_the_record_is_of_such_runs():
    kept = record()
    streams = kept["streams"]["found"]
    assert (streams["streams"], streams["seconds"], kept["machine"]["cpus"]) == (STREAMS, SECONDS, 2)
    assert streams["server_mib"]["last quarter"] <= FLAT * streams["server_mib"]["second quarter"]
    assert kept["restart"]["found"]["again_s"] < AGAIN_S
