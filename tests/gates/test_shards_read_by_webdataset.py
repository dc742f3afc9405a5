"""The shards of chapter "Feeding the device" are WebDataset's: its own reader finds the samples that the solution finds."""

from pathlib import Path

import pytest

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.notebooks.cells import cell_of, solution_of
from exercises.feeding.tar_shards.judge import exercise
from exercises.feeding.tar_shards.run import Stream, written

FEEDING = Path(__file__).parents[2] / "exercises" / "feeding" / "notebook.py"


@pytest.fixture(scope="module")
def notebook() -> dict:
    """The names that the setup and the solution of tar_shards define."""
    text, names = read_text_notebook(FEEDING), {}
    exec(cell_of(text, "setup").source, names)
    exec(solution_of(text, "tar_shards"), names)
    return names


def in_small_letters(sample):
    """As WebDataset's reader gives extensions, unless it is told otherwise."""
    return {name if name == "__key__" else name.lower(): value for name, value in sample.items()}


def drawn_shards():
    return [case.inputs["shards"] for case in exercise.cases(Sampler(5)) if not case.raises]


def test_webdatasets_reader_gives_the_samples_of_the_solution(notebook, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    for number, shards in enumerate(drawn_shards()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in written(folder, shards):
            own = [in_small_letters(one) for one in notebook["tar_shards"]([path], Stream, 0, 1, 0)]
            theirs = webdataset.WebDataset([path], shardshuffle=False, empty_check=False)
            read = [
                {name: value for name, value in one.items() if name == "__key__" or not name.startswith("__")}
                for one in theirs
            ]
            assert read == own != []
