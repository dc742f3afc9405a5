"""Bandwidths as nccl-tests defines them: NVIDIA/nccl-tests (a0b82b2), doc/PERFORMANCE.md."""


def algorithm_bandwidth(nbytes: float, seconds: float) -> float:
    """Bytes a second: the size divided by the time. It falls as ranks are added, on the same hardware."""
    return nbytes / seconds


def bus_factor(kind: str, ranks: int) -> float:
    """What the algorithm bandwidth is multiplied by, so that a perfect ring shows its links' speed for any number of ranks.

    Raises ValueError for a kind that nccl-tests does not define it for.
    """
    share = (ranks - 1) / ranks
    factors = {
        "all_reduce": 2 * share,
        "all_gather": share,
        "reduce_scatter": share,
        "all_to_all": share,
        "broadcast": 1.0,
        "reduce": 1.0,
        "send": 1.0,
    }
    if kind not in factors:
        raise ValueError(f"nccl-tests defines no bus bandwidth of {kind!r}")
    return factors[kind]


def bus_bandwidth(kind: str, nbytes: float, ranks: int, seconds: float) -> float:
    """Bytes a second."""
    return algorithm_bandwidth(nbytes, seconds) * bus_factor(kind, ranks)
