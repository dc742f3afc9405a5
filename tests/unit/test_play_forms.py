"""The process that plays forms is asked where a form could explain what was lost, and costs nothing but a name when it fails."""

import subprocess
import sys
from contextlib import closing

import pytest

from autograder.core.exercise import find
from autograder.judge import play_forms
from autograder.judge.play_forms import Player, Request, explained_by_play

REQUEST = Request("streams.honest_time", 5, ["no_final_wait"], {"device_time": ["1:ab"]})
TELLS = 'import sys\nfor line in sys.stdin: print(\'{"device_time": "launch_timed"}\', flush=True)'


def player_that(monkeypatch, *sources: str) -> Player:
    """One whose process is the first of these programs, and after it has failed the next."""
    left = list(sources)

    def started(module: str, stdout: int) -> subprocess.Popen:
        run = [sys.executable, "-c", left.pop(0)]
        return subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    monkeypatch.setattr(play_forms, "start", started)
    return Player()


def test_one_process_answers_every_request(monkeypatch):
    with closing(player_that(monkeypatch, TELLS)) as player:
        assert [player.names(REQUEST, 30) for _ in range(3)] == [{"device_time": "launch_timed"}] * 3


@pytest.mark.parametrize(
    "fails",
    [
        "",
        "import time; time.sleep(60)",
        "print('no JSON', flush=True); input(); input()",
        "print('[1]', flush=True); input(); input()",
    ],
    ids=["ends", "hangs", "says what is no JSON", "says something else"],
)
def test_a_player_that_fails_names_nothing_and_the_next_is_asked_again(monkeypatch, fails):
    with closing(player_that(monkeypatch, fails, TELLS)) as player:
        assert player.names(REQUEST, 1) == {}
        assert player.names(REQUEST, 30) == {"device_time": "launch_timed"}


def test_no_process_is_started_where_no_form_could_explain_what_was_lost(monkeypatch):
    monkeypatch.setattr(play_forms, "_player", player_that(monkeypatch))
    exercise = find("streams.honest_time").outline
    assert explained_by_play(exercise, 5, ["errors", "pace"], {"errors": ["1:ab"], "pace": ["1:ab"]}, 30) == {}
    assert explained_by_play(exercise, 5, [], {}, 30) == {}


def test_a_key_is_told_as_its_misconception(monkeypatch):
    with closing(player_that(monkeypatch, TELLS)) as player:
        monkeypatch.setattr(play_forms, "_player", player)
        exercise = find("streams.honest_time").outline
        everything = [criterion.name for criterion in exercise.criteria]
        own = {name: ["1:ab"] for name in ("device_time", "earlier", "cold", "median", "waits", "stream")}
        told = explained_by_play(exercise, 5, everything, own, 30)
        assert told["device_time"].key == "launch_timed" and told["device_time"].says.startswith("You ")
