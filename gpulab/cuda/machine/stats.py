"""The allocator's counters, under the names that ``torch.cuda.memory_stats`` gives them."""

from array import array

import numpy as np

POOLS = ("all", "large_pool", "small_pool")
BY_POOL = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
ONCE = ("oversize_allocations", "oversize_segments")
COUNTS = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
)
_COLUMNS = 9
_MANY = 4096 * _COLUMNS


class Counter:
    """A quantity now, at its peak, and its rises added up; ``freed``: its falls."""

    __slots__ = ("current", "peak", "allocated", "_at_reset")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self._at_reset = 0

    @property
    def freed(self) -> int:
        return self.allocated - (self.current - self._at_reset)

    def add(self, amount: int) -> None:
        self.current += amount
        self.allocated += max(amount, 0)
        self.peak = max(self.peak, self.current)

    def add_all(self, rises: np.ndarray, falls: np.ndarray) -> None:
        """One change after another, int64: each falls and then rises."""
        running = self.current + np.cumsum(rises - falls)
        self.current = int(running[-1])
        self.allocated += int(rises.sum())
        self.peak = max(self.peak, int(running.max()))

    def reset_accumulated(self) -> None:
        self.allocated, self._at_reset = 0, self.current

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("current", "peak", "allocated", "freed")}


class PoolStats:
    """The counters of one pool."""

    __slots__ = BY_POOL

    def __init__(self) -> None:
        for name in BY_POOL:
            setattr(self, name, Counter())

    def add_all(self, changes: np.ndarray) -> None:
        """Rows as :meth:`Stats.changed` writes them."""
        _, used, active, size, requested, were_split, split_bytes, are_split, left_bytes = changes.T
        for counter, sign, amount in (
            (self.allocation, used, 1),
            (self.allocated_bytes, used, size),
            (self.active, active, 1),
            (self.active_bytes, active, size),
            (self.requested_bytes, active, requested),
        ):
            counter.add_all((sign > 0) * amount, (sign < 0) * amount)
        self.inactive_split.add_all(are_split, were_split)
        self.inactive_split_bytes.add_all(left_bytes, split_bytes)


class Stats:
    """All counters of one allocator: both pools together, and each by itself.

    What each operation's allocation changes is written down, and added up when somebody asks.
    """

    def __init__(self) -> None:
        self._pools = {name: PoolStats() for name in POOLS}
        self._changes = array("q")
        self.counts = dict.fromkeys(COUNTS, 0)

    def changed(self, small, used, active, size, requested, were_split, split_bytes, are_split, left_bytes) -> None:
        """A block goes into use or out of it.

        ``small``: of the small pool. ``used``, ``active``: 1, 0 or -1, whether a storage takes it or leaves it, and whether
        its ``size`` bytes are kept for streams; ``requested``: bytes that the storage asked for. Free parts of split
        blocks: ``were_split`` with ``split_bytes`` are no longer, ``are_split`` with ``left_bytes`` are from now on.
        """
        self._changes.extend((small, used, active, size, requested, were_split, split_bytes, are_split, left_bytes))
        if len(self._changes) >= _MANY:
            self.pools()

    def pools(self) -> dict[str, PoolStats]:
        """By name, with all that has been written down."""
        if self._changes:
            # Python's garbage collector may free a block in here: that is written down anew.
            written, self._changes = self._changes, array("q")
            changes = np.frombuffer(written, dtype=np.int64).reshape(-1, _COLUMNS)
            small = changes[:, 0] != 0
            for name, of_pool in zip(POOLS, (changes, changes[~small], changes[small])):
                if len(of_pool):
                    self._pools[name].add_all(of_pool)
        return self._pools

    @property
    def all(self) -> PoolStats:
        """Of both pools together."""
        return self.pools()["all"]

    def add(self, name: str, small: bool, amount: int) -> None:
        for pool in ("all", "small_pool" if small else "large_pool"):
            getattr(self._pools[pool], name).add(amount)

    def reset_peaks(self) -> None:
        for counter in self._counters():
            counter.peak = counter.current

    def reset_accumulated(self) -> None:
        for counter in self._counters():
            counter.reset_accumulated()
        self.counts = dict.fromkeys(COUNTS, 0)

    def _counters(self):
        return (getattr(pool, name) for pool in self.pools().values() for name in BY_POOL)

    def as_nested_dict(self) -> dict:
        """What ``torch._C._cuda_memoryStats`` returns."""
        pools = self.pools()
        nested = {name: {key: getattr(pool, name).as_dict() for key, pool in pools.items()} for name in BY_POOL}
        nested.update({name: Counter().as_dict() for name in ONCE})
        return {**nested, **self.counts, "max_split_size": -1}
