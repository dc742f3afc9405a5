"""Cheating solutions to the chapter "Operating at scale: observability, failures, cost" score zero."""

import math
from itertools import cycle

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from gpulab.fleet import backfill, best_interval


def score(exercise: str, function, seed: int = 7, **others) -> float:
    name = f"operating.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function, **others}, inputs), Sampler(seed)).score


def refuse_all(*given):
    raise ValueError("no")


class AnyInteger(int):
    """Equal to every other, and neither less nor more."""

    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __hash__ = int.__hash__


class AnyNumber(float):
    """As near to whatever one likes as one likes."""

    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = __truediv__ = __rtruediv__ = lambda self, *other: self
    __hash__ = float.__hash__


class AnyDict(dict):
    __eq__ = lambda self, other: True
    __hash__ = None


def what_judges_it(*given):
    """The answer of the referee, where it can be imported."""
    from exercises.operating.gang_schedule import judge

    return judge


def nobody(metrics):
    """Nobody, and what was measured is gone."""
    metrics["tp_us"].clear()
    return None


def test_a_cheat_at_find_straggler_earns_nothing():
    ranks = cycle(range(8))
    cheats = {
        "nobody": nobody,
        "always rank 0": lambda metrics: 0,
        "one after the other": lambda metrics: next(ranks),
        "any rank": lambda metrics: AnyInteger(0),
        "all ranks": lambda metrics: list(range(len(metrics["tp_us"][0]))),
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    assert {what: score("find_straggler", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def borrowed(cost, mtbf, restart):
    return best_interval(cost, mtbf - restart)


def test_a_cheat_at_checkpoint_interval_earns_nothing():
    first = lambda offers, cost, restart: (offers[0]["name"], offers[0]["price"])
    any_price = lambda offers, cost, restart: (offers[0]["name"], AnyNumber(1.0))
    cheats = {
        "nothing": (lambda *given: None, lambda *given: None),
        "a usual one": (lambda *given: 1800.0, first),
        "for ever": (lambda *given: math.inf, first),
        "any": (lambda *given: AnyNumber(1.0), any_price),
        "not a number": (lambda *given: float("nan"), lambda offers, *given: (offers[0]["name"], float("nan"))),
        "the library's": (borrowed, first),
        "everything refused": (refuse_all, refuse_all),
        "the verdict": (what_judges_it, what_judges_it),
    }
    earned = {what: score("checkpoint_interval", one, cheapest=other) for what, (one, other) in cheats.items()}
    assert earned == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_chargeback_earns_nothing():
    cheats = {
        "nothing": lambda usage, bill: {},
        "all to nobody": lambda usage, bill: {"idle": sum(pool["cents"] for pool in bill.values())},
        "any": lambda usage, bill: AnyDict(),
        "any cents": lambda usage, bill: {
            record["team"]: AnyInteger(1) for record in usage if isinstance(record.get("team"), str)
        },
        "the bill": lambda usage, bill: bill,
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    assert {what: score("chargeback", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_gang_schedule_earns_nothing():
    cheats = {
        "nobody starts": lambda jobs, cluster: [],
        "all start on node 0": lambda jobs, cluster: [(job["name"], {0: job["gpus"]}) for job in jobs],
        "all start nowhere": lambda jobs, cluster: [(job["name"], {}) for job in jobs],
        "any": lambda jobs, cluster: [(job["name"], {0: AnyInteger(1)}) for job in jobs],
        "no jobs": lambda jobs, cluster: jobs.clear() or [],
        "the library's": lambda jobs, cluster: backfill(jobs, cluster),
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    assert {what: score("gang_schedule", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
