"""E10.3 caching_allocator: what runs beside the learner's function."""

from typing import Any

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Play traces, each on allocators of its own; which libraries were called meanwhile."""
    with library_calls("torch", "numpy", "gpulab") as called:
        played = [Memories(learner, trace).play() for trace in case["traces"]]
    return {"played": played, "called": sorted(called)}


class Memories:
    """The allocators of one trace. ``look``: after each action, or once after the last."""

    def __init__(self, learner: Learner, trace: dict) -> None:
        self._trace, self._taken = trace, []
        self._made = [
            outcome(lambda capacity=capacity: learner.caching_allocator(capacity)) for capacity in trace["capacities"]
        ]

    def play(self) -> dict:
        """What each action gave or raised, and how its allocator stood afterwards; how all of them stand at the end."""
        if errors := [made["error"] for made in self._made if "error" in made]:
            return {"error": errors[0]}
        steps = []
        for of, what, *by in self._trace["actions"]:
            memory = self._made[of]["returned"]
            step = outcome(lambda memory=memory, what=what, by=by: getattr(self, f"_{what}")(memory, *by))
            steps.append(step | (_standing(memory) if self._trace["look"] else {}))
        return {"steps": steps, "end": [_standing(made["returned"]) for made in self._made]}

    def _malloc(self, memory: Any, size: int) -> Any:
        self._taken.append(None)
        self._taken[-1] = memory.malloc(size)
        return self._taken[-1]

    def _free(self, memory: Any, number: int, beyond: int) -> None:
        """What the trace's ``number``-th malloc gave, or so many bytes beyond."""
        memory.free(self._taken[number] + beyond)

    def _free_at(self, memory: Any, address: int) -> None:
        memory.free(address)

    def _empty_cache(self, memory: Any) -> None:
        memory.empty_cache()


def _standing(memory: Any) -> dict:
    """What an allocator says of itself. Its lists are spoilt afterwards: they are the caller's."""

    def asked() -> dict:
        segments = memory.segments()
        said = {"allocated": memory.allocated, "reserved": memory.reserved, "segments": _lists(segments)}
        for lent in [segments, *(blocks for segment in segments for blocks in segment[2:])]:
            if isinstance(lent, list):
                lent.clear()
        return said

    said = outcome(asked)
    return {"looked": said.get("returned"), "blind": said.get("error")}


def _lists(value: Any) -> Any:
    """Tuples of any kind as lists, all the way down."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value
