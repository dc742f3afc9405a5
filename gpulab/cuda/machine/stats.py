"""The allocator's counters, under the names that ``torch.cuda.memory_stats`` gives them."""

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


class Counter:
    """A quantity now, at its peak, and its rises and falls added up."""

    __slots__ = ("current", "peak", "allocated", "freed")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount: int) -> None:
        self.current += amount
        if amount > 0:
            self.allocated += amount
            if self.current > self.peak:
                self.peak = self.current
        else:
            self.freed -= amount

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


class PoolStats:
    """The counters of one pool."""

    __slots__ = BY_POOL

    def __init__(self) -> None:
        for name in BY_POOL:
            setattr(self, name, Counter())

    def take(self, size: int, requested: int) -> None:
        """A block of ``size`` bytes goes into use. On every operation's path: no calls within."""
        for counter, amount in (
            (self.allocation, 1),
            (self.active, 1),
            (self.allocated_bytes, size),
            (self.active_bytes, size),
            (self.requested_bytes, requested),
        ):
            counter.allocated += amount
            counter.current = now = counter.current + amount
            if now > counter.peak:
                counter.peak = now

    def free(self, size: int) -> None:
        """Its storage is gone."""
        self.allocation.current -= 1
        self.allocation.freed += 1
        self.allocated_bytes.current -= size
        self.allocated_bytes.freed += size

    def release(self, size: int, requested: int) -> None:
        """No stream uses it any more."""
        self.active.current -= 1
        self.active.freed += 1
        self.active_bytes.current -= size
        self.active_bytes.freed += size
        self.requested_bytes.current -= requested
        self.requested_bytes.freed += requested

    def split_remains(self, size: int) -> None:
        """A free block is left over of a split one."""
        for counter, amount in ((self.inactive_split, 1), (self.inactive_split_bytes, size)):
            counter.allocated += amount
            counter.current = now = counter.current + amount
            if now > counter.peak:
                counter.peak = now

    def split_is_gone(self, size: int) -> None:
        """Such a block is in use again, or merged."""
        self.inactive_split.current -= 1
        self.inactive_split.freed += 1
        self.inactive_split_bytes.current -= size
        self.inactive_split_bytes.freed += size


class Stats:
    """All counters of one allocator: both pools together, and each by itself."""

    def __init__(self) -> None:
        self.all, self.large, self.small = PoolStats(), PoolStats(), PoolStats()
        self.counts = dict.fromkeys(COUNTS, 0)

    def of(self, small: bool) -> tuple[PoolStats, PoolStats]:
        """The counters that a block of the small or the large pool moves."""
        return (self.all, self.small) if small else (self.all, self.large)

    def add(self, name: str, small: bool, amount: int) -> None:
        for pool in self.of(small):
            getattr(pool, name).add(amount)

    def reset_peaks(self) -> None:
        for counter in self._counters():
            counter.peak = counter.current

    def reset_accumulated(self) -> None:
        for counter in self._counters():
            counter.allocated = counter.freed = 0
        self.counts = dict.fromkeys(COUNTS, 0)

    def _counters(self):
        return (getattr(pool, name) for pool in (self.all, self.large, self.small) for name in BY_POOL)

    def as_nested_dict(self) -> dict:
        """What ``torch._C._cuda_memoryStats`` returns."""
        pools = dict(zip(POOLS, (self.all, self.large, self.small)))
        nested = {name: {key: getattr(pool, name).as_dict() for key, pool in pools.items()} for name in BY_POOL}
        nested.update({name: Counter().as_dict() for name in ONCE})
        return {**nested, **self.counts, "max_split_size": -1}
