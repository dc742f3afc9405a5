"""A scenario that fails is told from a learner's function that does."""

import sys
import types

import pytest

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.layout import ROOT, file_of, run_module
from autograder.core.sampler import Sampler
from autograder.judge.referee import session_here
from autograder.judge.session import Session
from autograder.protocol import wire
from autograder.runner.scenario_runner import run_case

SOURCES = {
    "first": """
def run(learner, case):
    return {"y": learner.first(case["x"]).real}
""",
    "misspelt": """
def run(learner, case):
    return {"y": learner.first(case["z"])}
""",
    "second": "",
}


@pytest.fixture(autouse=True)
def scenarios(monkeypatch):
    """Scenarios of a chapter ``made_up``, as if they stood in the project's folder."""
    for exercise, source in SOURCES.items():
        module = types.ModuleType(run_module("made_up", exercise))
        exec(compile(source, ROOT / file_of(module.__name__), "exec"), module.__dict__)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def played(name: str, function) -> Session:
    def judge(case, evidence):
        if evidence["y"] != 2:
            yield Failure("right", "not two")

    exercise = Exercise(
        (Criterion("right", 1, "it is right"),),
        lambda sampler: iter([Case(("right",), {"x": 1})]),
        judge,
        name=name,
    )
    session = session_here(exercise, Sampler(1))
    while (inputs := session.next_case()) is not None:
        session.take(run_case(name, {"first": function} if function else {}, inputs))
    return session


def message(session: Session) -> str:
    return session.verdict().lines[0].message


def test_a_scenario_that_raises_is_named_with_its_line():
    session = played("made_up.misspelt", lambda x: 2)
    assert session.broken == [
        "the scenario of made_up.misspelt failed at exercises/made_up/misspelt/run.py:3 (KeyError: 'z')"
    ]
    assert message(session).startswith("The hidden test stopped at no line of the notebook (KeyError: 'z')")
    assert session.verdict().score == 0


def test_what_the_scenario_cannot_take_says_both():
    session = played("made_up.first", lambda x: None)
    assert "exercises/made_up/first/run.py:3 (AttributeError" in session.broken[0]
    assert "the function gave what the test cannot take, or the hidden test is wrong" in message(session)


@pytest.mark.parametrize(
    "function",
    [lambda x: {}["a"], lambda x, y: 2, lambda: 2, lambda *, x: 2, None],
    ids=["raises", "one argument more", "none", "named alone", "missing"],
)
def test_a_function_that_fails_is_no_broken_scenario(function):
    session = played("made_up.first", function)
    assert session.broken == [] and session.verdict().score == 0
    assert "hidden test stopped" not in message(session)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("made_up.second", "exercises/made_up/second/run.py defines no function run(learner, case)"),
        ("none_such.first", "write exercises/none_such/first/run.py"),
    ],
)
def test_a_scenario_that_is_missing_is_said(name, says):
    assert says in played(name, lambda x: 2).broken[0]


def test_a_forged_place_is_cut_and_printable():
    session = session_here(
        Exercise((Criterion("right", 1, "it is"),), lambda sampler: iter([Case(("right",))]), lambda *rest: ())
    )
    session.next_case()
    session.take(
        wire.encode(
            {"raised": {"type": "E", "message": "x" * 5000, "line": ""}, "scenario_fault": "\x1b[2J\n" + "y" * 5000}
        )
    )
    assert session.broken[0].isprintable() and len(session.broken[0]) < 500


def test_what_no_operation_is_written_for_is_no_function_that_is_not_written():
    session = session_here(
        Exercise((Criterion("right", 1, "it is"),), lambda sampler: iter([Case(("right",))]), lambda *rest: ())
    )
    session.next_case()
    raised = {"type": "NotImplementedError", "message": "no storage", "line": "", "kinds": ["NotImplementedError"]}
    session.take(wire.encode({"raised": raised, "scenario_fault": "exercises/a/b/run.py:3"}))
    assert "(NotImplementedError)" in message(session) and "not written yet" not in message(session)
