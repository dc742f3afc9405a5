"""Chapter "Profiling: finding the bottleneck": what its exercises share beside the learner's functions."""

from collections.abc import Callable

from autograder.runner.outcome import outcome
from autograder.runner.plain import plain

PRELOAD = ("torch._inductor", "gpulab.cuda.device.install")
"""What PyTorch's profiler imports when it is first prepared, and the card."""


def plain_outcome(call: Callable[[], object]) -> dict:
    """What it returned or raised; ``is_tuple``: a tuple crosses as a list."""
    answer = outcome(lambda: plain(call()))
    return {**answer, "is_tuple": isinstance(answer.get("returned"), tuple)}
