"""Plain data exchanged by ``autograder grade`` and its workers: a job, and the result of each submission."""

from dataclasses import dataclass
from typing import Literal

Ending = Literal["graded", "skipped", "held", "failed"]


@dataclass(frozen=True)
class Job:
    """One run of ``autograder grade``. Folders are absolute and the same on every worker.

    ``folder`` is where the command was typed, ``course`` the value of ``COURSE`` there (may be
    empty), ``students`` a glob, ``options`` further options of ``nbgrader autograde``.
    ``kernel_server``: the address (JSON) of the one that all workers of this machine use; without
    one each starts its own.
    """

    assignment: str
    folder: str
    course: str = ""
    students: str = "*"
    options: tuple[str, ...] = ()
    kernel_server: str = ""


@dataclass(frozen=True)
class Graded:
    """What became of one submission.

    ``ending``: ``graded``, ``skipped`` (was graded before), ``held`` (another grader has it) or
    ``failed``. ``outcome`` is the ledger's; ``suspicious`` counts its incidents, ``flagged`` the
    places in its code that a person should look at; ``broken`` are its
    sentences about judges and scenarios; ``remark`` is its first note or the reason of a failure.
    ``seconds`` is wall time. ``why`` it was graded again, empty for the first time; ``moved``: penalties for late work that
    are other ones now. ``unexplained``: functions of which ``autograder explain`` may say more.
    """

    student: str
    ending: Ending
    outcome: str = "ran"
    score: float = 0.0
    max_score: float = 0.0
    suspicious: int = 0
    flagged: int = 0
    remark: str = ""
    seconds: float = 0.0
    broken: tuple[str, ...] = ()
    why: str = ""
    moved: tuple[str, ...] = ()
    unexplained: int = 0
