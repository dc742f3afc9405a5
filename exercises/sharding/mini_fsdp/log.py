"""E15.2: what each rank did in each pass, in the order in which the broker heard it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.judge.collective_broker import CollectiveRecord
from autograder.judge.ranks import Launch, launches_of, marker_of

BOUNDARY = -1


@dataclass
class Pass:
    """A pass of one rank: what was launched, and what the card held when each unit's forward or backward began.

    ``forward``: by the unit's number, how often it began. ``held``: number told, bytes on the card, place.
    """

    forward: Counter[int] = field(default_factory=Counter)
    held: list[tuple[int, int, int]] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    ended: int = 0
    left: int = 0
    """Bytes on the card when the pass was over."""


@dataclass
class RankLog:
    """A rank's passes. ``before``: what it launched before the first; ``held``: bytes on the card then."""

    before: list[Launch] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    held: int = 0


def log_of_rank(collectives: Sequence[CollectiveRecord], rank: int) -> RankLog:
    """What ``rank`` did, in order."""
    found, now, begun = RankLog(), Pass(), False
    for launch in launches_of(collectives, rank):
        if (alone := marker_of(launch, 2)) is None:
            (now.launches if begun else found.before).append(launch)
            continue
        number, held = alone
        if number != BOUNDARY:
            now.forward[number // 2] += number % 2 == 0
            now.held.append((number, held, launch.at))
        elif begun:
            now.ended, now.left = launch.at, held
            found.passes.append(now)
            now = Pass()
        else:
            found.held, begun = held, True
    return found
