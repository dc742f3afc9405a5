"""What a client asks for, and what the engine knows of it while it is there."""

from dataclasses import dataclass, field
from typing import Any, Literal

PREFIX_BLOCK = 512
"""Tokens that an id of ``Request.prefix`` stands for, as in Mooncake's traces."""

State = Literal["waiting", "running", "finished", "aborted", "refused"]


@dataclass(frozen=True)
class Request:
    """One request of a trace.

    arrival_us: when it comes. prompt: token ids, or how many they are where tokens are only counted. most: output tokens at
    most, what the client asks for. writes: after so many the model ends by itself, None for ``most``; no part of the engine
    is told. deadline_us: from its arrival to its last token. leaves_us: the client hangs up so long after its arrival.
    priority: lower goes first, for a scheduler that looks at it. prefix: ids of the prompt's blocks of ``PREFIX_BLOCK``
    tokens; an id names a block and all before it, so requests that begin with the same ids begin with the same tokens.
    whole: the prompt's tokens look at each other, so one step has to compute them all. image: what a model reads beside ids.
    Raises ValueError for an empty prompt, no output, or times before 0.
    """

    name: str
    arrival_us: float
    prompt: int | tuple[int, ...]
    most: int
    writes: int | None = None
    deadline_us: float | None = None
    leaves_us: float | None = None
    priority: int = 0
    prefix: tuple[int, ...] = ()
    whole: bool = False
    image: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.most < 1 or (self.writes is not None and not 1 <= self.writes <= self.most):
            raise ValueError(f"{self.name}: a prompt has a token, an output too, and no more than most ({self.most})")
        if self.arrival_us < 0 or any(after is not None and after <= 0 for after in (self.deadline_us, self.leaves_us)):
            raise ValueError(f"{self.name}: it arrives at 0 or later; deadline and leave come after that")

    @property
    def prompt_tokens(self) -> int:
        return self.prompt if isinstance(self.prompt, int) else len(self.prompt)

    @property
    def ends_after(self) -> int:
        """Output tokens after which it is finished."""
        return self.most if self.writes is None else self.writes


@dataclass(frozen=True, eq=False)
class Live:
    """A request in the engine: what its parts may know of it, to be read alone. Each equals itself only.

    computed: tokens, from the first on, whose keys and values are in the cache. told: output tokens so far.
    ids: of prompt and output, empty where tokens are only counted.
    """

    name: str
    arrival_us: float
    prompt_tokens: int
    most: int
    deadline_us: float | None = None
    priority: int = 0
    prefix: tuple[int, ...] = ()
    whole: bool = False
    image: Any = field(default=None, repr=False)
    ids: tuple[int, ...] = ()
    state: State = "waiting"
    computed: int = 0
    told: int = 0
    preemptions: int = 0

    @classmethod
    def of(cls, request: Request) -> "Live":
        ids = () if isinstance(request.prompt, int) else tuple(request.prompt)
        asked = ("name", "arrival_us", "prompt_tokens", "most", "deadline_us", "priority", "prefix", "whole", "image")
        return cls(**{name: getattr(request, name) for name in asked}, ids=ids)

    @property
    def tokens(self) -> int:
        """Of prompt and output, as many as there are."""
        return self.prompt_tokens + self.told

    @property
    def left(self) -> int:
        """Tokens to compute until the next one comes out: 1 while it decodes."""
        return self.prompt_tokens + self.told - self.computed

    @property
    def longest(self) -> int:
        """Tokens in the cache at most: the last output token is never read."""
        return self.prompt_tokens + self.most - 1


def change(live: Live, **values) -> None:
    """The engine's way to write to a Live; a part that assigns to one gets FrozenInstanceError."""
    for name, value in values.items():
        object.__setattr__(live, name, value)
