"""E10.1 choose_segments: what runs beside the learner's function."""

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint_sequential

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
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
