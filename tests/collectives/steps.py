"""Collectives as single messages between ports, timed one by one: what the closed forms are held to.

Knows no formula. A message waits for those before it, then for the port that it leaves by and the one that it arrives at;
it holds both for as long as its bytes take, and arrives one latency later.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    source: int
    target: int
    nbytes: float
    after: tuple[int, ...] = ()
    chunk: int = 0
    phase: str = ""


@dataclass
class Wires:
    """Ranks on nodes of ``each``; ``ports`` network ports a node. Latency in seconds, bandwidth in bytes a second."""

    each: int
    inside: tuple[float, float]
    between: tuple[float, float] = (0.0, 1.0)
    ports: int = 0
    free: dict = field(default_factory=lambda: defaultdict(float))

    def run(self, messages: list[Message]) -> float:
        """Seconds until the last has arrived. Those that could start first, do."""
        arrived: dict[int, float] = {}
        waiting = list(range(len(messages)))
        while waiting:
            able = [
                (self._start(messages[i], arrived), i) for i in waiting if all(a in arrived for a in messages[i].after)
            ]
            start, chosen = min(able)
            arrived[chosen] = self._send(messages[chosen], start)
            waiting.remove(chosen)
        return max(arrived.values())

    def _start(self, m: Message, arrived: dict[int, float]) -> float:
        ready = max((arrived[a] for a in m.after), default=0.0)
        return max(ready, *(self.free[port] for port in self._held(m)))

    def _send(self, m: Message, start: float) -> float:
        latency, rate = self.between if self._crosses(m) else self.inside
        for port in self._held(m):
            self.free[port] = start + m.nbytes / rate
        return start + latency + m.nbytes / rate

    def _crosses(self, m: Message) -> bool:
        return m.source // self.each != m.target // self.each

    def _held(self, m: Message) -> tuple:
        crosses = self._crosses(m)
        return ("out", self._port(m.source, crosses)), ("in", self._port(m.target, crosses))

    def _port(self, rank: int, crosses: bool):
        node, local = divmod(rank, self.each)
        return ("port", node, local * (self.ports or self.each) // self.each) if crosses else ("gpu", rank)


def ring_steps(
    ranks: list[int], nbytes: float, hops: int, messages: list[Message] | None = None, after=None
) -> list[Message]:
    """Chunk c begins at rank c and goes so many hops round. ``after``: by chunk, what must have arrived before its first hop."""
    n, messages = len(ranks), messages if messages is not None else []
    last = {chunk: tuple((after or {}).get(chunk, ())) for chunk in range(n)}
    for hop in range(hops):
        for chunk in range(n):
            source, target = ranks[(chunk + hop) % n], ranks[(chunk + hop + 1) % n]
            messages.append(Message(source, target, nbytes / n, last[chunk], chunk))
            last[chunk] = (len(messages) - 1,)
    return messages


def sums_by_ring(ranks: int) -> list[list[set[int]]]:
    """What each rank holds of each chunk in the end, as the set of those that were added, of an all-reduce by ``ring_steps``."""
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    for step, m in enumerate(ring_steps(list(range(ranks)), 1.0, 2 * (ranks - 1))):
        reducing = step // ranks < ranks - 1
        given = held[m.source][m.chunk]
        held[m.target][m.chunk] = held[m.target][m.chunk] | given if reducing else set(given)
    return held


def doubling(ranks: int, nbytes: float) -> list[Message]:
    """All-gather: in each round every rank sends all that it has to the one whose number differs in one bit."""
    messages, last = [], {rank: () for rank in range(ranks)}
    reach = 1
    while reach < ranks:
        now = {}
        for rank in range(ranks):
            messages.append(Message(rank, rank ^ reach, reach * nbytes / ranks, last[rank]))
            now[rank ^ reach] = (len(messages) - 1,)
        last, reach = {rank: last[rank] + now[rank] for rank in range(ranks)}, 2 * reach
    return messages


def parents(ranks: int, second: bool) -> dict[int, int]:
    """A binary tree with rank 0 at its root and every odd rank a leaf; the second is its mirror image."""
    up = {}
    for rank in range(1, ranks):
        bit = rank & -rank
        above = (rank ^ bit) | (bit << 1)
        up[rank] = above if above < ranks else rank ^ bit
    return {ranks - 1 - child: ranks - 1 - above for child, above in up.items()} if second else up


def double_tree(ranks: int, nbytes: float, pieces: int) -> list[Message]:
    """All-reduce: half of the bytes up and down either tree, in so many pieces."""
    messages: list[Message] = []
    for piece in range(pieces):
        for second in (False, True):
            _up_and_down(parents(ranks, second), nbytes / 2 / pieces, messages)
    return messages


def _up_and_down(up: dict[int, int], nbytes: float, messages: list[Message]) -> None:
    children = defaultdict(list)
    for child, above in up.items():
        children[above].append(child)
    root = next(iter(set(up.values()) - set(up)))
    came: dict[int, int] = {}

    def climb(rank: int) -> None:
        for child in children[rank]:
            climb(child)
        if rank != root:
            messages.append(Message(rank, up[rank], nbytes, tuple(came[c] for c in children[rank]), phase="up"))
            came[rank] = len(messages) - 1

    def descend(rank: int, after: tuple[int, ...]) -> None:
        for child in children[rank]:
            messages.append(Message(rank, child, nbytes, after, phase="down"))
            descend(child, (len(messages) - 1,))

    climb(root)
    descend(root, tuple(came[c] for c in children[root]))


def pairwise(ranks: int, nbytes: float) -> list[Message]:
    """All-to-all: in step s, rank r sends to r + s."""
    messages, last = [], {rank: () for rank in range(ranks)}
    for step in range(1, ranks):
        now = {}
        for rank in range(ranks):
            messages.append(Message(rank, (rank + step) % ranks, nbytes / ranks, last[rank]))
            now[rank] = len(messages) - 1
        last = {rank: (now[rank],) for rank in range(ranks)}
    return messages


def two_levels(nodes: int, each: int, nbytes: float, pieces: int) -> list[Message]:
    """All-reduce: reduce-scatter inside, all-reduce along rank i of every node, all-gather inside, for each piece."""
    messages: list[Message] = []
    for _ in range(pieces):
        part, begun = nbytes / pieces, len(messages)
        for node in range(nodes):
            ring_steps([node * each + i for i in range(each)], part, each - 1, messages)
        scattered = _last_into(messages[begun:], begun)
        reduced = {}
        for i in range(each):
            begin = len(messages)
            ranks = [node * each + i for node in range(nodes)]
            ring_steps(ranks, part / each, 2 * (nodes - 1), messages, {c: (scattered[ranks[c]],) for c in range(nodes)})
            reduced |= {rank: tuple(range(begin, len(messages)))[-nodes:] for rank in ranks}
        for node in range(nodes):
            ranks = [node * each + i for i in range(each)]
            ring_steps(ranks, part, each - 1, messages, {c: reduced[ranks[c]] for c in range(each)})
    return messages


def _last_into(messages: list[Message], begin: int) -> dict[int, int]:
    return {m.target: begin + i for i, m in enumerate(messages)}
