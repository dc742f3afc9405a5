"""A learner on Windows, as far as another system can pretend to be it: no fork, no limits, no locks of Unix."""

import subprocess
import sys

import nbformat
import pytest

LACKS = """\
import os, sys
# What chooses by the platform while it is imported is imported before.
import asyncio, ctypes, multiprocessing.connection, multiprocessing.queues, numpy, subprocess, tempfile, torch
import torch.multiprocessing, torch.utils.data, matplotlib.pyplot, IPython, webbrowser

LACKED = ("fcntl", "grp", "pwd", "resource", "termios")

class Lacking:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, *where):
        return None if name in LACKED else self.finder.find_spec(name, *where)

for name in LACKED:
    sys.modules.pop(name, None)
sys.meta_path[:] = map(Lacking, sys.meta_path)
del os.fork
sys.platform, sys.argv = "win32", ["gpulab-mark", *sys.argv[1:]]
"""
MARKS = "from autograder.selfcheck.command import main; sys.exit(main(sys.argv[1:]))"
COMMAND = "from autograder.cli.main import main; sys.exit(main(['mark', *sys.argv[1:]]))"
OBSERVES = """\
import gpulab
with gpulab.observe() as seen:
    torch.ones(2, 3).t().contiguous()
print(seen.table())
gpulab.cuda.use("virtual:H100")
with gpulab.observe() as seen:
    torch.ones(3, device="cuda") * 2
print(seen.table())
"""


def without_unix(code: str, folder, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", LACKS + code, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("code", [MARKS, COMMAND], ids=["gpulab-mark", "python -m autograder mark"])
def test_marking_says_what_it_needs_and_how_to_get_it(course, tmp_path, code):
    nbformat.write(course.answered(), tmp_path / "views.ipynb")
    done = without_unix(code, tmp_path, "views.ipynb", "--no-browser")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("Nothing was marked. Marking needs Linux, macOS or WSL")
    assert "wsl --install" in done.stderr and not (tmp_path / "views-marked.html").exists()


def test_gpulab_observes_all_the_same(tmp_path):
    done = without_unix(OBSERVES, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 copy of 24 B" in done.stdout and "mul" in done.stdout
