"""Ranks that wait for each other: found at once, without a timeout."""

from collections.abc import Mapping


def deadlocked(awaited: Mapping[int, set[int]], working: set[int]) -> set[int]:
    """The ranks that wait and can never be answered.

    awaited: of each rank that waits, all the ranks that must act first. working: those that wait for nobody and
    have not ended, so may still act. A rank has hope when each that it awaits works or has hope itself.
    """
    hopeful = set(working)
    grew = True
    while grew:
        new = {rank for rank, others in awaited.items() if rank not in hopeful and others <= hopeful}
        hopeful |= new
        grew = bool(new)
    return awaited.keys() - hopeful
