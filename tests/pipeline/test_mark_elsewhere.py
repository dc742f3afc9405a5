"""A learner whose system has no sandbox: macOS, as far as another system can pretend to be one."""

import subprocess
import sys

import nbformat

from autograder.sandbox.limits import UNCOUNTED, Limits
from autograder.sandbox.workspace import workspace

PRETENDS = """\
import os, socket, sys
# What chooses by the platform while it is imported is imported before.
import asyncio, ctypes, IPython, ipykernel, jupyter_client, jupytext, multiprocessing.connection, nbconvert.preprocessors
import psutil, ssl, subprocess, torch, uuid, webbrowser, zmq

for name in ("ST_NOATIME", "ST_NODIRATIME", "ST_RELATIME", "sched_getaffinity"):
    delattr(os, name)

def refusing(made, place):
    def make(*arguments, **options):
        if socket.SOCK_SEQPACKET in (*arguments[place:place + 1], options.get("type")):
            raise OSError(43, "Protocol not supported")
        return made(*arguments, **options)
    return make

socket.socketpair = refusing(socket.socketpair, 1)
socket.socket.__init__ = refusing(socket.socket.__init__, 2)
sys.platform = "darwin"
from autograder.selfcheck.command import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_notebook_is_marked_where_there_is_no_sandbox_and_the_page_says_so(course, tmp_path):
    nbformat.write(course.answered(), tmp_path / "views.ipynb")
    run = [sys.executable, "-c", PRETENDS, "views.ipynb", "--no-browser"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "without a sandbox: that needs Linux" in done.stdout and "32 of 32 points" in done.stdout
    assert "without a sandbox" in (tmp_path / "views-marked.html").read_text("utf-8")


def test_without_a_sandbox_a_users_other_processes_count_for_nothing():
    assert Limits().processes < UNCOUNTED
    with workspace("off", warm=False) as seat:
        assert seat.pool.limits.processes == UNCOUNTED
