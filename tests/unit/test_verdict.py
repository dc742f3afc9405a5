"""From what the cases settled to points, one line for each criterion."""

import pytest

from autograder.core.exercise import Criterion, Exercise, Failure, NotGradable, find
from autograder.core.verdict import Scorecard, Verdict

BASE = Criterion("base", 2, "the base holds")
TOP = Criterion("top", 3, "the top holds", ("base",))
ROOF = Criterion("roof", 1, "the roof holds", ("top",))


def exercise(*criteria: Criterion) -> Exercise:
    return Exercise(criteria, lambda sampler: iter(()), lambda case, evidence: (), name="any.thing")


def verdict(criteria, judged=(), found=()) -> Verdict:
    tally = Scorecard(exercise(*criteria))
    for name in judged:
        tally.judged(name)
    for finding in found:
        tally.found(finding)
    return tally.verdict()


def statuses(made: Verdict) -> dict[str, str]:
    return {line.criterion: line.status for line in made.lines}


def test_a_criterion_that_was_judged_and_not_lost_is_earned():
    made = verdict((BASE, TOP), judged=("base", "top"))
    assert (made.score, made.max_score) == (5, 5)
    assert [line.message for line in made.lines] == ["", ""]


def test_a_criterion_that_no_case_judged_is_lost():
    made = verdict((BASE, TOP), judged=("base",))
    assert made.score == 2 and "did not run to their end" in made.lines[1].message


def test_nothing_judged_earns_nothing():
    assert verdict((BASE, TOP, ROOF)).score == 0


def test_a_lost_criterion_keeps_its_first_message():
    made = verdict((BASE,), ("base",), [Failure("base", "first"), Failure("base", "second")])
    assert made.lines[0].message == "first" and made.score == 0


def test_what_rests_on_a_lost_criterion_is_lost_and_says_on_what():
    made = verdict((BASE, TOP), ("base", "top"), [Failure("base", "wrong")])
    assert made.score == 0 and made.lines[1].message == "Not judged until this holds: the base holds."


def test_what_rests_on_a_criterion_never_judged_is_lost():
    assert verdict((BASE, TOP), judged=("top",)).score == 0


def test_what_others_rest_on_does_not_fall_with_them():
    assert statuses(verdict((BASE, TOP), ("base", "top"), [Failure("top", "wrong")])) == {
        "base": "earned",
        "top": "lost",
    }


def test_resting_goes_all_the_way_down():
    made = verdict((BASE, TOP, ROOF), ("base", "top", "roof"), [Failure("base", "wrong")])
    assert statuses(made) == {"base": "lost", "top": "lost", "roof": "lost"}


def test_two_criteria_may_rest_on_each_other():
    left, right = Criterion("left", 1, "l", ("right",)), Criterion("right", 1, "r", ("left",))
    assert verdict((left, right), ("left", "right")).score == 2
    assert verdict((left, right), ("left", "right"), [Failure("left", "wrong")]).score == 0


def test_not_gradable_here_earns_nothing_and_is_no_loss():
    made = verdict((BASE,), ("base",), [NotGradable("base", "no GPU")])
    assert made.score == 0 and made.lines[0].status == "not gradable here" and made.lines[0].message == "no GPU"


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loss_outweighs_not_gradable_in_either_order(reverse):
    found = [NotGradable("base", "no GPU"), Failure("base", "wrong")]
    made = verdict((BASE,), ("base",), found[::-1] if reverse else found)
    assert made.lines[0].status == "lost" and made.lines[0].message == "wrong"


def test_what_rests_on_something_not_gradable_is_not_earned():
    assert verdict((BASE, TOP), ("base", "top"), [NotGradable("base", "no GPU")]).score == 0


def test_a_verdict_as_plain_data_and_back():
    made = verdict((BASE, TOP), ("base", "top"), [Failure("top", "wrong")])
    assert Verdict.from_dict(made.to_dict()) == made


def test_two_criteria_of_one_name_are_refused():
    with pytest.raises(ValueError, match="share a name"):
        exercise(BASE, BASE)


def test_resting_on_an_unknown_criterion_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        exercise(TOP)


def test_points_of_an_exercise_are_those_of_its_criteria():
    assert exercise(BASE, TOP).points == 5


@pytest.mark.parametrize(
    "name", ["views", "views.nothing", "nowhere.patchify", "views.Sampler", "../views.patchify", "views.patches"]
)
def test_finding_what_is_no_exercise_is_a_lookup_error(name):
    with pytest.raises(LookupError):
        find(name)


def test_finding_an_exercise_by_name():
    assert find("views.patchify").name == "views.patchify"


@pytest.mark.parametrize(
    ("found", "left"),
    [([], True), ([Failure("roof", "x")], True), ([Failure("base", "x")], False), ([NotGradable("base", "x")], False)],
)
def test_there_is_something_left_to_earn_while_a_criterion_and_all_it_rests_on_may_still_hold(found, left):
    tally = Scorecard(exercise(BASE, TOP, ROOF))
    for finding in found:
        tally.found(finding)
    assert tally.nothing_left is not left
