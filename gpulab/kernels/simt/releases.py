"""What fences and atomics order: a thread that reads an atomic knows what was fenced before it was written.

A fence followed by an atomic operation of the same thread releases: what the thread did before the
fence, and what was ordered before that. An atomic operation whose result is used acquires: its
thread, and after the next barrier its block, is ordered after everything that was released through
that element until then. Only kernels with a fence are followed like this.
"""

import numpy as np

from gpulab.kernels.simt.races import EPOCH_SHIFT, WHO, WHO_BITS

_NEVER = -1


class Release:
    """One: by thread ``who``, whose fences were at ``times`` and ``stamps`` (for its block, for the device)."""

    __slots__ = ("who", "times", "stamps", "fenced", "known")

    def __init__(self, who: int, times, stamps, fenced, known: dict) -> None:
        self.who, self.times, self.stamps, self.fenced, self.known = who, times, stamps, fenced, known


class Log:
    """All releases through one element, in order; ``by_block``: their numbers."""

    __slots__ = ("releases", "by_block")

    def __init__(self) -> None:
        self.releases: list[Release] = []
        self.by_block: dict[int, list[int]] = {}


class Releases:
    """Who knows of whose accesses. ``lanes``: threads of a block; ``now`` counts accesses and fences."""

    def __init__(self, threads: int, lanes: int) -> None:
        self._lanes = lanes
        self.now = 0
        self._times = np.full((2, threads), _NEVER, dtype=np.int64)
        self._stamps = np.zeros((2, threads), dtype=np.int64)
        self._fenced: dict[int, np.ndarray] = {}
        self._logs: dict[tuple, Log] = {}
        # By block, by thread (or None: everyone in it), by log: how much of it, and since when.
        self._known: dict[int, dict] = {}

    # ---- what happens

    def fence(self, who, stamp, device: bool) -> None:
        """Threads ``who`` pass a fence; ``device``: for the whole card, not for their block alone."""
        self.now += 1
        for scope in range(1 + device):
            self._times[scope, who], self._stamps[scope, who] = self.now, stamp

    def barrier(self, blocks) -> None:
        """What one thread of a block knows, the whole block knows."""
        for block in map(int, blocks):
            lanes = slice(block * self._lanes, (block + 1) * self._lanes)
            if (self._times[1, lanes] != _NEVER).any():
                self._fenced[block] = self._times[1, lanes].copy()
            by_thread = self._known.get(block)
            if by_thread:
                self._known[block] = {None: _joined(by_thread.values())}

    def warp_barrier(self, who) -> None:
        """What one thread of ``who``, lanes of warps, knows, its warp knows."""
        for warp in np.unique(who >> 5):
            block = int(warp << 5) // self._lanes
            by_thread = self._known.get(block, {})
            held = [by_thread[t] for t in range(warp << 5, (warp + 1) << 5) if t in by_thread]
            for thread in who[who >> 5 == warp] if held else ():
                by_thread[int(thread)] = _joined(held)

    def atomic(self, history, at, stamps, acquires: bool) -> None:
        """Atomic operations on the elements ``at`` of ``history``, one after another."""
        for element, stamp in zip(at.tolist(), stamps.tolist()):
            who = stamp & WHO
            log = self._logs.setdefault((id(history), element), Log())
            if acquires:
                by_thread = self._known.setdefault(who // self._lanes, {})
                by_thread.setdefault(who, {})[log] = (len(log.releases), self.now, (id(history), element))
            self._release(log, who)

    def _release(self, log: Log, who: int) -> None:
        block = who // self._lanes
        fenced = self._fenced.get(block)
        if self._times[0, who] == _NEVER and fenced is None:
            return
        log.by_block.setdefault(block, []).append(len(log.releases))
        times, stamps = self._times[:, who].tolist(), self._stamps[:, who].tolist()
        log.releases.append(Release(who, times, stamps, fenced, self._of(who)))

    def _of(self, who: int) -> dict:
        by_thread = self._known.get(who // self._lanes, {})
        return _joined([by_thread[key] for key in (None, who) if key in by_thread])

    # ---- what is known

    def knows(self, who: int, stamp: int, time: int, atomic_at: tuple | None) -> bool:
        """Whether thread ``who`` comes after the access of ``stamp`` and ``time``.

        ``atomic_at``: history and element, when that access was atomic.
        """
        seen: dict[Log, int] = {}
        open_ends = [self._of(who)]
        while open_ends:
            for log, (length, since, where) in open_ends.pop().items():
                if where == atomic_at and time <= since:
                    return True
                start = seen.get(log, 0)
                if length <= start:
                    continue
                if self._in_log(log, length, who, stamp, time):
                    return True
                seen[log] = length
                open_ends += [release.known for release in log.releases[start:length] if release.known.keys() - {log}]
        return False

    def _in_log(self, log: Log, length: int, who: int, stamp: int, time: int) -> bool:
        block = (stamp & WHO) // self._lanes
        scope = int(block != who // self._lanes)
        numbers = log.by_block.get(block, ())
        return any(n < length and self._covers(log.releases[n], scope, stamp, time) for n in numbers)

    def _covers(self, release: Release, scope: int, stamp: int, time: int) -> bool:
        """Whether the access was ordered before the release's fence."""
        thread = stamp & WHO
        if release.fenced is not None and time <= release.fenced[thread % self._lanes]:
            return True
        if time > release.times[scope]:
            return False
        fence = release.stamps[scope]
        if thread == release.who or stamp >> EPOCH_SHIFT < fence >> EPOCH_SHIFT:
            return True
        return thread >> 5 == release.who >> 5 and stamp >> WHO_BITS < fence >> WHO_BITS


def _joined(parts) -> dict:
    """For each log the most that one of ``parts`` knows of it."""
    found: dict = {}
    for part in parts:
        for log, held in part.items():
            if log not in found or found[log][:2] < held[:2]:
                found[log] = held
    return found
