"""What the system call filter refuses, in a process that has it and in one that has not."""

import subprocess
import sys

import pytest

TRY = """
import ctypes, os, sys
from autograder.sandbox import namespaces, syscalls
libc = ctypes.CDLL(None, use_errno=True)
if sys.argv[1] == "filtered":
    namespaces._check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    syscalls.refuse()
def refused(call):
    try: return call() == -1
    except OSError: return True
calls = {
    "memfd_create": lambda: os.memfd_create("x"),
    "shmget": lambda: libc.shmctl(libc.shmget(0, 4096, 0o1600), 0, None),
    "process_vm_readv": lambda: libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0),
    "unshare": lambda: libc.unshare(0x400),
    "fork": lambda: os.waitpid(os.fork() or os._exit(0), 0)[0],
    "thread": lambda: __import__("threading").Thread(target=int).start() or 0,
    "run": lambda: __import__("subprocess").run(["true"]).returncode,
    "shared tensor": lambda: __import__("torch").zeros(3).share_memory_() is None,
}
print(*[name for name, call in calls.items() if refused(call)])
"""


def refused(how: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", TRY, how], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_the_filter_refuses_what_no_exercise_needs_and_nothing_else():
    assert refused("filtered") == {"memfd_create", "shmget", "process_vm_readv", "unshare"}


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_without_the_filter_none_of_it_is_refused():
    assert refused("plain") == set()
