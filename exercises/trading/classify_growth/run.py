"""E10.4 classify_growth: what runs beside the learner's function."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector
from exercises.trading.classify_growth.run_growth import Loop, Watch
from gpulab import cuda


def run(learner: Learner, case: dict) -> dict:
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
