"""The text is what Prometheus' own client reads, under names that dcgm-exporter exports by default."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpulab.fleet import Sample, exposition, node_metrics
from gpulab.fleet.constants import DCGM_DEFAULTS, DCGM_NO_SENSOR, DCGM_OFF


def test_the_clients_parser_reads_back_what_was_written():
    samples = node_metrics(3, seed=1, hot=6, no_memory_sensor=True)
    families = list(text_string_to_metric_families(exposition(samples)))
    read = {(s.name, s.labels["gpu"]): s.value for family in families for s in family.samples}
    ending = {"gauge": "", "counter": "_total"}  # which the client gives to every counter
    assert read == {
        (s.name + ending[DCGM_DEFAULTS[s.name][0]], s.labels["gpu"]): float(f"{s.value:g}") for s in samples
    }
    assert {family.type for family in families} == set(ending)
    assert read["DCGM_FI_DEV_SM_CLOCK", "6"] == 1110 and len({gpu for _, gpu in read}) == 8


def test_labels_are_escaped():
    (family,) = text_string_to_metric_families(exposition([Sample("DCGM_FI_DEV_GPU_TEMP", {"pod": 'a"b\\c\nd'}, 1)]))
    assert (
        family.samples[0].labels == {"pod": 'a"b\\c\nd'}
        and family.documentation == DCGM_DEFAULTS["DCGM_FI_DEV_GPU_TEMP"][1]
    )


def test_a_missing_sensor_is_a_number_and_is_to_be_filtered():
    values = [s.value for s in node_metrics(0, 1, no_memory_sensor=True) if s.name == "DCGM_FI_DEV_MEMORY_TEMP"]
    assert values == [DCGM_NO_SENSOR] * 8


def test_what_is_off_by_default_cannot_be_exported():
    assert not set(DCGM_OFF) & set(DCGM_DEFAULTS)
    for name in DCGM_OFF:
        with pytest.raises(KeyError):
            exposition([Sample(name, {}, 0)])
