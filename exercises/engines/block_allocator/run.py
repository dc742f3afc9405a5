"""E19, block_allocator: what it did."""

from collections.abc import Hashable
from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Play traces, each on allocators of its own, one after the other."""
    return {"played": [_play(learner, trace) for trace in case["traces"]]}


def _play(learner: Learner, trace: dict) -> dict:
    """What came of making the allocators, and of each action; how the action's allocator stood afterwards.

    ``changed``: whether a list that came back holds other things at the end than it held then.
    """
    made = [outcome(lambda sizes=sizes: learner.block_allocator(*sizes)) for sizes in trace["made"]]
    steps, lists = [], Lists(trace["spoils"])
    for action in trace["actions"]:
        if "returned" not in made[action["of"]]:
            steps.append({"unmade": True})
            continue
        allocator = made[action["of"]]["returned"]
        came_to = outcome(lambda: lists.kept(_asked(allocator, action)))
        steps.append(came_to | _standing(allocator, action["look"], lists))
    return {"made": [one.get("error") for one in made], "steps": steps, "changed": lists.changed()}


class Lists:
    """Those that came back. ``spoils``: they are overwritten once they are noted; they are the caller's."""

    def __init__(self, spoils: bool) -> None:
        self._spoils = spoils
        self._noted: list[tuple[list, list]] = []

    def kept(self, value: Any) -> Any:
        """A copy of a list that came back; anything else as it is."""
        kept = _plain(value)
        if isinstance(value, list) and self._spoils:
            value[:] = [-7] * (len(value) + 1)
        elif isinstance(value, list):
            self._noted.append((value, kept))
        return kept

    def changed(self) -> bool:
        return any(_plain(value) != kept for value, kept in self._noted)


def _plain(value: Any) -> Any:
    """Tuples and lists of any kind as lists, all the way down."""
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _asked(allocator: Any, action: dict) -> Any:
    """``named``: what is handed over by its parameter's name."""
    return getattr(allocator, action["what"])(*map(_name, action["by"]), **action["named"])


def _standing(allocator: Any, names: list, lists: Lists) -> dict:
    """What an allocator says of itself, and of the sequences ``names``."""

    def said() -> dict:
        tables = [[allocator.length(_name(name)), lists.kept(allocator.table(_name(name)))] for name in names]
        return {"free": allocator.free, "sequences": tables}

    looked = outcome(said)
    return {"looked": looked.get("returned"), "blind": looked.get("error")}


def _name(value: Any) -> Hashable:
    """A name as it was before it crossed: tuples arrive as lists."""
    return tuple(map(_name, value)) if isinstance(value, list) else value
