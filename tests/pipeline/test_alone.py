"""A notebook opened alone says what to install before it needs it."""

import re
import shutil

import nbformat
import pytest

from autograder.authoring.alone import with_what_to_install
from autograder.authoring.drafts import in_the_book
from autograder.authoring.pipeline import write_source
from autograder.authoring.subset import write_subset
from autograder.core.published import version, wheel
from tests.pipeline.conftest import ROOT

PAGE = "chapters/tensors/views"


def says(notebook: nbformat.NotebookNode) -> str:
    """The text right above the first code that names gpulab; no other cell says the same."""
    place = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and "gpulab" in cell.source)
    assert sum("%pip install" in cell.source for cell in notebook.cells) == 1
    assert notebook.cells[place - 1].cell_type == "markdown"
    return notebook.cells[place - 1].source


@pytest.mark.parametrize("chapter", in_the_book(ROOT / "exercises"))
def test_the_exercises_of_a_chapter_say_it_and_name_its_page(chapter, tmp_path):
    said = says(nbformat.read(write_source(ROOT / "exercises", chapter, tmp_path), as_version=4))
    assert wheel("gpulab", version(ROOT)) in said
    (page,) = set(re.findall(r"(chapters/\w+/\w+)\.html", said))
    assert page.endswith(f"/{chapter}") and (ROOT / f"{page}.md").is_file()


def test_the_release_says_it_once(course):
    released = course.notebook("release")
    assert "gpulab" in says(released)
    nbformat.validate(released)


def test_some_of_a_chapters_exercises_say_it_too(tmp_path):
    source = write_subset(ROOT / "exercises", ["views.compact"], "warm_up", tmp_path)
    assert PAGE in says(nbformat.read(source, as_version=4))


@pytest.fixture
def published(tmp_path):
    """A repository whose book has an address."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "_config.yml").write_text("html: {}\nrepository: {url: https://github.com/someone/tokens}\n")
    return tmp_path


def test_where_the_book_has_an_address_the_line_runs_as_it_stands(published):
    code = nbformat.v4.new_code_cell("import gpulab")
    said = says(with_what_to_install(nbformat.v4.new_notebook(cells=[code]), PAGE, published))
    assert f" https://someone.github.io/tokens/exercises/{wheel('gpulab', version(ROOT))}`" in said
    assert f"<https://someone.github.io/tokens/{PAGE}.html>" in said and "beside" not in said


def test_a_notebook_that_needs_no_gpulab_says_nothing():
    code = nbformat.v4.new_code_cell("import math")
    assert with_what_to_install(nbformat.v4.new_notebook(cells=[code]), PAGE).cells == [code]
