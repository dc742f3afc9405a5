"""What lies beside a notebook is bounded before anything is copied."""

import os
import subprocess

import pytest

from autograder.intake import files
from autograder.intake.files import handed_in, taken_along
from autograder.nbgrader.times import time_of


def taken(folder) -> tuple[list[str], list[str]]:
    """The names of the files that are taken along, and the notes."""
    found, notes = taken_along(handed_in(folder))
    return sorted(str(path.relative_to(folder)) for path in found), notes


def test_ordinary_files_are_all_taken_and_the_notebook_is_not(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "data.csv").write_text("1,2")
    (tmp_path / "views.ipynb").write_text("{}")
    assert taken(tmp_path) == (["deeper/data.csv"], [])


def test_what_systems_and_editors_leave_is_not_worth_a_word(tmp_path):
    for name in ("__pycache__", ".ipynb_checkpoints", "__MACOSX"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.pyc").write_text("x")
    assert taken(tmp_path) == ([], [])


def test_a_named_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "views.ipynb.txt")
    found, notes = taken(tmp_path)
    assert found == [] and "`pipe` is no ordinary file" in " ".join(notes)
    assert handed_in(tmp_path).may_be_notebooks() == []


def test_nothing_is_written_where_learners_handed_in(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    before = sorted((path.name, path.lstat()) for path in tmp_path.iterdir())
    taken(tmp_path)
    assert sorted((path.name, path.lstat()) for path in tmp_path.iterdir()) == before


def test_files_that_hold_too_much_together_are_left_out_the_largest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 2 * 1024**2)
    for name, size in (("a.bin", 1792), ("b.bin", 1536), ("c.txt", 1)):
        (tmp_path / name).write_bytes(b"x" * size * 1024)
    found, notes = taken(tmp_path)
    assert found == ["b.bin", "c.txt"]
    assert notes == ["`a.bin` was left out: the files beside the notebook hold more than 2 MiB."]


def test_of_too_many_files_none_is_taken_but_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"z{number}.txt").write_text("x")
    (tmp_path / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    found, notes = taken(tmp_path)
    assert found in ([], ["timestamp.txt"]) and "More than 3 files" in notes[0]


def test_folders_count_too_and_are_counted_in_no_time(tmp_path):
    for number in range(files.MAX_FILES + 1):
        (tmp_path / str(number)).mkdir()
    assert handed_in(tmp_path).too_many


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
    assert handed_in(tmp_path).too_many
    subprocess.run(["rm", "-rf", str(tmp_path / name)], check=True)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    found, notes = taken(tmp_path)
    assert found == [] and "`link` was a link and was not followed." in notes


def test_a_name_that_a_terminal_would_obey_is_shown_harmless(tmp_path):
    (tmp_path / "\x1b[2J\n.txt").symlink_to("nowhere")
    assert r"`\x1b[2J\n.txt` was a link" in taken(tmp_path)[1][0]


@pytest.mark.parametrize("content", [b"yesterday", b"99999999999999999999", b"\0", b"x" * 5000, b"\xff\xfe"])
def test_a_time_that_is_none_is_said_and_left_as_it_is(tmp_path, content):
    (tmp_path / "timestamp.txt").write_bytes(content)
    time, said = time_of(tmp_path)
    assert time is None and ("unknown" in said or content == b"\xff\xfe")
    assert (tmp_path / "timestamp.txt").read_bytes() == content


def test_a_pipe_or_a_link_is_no_time(tmp_path):
    os.mkfifo(tmp_path / "timestamp.txt")
    assert time_of(tmp_path)[0] is None
    (tmp_path / "timestamp.txt").unlink()
    (tmp_path / "timestamp.txt").symlink_to("/etc/hostname")
    assert time_of(tmp_path)[0] is None and "no file with a time" in time_of(tmp_path)[1]


def test_no_time_at_all_is_nothing_to_say(tmp_path):
    assert time_of(tmp_path) == (None, "")
