"""The record of a run: every step, and the life of every request in the engine."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gpulab.serving.requests import Request, State


class Step(NamedTuple):
    """One step. tokens, requests: computed in it. waiting: who was left out. running: who runs in it, computed or not.
    reserved, stored: tokens that the running requests' blocks have room for, and that lie in them when it ends."""

    begin_us: float
    us: float
    tokens: int
    requests: int
    waiting: int
    running: int
    reserved: int
    stored: int
    preempted: int


@dataclass
class Outcome:
    """What became of a request. first_us: when a step first computed something of it. token_us: when each output token came.
    output: their ids, where they were computed. ended_us: when it was finished, aborted or refused. found: tokens that were
    in the cache already when it was first let in."""

    name: str
    arrival_us: float
    prompt_tokens: int
    deadline_us: float | None
    state: State = "waiting"
    first_us: float | None = None
    ended_us: float | None = None
    token_us: list[float] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    preemptions: int = 0
    found: int = 0

    @classmethod
    def of(cls, request: Request) -> "Outcome":
        return cls(request.name, request.arrival_us, request.prompt_tokens, request.deadline_us)

    @property
    def told(self) -> int:
        """Output tokens that came."""
        return len(self.token_us)

    @property
    def ttft_us(self) -> float:
        """From its arrival to its first token. Raises IndexError if none came."""
        return self.token_us[0] - self.arrival_us

    @property
    def tpot_us(self) -> float:
        """Time per output token after the first; 0 if there was one only."""
        return (self.token_us[-1] - self.token_us[0]) / max(1, self.told - 1)

    @property
    def total_us(self) -> float:
        """From its arrival to its last token."""
        return self.token_us[-1] - self.arrival_us

    @property
    def in_time(self) -> bool:
        """Finished, and by its deadline if it has one."""
        return self.state == "finished" and (self.deadline_us is None or self.total_us <= self.deadline_us)
