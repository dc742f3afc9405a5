"""The page's figure of the server under load shows the record, and says in words what it shows."""

import pytest

from gpulab.plots.load import latency_and_load
from gpulab.serving.http.record import record


def test_the_words_hold_every_rate_of_the_record():
    found = record()["load"]["found"]
    told = latency_and_load(found, caption="Measured.").alt
    assert len(found) > 5
    for one in found:
        assert f"{one['requests_per_s']:g} sent, {one['answered_per_s']:g} answered" in told


def test_no_rate_is_an_error_that_says_who_measures():
    with pytest.raises(ValueError, match="make load-model"):
        latency_and_load([], caption="")
