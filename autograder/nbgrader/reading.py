"""Hands nbgrader the notebook that was made of a submission, in the place of the file."""

from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict


class SubmissionExporter(NotebookExporter):
    """nbgrader's exporter; what a learner handed in was read before, see :mod:`autograder.intake`."""

    def from_filename(self, filename: str, resources: ResourcesDict | None = None, **kwargs):
        notebook = resources["nbgrader"].pop("taken", None) or nbformat.read(filename, as_version=4)
        resources["metadata"] = ResourcesDict(name=Path(filename).stem, path=str(Path(filename).parent))
        return self.from_notebook_node(notebook, resources=resources, **kwargs)
