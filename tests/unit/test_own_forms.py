"""In which order forms are played, and which of them not at all: time for them is short."""

import pytest

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.play_forms import Request
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.match import Played
from autograder.protocol.wire import decode, encode
from autograder.selfcheck import own_forms
from autograder.selfcheck.own_forms import Player

TOP, BOTTOM = (Criterion(name, 1, "it is right") for name in ("top", "bottom"))
FACTS = {"top": ["1:a"], "bottom": ["4:b"]}


def form(name: str, *loses: str, says: str = "") -> Attempt:
    return Attempt("f", name, "def f(): ...\n", "wrong", loses, (), says or name)


def exercise(*cases: Case) -> Exercise:
    judge = lambda case, evidence: [Failure(case.criteria[0], "It is wrong.")]
    return Exercise((TOP, BOTTOM), cases=lambda sampler: iter(cases), judge=judge, name="chapter.f")


def case(criterion: str, size: int = 1, follows: bool = False) -> Case:
    return Case((criterion,), {"values": [0] * size, "criterion": criterion}, follows=follows)


def names_asked(monkeypatch, forms: list[Attempt], found: dict[str, dict]) -> list[str]:
    """The forms that are played where those in ``found`` gave that."""
    asked = []

    def agreeing(player, some, lost, earned, mine):
        asked.extend(one.name for one in some)
        return [
            (one.says, Played({key: tuple(its) for key, its in found[one.name].items()}, frozenset(found[one.name])))
            for one in some
            if one.name in found
        ]

    monkeypatch.setattr(Player, "_agreeing", agreeing)
    Player(exercise(case("top")), {}, forms).names(Request("chapter.f", 1, [one.name for one in forms], FACTS))
    return asked


FORMS = [form("a_part", "top"), form("all_of_it", "top", "bottom"), form("also_all", "top", "bottom")]


def test_what_loses_a_part_is_not_played_where_something_does_as_the_function_throughout(monkeypatch):
    assert names_asked(monkeypatch, FORMS, {"all_of_it": FACTS}) == ["all_of_it", "also_all"]


def test_what_loses_a_part_is_played_where_nothing_does_so_throughout(monkeypatch):
    assert names_asked(monkeypatch, FORMS, {}) == ["all_of_it", "also_all", "a_part"]
    assert "a_part" in names_asked(monkeypatch, FORMS, {"all_of_it": {"top": FACTS["top"]}})


def test_a_lost_case_brings_those_that_it_follows_and_the_small_come_first():
    cases = [case("top", 900), case("top", 500), case("bottom"), case("bottom", follows=True), case("bottom", 2)]
    lost, earned = Player(exercise(*cases), {}, [])._drawn(Request("chapter.f", 1, [], FACTS))
    numbers = lambda runs: [[number for number, _ in run] for run in runs]
    assert numbers(lost) == [[3, 4], [1]]
    assert numbers(earned) == [[5], [2]]


def test_cases_that_a_form_is_to_lose_are_played_first(monkeypatch):
    played = []

    def run_case(name, namespace, inputs):
        played.append(decode(inputs)["criterion"])
        return encode({})

    monkeypatch.setattr(own_forms, "run_case", run_case)
    runs = [[(1, case("top"))], [(2, case("bottom"))]]
    player = Player(exercise(), {}, [])
    player.facts_of(form("late", "bottom"), runs, {"top": ["1:a"], "bottom": ["2:b"]})
    assert played == ["bottom"]


@pytest.fixture
def alone(monkeypatch):
    """Names of the forms that agree in the whole draw, of those that agreed in the lost cases; ``differ`` do not."""

    def names(*screened: Attempt, differ: str = "") -> list[str]:
        monkeypatch.setattr(
            Player, "_played", lambda player, some, runs, mine: [(one, {}) for one in some if one.name != differ]
        )
        return [one.name for one, _ in Player(exercise(), {}, [])._alone([*screened], [], {})]

    return names


SAME = form("one", "top", says="key"), form("twin", "top", says="key")


def test_once_a_form_agrees_no_other_is_played_that_says_the_same_of_the_same_criteria(alone):
    others = form("of_another", "top", says="other"), form("elsewhere", "bottom", says="key")
    assert alone(*SAME, *others) == ["one", "of_another", "elsewhere"]


def test_a_form_that_differs_in_a_case_that_earned_keeps_none_out_that_says_the_same(alone):
    assert alone(*SAME, differ="one") == ["twin"]
