"""Blocks in flight, and the lanes that step together."""

import numpy as np

from gpulab.kernels.errors import KernelError
from gpulab.kernels.simt.lanes import WARP, Mask
from gpulab.kernels.simt.races import EPOCH_BITS, EPOCH_SHIFT, MAX_CLOCK, MAX_EPOCH, WHO_BITS


class Shape:
    """A launch's grid and block: three numbers each, x first."""

    def __init__(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        self.grid, self.block = grid, block
        self.threads = block[0] * block[1] * block[2]
        self.blocks = grid[0] * grid[1] * grid[2]
        self.warps = -(-self.threads // WARP)
        self.lanes = self.warps * WARP
        self.thread_numbers = np.arange(self.lanes)

    def thread(self, who: int) -> tuple[int, ...]:
        """``(block x, y, z, thread x, y, z)`` of a thread's number in the launch."""
        block, thread = divmod(who, self.lanes)
        return (*map(int, unravel(block, self.grid)), *map(int, unravel(thread, self.block)))


def unravel(number, extents):
    """Index (x, y, z) of a linear number: x runs fastest, as CUDA counts."""
    return number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1])


class Batch:
    """Some blocks of a launch: their shared memory and the barriers that each has passed."""

    def __init__(self, shape: Shape, blocks: np.ndarray, releases=None) -> None:
        self.shape, self.blocks, self.releases = shape, blocks, releases
        self.epochs = np.zeros(len(blocks), dtype=np.int64)
        self.clocks = np.zeros((len(blocks), shape.warps), dtype=np.int64)
        self.shared: dict = {}
        self.turns = None

    def barrier(self, group: "Group", mask: Mask, place: int, predicate):
        """All of the batch's lanes, or one warp's, have come to a barrier."""
        if self.turns is not None:
            return self.turns.wait(group, mask, place, predicate)
        self._check(group, mask, place)
        held = np.zeros(len(self.blocks), dtype=np.int64)
        if predicate is not None:
            truth = mask.lanes & (predicate != 0)
            held = np.bincount(group.slots[truth], minlength=len(self.blocks))
        here = np.bincount(group.slots[mask.positions()], minlength=len(self.blocks)) > 0
        self.release(here)
        group.restamp()
        return held[group.slots]

    def release(self, here) -> None:
        """What the blocks ``here`` wrote is ordered before what they do next."""
        self.epochs[here] += 1
        self.clocks[here] = 0
        if self.releases is not None:
            self.releases.barrier(self.blocks[here])
        if self.epochs.max() > MAX_EPOCH:
            raise KernelError(f"a block with more than {MAX_EPOCH} barriers: the race detector counts no further")
        for array in self.shared.values():
            array.at_barrier()

    def _check(self, group: "Group", mask: Mask, place: int) -> None:
        if mask is group.alive or mask.active == group.alive.active:
            if group.returned_early:
                group.launch.note_early_return(place)
            return
        present = np.bincount(group.slots[mask.positions()], minlength=len(self.blocks)) > 0
        absent = group.alive.lanes & ~mask.lanes & present[group.slots]
        if absent.any():
            group.missing_at_barrier(absent, place)
        elif group.returned_early:
            group.launch.note_early_return(place)


class Group:
    """Lanes in lockstep: all warps of a batch, or one warp when warps take turns.

    ``slots``: each lane's block, by its position in the batch. ``who``: its thread's number in the
    launch. ``stamp``: what an access of it now leaves behind (see ``races``). ``alive``: lanes
    that have not returned from the kernel.
    """

    def __init__(self, launch, batch: Batch, warp: int | None = None) -> None:
        self.launch, self.batch, self.warp = launch, batch, warp
        shape = batch.shape
        numbers = shape.thread_numbers
        if warp is not None:
            numbers = numbers[warp * WARP : (warp + 1) * WARP]
        count = len(batch.blocks)
        self.size = count * len(numbers)
        self.slots = np.repeat(np.arange(count), len(numbers))
        self.threads = np.tile(numbers, count)
        self.who = batch.blocks[self.slots] * shape.lanes + self.threads
        self.lane_warps = np.arange(self.size) // WARP
        self.positions = np.arange(self.size)
        self.exists = Mask(self.threads < shape.threads)
        self.alive = self.exists
        self.returned_early = False
        self.clocks = batch.clocks.reshape(-1) if warp is None else batch.clocks[:, warp]
        self._coordinates: dict = {}
        self.restamp()

    def coordinate(self, kind: str, axis: int):
        """``threadIdx`` or ``blockIdx`` of every lane, int64; a scalar where all agree."""
        key = (kind, axis)
        if key not in self._coordinates:
            self._coordinates[key] = self._coordinate(kind, axis)
        return self._coordinates[key]

    def _coordinate(self, kind: str, axis: int):
        shape = self.batch.shape
        if kind == "threadIdx":
            return unravel(self.threads, shape.block)[axis]
        blocks = unravel(self.batch.blocks, shape.grid)[axis]
        return np.int64(blocks[0]) if (blocks == blocks[0]).all() else blocks[self.slots]

    def restamp(self) -> None:
        """After a barrier: the stamps of accesses from now on."""
        epochs = self.batch.epochs
        floor = epochs << EPOCH_SHIFT
        alike = len(epochs) == 1 or (epochs == epochs[0]).all()
        self.floor = floor[0] if alike else floor[self.slots]
        self.stamp = self.floor + np.repeat(self.clocks << WHO_BITS, WARP) + self.who

    def warp_barrier(self, mask: Mask) -> None:
        """What lanes of a warp did before is ordered before what they do next."""
        if self.batch.releases is not None:
            self.batch.releases.warp_barrier(self.who[mask.positions()])
        self.clocks += mask.by_warp()
        if self.clocks.max() > MAX_CLOCK:
            self._begin_again()
        self.restamp()

    def _begin_again(self) -> None:
        """A warp's clock is full: its block begins a new epoch, which costs the races across this moment."""
        full = np.zeros(len(self.batch.blocks), dtype=bool)
        full[self.slots[::WARP][self.clocks > MAX_CLOCK]] = True
        self.batch.epochs[full] += 1
        self.batch.clocks[full] = 0
        self.launch.findings.warn(
            f"more than {MAX_CLOCK} warp barriers with no block barrier between them: races between accesses "
            "before and after them are not looked for"
        )

    def leave(self, mask: Mask) -> None:
        """Lanes return from the kernel."""
        self.alive = self.alive.minus(mask)
        self.returned_early = True

    def missing_at_barrier(self, absent: np.ndarray, place: int) -> None:
        """Lanes of a block that neither returned nor came to its barrier."""
        thread = self.batch.shape.thread(int(self.who[int(np.argmax(absent))]))
        self.launch.fault("barrier not reached by all", "", (), thread, place, int(absent.sum()), None)

    def block_barrier(self, mask: Mask, place: int, predicate=None):
        """``syncthreads``. With a predicate: how many threads of each lane's block hold it."""
        self.launch.count_barrier(mask, place)
        return self.batch.barrier(self, mask, place, predicate)

    def floor_of(self, mask: Mask):
        return self.floor if np.ndim(self.floor) == 0 or mask.index is None else self.floor[mask.index]


assert EPOCH_SHIFT + EPOCH_BITS == 63
