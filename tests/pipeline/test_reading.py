"""Anything can be handed in under a notebook's name: what cannot be read as one is said, and harms no other."""

import nbformat
import pytest

from autograder.notebooks.reading import read_notebook


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
        b"\xff\xfe\x00",
        b"{" * 5000,
    ],
)
def test_what_is_no_notebook_is_reported_in_a_sentence(tmp_path, content):
    path = tmp_path / "views.ipynb"
    path.write_bytes(content)
    notebook, problem = read_notebook(path)
    assert notebook is None
    assert "not a Jupyter notebook" in problem


def test_outputs_and_metadata_are_left_behind(tmp_path):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="x")])]
    )
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    nbformat.write(notebook, tmp_path / "views.ipynb")
    read, _ = read_notebook(tmp_path / "views.ipynb")
    assert read.cells[0].outputs == [] and read.metadata == {}


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "secret.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    (tmp_path / "views.ipynb").symlink_to(tmp_path / "secret.ipynb")
    notebook, problem = read_notebook(tmp_path / "views.ipynb")
    assert notebook is None and "link" in problem


def test_half_a_surrogate_pair_is_no_reason_to_refuse_a_notebook(tmp_path):
    path = tmp_path / "views.ipynb"
    path.write_text(
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "id": "a", '
        '"metadata": {}, "outputs": [], "execution_count": null, "source": "x = \'\\ud83d\'"}]}'
    )
    notebook, problem = read_notebook(path)
    assert problem == "" and notebook.cells[0].source == "x = '?'"
