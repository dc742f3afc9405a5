"""Warps that take turns: each runs alone to its next barrier, in an order that a seed gives.

A GPU may run a block's warps in any order between two barriers. Lockstep is one of them; this is
how tests and doubters see others.
"""

import threading

import numpy as np

from gpulab.kernels.simt.batch import Batch, Group


class _Stopped(BaseException):
    """Ends a warp's thread when another one has failed."""


class Turns:
    """Runs the warps of one block on threads of the host, one at a time."""

    def __init__(self, batch: Batch, groups: list[Group], seed: int) -> None:
        self._batch, self._groups = batch, groups
        self._random = np.random.default_rng([seed, int(batch.blocks[0])])
        self._go = [threading.Semaphore(0) for _ in groups]
        self._back = threading.Semaphore(0)
        self._waiting: dict[int, tuple] = {}
        self._error: BaseException | None = None
        self._held = 0
        self._passed = [0] * len(groups)
        self._stopping = False
        batch.turns = self

    def run(self, call) -> None:
        """``call(group)`` for every warp. Raises what the first of them raised."""
        threads = [threading.Thread(target=self._warp, args=(i, call), daemon=True) for i in range(len(self._groups))]
        for thread in threads:
            thread.start()
        unfinished = set(range(len(threads)))
        self._unfinished = unfinished
        while unfinished:
            for warp in self._random.permutation(sorted(unfinished)):
                self._go[warp].release()
                self._back.acquire()
                if self._error is not None:
                    self._stop(unfinished, threads)
                    raise self._error
            self._release()
        for thread in threads:
            thread.join()

    def _warp(self, number: int, call) -> None:
        self._go[number].acquire()
        try:
            if not self._stopping:
                with np.errstate(all="ignore"):
                    call(self._groups[number])
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        self._unfinished.discard(number)
        self._back.release()

    def wait(self, group: Group, mask, place: int, predicate):
        """One warp has come to a barrier: its turn ends."""
        absent = group.alive.lanes & ~mask.lanes
        if absent.any():
            group.missing_at_barrier(absent, place)
        elif group.returned_early:
            group.launch.note_early_return(place)
        held = 0 if predicate is None else int(np.count_nonzero(mask.lanes & (predicate != 0)))
        self._waiting[group.warp] = (place, held)
        self._back.release()
        self._go[group.warp].acquire()
        if self._stopping:
            raise _Stopped
        group.restamp()
        return np.int64(self._held)

    def _release(self) -> None:
        """Every warp has ended or waits: let those that wait go on."""
        if not self._waiting:
            return
        self._held = sum(held for _, held in self._waiting.values())
        places = {place for place, _ in self._waiting.values()}
        for warp in self._waiting:
            self._passed[warp] += 1
        self._check(places)
        self._waiting.clear()
        self._batch.release(np.array([True]))

    def _check(self, places: set[int]) -> None:
        for group in self._groups:
            gone = group.warp not in self._waiting and group.alive.active
            if gone or len(places) > 1:
                group.missing_at_barrier(group.alive.lanes, min(places))
                return

    def _stop(self, unfinished: set, threads: list) -> None:
        self._stopping = True
        for warp in sorted(unfinished):
            self._go[warp].release()
        for thread in threads:
            thread.join()
