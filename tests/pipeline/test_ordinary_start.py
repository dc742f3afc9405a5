"""Kernels started one by one, where forking is not to be had: slower, the same grades."""

import logging
import re

import pytest

from tests.pipeline.conftest import Course

ENDLESS = "def patchify(*arguments):\n    while True: pass"
HUNGRY = "def patchify(*arguments):\n    hoard = []\n    while True: hoard.append(bytearray(1 << 24))"


@pytest.fixture(scope="module")
def cold(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("cold"))


@pytest.mark.parametrize("sandbox", ["required", pytest.param("off", marks=pytest.mark.audit)])
def test_the_solution_earns_everything_and_a_warning_says_why_it_is_slow(cold, sandbox, caplog):
    cold.hand_in("right", cold.answered())
    with caplog.at_level(logging.WARNING):
        result = cold.autograde("right", warm_kernels=False, sandbox=sandbox)
    assert result["success"], result
    assert cold.scores("right") == cold.full_marks()
    assert "one by one" in caplog.text + str(result["log"])


@pytest.mark.audit
def test_an_endless_loop_is_interrupted_and_costs_its_exercise_alone(cold):
    cold.hand_in("hangs", cold.answered(patchify=ENDLESS))
    assert cold.autograde("hangs", warm_kernels=False, timeout=8)["success"]
    lost = {name for name, points in cold.full_marks().items() if cold.scores("hangs")[name] < points}
    assert lost == {"patchify_hidden"}
    page = cold.feedback("hangs")
    assert "did not return in time" in page and "ran for more than 8 s" in page
    assert "stopped by KeyboardInterrupt" not in page


@pytest.mark.audit
def test_the_memory_of_the_kernel_is_bounded(cold):
    cold.hand_in("hungry", cold.answered(patchify=HUNGRY))
    assert cold.autograde("hungry", warm_kernels=False, memory_bytes=2 * 1024**3)["success"]
    assert cold.scores("hungry")["patchify_hidden"] == 0


WALLS = """def patchify(*arguments):
    import os
    try:
        for number in range(100):
            with open(f"block{number}", "wb") as file:
                file.write(bytes(10 * 1024**2))
    except OSError:
        pass
    written = sum(entry.stat().st_size for entry in os.scandir(".")) // 1024**2
    others = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    raise RuntimeError(f"{written} MiB, {len(others)} processes, {open('data.csv').read()}")
"""


@pytest.mark.audit
def test_it_has_the_walls_of_a_forked_one_round_its_files_and_processes(cold):
    folder = cold.hand_in("walled", cold.answered(patchify=WALLS))
    (folder / "data.csv").write_text("handed in")
    assert cold.autograde("walled", warm_kernels=False)["success"]
    said = next(line["message"] for line in cold.entry("walled")["verdicts"]["patchify_hidden"]["lines"])
    written, processes = (int(number) for number in re.findall(r"(\d+) (?:MiB|processes),", said))
    assert 0 < written <= 256 and processes < 10 and "handed in" in said
