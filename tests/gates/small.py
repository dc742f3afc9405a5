"""The gates of an exercise in a process of its own, forked from a server that has imported what they need and nothing else.

A fork copies the page tables of its process, and one gate may fork hundreds of times. pytest's own process holds all that was
collected: 35 ranks forked from it take twice the time of 35 forked from a small one. And what an exercise's gates import and
leave behind makes a process grow, to 2 GB after forty. A new interpreter for each exercise spent 6 s of processor time on its
imports; a fork of this server spends a tenth of a second.
"""

import os
from multiprocessing import set_start_method
from pathlib import Path

import torch

from autograder.authoring.authored import AuthoredExercise, Unreadable, authored_in
from autograder.authoring.gates import (
    attempts_are_on_record,
    attempts_were_tried_with_many_seeds,
    gate,
    mutants_were_tried,
)
from tests.costs import processor_seconds
from tests.forks import in_a_fork
from tests.gates.audit_pending import NOT_YET_MUTATED, NOT_YET_WITH_MANY_SEEDS

EXERCISES = Path(__file__).parents[2] / "exercises"
NOT_YET = {mutants_were_tried: NOT_YET_MUTATED, attempts_were_tried_with_many_seeds: NOT_YET_WITH_MANY_SEEDS}


def found_in(exercise: str) -> tuple[list[str], float]:
    """What is wrong with it, in sentences, and the seconds of processor time that it took to see.

    The process is a child of the server's and not of this one: it says itself what it took.
    """
    try:
        return in_a_fork(_find, exercise)
    except EOFError:
        return [f"{exercise}: the process of its gates ended before it was done; what it wrote is above"], 0.0


def _find(exercise: str) -> tuple[list[str], float]:
    _begin()
    return found(exercise), processor_seconds()


def _begin() -> None:
    """One thread, as in pytest's process; loaders fork their workers, as in a kernel; what attempts print is nobody's."""
    set_start_method("fork", force=True)
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def found(exercise: str) -> list[str]:
    """Where an attempt is not on record, that alone: to try them all takes minutes, and the command that does it is said."""
    try:
        authored = next(
            authored for authored in authored_in(EXERCISES / exercise.partition(".")[0]) if authored.name == exercise
        )
    except Unreadable as why:
        return [str(why)]
    return list(attempts_are_on_record(authored)) or [*gate(authored), *_left_to_try(authored)]


def _left_to_try(authored: AuthoredExercise) -> list[str]:
    found = {check: list(check(authored)) for check in NOT_YET}
    tried = [
        f"{check.__name__}: take it from tests/gates/audit_pending.py"
        for check in NOT_YET
        if authored.name in NOT_YET[check] and not found[check]
    ]
    return tried + [problem for check in NOT_YET if authored.name not in NOT_YET[check] for problem in found[check]]
