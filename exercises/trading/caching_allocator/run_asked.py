"""E10.3 caching_allocator: what plays traces on the learner's allocators, in an interpreter of its own."""

from collections.abc import Callable
from typing import Any

from autograder.protocol.plain import plain, read

Describe = Callable[[BaseException], dict]


def asked(function: Callable, calls: str, describe: Describe) -> dict[str, Any]:
    """Traces, ``played`` each on allocators of its own."""
    return {"played": [Memories(function, *trace, describe).play() for trace in read(calls)]}


class Memories:
    """The allocators of one trace. ``look``: after each action, or once after the last."""

    def __init__(
        self, function: Callable, capacities: list[int], actions: list[list], look: bool, describe: Describe
    ) -> None:
        self._actions, self._look, self._describe = actions, look, describe
        self._taken: list[Any] = []
        self._made = [self._outcome(lambda capacity=capacity: function(capacity)) for capacity in capacities]

    def play(self) -> dict:
        """What each action gave or raised, and how its allocator stood afterwards; how all of them stand at the end."""
        if errors := [made["error"] for made in self._made if "error" in made]:
            return {"error": errors[0]}
        memories = [made["returned"] for made in self._made]
        steps = []
        for of, what, *by in self._actions:
            step = self._outcome(lambda: plain(getattr(self, f"_{what}")(memories[of], *by)))
            steps.append(step | (self._standing(memories[of]) if self._look else {}))
        return {"steps": steps, "end": [self._standing(memory) for memory in memories]}

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

    def _standing(self, memory: Any) -> dict:
        said = self._outcome(lambda: _said_by(memory))
        return {"looked": said.get("returned"), "blind": said.get("error")}

    def _outcome(self, call: Callable[[], Any]) -> dict:
        try:
            return {"returned": call()}
        except NotImplementedError:
            raise
        except Exception as error:
            return {"error": self._describe(error)}


def _said_by(memory: Any) -> dict:
    """What an allocator says of itself. Its lists are spoilt afterwards: they are the caller's."""
    segments = memory.segments()
    said = plain({"allocated": memory.allocated, "reserved": memory.reserved, "segments": segments})
    for lent in [segments, *(blocks for segment in segments for blocks in segment[2:])]:
        if isinstance(lent, list):
            lent.clear()
    return said
