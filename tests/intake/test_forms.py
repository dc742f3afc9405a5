"""Right work earns everything, whatever form of file it comes in."""

import sys

import pytest

from autograder.intake.archives import unpack_beside
from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from autograder.intake.graded_form import graded_form
from tests.intake.forms import FORMS, grade_id


@pytest.mark.parametrize("name", FORMS)
def test_its_tests_stand_behind_right_answers(course, views, tmp_path, monkeypatch, name):
    sys.modules.pop("my_patches", None)
    for folder in (tmp_path, tmp_path / "week 1" / "views"):
        monkeypatch.syspath_prepend(folder)
    FORMS[name](tmp_path, course.answered())
    found = found_in(handed_in(tmp_path), "views", views)
    if found.member:
        unpack_beside(found.path, found.member, tmp_path)
    notebook, _ = graded_form(found, views)
    space: dict = {}
    tests = []
    for one in notebook.cells:
        if one.cell_type == "code" and not grade_id(one).endswith(("_seen", "_hidden")):
            exec(one.source, space)
        elif grade_id(one).endswith("_hidden"):
            tests.append(grade_id(one))
            assert "autograder.grade(" in one.source
            function = space[grade_id(one).removesuffix("_hidden")]
            assert "NotImplementedError" not in function.__code__.co_names
    assert sorted(tests) == sorted(course.full_marks())
