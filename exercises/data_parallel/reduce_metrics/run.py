"""E14.4 reduce_metrics: what runs beside the learner's function."""

import torch.distributed as dist

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Call it in every rank with the rank's own totals, call after call, with a barrier between two."""

    def in_rank(rank: int, world: int) -> list[dict]:
        found = []
        for number in range(case["calls"]):
            if number:
                dist.barrier()
            totals = {name: (total, count) for name, total, count in own_inputs()["totals"]}
            answer = outcome(lambda totals=totals: learner.reduce_metrics(totals))
            at_once = _pairs_of(answer.get("returned"))
            found.append({**answer, "at_once": at_once, "totals": [[name, value] for name, value in totals.items()]})
        return [
            {**answer, "returned": answer["at_once"], "later": _pairs_of(answer.get("returned"))} for answer in found
        ]

    return in_ranks(in_rank, case["world"])


def _pairs_of(value: object) -> object:
    """What a dictionary of any class holds now, as pairs: a key that is no string does not cross as one."""
    return {"pairs": [list(pair) for pair in dict.items(value)]} if isinstance(value, dict) else value
