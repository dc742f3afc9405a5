"""What the grader and a judge in a process of its own say to each other."""

import msgspec

from autograder.core.exercise import Outline
from autograder.judge.session import CaseResult, Explanation, OpenCase

REQUEST_BYTES = 256
"""Of a request for a judge, ``<seed> <exercise>``, filled up with spaces."""
MEMORY_BYTES = 1 << 30
"""What a judge may take beyond what its process has when it begins."""


class Ready(msgspec.Struct, tag="ready"):
    """It can be asked."""

    outline: Outline


class Missing(msgspec.Struct, tag="missing"):
    """There is no such exercise, or none that can be imported."""

    why: str


class Next(msgspec.Struct, tag="next"):
    """Open a case."""


class Judge(msgspec.Struct, tag="judge"):
    """Judge the open case by its evidence and its events."""

    data: bytes
    events: list[bytes]


class Explain(msgspec.Struct, tag="explain"):
    """All is judged: say why these criteria were not earned."""

    lost: list[str]


class Case(msgspec.Struct, tag="case"):
    opened: OpenCase | None


class Found(msgspec.Struct, tag="found"):
    result: CaseResult


class Explained(msgspec.Struct, tag="explained"):
    why: Explanation


class Broke(msgspec.Struct, tag="broke"):
    """The exercise's own code ended the hidden tests."""

    why: str
    traceback: str


to_judge = msgspec.msgpack.Decoder(Next | Judge | Explain)
from_judge = msgspec.msgpack.Decoder(Ready | Missing | Case | Found | Explained | Broke)
