"""Whole submissions through nbgrader's own command: right work in an odd form earns everything, and its page says what was odd."""

import pytest

from autograder.core.ledger import NOT_GRADED
from tests.exploits.conftest import autograde
from tests.intake.forms import FORMS, PIXEL
from tests.pipeline.conftest import Course

FEW = ["no_metadata_and_other_ids", "in_a_folder_in_a_folder", "starters_left_and_all_answers_in_one_cell_at_the_end"]
"""What is tried with every change."""


def graded(root, names: list[str]) -> Course:
    course = Course(root)
    for name in names:
        folder = course.root / "submitted" / name / "views"
        folder.mkdir(parents=True)
        (folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
        FORMS[name](folder, course.answered())
    folder = course.root / "submitted" / "nothing_to_read" / "views"
    folder.mkdir(parents=True)
    (folder / "views.ipynb").write_bytes(b"%PDF-1.7")
    autograde(course)
    return course


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Course:
    return graded(tmp_path_factory.mktemp("few"), FEW)


@pytest.fixture(scope="module")
def everyone(tmp_path_factory) -> Course:
    return graded(tmp_path_factory.mktemp("everyone"), list(FORMS))


@pytest.mark.parametrize("name", FEW)
def test_it_costs_nothing(few, name):
    assert few.scores(name) == few.full_marks()


@pytest.mark.audit
@pytest.mark.parametrize("name", FORMS)
def test_no_form_of_a_file_costs_anything(everyone, name):
    assert everyone.scores(name) == everyone.full_marks()
    assert "Points lost because" in everyone.feedback(name)


def test_the_page_says_what_was_mended(few):
    page = few.feedback("in_a_folder_in_a_folder")
    assert "The submission holds no <code>views.ipynb</code>: <code>week 1/views/views.ipynb</code> was graded." in page
    assert "were known by what they hold" in few.feedback("no_metadata_and_other_ids")


def test_of_what_nothing_can_be_made_nothing_is_graded_and_a_person_is_asked(few):
    entry = few.entry("nothing_to_read")
    assert entry["outcome"] == NOT_GRADED and entry["verdicts"] == {}
    assert entry["notes"] == ["Not graded: The file is not a Jupyter notebook: hand in the .ipynb."]
    assert few.needs_manual_grade("nothing_to_read")
    page = few.feedback("nothing_to_read")
    assert "not graded yet" in page and "The file is not a Jupyter notebook" in page


@pytest.mark.audit
def test_a_pasted_picture_is_on_the_page_and_one_that_is_missing_is_named(everyone):
    assert f'src="data:image/png;base64,{PIXEL}"' in everyone.feedback("a_pasted_picture")
    assert "not handed in with the notebook" in everyone.feedback("a_picture_that_is_not_there")
