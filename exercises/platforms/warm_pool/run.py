"""E20.2 warm_pool: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.plain import plain
from autograder.runner.scenario_runner import Learner
from gpulab.platforms import replay

MOST_INSTANCES = 10_000
"""That a policy may ask for: more than any load has requests."""


def run(learner: Learner, case: dict) -> dict:
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
