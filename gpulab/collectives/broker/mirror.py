"""A broker for ranks of a job whose others are not there: each other rank is taken to do as the one that asks.

Structure, bytes and times of a rank among many are those of the whole job where all ranks do alike; values are not: what
would come from another rank is what this one gave. Nobody waits for anybody.
"""

import socket
from dataclasses import replace

from gpulab.collectives.broker.broker import Broker, Rank
from gpulab.collectives.broker.calls import Call
from gpulab.collectives.broker.clocks import Carrier
from gpulab.collectives.broker.reducing import OPERATIONS, combined
from gpulab.collectives.broker.store import KeyValues
from gpulab.collectives.wire import BadMessage


class Mirror(Broker):
    """Serves ``ranks``, by their numbers in a job of ``world_size``. Its journal has an entry for each rank's part."""

    def __init__(
        self, ranks: dict[int, socket.socket], world_size: int, supervisor: socket.socket, network: Carrier
    ) -> None:
        super().__init__([], supervisor, network)
        self._ranks = {number: Rank(number, sock) for number, sock in ranks.items()}
        self._world_size = world_size
        self._stores = {number: _Obliging() for number in ranks}

    def _post(self, rank: Rank, call: Call) -> None:
        rank.last = rank.calls[call.number] = call
        if call.is_message:
            self._message(rank, call)
        elif call.operation in OPERATIONS:
            others = [replace(call, rank=number) for number in call.ranks]
            mine = call.ranks.index(rank.number)
            answer = _room_filled(call, b"".join(combined(_as_roots(others))[mine])) if not call.ghost else b""
            self._answer(rank, others, [answer])
        else:
            raise BadMessage(f"an operation called {call.operation!r}")

    def _message(self, rank: Rank, call: Call) -> None:
        other = replace(call, rank=call.peer)
        ends = [call, other] if call.operation == "send" else [other, call]
        nothing = call.ghost or call.operation == "send"
        self._answer(rank, [replace(end, operation="send") for end in ends], [b"" if nothing else bytes(call.whole)])

    def _answer(self, rank: Rank, calls: list[Call], answer: list) -> None:
        own = next(call for call in calls if call.rank == rank.number)
        del rank.calls[own.number]
        start, end = self._met((rank.number,), calls)
        rank.framed.put({"number": own.number, "start_us": start, "end_us": end}, answer)

    def _store(self, rank: Rank, meta: dict, payload: bytearray) -> None:
        self._stores[rank.number].ask(
            rank.number,
            str(meta["what"]),
            str(meta["key"]),
            bytes(payload),
            lambda value: rank.framed.put({"number": int(meta["number"])}, [value]),
        )

    def _look_for_trouble(self) -> None:
        """Nobody waits for anybody."""


class _Obliging(KeyValues):
    """A key that nobody has set is there, and empty."""

    def ask(self, rank, what, key, value, answer) -> None:
        if what == "get" and key not in self._values:
            self._values[key] = b""
        super().ask(rank, what, key, value, answer)


def _as_roots(calls: list[Call]) -> list[Call]:
    """All have what a root would have given: a rank that is none has given nothing."""
    first = calls[0]
    if first.operation == "broadcast" and not first.payload:
        return [replace(call, payload=bytearray(call.whole)) for call in calls]
    if first.operation == "scatter" and not first.payload:
        share = first.whole // len(calls)
        return [replace(call, payload=bytearray(call.whole), gives=(share,) * len(calls)) for call in calls]
    return calls


def _room_filled(call: Call, answer: bytes) -> bytes:
    """Of the size that the rank has room for, where what others give is not as large as its own."""
    due = sum(call.takes) if call.operation == "all_to_all" else len(answer)
    return answer[:due].ljust(due, b"\0")
