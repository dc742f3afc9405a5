"""Functions of a warp: lanes read each other's registers, vote, and wait for each other."""

import numpy as np

from gpulab.kernels.simt.intrinsics import Operation, full
from gpulab.kernels.simt.lanes import WARP, Mask, as_bool

_LANES = np.arange(WARP)


def _members(group, mask: Mask, place: int, asked) -> np.ndarray:
    """Lanes that take part, a row a warp. A lane that is asked for and missing is a fault."""
    bits = full(np.asarray(asked).astype(np.int64) & 0xFFFFFFFF, group).reshape(-1, WARP)
    active = mask.lanes.reshape(-1, WARP)
    first = bits[np.arange(len(bits)), active.argmax(axis=1)]
    wanted = ((first[:, None] >> _LANES) & 1).astype(bool)
    wanted &= group.alive.lanes.reshape(-1, WARP) & active.any(axis=1)[:, None]
    missing = wanted & ~active | active & ~wanted
    if missing.any():
        lane = int(np.argmax(missing.ravel()))
        _fault(group, place, "lane missing from a warp operation", lane, int(missing.sum()))
    return active


def _fault(group, place: int, kind: str, lane: int, count: int) -> None:
    group.launch.fault(kind, "", (), group.batch.shape.thread(int(group.who[lane])), place, count, None)


def _shuffle(find_source):
    def implement(group, mask, place, asked, value, by, width=np.int64(WARP)):
        active = _members(group, mask, place, asked)
        rows = full(value, group).reshape(-1, WARP)
        offset = full(by, group).reshape(-1, WARP)
        source = find_source(offset, int(width))
        inside = (source >= 0) & (source < WARP)
        source = np.where(inside, source, _LANES)
        from_idle = active & inside & ~np.take_along_axis(active, source, axis=1)
        if from_idle.any():
            lane = int(np.argmax(from_idle.ravel()))
            _fault(group, place, "shuffle from an inactive lane", lane, int(from_idle.sum()))
        return np.take_along_axis(rows, source, axis=1).ravel()

    return implement


def _indexed(offset, width):
    return (_LANES & ~(width - 1)) | (offset & (width - 1))


def _up(offset, width):
    source = _LANES - offset
    return np.where(source >= (_LANES & ~(width - 1)), source, -1)


def _down(offset, width):
    source = _LANES + offset
    return np.where(source < (_LANES & ~(width - 1)) + width, source, -1)


def _xor(offset, width):
    source = _LANES ^ offset
    return np.where(source < (_LANES & ~(width - 1)) + width, source, -1)


def _per_warp(found: np.ndarray, dtype) -> np.ndarray:
    return np.repeat(found.astype(dtype), WARP)


def _votes(group, mask, place, asked, predicate) -> tuple[np.ndarray, np.ndarray]:
    active = _members(group, mask, place, asked)
    return active, full(as_bool(predicate), group).reshape(-1, WARP) & active


def _ballot(group, mask, place, asked, predicate):
    _, votes = _votes(group, mask, place, asked, predicate)
    return _per_warp((votes.astype(np.int64) << _LANES).sum(axis=1), np.uint32)


def _any(group, mask, place, asked, predicate):
    return _per_warp(_votes(group, mask, place, asked, predicate)[1].any(axis=1), bool)


def _all(group, mask, place, asked, predicate):
    active, votes = _votes(group, mask, place, asked, predicate)
    return _per_warp((votes == active).all(axis=1), bool)


def _equal(group, mask, place, asked, predicate):
    active, votes = _votes(group, mask, place, asked, predicate)
    return _per_warp((votes == active).all(axis=1) | ~votes.any(axis=1), bool)


def _match_any(group, mask, place, asked, value):
    active = _members(group, mask, place, asked)
    rows = full(value, group).reshape(-1, WARP)
    same = (rows[:, :, None] == rows[:, None, :]) & active[:, None, :]
    return (same.astype(np.int64) << _LANES).sum(axis=2).ravel().astype(np.uint32)


def _sync(group, mask, place, asked=np.int64(0xFFFFFFFF)):
    _members(group, mask, place, asked)
    if group.launch.trace is not None:
        group.launch.trace.at(place).barriers += mask.warps
    group.warp_barrier(mask)


def _active(group, mask, place):
    return _per_warp((mask.lanes.reshape(-1, WARP).astype(np.int64) << _LANES).sum(axis=1), np.uint32)


def _lanes_below(group, mask, place):
    return ((1 << (group.positions % WARP)) - 1).astype(np.int64)


shfl_sync = Operation("shfl_sync", _shuffle(_indexed), (3, 4))
shfl_up_sync = Operation("shfl_up_sync", _shuffle(_up), (3, 4))
shfl_down_sync = Operation("shfl_down_sync", _shuffle(_down), (3, 4))
shfl_xor_sync = Operation("shfl_xor_sync", _shuffle(_xor), (3, 4))
ballot_sync = Operation("ballot_sync", _ballot, (2,))
any_sync = Operation("any_sync", _any, (2,))
all_sync = Operation("all_sync", _all, (2,))
eq_sync = Operation("eq_sync", _equal, (2,))
match_any_sync = Operation("match_any_sync", _match_any, (2,))
syncwarp = Operation("syncwarp", _sync, (0, 1), keywords=("mask",))
activemask = Operation("activemask", _active, (0,))
lanemask_lt = Operation("lanemask_lt", _lanes_below, (0,))
