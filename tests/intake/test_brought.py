"""What a notebook takes from files beside it is seen where it is needed, and nothing is taken from elsewhere."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.intake.brought import MOST_FILES
from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from tests.intake.forms import STARTER, cell

PATCHES = "def patchify(images, patch):\n    return images"


@pytest.fixture
def brought(course, views, tmp_path):
    """The cells and notes of an answered notebook, but for ``patchify``, with a cell of the learner's below."""

    def bring(source: str, own: str = STARTER.format(name="patchify")):
        notebook = course.answered()
        cell(notebook, "patchify").source = own
        notebook.cells.append(new_code_cell(source))
        nbformat.write(notebook, tmp_path / "views.ipynb")
        found = found_in(handed_in(tmp_path), "views", views)
        return found.cells[-1].source, list(found.notes)

    return bring


def test_a_star_that_brings_an_answer_that_is_missing_names_it(brought, tmp_path):
    (tmp_path / "mine.py").write_text(PATCHES)
    source, notes = brought("from mine import *\nx = 1")
    assert source == "from mine import *\nfrom mine import patchify\nx = 1"
    assert notes == ["`from mine import *` brings `patchify`: that counts as the answer."]


@pytest.mark.parametrize(
    "module",
    ["def other(): return 1", STARTER.format(name="patchify"), f"__all__ = ['other']\n{PATCHES}", "def broken(:"],
)
def test_a_star_that_brings_none_stays_as_it_is(brought, tmp_path, module):
    (tmp_path / "mine.py").write_text(module)
    assert brought("from mine import *") == ("from mine import *", [])


def test_a_star_stays_as_it_is_where_the_answer_stands_in_the_notebook_and_where_there_is_no_such_file(
    brought, tmp_path
):
    assert brought("from torch import *") == ("from torch import *", [])
    (tmp_path / "mine.py").write_text(PATCHES)
    assert brought("from mine import *", own=PATCHES.replace("return", "return 1 +")) == ("from mine import *", [])


def test_of_a_notebook_that_is_run_the_cells_stand_in_its_place(brought, tmp_path):
    inner = new_notebook(cells=[new_code_cell("y = 2"), new_code_cell("%run two.ipynb")])
    nbformat.write(inner, tmp_path / "one.ipynb")
    nbformat.write(new_notebook(cells=[new_code_cell(PATCHES)]), tmp_path / "two.ipynb")
    source, notes = brought("x = 1\n%run one.ipynb\nz = 3")
    assert source == f"x = 1\ny = 2\n\n{PATCHES}\nz = 3"
    assert notes[0] == "`%run one.ipynb`: the cells of that notebook were run in its place."


@pytest.mark.parametrize(
    "name", ["none.ipynb", "../secret.ipynb", "/etc/secret.ipynb", "link.ipynb", "linked/secret.ipynb", "pipe.ipynb"]
)
def test_of_one_that_was_not_handed_in_a_sentence_says_so_and_nothing_is_followed(brought, tmp_path, name):
    (tmp_path.parent / "secret.ipynb").write_text(nbformat.writes(new_notebook(cells=[new_code_cell("secret = 1")])))
    (tmp_path / "link.ipynb").symlink_to(tmp_path.parent / "secret.ipynb")
    (tmp_path / "linked").symlink_to(tmp_path.parent)
    (tmp_path / "pipe.ipynb").mkdir()
    source, notes = brought(f"%run {name}")
    assert source == f"%run {name}"
    assert notes == [f"`%run {name}`: no such notebook was handed in beside this one, so nothing of it was run."]


def test_one_that_runs_itself_ends(brought, tmp_path):
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1\n%run me.ipynb\n%run me.ipynb")]), tmp_path / "me.ipynb")
    source, notes = brought("%run me.ipynb")
    assert source.count("x = 1") == 7 and len(notes) == 2


def test_one_that_runs_itself_a_thousand_times_ends_too(brought, tmp_path):
    nbformat.write(new_notebook(cells=[new_code_cell("%run me.ipynb\n" * 1000)]), tmp_path / "me.ipynb")
    source, notes = brought("%run me.ipynb")
    assert source.count("%run") < 30_000 and len(notes) == 2


def test_of_thousands_of_stars_a_few_are_looked_for(brought, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("autograder.intake.brought._leads_away", lambda folder, name: asked.append(name))
    brought("\n".join(f"from mine{number} import *" for number in range(3000)))
    assert len(asked) <= 2 * MOST_FILES
