"""Runs the learner's functions for the chapter "Trading and debugging memory" and records what they did."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint_sequential

from autograder.scenario_runner import Learner
from autograder.scenarios.autograd import no_collector
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.observed import observe
from autograder.scenarios.outcome import outcome
from autograder.scenarios.trading_accumulate import accumulate as accumulate
from autograder.scenarios.trading_growth import Loop, Watch
from gpulab import cuda

PRELOAD = ("torch._dynamo",)
"""What ``torch.utils.checkpoint`` imports when it is first used."""


def choose_segments(learner: Learner, case: dict) -> dict:
    """Ask every question; run a real chain with the answer where the question says so."""
    answers, measured = [], []
    for question in case["questions"]:
        n, *sizes = asked = question["asked"]
        sizes = [size << question["shift"] for size in sizes]
        answers.append(outcome(lambda n=n, sizes=sizes: learner.choose_segments(n, *sizes)))
        measured.append(_run_chain(asked, answers[-1].get("returned")) if question["run"] else None)
    return {"answers": answers, "measured": measured}


class _Layer(nn.Module):
    """Saves its input and what is inside. Each call notes both."""

    def __init__(self, outer: int, inner: int, calls: list) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.ones(outer, inner)), nn.Parameter(torch.ones(inner, outer))
        self.calls = calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.tanh(x @ self.up)
        self.calls.append({StorageWeakRef(saved.untyped_storage()): saved.nbytes for saved in (x, wide)})
        return x + wide @ self.down


def _run_chain(asked: list[int], segments: object) -> dict | None:
    """Layers run again in a step, and bytes held when its forward ends; None of what is no number of segments."""
    n, act, ckpt, _ = asked
    if type(segments) is not int or not 1 <= segments <= n:
        return None
    calls: list[dict] = []
    layers = nn.Sequential(*(_Layer(ckpt // 4, (act - ckpt) // 4, calls) for _ in range(n)))
    y = checkpoint_sequential(layers, segments, torch.ones(1, ckpt // 4), use_reentrant=False)
    saved = {storage: nbytes for call in calls for storage, nbytes in call.items() if not storage.expired()}
    y.sum().backward()
    return {"again": len(calls) - n, "held": sum(saved.values())}


def caching_allocator(learner: Learner, case: dict) -> dict:
    """Play traces, each on allocators of its own; which libraries were called meanwhile."""
    with library_calls("torch", "numpy", "gpulab") as called:
        played = [Memories(learner, trace).play() for trace in case["traces"]]
    return {"played": played, "called": sorted(called)}


class Memories:
    """The allocators of one trace. ``look``: after each action, or once after the last."""

    def __init__(self, learner: Learner, trace: dict) -> None:
        self._trace, self._taken = trace, []
        self._made = [
            outcome(lambda capacity=capacity: learner.caching_allocator(capacity)) for capacity in trace["capacities"]
        ]

    def play(self) -> dict:
        """What each action gave or raised, and how its allocator stood afterwards; how all of them stand at the end."""
        if errors := [made["error"] for made in self._made if "error" in made]:
            return {"error": errors[0]}
        steps = []
        for of, what, *by in self._trace["actions"]:
            memory = self._made[of]["returned"]
            step = outcome(lambda memory=memory, what=what, by=by: getattr(self, f"_{what}")(memory, *by))
            steps.append(step | (_standing(memory) if self._trace["look"] else {}))
        return {"steps": steps, "end": [_standing(made["returned"]) for made in self._made]}

    def _malloc(self, memory: Any, size: int) -> Any:
        self._taken.append(None)
        self._taken[-1] = memory.malloc(size)
        return self._taken[-1]

    def _free(self, memory: Any, number: int, beyond: int) -> None:
        """What the trace's ``number``-th malloc gave, or so many bytes beyond."""
        memory.free(self._taken[number] + beyond)

    def _free_at(self, memory: Any, address: int) -> None:
        memory.free(address)

    def _empty_cache(self, memory: Any) -> None:
        memory.empty_cache()


def _standing(memory: Any) -> dict:
    """What an allocator says of itself. Its lists are spoilt afterwards: they are the caller's."""

    def asked() -> dict:
        segments = memory.segments()
        said = {"allocated": memory.allocated, "reserved": memory.reserved, "segments": _lists(segments)}
        for lent in [segments, *(blocks for segment in segments for blocks in segment[2:])]:
            if isinstance(lent, list):
                lent.clear()
        return said

    said = outcome(asked)
    return {"looked": said.get("returned"), "blind": said.get("error")}


def _lists(value: Any) -> Any:
    """Tuples of any kind as lists, all the way down."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def classify_growth(learner: Learner, case: dict) -> dict:
    """Have each loop judged, on a card that holds and reserves nothing else, while Python's collector rests."""
    watching = observe() if case["observed"] else nullcontext()
    with cuda.use("virtual:H100", quiet=True), no_collector(), _notebook_out_of_reach(), watching as seen:
        answers = [_judged_loop(learner, plan) for plan in case["loops"]]
    return {"answers": answers, **({"seen": seen.to_dict()} if case["observed"] else {})}


@contextmanager
def _notebook_out_of_reach() -> Iterator[None]:
    """A full collection looks at what is made inside the block alone: one a step would otherwise take minutes in all."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _judged_loop(learner: Learner, plan: dict) -> dict:
    """What came back, and what the card held and was asked for meanwhile."""
    collected: list[str] = []
    heard = lambda phase, _: collected.append(phase)
    gc.collect(0)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    loop = Loop(plan)
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    watch = Watch(loop)
    gc.callbacks.append(heard)
    try:
        answer = outcome(lambda: learner.classify_growth(lambda: watch.step(), plan["steps"]))
    finally:
        gc.callbacks.remove(heard)
    if isinstance(answer.get("returned"), tuple):
        answer["returned"] = list(answer["returned"])
    return {**answer, **watch.found(), "collected": len(collected)}
