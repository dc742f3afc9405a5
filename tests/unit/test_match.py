"""When a misconception is named: where forms explain all that was lost, and never as a guess."""

from autograder.misconceptions.match import RIGHT, Played, named


def function(**lost: str) -> Played:
    """One that answers each question of four criteria rightly, but for those: ``bytes="too many"``."""
    facts = {name: (RIGHT, lost.get(name, RIGHT)) for name in ("bytes", "order", "ties", "errors")}
    return Played(facts, frozenset(lost))


LINES = ("counts_lines", function(bytes="too many", ties="too many"))
UNSORTED = ("trusts_the_order", function(order="too few"))
LENIENT = ("lets_all_through", function(errors="answered"))


def test_who_answers_throughout_as_a_form_does_shows_its_misconception():
    mine = function(bytes="too many", ties="too many")
    assert named(mine, [LINES, UNSORTED]) == {"bytes": "counts_lines", "ties": "counts_lines"}


def test_two_misconceptions_in_one_function_are_both_named():
    mine = function(order="too few", errors="answered")
    assert named(mine, [LINES, UNSORTED, LENIENT]) == {"order": "trusts_the_order", "errors": "lets_all_through"}


def test_nothing_is_said_where_a_criterion_is_lost_that_no_form_explains():
    assert named(function(order="too few", errors="answered"), [LINES, UNSORTED]) == {}


def test_another_wrong_answer_is_another_idea():
    assert named(function(order="too many"), [UNSORTED]) == {}


def test_a_form_that_loses_more_explains_nothing():
    assert named(function(bytes="too many"), [LINES]) == {}


def test_two_names_for_one_criterion_are_none():
    twin = ("sorts_backwards", function(order="too few", errors="answered"))
    mine = function(order="too few", errors="answered")
    assert named(mine, [UNSORTED, LENIENT, ("sorts_backwards", function(order="too few"))]) == {}
    assert named(mine, [twin, ("lets_all_through", function(order="too few", errors="answered"))]) == {}


def test_two_forms_of_one_misconception_are_one_name():
    assert named(function(order="too few"), [UNSORTED, UNSORTED]) == {"order": "trusts_the_order"}


def test_without_forms_nothing_is_said():
    assert named(function(order="too few"), []) == {}


def test_a_form_that_loses_nothing_on_this_draw_explains_nothing():
    assert named(function(order="too few"), [("sleeps", function())]) == {}
