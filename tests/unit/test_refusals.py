"""What must be refused: which kinds of it a function refuses, and which it lets through."""

from autograder.core.exercise import Criterion
from autograder.judge.questions import answers, refuse
from autograder.judge.refusals import kept_and_broken

LANES, SIZE = "33 addresses are more than a warp has lanes", "item_bytes 3 is none of 1, 2 and 4"
NEGATIVE, ODD = "the address -32 is negative", "the address 5 is no multiple of item_bytes 4"


def test_what_else_is_let_through_is_said_before_what_is_refused():
    reasoned = [(ODD, False), (LANES, True), (NEGATIVE, False), (SIZE, True)]
    assert kept_and_broken(reasoned, "ValueError") == (
        f"Nor does it raise ValueError where {NEGATIVE}. It does where {LANES}, and where {SIZE}."
    )


def test_reasons_that_differ_by_numbers_and_quoted_words_are_of_one_kind():
    same = [("the unit `gb` is none", False), ("the unit `mb` is none", True), ("the address 8 is odd", False)]
    assert kept_and_broken(same, "ValueError") == "Nor does it raise ValueError where the address 8 is odd."
    assert kept_and_broken([*same[:2], ("-1.5e3 is negative", True)], "ValueError") == (
        "It does raise ValueError where -1.5e3 is negative."
    )


def test_where_all_is_let_through_in_one_way_nothing_is_added():
    assert kept_and_broken([(ODD, False), (ODD.replace("5", "7"), True)], "ValueError") == ""


def test_a_few_are_named_and_the_others_counted():
    reasoned = [(ODD, False), *((f"{word} is wrong", True) for word in ("one", "two", "three", "four", "five"))]
    assert kept_and_broken(reasoned, "KeyError") == (
        "It does raise KeyError where one is wrong, where two is wrong, where three is wrong, and in 2 more cases."
    )


def test_a_judge_says_it_with_the_first_refusal_that_is_missing():
    exercise = answers(
        (Criterion("errors", 1, "refuses"),),
        lambda sampler: iter([refuse("errors", [(1, ODD), (2, LANES), (3, NEGATIVE)])]),
        lambda question: (question,),
        lambda criterion, question, value: None,
    )
    (case,) = exercise.cases(None)
    refused = {"error": {"type": "ValueError", "kinds": ["ValueError"]}, "kept": True}
    through = {"returned": 0, "class": "int", "kept": True}
    (failure,) = exercise.judge(case, {"answers": [through, refused, through]})
    assert failure.message == (
        f"The function returned an int; expected ValueError, because {ODD}. "
        f"Nor does it raise ValueError where {NEGATIVE}. It does where {LANES}."
    )
