"""Chapter "Data parallelism in depth": what the learner's functions did."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist

from autograder.proctor import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.ranks import in_ranks, own_inputs
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
    """Call it in every rank with the rank's own totals, call after call, with a barrier between two."""

    def in_rank(rank: int, world: int) -> list[dict]:
        found = []
        for number, entries in enumerate(own_inputs()["calls"]):
            if number:
                dist.barrier()
            totals = {name: (total, count) for name, total, count in entries}
            answer = outcome(lambda totals=totals: learner.reduce_metrics(totals))
            found.append({**answer, "totals": [[name, value] for name, value in totals.items()]})
        return [{**answer, **_plain(answer)} for answer in found]

    return in_ranks(in_rank, case["world"])


def _plain(answer: dict) -> dict:
    """A dictionary of any class as one of Python's own. Asked after the last call, which may have written to it."""
    returned = answer.get("returned")
    return {"returned": dict(returned)} if isinstance(returned, dict) else {}


def find_desync(learner: Learner, case: dict) -> dict:
    """Ask every question; give what the logs are after it, too."""
    answers = []
    for question in case["questions"]:
        answer = outcome(lambda logs=question["logs"]: _told(learner.find_desync(logs)))
        answers.append({**answer, "logs": question["logs"]})
    return {"answers": answers}


def _told(value: object) -> object:
    """As it is, but for keys that are no strings: they would become strings on the way."""
    if not isinstance(value, dict):
        return value
    return {key: {"items": [*map(list, part.items())]} if isinstance(part, dict) else part for key, part in value.items()}
