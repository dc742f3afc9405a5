"""The feedback page: what a learner reads after grading."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.screens import px_beyond


@pytest.fixture(scope="module")
def page(course):
    """The feedback of a learner who copies, and who writes scripts into the notebook."""
    wrong = (
        "def patchify(images, patch):\n"
        "    n, c, h, w = images.shape\n"
        "    if patch < 1 or h % patch or w % patch:\n"
        "        raise ValueError('<script>alert(1)</script>')\n"
        "    return images.view(n, c, h // patch, patch, w // patch, patch).permute(0, 2, 4, 1, 3, 5).clone()"
    )
    notebook = course.answered(patchify=wrong)
    notebook.cells.insert(1, new_markdown_cell("Hello <script>alert(2)</script> <img src=x onerror=alert(3)>"))
    notebook.cells.insert(2, new_code_cell("from IPython.display import HTML\nHTML('<script>alert(4)</script>')"))
    notebook.cells.insert(3, new_code_cell("print('<script>alert(5)</script>')"))
    notebook.cells.insert(4, new_code_cell("raise ValueError('far too long ' * 300_000)"))
    course.hand_in("copies", notebook)
    assert course.autograde("copies")["success"]
    return course.feedback("copies")


def test_each_lost_point_has_its_sentence(page):
    assert "The patches are right, but" in page and "were copied" in page


def test_the_points_of_each_criterion_are_shown(page):
    assert "0 / 3" in page and "2 / 2" in page


def test_hidden_tests_are_not_shown(page):
    assert "autograder.grade" not in page and "HIDDEN TESTS" not in page


def test_nothing_a_learner_wrote_can_run(page):
    assert "<script" not in page and "onerror=" not in page.replace("&lt;", "")
    assert "script-src" in page or "default-src 'none'" in page


def test_learners_code_and_output_are_shown(page):
    assert "permute(0, 2, 4, 1, 3, 5).clone()" in page
    assert "&lt;script&gt;alert(5)" in page


def test_an_error_that_is_too_long_is_shown_in_part(page):
    assert "ValueError" in page and 100 < page.count("far too long") < 5000


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_is_wider_than_the_screen(page, browser, width):
    beyond = px_beyond(browser, page, width)
    assert beyond <= 0, f"{beyond} px lie beyond a screen of {width}"
