"""What `make demo` does before it grades chapters side by side."""

import sqlite3
from types import SimpleNamespace

from autograder.cli import demo


def test_course_and_learners_stand_in_the_gradebook_before_two_chapters_are_graded_at_once(tmp_path, monkeypatch):
    """Each would write them, and the second would fail: every id is there once."""
    for name, path in (("COURSE", tmp_path), ("LOG", tmp_path / "log.txt"), ("GRADEBOOK", tmp_path / "gradebook.db")):
        monkeypatch.setattr(demo, name, path)
    handed_in = {
        "views": [SimpleNamespace(student=name) for name in ("solution", "untouched")],
        "streams": [SimpleNamespace(student="solution")],
    }
    demo._enrol(handed_in)
    held = sqlite3.connect(demo.GRADEBOOK)
    assert held.execute("select id from student order by id").fetchall() == [("solution",), ("untouched",)]
    assert set(held.execute("select id from course")) == {("tensors-to-tokens",), ("default_course",)}


def test_what_was_graded_in_a_sandbox_is_graded_anew_without_one(tmp_path, monkeypatch):
    course = tmp_path / "demo"
    monkeypatch.setattr(demo, "COURSE", course)
    kept = []
    for options in ([], [], ["--ExecuteGraded.sandbox=off"]):
        demo._start_over_when_something_changed(options)
        kept.append((course / "grades.csv").exists())
        (course / "grades.csv").touch()
    assert kept == [False, True, False]


def test_a_chapter_that_is_none_is_named_and_nothing_begins(capsys):
    assert demo.run_demo("none", 1, ["views", "veiws"]) == 2
    assert "no chapter veiws; there are: collectives," in capsys.readouterr().err
