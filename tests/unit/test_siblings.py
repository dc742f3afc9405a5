"""What is counted of the processes beside a kernel."""

import subprocess
import sys

import pytest

from autograder.sandbox.siblings import cpu_snapshot

SHARES = """
from multiprocessing.resource_tracker import _resource_tracker
from multiprocessing.shared_memory import SharedMemory
for _ in range(60):
    piece = SharedMemory(create=True, size=8)
    piece.close(), piece.unlink()
while b"import main" b";main(" not in open(f"/proc/{_resource_tracker._pid}/cmdline", "rb").read():
    pass  # on a busy machine it has not begun yet
print(flush=True)
input()
"""
ANSWERS = """
import subprocess, sys
helper = subprocess.Popen([sys.executable, "-c", "for line in iter(input, 'end'): print(flush=True)"], stdin=-1, stdout=-1)
for _ in range(60):
    helper.stdin.write(b"\\n"), helper.stdin.flush(), helper.stdout.readline()
print(flush=True)
input()
helper.communicate(b"end\\n")
"""


def wakes_beside(program: str) -> list[int]:
    """Of each process that a program has started, how often it counts as switched away."""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        found = [wakes for _, wakes in cpu_snapshot(running.pid, 0).work.values()]
        running.communicate(b"\n")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_resource_tracker_of_shared_memory_wakes_as_often_as_it_likes():
    assert wakes_beside(SHARES) == [0]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_helper_that_answers_is_counted_each_time():
    (wakes,) = wakes_beside(ANSWERS)
    assert wakes >= 60
