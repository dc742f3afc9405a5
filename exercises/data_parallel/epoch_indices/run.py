"""E14.3 epoch_indices: what runs beside the learner's function."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question after a seed of its own for all global generators, and look what they give afterwards."""
    answers, lists = [], []
    for question in case["questions"]:
        with _seeded(question["noise"]) as following:
            answer = outcome(
                lambda q=question: _taken(learner.epoch_indices(*q["asked"], **q["named"]), q["writes"], lists)
            )
        answers.append({**answer, "following": following})
    for entry in lists:
        entry.clear()
    return {"answers": answers}


@contextmanager
def _seeded(noise: int) -> Iterator[list]:
    """In the block the global generators are seeded. Then the list has what each gives next, and all are as before."""
    states, following = (torch.get_rng_state(), np.random.get_state(), random.getstate()), []
    torch.default_generator.manual_seed(noise)
    np.random.seed(noise)
    random.seed(noise)
    torch.rand(()), np.random.rand(), random.random()  # so that seeding them again does not restore them
    try:
        yield following
        following += [int(torch.randint(2**40, ())), int(np.random.randint(2**31 - 1)), random.randrange(2**40)]
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _taken(value: object, writes: int, lists: list[list]) -> object:
    """The lists as they are now. Their owner ``writes`` into them then, or empties them: what is kept of them is not what it was."""
    if not isinstance(value, dict):
        return value
    taken = {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    for entry in value.values():
        if isinstance(entry, list):
            entry[:] = [writes] if writes else []
            lists.append(entry)
    return taken
