"""Matches the calls of ranks into collectives and messages: who has come to which, and who is still awaited."""

from collections import defaultdict, deque
from collections.abc import Iterator

from gpulab.collectives.broker.calls import Call
from gpulab.collectives.broker.messages import asked, by_rank
from gpulab.collectives.broker.reducing import OPERATIONS
from gpulab.collectives.errors import Problem
from gpulab.collectives.wire import BadMessage


class Disagreement(Exception):
    """The ranks ask for different things."""

    def __init__(self, text: str, calls: list[Call]) -> None:
        ranks, lines = tuple(call.rank for call in calls), tuple(call.line for call in calls)
        self.problem = Problem("disagreement", text, ranks, lines)


class Rendezvous:
    """The collectives and messages that are open."""

    def __init__(self) -> None:
        self._collectives: dict[tuple, dict[int, Call]] = {}
        self._sent: defaultdict[tuple, deque[Call]] = defaultdict(deque)
        self._expected: defaultdict[tuple, deque[Call]] = defaultdict(deque)
        self._disputed: dict[int, Call] | None = None

    def join(self, call: Call) -> list[Call] | None:
        """The calls of all who take part, when ``call`` was the last; of a message the sender's first.

        Raises Disagreement for sizes that do not fit, and BadMessage for an operation that there is none of.
        """
        if call.is_message:
            return self._message(call)
        if call.operation not in OPERATIONS:
            raise BadMessage(f"an operation called {call.operation!r}")
        key = (call.group, call.ranks, call.sequence)
        calls = self._collectives.setdefault(key, {})
        calls[call.rank] = call
        if len({one.agrees_on() for one in calls.values()}) > 1:
            self._disputed = calls
        if self._disputed is not None or len(calls) < len(call.ranks):
            return None
        del self._collectives[key]
        everyone = [calls[rank] for rank in call.ranks]
        _check_sizes(everyone)
        return everyone

    def awaits(self, call: Call) -> set[int]:
        """The ranks without which ``call`` cannot be answered."""
        if call.is_message:
            return {call.peer}
        return set(call.ranks) - self._collectives.get((call.group, call.ranks, call.sequence), {}).keys()

    def dispute(self) -> Disagreement | None:
        """What the ranks that have come so far disagree about."""
        if self._disputed is None:
            return None
        everyone = [self._disputed[rank] for rank in sorted(self._disputed)]
        texts = by_rank("asks for", ((call.rank, asked(call)) for call in everyone))
        return Disagreement(
            f"the ranks disagree about collective number {everyone[0].sequence} of their group: {texts}. Every rank "
            "of a group must call the same collectives, in the same order, with the same sizes and dtypes.",
            everyone,
        )

    def _message(self, call: Call) -> list[Call] | None:
        sends = call.operation == "send"
        ends = (call.rank, call.peer) if sends else (call.peer, call.rank)
        key = (call.group, *ends, call.tag)
        (self._sent if sends else self._expected)[key].append(call)
        if not (self._sent[key] and self._expected[key]):
            return None
        pair = [self._sent[key].popleft(), self._expected[key].popleft()]
        if (pair[0].whole, pair[0].dtype) != (pair[1].whole, pair[1].dtype):
            said = by_rank("asks for", ((one.rank, asked(one)) for one in pair))
            advice = "The receiver's tensor must have the sender's number of elements and its dtype."
            raise Disagreement(f"a message and the room for it differ: {said}. {advice}", pair)
        return pair


def _check_sizes(calls: list[Call]) -> None:
    """Raises Disagreement where what one gives is not what another has room for."""
    for giver, taker, gives, takes in _pairs(calls):
        if gives != takes:
            whom = "itself" if giver is taker else f"rank {taker.rank}"
            text = (
                f"rank {giver.rank} gives {gives} bytes to {whom}, which has room for {takes}: "
                f"{by_rank('asks for', ((one.rank, asked(one)) for one in (giver, taker)))}. What a rank gives to another "
                "must be as large as the tensor that takes it."
            )
            raise Disagreement(text, [giver, taker])


def _pairs(calls: list[Call]) -> Iterator[tuple[Call, Call, int, int]]:
    """Who gives how much to whom, and who has room for how much of whom's, where that differs by rank."""
    for i, giver in enumerate(calls):
        for j, taker in enumerate(calls):
            if giver.gives and taker.takes and (giver.operation != "scatter" or giver.root == i):
                yield giver, taker, giver.gives[j], taker.takes[i]
