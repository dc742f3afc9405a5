"""``make audit``, the runner of the slow checks: it goes on where it stopped, says what is left, and keeps what it found."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.authoring.drafts import in_the_book
from tests.audit.run import Running, left, run
from tests.audit.state import State, key_in
from tests.audit.unit import by_payer
from tests.audit.units import EXERCISES, NEWEST, Unit, newest, units
from tests.outcomes import FAILED, NOT_RUN, PASSED, Test
from tests.rooms import ROOMS, ROOT

FINDS = "import json, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(json.dumps({of: one}))"


def unit(name: str, code: str = "", failures: tuple[str, ...] = ()) -> Unit:
    one = {"passed": 1, "failed": len(failures), "failures": list(failures)}
    return Unit(
        name, "chapter a", (sys.executable, "-c", code or f"of, one = 'chapter a', {one}; {FINDS}"), ("source",)
    )


@pytest.fixture
def state(tmp_path) -> State:
    return State(tmp_path / "state", tmp_path / "audit.json", lambda unit: unit.name)


def tried(units: list[Unit], state: State, jobs: int = 2) -> tuple[list[str], list[str]]:
    said: list[str] = []
    return run(units, state, jobs, "abc", said.append), said


def test_what_was_found_is_kept_by_chapter_and_unit_with_commit_and_date(state):
    assert tried([unit("exercise a.b"), unit("chapter a", failures=("test_c: it is wrong",))], state)[0] == [
        "test_c: it is wrong"
    ]
    kept = json.loads(state.results.read_text())["chapter a"]
    assert list(kept) == ["chapter a", "exercise a.b"] and kept["exercise a.b"]["passed"] == 1
    assert kept["chapter a"]["failures"] == ["test_c: it is wrong"] and kept["chapter a"]["commit"] == "abc"
    assert set(kept["chapter a"]) >= {"date", "seconds", "failed"}


def test_what_is_done_is_not_run_again_and_its_failures_are_reported_again(state):
    both = [unit("a", failures=("it is wrong",)), unit("b")]
    tried(both, state)
    assert tried(both, state) == (["it is wrong"], [])


def test_a_unit_whose_files_changed_is_run_again(state):
    tried([unit("a"), unit("b")], state)
    later = State(state.folder, state.results, lambda unit: f"{unit.name} changed" if unit.name == "b" else unit.name)
    assert [one.name for one in left([unit("a"), unit("b")], later)] == ["b"]


def test_a_unit_that_is_killed_is_reported_and_left_and_the_others_run(state):
    killed = unit("killed", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    (failure,), said = tried([killed, unit("b"), unit("c")], state, jobs=1)
    assert failure.startswith("killed ended with status -9 and found nothing: ") and len(said) == 3
    assert left([killed, unit("b"), unit("c")], state) == [killed]


def test_a_unit_that_raises_is_left_and_what_it_wrote_can_be_read(state):
    (failure,), _ = tried([unit("a", "raise ValueError('no such thing')")], state)
    assert "no such thing" in Path(failure.rpartition(": ")[2]).read_text()


INTERRUPTED = """
import sys
from pathlib import Path
from tests.audit.run import run
from tests.audit.state import State
from tests.audit.test_audit import unit
folder = Path(sys.argv[1])
state = State(folder / "state", folder / "audit.json", lambda unit: unit.name)
endless = unit("endless", "import os, sys, time; open(sys.argv[1] + '.pid', 'w').write(str(os.getpid())); time.sleep(600)")
run([unit("a"), endless, unit("b")], state, 1, "abc", lambda said: None)
"""


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.audit), signal.SIGTERM])
def test_an_interrupted_audit_ends_what_it_started_and_goes_on_with_the_unit_that_it_was_at(state, tmp_path, how):
    audit = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    pid = state.folder / "endless.found.pid"
    until = time.monotonic() + 120
    while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    audit.send_signal(how)
    assert audit.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert [one.name for one in left([unit("a"), unit("endless"), unit("b")], state)] == ["endless", "b"]


def test_an_interrupt_that_comes_while_a_unit_starts_leaves_nothing_of_it_behind(state, monkeypatch):
    class Started(Running):
        def __post_init__(self) -> None:
            super().__post_init__()
            begun.append(self.process)
            os.kill(os.getpid(), signal.SIGINT)

    begun: list[subprocess.Popen] = []
    monkeypatch.setattr("tests.audit.run.Running", Started)
    with pytest.raises(KeyboardInterrupt):
        run([unit("endless", "import time; time.sleep(600)")], state, 1, "abc", print)
    assert [process.returncode for process in begun] == [-signal.SIGKILL]


def test_a_unit_depends_on_its_files_and_not_on_the_record_that_it_writes(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    source = tmp_path / "source"
    source.mkdir()
    keys = []
    for file, text in (("a.py", "1"), ("trials.json", "{}"), ("a.py", "2"), ("new.py", "")):
        (source / file).write_text(text)
        keys.append(key_in(tmp_path)(unit("a")))
    (tmp_path / "elsewhere.py").touch()
    assert keys[0] == keys[1] and len(set(keys)) == 3 and key_in(tmp_path)(unit("a")) == keys[-1]


def test_the_whole_audit_is_every_exercise_of_the_book_every_room_and_every_operation():
    named = {one.name for one in units()}
    assert {f"room {room}" for room in ROOMS} | {"opinfo"} | {one.name for one in newest()} <= named
    assert {one.of for one in units() if one.name.startswith("exercise ")} == {
        f"chapter {name}" for name in in_the_book(EXERCISES)
    }


def test_rooms_of_pytorchs_internals_are_tried_with_the_newest_pytorch_that_is_allowed():
    assert {one.name for one in newest()} >= {"newest device", "newest kernels", "newest collectives"}
    assert {one.command[0] for one in newest()} == {str(NEWEST)}


def test_a_chapter_may_be_a_draft_and_has_its_exercises_and_its_tests():
    assert [one.name for one in units(chapter="capstone")] == [
        "exercise capstone.triage",
        "exercise capstone.design_review",
        "chapter capstone",
    ]


def test_a_test_counts_for_the_first_chapter_or_room_that_it_belongs_to():
    tests = {
        "test_a": Test(PASSED, cost=[["chapter views", "chapter streams"], 1.0, 1.0]),
        "test_b": Test(FAILED, "it is wrong", cost=[["chapter views"], 1.0, 1.0]),
        "test_c": Test(NOT_RUN),
    }
    found = by_payer(tests, "room unit")
    assert (found["chapter views"].passed, found["chapter views"].failures) == (1, ["test_b: it is wrong"])
    assert found["room unit"].failures == ["test_c: it was not run"]
