"""What judges ask before they compare values."""

from statistics import StatisticsError

import pytest
import torch

from autograder.judge.expect import (
    entries_problem,
    error_problem,
    is_finite_number,
    is_written,
    refusals_problem,
    tensor_problem,
    type_name,
)
from autograder.protocol.wire import Opaque
from autograder.runner.scenario_runner import describe as told

LIKE = torch.zeros(2, 3)


def test_a_tensor_of_the_same_shape_and_dtype_is_no_problem():
    assert tensor_problem(torch.ones(3, 2).t(), LIKE) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "returned None"),
        ([1.0], "returned a list"),
        (Opaque("numpy.ndarray"), "returned a numpy.ndarray"),
        (torch.zeros(2, 3, dtype=torch.float64), "torch.float64; expected torch.float32"),
        (torch.zeros(3), "1 dimensions; expected 2"),
        (torch.zeros(()), "0 dimensions; expected 2"),
        (torch.zeros(2, 1), "wrong along dimension 1"),
        (torch.zeros(1, 1), "wrong along dimension 0, 1"),
    ],
)
def test_what_cannot_be_compared_is_named_and_never_broadcast(value, message):
    assert message in tensor_problem(value, LIKE)


def test_the_expected_exception_is_no_problem():
    assert error_problem({"error": told(ValueError())}, "ValueError") is None


def test_what_an_except_catches_is_the_expected_exception():
    assert error_problem({"raised": told(StatisticsError())}, "ValueError") is None


def test_another_exception_is_named():
    assert "RuntimeError; expected ValueError" in error_problem({"error": told(RuntimeError())}, "ValueError")


def test_a_namesake_of_the_expected_exception_is_not_caught_by_its_except():
    class ValueError(Exception):
        pass

    assert (
        error_problem({"raised": told(ValueError())}, "ValueError")
        == "The function raised a class of its own called ValueError; expected Python's ValueError."
    )


def test_a_call_that_returned_raised_nothing():
    assert error_problem({"result": (1, 2)}, "ValueError") == "The function returned a tuple; expected ValueError."
    assert (
        error_problem({"seen": {}}, "ValueError") == "The function returned without an exception; expected ValueError."
    )


def test_what_is_missing_or_a_starter_was_not_raised_by_the_function_itself():
    assert not is_written(told(NotImplementedError()))
    assert is_written(told(ValueError()))


def test_returning_where_an_exception_is_expected_is_named():
    assert "returned None; expected ValueError" in error_problem({"returned": None}, "ValueError")


REFUSED, RETURNED = {"error": told(ValueError("no"))}, {"returned": 1}


def test_calls_that_are_refused_where_there_is_a_reason_alone_are_no_problem():
    assert refusals_problem([REFUSED, RETURNED], ["it is odd", None], "ValueError", "What is even is") is None


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([RETURNED, RETURNED], "The function returned an int; expected ValueError, because it is odd."),
        ([REFUSED, REFUSED], "What is even is refused. The function raised ValueError"),
        ([REFUSED], "does not hold every call"),
        (None, "does not hold every call"),
    ],
)
def test_a_call_that_is_not_refused_and_one_that_is_without_a_reason_are_named(answers, message):
    assert message in refusals_problem(answers, ["it is odd", None], "ValueError", "What is even is")


def test_type_names():
    assert [type_name(value) for value in (None, 3, Opaque("set"))] == ["None", "an int", "a set"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ab", None),
        ("ba", None),
        ("a", "The dictionary has no entry `b`."),
        ("", "The dictionary has no entries `a` and `b`."),
        ("abc", "The dictionary has an unexpected entry `c`."),
        ("bcd", "The dictionary has no entry `a`, and unexpected entries `c` and `d`."),
        ("abcdefgh", "The dictionary has unexpected entries `c`, `d`, `e` and 3 more."),
    ],
)
def test_missing_and_superfluous_entries_of_a_dictionary_are_named(given, says):
    assert entries_problem(dict.fromkeys(given), ("a", "b")) == says


def test_a_key_is_cut_short_and_need_be_no_string():
    assert entries_problem({"a" * 99: 1}, ()) == f"The dictionary has an unexpected entry `{'a' * 40}`."
    assert entries_problem({1: 1, (2, 3): 1}, ()) == "The dictionary has unexpected entries `1` and `(2, 3)`."


def test_what_is_no_dictionary_is_named():
    assert entries_problem([], ("a",)) == "The function returned a list; expected a dictionary."


def test_a_finite_number_is_an_int_or_a_float_and_no_bool():
    told = (3, 0.5, float("nan"), float("-inf"), True, "3", None)
    assert [is_finite_number(one) for one in told] == [True, True, False, False, False, False, False]
