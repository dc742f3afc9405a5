"""What parts the calls in which a function was right from those in which it was wrong, in words."""

from collections.abc import Sequence

from autograder.judge.words import MOST_NAMED, joined

Traits = dict[str, str]
"""Of one call, in a learner's words: what may decide whether it is answered rightly, and how it is in this call."""
_Calls = Sequence[tuple[Traits, bool]]


def how_many_right(right: Sequence[bool], traits: Sequence[Traits] = ()) -> str:
    """A sentence on all calls of one criterion, with what parts them; nothing where all of them are alike.

    ``traits``: of each call, or of none.
    """
    if not 0 < sum(right) < len(right):
        return ""
    where = contrast(list(zip(traits, right, strict=True))) if traits else ""
    return f"Right in {sum(right)} of {len(right)} such calls{f': {where}' if where else ''}."


def contrast(calls: _Calls) -> str:
    """Words that go on a sentence; nothing where no trait parts all of the calls. ``calls``: each with whether it was right.

    Where several traits do, all of them are named: which of them it is, the calls do not tell.
    """
    wrong, right = ([traits for traits, was in calls if was == of] for of in (False, True))
    names = [name for name in calls[0][0] if all(name in traits for traits, _ in calls)]
    parting = [name for name in names if wrong and right and not _values(wrong, name) & _values(right, name)]
    if told := _wherever(wrong, parting):
        return f"wrong wherever {told}, right elsewhere"
    if told := _wherever(right, parting):
        return f"right wherever {told}, wrong elsewhere"
    return ""


def _values(some: list[Traits], name: str) -> set[str]:
    return {traits[name] for traits in some}


def _wherever(some: list[Traits], names: list[str]) -> str:
    """What all of them share, in traits that have few values."""
    few = [name for name in names if len(_values(some, name)) <= MOST_NAMED]
    return joined([f"{name} is {joined(_in_order(some, name), ' or ')}" for name in few[:MOST_NAMED]], " and ")


def _in_order(some: list[Traits], name: str) -> list[str]:
    return list(dict.fromkeys(traits[name] for traits in some))
