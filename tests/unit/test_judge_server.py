"""A judge has its own bounds of time and memory; one that goes beyond costs its exercise and nothing else."""

import os

import psutil
import pytest

from autograder.judge import judge_server
from autograder.judge.judge_server import JudgeServer
from autograder.judge.session import Session
from autograder.protocol import wire

FIND = "tests.unit.judges_that_fail:find"


@pytest.fixture(scope="module")
def judges():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.getcwd())
        judges = JudgeServer(FIND, cpu_seconds=2, seconds=3)
    yield judges
    judges.close()


def played(judges, name) -> Session:
    judge = judges.judge_for(name)
    session = Session(judge.outline, judge)
    while (inputs := session.next_case()) is not None:
        session.take(wire.encode({"x": wire.decode(inputs)["x"]}))
    return session


def test_right_evidence_earns_everything(judges):
    session = played(judges, "t.right")
    assert session.verdict().score == 3 and session.incidents == []


def test_a_case_is_judged_while_the_next_one_is_open(judges):
    judge = judges.judge_for("t.right")
    session = Session(judge.outline, judge)
    first = wire.decode(session.next_case())["x"]
    session.give(wire.encode({"x": first + 1}))
    session.give(wire.encode({"x": wire.decode(session.next_case())["x"]}))
    assert session.lost == {"first"} and session.next_case() is None
    assert [line.status for line in session.verdict().lines] == ["lost", "earned"]


def test_what_was_given_is_judged_where_the_kernel_ends_before_the_next_case(judges):
    judge = judges.judge_for("t.right")
    session = Session(judge.outline, judge)
    session.give(wire.encode({"x": wire.decode(session.next_case())["x"] + 1}))
    session.next_case()
    session.abandon("The kernel died.")
    assert [line.message for line in session.verdict().lines] == ["not x", "The kernel died."]


def test_what_was_given_is_judged_where_the_next_case_cannot_be_drawn(judges):
    judge = judges.judge_for("t.wrong_cases")
    session = Session(judge.outline, judge)
    session.give(wire.encode({"x": wire.decode(session.next_case())["x"] + 1}))
    assert session.next_case() is None and session.stopped and len(session.broken) == 1
    first, second = session.verdict().lines
    assert first.message == "not x" and "its cases failed at" in second.message


@pytest.mark.parametrize(("name", "why"), [("t.of no such name", "of no such name"), ("t" * 300, "no exercise 'ttt")])
def test_an_exercise_that_there_is_none_of_is_refused_and_the_next_one_judged(judges, name, why):
    with pytest.raises(LookupError, match=why):
        judges.judge_for(name)
    assert played(judges, "t.right").verdict().score == 3


def test_a_judge_whose_server_died_is_begun_again_with_the_same_cases():
    judges = JudgeServer()
    begun = [judges.begin("views.patchify", seed=5), judges.begin("views.compact")]
    judges._process.kill()
    judges._process.wait()
    again, other = map(judges.ready, begun)
    same = judges.judge_for("views.patchify", seed=5)
    assert again.next_case() == same.next_case() and other.next_case() is not None
    judges.close()


@pytest.mark.parametrize("name", ["t.busy", "t.asleep", "t.killed", "t.cases"])
def test_a_judge_that_does_not_answer_is_stopped_and_earns_nothing(judges, name):
    session = played(judges, name)
    assert session.verdict().score == 0
    assert [incident.partition(":")[0] for incident in session.broken] == [f"the judge of {name} was stopped"]


def test_a_judge_that_takes_too_much_memory_earns_nothing_and_the_grader_keeps_its_own(judges):
    before = psutil.Process().memory_info().rss
    session = played(judges, "t.greedy")
    # On a busy machine the clock may stop it first.
    assert session.verdict().score == 0 and "memory" in session.broken[0].lower()
    assert psutil.Process().memory_info().rss < before + (1 << 26)


def test_the_next_exercise_is_judged_after_one_that_was_stopped(judges):
    played(judges, "t.killed")
    assert played(judges, "t.right").verdict().score == 3


def test_a_judge_that_fails_is_named_with_its_line_and_its_traceback(judges):
    session = played(judges, "t.wrong")
    assert session.verdict().score == 0
    assert "the judge of t.wrong failed at" in session.broken[0]
    assert "judges_that_fail.py:" in session.broken[0] and "NameError" in session.broken[0]
    assert "Traceback" in session.tracebacks[0]


def test_cases_that_fail_are_named_with_their_line_and_deny_points(judges):
    session = played(judges, "t.wrong_cases")
    assert session.verdict().score == 0
    (sentence,) = session.broken
    assert sentence.startswith("the judge of t.wrong_cases was stopped: its cases failed at ")
    assert "judges_that_fail.py:" in sentence and "nothing_of_the_kind" in sentence
    assert "Traceback" in session.tracebacks[0]


def test_a_server_that_died_is_started_again_and_one_that_was_closed_leaves_nothing():
    judges = JudgeServer()
    judges._process.kill()
    judges._process.wait()
    authored = judges.judge_for("views.patchify")
    assert authored.next_case() is not None
    children = psutil.Process(judges._process.pid).children()
    judges.close()
    authored.close()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert len(children) == 1 and alive == []


def test_judges_that_cannot_be_had_are_no_fault_of_a_submission(monkeypatch):
    monkeypatch.setattr(judge_server.sys, "executable", "/bin/false")
    judges = JudgeServer()
    with pytest.raises(judge_server.JudgeServerLost):
        judges.judge_for("t.right")
    judges.close()
