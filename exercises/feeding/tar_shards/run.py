"""Tar files as a case describes them, streams that count how they are read, and what a dataset gives of them."""

import builtins
import hashlib
import io
import os
import random
import socket
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from autograder.runner.apart import apart
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from gpulab.compat.loading import WORKER_INFO, WorkerInfo
from gpulab.observe.lines import is_learners_file


class Stream(io.RawIOBase):
    """A shard as it comes from a store: every read and every seek is counted, and no read gives more than ``most`` bytes."""

    def __init__(self, path: str, most: int = 1 << 30) -> None:
        self.path, self._most, self._file = path, most, open(path, "rb")
        self.seeks = self.at = self.largest = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(memoryview(buffer)[: self._most])
        self.at, self.largest = self.at + count, max(self.largest, len(buffer))
        return count

    def seek(self, offset: int, whence: int = 0) -> int:
        self.seeks += 1
        self.at = self._file.seek(offset, whence)
        return self.at

    def tell(self) -> int:
        return self.at

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class Store:
    """What opens the shards that lie in a folder, and remembers the streams; ``most``: bytes that a read gives."""

    def __init__(self, folder: Path, most: int = 1 << 30) -> None:
        self._folder, self._most, self.streams = folder, most, list[Stream]()

    def names(self) -> list[str]:
        """Those of its shards: no files are called so, and it alone can open them."""
        return [f"{_STORE}{self._folder.name}/{path.name}" for path in sorted(self._folder.iterdir())]

    def open_shard(self, name: str) -> Stream:
        self.streams.append(Stream(str(self._folder / Path(name).name), self._most))
        return self.streams[-1]

    def taken(self) -> list[list]:
        """Of each stream the shard, its seeks, the largest read, and whether it was closed; forgotten then."""
        streams, self.streams = self.streams, []
        said = [[Path(stream.path).name, stream.seeks, stream.largest, stream.closed] for stream in streams]
        for stream in streams:
            stream.close()
        return said


_STORE = "store://"


def written(folder: Path, shards: list[list[list]]) -> list[str]:
    """The paths of tar files. A member: its name, its kind (``file``, ``folder``, ``link``), its text, how often that is repeated."""
    paths = [str(folder / f"shard-{number:04}.tar") for number in range(len(shards))]
    for path, members in zip(paths, shards):
        with tarfile.open(path, "w") as archive:
            for name, kind, text, times in members:
                member, data = tarfile.TarInfo(name), (text * times).encode()
                member.type = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}[kind]
                member.size, member.linkname = (len(data), "") if kind == "file" else (0, "nowhere" * (kind == "link"))
                archive.addfile(member, io.BytesIO(data))
    return paths


def run(learner: Learner, case: dict) -> dict:
    """Make the shards, and play each part that a rank's worker has in its epochs."""
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as elsewhere:
        folder = Path(made)
        written(folder, case["shards"])
        if "refused" in case:
            return {"answers": [outcome(lambda r=r: _refused(learner, folder, r)) for r in case["refused"]]}
        found = {"plays": [_played(learner, folder, play) for play in case["plays"]]}
        if "apart" in case:
            written(Path(elsewhere), case["shards"])
            with _started_apart():
                found["apart"] = _played(learner, Path(elsewhere), case["apart"])
        for real in case.get("real", []):
            found.setdefault("real", []).append(apart(lambda: _with_workers(learner, folder, real)))
        return found


def _refused(learner: Learner, folder: Path, changes: dict) -> Any:
    store = Store(folder)
    return learner.tar_shards(
        store.names()[: changes["shards"]], store.open_shard, changes["rank"], changes["world"], 3
    )


def _dataset(learner: Learner, store: Store, play: dict) -> Any:
    return learner.tar_shards(store.names(), store.open_shard, play["rank"], play["world"], play["seed"])


def _played(learner: Learner, folder: Path, play: dict) -> dict:
    """One worker's part, faked in this process, epoch after epoch; a ``rank`` has no workers where ``workers`` is 0."""
    store, epochs = Store(folder, play["most"]), []
    random.seed(play["noise"])
    np.random.seed(play["noise"])
    torch.manual_seed(play["noise"])
    dataset = _dataset(learner, store, play)
    if not isinstance(dataset, IterableDataset) or not callable(getattr(dataset, "set_epoch", None)):
        return {"dataset": False}
    before = _states()
    for epoch in play["epochs"]:
        if epoch >= 0 and not play["late"]:
            dataset.set_epoch(epoch)
        with _as_worker(play["worker"], play["workers"], dataset):
            epochs.append(_epoch(dataset, store, play, epoch))
    return {"dataset": True, "epochs": epochs, "disturbed": _states() != before}


def _epoch(dataset: Any, store: Store, play: dict, epoch: int) -> dict:
    """The samples, and with each where its stream was and how many were open.

    ``late``: the epoch is set between ``iter`` and the first sample. ``meanwhile``: the one that is set after the first.
    """
    samples, positions, coming = [], [], iter(dataset)
    if play["late"]:
        dataset.set_epoch(epoch)
    for sample in coming:
        samples.append(_said(sample))
        positions.append(
            [store.streams[-1].at if store.streams else 0, sum(not stream.closed for stream in store.streams)]
        )
        del sample
        if play["meanwhile"] >= 0:
            dataset.set_epoch(play["meanwhile"])
        if len(samples) == play["take"]:
            coming.close() if hasattr(coming, "close") else None
            break
    del coming
    return {"samples": samples, "positions": positions, "streams": store.taken()}


def _said(sample: Any) -> Any:
    """A sample's key and the digests of its bytes; of a name that is no text, or a value that is neither, the type's name."""
    if not isinstance(sample, dict):
        return sample
    return {
        name if type(name) is str else f"({type(name).__name__})": _of_value(value)
        for name, value in dict.items(sample)
    }


def _of_value(value: Any) -> Any:
    if type(value) is bytes:
        return ["bytes", hashlib.sha1(value).hexdigest()]
    return value if type(value) is str else [type(value).__name__, ""]


def _states() -> list[str]:
    states = (repr(random.getstate()), repr(np.random.get_state()), torch.get_rng_state().numpy().tobytes())
    return [hashlib.sha1(state.encode() if isinstance(state, str) else state).hexdigest() for state in states]


@contextmanager
def _started_apart() -> Iterator[None]:
    """Inside the block the notebook finds another day, rank, process and host, and hashes of texts have another salt."""
    rank = os.environ.get("RANK", "0") + "1"
    tells = {
        (builtins, "hash"): lambda hashed, value: hashed ^ _SALT if _has_text(value) else hashed,
        (os, "getpid"): lambda pid: pid + 1,
        (socket, "gethostname"): lambda name: f"{name}-2",
        (time, "time"): lambda now: now + _DAY,
        (time, "strftime"): lambda said, form, *when: (
            said if when else time.strftime(form, time.localtime(time.time() + _DAY))
        ),
    }
    with ExitStack() as elsewhere:
        elsewhere.enter_context(patch.dict(os.environ, {"RANK": rank, "LOCAL_RANK": rank}))
        for (module, name), there in tells.items():
            elsewhere.enter_context(patch.object(module, name, _for_the_notebook(getattr(module, name), there)))
        yield


def _for_the_notebook(function: Callable, there: Callable) -> Callable:
    """``function``, of which the notebook's own calls give what ``there`` makes of the result and the arguments."""

    def asked(*given: Any) -> Any:
        learners = is_learners_file(sys._getframe(1).f_code.co_filename)
        return there(function(*given), *given) if learners else function(*given)

    return asked


_DAY = 86_400
_SALT = 0x5DEECE66D


def _has_text(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or isinstance(value, (tuple, frozenset)) and any(map(_has_text, value))


@contextmanager
def _as_worker(number: int, workers: int, dataset: Any) -> Iterator[None]:
    """Inside the block ``get_worker_info()`` says what it would say in a worker process."""
    if workers:
        WORKER_INFO.set(WorkerInfo(id=number, num_workers=workers, seed=number, dataset=dataset))
    try:
        yield
    finally:
        WORKER_INFO.set(None)


def _with_workers(learner: Learner, folder: Path, real: dict) -> list[list]:
    """Epochs of a real loader with worker processes that stay; with each sample the number of its worker."""
    dataset = _dataset(learner, Store(folder), real)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=real["workers"], persistent_workers=True, collate_fn=_with_its_worker
    )
    epochs = []
    for epoch in real["epochs"]:
        dataset.set_epoch(epoch)
        epochs.append([[worker, _said(sample)] for worker, sample in loader])
    return epochs


def _with_its_worker(sample: Any) -> tuple[int, Any]:
    return get_worker_info().id, sample
