"""Runs the learner's functions for the chapter "Profiling: finding the bottleneck" and records what they did."""

import pickle
from collections.abc import Callable

from autograder.scenario_runner import Learner
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.observed import observe
from autograder.scenarios.outcome import outcome
from autograder.scenarios.plain import plain
from autograder.scenarios.profiling_steps import profiled
from gpulab import cuda

PRELOAD = ("torch._inductor", "gpulab.cuda.device.install")
"""What PyTorch's profiler imports when it is first prepared, and the card."""


def self_times(learner: Learner, case: dict) -> dict:
    """Ask every question."""
    return _answered(learner.self_times, [(events,) for events in case["questions"]])


def diagnose(learner: Learner, case: dict) -> dict:
    """Have each trace judged."""
    traces = [
        (trace, {name: tuple(counts) for name, counts in work.items()}, ridge) for trace, work, ridge in case["traces"]
    ]
    return _answered(learner.diagnose, traces)


def _answered(function: Callable, asked: list[tuple]) -> dict:
    """The function's answers; ``called``: which libraries it called at the first question, since to watch takes time."""
    with library_calls("gpulab") as called:
        answers = [_asked(function, *asked[0])]
    answers += [_asked(function, *arguments) for arguments in asked[1:]]
    return {"answers": answers, "called": sorted(called)}


def _asked(function: Callable, *arguments: object) -> dict:
    """What a call gave; ``kept``: whether the arguments were left as they were."""
    given = pickle.loads(pickle.dumps(arguments))
    return {**_outcome(lambda: function(*given)), "kept": given == arguments}


def profile_steps(learner: Learner, case: dict) -> dict:
    """Have each plan's steps profiled, on the host or on a card that is observed."""
    if not case["observed"]:
        with cuda.use("off", quiet=True):
            return {"answers": [profiled(learner, plan) for plan in case["plans"]]}
    with cuda.use("virtual:H100", quiet=True), observe() as seen:
        answers = [profiled(learner, plan) for plan in case["plans"]]
    return {"answers": answers, "seen": seen.to_dict()}


def mfu(learner: Learner, case: dict) -> dict:
    """Ask for the utilisation of every job."""
    return {"answers": [_outcome(lambda call=call: learner.mfu(**call)) for call in case["calls"]]}


def _outcome(call: Callable[[], object]) -> dict:
    """What it returned or raised; ``is_tuple``: a tuple crosses as a list."""
    answer = outcome(lambda: plain(call()))
    return {**answer, "is_tuple": isinstance(answer.get("returned"), tuple)}
