"""The detector against the definition: every pair of accesses, one by one."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpulab.kernels.simt.races import EPOCH_SHIFT, WHO_BITS, Shadow

THREADS = 64  # of a block: two warps
WHO = st.sampled_from([0, 1, 2, 32, 33, 64, 65, 96])  # few, so that they meet again
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "write", "atomic"]), st.sets(WHO, min_size=1, max_size=5)),
        st.tuples(st.just("barrier"), st.integers(0, 1)),
        st.tuples(st.just("syncwarp"), st.integers(0, 3)),
    ),
    max_size=12,
)  # fmt: skip


class History:
    """Barriers that each block and each warp has passed, and all accesses so far."""

    def __init__(self):
        self.epochs, self.clocks, self.accesses = [0, 0], [0, 0, 0, 0], []

    def stamp(self, who):
        return (who, self.epochs[who // THREADS], self.clocks[who // 32])

    def races(self, kind, who):
        return any(self._unordered(kind, self.stamp(who), other) for other in self.accesses)

    def _unordered(self, kind, mine, other):
        other_kind, (who, epoch, clock) = other
        if who == mine[0] or kind == other_kind == "read" or kind == other_kind == "atomic":
            return False
        if who // THREADS != mine[0] // THREADS:
            return True
        same_warp_later = who // 32 == mine[0] // 32 and clock < mine[2]
        return epoch >= mine[1] and not same_warp_later


def found_by(shadow, history, kind, threads):
    stamps = [history.stamp(who) for who in threads]
    mine = np.array([(e << EPOCH_SHIFT) + (c << WHO_BITS) + who for who, e, c in stamps])
    floor = np.array([e << EPOCH_SHIFT for _, e, _ in stamps])
    at = np.zeros(len(threads), dtype=np.int64)
    result = getattr(shadow, kind)(at, mine, floor, 0)
    return (result[0] if kind == "read" else result) is not None


@example([("read", {0, 32}), ("syncwarp", 1), ("write", {33})], True)
@example([("read", {0, 64}), ("barrier", 1), ("write", {65})], False)
@example([("read", {0, 1}), ("write", {1})], True)
@settings(max_examples=1500, deadline=None)
@given(STEPS, st.booleans())
def test_a_race_is_found_when_two_accesses_are_unordered_and_never_else(steps, shared):
    """One element; once it has raced, nothing more is asked of its history."""
    history = History()
    shadow = Shadow(1, shared=shared, threads=THREADS, reads=True, atomics=True)
    for kind, what in steps:
        if kind == "barrier":
            history.epochs[what] += 1
        elif kind == "syncwarp":
            history.clocks[what] += 1
        else:
            threads = sorted(who for who in what if not shared or who < THREADS)
            expected = any(history.races(kind, who) for who in threads) or kind == "write" and len(threads) > 1
            if threads:
                assert found_by(shadow, history, kind, threads) == expected
            if expected:
                return
            history.accesses += [(kind, history.stamp(who)) for who in threads]
