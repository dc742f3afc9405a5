"""The files of the exercise's own save_state and load_state, where the exercise itself cannot go: a disk that is full, kills at random bytes."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SAVES = """
import io, os, random, sys
import numpy as np
import torch
import torch.distributed as dist
from autograder.authoring.text import read_text_notebook
from autograder.notebooks.cells import solution_of

exec(solution_of(read_text_notebook({notebook!r}), "save_state"))
model = torch.nn.Linear(300, 100)
save_state(sys.argv[1], {{"model": model}})
size = os.path.getsize(sys.argv[1])
try:
    save_state(sys.argv[1], {{"model": torch.nn.Linear(3000, 1000)}})
except OSError as error:
    print("refused", error.errno)
load_state(sys.argv[1], {{"model": model}})
print(os.listdir(os.path.dirname(sys.argv[1])), os.path.getsize(sys.argv[1]) == size)
"""


def saves():
    return SAVES.format(notebook=str(ROOT / "exercises/stability/notebook.py"))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="a disk of its own is made by bubblewrap")
def test_a_full_disk_leaves_the_old_checkpoint_and_nothing_else():
    """The disk holds a megabyte, the second model twelve."""
    disk = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--size", str(1 << 20), "--tmpfs", "/mnt"]
    asked = [*disk, sys.executable, "-c", saves(), "/mnt/run.pt"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.stdout.split("\n")[:2] == ["refused 28", "['run.pt'] True"], done.stdout + done.stderr


def functions():
    from autograder.authoring.text import read_text_notebook
    from autograder.notebooks.cells import solution_of

    names: dict = {}
    exec("import io, os, random\nimport numpy as np\nimport torch\nimport torch.distributed as dist", names)
    exec(solution_of(read_text_notebook(ROOT / "exercises/stability/notebook.py"), "save_state"), names)
    return names["save_state"], names["load_state"]


def killed_at(nbytes, call):
    """Whether the system killed a process that calls it, when a file grew beyond so many bytes."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
            call()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def in_a_folder(folder):
    folder.mkdir()
    return str(folder / "run.pt")


@pytest.mark.parametrize("seed", range(3))
def test_twenty_kills_at_random_bytes_of_a_save_leave_a_whole_checkpoint(tmp_path, seed):
    save, load = functions()
    moments, states = random.Random(seed), [torch.nn.Linear(30, 10) for _ in range(2)]
    path, elsewhere = in_a_folder(tmp_path / "run"), in_a_folder(tmp_path / "whole")
    save(path, {"model": states[0]})
    for _ in range(20):
        save(elsewhere, {"model": states[1]})
        nbytes = moments.randrange(os.path.getsize(elsewhere))
        assert killed_at(nbytes, lambda: save(path, {"model": states[1]}))
        found = torch.nn.Linear(30, 10)
        load(path, {"model": found})
        assert torch.equal(found.weight, states[0].weight)
    save(path, {"model": states[1]})
    load(path, {"model": found})
    assert torch.equal(found.weight, states[1].weight) and os.listdir(tmp_path / "run") == ["run.pt"]
