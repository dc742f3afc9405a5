"""Chapter "Data parallelism in depth": what the learner's functions did."""

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
    """WRITE(best_bucket): what is played, in a line."""
    given = case["x"].detach()  # WRITE(best_bucket): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.best_bucket(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def epoch_indices(learner: Learner, case: dict) -> dict:
    """WRITE(epoch_indices): what is played, in a line."""
    given = case["x"].detach()  # WRITE(epoch_indices): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.epoch_indices(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


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
