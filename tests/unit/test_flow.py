"""In how many steps messages cross: what each rank asked for counts, and not which arrived first."""

from itertools import permutations

import pytest

from exercises.collectives.ring_all_reduce.flow import Message, steps


def exchanged(world, program):
    """The messages of ``program(rank)``: a list of ("send" or "recv", peer), in the order in which the rank asks."""
    asked = [list(program(rank)) for rank in range(world)]
    arrivals = {}
    for rank, events in enumerate(asked):
        for at, (what, peer) in enumerate(events):
            if what == "recv":
                arrivals.setdefault((peer, rank), []).append(at)
    found = []
    for rank, events in enumerate(asked):
        for at, (what, peer) in enumerate(events):
            if what == "send":
                found.append(Message(rank, peer, [], at, arrivals[rank, peer].pop(0)))
    return found


def ring(rank, world=4):
    for _ in range(2 * (world - 1)):
        yield "send", (rank + 1) % world
        yield "recv", (rank - 1) % world


def straight(rank, world=4):
    for turn in [*range(1, world)] * 2:
        yield "send", (rank + turn) % world
        yield "recv", (rank - turn) % world


def one_after_another(rank, world=4):
    for _ in range(2 * (world - 1)):
        if rank:
            yield "recv", rank - 1
        yield "send", (rank + 1) % world
        if not rank:
            yield "recv", world - 1


@pytest.mark.parametrize("program", [ring, straight])
def test_all_send_at_once_in_six_steps(program):
    assert steps(exchanged(4, program)) == 6


def test_who_waits_before_it_sends_makes_the_next_one_wait():
    assert steps(exchanged(4, one_after_another)) == 24


def test_the_order_in_which_messages_arrive_changes_nothing():
    messages = exchanged(3, lambda rank: straight(rank, 3))[:6]
    assert {steps(order) for order in permutations(messages)} == {steps(messages)}


def test_two_messages_of_one_rank_are_two_steps_at_either_end():
    assert steps([Message(0, 1, [], 0, 0), Message(0, 2, [], 1, 0)]) == 2
    assert steps([Message(1, 0, [], 0, 0), Message(2, 0, [], 0, 1)]) == 2


def test_a_message_that_is_received_later_does_not_hold_the_next_one():
    late = Message(0, 1, [], 0, 1)
    assert steps([late, Message(0, 2, [], 1, 0), Message(2, 1, [], 1, 0)]) == 4


def test_nothing_takes_no_step():
    assert steps([]) == 0
