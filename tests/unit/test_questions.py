"""Exercises that are questions: a learner reads which argument was to be refused, and why."""

import pytest

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.questions import answers, ask, refuse

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


def test_an_exception_of_the_functions_is_told_with_what_it_was_called_with():
    rows = answers(
        (Criterion("values", 1, "values are right"),),
        lambda sampler: iter([ask("values", [([*range(9)], {"a": 1}), ([], {})])]),
        lambda question: question,
        lambda criterion, question, value: None,
    )
    (case,) = rows.cases(Sampler(0))
    raised = {"error": {"type": "IndexError", "kinds": ["IndexError"], "message": "no item", "line": "x[9]"}}
    right = {"returned": 1, "kept": True}
    told = [
        [one.message for one in rows.judge(case, {"answers": given})] for given in ([raised, right], [right, raised])
    ]
    said = "The function raised IndexError at `x[9]`: no item (called with"
    assert told == [[f"{said} `([0, 1, 2, 3, 4, 5, 6, 7, ...], {{'a': 1}})`)"], [f"{said} `([], {{}})`)"]]
