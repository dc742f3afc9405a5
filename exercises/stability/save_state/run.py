"""E17.3 save_state, load_state: runs that are saved, killed while they save, and go on; processes, files and signals are real."""

import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.apart import apart
from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner

_NAME = "run.pt"
_MEMORY = "/dev/shm"
"""Where there is such a file system a hundred calls of fsync take no time."""
_OF_FILES = ("open", "os.", "shutil.", "tempfile.", "pathlib.")


class Sampler:
    """An order and how far it has been gone through."""

    def __init__(self, seed: int) -> None:
        self.order, self.at = random.Random(seed).sample(range(64), 64), 0

    def take(self) -> float:
        self.at += 1
        return self.order[self.at % 64] / 64

    def state_dict(self) -> dict:
        return {"order": list(self.order), "at": self.at, "note": None, "pair": (1, "x")}

    def load_state_dict(self, saved: dict) -> None:
        self.order, self.at = list(saved["order"]), saved["at"]


class Run:
    """Objects as a training has them; ``own``: a number that only this rank's sampler and generators have."""

    def __init__(self, seed: int, own: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.4), nn.Linear(6, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.sampler = Sampler(own)
        random.seed(own), np.random.seed(own), torch.manual_seed(own)
        random.gauss(0, 1), np.random.randn()  # each keeps a second number for the next call

    @property
    def state(self) -> dict:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "scaler": self.scaler,
            "order": self.sampler,
        }

    def go(self, steps: int) -> torch.Tensor:
        """Train; what tells this run from any other, in one tensor."""
        for _ in range(steps):
            x = (
                torch.randn(4, 3)
                + self.sampler.take()
                + random.gauss(0, 1)
                + torch.from_numpy(np.random.randn(4, 3)).float()
            )
            self.optimizer.zero_grad()
            self.scaler.scale(self.model(x).square().mean()).backward()
            if dist.is_initialized():
                grads = [parameter.grad for parameter in self.model.parameters()]
                together = torch.cat([grad.flatten() for grad in grads])
                dist.all_reduce(together)
                for grad, part in zip(grads, together.split([grad.numel() for grad in grads]), strict=True):
                    grad.copy_(part.view(grad.shape))
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.schedule.step()
        return self.print()

    def print(self) -> torch.Tensor:
        """Weights, buffers, moments, numbers; what the generators give next, who stay as they are."""
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        drawn = [
            random.gauss(0, 1),
            random.random(),
            np.random.randn(),
            np.random.rand(),
            *torch.rand(2, dtype=torch.float64).tolist(),
        ]
        random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
        tensors = [*self.model.state_dict().values()]
        for moments in self.optimizer.state_dict()["state"].values():
            tensors += [moments[name] for name in sorted(moments)]
        numbers = [
            self.schedule.last_epoch,
            self.schedule.get_last_lr()[0],
            self.scaler.get_scale(),
            self.sampler.at,
            *self.sampler.order,
        ]
        parts = [tensor.detach().double().flatten() for tensor in tensors]
        return torch.cat([*parts, torch.tensor([*drawn, *map(float, numbers)], dtype=torch.float64)])


def run(learner: Learner, case: dict) -> dict:
    """Play what the case is of, in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as folder:
        path = os.path.join(folder, _NAME)
        if case["world"]:
            played = in_ranks(
                lambda rank, world: _RANKS[case["play"]](learner, path, case), case["world"], folder=folder
            )
            if case["play"] == "other_world":
                played["alone"] = apart(lambda: _refused_one(learner, path, Run(1, 2)))
            return played
        return {"played": apart(lambda: _ALONE[case["play"]](learner, path, case))}


# ---- to be continued


def _continues(learner: Learner, path: str, case: dict) -> dict:
    """In ranks: go on behind a save, and from a load; the first save is loaded though there was a second, elsewhere."""
    own = own_inputs()
    run = Run(case["seed"], own["own"])
    run.go(own["before"])
    at = run.print()
    learner.save_state(path, run.state)
    listed = sorted(os.listdir(os.path.dirname(path)))
    untouched, expected = run.print(), run.go(2)
    learner.save_state(path + ".later", run.state)
    run.go(1)
    run = Run(case["seed"] + 1, own["own"] + 1)
    run.go(1)
    learner.load_state(path, run.state)
    return {
        "at": at,
        "untouched": untouched,
        "loaded": run.print(),
        "due": expected,
        "found": run.go(2),
        "listed": listed,
    }


def _continues_alone(learner: Learner, path: str, case: dict) -> dict:
    """As above, with a process for each: the one that loads never saved."""

    def saves() -> dict:
        run = Run(case["seed"], 5)
        run.go(4)
        at = run.print()
        for _ in range(2):  # over a checkpoint that is there
            learner.save_state(path, run.state)
        return {"at": at, "untouched": run.print(), "due": run.go(3), "listed": os.listdir(os.path.dirname(path))}

    def loads() -> dict:
        run = Run(case["seed"] + 1, 6)
        learner.load_state(path, run.state)
        return {"loaded": run.print(), "found": run.go(3)}

    said = _value(apart(saves))
    return said | _value(apart(loads))


def _value(said: dict) -> dict:
    """Of a process apart. Raises what it raised, in words."""
    if "value" not in said:
        raise RuntimeError(
            str(said.get("raised", {}).get("message", said.get("stopped")))
            if isinstance(said.get("raised", {}), dict)
            else "stopped"
        )
    return said["value"]


# ---- killed


@contextmanager
def _limited(nbytes: int | None):
    """Inside the block the system refuses to let a file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if nbytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _killed(call: Callable[[], Any], event: int = -1, nbytes: int | None = None) -> list:
    """Call it in a process that is killed before its ``event``-th action on files, or when a file grows beyond ``nbytes``.

    Whether it was killed, and how many actions there were, where it was not.
    """
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        return [os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)]
    actions = 0

    def hear(name: str, arguments: tuple) -> None:
        nonlocal actions
        if name.startswith(_OF_FILES) and name not in ("os.kill", "os.listdir", "os.scandir"):
            if actions == event:
                os.kill(os.getpid(), signal.SIGKILL)
            actions += 1

    try:
        if nbytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
        sys.addaudithook(hear)
        call()
    finally:
        os._exit(min(actions, 100))


def _survives(learner: Learner, path: str, case: dict) -> dict:
    """An old checkpoint, and saves of a new one that are killed at many moments; what is loaded after each."""
    run = Run(case["seed"], 5)
    run.go(2)
    old = run.print()
    learner.save_state(path, run.state)
    size = os.path.getsize(path)
    run.go(2)
    new, states = run.print(), (random.getstate(), np.random.get_state(), torch.get_rng_state())

    def save() -> None:
        """The new state. Python seeds its generator anew in a fork."""
        random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
        learner.save_state(path, run.state)

    shutil.copyfile(path, path + ".counted")
    _, actions = _killed(lambda: learner.save_state(path + ".counted", run.state))
    for name in os.listdir(os.path.dirname(path)):
        if name != _NAME:
            os.remove(os.path.join(os.path.dirname(path), name))
    moments = [{"event": k} for k in range(min(max(actions, 1), 12))]
    moments += [{"nbytes": int(share * size)} for share in case["shares"]]
    found = []
    for moment in moments:
        killed, _ = _killed(save, **moment)
        other = Run(case["seed"] + 1, 6)
        answer = outcome(lambda: learner.load_state(path, other.state))
        found.append({"killed": killed, "loaded": other.print(), "error": answer.get("error")})
        if answer.get("error"):
            break
    for _ in range(2):  # one of them finds what a killed save has left
        _killed(save, nbytes=size // 2)
        save()
    other = Run(case["seed"] + 1, 6)
    learner.load_state(path, other.state)
    return {"old": old, "new": new, "kills": found, "at last": other.print()}


def _on_the_disk(learner: Learner, path: str, case: dict) -> dict:
    """For each renaming to the path: the size of what is renamed, and the sizes of files in the folder whenever they were synced.

    And whether the folder was synced behind the last of them.
    """
    folder, synced, renamed, named = os.path.dirname(path), [], [], []
    run = Run(case["seed"], 5)
    run.go(1)

    def sizes() -> dict:
        return {entry.path: entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()}

    def notice(frame, event: str, function: Any) -> None:
        if event == "c_return" and function in (os.fsync, os.fdatasync, os.sync):
            synced.append(sizes())
            if renamed and (function is os.sync or _is_open(folder)):
                named.append(len(renamed))

    def hear(name: str, arguments: tuple) -> None:
        if name == "os.rename" and os.path.abspath(os.fsdecode(arguments[1])) == path:
            source = os.path.abspath(os.fsdecode(arguments[0]))
            nbytes = os.path.getsize(source)
            renamed.append(
                [nbytes, os.path.dirname(source) == folder, any(one.get(source) == nbytes for one in synced)]
            )

    sys.addaudithook(hear)
    sys.setprofile(notice)
    try:
        learner.save_state(path, run.state)
    finally:
        sys.setprofile(None)
    return {"renamed": renamed, "size": os.path.getsize(path), "folder": named[-1:] == [len(renamed)]}


def _is_open(folder: str) -> bool:
    """Whether this process has a descriptor of the folder, which it needs to sync it."""
    expected = os.stat(folder)
    for descriptor in range(3, 256):
        try:
            found = os.fstat(descriptor)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (expected.st_dev, expected.st_ino):
            return True
    return False


# ---- refused


class Runs:
    """A pickle of it makes a file where it is loaded."""

    def __init__(self, marker: str) -> None:
        self._marker = marker

    def __reduce__(self):
        return os.mkdir, (self._marker,)


def _plain(learner: Learner, path: str, case: dict) -> dict:
    """Whether torch reads the file with weights alone, and what becomes of pickles that would run code."""
    run, marker = Run(case["seed"], 5), path + ".ran"
    run.go(1)
    learner.save_state(path, run.state)
    read = outcome(lambda: torch.load(path, weights_only=True) is not None)
    whole = torch.load(path, weights_only=False)
    answers = []
    for content in (Runs(marker), {"ranks": [Runs(marker)]}, _poisoned(whole, marker)):
        torch.save(content, path)
        answers.append(_refused_one(learner, path, run))
    with open(path, "wb") as file:
        pickle.dump(Runs(marker), file)
    answers.append(_refused_one(learner, path, run))
    return {"read": read, "answers": answers, "ran": os.path.exists(marker)}


def _poisoned(content: Any, marker: str) -> Any:
    """A checkpoint of the learner's own with one thing more in it."""
    if isinstance(content, dict):
        return content | {"more": Runs(marker)}
    return [*content, Runs(marker)] if isinstance(content, list) else [content, Runs(marker)]


def _refused_one(learner: Learner, path: str, run: Run, state: dict | None = None) -> dict:
    before = run.print()
    answer = outcome(lambda: learner.load_state(path, run.state if state is None else state))
    return answer | {"kept": torch.equal(run.print(), before)}


def _refused(learner: Learner, path: str, case: dict) -> dict:
    """No file; files cut off at many places, or of something else; names that are not the file's."""
    run = Run(case["seed"], 5)
    missing = _refused_one(learner, path, run)
    learner.save_state(path, run.state)
    with open(path, "rb") as file:
        data = file.read()
    run.go(2)
    fewer = {name: part for name, part in run.state.items() if name != case["name"]}
    more = run.state | {"another": Sampler(1)}
    renamed = fewer | {"renamed": run.state[case["name"]]}
    answers = [_refused_one(learner, path, run, state) for state in (fewer, more, renamed)]
    for share in case["shares"]:
        _write(path, data[: int(share * len(data))])
        answers.append(_refused_one(learner, path, run))
    _write(path, b"no checkpoint at all, but a text\n" * 40)
    answers.append(_refused_one(learner, path, run))
    for content in ({}, [], torch.zeros(3), {"model": {}}, {"ranks": []}, {"ranks": [{}]}):
        torch.save(content, path)
        answers.append(_refused_one(learner, path, run))
    _write(path, data)
    passed_on = _raised_by_an_object(learner, path, run)
    return {"missing": missing, "answers": answers, "passed on": passed_on, "malformed": _malformed(learner, path)}


class Stubborn(Sampler):
    def load_state_dict(self, saved: dict) -> None:
        raise KeyError("of another run")


def _raised_by_an_object(learner: Learner, path: str, run: Run) -> dict:
    """What a load raises in which an object raises, and whether the generators are what they were."""
    before = _drawn_next()
    answer = outcome(lambda: learner.load_state(path, run.state | {"order": Stubborn(1)}))
    return answer | {"kept": _drawn_next() == before}


def _drawn_next() -> list[float]:
    """What the generators give next, who stay as they are."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    drawn = [random.random(), float(np.random.rand()), torch.rand(1).item()]
    random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
    return drawn


class Anything:
    """An object that takes whatever it is given, so that only ``load_state`` itself can refuse."""

    def __init__(self, saved: dict) -> None:
        self.saved = saved

    def state_dict(self) -> dict:
        return self.saved

    def load_state_dict(self, saved: object) -> None:
        self.saved = saved


def _malformed(learner: Learner, path: str) -> list[dict]:
    """Checkpoints of the learner's own with one entry that is another thing; what loads of them came to.

    Only some of them can be told from sound ones, so a load may also succeed.
    """
    learner.save_state(path, {"one": Anything({"a": torch.ones(2)}), "two": Anything({"b": 1})})
    try:
        content = torch.load(path, weights_only=True)
    except Exception:
        return []  # it is no plain data, which another criterion is about
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    told = []
    for way, entry in _ways(content):
        for other in (5, "x", [], *([torch.zeros(3)] if isinstance(entry, torch.Tensor) else [])):
            torch.save(_put(content, way, other), path)
            given = {"one": Anything({}), "two": Anything({})}
            random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
            random.random(), np.random.rand(), torch.rand(1)
            before = _drawn_next()
            answer = outcome(lambda given=given: learner.load_state(path, given))
            if "error" in answer:
                told.append(
                    answer | {"kept": not any(part.saved for part in given.values()) and _drawn_next() == before}
                )
    random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
    return told


def _ways(content: Any, way: tuple = ()) -> list[tuple[tuple, Any]]:
    """All entries of a checkpoint and their places; of a long list the first alone."""
    keys: list = []
    if isinstance(content, dict):
        keys = list(content)
    elif isinstance(content, (list, tuple)):
        keys = list(range(len(content) if len(content) < 20 else 1)) if len(content) else []
    return [(way, content)] * bool(way) + [one for key in keys for one in _ways(content[key], (*way, key))]


def _put(content: Any, way: tuple, other: Any) -> Any:
    """The same with another thing in one place."""
    if not way:
        return other
    if isinstance(content, dict):
        return content | {way[0]: _put(content[way[0]], way[1:], other)}
    parts = list(content)
    parts[way[0]] = _put(parts[way[0]], way[1:], other)
    return tuple(parts) if isinstance(content, tuple) else parts


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _other_world(learner: Learner, path: str, case: dict) -> dict:
    """In ranks: save; one rank of the file is loaded by a process alone. A file of one rank is loaded here."""
    run = Run(case["seed"], own_inputs()["own"])
    run.go(1)
    learner.save_state(path, run.state)
    return {"at": run.print()}


def _full(learner: Learner, path: str, case: dict) -> dict:
    """In ranks: a checkpoint, and saves that the system refuses; what is there then."""
    run, folder = Run(case["seed"], own_inputs()["own"]), os.path.dirname(path)
    run.go(1)
    at = run.print()
    learner.save_state(path, run.state)
    size, answers = os.path.getsize(path), []
    run.go(1)
    for share in case["shares"]:
        _together()
        with _limited(int(share * size)):
            answers.append(outcome(lambda: learner.save_state(path, run.state)) | {"kept": True})
        _together()
        answers[-1]["listed"] = sorted(os.listdir(folder))
    answers.append(
        outcome(lambda: learner.save_state(os.path.join(folder, "missing", _NAME), run.state)) | {"kept": True}
    )
    _together()
    answers[-1]["listed"] = sorted(os.listdir(folder))
    learner.load_state(path, run.state)
    return {"at": at, "answers": answers, "loaded": run.print()}


def _one_rank(learner: Learner, path: str, case: dict) -> dict:
    """In ranks: a save, and nothing else crosses."""
    run = Run(case["seed"], own_inputs()["own"])
    learner.save_state(path, run.state)
    return {"at": run.print()}


class Unsaid(Sampler):
    def state_dict(self) -> dict:
        raise RuntimeError("no state")


def _told(learner: Learner, path: str, case: dict) -> dict:
    """In ranks: a checkpoint; a save in which one rank's object raises, and one in which whoever renames has no memory left."""
    run, folder, rank = Run(case["seed"], own_inputs()["own"]), os.path.dirname(path), dist.get_rank()
    run.go(1)
    at = run.print()
    learner.save_state(path, run.state)
    run.go(1)
    answers = []
    for broken in (0, case["world"] - 1):
        state = run.state | ({"order": Unsaid(1)} if rank == broken else {})
        answers.append(outcome(lambda state=state: learner.save_state(path, state)))
    with _no_memory_to_rename():
        answers.append(outcome(lambda: learner.save_state(path, run.state)))
    _together()
    listed = sorted(os.listdir(folder))
    learner.load_state(path, run.state)
    return {"at": at, "answers": answers, "loaded": run.print(), "listed": listed}


@contextmanager
def _no_memory_to_rename():
    """Inside the block every renaming raises MemoryError. A hook stays for good, and does nothing behind it."""
    inside = True

    def hear(name: str, arguments: tuple) -> None:
        if inside and name == "os.rename":
            raise MemoryError("no memory left")

    sys.addaudithook(hear)
    try:
        yield
    finally:
        inside = False


def _together() -> None:
    if dist.is_initialized():
        dist.barrier()


_RANKS = {"continues": _continues, "full": _full, "other_world": _other_world, "one_rank": _one_rank, "told": _told}
_ALONE = {
    "continues": _continues_alone,
    "survives": _survives,
    "disk": _on_the_disk,
    "plain": _plain,
    "refused": _refused,
}
