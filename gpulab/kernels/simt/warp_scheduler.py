"""Warps that take turns: each runs alone to its next barrier, in an order that a seed gives.

A GPU may run a block's warps in any order between two barriers. Lockstep is one of them; this is
how tests and doubters see others, and how kernels run whose threads wait for each other in a loop:
a warp that waits so gives its turn away, and when all wait the next block begins.
"""

import threading
from collections.abc import Iterator

import numpy as np

from gpulab.kernels.simt.batch import Batch, Group

MOST_WARPS = 1024
"""Warps that have begun and not ended: each is a thread of the host."""


class _Stopped(BaseException):
    """Ends a warp's thread when another one has failed."""


class Warp:
    """One warp's thread of the host. ``place``: of the barrier at which it waits."""

    def __init__(self, block: "Block", group: Group) -> None:
        self.block, self.group = block, group
        self.go = threading.Semaphore(0)
        self.ended = self.spins = False
        self.place: int | None = None
        self.held = 0


class Block:
    """One block: knows when all of its warps have come to a barrier."""

    def __init__(self, turns: "WarpScheduler", batch: Batch, groups: list[Group]) -> None:
        self._turns, self._batch, self._held = turns, batch, 0
        self.warps = [Warp(self, group) for group in groups]
        batch.turns = self

    @property
    def ended(self) -> bool:
        return all(warp.ended for warp in self.warps)

    def wait(self, group: Group, mask, place: int, predicate):
        """One warp has come to a barrier: its turn ends."""
        absent = group.alive.lanes & ~mask.lanes
        if absent.any():
            group.missing_at_barrier(absent, place)
        elif group.returned_early:
            group.launch.note_early_return(place)
        warp = self.warps[group.warp]
        warp.held = 0 if predicate is None else int(np.count_nonzero(mask.lanes & (predicate != 0)))
        warp.place = place
        self._turns.pause(warp)
        group.restamp()
        return np.int64(self._held)

    def pass_on(self, group: Group) -> bool:
        """One warp waits in a loop: another's turn. False when all wait so, for ever."""
        warp = self.warps[group.warp]
        warp.spins = True
        self._turns.pause(warp)
        return not self._turns.stuck

    def release(self) -> bool:
        """Let the warps go on if each has ended or waits at a barrier; whether that was so."""
        waiting = [warp for warp in self.warps if warp.place is not None]
        if not waiting or any(warp.place is None and not warp.ended for warp in self.warps):
            return False
        self._held = sum(warp.held for warp in waiting)
        self._check(waiting)
        for warp in waiting:
            warp.place = None
        self._batch.release(np.array([True]))
        return True

    def _check(self, waiting: list[Warp]) -> None:
        places = {warp.place for warp in waiting}
        for warp in self.warps:
            gone = warp not in waiting and warp.group.alive.active
            if gone or len(places) > 1:
                warp.group.missing_at_barrier(warp.group.alive.lanes, min(places))
                return


class WarpScheduler:
    """Runs blocks one after another, and side by side those that wait for each other.

    ``blocks``: each one's batch and the groups of its warps. ``call(group)`` runs a warp. ``progress()``
    tells whether memory has changed; ``overlap()`` is called when a block waits for a later one.
    """

    def __init__(self, blocks: Iterator[tuple[Batch, list[Group]]], seed: int, call, progress, overlap) -> None:
        self._blocks, self._call = blocks, call
        self._progress, self._overlap = progress, overlap
        self._random = np.random.default_rng(seed)
        self._begun: list[Block] = []
        self._threads: list[threading.Thread] = []
        self._back = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._stopping = self.stuck = False

    def run(self) -> None:
        """All blocks. Raises what the first of the warps raised."""
        try:
            while self._begun or self._begin():
                self._round()
                self._begun = [block for block in self._begun if not block.ended]
        finally:
            self._stop()

    def _begin(self) -> bool:
        """The next block, if there is one."""
        found = next(self._blocks, None)
        if found is None or sum(len(block.warps) for block in self._begun) >= MOST_WARPS:
            return False
        block = Block(self, *found)
        self._begun.append(block)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for warp in block.warps:
            self._threads.append(threading.Thread(target=self._run, args=(warp,), daemon=True))
            self._threads[-1].start()
        return True

    def _round(self) -> None:
        """A turn for every warp that can run; then barriers open. All wait: another block, or the end."""
        before = self._progress()
        ready = [warp for block in self._begun for warp in block.warps if warp.place is None and not warp.ended]
        for number in self._random.permutation(len(ready)):
            self._turn(ready[number])
        opened = [block.release() for block in self._begun]
        if any(opened) or not all(warp.spins for warp in ready) or self._progress() != before:
            return
        if self._begin():
            self._overlap()
        else:
            self.stuck = True

    def _turn(self, warp: Warp) -> None:
        warp.spins = False
        warp.go.release()
        self._back.acquire()
        if self._error is not None:
            raise self._error

    def _run(self, warp: Warp) -> None:
        warp.go.acquire()
        try:
            if not self._stopping:
                with np.errstate(all="ignore"):
                    self._call(warp.group)
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        warp.ended = True
        self._back.release()

    def pause(self, warp: Warp) -> None:
        """Called by a warp's thread: others run until it is its turn again."""
        self._back.release()
        warp.go.acquire()
        if self._stopping:
            raise _Stopped

    def _stop(self) -> None:
        self._stopping = True
        for block in self._begun:
            for warp in block.warps:
                warp.go.release()
        for thread in self._threads:
            thread.join()
