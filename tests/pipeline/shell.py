"""Commands as an instructor types them, each in a fork of one process that has imported everything."""

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

from nbgrader.apps.nbgraderapp import NbGraderApp

import autograder.authoring.check
import autograder.nbgrader.config  # noqa: F401 (what the commands import, imported once)
from tests.forks import forks


def typed(line: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Exit status and what it printed. ``nbgrader`` and ``python -m`` are this environment's; the rest is bash's."""
    words = shlex.split(line, comments=True)
    if words[:4] == ["python", "-m", "autograder", "grade"]:  # starts processes of its own
        return _finished([sys.executable, *words[1:]], folder, environment)
    if words[0] != "nbgrader" and words[:2] != ["python", "-m"]:
        return _finished(["bash", "-c", line], folder, environment)
    log = folder / "typed.log"
    process = forks.Process(target=_type, args=(words, str(folder), environment, str(log)))
    process.start()
    process.join(240)
    return process.exitcode, log.read_text()


def _finished(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def _type(words: list[str], folder: str, environment: dict[str, str], log: str) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if words[0] == "nbgrader":
        NbGraderApp.launch_instance(words[1:])
    else:
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
