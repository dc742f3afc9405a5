"""The referee: one case open at a time, and nothing earned that evidence did not show."""

from dataclasses import replace

import pytest
import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.referee import InProcessJudge, judge_here, score_here, session_here
from autograder.protocol import wire
from autograder.runner.scenario_runner import run_case


def _cases(sampler):
    yield Case(("values",), {"x": sampler.integer(2, 1000)})
    yield Case(("again", "values"), {"x": sampler.integer(2, 1000)})


def _judge(case, evidence):
    if evidence["y"] != 2 * case.inputs["x"]:
        yield Failure(case.criteria[0], "not twice as much")


DOUBLE = Exercise(
    (Criterion("values", 2, "values are doubled"), Criterion("again", 1, "and again")),
    _cases,
    _judge,
    name="any.double",
)


@pytest.fixture
def session():
    return session_here(DOUBLE, Sampler(1))


def played(session, answer) -> dict[str, str]:
    while (inputs := session.next_case()) is not None:
        session.take(answer(wire.decode(inputs)))
    return {line.criterion: line.message or line.status for line in session.verdict().lines}


def right(inputs) -> bytes:
    return wire.encode({"y": 2 * inputs["x"]})


def test_right_evidence_earns_everything(session):
    assert played(session, right) == {"values": "earned", "again": "earned"}


def test_wrong_evidence_loses_what_its_case_is_about(session):
    seen = []

    def wrong_the_second_time(inputs):
        seen.append(inputs)
        return right(inputs) if len(seen) == 1 else wire.encode({"y": 0})

    assert played(session, wrong_the_second_time) == {"values": "earned", "again": "not twice as much"}


def test_evidence_without_a_case_is_an_error(session):
    with pytest.raises(RuntimeError, match="no case"):
        session.take(right({"x": 1}))


def test_evidence_for_a_case_is_taken_once(session):
    evidence = right(wire.decode(session.next_case()))
    session.take(evidence)
    with pytest.raises(RuntimeError, match="no case"):
        session.take(evidence)


def test_the_next_case_waits_for_the_evidence_of_this_one(session):
    session.next_case()
    with pytest.raises(RuntimeError, match="no evidence"):
        session.next_case()


def test_a_verdict_before_the_end_earns_nothing(session):
    session.take(right(wire.decode(session.next_case())))
    made = session.verdict()
    assert made.score == 0
    assert all("did not run to their end" in line.message for line in made.lines)


def test_abandoning_loses_everything_and_keeps_what_was_found_before(session):
    session.next_case()
    session.take(wire.encode({"y": 0}))
    session.abandon("The kernel died.")
    made = session.verdict()
    assert [line.message for line in made.lines] == ["not twice as much", "The kernel died."] and made.score == 0


@pytest.mark.parametrize(
    "evidence",
    [
        b"",
        b"\xff" * 20,
        wire.encode([]),
        wire.encode(None),
        wire.encode({}),
        wire.encode({"y": "text"}),
        wire.encode({"y": None}),
        wire.encode({"y": {1, 2}}),
        wire.encode({"y": torch.ones(3)}),
        wire.encode({"raised": "text"}),
        wire.encode({"raised": {}}),
        wire.encode({"raised": {"type": [], "message": {}, "line": None}}),
    ],
)
def test_evidence_of_the_wrong_form_earns_nothing_and_stops_nothing(session, evidence):
    outcome = played(session, lambda inputs: evidence)
    assert "earned" not in outcome.values()


@pytest.mark.parametrize("error", [ValueError, RuntimeError, IndexError, ZeroDivisionError, AssertionError])
def test_a_judge_that_stumbles_over_evidence_gives_no_points(error):
    def stumbling(case, evidence):
        raise error("forged")

    session = session_here(replace(DOUBLE, judge=stumbling), Sampler(1))
    outcome = played(session, right)
    assert all(
        message.startswith(f"What came back could not be judged ({error.__name__})") for message in outcome.values()
    )


def test_not_implemented_is_said_plainly(session):
    evidence = wire.encode({"raised": {"type": "NotImplementedError", "message": "", "line": "raise"}})
    assert "not written yet" in played(session, lambda inputs: evidence)["values"]


def test_what_was_raised_is_shown_with_its_line(session):
    evidence = wire.encode({"raised": {"type": "KeyError", "message": "'a'", "line": "d['a']"}})
    assert played(session, lambda inputs: evidence)["values"] == "The function raised KeyError at `d['a']`: 'a'"


def test_a_long_message_is_cut(session):
    evidence = wire.encode({"raised": {"type": "E", "message": "x" * 10_000, "line": ""}})
    assert len(played(session, lambda inputs: evidence)["values"]) < 1000


def test_judging_here_plays_all_cases_of_a_named_exercise():
    made = judge_here("views.patchify", lambda inputs: wire.encode({"raised": {}}), Sampler(1))
    assert made.score == 0 and made.max_score == 8


def test_a_score_is_had_without_the_cases_from_which_nothing_can_be_earned_any_more():
    played = []
    assert (
        score_here("views.patchify", lambda inputs: played.append(inputs) or wire.encode({"raised": {}}), Sampler(1))
        == 0
    )
    assert len(played) == 1


def test_evidence_that_could_not_be_sent_is_no_expected_exception():
    made = judge_here(
        "views.patchify", lambda inputs: run_case("views.patchify", {"patchify": endless}, inputs), Sampler(1)
    )
    assert made.score == 0


def endless(images, patch):
    return torch.zeros(()).expand(2**20, 2**20)


@pytest.mark.parametrize(
    ("kind", "has_facts"), [("KeyError", True), ("NotImplementedError", False), ("NotDefined", False)]
)
def test_what_stops_a_function_that_was_written_is_a_fact_by_which_forms_are_known_again(kind, has_facts):
    judge = InProcessJudge(DOUBLE, Sampler(1))
    while judge.next_case():
        judge.judge(wire.encode({"raised": {"type": kind, "kinds": [kind], "message": "", "line": "x"}}), [])
    assert bool(judge.observed.whole and judge.observed.facts) is has_facts
