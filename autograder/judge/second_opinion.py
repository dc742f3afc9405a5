"""Whose fault it is that a hidden test broke: it is played again, with the same cases, for the course's own solution."""

import builtins
import re
import subprocess
from collections.abc import Sequence

from autograder.judge.own_players import end, start

SECONDS = 60
"""More than any exercise's solution takes, notebook and imports included."""
_PLAYER = "autograder.selfcheck.own_solution"


def is_the_learners_fault(broken: Sequence[str], exercise: str, seed: int, seconds: float) -> bool:
    """Whether the course's own solution passes what broke for a learner. ``seconds``: how long that may take; no answer is no.

    ``broken``: the referee's sentences. What the machine may have refused, a file or memory, is nobody's fault.
    """
    if seconds <= 0 or any(map(_may_be_the_machines, broken)):
        return False
    return _passes(f"{exercise} {seed}", min(seconds, SECONDS))


def _passes(asked: str, seconds: float) -> bool:
    player = start(_PLAYER)
    try:
        player.communicate(asked.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        end(player)
    return player.returncode == 0


def _may_be_the_machines(sentence: str) -> bool:
    named = re.search(r"\((\w+)[:)]", sentence)
    kind = getattr(builtins, named[1], None) if named else None
    return isinstance(kind, type) and issubclass(kind, OSError | MemoryError)
