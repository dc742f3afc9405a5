"""A serving engine as a case describes it: the same in the learner's process, where a scheduler plans, and in the referee."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpulab.serving import Budget, Clock, Engine, Linear, Paged, Request, Scheduler


def engine_of(play: dict, scheduler: Scheduler) -> Engine:
    """play: ``trace``, the fields of its requests; ``blocks``, total and size; ``budget``, tokens and requests of a step;
    ``clock``, as of :func:`clock_of`."""
    engine = Engine(scheduler, Paged(*play["blocks"]), clock_of(play), budget=Budget(*play["budget"]))
    for fields in play["trace"]:
        engine.submit(Request(**fields))
    return engine


def clock_of(play: dict) -> Clock:
    """``clock``: the three numbers of :class:`gpulab.serving.Linear`, or these and the two more of :class:`Tiled`."""
    numbers = play["clock"]
    return Tiled(Linear(*numbers[:3]), *numbers[3:]) if numbers[3:] else Linear(*numbers)


@dataclass(frozen=True)
class Tiled:
    """``linear``, and ``request`` microseconds for each request; tokens are computed ``tile`` at a time, and a part of a tile
    takes as long as a whole one."""

    linear: Linear
    request: float = 0.0
    tile: int = 1

    def step_us(self, work: Sequence[tuple[int, int]]) -> float:
        """As a clock's."""
        idle = -sum(new for new, _ in work) % self.tile
        return self.linear.step_us(work) + self.linear.token * idle + self.request * len(work)
