"""Runs of jobs, each stage once: with the same code and weights it would do the same again."""

from collections.abc import Callable, Sequence

from gpulab.capstone import measured
from gpulab.capstone.job import Job
from gpulab.capstone.report import Report

SERVES_ALONE, SERVES_TOO = ("cache", "requests", "tokens"), ("precision", "attention", "blocks")
"""Parts that only serving has, and those that it shares with training."""


class Remembered:
    """A job on the virtual card. All of them share what they remember."""

    _stages: dict[object, object] = {}

    def __init__(self, job: Job) -> None:
        self._job = job

    def run(self, changes: Sequence[str] = ()) -> Report:
        """As :meth:`Job.run`."""
        code = self._job.code(changes)
        training = tuple((part, code[part]) for part in sorted(code) if part not in SERVES_ALONE)
        trained = self._once(training, lambda: self._job.train(changes))
        weights = hash(b"".join(tensor.numpy().tobytes() for tensor in trained.weights.values()))
        serving = weights, *((part, code[part]) for part in (*SERVES_ALONE, *SERVES_TOO))
        return measured.report(trained, self._once(serving, lambda: self._job.serve(trained.weights, changes)))

    def _once(self, key: object, stage: Callable[[], object]):
        if key not in self._stages:
            self._stages[key] = stage()
        return self._stages[key]
