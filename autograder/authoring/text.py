"""The text notebook of a chapter's exercises: the one source of all its forms."""

from pathlib import Path

import jupytext
from nbformat import NotebookNode


def read_text_notebook(path: Path) -> NotebookNode:
    """The notebook in a jupytext percent file, its cell ids derived from grade_id or position."""
    notebook = jupytext.read(path)
    for position, cell in enumerate(notebook.cells):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell["id"] = (grade_id or f"cell-{position}").replace("_", "-")[:64]
    return notebook
