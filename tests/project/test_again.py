"""`python -m tests`: what fails is tried once more, alone, and the run says what came of both."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert 1 == 2\n"
UNSTEADY = """
    from pathlib import Path
    HERE = Path(__file__).parent
    def test_unsteady():
        first = not (HERE / "tried").exists()
        (HERE / "tried").touch()
        assert not first, "the other was late"
"""
HANGS = "import time\ndef test_hangs():\n    time.sleep(60)\n"
HANGS_IN_C = "def test_hangs_in_c():\n    sum(range(10**13))\n"
"""It holds the interpreter's lock: no handler of a signal runs."""
DIES_ONCE = """
    import os
    from pathlib import Path
    def test_dies_once():
        died = Path(__file__).with_name("died")
        if not died.exists():
            died.touch()
            os._exit(1)
    def test_after_it():
        pass
"""
QUICK_TO_START = "-p no:hypothesispytest -p no:anyio"
TOGETHER = """
    from tests.groups import GroupScheduling
    def pytest_xdist_make_scheduler(config, log):
        return GroupScheduling(config, log)
"""


class Folder:
    """path: where the tests are, in a folder ``tests``, one file for each."""

    def __init__(self, path: Path, **files: str) -> None:
        self.path = path
        (path / "tests" / "made_up").mkdir(parents=True)
        for name, text in files.items():
            (path / "tests" / "made_up" / f"{name}.py").write_text(dedent(text))
        (path / "tests" / "conftest.py").write_text(dedent(TOGETHER))

    def run(self, *options: str) -> SimpleNamespace:
        command = [sys.executable, "-m", "tests", "tests", *options]
        environment = os.environ | {"PYTEST_ADDOPTS": QUICK_TO_START}
        done = subprocess.run(command, cwd=self.path, env=environment, capture_output=True, text=True)
        return SimpleNamespace(status=done.returncode, lines=done.stdout.splitlines(), said=done.stdout + done.stderr)

    def unsteady(self) -> list[dict]:
        return json.loads((self.path / "benchmarks" / "results" / "unsteady.json").read_text())


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> SimpleNamespace:
    """A run of five tests on two workers: one passes, one fails, one is unsteady, two hang."""
    files = {"test_a": PASSES, "test_b": FAILS, "test_c": UNSTEADY, "test_d": HANGS}
    folder = Folder(tmp_path_factory.mktemp("mixed"), **files)
    done = folder.run("--numprocesses=2", "--dist=loadscope", "--no-loadscope-reorder", "--timeout=2")
    return SimpleNamespace(folder=folder, **vars(done))


def test_what_fails_twice_fails_the_run(mixed):
    assert mixed.status == 1
    assert "FAILED tests/made_up/test_b.py::test_fails - assert 1 == 2" in mixed.lines


def test_what_passes_alone_is_named_unsteady_with_what_was_said_first(mixed):
    (line,) = [line for line in mixed.lines if line.startswith("unsteady: ")]
    assert "tests/made_up/test_c.py::test_unsteady" in line and "the other was late" in line


def test_an_unsteady_test_is_kept_with_date_commit_and_first_failure(mixed):
    (kept,) = mixed.folder.unsteady()
    assert kept["test"] == "tests/made_up/test_c.py::test_unsteady" and kept["said"].startswith(
        "AssertionError: the other was late"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"]) and "commit" in kept


def test_a_test_that_hangs_is_ended_and_named(mixed):
    assert any(
        re.match(r"FAILED tests/made_up/test_d.py::test_hangs - .*Timeout \(>2", line) for line in mixed.lines
    ), mixed.said


def test_the_last_line_adds_up_both_runs(mixed):
    assert mixed.lines[-1] == "2 passed, 2 failed"


def test_what_failed_is_tried_again_in_one_process(mixed):
    assert "Once more, alone: the 3 that failed" in mixed.lines
    first, again = mixed.said.split("Once more, alone")
    assert "[gw" in first and "[gw" not in again


def test_a_run_whose_failures_are_all_unsteady_passes_and_the_next_is_kept_beside_them(tmp_path):
    folder = Folder(tmp_path, test_c=UNSTEADY)
    for kept in (1, 2):
        done = folder.run()
        assert (done.status, done.lines[-1], len(folder.unsteady())) == (0, "1 passed, 0 failed", kept), done.said
        (tmp_path / "tests" / "made_up" / "tried").unlink()


@pytest.mark.audit
def test_a_worker_that_crashed_is_replaced_and_its_test_tried_again_alone(tmp_path):
    done = Folder(tmp_path, test_a=PASSES, test_e=DIES_ONCE).run("--numprocesses=2", "--dist=loadscope")
    assert (done.status, done.lines[-1]) == (0, "3 passed, 0 failed"), done.said
    assert "crashed while running 'tests/made_up/test_e.py::test_dies_once'" in done.said
    assert done.said.count("replacing crashed worker") == 1


@pytest.mark.audit
def test_what_hangs_in_c_ends_its_worker_and_is_named(tmp_path):
    options = (
        "--override-ini=faulthandler_timeout=2",
        "--override-ini=faulthandler_exit_on_timeout=true",
        "--timeout=1",
    )
    done = Folder(tmp_path, test_a=PASSES, test_h=HANGS_IN_C).run("--numprocesses=2", "--dist=loadscope", *options)
    assert (done.status, done.lines[-1]) == (1, "1 passed, 1 failed"), done.said
    assert "test_hangs_in_c" in done.lines[-2] and "Timeout (0:00:02)!" in done.said


@pytest.mark.parametrize(
    ("files", "options", "status"),
    [
        ({"test_a": PASSES}, (), 0),
        ({"test_a": "import nothing_of_the_kind"}, (), 2),
        ({"test_a": PASSES}, ("--no-such-option",), 4),
        ({"test_a": ""}, (), 5),
        ({"test_a": "def test_interrupts():\n    raise KeyboardInterrupt\n"}, (), 2),
        ({"test_a": FAILS, "test_b": PASSES}, ("--exitfirst",), 1),
        ({"test_a": UNSTEADY, "test_b": PASSES}, ("--exitfirst",), 1),
    ],
    ids=["passes", "not collected", "usage", "nothing", "interrupt", "fails", "left undone"],
)
def test_the_exit_status_is_pytests_own_where_nothing_is_mended(tmp_path, files, options, status):
    assert Folder(tmp_path, **files).run(*options).status == status


def test_tests_have_a_limit_and_so_has_what_hears_no_signal():
    ini = (ROOT / "pyproject.toml").read_text()
    assert "\ntimeout = 300\n" in ini and "\nfaulthandler_timeout = 330\nfaulthandler_exit_on_timeout = true\n" in ini
