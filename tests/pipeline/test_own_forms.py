"""The process that plays forms: it names what answers alike with the same cases, and no form harms the next."""

from dataclasses import replace

import pytest

from autograder.authoring.authored import authored_in
from autograder.authoring.recognised import misnamed, names_by_play
from autograder.core.layout import ROOT
from autograder.judge.play_forms import Request
from autograder.misconceptions.corpus import Attempt
from autograder.nbgrader.execute import ExecuteGraded
from autograder.notebooks.forked import in_a_fork
from autograder.notebooks.run import RunGraded
from autograder.selfcheck import own_forms

SEED = 11


@pytest.fixture(scope="module")
def honest_time():
    (authored,) = [one for one in authored_in(ROOT / "exercises" / "streams") if one.function == "honest_time"]
    authored.begin()
    return authored


def source_of(authored, name: str) -> str:
    return next(one.source for one in authored.attempts if one.name == name)


def facts_of(authored, source: str) -> dict[str, list[str]]:
    def observed():
        yield dict(authored.observed(source, SEED).facts)

    (facts,) = in_a_fork(observed)
    return facts


def names(authored, source: str, *forms: str) -> set[str]:
    """Of the misconceptions that explain what a source loses, asked these forms."""
    return {*answers(Request(authored.name, SEED, list(forms), facts_of(authored, source))).values()}


def answers(*requests: Request) -> dict[str, str]:
    """The last of the answers that one process gives."""
    lines = {}
    try:
        return [own_forms.answer(request, lines) for request in requests][-1]
    finally:
        for line in lines.values():
            line.close()


def test_who_answers_as_a_form_does_is_named_and_no_other(honest_time):
    source = source_of(honest_time, "milliseconds")
    assert names(honest_time, source, "milliseconds", "first_calls_count") == {"milliseconds"}
    assert names(honest_time, source, "first_calls_count", "no_first_wait") == set()


def test_how_a_form_is_written_does_not_matter(honest_time):
    source = (
        source_of(honest_time, "milliseconds").replace("def honest_time(", "import math\n\ndef honest_time(")
        + "\n\nunused = math.pi\n"
    )
    assert names(honest_time, source, "milliseconds") == {"milliseconds"}


@pytest.mark.parametrize(
    "body",
    ["while True: pass", "import os; os._exit(3)", "raise SystemExit"],
    ids=["loops", "ends its process", "exits"],
)
def test_a_form_that_cannot_be_played_takes_no_name_from_the_others(honest_time, monkeypatch, body):
    real = own_forms.forms
    spoilt = Attempt(
        "honest_time",
        "spoilt",
        f"def honest_time(*arguments, **named):\n    {body}\n",
        "wrong",
        ("errors",),
        (),
        "cold_calls_measured",
    )
    monkeypatch.setattr(own_forms, "forms", lambda folder, function: [spoilt, *real(folder, function)])
    monkeypatch.setattr(own_forms, "CPU_SECONDS", 1)
    assert names(honest_time, source_of(honest_time, "milliseconds"), "spoilt", "milliseconds") == {"milliseconds"}


def attempt(body: str, says: str) -> Attempt:
    """One that is wrong in all cases."""
    every = ("device_time", "earlier", "cold", "median", "waits", "stream", "errors")
    return Attempt(
        "honest_time", "made", f"def honest_time(fn, warmup, iters):\n    {body}\n", "wrong", every, (), says
    )


def test_who_is_stopped_as_a_form_was_is_named(honest_time, monkeypatch):
    form = attempt("return [][warmup]", "cold_calls_measured")
    monkeypatch.setattr(own_forms, "forms", lambda folder, function: [form])
    mine = form.source.replace("return [][warmup]", "times = []\n    return times[warmup]")
    assert names(honest_time, mine, "made") == {"cold_calls_measured"}
    assert names(honest_time, mine.replace("times[warmup]", "times[str(warmup)]"), "made") == set()


def test_nothing_is_told_where_not_all_forms_can_be_asked_in_time(honest_time, monkeypatch):
    source = source_of(honest_time, "milliseconds")
    monkeypatch.setattr(own_forms, "_used", lambda: 100.0)
    assert names(honest_time, source, "milliseconds") == set()


def test_what_ends_the_exercises_process_names_nothing_and_the_next_is_answered(honest_time, monkeypatch):
    facts = facts_of(honest_time, source_of(honest_time, "milliseconds"))
    nonsense = Request(honest_time.name, SEED, ["milliseconds"], {"device_time": ["no number"]})
    asked = Request(honest_time.name, SEED, ["milliseconds"], facts)
    assert answers(nonsense) == {}
    assert {*answers(nonsense, asked, asked).values()} == {"milliseconds"}


def test_for_a_class_no_form_is_played_unless_its_instructor_says_so():
    assert (ExecuteGraded().play_seconds, RunGraded().play_seconds) == (0, 60)


def test_an_author_sees_which_forms_are_known_again_and_what_is_told_falsely(honest_time):
    chosen = {"milliseconds": "milliseconds", "first_calls_count": "cold_calls_measured", "no_first_wait": ""}
    attempts = tuple(replace(one, says=chosen[one.name]) for one in honest_time.attempts if one.name in chosen)
    twin = replace(next(one for one in attempts if one.name == "milliseconds"), name="twin", says="")
    found = names_by_play(replace(honest_time, attempts=(*attempts, twin)), seeds=(SEED,))
    assert found == {
        "milliseconds": [["milliseconds"]],
        "first_calls_count": [["cold_calls_measured"]],
        "no_first_wait": [[]],
        "twin": [["milliseconds"]],
    }
    assert "twin is told milliseconds" in misnamed(twin, found["twin"])


def test_what_two_plays_of_one_source_do_not_share_makes_no_name(honest_time):
    drawn = attempt("import torch\n    return torch.rand(()).item()", "milliseconds")
    assert names_by_play(replace(honest_time, attempts=(drawn,)), seeds=(SEED,)) == {"made": [[]]}
