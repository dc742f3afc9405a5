"""Whose fault it is that a hidden test broke: it is played again, with the same cases, for the course's own solution."""

import builtins
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from autograder.core.layout import ROOT

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
    player = subprocess.Popen(
        [sys.executable, "-P", "-m", _PLAYER],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # the seed stands in no list of processes
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        player.communicate(asked.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(player.pid, signal.SIGKILL)
        player.wait()
    return player.returncode == 0


def _may_be_the_machines(sentence: str) -> bool:
    named = re.search(r"\((\w+)[:)]", sentence)
    kind = getattr(builtins, named[1], None) if named else None
    return isinstance(kind, type) and issubclass(kind, OSError | MemoryError)
