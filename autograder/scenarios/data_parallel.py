"""Chapter "Data parallelism in depth": what the learner's functions did."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from autograder.proctor import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.told import hand_over, observe, place


def mini_ddp(learner: Learner, case: dict) -> dict:
    """WRITE(mini_ddp): what is played, in a line."""
    given = case["x"].detach()  # WRITE(mini_ddp): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.mini_ddp(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def best_bucket(learner: Learner, case: dict) -> dict:
    """Ask every question, and look whether its lists and dictionaries stayed. Layers that are alike are one object."""
    answers = []
    for question in case["questions"]:
        alike: dict = {}
        layers = [alike.setdefault(str(layer), dict(layer)) for layer in question["layers"]]
        link, buckets = dict(question["link"]), list(question["buckets"])
        answer = outcome(lambda given=(layers, link, buckets): _by_size(learner.best_bucket(*given)))
        kept = (layers, link, buckets) == (question["layers"], question["link"], question["buckets"])
        answers.append({**answer, "kept": kept})
    return {"answers": answers}


def _by_size(value: object) -> object:
    """As it is now, its dictionaries as lists of pairs: a key that is a number does not cross as one."""
    if not isinstance(value, dict):
        return value
    return {key: _pairs(entry) if isinstance(entry, dict) else entry for key, entry in value.items()}


def _pairs(entry: dict) -> list:
    return [[size, _number(us)] for size, us in entry.items()]


def _number(number: object) -> object:
    """NumPy's float64 is a float too."""
    return float(number) if isinstance(number, float) else number


def epoch_indices(learner: Learner, case: dict) -> dict:
    """Ask every question after a seed of its own for all global generators, and look what they give afterwards."""
    answers = []
    for question in case["questions"]:
        with _seeded(question["noise"]) as following:
            answer = outcome(lambda q=question: _taken(learner.epoch_indices(*q["asked"], **q["named"])))
        answers.append({**answer, "following": following})
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


def _taken(value: object) -> object:
    """The lists as they are now. Their owner empties them then: what is kept of them is not what it was."""
    if not isinstance(value, dict):
        return value
    taken = {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    for entry in value.values():
        if isinstance(entry, list):
            entry.clear()
    return taken


def reduce_metrics(learner: Learner, case: dict) -> dict:
    """WRITE(reduce_metrics): what is played, in a line."""
    given = case["x"].detach()  # WRITE(reduce_metrics): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.reduce_metrics(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def find_desync(learner: Learner, case: dict) -> dict:
    """WRITE(find_desync): what is played, in a line."""
    given = case["x"].detach()  # WRITE(find_desync): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.find_desync(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}
