"""Gates in a process that has imported what they need and nothing else.

A fork copies the page tables of its process, and one gate forks thousands of times. Pytest's own process holds all that was
collected: 35 ranks forked from it take twice the time of 35 forked from this one.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context, set_start_method
from pathlib import Path

import torch

from autograder.authoring.bench import Bench, benches_of
from autograder.authoring.gates import GATES
from tests.costs import already_charged, processor_seconds

EXERCISES = Path(__file__).parents[2] / "exercises"


class SmallProcess:
    """A new one for each exercise: what its gates import and leave behind makes a process grow, to 2 GB after forty."""

    def __init__(self) -> None:
        self._exercise, self._executor = "", None

    def found_by(self, gate: str, exercise: str) -> tuple[list[str], float]:
        if exercise != self._exercise:
            self.close()
            self._exercise = exercise
            self._executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)
        return self._executor.submit(found_by, gate, exercise).result()

    def close(self) -> None:
        if self._executor is not None:
            with already_charged():
                self._executor.shutdown()


def found_by(gate: str, exercise: str) -> tuple[list[str], float]:
    """What the gate says of the exercise, and the seconds of processor time that it took."""
    began = processor_seconds()
    check = next(check for check in GATES if check.__name__ == gate)
    return list(check(_benches(exercise.partition(".")[0])[exercise])), processor_seconds() - began


@cache
def _benches(chapter: str) -> dict[str, Bench]:
    return {bench.name: bench for bench in benches_of(EXERCISES / chapter)}


def _begin() -> None:
    """One thread, as in pytest's process; loaders fork their workers, as in a kernel; what attempts print is nobody's."""
    set_start_method("fork", force=True)
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
