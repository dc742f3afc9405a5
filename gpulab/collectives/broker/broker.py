"""The broker's loop: it reads what ranks ask, answers, and writes the journal.

It runs where no rank's code does, holds no more than what passes, and believes a rank's bytes and order alone.
"""

import selectors
import socket
import time
from collections.abc import Callable, Sequence

from gpulab.collectives.broker.calls import Call, call_of, source_line
from gpulab.collectives.broker.clocks import Carrier, Clocks, Instant
from gpulab.collectives.broker.deadlock import deadlocked
from gpulab.collectives.broker.messages import asked, at, by_rank, ranks_in_words, what
from gpulab.collectives.broker.reducing import CannotReduce, combined
from gpulab.collectives.broker.rendezvous import Disagreement, Rendezvous
from gpulab.collectives.broker.store import KeyValues
from gpulab.collectives.errors import Problem
from gpulab.collectives.journal import Entry
from gpulab.collectives.wire import BadMessage, FramedSocket

OnEntry = Callable[[Entry, list[bytearray]], None]
OnProblem = Callable[[Problem], None]
OnStore = Callable[[int, str, str], None]
OnGiven = Callable[[int], None]
_FOR_THE_OTHERS_S = 0.2


class Rank:
    """One rank, seen from here."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number, self.framed = number, FramedSocket(sock)
        self.ended = False
        self.calls: dict[int, Call] = {}
        self.waits_for: int | None = None
        self.last: Call | None = None

    @property
    def awaited(self) -> Call | None:
        """The unanswered call that it waits for."""
        return None if self.waits_for is None else self.calls.get(self.waits_for)


class Broker:
    """Serves the ranks at the other ends of ``ranks``, and tells ``supervisor`` what becomes of them.

    on_entry: is told each journal entry when it is complete, before any rank is answered, and the bytes that each of
    its ranks handed in; on_problem: the first thing that went wrong; on_store: which rank asks the store for what, of which
    key; on_given: which rank asks for its next piece. Whoever starts the broker owns that record; the supervisor gets a
    copy of entries and problem. given: the pieces that each rank may ask for, one after the other (:meth:`Session.given`;
    after the last it is the last again), and no other rank hears of. ghosts: whether sizes without values may cross.
    """

    def __init__(
        self,
        ranks: list[socket.socket],
        supervisor: socket.socket,
        network: Carrier | None = None,
        on_entry: OnEntry = lambda entry, given: None,
        on_problem: OnProblem = lambda problem: None,
        on_store: OnStore = lambda rank, what, key: None,
        on_given: OnGiven = lambda rank: None,
        given: Sequence[Sequence[bytes]] = (),
        ghosts: bool = True,
    ) -> None:
        self._ranks = {number: Rank(number, sock) for number, sock in enumerate(ranks)}
        self._world_size = len(ranks)
        self._supervisor = FramedSocket(supervisor)
        self._clocks = Clocks(network or Instant())
        self._on_entry, self._on_problem, self._on_store = on_entry, on_problem, on_store
        self._on_given, self._ghosts = on_given, ghosts
        self._given = [list(pieces) for pieces in given]
        self._meetings, self._values = Rendezvous(), KeyValues()
        self._problem: Problem | None = None
        self._order = self._came = 0
        self._told_at: float | None = None

    # ---- the loop

    def serve(self) -> None:
        """Until the supervisor hangs up."""
        with selectors.DefaultSelector() as selector:
            for framed in (self._supervisor, *(rank.framed for rank in self._ranks.values())):
                selector.register(framed, selectors.EVENT_READ, framed)
            while not self._supervisor.over:
                for framed in list(key.data for key in selector.get_map().values()):
                    more = selectors.EVENT_WRITE if framed.has_more_to_send else 0
                    selector.modify(framed, selectors.EVENT_READ | more, framed)
                for key, events in selector.select(self._patience()):
                    self._attend(key.data, events)
                    if key.data.over:
                        selector.unregister(key.data)
                self._look_for_trouble()

    def _attend(self, framed: FramedSocket, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            framed.send()
        if not events & selectors.EVENT_READ:
            return
        if framed is self._supervisor:
            for meta, _ in framed.messages():
                self._gone(self._ranks[meta["rank"]], meta["how"])
        else:
            self._hear(next(rank for rank in self._ranks.values() if rank.framed is framed))

    def _hear(self, rank: Rank, all_of_it: bool = False) -> None:
        try:
            for meta, payload in rank.framed.messages(all_of_it):
                self._handle(rank, meta, payload)
        except (BadMessage, KeyError, TypeError, ValueError) as error:
            rank.framed.over = True
            self._fail(
                Problem("protocol", f"rank {rank.number} sent what is no message: {error}", (rank.number,), (None,))
            )

    def _handle(self, rank: Rank, meta: dict, payload: bytearray) -> None:
        do = meta["do"]
        if do == "post":
            self._post(rank, call_of(rank.number, meta, payload, self._world_size, self._ghosts))
        elif do == "wait":
            rank.waits_for = int(meta["number"])
        elif do == "go":
            rank.waits_for = None
        elif do == "store":
            self._store(rank, meta, payload)
        elif do == "given" and self._given:
            pieces = self._given[rank.number]
            self._on_given(rank.number)
            rank.framed.put({"number": int(meta["number"])}, [pieces.pop(0) if len(pieces) > 1 else pieces[0]])
        elif do == "raised":
            self._raised(rank, meta)
        elif do in ("print", "result", "seen"):
            rank.ended = rank.ended or do == "result"
            self._supervisor.put({"do": do, "rank": rank.number}, [payload])
        else:
            raise BadMessage(f"a wish to {do!r}")

    # ---- what ranks ask

    def _post(self, rank: Rank, call: Call) -> None:
        self._came += 1
        call.came = self._came
        rank.last = rank.calls[call.number] = call
        try:
            calls = self._meetings.join(call)
            if calls is not None:
                answers = _of_message(calls) if call.is_message else combined(calls)
                self._complete(calls, answers)
        except Disagreement as error:
            self._fail(error.problem)
        except CannotReduce as error:
            self._fail(Problem("disagreement", f"{error}{at(call.line)}", (rank.number,), (call.line,)))

    def _complete(self, calls: list[Call], answers: list) -> None:
        start, end = self._met((), calls)
        for call, answer in zip(calls, answers, strict=True):
            rank = self._ranks[call.rank]
            del rank.calls[call.number]
            rank.framed.put({"number": call.number, "start_us": start, "end_us": end}, () if call.ghost else answer)

    def _met(self, of: tuple, calls: list[Call]) -> tuple[float, float]:
        """When it starts and ends, with its entry written. of: what else tells its communicator from others."""
        first = calls[0]
        ranks = tuple(call.rank for call in calls)
        ready = tuple(call.ready_us for call in calls)
        nbytes = max(call.size for call in calls) if first.operation == "all_to_all" else first.whole
        communicator = (first.group, first.ranks, *(ranks if first.is_message else ()), *of)
        start, end = self._clocks.meet(communicator, first.operation, nbytes, ranks, ready)
        self._note(calls, ranks, ready, nbytes, start, end)
        return start, end

    def _note(self, calls: list[Call], ranks, ready, nbytes: int, start: float, end: float) -> None:
        self._order += 1
        first = calls[0]
        entry = Entry(
            order=self._order,
            operation=first.operation,
            bytes=nbytes,
            dtype=first.dtype,
            reduces=first.reduces,
            group=first.group,
            ranks=ranks,
            sent=tuple(call.size for call in calls),
            ready_us=ready,
            start_us=start,
            end_us=end,
            lines=tuple(call.line for call in calls),
            stamps=tuple(call.stamp for call in calls),
            came=tuple(call.came for call in calls),
        )
        self._on_entry(entry, [call.payload for call in calls])
        self._supervisor.put({"do": "entry", "entry": entry.to_dict()})

    def _store(self, rank: Rank, meta: dict, payload: bytearray) -> None:
        number, what, key = int(meta["number"]), str(meta["what"]), str(meta["key"])
        self._on_store(rank.number, what, key)
        self._values.ask(
            rank.number,
            what,
            key,
            bytes(payload),
            lambda value: rank.framed.put({"number": number}, [value]),
        )

    # ---- what goes wrong

    def _raised(self, rank: Rank, meta: dict) -> None:
        rank.ended, line = True, source_line(meta["line"])
        text = f"rank {rank.number} raised {meta['exception']}{at(line)}: {meta['text']}"
        problem = Problem("raised", text, (rank.number,), (line,), str(meta["exception"]), str(meta["traceback"]))
        self._fail(problem)

    def _gone(self, rank: Rank, how: str) -> None:
        """The supervisor saw the process end; what it said before that is read first."""
        if not rank.framed.over:
            self._hear(rank, all_of_it=True)
        rank.framed.over = True
        if not rank.ended:
            rank.ended = True
            last = (
                "it had asked for no collective"
                if rank.last is None
                else f"the last that it asked for was {asked(rank.last)}"
            )
            line = None if rank.last is None else rank.last.line
            self._fail(Problem("died", f"rank {rank.number} {how}: {last}.", (rank.number,), (line,)))

    def _fail(self, problem: Problem) -> None:
        """The first problem is everybody's: whoever waits hears of it."""
        if self._problem is not None:
            return
        self._problem = problem
        self._on_problem(problem)
        self._supervisor.put({"do": "problem", "problem": problem.to_dict()})
        for rank in self._ranks.values():
            if not rank.ended:
                rank.framed.put({"error": problem.text})

    def _look_for_trouble(self) -> None:
        """What cannot be mended by waiting is told once no other rank may add to it, or soon."""
        if self._problem is not None:
            return
        waiting = {
            rank.number: self._awaited_by(rank) for rank in self._ranks.values() if not rank.ended and self._waits(rank)
        }
        working = {rank.number for rank in self._ranks.values() if not rank.ended} - waiting.keys()
        lost, dispute = deadlocked(waiting, working), self._meetings.dispute()
        if not lost and dispute is None:
            return
        self._told_at = self._told_at or time.monotonic() + _FOR_THE_OTHERS_S
        if not working or time.monotonic() >= self._told_at:
            self._fail(self._deadlock(sorted(lost)) if dispute is None else dispute.problem)

    def _patience(self) -> float | None:
        if self._told_at is None or self._problem is not None:
            return None
        return max(0.0, self._told_at - time.monotonic())

    def _waits(self, rank: Rank) -> bool:
        return rank.awaited is not None or self._values.awaited_by(rank.number) is not None

    def _awaited_by(self, rank: Rank) -> set[int]:
        if rank.awaited is not None:
            return self._meetings.awaits(rank.awaited)
        # Any other rank may set the key: one that works gives hope.
        others = {r.number for r in self._ranks.values() if not r.ended and r is not rank and not self._waits(r)}
        return set() if others else {rank.number}

    def _deadlock(self, lost: list[int]) -> Problem:
        calls = [self._ranks[number].awaited for number in lost]
        said = by_rank("waits", ((number, self._waits_in_words(number)) for number in lost))
        ended = [rank.number for rank in self._ranks.values() if rank.ended]
        if ended:
            advice = f"{ranks_in_words(ended)} had returned by then. Every rank of a group must take part."
        else:
            advice = "Each waits for what another posts later: let one send first, or post all with batch_isend_irecv."
        lines = tuple(None if call is None else call.line for call in calls)
        return Problem("deadlock", f"deadlock: {said}. {advice}", tuple(lost), lines)

    def _waits_in_words(self, number: int) -> str:
        call = self._ranks[number].awaited
        if call is None:
            return f"for the key {self._values.awaited_by(number)!r} of the store (a group that not all ranks make?)"
        return f"in {what(call)}{at(call.line)}"


def _of_message(calls: list[Call]) -> list:
    return [(), [memoryview(calls[0].payload)]]
