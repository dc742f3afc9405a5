"""The engine on its roofline against figures that others published; no constant was fitted to them."""

import pytest

from gpulab.serving.validation import median_speed, newer, rows, table

SPEED = {
    "decode-a100-l2-7b-bf16": 1.18,
    "lmdeploy-7b-b1-1-128": 1.24, "lmdeploy-7b-b1-128-2048": 1.20, "lmdeploy-7b-b1-2048-128": 1.21,
    "lmdeploy-7b-b16-128-128": 1.27, "lmdeploy-7b-b16-128-2048": 1.15, "lmdeploy-7b-b32-128-128": 1.28,
    "lmdeploy-7b-b64-1-128": 1.61, "lmdeploy-7b-b64-128-128": 1.36, "lmdeploy-7b-b64-128-2048": 1.07,
    "lmdeploy-7b-b64-2048-2048": 1.04,
    "lmdeploy-13b-b1-1-128": 1.13, "lmdeploy-13b-b1-128-2048": 1.13, "lmdeploy-13b-b1-2048-128": 1.13,
    "lmdeploy-13b-b16-128-128": 1.14, "lmdeploy-13b-b64-128-128": 1.11, "lmdeploy-13b-b64-128-2048": 1.02,
    "lmdeploy-70b-b1-1-128": 1.30, "lmdeploy-70b-b1-2048-128": 1.40, "lmdeploy-70b-b16-128-128": 1.40,
    "lmdeploy-70b-b64-128-128": 1.52, "lmdeploy-70b-b64-128-2048": 1.54,
    "trtllm06-7b-b384-128-128": 1.05, "trtllm06-7b-b60-128-2048": 1.03, "trtllm06-7b-b52-2048-128": 0.98,
    "trtllm06-7b-first-128": 1.87, "trtllm06-7b-first-2048": 1.12,
}  # fmt: skip
"""How many times as fast as published the modelled engine is."""
FOUND = rows()


def test_each_is_as_near_as_is_said_here():
    assert {row.measurement.id: row.speed for row in FOUND} == pytest.approx(SPEED, abs=0.01)


def test_on_one_card_all_but_three_are_within_a_factor_of_1_3_and_all_within_1_9():
    """Near where the cache or long prompts bind; far where a step is short, and what the host does counts."""
    one = [row for row in FOUND if row.measurement.workload["tensor_parallel"] == 1]
    far = {row.measurement.id for row in one if not 1 / 1.3 <= row.speed <= 1.3}
    assert far == {"lmdeploy-7b-b64-1-128", "lmdeploy-7b-b64-128-128", "trtllm06-7b-first-128"}
    assert all(0.95 <= row.speed <= 1.9 for row in FOUND) and median_speed(FOUND) == pytest.approx(1.18, abs=0.01)


def test_on_four_cards_all_are_within_a_factor_of_1_6():
    assert all(1 <= row.speed <= 1.6 for row in FOUND if row.measurement.workload["tensor_parallel"] == 4)


def test_a_newer_engine_on_a_newer_card_is_farther_from_the_roofline():
    assert newer().speed == pytest.approx(1.58, abs=0.01)


def test_the_table_has_every_row_in_eighty_columns():
    lines = table(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 2 and max(map(len, lines)) <= 80
