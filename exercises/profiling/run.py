"""Chapter "Profiling: finding the bottleneck": what its exercises share beside the learner's functions."""

import pickle
from collections.abc import Callable

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome
from autograder.runner.plain import plain

PRELOAD = ("torch._inductor", "gpulab.cuda.device.install")
"""What PyTorch's profiler imports when it is first prepared, and the card."""


def ask_all(function: Callable, asked: list[tuple]) -> dict:
    """The function's answers; ``called``: which libraries it called at the first question, since to watch takes time."""
    with library_calls("gpulab") as called:
        answers = [ask(function, *asked[0])]
    answers += [ask(function, *arguments) for arguments in asked[1:]]
    return {"answers": answers, "called": sorted(called)}


def ask(function: Callable, *arguments: object) -> dict:
    """What a call gave; ``kept``: whether the arguments were left as they were."""
    given = pickle.loads(pickle.dumps(arguments))
    return {**plain_outcome(lambda: function(*given)), "kept": given == arguments}


def plain_outcome(call: Callable[[], object]) -> dict:
    """What it returned or raised; ``is_tuple``: a tuple crosses as a list."""
    answer = outcome(lambda: plain(call()))
    return {**answer, "is_tuple": isinstance(answer.get("returned"), tuple)}
