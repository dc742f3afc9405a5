"""A learner reads which trait parts the calls in which a function is right from those in which it is wrong."""

import pytest

from autograder.judge.contrast import contrast, how_many_right


def of(wrong: str, right: str) -> list:
    """Calls that differ in one trait: each letter is a value of it."""
    return [({"the unit": value}, False) for value in wrong] + [({"the unit": value}, True) for value in right]


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ("aa", "b", "wrong wherever the unit is a, right elsewhere"),
        ("abc", "defgh", "wrong wherever the unit is a, b or c, right elsewhere"),
        ("bcdef", "aa", "right wherever the unit is a, wrong elsewhere"),
    ],
)
def test_the_trait_that_parts_the_calls_is_said(wrong, right, says):
    assert contrast(of(wrong, right)) == says


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("ab", "ab"), ("aa", "ab"), ("ab", "b"), ("abcd", "efgh"), ("ab", ""), ("aa", "aa")],
    ids=["nothing", "wrong now and then", "right now and then", "too many values", "nothing is right", "all alike"],
)
def test_where_no_trait_parts_all_calls_nothing_is_said(wrong, right):
    assert contrast(of(wrong, right)) == ""


def test_of_several_traits_that_part_them_all_are_said():
    calls = [({"x": "1", "y": "a"}, False), ({"x": "1", "y": "b"}, False), ({"x": "2", "y": "c"}, True)]
    assert contrast(calls) == "wrong wherever x is 1 and y is a or b, right elsewhere"


def test_a_trait_that_some_calls_do_not_have_decides_nothing():
    assert contrast([({"x": "1", "y": "a"}, False), ({"y": "a"}, True)]) == ""


@pytest.mark.parametrize("right", [[False] * 3, [True] * 3, [False], [True], []], ids=str)
def test_where_all_calls_are_alike_their_number_is_not_said(right):
    assert how_many_right(right) == how_many_right(right, [{"x": str(at)} for at in range(len(right))]) == ""


def test_where_some_are_right_their_number_is_said_and_what_parts_them():
    assert how_many_right([True, False, False]) == "Right in 1 of 3 such calls."
    assert how_many_right([True, False], [{"x": "1"}, {"x": "2"}]) == (
        "Right in 1 of 2 such calls: wrong wherever x is 2, right elsewhere."
    )
