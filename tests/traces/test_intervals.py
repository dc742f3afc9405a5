"""Interval arithmetic against sets of whole moments."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpulab.traces.intervals import intersection, length, subtraction, union

WHATEVER_THE_LOAD = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def moments(pairs):
    return {moment for start, end in pairs for moment in range(start, end)}


def is_tidy(pairs):
    return all(a < b for a, b in pairs) and all(x[1] < y[0] for x, y in zip(pairs, pairs[1:], strict=False))


@WHATEVER_THE_LOAD
@given(PAIRS, PAIRS)
def test_each_operation_is_that_of_sets_of_moments(first, second):
    for operation, expected in (
        (union, moments(first) | moments(second)),
        (intersection, moments(first) & moments(second)),
        (subtraction, moments(first) - moments(second)),
    ):
        found = operation(first, second)
        assert moments(found) == expected and is_tidy(union(found)) and length(found) == len(expected)


@WHATEVER_THE_LOAD
@given(PAIRS)
def test_a_union_is_sorted_apart_and_not_empty_and_of_itself_the_same(pairs):
    found = union(pairs)
    assert is_tidy(found) and union(found, pairs) == found


@WHATEVER_THE_LOAD
@given(PAIRS, PAIRS)
def test_a_set_is_what_another_leaves_of_it_and_what_it_shares(first, second):
    apart, shared = subtraction(first, second), intersection(first, second)
    assert length(apart) + length(shared) == length(first) and union(apart, shared) == union(first)


def test_neighbours_join_and_share_no_moment():
    assert union([(0, 1), (1, 2)]) == [(0, 2)] and intersection([(0, 1)], [(1, 2)]) == [] == union([(3, 3), (5, 4)])
