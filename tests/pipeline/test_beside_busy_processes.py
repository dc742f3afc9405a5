"""Rates are judged as ratios and counts: a class about loaders earns beside two busy processes what it must."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
from nbgrader.api import Gradebook

from autograder.authoring.classroom import write_class
from tests.pipeline.conftest import ROOT, Course
from tests.pipeline.test_sample_class import autograde


@contextmanager
def busy(count: int):
    """So many processes that compute without end."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.audit
def test_a_class_about_loaders_earns_what_it_must_beside_two_busy_processes(tmp_path):
    course = Course(tmp_path, "feeding")
    submissions = write_class(course.root, ROOT / "exercises", course.chapter, number=0)
    with busy(2):
        said = autograde(course)
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}") as gradebook:
        scores = {one.student: gradebook.find_submission(course.chapter, one.student).score for one in submissions}
    assert scores == {one.student: one.score for one in submissions}, said
