"""A grader's folder in /tmp."""

import os
import time

import pytest

from autograder.sandbox import folders
from autograder.sandbox.folders import fresh_folder


@pytest.fixture
def long_ago():
    """Makes a folder look settled."""
    return lambda folder: os.utime(folder, (time.time() - 3600,) * 2)


def test_the_folder_of_a_grader_that_died_is_removed_by_the_next(tmp_path, long_ago):
    folder, held = fresh_folder(str(tmp_path))
    (folder / "k1").mkdir()
    held.close()
    long_ago(folder)
    fresh_folder(str(tmp_path))
    assert not folder.exists()


def test_the_folder_of_a_living_grader_stays(tmp_path, long_ago):
    folder, held = fresh_folder(str(tmp_path))
    long_ago(folder)
    fresh_folder(str(tmp_path))
    assert folder.exists() and not held.closed


def test_a_folder_that_is_not_a_graders_stays(tmp_path, long_ago):
    (tmp_path / "grading-notes").mkdir()
    long_ago(tmp_path / "grading-notes")
    fresh_folder(str(tmp_path))
    assert (tmp_path / "grading-notes").exists()


def test_others_may_pass_through_but_not_list_it(tmp_path):
    folder, _ = fresh_folder(str(tmp_path))
    assert folder.stat().st_mode & 0o777 == 0o711
    assert folders._PREFIX in folder.name
