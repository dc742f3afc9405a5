"""E19, block_allocator: what it did."""

from collections.abc import Hashable
from numbers import Integral
from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Play traces, each on allocators of its own, one after the other."""
    return {"played": [_play(learner, trace) for trace in case["traces"]]}


def _play(learner: Learner, trace: dict) -> dict:
    """What came of making the allocators, and of each call; how the call's allocator stood afterwards.

    ``kept``: what the lists that came back hold at the end, in the order in which they came.
    """
    made = [outcome(lambda sizes=sizes: learner.block_allocator(*sizes)) for sizes in trace["made"]]
    lists = Lists(trace["lists"])
    steps = []
    for action in trace["actions"]:
        if "returned" not in made[action["of"]]:
            break
        allocator = made[action["of"]]["returned"]
        came_to = outcome(lambda: lists.sent(_asked(allocator, action)))
        looked = outcome(lambda: _looked(allocator, action["look"], lists))
        steps.append(came_to | {"looked": looked.get("returned"), "blind": looked.get("error")})
    return {"made": [one.get("error") for one in made], "steps": steps, "kept": [_plain(value) for value in lists.kept]}


class Lists:
    """Those that came back, which are the caller's: it spoils them, or keeps them, or forgets them."""

    def __init__(self, does: str) -> None:
        self._does = does
        self.kept: list[list] = []

    def sent(self, value: Any) -> Any:
        """What came back, as it was."""
        sent = _plain(value)
        if type(value) is list and self._does == "spoils":
            value[:] = [-7] * (len(value) + 1)
        elif type(value) is list and self._does == "keeps":
            self.kept.append(value)
        return sent


def _plain(value: Any) -> Any:
    """A list as a list, a tuple as what stands for one, an integer of NumPy's as Python's; anything else as it is."""
    if type(value) is list:
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in tuple.__iter__(value)]}
    return int(value) if isinstance(value, Integral) and type(value).__module__ == "numpy" else value


def _asked(allocator: Any, action: dict) -> Any:
    """``named``: what is handed over by its parameter's name."""
    return getattr(allocator, action["what"])(*map(_name, action["by"]), **action["named"])


def _looked(allocator: Any, names: list, lists: Lists) -> dict:
    """What an allocator says of itself, and of the sequences ``names``."""
    sequences = [[_plain(allocator.length(_name(name))), lists.sent(allocator.table(_name(name)))] for name in names]
    return {"free": _plain(allocator.free), "sequences": sequences}


def _name(value: Any) -> Hashable:
    """A name as it was before it crossed: tuples arrive as lists."""
    return tuple(map(_name, value)) if isinstance(value, list) else value
