"""Chapter "Platforms: serverless, tenancy, compliance": what the learner's functions answered, and what a pool decided."""

import pickle
from collections.abc import Callable
from numbers import Rational

from autograder.scenario_runner import Learner
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.outcome import outcome
from autograder.scenarios.plain import plain
from gpulab.platforms import replay

MOST_INSTANCES = 10_000
"""That a policy may ask for: more than any load has requests."""


def cold_start(learner: Learner, case: dict) -> dict:
    """Ask for every plan's timeline."""
    return _answered(learner.cold_start, [(plan,) for plan in case["questions"]])


def audit_network(learner: Learner, case: dict) -> dict:
    """Have every network audited. Pairs and triples come as lists, and are tuples in the notebook's own examples."""
    asked = [
        (one["graph"], {**one["policies"], "log": [tuple(entry) for entry in one["policies"]["log"]]})
        for one in case["questions"]
    ]
    return _answered(learner.audit_network, asked)


def mig_pack(learner: Learner, case: dict) -> dict:
    """Have every list of jobs packed."""
    return _answered(
        learner.mig_pack, [([tuple(job) for job in one["jobs"]], one["gpus"]) for one in case["questions"]]
    )


def _answered(function: Callable, asked: list[tuple]) -> dict:
    """The answers; ``called``: which libraries were called at the first question, since to watch takes time."""
    with library_calls("gpulab") as called:
        answers = [_asked(function, *asked[0])]
    answers += [_asked(function, *arguments) for arguments in asked[1:]]
    return {"answers": answers, "called": sorted(called)}


def _asked(function: Callable, *arguments: object) -> dict:
    """What a call gave; ``kept``: whether the arguments were left as they were."""
    given = pickle.loads(pickle.dumps(arguments))
    return {**outcome(lambda: _told(function(*given))), "kept": given == arguments}


def _told(value: object) -> object:
    """As it crosses: a set as a dictionary with its members, a fraction as a float."""
    if isinstance(value, set | frozenset):
        return {"set": [_told(member) for member in set(value)]}
    if isinstance(value, dict):
        return {key: _told(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_told(part) for part in value]
    return float(value) if isinstance(value, Rational) and not isinstance(value, int) else plain(value)


def warm_pool(learner: Learner, case: dict) -> dict:
    """Play a pool over its load; where the case says ``twice``, ask two pools one after the other, and two new ones in turn."""
    if "refused" in case:
        return {
            "answers": [outcome(lambda given=given: callable(learner.warm_pool(*given))) for given in case["refused"]]
        }
    loads = case["loads"]
    pools = [_Asked(learner.warm_pool(*load["times"])) for load in loads * (2 if case["twice"] else 1)]
    if case["twice"]:
        for asked in ([(pools[0], loads[0])], [(pools[1], loads[1])], list(zip(pools[2:], loads, strict=True))):
            _ask_in_turn(asked)
    else:
        replay(pools[0], loads[0]["arrivals"], *loads[0]["times"][:2])
    return {"decided": [pool.decided for pool in pools], "kept": all(pool.kept for pool in pools)}


class _Asked:
    """A policy whose decisions are written down; where one is no number of instances its type is, and the replay has none."""

    def __init__(self, decide: object) -> None:
        self._decide, self.decided, self.kept = decide, [], True

    def __call__(self, seen: dict) -> int:
        given = dict(seen)
        answer = plain(self._decide(given)) if callable(self._decide) else None
        self.kept = self.kept and given == seen
        is_number = type(answer) is int and 0 <= answer <= MOST_INSTANCES
        self.decided.append(answer if is_number else type(answer).__name__)
        return answer if is_number else 0


def _ask_in_turn(asked: list[tuple[_Asked, dict]]) -> None:
    """Every pool about its own load's second, with numbers that no decision changes."""
    for second in range(min(len(load["arrivals"]) for _, load in asked)):
        for pool, load in asked:
            arrived = load["arrivals"][second]
            pool(
                {
                    "second": second,
                    "arrived": arrived,
                    "busy": 3 * arrived,
                    "idle": 1,
                    "starting": 0,
                    "waiting": arrived // 2,
                }
            )
