"""A worker that dies in mid-epoch: the learner's loader raises, the hidden test says so, nothing hangs and no process is left."""

import multiprocessing
import os
from pathlib import Path

import psutil
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of, solution_of
from autograder.runner.scenario_runner import run_case
from exercises.feeding.tar_shards.run import Stream, written

FEEDING = Path(__file__).parents[2] / "exercises" / "feeding" / "notebook.py"


@pytest.fixture(scope="module")
def solved() -> dict:
    """The names that the setup and the two solutions define."""
    text, names = read_text_notebook(FEEDING), {}
    for source in (cell_of(text, "setup").source, *(solution_of(text, name) for name in ("tar_shards", "make_loader"))):
        exec(source, names)
    return names


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = set(psutil.Process().children(recursive=True))
    yield
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=60)
    assert not alive


def die_in_a_worker() -> None:
    if multiprocessing.parent_process() is not None:
        os._exit(3)


class Dying(Dataset):
    """Samples of which the sixth ends the worker that makes it."""

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        if index == 5:
            die_in_a_worker()
        return self.dataset[index]


class DyingShards(IterableDataset):
    """The samples of another dataset, of which the third ends its worker."""

    def __init__(self, dataset) -> None:
        self.dataset, self.set_epoch = dataset, dataset.set_epoch

    def __iter__(self):
        for number, sample in enumerate(self.dataset):
            if number == 2:
                die_in_a_worker()
            yield sample


def lines_lost(exercise: str, function) -> dict[str, str]:
    name = f"feeding.{exercise}"
    verdict = judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(3))
    return {line.criterion: line.message for line in verdict.lines if line.status != "earned"}


def test_the_learners_own_loader_raises(solved):
    config = {"batch": 2, "workers": 2, "prefetch": None, "seed": 0, "rank": 0, "sampler": range(12)}
    loader = solved["make_loader"](Dying(torch.arange(12)), config)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)


def test_a_loader_over_the_learners_shards_raises(solved, tmp_path):
    shards = [[[f"{shard}/{number}.cls", "file", "x", 1] for number in range(4)] for shard in range(4)]
    dataset = DyingShards(solved["tar_shards"](written(tmp_path, shards), Stream, 0, 1, 0))
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(dataset, None, num_workers=2, persistent_workers=True))


def test_the_hidden_tests_of_make_loader_say_that_a_worker_died(solved):
    lost = lines_lost("make_loader", lambda dataset, config: solved["make_loader"](Dying(dataset), config))
    assert "exited unexpectedly" in lost["batches"]


def test_the_hidden_tests_of_tar_shards_say_that_a_worker_died(solved):
    lost = lines_lost("tar_shards", lambda *asked: DyingShards(solved["tar_shards"](*asked)))
    assert list(lost) == ["processes"] and "exited unexpectedly" in lost["processes"]
