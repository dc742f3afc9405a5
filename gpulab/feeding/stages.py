"""What one batch takes in each stage of a loader, and the rate that each stage allows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stages:
    """One batch, in milliseconds; each field may be 0.

    ``fetch``: a worker waits for storage, without a core. ``decode``, ``collate``: a worker computes, on a core; decode
    has augmentation in it. ``pin``: the pinning thread copies. ``transfer``: the copy to the device. ``engine``: a
    hardware decoder on the device. ``step``: the device's kernels.
    """

    fetch: float = 0.0
    decode: float = 0.0
    collate: float = 0.0
    pin: float = 0.0
    transfer: float = 0.0
    engine: float = 0.0
    step: float = 0.0


@dataclass(frozen=True)
class Loader:
    """``workers``: 0 or more. ``prefetch``: batches under way for each worker. ``cores``: that workers share.

    ``overlap``: the copy of a batch, and a hardware decoder, run beside the step before it, as with pinned memory,
    ``non_blocking=True`` in a stream of its own, and a loop that does not wait for the device; otherwise the loop
    waits for all three in turn.
    """

    workers: int
    prefetch: int = 2
    cores: int = 8
    overlap: bool = False

    def __post_init__(self) -> None:
        if self.workers < 0 or self.prefetch < 1 or self.cores < 1:
            raise ValueError(
                f"there are no loaders with {self.workers} workers, prefetch {self.prefetch}, {self.cores} cores"
            )


def bounds(stages: Stages, loader: Loader) -> dict[str, float]:
    """Batches a second that each stage allows where all batches are alike; infinite for a stage that takes nothing.

    The loader's rate in the long run is no more than the least of them, whatever ``prefetch`` is, and as much where each
    stage always has a batch to work on. Two things keep it below. Workers that are alike and begin together stay in phase:
    all wait for storage, then all share the cores, W batches in ``fetch`` and W / cores times what they compute. And
    workers x ``prefetch`` batches are under way: each of them from its index on until the loop takes it, pinned. Without
    workers ``overlap`` leaves as many between the loop and the end of their steps as ``pipeline.AHEAD`` says.
    """
    computing = stages.decode + stages.collate
    device = _device(stages, loader.overlap)
    if not loader.workers:
        waiting = stages.fetch + computing + stages.pin
        whole = max(waiting, *device.values()) if loader.overlap else waiting + sum(device.values())
        return {"all in turn": _rate(whole)}
    return {
        "workers": loader.workers * _rate(stages.fetch + computing),
        "cores": loader.cores * _rate(computing),
        "pinning": _rate(stages.pin),
        **{name: _rate(ms) for name, ms in device.items()},
    }


def _device(stages: Stages, overlap: bool) -> dict[str, float]:
    if overlap:
        return {"transfer": stages.transfer, "decoder": stages.engine, "step": stages.step}
    return {"transfer and step": stages.transfer + stages.engine + stages.step}


def _rate(ms: float) -> float:
    return 1000 / ms if ms else float("inf")
