"""Loaders that a learner's function makes, used in a process of the case's own: who made each sample, and what was drawn for it."""

import contextlib
import hashlib
import multiprocessing
import os
import random
import struct
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from os import getpid
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from autograder.runner.apart import apart
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner

BITS = 40
"""Of each number drawn: two alike are no chance."""
_ROW = struct.Struct("6q")


class Drawing(Dataset):
    """Samples of (index, process, numbers from random, NumPy, torch, and the generator ``rng`` of its own).

    Each that is made, in whatever process, is written to a file as well.
    """

    def __init__(self, size: int, own: bool) -> None:
        self.size = size
        self._file, path = tempfile.mkstemp()
        os.unlink(path)
        weakref.finalize(self, os.close, self._file)
        if own:
            self.rng = np.random.default_rng(4)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = [random.getrandbits(BITS), int(np.random.randint(1 << BITS)), int(torch.randint(1 << BITS, ()))]
        drawn.append(int(self.rng.integers(1 << BITS)) if hasattr(self, "rng") else -1)
        row = [int(index), getpid(), *drawn]
        os.write(self._file, _ROW.pack(*row))
        return torch.tensor(row)

    def told(self) -> list[list[int]]:
        """The samples that were made, in any order."""
        return [list(row) for row in _ROW.iter_unpack(os.pread(self._file, os.fstat(self._file).st_size, 0))]


class Turning(Sampler):
    """An order that is another one each time it is asked for."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.begun = order, 0

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        self.begun += 1
        return iter([*self.order[self.begun :], *self.order[: self.begun]])


def run(learner: Learner, case: dict) -> dict:
    """Make loaders and go through their epochs; or find out which configurations are refused."""
    learner.make_loader  # where it is missing, that is said here
    with _quietly():
        if "refused" in case:
            return {
                "answers": [
                    outcome(lambda c=config: _made(learner, _config(c), 4, False)[0]) for config in case["refused"]
                ]
            }
        return apart(lambda: {"loaders": [_used(learner, loader) for loader in case["loaders"]]})


def _quietly() -> contextlib.AbstractContextManager:
    """PyTorch warns of more workers than this machine has cores."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def _config(config: dict) -> dict:
    """With a sampler for its order."""
    return config | ({"sampler": Turning(config["sampler"])} if isinstance(config.get("sampler"), list) else {})


def _made(learner: Learner, config: dict, size: int, own: bool) -> tuple[Any, Dataset]:
    dataset = Drawing(size, own)
    return learner.make_loader(dataset, config), dataset


def _used(learner: Learner, loader: dict) -> dict:
    _seed(loader["noise"])
    before, config = _states(), _config(loader["config"])
    handed = dict(config)
    with _accelerator(loader["accelerator"]):
        made, dataset = _made(learner, config, loader["size"], loader["own"])
    if not isinstance(made, DataLoader):
        return {"kind": type(made).__name__}
    said = {name: object.__getattribute__(made, name) for name in ("prefetch_factor", "pin_memory")}
    made_states, epochs, alive = _states(), [], []
    for _ in range(loader["epochs"]):
        epochs.append([torch.Tensor.tolist(batch) for batch in made])
        alive.append([process.pid for process in multiprocessing.active_children()])
    found = {
        "kind": "DataLoader",
        "said": said,
        "epochs": epochs,
        "alive": alive,
        "states": [before, made_states, _states()],
    }
    found["own"] = _drawn_of(dataset) if loader["own"] else []
    return found | {"told": dataset.told(), "kept": config == handed, "me": getpid(), "plain": _plainly(loader)}


def _plainly(loader: dict) -> list:
    """What comes of the same samples where no loader is: numbers of the caller's own generators."""
    _seed(loader["noise"])
    dataset, sampler = Drawing(loader["size"], loader["own"]), Turning(loader["config"]["sampler"])
    return [[dataset[index].tolist() for index in sampler] for _ in range(loader["epochs"])]


def _drawn_of(dataset: Any) -> list[int]:
    """The next number of a dataset's own generator, and that of an untouched one."""
    return [
        int(getattr(each, "rng", np.random.default_rng()).integers(1 << BITS)) for each in (dataset, Drawing(1, True))
    ]


def _seed(noise: int) -> None:
    random.seed(noise)
    np.random.seed(noise)
    torch.manual_seed(noise)


def _states() -> list[str]:
    states = (repr(random.getstate()), repr(np.random.get_state()), repr(torch.get_rng_state().tolist()))
    return [hashlib.sha1(state.encode()).hexdigest() for state in states]


@contextlib.contextmanager
def _accelerator(kind: str) -> Iterator[None]:
    """Inside the block PyTorch says that there is one of this kind, or none."""
    device = torch.device(kind, 0) if kind else None
    with (
        patch.object(torch.accelerator, "is_available", lambda: bool(kind)),
        patch.object(torch.accelerator, "current_accelerator", lambda *asked, **named: device),
        patch.object(torch.cuda, "is_available", lambda: kind == "cuda"),
    ):
        yield
