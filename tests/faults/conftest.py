"""A grader in a process of its own, warm, so that it can be killed ten times in a minute."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

import psutil
import pytest

from tests.forks import forks
from tests.grading.conftest import Group
from tests.pipeline.conftest import ROOT


def autograde(root: str, chapter: str, *options: str) -> None:
    """``nbgrader autograde`` as its command line runs it."""
    from nbgrader.apps.autogradeapp import AutogradeApp

    os.environ["COURSE"] = root
    os.chdir(ROOT)
    AutogradeApp.launch_instance([chapter, "--Application.log_level=CRITICAL", *options])


@contextmanager
def grading(group: Group, *options: str) -> Iterator[BaseProcess]:
    process = forks.Process(target=autograde, args=(str(group.root), group.chapter, *options))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def grade_to_the_end(group: Group, *options: str) -> int | None:
    """The exit status of a run that nothing disturbs."""
    with grading(group, *options) as process:
        process.join(timeout=600)
        return process.exitcode


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.005)


def written(group: Group) -> dict[str, int]:
    """When each graded submission's entry was written, by student."""
    entries = group.ledger.entries(group.chapter)
    graded = [entry.student for entry in entries if entry.state == "graded"]
    return {student: group.ledger.path(group.chapter, student).stat().st_mtime_ns for student in graded}


def processes_of(process: BaseProcess) -> list[psutil.Process]:
    grader = psutil.Process(process.pid)
    return [grader, *grader.children(recursive=True)]


@pytest.fixture
def group(tmp_path) -> Group:
    return Group(tmp_path)
