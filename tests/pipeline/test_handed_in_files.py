"""What lies beside a notebook is bounded before anything is copied."""

import os
import subprocess
from datetime import datetime

import pytest

from autograder.nbgrader import submission
from autograder.nbgrader.submission import replace_broken_timestamp, replace_odd_files, what_to_leave


def test_ordinary_files_are_all_taken(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "data.csv").write_text("1,2")
    assert replace_odd_files(tmp_path) == [] and what_to_leave(tmp_path) == ([], [])


def test_a_named_pipe_becomes_a_text_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (note,) = replace_odd_files(tmp_path)
    assert "`pipe` is no ordinary file" in note and (tmp_path / "pipe").read_text()


def test_files_that_hold_too_much_together_are_left_out_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MAX_FILE_BYTES", 2 * 1024**2)
    for name in ("a.bin", "b.bin", "c.txt"):
        (tmp_path / name).write_bytes(b"x" * (1 if name == "c.txt" else 1536 * 1024))
    ignored, notes = what_to_leave(tmp_path)
    assert ignored == ["b.bin"] and "more than 2 MiB" in notes[0]


def test_of_too_many_files_none_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x")
    assert what_to_leave(tmp_path)[0] == ["*"]


def test_folders_count_too_and_are_counted_in_no_time(tmp_path):
    for number in range(submission.MAX_FILES + 1):
        (tmp_path / str(number)).mkdir()
    assert what_to_leave(tmp_path)[0] == ["*"]


@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_folders_that_lie_deeper_than_python_can_recurse_are_left(tmp_path, name):
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(2500):
            os.mkdir(name)
            os.chdir(name)
    finally:
        os.chdir(here)
    assert replace_odd_files(tmp_path) == [] and what_to_leave(tmp_path)[0] == ["*"]
    subprocess.run(["rm", "-rf", str(tmp_path / name)], check=True)


def test_a_link_at_the_top_is_found_beside_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert "was a link" in replace_odd_files(tmp_path)[0]


def test_a_name_that_a_terminal_would_obey_is_shown_harmless(tmp_path):
    (tmp_path / "\x1b[2J\n.txt").symlink_to("nowhere")
    (note,) = replace_odd_files(tmp_path)
    assert "`?[2J?.txt` was a link" in note


@pytest.mark.parametrize("text", ["yesterday", "99999999999999999999", "\0", "x" * 5000])
def test_a_time_that_is_none_is_emptied_and_said(tmp_path, text):
    (tmp_path / "timestamp.txt").write_text(text)
    assert "could not be read" in replace_broken_timestamp(tmp_path)[0]
    assert (tmp_path / "timestamp.txt").read_text() == ""


def test_a_time_is_left_as_it_is(tmp_path):
    text = f"{datetime(2026, 1, 1)} UTC"
    (tmp_path / "timestamp.txt").write_text(text)
    assert replace_broken_timestamp(tmp_path) == []
    assert (tmp_path / "timestamp.txt").read_text() == text


def test_no_time_at_all_is_nothing_to_say(tmp_path):
    assert replace_broken_timestamp(tmp_path) == []
