"""Anything can be handed in under a notebook's name: what cannot be read as one is said, and harms no other."""

import json
import os
import zipfile

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.intake import forms
from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from autograder.intake.graded_form import graded_form
from autograder.intake.notebook_file import read
from autograder.intake.refused import NotGradable
from autograder.selfcheck.chapters import Chapter
from tests.pipeline.conftest import ROOT


def cells_of(path):
    return read(path, path.name).cells


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"%PDF-1.7",
        b"{}",
        b"[]",
        b"null",
        b'{"cells": 3}',
        b'{"cells": [7], "nbformat": 4}',
        b'{"worksheets": [7]}',
        b"\xff\xfe\x00",
        b"{" * 5000,
        b'[{"a": ' * 20_000,
        b"<!DOCTYPE html><html><body>views</body></html>",
    ],
)
def test_what_is_no_notebook_is_refused_in_a_sentence(tmp_path, views, content):
    (tmp_path / "views.ipynb").write_bytes(content)
    with pytest.raises(NotGradable, match="^The (notebook|file) "):
        graded_form(found_in(handed_in(tmp_path), "views", views), views)


@pytest.mark.parametrize(
    "content",
    [
        b'{"worksheets":[{"cells":5}]}',
        b'{"nbformat": ' + b"9" * 5000 + b', "cells": [{"cell_type": "code", "source": "x"}]}',
        b'{"cells": [{"cell_type": "code", "source": "x", "metadata": {"nbgrader": '
        + b'{"a":' * 900
        + b"1"
        + b"}" * 900
        + b"}}]}",
        json.dumps(
            {
                "cells": [
                    {"cell_type": "code", "source": f"def patchify():\n    raise NotImplementedError({'-' * 900}1)"}
                ]
            }
        ).encode(),
        json.dumps({"cells": [{"cell_type": "code", "source": "patchify = " + "(" * 5000}]}).encode(),
        json.dumps({"cells": [{"cell_type": ["code"], "source": {"a": 1}, "id": [1], "metadata": [2]}]}).encode(),
        b"# %%\n" * 3000,
        b"[" * 4_000_000,
    ],
)
def test_whatever_is_in_it_a_notebook_comes_of_it_or_a_sentence(tmp_path, views, content):
    (tmp_path / "views.ipynb").write_bytes(content)
    try:
        graded_form(found_in(handed_in(tmp_path), "views", views), views)
    except NotGradable as problem:
        assert str(problem).startswith("The ")


def test_a_damaged_archive_is_no_notebook(tmp_path, views):
    with zipfile.ZipFile(tmp_path / "views.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("views.ipynb", bytes(range(256)) * 100)
    raw = bytearray((tmp_path / "views.zip").read_bytes())
    raw[40:80] = b"x" * 40
    (tmp_path / "views.zip").write_bytes(raw)
    with pytest.raises(NotGradable, match="holds no `views.ipynb`"):
        found_in(handed_in(tmp_path), "views", views)


def test_another_chapters_whole_notebook_is_not_graded_though_its_setup_is_called_alike(tmp_path, views):
    other = Chapter(ROOT / "exercises" / "streams").notebook
    (tmp_path / "views.ipynb").write_text(nbformat.writes(other))
    with pytest.raises(NotGradable, match="no exercise of this assignment"):
        graded_form(found_in(handed_in(tmp_path), "views", views), views)


def test_a_broken_download_is_called_so(tmp_path):
    path = tmp_path / "views.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[new_code_cell("x = 1")]))[:-30])
    with pytest.raises(NotGradable, match="breaks off in its middle"):
        read(path, path.name)


def test_what_git_left_in_it_is_named_with_its_line(tmp_path):
    path = tmp_path / "views.ipynb"
    path.write_text('{"cells": [\n<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> mine\n]}')
    with pytest.raises(NotGradable, match="merge that Git did not finish .line 2."):
        read(path, path.name)


def test_one_that_the_grader_may_not_read_is_the_instructors_to_mend(tmp_path, monkeypatch):
    path = tmp_path / "views.ipynb"
    path.write_text("{}")
    path.chmod(0o000)

    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refused)  # tests may run as root, who may read everything
    with pytest.raises(NotGradable, match="mode 0000.*instructor's to mend"):
        read(path, path.name)


def test_one_with_more_cells_than_any_of_the_course_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "MAX_CELLS", 3)
    path = tmp_path / "views.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[new_code_cell("1")] * 4)))
    with pytest.raises(NotGradable, match="more than 3 cells"):
        read(path, path.name)


def test_outputs_and_metadata_are_left_behind(tmp_path):
    notebook = new_notebook(cells=[new_code_cell("1", outputs=[new_output("stream", text="x")])])
    notebook.cells[0].metadata["tags"] = ["skip-execution"]
    nbformat.write(notebook, tmp_path / "views.ipynb")
    (cell,) = cells_of(tmp_path / "views.ipynb")
    assert cell.outputs == [] and cell.metadata == {}


def test_a_link_is_not_followed(tmp_path, views):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "mine.ipynb").write_text(nbformat.writes(new_notebook()))
    folder = tmp_path / "ada"
    folder.mkdir()
    (folder / "views.ipynb").symlink_to(tmp_path / "secret" / "mine.ipynb")
    with pytest.raises(NotGradable, match="is a link"):
        found_in(handed_in(folder), "views", views)


def test_a_pipe_is_not_waited_for(tmp_path, views):
    os.mkfifo(tmp_path / "views.ipynb")
    with pytest.raises(NotGradable, match="no ordinary file"):
        found_in(handed_in(tmp_path), "views", views)


def test_half_a_surrogate_pair_is_a_question_mark(tmp_path):
    path = tmp_path / "views.ipynb"
    path.write_text('{"cells": [{"cell_type": "code", "source": "x = \'\\ud83d\'"}]}')
    assert cells_of(path)[0].source == "x = '?'"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_whatever_an_editor_writes_is_read(tmp_path, encoding):
    path = tmp_path / "views.ipynb"
    cells = [{"cell_type": "markdown", "source": "Grüße"}]
    path.write_bytes(json.dumps({"cells": cells}, ensure_ascii=False).encode(encoding))
    found = read(path, path.name)
    assert found.cells[0].source == "Grüße"
    assert bool(found.notes) == (not encoding.startswith("utf-8"))


def test_a_picture_stays_and_nothing_else_that_is_attached(tmp_path):
    path = tmp_path / "views.ipynb"
    attached = {"a.png": {"image/png": "aGk="}, "b.svg": {"image/svg+xml": "<svg/>"}, "c": 3}
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "", "attachments": attached}]}))
    assert cells_of(path)[0].attachments == {"a.png": {"image/png": "aGk="}}


def test_an_archive_that_says_it_is_small_is_not_believed(tmp_path, views):
    with zipfile.ZipFile(tmp_path / "views.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("views.ipynb", b" " * 65 * 1024**2)
    with pytest.raises(NotGradable, match="holds no `views.ipynb`"):
        found_in(handed_in(tmp_path), "views", views)


def test_what_lies_there_instead_is_named(tmp_path, views):
    (tmp_path / "Übung.ipynb").write_text("{}")
    with pytest.raises(NotGradable, match="holds no `views.ipynb` .found `Übung.ipynb`.: hand it in under this name"):
        found_in(handed_in(tmp_path), "views", views)


def test_nothing_at_all_is_said_too(tmp_path, views):
    with pytest.raises(NotGradable, match="found no notebook at all"):
        found_in(handed_in(tmp_path), "views", views)


def test_another_chapters_notebook_is_not_graded(tmp_path, views):
    (tmp_path / "views.ipynb").write_text(json.dumps(new_notebook(cells=[new_code_cell("def train(): pass")])))
    with pytest.raises(NotGradable, match="no exercise of this assignment"):
        graded_form(found_in(handed_in(tmp_path), "views", views), views)
