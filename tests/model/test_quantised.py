"""The committed results of quantised and fine-tuned TinyVLA are complete, the benchmark repeats them, figures and tables show them."""

import pytest
import torch

from benchmarks import quantised as script
from gpulab.model import load, quantised
from gpulab.plots import quality


def test_the_results_hold_every_format(record):
    assert [point["name"] for point in record["weights"]] == list(script.FORMATS)


def test_the_results_hold_every_way_to_fine_tune(record):
    assert [point["name"] for point in record["adapted"]] == list(script.ADAPTED)


def test_the_results_name_versions_device_and_seeds(record):
    assert set(record["versions"]) == {"torch", "torchao", "peft", "numpy", "python"} and record["device"] == "cpu"
    assert record["episodes"] == 400 and record["unseen_seed"] == script.UNSEEN and record["date"] >= "2026"
    assert record["training"] == {"steps": script.STEPS, "batch": script.BATCH, "seed": script.SEED}


def test_a_success_rate_lies_in_its_confidence_interval(points):
    for point in points.values():
        low, high = point["spread"]
        assert 0 <= low <= point["success"] <= high <= 1 and high - low < 0.11  # of 400 episodes: at most 0.098


def test_a_storage_that_two_tensors_share_counts_once():
    x = torch.zeros(10)
    assert script.bytes_of([x, x[:5], x.view(2, 5)]) == 40


def test_float32_takes_four_bytes_a_parameter():
    assert script.bytes_of(script.kept(load())) == 4 * load().config.parameters


@pytest.mark.audit  # 81 s of processor time: 400 episodes
def test_the_script_repeats_a_point(points):
    assert script.weights("bfloat16") == points["bfloat16"]


def test_adam_keeps_two_float32_moments_of_each_trainable_parameter(points):
    for name in script.ADAPTED:
        point = points[name]
        step_counters = point["optimizer_bytes"] - 8 * point["trainable"]  # 4 bytes for each of fewer than 64 tensors
        assert point["gradient_bytes"] == 4 * point["trainable"] and 0 < step_counters < 4 * 64


def test_two_bits_unpacked_take_no_less_than_int8(points):
    assert points["2 bits in a byte, groups of 32"]["bytes"] > points["int8, a scale a row"]["bytes"]


@pytest.mark.parametrize(("draw", "kind"), [(quality.quality_by_bytes, "weights"), (quality.adapted, "adapted")])
def test_a_figure_names_every_point(record, draw, kind):
    figure = draw(record)
    shown = figure._repr_html_()
    assert all(point["name"] in figure.alt and point["name"] in shown for point in record[kind])
    assert "currentColor" in shown and record["date"] in figure.caption and len(shown) < 120_000


def test_without_points_there_is_no_figure(record):
    with pytest.raises(ValueError, match="nothing to draw"):
        quality.quality_by_bytes({**record, "weights": []})


def test_the_tables_fit_eighty_columns():
    for table in (quantised.table(), quantised.adapted_table()):
        assert max(map(len, table.splitlines())) <= 80 and table.count("\n") >= 6


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, 0.0095), (200, 0.4512, 0.5488), (400, 0.9905, 1.0)])
def test_an_interval_is_wilsons_score_interval(successes, low, high):
    assert quantised.interval(successes, 400) == pytest.approx((low, high), abs=1e-4)
