"""What a part can be written like: right, wrong, or as something that looks like a remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Code = dict[str, Callable]
"""By part, what runs there."""


@dataclass(frozen=True)
class Option:
    """A change that can be made: the parts that it replaces, and by what.

    ``repairs``: it is the right code of its part; else it is a decoy. ``does``: in a sentence.
    """

    name: str
    does: str
    code: Code
    repairs: bool

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.code)


@dataclass(frozen=True)
class Fault:
    """A defect of one part, as someone would write it.

    ``shows``: the figures of a :class:`gpulab.capstone.Report` that it raises, the telling one first; empty where only the
    losses tell. ``page``: of the chapter that teaches it. ``alters_loss``: the job learns something else.
    """

    name: str
    part: str
    stage: Literal["feeding", "training", "keeping", "serving"]
    page: str
    shows: tuple[str, ...]
    alters_loss: bool
    says: str
    code: Callable


RIGHT: Code = {}
OPTIONS: dict[str, Option] = {}
FAULTS: dict[str, Fault] = {}


def right(name: str, does: str) -> Callable[[Callable], Callable]:
    """The function below is the right code of the part that has its name."""

    def keep(code: Callable) -> Callable:
        RIGHT[code.__name__] = code
        OPTIONS[name] = Option(name, does, {code.__name__: code}, repairs=True)
        return code

    return keep


def fault(
    name: str, part: str, stage: str, page: str, shows: tuple[str, ...], says: str, alters_loss: bool = False
) -> Callable[[Callable], Callable]:
    """The function below is what is wrong in ``part``."""

    def keep(code: Callable) -> Callable:
        FAULTS[name] = Fault(name, part, stage, page, shows, alters_loss, says, code)
        return code

    return keep


def decoy(name: str, does: str, *parts: str) -> Callable[[Callable], Callable]:
    """The function below replaces ``parts``, and repairs none: it is called with what the part is called with."""

    def keep(code: Callable) -> Callable:
        OPTIONS[name] = Option(name, does, dict.fromkeys(parts, code), repairs=False)
        return code

    return keep
