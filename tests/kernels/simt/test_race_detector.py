"""The detector against the definition: every pair of accesses, one by one."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpulab.kernels import KernelError, cuda, float32
from gpulab.kernels.simt import batch
from gpulab.kernels.simt.races import EPOCH_SHIFT, WHO_BITS, Shadow
from tests.kernels.simt.launching import launched, sound, zeros

THREADS = 64  # of a block: two warps
WHO = st.sampled_from([0, 1, 2, 32, 33, 64, 65, 96])  # few, so that they meet again
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "write", "atomic"]), st.sets(WHO, min_size=1, max_size=5)),
        st.tuples(st.just("barrier"), st.integers(0, 1)),
        st.tuples(st.just("syncwarp"), st.integers(0, 3)),
    ),
    max_size=12,
)


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
@example([("atomic", {0, 1, 2, 32, 33}), ("syncwarp", 1), ("read", {32})], False)
@example([("read", {0, 32}), ("read", {64}), ("syncwarp", 0), ("write", {1})], False)
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


@cuda.jit
def swaps_with_a_neighbour(out, turns):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    v = float32(t)
    for k in range(turns):
        s[t] = v
        cuda.syncwarp()
        v = s[t ^ 1]
        cuda.syncwarp()
    out[t] = v


def test_a_warp_may_wait_for_itself_thousands_of_times():
    launch = launched(swaps_with_a_neighbour, 1, 32, zeros(32), 2100)
    assert sound(launch) and not launch.warnings


def test_where_the_detector_stops_counting_it_says_so(monkeypatch):
    monkeypatch.setattr(batch, "MAX_CLOCK", 20)
    launch = launched(swaps_with_a_neighbour, 1, 32, zeros(32), 50)
    assert sound(launch) and "more than 20 warp barriers" in launch.warnings[0]


@cuda.jit
def passes_barriers(out, turns):
    for k in range(turns):
        cuda.syncthreads()
    out[cuda.grid(1)] = 1


def test_more_block_barriers_than_the_detector_counts_are_an_error(monkeypatch):
    monkeypatch.setattr(batch, "MAX_EPOCH", 20)
    launched(passes_barriers, 1, 32, zeros(32), 20)
    with pytest.raises(KernelError, match="more than 20 barriers"):
        launched(passes_barriers, 1, 32, zeros(32), 21)
