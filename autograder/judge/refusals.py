"""What of the arguments that must be refused a function refuses, and what not, by kinds of reasons."""

import re
from collections.abc import Iterable

from autograder.judge.words import MOST_NAMED, joined

_VARIES = re.compile(r"`[^`]*`|-?\d[\d.,_]*(?:e[+-]?\d+)?")


def kept_and_broken(reasoned: Iterable[tuple[str, bool]], expected: str) -> str:
    """Sentences to add to the first reason that was not ``expected`` to be met in vain: which others were, and which were not.

    ``reasoned``: of each question why it must be refused, and whether it was. Reasons that differ by their numbers and
    quoted words alone are of one kind, which is kept where all of it is refused.
    """
    refused: dict[str, str] = {}
    broken: dict[str, str] = {}
    for reason, was in reasoned:
        (refused if was else broken).setdefault(_VARIES.sub("#", reason), reason)
    kept = [reason for kind, reason in refused.items() if kind not in broken]
    further = list(broken.values())[1:]
    said = [f"Nor does it raise {expected} {_where(further, 'or')}."] if further else []
    said += [f"It does {'' if further else f'raise {expected} '}{_where(kept, 'and')}."] if kept else []
    return " ".join(said)


def _where(reasons: list[str], word: str) -> str:
    named = [f"where {reason}" for reason in reasons[:MOST_NAMED]]
    if more := len(reasons) - len(named):
        named.append(f"in {more} more {'case' if more == 1 else 'cases'}")
    return joined(named, f", {word} ")
