"""The steps that ``profile_steps`` runs, and what PyTorch's profiler was told and did meanwhile."""

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import record_function

from autograder.runner.outcome import outcome
from autograder.runner.plain import plain
from autograder.runner.scenario_runner import Learner
from gpulab.compat.places import Place
from gpulab.compat.profiler import DISABLE, ENABLE, PREPARE, is_recording
from gpulab.cuda.device import state

_ASKED = {PREPARE: "prepared", ENABLE: "started", DISABLE: "stopped"}
_RANGES = ("user_annotation", "cpu_op")


class Stopped(RuntimeError):
    """What a step raises where its plan says so."""


class Steps:
    """Step number k, counted from 0, runs as many operations as ``plan["operations"][k]`` says, in a range with its mark.

    Of the products the first is of another shape, and each is an operation that calls the one which has the kernel; the
    others are ``plan["pointwise"]``. ``raised``: what came out of the step that raises.
    """

    def __init__(self, plan: dict) -> None:
        self._plan, self.calls = plan, 0
        self.recorded: list[bool] = []
        self.raised: Stopped | None = None
        self.x, self.narrow = torch.ones(8, 8, device=plan["device"]), torch.ones(8, 4, device=plan["device"])

    def __call__(self) -> None:
        number, self.calls = self.calls, self.calls + 1
        self.recorded.append(_is_recording())
        if self.calls == self._plan["stops"]:
            self.raised = Stopped(f"step {number}")
            raise self.raised
        products, others = self._plan["operations"][number] if number < len(self._plan["operations"]) else (1, 1)
        with record_function(f"{self._plan['mark']} {number}"):
            for count in range(products):
                with _listed("aten::matmul"):
                    torch.matmul(self.x, self.x if count else self.narrow)
            for _ in range(others):
                getattr(torch, self._plan["pointwise"])(self.x)


def _trace_of_card() -> Any:
    return state.device_on().trace if state.is_on() else None


def _listed(name: str) -> Any:
    """The virtual card lists an operation that has no kernel of its own only where it is told to."""
    trace = _trace_of_card()
    return trace.composite(name) if trace is not None else nullcontext()


def _is_recording() -> bool:
    """Whether PyTorch's own profiler is on, or the card's part of it."""
    return is_recording() or _trace_of_card() is not None


@contextmanager
def _noted(steps: Steps) -> Iterator[dict[str, list[int]]]:
    """After how many calls of the step the profiler was prepared, started and stopped."""
    notes: dict[str, list[int]] = {said: [] for said in _ASKED.values()}
    before = {place: place.value for place in _ASKED}

    def noting(place: Place):
        def asked(*given: Any, **options: Any) -> Any:
            notes[_ASKED[place]].append(steps.calls)
            return before[place](*given, **options)

        return asked

    for place in _ASKED:
        place.set(noting(place))
    try:
        yield notes
    finally:
        for place, function in before.items():
            place.set(function)


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """A step that is to raise, called in a thread, prints no traceback, in which its lines would be."""
    before = threading.excepthook
    threading.excepthook = lambda ended: None if ended.exc_type is Stopped else before(ended)
    try:
        yield
    finally:
        threading.excepthook = before


def profiled(learner: Learner, plan: dict) -> dict:
    """What came back, how the steps were called, and what is in the file."""
    steps = Steps(plan)
    came_out: list[BaseException] = []
    with _folder() as folder, _noted(steps) as notes, _quiet_threads():
        path = Path(folder) / "trace.json"
        numbers = [plan[name] for name in ("n", "wait", "warmup", "active")]
        answer = outcome(lambda: _kept(came_out, lambda: learner.profile_steps(lambda: steps(), *numbers, str(path))))
        left_on = _is_recording()
        if left_on:
            DISABLE.value()
        files = sorted(file.name for file in Path(folder).rglob("*") if file.is_file())
        written = outcome(lambda: _read(path, plan["mark"])) if path.is_file() else {}
    if isinstance(answer.get("returned"), dict):
        answer["returned"] = _of_operations(answer["returned"])
    as_raised = steps.raised is not None and came_out == [steps.raised]
    seen = {"calls": steps.calls, "recorded": steps.recorded, "left_on": left_on, "as_raised": as_raised, **notes}
    return {**answer, **seen, "files": files, "file": written.get("returned")}


@contextmanager
def _folder() -> Iterator[str]:
    """A new one, in which files without a folder and temporary ones are written, too, while the block runs.

    Some of PyTorch's modules make a folder of their own in it when they are imported.
    """
    with tempfile.TemporaryDirectory() as folder, chdir(folder), patch.object(tempfile, "tempdir", folder):
        yield folder


def _kept(came_out: list[BaseException], call: Callable[[], Any]) -> Any:
    """What the call gives; what it raises is put into the list, too."""
    try:
        return call()
    except BaseException as error:
        came_out.append(error)
        raise


def _of_operations(table: dict) -> object:
    """What is said of operations of PyTorch's."""
    return plain({name: pair for name, pair in dict.items(table) if type(name) is str and name.startswith("aten::")})


def _read(path: Path, mark: str) -> dict:
    """Of a trace: ranges of steps and of marks with their times, and how often each operation ran."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    ranges = [
        event for event in events if event.get("cat") in _RANGES and event["name"].startswith(("ProfilerStep#", mark))
    ]
    counted = Counter(
        event["name"] for event in events if event.get("cat") == "cpu_op" and event["name"].startswith("aten::")
    )
    kernels = sum(event.get("cat") == "kernel" for event in events)
    return {
        "ranges": [[event["name"], event["ts"], event["ts"] + event["dur"]] for event in ranges],
        "operations": dict(counted),
        "kernels": kernels,
    }
