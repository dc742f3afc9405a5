"""What tells one wrong function from another where a ``run.py`` calls it: what was found in each case that it lost, and what came back.

Facts are digests, equal where two functions were called with the same cases, did the same and were judged alike.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import count

from autograder.core.exercise import Failure
from autograder.judge.facts import MOST_BYTES, frozen
from autograder.judge.session import CaseResult
from autograder.misconceptions.match import Played
from autograder.protocol import wire

_RECORDS = {"seen", "input_addresses", "result_addresses", "traffic", "notes", "background", "timed", "stream"}
"""Of what ran, where things lay and how long they took: a judge's sentence says what counts of them, and the rest differs."""
_A_TIME = "_us"
"""How the key of one ends: clocks begin with their process."""
_WORDS_OF_AN_EXCEPTION = 4
_RAISED = "The function raised "
_RAISES = ("raise ", "assert ")


class Observed:
    """Keeps what came back of the cases that were lost. ``numbers``: those of the cases in their draw, in the order of play."""

    def __init__(self, numbers: Iterable[int] | None = None) -> None:
        self._numbers = iter(count(1) if numbers is None else numbers)
        self._lost: deque[tuple[int, bytes, list[Failure], bool]] = deque()
        self.lost: set[str] = set()
        """The criteria that it saw lost."""
        self._facts: dict[str, list[str]] = defaultdict(list)
        self._bytes = 0
        self.over: set[int] = set()
        """The cases of which it is certain what was found."""
        self.whole = True
        """Whether that is certain of all that came back, and what a fact needs was kept."""

    def add(self, data: bytes, result: CaseResult, stopped: bool = False) -> None:
        """What came back of a case, and what was found in it. ``stopped``: it raised, so that the exercise's own judge was not asked."""
        number = next(self._numbers)
        if result.not_gradable or result.broken or result.incidents:
            self.whole = False
        else:
            self.over.add(number)
            if result.lost and self._keep(len(data)):
                self._lost.append((number, data, result.lost, stopped))
                self.lost |= {failure.criterion for failure in result.lost}

    def _keep(self, size: int) -> bool:
        self._bytes += size
        self.whole = self.whole and self._bytes <= MOST_BYTES
        return self.whole

    @property
    def facts(self) -> dict[str, list[str]]:
        """By criterion, of each case that lost it its number and a digest, which is made when it is first asked for."""
        while self._lost:
            number, data, lost, stopped = self._lost.popleft()
            given = (_stopped_by if stopped else _came_back)(wire.decode(data))
            for failure in lost:
                self._facts[failure.criterion].append(f"{number}:{_digest(_said(failure.message), given)}")
        return self._facts


def as_played(facts: Mapping[str, list[str]]) -> Played:
    return Played({name: tuple(its) for name, its in facts.items()}, frozenset(facts))


def _came_back(evidence: dict) -> Hashable:
    return frozen({key: it for key, it in evidence.items() if key not in _RECORDS and not key.endswith(_A_TIME)})


def _stopped_by(evidence: dict) -> Hashable:
    """Of what ended a case its message, too: a type has many causes, and a library says the same of one to everyone.

    What a function says where it raises itself is its writer's own.
    """
    error = evidence.get("raised")
    its_own = not isinstance(error, dict) or str(error.get("line", "")).startswith(_RAISES)
    return _came_back(evidence), "" if its_own else str(error.get("message", ""))


def number_of(fact: str) -> int:
    """Of the case in its draw, from 1."""
    return int(fact.partition(":")[0])


def _said(message: str) -> str:
    """Of an exception its type: the line and the message are the writer's own."""
    return " ".join(message.split()[:_WORDS_OF_AN_EXCEPTION]) if message.startswith(_RAISED) else message


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
