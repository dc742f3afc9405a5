"""Whether sums can have come about by the messages that crossed, and in how many steps.

Every number that a rank begins with is drawn so that each sum over some of the ranks is another number. A message then
says of itself which ranks' numbers are in it, and nobody can send a sum, or have one in the end, of what
never reached him: results that were worked out elsewhere do not pass.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from autograder.judge.collective_broker import CollectiveRecord

DTYPES = {"float32": torch.float32, "float64": torch.float64, "int64": torch.int64}
Term = tuple[int, int]
"""Which element, and of which ranks, a bit for each."""


def sums(numbers: Sequence[Sequence[int]]) -> dict[int, Term] | None:
    """Of ``numbers[rank][element]`` every sum over some ranks, and what it is; None when two are the same, or one is 0."""
    found: dict[int, Term] = {}
    world = len(numbers)
    for element in range(len(numbers[0])):
        for ranks in range(1, 1 << world):
            total = sum(numbers[rank][element] for rank in range(world) if ranks >> rank & 1)
            if total in found or total == 0:
                return None
            found[total] = element, ranks
    return found


@dataclass(frozen=True)
class Message:
    """One that crossed: from whom to whom, what of it, and where each end stood among what its rank asked for."""

    sender: int
    receiver: int
    values: list[float]
    sent_at: int
    received_at: int


def message(collective: CollectiveRecord) -> Message:
    """Raises KeyError for a dtype that there is none of here."""
    entry = collective.entry
    values = torch.frombuffer(bytearray(collective.given[0]), dtype=DTYPES[entry.dtype]).tolist() if entry.bytes else []
    return Message(*entry.ranks, values, *entry.came)


def steps(messages: Sequence[Message]) -> int:
    """How many they take where a rank sends one and receives one in a step, in the order in which it asked.

    What a rank sends after it asked for a message is sent after that one came. Which message arrived first does not
    count: a rank that is given the processor sooner changes nothing.
    """
    expected, sent = _asked_for(messages), {}
    last_sent, last_received = (defaultdict(int) for _ in range(2))
    waiting = True
    while waiting:
        waiting = False
        for rank, events in expected.items():
            while events and (not events[0][1] or id(events[0][2]) in sent):
                _, is_arrival, message = events.pop(0)
                if is_arrival:
                    last_received[rank] = max(sent[id(message)], 1 + last_received[rank])
                else:
                    last_sent[rank] = sent[id(message)] = 1 + max(last_sent[rank], last_received[rank])
                waiting = True
    each_alone = sum(is_arrival for events in expected.values() for _, is_arrival, _ in events)
    return max((*last_received.values(), 0)) + each_alone


def _asked_for(messages: Sequence[Message]) -> dict[int, list[tuple[int, bool, Message]]]:
    """By rank, in the order in which it asked: (where it stood, whether it is received, the message)."""
    expected: defaultdict[int, list[tuple[int, bool, Message]]] = defaultdict(list)
    for message in messages:
        expected[message.sender].append((message.sent_at, False, message))
        expected[message.receiver].append((message.received_at, True, message))
    return {rank: sorted(events, key=lambda event: event[:2]) for rank, events in expected.items()}


class Knowledge:
    """Which sums each rank has: of its own numbers at first, and then of what it receives."""

    def __init__(self, world: int, of: dict[int, Term]) -> None:
        self._of, self._everyone = of, (1 << world) - 1
        self._has: list[defaultdict[int, set[int]]] = [
            defaultdict(lambda own=1 << rank: {own}) for rank in range(world)
        ]

    def problem(self, messages: Sequence[Message], elements: int) -> str | None:
        """Why the ranks cannot have the sums of all, or None."""
        for is_arrival, message in _in_order(messages):
            if is_arrival:
                self._learns(message)
            elif (problem := self._cannot_send(message)) is not None:
                return problem
        ranks, every = range(len(self._has)), range(elements)
        if all(self._can_have(rank, element, self._everyone) for rank in ranks for element in every):
            return None
        return (
            "A rank holds sums that cannot be computed from what it received: data of other ranks arrives by "
            "recv alone."
        )

    def _cannot_send(self, message: Message) -> str | None:
        for value in message.values:
            if value == 0:
                continue  # room that is filled up
            if value not in self._of:
                return "A message holds values that are not sums of the ranks' elements."
            if not self._can_have(message.sender, *self._of[value]):
                return "A rank sent a sum that cannot be computed from what it had received by then."
        return None

    def _learns(self, message: Message) -> None:
        for value in message.values:
            if value in self._of:
                element, ranks = self._of[value]
                self._has[message.receiver][element].add(ranks)

    def _can_have(self, rank: int, element: int, wanted: int) -> bool:
        """Whether ``wanted`` is a sum or a difference of what the rank has."""
        have = set(self._has[rank][element])
        while wanted not in have:
            more = {a | b for a in have for b in have if not a & b} | {
                a ^ b for a in have for b in have if a & b == b and a != b
            }
            if more <= have:
                return False
            have |= more
        return True


def _in_order(messages: Sequence[Message]) -> Iterator[tuple[bool, Message]]:
    """(whether it arrives, the message): sent when it was asked for; received before anything else is asked for by that rank."""
    moments = [(m.sent_at, False, m) for m in messages] + [(max(m.received_at, m.sent_at), True, m) for m in messages]
    for _, is_arrival, m in sorted(moments, key=lambda moment: moment[:2]):
        yield is_arrival, m
