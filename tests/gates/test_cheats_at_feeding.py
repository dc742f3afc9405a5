"""Answers to chapter "Feeding the device" that were not earned: each earns nothing, or what was done besides."""

import hashlib
import os
from functools import cache
from pathlib import Path, PurePosixPath

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of, solution_of
from autograder.runner.scenario_runner import run_case

FEEDING = Path(__file__).parents[2] / "exercises" / "feeding" / "notebook.py"


@cache
def solution(exercise: str):
    """The reference solution of an exercise."""
    text, names = read_text_notebook(FEEDING), {}
    exec(cell_of(text, "setup").source, names)
    exec(solution_of(text, exercise), names)
    return names[exercise]


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"feeding.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def test_an_exception_made_up_in_the_place_of_measures_loses_errors():
    def another(measure, cores, ranks):
        def measured(workers):
            try:
                return measure(workers)
            except OSError:
                raise OSError("something else") from None

        return solution("pick_workers")(measured, cores, ranks)

    assert score("pick_workers", another) == 8


class Changed(IterableDataset):
    """The right samples, each as ``change`` makes it."""

    def __init__(self, change, *asked):
        self.right, self.change = solution("tar_shards")(*asked), change
        self.set_epoch = self.right.set_epoch

    def __iter__(self):
        return map(self.change, self.right)


class Empty(dict):
    """It has no items but for who asks for them by name."""

    def __init__(self, sample):
        self.items = sample.items


def digests(sample):
    return {name: value if name == "__key__" else hashlib.sha1(value).hexdigest() for name, value in sample.items()}


def names_that_are_no_texts(sample):
    return {name if name == "__key__" else PurePosixPath(name): value for name, value in sample.items()}


def test_samples_that_are_none_earn_nothing():
    cheats = {"digests": digests, "names that are no texts": names_that_are_no_texts, "no items": Empty}
    scores = {what: score("tar_shards", lambda *asked, c=cheat: Changed(c, *asked)) for what, cheat in cheats.items()}
    assert scores == dict.fromkeys(cheats, 0) != {}


class BesideTheStream(IterableDataset):
    """Files are found where the store has them, and read at once; the streams are opened and never read."""

    def __init__(self, paths, open_shard, rank, world_size, seed):
        self.right = solution("tar_shards")(paths, lambda path: self.opened(path), rank, world_size, seed)
        self.set_epoch, self.open_shard = self.right.set_epoch, open_shard

    def opened(self, path):
        folder, stream = self.open_shard.__self__._folder, self.open_shard(path)
        stream.read = open(folder / Path(path).name, "rb").read
        return stream

    def __iter__(self):
        return iter(self.right)


def test_samples_that_were_not_read_from_their_streams_lose_sequential():
    assert score("tar_shards", BesideTheStream) == 9


class MadeUp(DataLoader):
    """Rows that no dataset made, from processes that there are not."""

    def __iter__(self):
        order, workers = list(self.sampler), self.num_workers
        self.begun = getattr(self, "begun", 0) + 1
        for number, at in enumerate(range(0, len(order), self.batch_size)):
            indices = order[at : at + self.batch_size]
            yield torch.tensor([[index, 10**6 + number % workers, *self.drawn(index)] for index in indices])

    def drawn(self, index):
        seed = self.generator.initial_seed()
        numbers = [
            int(hashlib.sha1(repr((seed, self.begun, index, k)).encode()).hexdigest()[:10], 16) for k in range(4)
        ]
        return numbers if hasattr(self.dataset, "rng") else [*numbers[:3], -1]


class Rows:
    """What a batch is asked for, and no tensor."""

    def __init__(self, batch):
        self.tolist = batch.tolist


class NoTensors(MadeUp):
    def __iter__(self):
        return map(Rows, super().__iter__())


def numbered(rows):
    rows = torch.stack(rows)
    rows[:, 1] = 10**6 + get_worker_info().id
    return rows


def loader_of(kind=DataLoader, **others):
    """The right loader, of another class or with other arguments, where it has workers."""

    def make_loader(dataset, config):
        right = solution("make_loader")(dataset, config)
        if not right.num_workers:
            return right
        named = (
            "batch_size",
            "sampler",
            "num_workers",
            "generator",
            "pin_memory",
            "persistent_workers",
            "prefetch_factor",
            "worker_init_fn",
        )
        return kind(dataset, **{name: getattr(right, name) for name in named} | others)

    return make_loader


def renamed(worker):
    dataset = get_worker_info().dataset
    if hasattr(dataset, "rng"):
        dataset.rng = solution("make_loader").__globals__["np"].random.default_rng(get_worker_info().seed)
    os.getpid = lambda: 10**6 + worker


def test_samples_that_no_dataset_made_earn_nothing_but_what_needs_no_worker():
    cheats = {
        "rows made up": loader_of(MadeUp),
        "no tensors": loader_of(NoTensors),
        "processes made up": loader_of(persistent_workers=False, collate_fn=numbered),
    }
    assert {what: score("make_loader", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 1) != {}


def test_workers_that_do_not_stay_lose_persistent_whatever_they_call_themselves():
    assert score("make_loader", loader_of(persistent_workers=False, worker_init_fn=renamed)) == 9


class Lying(DataLoader):
    def __getattribute__(self, name):
        return {"pin_memory": torch.accelerator.is_available(), "prefetch_factor": 2}.get(
            name
        ) or super().__getattribute__(name)


def test_attributes_that_are_made_up_are_not_believed():
    assert score("make_loader", loader_of(Lying, prefetch_factor=7)) == 10
