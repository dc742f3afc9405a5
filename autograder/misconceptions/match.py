"""Which misconceptions a wrong function shows, where that is certain: it answers exactly as their forms do. Never a guess."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Played:
    """What one function gave on a draw.

    ``facts``: by criterion, what was seen in each question of it: RIGHT, or what was wrong. ``lost``: the criteria that its
    own answers lost, without those that only require one of them.
    """

    facts: Mapping[str, tuple[Hashable, ...]]
    lost: frozenset[str]


RIGHT = "right"
"""The fact of every answer that the judge accepts, however it is written."""


def named(mine: Played, forms: Collection[tuple[str, Played]]) -> dict[str, str]:
    """For each criterion that ``mine`` lost, the key of the misconception that explains it; empty where not all are explained.

    ``forms``: ways to write misconceptions down, each with its key and what it gives on the same draw. A function that
    answers throughout as forms of one misconception do shows that one. Else each criterion that it lost is to be explained
    by one form, or by several of one key: a form explains what it loses where the function answers as it does in all of
    that, and two explanations are none.
    """
    if throughout := {key for key, its in forms if its.facts == mine.facts}:
        return dict.fromkeys(mine.lost, throughout.pop()) if len(throughout) == 1 else {}
    explained: dict[str, set[str]] = defaultdict(set)
    for key, its in forms:
        if its.lost and its.lost <= mine.lost and all(its.facts[one] == mine.facts[one] for one in its.lost):
            for criterion in its.lost:
                explained[criterion].add(key)
    if explained.keys() != mine.lost or any(len(keys) > 1 for keys in explained.values()):
        return {}
    return {criterion: keys.pop() for criterion, keys in explained.items()}
