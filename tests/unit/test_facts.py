"""Facts of answers: equal where two functions answer alike, and only there."""

from fractions import Fraction

import pytest

from autograder.judge.facts import facts_of_questions, frozen
from autograder.misconceptions.match import RIGHT
from autograder.protocol.plain import Other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (3, 3.0),
        (1, True),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1.0}),
        ("3", 3),
        (None, "None"),
        (0.1, 0.1000001),
        (Fraction(1, 2), 0.5),
        (Other("Tensor"), "Tensor"),
        ([], {}),
        ({1, 2}, [1, 2]),
    ],
)
def test_what_differs_is_another_fact(one, other):
    assert frozen(one) != frozen(other) and hash(frozen(one)) is not None


@pytest.mark.parametrize(
    ("one", "other"), [({"a": 1, "b": [2]}, {"b": [2], "a": 1}), (0.1 + 0.2, 0.3), ({2, 1}, {1, 2}), ((1, 2), [1, 2])]
)
def test_what_is_written_otherwise_is_the_same_fact(one, other):
    assert frozen(one) == frozen(other)


def given(value=None, error=None, kept=True) -> dict:
    return ({"error": error} if error else {"returned": value}) | {"kept": kept}


def seen(answer: dict, raises: str = "") -> object:
    (fact,) = facts_of_questions([0], [answer], raises, lambda question, answer: answer["returned"] in (7, 8))
    return fact.seen


def test_every_accepted_answer_is_one_fact():
    assert seen(given(7)) == seen(given(8)) == RIGHT != seen(given(9))


def test_of_a_refusal_it_counts_whether_it_was_one():
    refused, other = ({"type": kind, "kinds": [kind, "Exception"]} for kind in ("ValueError", "TypeError"))
    assert seen(given(error=refused), "ValueError") == RIGHT
    assert seen(given(3), "ValueError") == seen(given(4), "ValueError") != RIGHT
    assert seen(given(error=other), "ValueError") not in (RIGHT, seen(given(3), "ValueError"))


def test_an_exception_where_a_value_was_asked_for_is_known_by_its_class():
    one, other = ({"type": kind, "kinds": [kind]} for kind in ("KeyError", "IndexError"))
    assert seen(given(error=one)) != seen(given(error=other))


def test_a_right_answer_that_changed_an_argument_is_not_right():
    assert seen(given(7, kept=False)) not in (RIGHT, seen(given(9, kept=False)))


def test_whether_an_answer_is_right_is_found_out_once_and_when_asked():
    asked = []
    (fact,) = facts_of_questions([0], [given(7)], "", lambda question, answer: asked.append(question) or True)
    assert not asked
    assert [fact.seen, fact.seen] == [RIGHT, RIGHT] and len(asked) == 1


def test_another_number_of_answers_than_of_questions_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        list(facts_of_questions([0, 1], [given(7)], "", lambda question, answer: True))
