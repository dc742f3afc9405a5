"""A dataset that keeps its epoch in a SharedMemory: Python's resource tracker beside it is no process of the notebook's."""

from copy import deepcopy

import nbformat
import pytest

from autograder.sandbox import sandbox
from autograder.selfcheck.chapters import chapters
from autograder.selfcheck.mark import mark

IN_TORCH = "self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()"
KEPT = {
    IN_TORCH: "from multiprocessing.shared_memory import SharedMemory\n        self.epoch = SharedMemory(create=True, size=8)",
    "self.epoch.fill_(epoch)": 'self.epoch.buf[:8] = epoch.to_bytes(8, "little")',
    "self.epoch.item()": "int.from_bytes(self.epoch.buf[:8], 'little')",
}


@pytest.mark.skipif(bool(sandbox.problem()), reason="processes beside a kernel are counted in the sandbox alone")
def test_it_keeps_its_points_in_the_graders_own_sandbox(tmp_path):
    (feeding,) = (chapter for chapter in chapters() if chapter.name == "feeding")
    notebook = deepcopy(feeding.notebook)
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade_id") == "tar_shards":
            for words, instead in KEPT.items():
                assert words in cell.source
                cell.source = cell.source.replace(words, instead)
        elif about.get("solution"):
            cell.source = "raise NotImplementedError"
    nbformat.write(notebook, tmp_path / "feeding.ipynb")
    marked = mark(tmp_path / "feeding.ipynb")
    assert marked.verdicts["tar_shards"].score == 11 and not any("odd" in note for note in marked.notes)
