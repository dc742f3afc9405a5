"""Asks which misconceptions explain what a function lost that a ``run.py`` calls: their forms are played with the very same cases.

A judge never touches what runs beside a learner. So a process of its own plays them, one for all submissions of this one.
"""

import atexit
import select
import subprocess
import threading
from collections.abc import Callable

import msgspec

from autograder.core.exercise import Outline
from autograder.judge.own_players import end, start
from autograder.misconceptions.forms import forms_to_ask
from autograder.misconceptions.sentences import Misconception, misconceptions_of

SECONDS = 30
"""Of the clock, for one function, where somebody waits. Who waits longer is told what everyone is who lost the same."""
_PLAYER = "autograder.selfcheck.own_forms"
Names = Callable[["Request", float], dict[str, str]]
"""By criterion the key of a misconception."""


class Request(msgspec.Struct):
    """``forms``: names of attempts. ``facts``: of the function to explain, see :class:`autograder.judge.observed.Observed`."""

    exercise: str
    seed: int
    forms: list[str]
    facts: dict[str, list[str]]


def explained_by_play(
    exercise: Outline,
    seed: int,
    lost: list[str],
    facts: dict[str, list[str]],
    seconds: float,
    names: Names | None = None,
) -> dict[str, Misconception]:
    """As :func:`autograder.judge.explain.explained`; nothing where no form could explain it, or the player fails: it is no grade.

    ``names``: who answers a request in so many seconds (default: the player of this process).
    """
    asked = [form.name for form in forms_to_ask(exercise, lost, facts.keys())]
    if not asked:
        return {}
    keys = (names or _player.names)(Request(exercise.name, seed, asked, facts), seconds)
    said = misconceptions_of(exercise.name) if keys else {}
    return {criterion: said[key] for criterion, key in keys.items()}


class Player:
    """The process, started when first asked for and again after it has failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None

    def names(self, request: Request, seconds: float) -> dict[str, str]:
        """The key of a misconception for each criterion that one explains; empty where none does, or no answer comes in time."""
        with self._lock:
            try:
                return msgspec.json.decode(self._answer(msgspec.json.encode(request), seconds), type=dict[str, str])
            except (OSError, msgspec.DecodeError):
                self.close()
                return {}

    def _answer(self, request: bytes, seconds: float) -> bytes:
        """The player's line. Raises OSError where none comes in time."""
        if self._process is None:
            self._process = start(_PLAYER, stdout=subprocess.PIPE)
        self._process.stdin.write(request + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise TimeoutError
        return self._process.stdout.readline()

    def close(self) -> None:
        """With all that it has forked."""
        process, self._process = self._process, None
        if process is not None:
            end(process)


_player = Player()
atexit.register(_player.close)
