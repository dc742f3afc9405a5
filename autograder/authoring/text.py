"""The text notebook of a chapter's exercises: the one source of all its forms."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from autograder.authoring.clauses import without_tags
from autograder.core.cell_id import cell_id
from autograder.notebooks.cells import cell_of


def read_text_notebook(path: Path, tags: bool = False) -> NotebookNode:
    """The notebook in a jupytext percent file, its cell ids derived from grade_id or position.

    ``tags``: with those of the statements' clauses, which learners do not see.
    """
    notebook = deepcopy(_read(path.read_text("utf-8")))
    if not tags:
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = without_tags(cell.source)
    return notebook


@lru_cache(64)
def _read(text: str) -> NotebookNode:
    """Kept, since the tests ask for a chapter's dozens of times and reading one takes a tenth of a second."""
    notebook = jupytext.reads(text, fmt="py:percent")
    for position, cell in enumerate(notebook.cells):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell["id"] = cell_id(grade_id or f"cell-{position}")
    return notebook


def starter_of(notebook: NotebookNode, grade_id: str) -> str:
    """The source of a solution cell as nbgrader's ClearSolutions leaves it for the learner."""
    from nbgrader.preprocessors import ClearSolutions

    starter, _ = ClearSolutions().preprocess_cell(deepcopy(cell_of(notebook, grade_id)), {"language": "python"}, 0)
    return starter.source
