"""Sets of moments as lists of ``(start, end)`` pairs: sorted, apart from each other, none empty.

Every function takes pairs in any order, overlapping or empty, and gives such a list. A pair holds its
start and not its end, so that neighbours share no moment. Times are numbers in any one unit.
"""

from collections.abc import Iterable

Interval = tuple[float, float]


def union(*sets: Iterable[Interval]) -> list[Interval]:
    """The moments that are in any of the sets."""
    joined: list[list[float]] = []
    for start, end in sorted(pair for pairs in sets for pair in pairs if pair[0] < pair[1]):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return [(start, end) for start, end in joined]


def intersection(first: Iterable[Interval], second: Iterable[Interval]) -> list[Interval]:
    """The moments that are in both."""
    a, b, found = union(first), union(second), []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def subtraction(first: Iterable[Interval], second: Iterable[Interval]) -> list[Interval]:
    """The moments that are in the first and not in the second."""
    taken, left, j = union(second), [], 0
    for start, end in union(first):
        while j < len(taken) and taken[j][1] <= start:
            j += 1
        k = j
        while k < len(taken) and taken[k][0] < end:
            if start < taken[k][0]:
                left.append((start, taken[k][0]))
            start = max(start, taken[k][1])
            k += 1
        if start < end:
            left.append((start, end))
    return left


def length(pairs: Iterable[Interval]) -> float:
    """How long the union is: what is in two pairs counts once."""
    return sum(end - start for start, end in union(pairs))
