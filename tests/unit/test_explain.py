"""After the hidden tests the judge asks the forms of misconceptions what it asked the learner's function."""

from types import SimpleNamespace

import pytest

from autograder.core.exercise import find
from autograder.core.sampler import Sampler
from autograder.judge import explain
from autograder.judge.referee import InProcessJudge
from autograder.judge.session import Explanation
from autograder.misconceptions import forms
from autograder.misconceptions.corpus import Attempt
from autograder.protocol import wire
from autograder.protocol.asked import asked
from autograder.protocol.errors import describe

SOLUTION = """
def sectors(addresses, item_bytes):
    if item_bytes not in (1, 2, 4, 8, 16) or len(addresses) > 32:
        raise ValueError("no request")
    if any(address < 0 or address % item_bytes for address in addresses):
        raise ValueError("misaligned")
    return len({address // 32 for address in addresses})
"""
LETS_THE_MISALIGNED_THROUGH = SOLUTION.replace(" or address % item_bytes", "")
COUNTS_LINES = SOLUTION.replace("address // 32", "address // 128")


def judge_of(source: str, **evidence) -> InProcessJudge:
    """One that has judged all that a function answers on a draw. ``evidence``: what came back besides."""
    names: dict = {}
    exec(source, names)
    judge = InProcessJudge(find("hierarchy.sectors"), Sampler(3))
    while judge.next_case() is not None:
        calls = judge._drawn[-1][0].inputs["calls"]
        given = asked(names["sectors"], calls, lambda error: describe(error, lambda file: False))
        judge.judge(wire.encode(given | evidence), [])
    return judge


def told(judge: InProcessJudge, lost: list[str]) -> dict[str, str]:
    return {criterion: one.key for criterion, one in judge.explain(lost).named.items()}


def test_who_lets_misaligned_addresses_through_is_told_so():
    judge = judge_of(LETS_THE_MISALIGNED_THROUGH)
    assert told(judge, ["errors"]) == {"errors": "misaligned_let_through"}
    assert judge.explain(["errors"]).named["errors"].says.startswith("You let a misaligned address through.")


def test_two_misconceptions_that_lose_other_criteria_are_both_told():
    both = LETS_THE_MISALIGNED_THROUGH.replace(
        "for address in addresses})", "for address in {min(addresses), max(addresses)}})"
    )
    assert told(judge_of(both), ["neighbours", "strides", "misaligned", "shared", "errors"]) == {}
    only = COUNTS_LINES.replace(" or address % item_bytes", "")
    names = told(judge_of(only), ["neighbours", "strides", "misaligned", "shared", "errors"])
    assert names["errors"] == "misaligned_let_through" and names["strides"] == "lines_of_128_bytes"


def test_of_a_right_function_no_form_is_asked(monkeypatch):
    monkeypatch.setattr(explain, "as_function", pytest.fail)
    assert judge_of(SOLUTION).explain([]) == Explanation()


@pytest.mark.parametrize(
    "evidence", [{"background": ["thread"]}, {"raised": {"type": "KeyError", "kinds": ["KeyError"]}}]
)
def test_nothing_is_told_where_something_else_cost_points(evidence):
    assert judge_of(LETS_THE_MISALIGNED_THROUGH, **evidence).explain(["errors"]) == Explanation()


def test_nothing_is_told_where_a_case_is_not_over():
    judge = InProcessJudge(find("hierarchy.sectors"), Sampler(3))
    judge.next_case()
    assert judge.explain(["errors"]) == Explanation()


def test_evidence_beyond_a_bound_is_not_kept(monkeypatch):
    monkeypatch.setattr(explain, "MOST_BYTES", 1000)
    assert judge_of(LETS_THE_MISALIGNED_THROUGH).explain(["errors"]) == Explanation()


@pytest.mark.parametrize(
    "source",
    [
        "def sectors(addresses, item_bytes):\n    while True:\n        pass",
        "def sectors(addresses, item_bytes):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        "def sectors(addresses, item_bytes):\n    raise SystemExit",
        "raise RuntimeError",
        "def sectors(:",
    ],
    ids=["loops", "catches everything", "exits", "fails", "is no Python"],
)
def test_a_form_that_cannot_be_asked_takes_no_name_from_the_others(source, monkeypatch):
    spoilt = Attempt("sectors", "spoilt", source, "wrong", ("errors",), (), "item_sizes")
    real = forms.forms
    monkeypatch.setattr(forms, "forms", lambda folder, function: [spoilt, *real(folder, function)])
    monkeypatch.setattr(explain, "SECONDS_A_FORM", 0.1)
    assert told(judge_of(LETS_THE_MISALIGNED_THROUGH), ["errors"]) == {"errors": "misaligned_let_through"}


def test_a_form_that_loses_what_is_earned_is_not_asked(monkeypatch):
    asked_for = []
    monkeypatch.setattr(
        explain, "as_function", lambda form, *rest: asked_for.append(form) or pytest.fail("it is asked")
    )
    judge_of(LETS_THE_MISALIGNED_THROUGH).explain([])
    assert asked_for == []


def test_a_judge_asks_no_function_that_a_run_py_calls():
    """It would have to import what runs beside a learner."""
    assert find("hierarchy.sectors").facts and find("inference.kv_bytes").facts is None


EVERYTHING = {"device_time", "earlier", "cold", "median", "waits", "stream"}


@pytest.mark.parametrize(
    ("lost", "facts"), [(EVERYTHING, {"waits": ["1:ab"]}), (EVERYTHING - {"cold"} | {"errors"}, {})]
)
def test_facts_are_made_where_forms_could_explain_all_that_was_lost_and_nowhere_else(lost, facts):
    judge = InProcessJudge(find("streams.honest_time"), Sampler(3))
    judge.observed = SimpleNamespace(whole=True, lost=lost, facts={"waits": ["1:ab"]})
    every = [criterion.name for criterion in judge.exercise.criteria]
    assert judge.explain(every if facts else [*lost]) == Explanation(facts=facts)
