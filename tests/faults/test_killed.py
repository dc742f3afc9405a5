"""Whatever is killed, every submission is graded, none twice, and the gradebook agrees."""

import os
import random
import signal
import time

import psutil
import pytest
from nbformat.v4 import new_code_cell

from tests.faults.conftest import grade_to_the_end, grading, processes_of, wait_until, written
from tests.grading.consistent import assert_consistent

SUBMISSIONS_A_KILL = 3
SLOWLY = "import time; time.sleep(2)"


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.audit)])
def test_the_grader_killed_at_random_moments(group, kills):
    """The first time and every second with everything that it has started, as when the power goes."""
    submissions = SUBMISSIONS_A_KILL * kills
    for number in range(submissions):
        group.hand_in(f"s{number:02}", group.answered())
    seed = random.SystemRandom().randrange(2**32)
    moments = random.Random(seed)
    print(f"seed {seed}")
    for number in range(kills):
        before = written(group)
        with grading(group) as grader:
            wait_until(lambda: _has_a_kernel(grader), "a submission is under way")
            if number % 3 == 0:  # on a slow machine no submission ends before the next kill
                wait_until(lambda: len(written(group)) > len(before), "one more submission is graded")
            time.sleep(moments.uniform(0, 1.5))
            processes = processes_of(grader)
            for process in processes[:1] if number % 2 else processes:
                _kill(process)
        wait_until(lambda: not any(map(_lives, processes)), "everything that the grader started is gone")
        assert before.items() <= written(group).items(), "graded twice"
    before = written(group)
    assert 0 < len(before) < submissions, "the kills fell in the middle of the class"
    assert grade_to_the_end(group) == 0
    assert before.items() <= written(group).items(), "graded twice"
    assert_consistent(group.root, group.chapter)


def _has_a_kernel(grader) -> bool:
    """Grader, its judges' server, the sandbox's two, the kernel server, and of one kernel: supervisor, first process, itself."""
    return len(processes_of(grader)) >= 8


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _slow(group):
    notebook = group.answered()
    notebook.cells.insert(0, new_code_cell(SLOWLY))
    return notebook


@pytest.mark.audit
def test_a_kernel_killed_from_outside_costs_its_submission_only(group):
    group.hand_in("a_slow", _slow(group))
    group.hand_in("b_other", group.answered())
    with grading(group) as grader:
        wait_until(lambda: _has_a_kernel(grader), "a kernel runs")
        time.sleep(1)
        supervisor = processes_of(grader)[0].children()[0]
        kernel = max(supervisor.children(recursive=True), key=lambda process: process.create_time())
        kernel.kill()
        grader.join(timeout=300)
        assert grader.exitcode == 0
    assert_consistent(group.root, group.chapter)
    assert group.entry("a_slow")["outcome"] == "crashed"
    assert group.scores("b_other") == group.full_marks()


@pytest.mark.audit
def test_a_kernel_server_killed_in_mid_class_costs_nobody_a_point(group):
    group.hand_in("a_slow", _slow(group))
    group.hand_in("b_other", group.answered())
    with grading(group) as grader:
        wait_until(lambda: _has_a_kernel(grader), "a kernel runs")
        time.sleep(1)
        for server in processes_of(grader)[0].children():
            os.kill(server.pid, signal.SIGKILL)
        grader.join(timeout=300)
        assert grader.exitcode == 1, "the submission that was under way is reported"
    assert group.entry("a_slow")["state"] == "failed"
    assert group.scores("b_other") == group.full_marks()
    assert grade_to_the_end(group) == 0
    assert_consistent(group.root, group.chapter)
    assert group.scores("a_slow") == group.full_marks()
