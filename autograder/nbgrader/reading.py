"""Reads a submitted notebook file, whatever is wrong with it, for nbgrader's commands."""

from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder.core.ledger import Ledger
from autograder.notebooks.reading import read_notebook


class SubmissionExporter(NotebookExporter):
    """nbgrader's exporter, except that an unreadable notebook becomes an empty one.

    Restore then puts the graded cells back, and the submission is graded with the reason on
    its feedback page instead of being dropped.
    """

    def from_filename(self, filename: str, resources: ResourcesDict | None = None, **kwargs):
        notebook, problem = read_notebook(Path(filename))
        if problem:
            self.log.warning("%s: %s", filename, problem)
            Ledger.of_course().note(resources, problem)
            notebook = new_notebook(cells=[new_markdown_cell(f"**{problem}**")])
        resources["metadata"] = ResourcesDict(name=Path(filename).stem, path=str(Path(filename).parent))
        return self.from_notebook_node(notebook, resources=resources, **kwargs)
