"""Grading that hangs ends its process where a command armed that, and says where it was."""

import subprocess
import sys

import pytest

HANGS = """
import _thread
from autograder.notebooks import watchdog
{armed}
lock = _thread.allocate_lock()
lock.acquire()

def waits_for_ever():
    lock.acquire({waits})

with watchdog.at_most(0.2):
    waits_for_ever()
"""


def run(armed: str, waits: str, then: str = "") -> subprocess.CompletedProcess:
    code = HANGS.format(armed=armed, waits=waits) + then
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("first", ["", "import io, sys; sys.stderr = io.StringIO()"], ids=["", "stderr is captured"])
def test_what_hangs_in_c_ends_and_says_where(first):
    done = run(f"watchdog.arm()\n{first}", "")
    assert done.returncode == 1 and "in waits_for_ever" in done.stderr


@pytest.mark.parametrize(
    ("armed", "waits", "then"),
    [("", "timeout=0.5", ""), ("watchdog.arm()", "False", "import time; time.sleep(0.5)")],
    ids=["not armed", "in time"],
)
def test_nothing_else_is_ended(armed, waits, then):
    done = run(armed, waits, then)
    assert done.returncode == 0 and done.stderr == ""
