"""What the page prints from the record is what the server answers today."""

import pytest

from benchmarks.serve_exchanges import ROOM, exchanges
from benchmarks.serve_model import server
from gpulab.serving.http.record import record


@pytest.fixture(scope="module")
def found():
    with server(**ROOM) as (url, process):
        return exchanges(url, process)


@pytest.mark.parametrize("name", ["refused", "overload", "shutdown"])
def test_the_record_says_what_the_server_answers(found, name):
    assert found[name] == record()["exchanges"]["found"][name]


def test_a_stream_on_the_wire_has_the_records_lines_but_for_the_time(found):
    kept = record()["exchanges"]["found"]["stream"]
    assert [_timeless(line) for line in found["stream"]] == [_timeless(line) for line in kept]


def test_blocks_of_a_client_that_left_are_free(found):
    assert found["left"]["running"] > 0 and found["left"]["left"] == 0


def test_the_metrics_have_the_names_of_the_record(found):
    assert found["metrics"].keys() == record()["exchanges"]["found"]["metrics"].keys()
    assert found["metrics"]["gpulab_admission_rejections_total"] == 1


def _timeless(line: str) -> str:
    return ",".join(part for part in line.split(",") if not part.startswith('"created"'))
