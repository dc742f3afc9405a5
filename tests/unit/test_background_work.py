"""What the code under a scenario starts elsewhere is heard."""

import subprocess
import sys
import threading

import pytest

from autograder.core.exercise import Case, Criterion, Exercise
from autograder.core.sampler import Sampler
from autograder.judge.referee import session_here
from autograder.protocol import wire
from autograder.protocol.plain import written
from autograder.runner.background_work import (
    IDLE_SECONDS,
    MOST_IDLE_SECONDS,
    _idle_seconds,
    _processor_seconds,
    detector,
)
from autograder.runner.scenario_runner import run_case


def in_a_thread():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


STARTERS = {
    "thread": "thread = threading.Thread(target=int); thread.start(); thread.join()",
    "process": "os.fork() or os._exit(0); os.wait()",
    "subinterpreter": "interpreters.destroy(interpreters.create())",
}
ALONE = """
import os, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
from autograder.runner.background_work import detector

with detector.watch() as elsewhere:
    {starter}
print(elsewhere)
"""


def alone(program: str) -> str:
    """The last line that a program prints in a process of its own: threads of other tests work too, and are named."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.split("\n")[-2]


@pytest.mark.parametrize("kind", STARTERS)
def test_what_is_started_inside_the_block_is_named_and_nothing_else(kind):
    assert alone(ALONE.format(starter=STARTERS[kind])) == str([kind])


def test_a_subinterpreter_from_before_is_named():
    made_before = ALONE.format(starter="interpreters.run_string(made, '1')").replace(
        "with ", "made = interpreters.create()\nwith "
    )
    assert alone(made_before + "interpreters.destroy(made)") == "['subinterpreter']"


def test_a_thread_that_has_ended_since_it_was_listed_used_nothing(monkeypatch):
    def ended(thread):
        raise ProcessLookupError(3, "No such process")

    monkeypatch.setattr("time.pthread_getcpuclockid", ended)
    assert _processor_seconds(threading.get_ident()) is None
    with detector.watch() as background:
        pass
    assert background == []


def test_a_command_is_a_process():
    with detector.watch() as background:
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert "process" in background


def test_what_is_started_after_the_block_is_not_named():
    with detector.watch() as background:
        pass
    in_a_thread()
    assert background == []


EARLIER = """
import threading, time
from autograder.runner.background_work import detector

def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def wait_and_work():
    asked.wait()
    busy({seconds})
    done.set()
    over.wait()

asked, done, over = threading.Event(), threading.Event(), threading.Event()
thread = threading.Thread(target=wait_and_work)
thread.start()
with detector.watch() as elsewhere:
    if {seconds}:
        asked.set()
        done.wait()
asked.set()
over.set()
thread.join()
print(elsewhere)
"""


@pytest.mark.parametrize(("seconds", "named"), [(0.01, ["thread"]), (0, [])])
def test_an_earlier_thread_is_named_when_it_worked(seconds, named):
    assert alone(EARLIER.format(seconds=seconds)) == str(named)


TICKING = """
import threading, time
from autograder.runner.background_work import detector

def tick():
    while not over.wait(0.02):
        sum(range(500))

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

over = threading.Event()
thread = threading.Thread(target=tick)
thread.start()
with detector.watch() as elsewhere:
    work(0.3)
over.set()
thread.join()
print(elsewhere)
"""


def test_a_thread_that_only_wakes_now_and_then_is_not_named():
    assert alone(TICKING) == "[]"


def test_sleeping_buys_another_thread_no_time():
    assert _idle_seconds(0.0) == IDLE_SECONDS
    assert _idle_seconds(3600.0) == MOST_IDLE_SECONDS


def test_a_pool_of_threads_is_heard():
    from concurrent.futures import ThreadPoolExecutor

    with detector.watch() as background, ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
    assert background == ["thread"]


def evidence_of(predict_view) -> dict:
    inputs = wire.encode({"calls": written([((2,), (1,), (2,))]), "libraries": [], "in_kernel": False})
    return wire.decode(run_case("views.predict_view", {"predict_view": predict_view}, inputs))


def test_evidence_says_what_was_started():
    assert evidence_of(lambda *a: in_a_thread())["background"] == ["thread"]
    assert evidence_of(lambda *a: None)["background"] == []


@pytest.mark.parametrize(("alone", "score"), [(True, 0), (False, 3)])
def test_an_exercise_says_whether_its_function_must_work_alone(alone, score):
    exercise = Exercise(
        (Criterion("all", 3, "it works"),),
        lambda sampler: iter([Case(("all",))]),
        lambda *a: [],
        alone=alone,
        name="t.t",
    )
    session = session_here(exercise, Sampler(1))
    session.next_case()
    session.take(wire.encode({"background": ["thread"]}))
    assert session.next_case() is None
    assert session.verdict().score == score
