"""Kernels started one by one, where forking is not to be had: slower, the same grades."""

import logging

import pytest

from tests.pipeline.conftest import Course

ENDLESS = "def patchify(*arguments):\n    while True: pass"
HUNGRY = "def patchify(*arguments):\n    hoard = []\n    while True: hoard.append(bytearray(1 << 24))"


@pytest.fixture(scope="module")
def cold(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("cold"))


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_the_solution_earns_everything_and_a_warning_says_why_it_is_slow(cold, sandbox, caplog):
    cold.hand_in("right", cold.answered())
    with caplog.at_level(logging.WARNING):
        result = cold.autograde("right", warm_kernels=False, sandbox=sandbox)
    assert result["success"], result
    assert cold.scores("right") == cold.full_marks()
    assert "one by one" in caplog.text + str(result["log"])


def test_an_endless_loop_is_interrupted_and_costs_its_exercise_alone(cold):
    cold.hand_in("hangs", cold.answered(patchify=ENDLESS))
    assert cold.autograde("hangs", warm_kernels=False, timeout=3)["success"]
    lost = {name for name, points in cold.full_marks().items() if cold.scores("hangs")[name] < points}
    assert lost == {"patchify_hidden"}
    page = cold.feedback("hangs")
    assert "did not return in time" in page and "ran for more than 3 s" in page
    assert "stopped by KeyboardInterrupt" not in page


def test_the_memory_of_the_kernel_is_bounded(cold):
    cold.hand_in("hungry", cold.answered(patchify=HUNGRY))
    assert cold.autograde("hungry", warm_kernels=False, memory_bytes=2 * 1024**3)["success"]
    assert cold.scores("hungry")["patchify_hidden"] == 0
