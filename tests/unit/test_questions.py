"""Exercises that are questions: a learner reads which argument was to be refused, and why."""

from fractions import Fraction
from math import isfinite

import pytest

from autograder.core.exercise import Case, Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import answers, ask, judge_questions, refuse
from autograder.protocol.plain import plain

REFUSED = [("gb", "the unit `gb` is none of the two"), ("", "the unit is empty")]
RAISED = {
    "error": {"type": "ValueError", "kinds": ["ValueError", "Exception"], "message": "", "line": ""},
    "kept": True,
}
RETURNED = {"returned": {}, "kept": True}

exercise = answers(
    (Criterion("errors", 1, "what is invalid is refused"),),
    lambda sampler: iter([refuse("errors", REFUSED)]),
    lambda question: (question,),
    lambda criterion, question, value: None,
)


def _told(*answered: dict) -> list[str]:
    (case,) = exercise.cases(Sampler(0))
    return [failure.message for failure in exercise.judge(case, {"answers": list(answered)})]


def test_what_is_refused_loses_nothing():
    assert _told(RAISED, RAISED) == []


@pytest.mark.parametrize("accepted", (0, 1))
def test_what_should_be_refused_and_is_not_is_named_with_its_reason(accepted):
    answered = [RAISED, RAISED]
    answered[accepted] = RETURNED
    assert _told(*answered) == [
        f"The function returned a dict; expected ValueError, because {REFUSED[accepted][1]}. "
        f"It does raise ValueError where {REFUSED[1 - accepted][1]}."
    ]


def test_the_reasons_stay_with_the_referee():
    (case,) = exercise.cases(Sampler(0))
    assert not any(reason in str(case.inputs) for _, reason in REFUSED)


RAISED_AT = {"error": {"type": "IndexError", "kinds": ["IndexError"], "message": "no item", "line": "x[9]"}}
RIGHT, WRONG = {"returned": 1, "kept": True}, {"returned": 2, "kept": True}


def _lost(
    given: list[dict], questions: list, wrong=lambda criterion, question, value: None if value == 1 else "No."
) -> str:
    asked = answers(
        (Criterion("values", 1, "values are right"),),
        lambda sampler: iter([ask("values", questions)]),
        lambda question: question,
        wrong,
    )
    (case,) = asked.cases(Sampler(0))
    (failure,) = asked.judge(case, {"answers": given})
    return failure.message


def test_an_exception_of_the_functions_is_told_with_what_it_was_called_with():
    questions = [([*range(9)], {"a": 1}), ([], {})]
    said = "The function raised IndexError at `x[9]`: no item (called with"
    right = "Right in 1 of 2 such calls."
    assert _lost([RAISED_AT, RIGHT], questions) == f"{said} `([0, 1, 2, 3, 4, 5, 6, 7, ...], {{'a': 1}})`). {right}"
    assert _lost([RIGHT, RAISED_AT], questions) == f"{said} `([], {{}})`). {right}"


def test_a_lost_point_says_how_many_of_its_calls_were_right():
    questions = [(number,) for number in range(4)]
    assert _lost([RIGHT, WRONG, RIGHT, WRONG], questions) == "No. Right in 2 of 4 such calls."


def test_where_none_of_its_calls_was_right_no_number_is_said():
    assert _lost([WRONG] * 4, [(number,) for number in range(4)]) == "No."


def test_a_judge_beside_a_run_says_where_they_were_right_too():
    judge = judge_questions(lambda criterion, question, value: value, lambda question: {"the number": question})
    case, given = Case(("values",), {"questions": [*"aab"]}), [{"returned": said} for said in ("No.", "No.", "")]
    (failure,) = judge(case, {"answers": given})
    assert failure.message == "No. Right in 1 of 3 such calls: wrong wherever the number is a, right elsewhere."


def test_of_a_single_call_and_of_what_a_judge_cannot_take_no_number_is_said():
    assert _lost([WRONG], [(1,)]) == "No."
    fails = lambda criterion, question, value: "No." if value == 2 else 1 // 0
    assert _lost([WRONG, RIGHT], [(1,), (2,)], fails) == "No."


@pytest.mark.parametrize("huge", [10**400, -(10**400), Fraction(10**400, 3)], ids=["int", "negative", "fraction"])
def test_a_number_that_no_float_holds_is_named_where_a_judge_compares_numbers(huge):
    def wrong(criterion, question, value):
        if type(value) not in (int, float, Fraction):
            return f"The function returned {type_name(value)}; expected a number."
        return None if isfinite(value) and abs(value - 0.5) < 1e-9 else "No."

    said = _lost([{"returned": plain(huge), "kept": True}], [(1,)], wrong)
    named = "an int" if type(huge) is int else "a Fraction"
    assert said == f"The function returned {named} beyond the range of floats; expected a number."
