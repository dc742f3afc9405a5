"""Archives as Canvas, Moodle and Blackboard make them become hand-ins of the gradebook's students."""

import shutil
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.lms import collect
from autograder.lms.archives import MAX_HAND_IN_BYTES
from autograder.nbgrader.gradebook import find_alembic


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory) -> Path:
    find_alembic()
    path = tmp_path_factory.mktemp("course") / "gradebook.db"
    with Gradebook(f"sqlite:///{path}") as gradebook:
        gradebook.add_student("ada", first_name="Ada", last_name="Lovelace", lms_user_id="12345")
        gradebook.add_student("bob", first_name="Bob", last_name="O'Neill-Smith")
        gradebook.add_student("van_ada", first_name="Zoë", last_name="Müller")
    return path


@pytest.fixture
def course(gradebook, tmp_path) -> Path:
    shutil.copy(gradebook, tmp_path)
    return tmp_path


def run(course: Path, assignment: str, path: Path, zone: str) -> int:
    return collect.run(course, assignment, path, zone, f"sqlite:///{course / 'gradebook.db'}")


def archive(course, **entries: str):
    path = course / "hand-ins.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in entries.items():
            zipped.writestr(name, text)
    return path


def collected(course) -> dict[str, str]:
    root = course / "submitted"
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_canvas_names_learners_by_number_or_by_name(course, capsys):
    path = archive(
        course,
        **{
            "lovelaceada_12345_678_views.ipynb": "a",
            "lovelaceada_12345_679_my tools.py": "b",
            "oneillsmithbob_LATE_77_680_views-1.ipynb": "c",
        },
    )
    assert run(course, "views", path, "") == 0
    assert collected(course) == {
        "ada/views/my tools.py": "b",
        "ada/views/views.ipynb": "a",
        "bob/views/views-1.ipynb": "c",
    }
    assert "new bob, which Canvas calls late" in capsys.readouterr().out


def test_moodle_writes_a_folder_or_a_prefix(course):
    path = archive(
        course,
        **{
            "Ada Lovelace_12345_assignsubmission_file_/views.ipynb": "a",
            "Ada Lovelace_12345_assignsubmission_file_/data/points.csv": "b",
            "Bob O'Neill-Smith_9_assignsubmission_file_views.ipynb": "c",
            "Zoë Müller_10_assignsubmission_file/views.ipynb": "d",
        },
    )
    assert run(course, "views", path, "") == 0
    assert collected(course) == {
        "ada/views/data/points.csv": "b",
        "ada/views/views.ipynb": "a",
        "bob/views/views.ipynb": "c",
        "van_ada/views/views.ipynb": "d",
    }


def test_blackboard_knows_the_time_and_the_last_attempt_counts(course):
    path = archive(
        course,
        **{
            "views_ada_attempt_2026-10-11-10-00-00_views.ipynb": "first",
            "views_ada_attempt_2026-10-12-23-30-00_views.ipynb": "last",
            "views_ada_attempt_2026-10-12-23-30-00.txt": "Name: Ada Lovelace (ada)",
            "views_van_ada_attempt_2026-10-12-20-00-00_views.ipynb": "hers",
        },
    )
    assert run(course, "views", path, "Europe/Berlin") == 0
    assert collected(course) == {
        "ada/views/timestamp.txt": "2026-10-12 21:30:00 UTC\n",
        "ada/views/views.ipynb": "last",
        "van_ada/views/timestamp.txt": "2026-10-12 18:00:00 UTC\n",
        "van_ada/views/views.ipynb": "hers",
    }


def test_without_a_zone_no_time_is_kept_that_may_be_another(course, capsys):
    path = archive(course, **{"views_ada_attempt_2026-10-12-23-30-00_views.ipynb": "a"})
    assert run(course, "views", path, "") == 0
    assert list(collected(course)) == ["ada/views/views.ipynb"]
    assert "--zone=Europe/Berlin" in capsys.readouterr().out


def test_a_zone_that_is_none_is_refused_and_nothing_is_written(course, capsys):
    path = archive(course, **{"views_ada_attempt_2026-10-12-23-30-00_views.ipynb": "a"})
    assert run(course, "views", path, "Berlin") == 2
    assert not (course / "submitted").exists() or not collected(course)
    assert "no time that can be read for certain" in capsys.readouterr().err


def test_whose_a_file_is_the_learner_cannot_say(course, capsys):
    path = archive(
        course,
        **{
            "lovelaceada_12345_678_bob_views.ipynb": "a",
            "lovelaceada_12345_679_oneillsmithbob_77_680_views.ipynb": "b",
            "Ada Lovelace_12345_assignsubmission_file_/Bob O'Neill-Smith_9_assignsubmission_file_/views.ipynb": "c",
        },
    )
    run(course, "views", path, "")
    assert {name.partition("/")[0] for name in collected(course)} == {"ada"}


@pytest.mark.parametrize("name", ["../../gradebook.db", "/etc/passwd", "..\\..\\x.py", "a/../../../x"])
def test_no_name_leads_out_of_the_hand_in(course, name, capsys):
    before = (course / "gradebook.db").read_bytes()
    path = archive(
        course, **{f"Ada Lovelace_12345_assignsubmission_file_/{name}": "x", "lovelaceada_12345_1_views.ipynb": "y"}
    )
    run(course, "views", path, "")
    assert (course / "gradebook.db").read_bytes() == before
    assert all(name.startswith("ada/views/") for name in collected(course))


def test_who_is_not_known_is_named_with_the_command_that_adds_them_and_the_others_are_taken(course, capsys):
    path = archive(
        course, **{"hoppergrace_99_1_views.ipynb": "a", "lovelaceada_12345_2_views.ipynb": "b", "readme.md": "c"}
    )
    assert run(course, "views", path, "") == 1
    assert list(collected(course)) == ["ada/views/views.ipynb"]
    said = capsys.readouterr().out
    assert "LEFT hoppergrace (Canvas 99)" in said and "--lms-user-id=99" in said and "whose is it? readme.md" in said


def test_what_was_there_before_is_kept_and_what_is_the_same_is_left(course, capsys):
    path = archive(course, **{"lovelaceada_12345_2_views.ipynb": "first"})
    run(course, "views", path, "")
    run(course, "views", path, "")
    run(course, "views", archive(course, **{"lovelaceada_12345_3_views-1.ipynb": "second"}), "")
    assert capsys.readouterr().out.splitlines() == ["new ada", "unchanged ada", "changed ada"]
    assert collected(course) == {"ada/views/views-1.ipynb": "second"}
    (kept,) = (course / "collected").rglob("views.ipynb")
    assert kept.read_text() == "first"


@pytest.mark.parametrize(
    "content, says",
    [(None, "there is no such file"), (b"Rar!", "it is no zip file"), ("empty", "no name in it is one that")],
)
def test_what_is_no_archive_is_refused_in_a_sentence(course, capsys, content, says):
    path = course / "hand-ins.zip"
    if content == "empty":
        archive(course, **{"readme.md": "x"})
    elif content is not None:
        path.write_bytes(content)
    assert run(course, "views", path, "") == 2
    assert says in capsys.readouterr().err


def test_a_hand_in_that_holds_more_than_is_graded_is_left_and_the_others_are_taken(course, capsys):
    path = course / "hand-ins.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
        zipped.writestr("lovelaceada_12345_678_a.npy", bytes(MAX_HAND_IN_BYTES))
        zipped.writestr("lovelaceada_12345_679_views.ipynb", "one byte more")
        zipped.writestr("oneillsmithbob_77_680_views.ipynb", "c")
    assert run(course, "views", path, "") == 1
    assert collected(course) == {"bob/views/views.ipynb": "c"}
    assert "LEFT ada: its files hold more than 192 MiB" in capsys.readouterr().out
