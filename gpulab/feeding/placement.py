"""Where decoding and augmentation run, and what that leaves in each stage."""

from dataclasses import dataclass

from gpulab.feeding.stages import Stages

PLACES = ("workers", "augment on the GPU", "mixed decode", "hardware decoder")
"""All in workers; decoding in workers and augmentation by kernels; the parsing and Huffman part of decoding on a core and
the rest, with augmentation, by kernels (DALI's ``mixed`` without a hardware decoder); a decoder beside the kernels."""


@dataclass(frozen=True)
class Work:
    """One batch, in milliseconds, as it is where a core does all of it.

    ``fetch``, ``decode``, ``augment``, ``collate``, ``pin``, ``transfer`` (of what is decoded), ``step``.
    ``parse``: the share of decoding that is left to a core when kernels do the rest, 0 to 1. ``packed``: how many
    times fewer bytes are pinned and sent when they are sent encoded. ``faster``: how many cores the device's kernels,
    or its decoder, replace at this work.
    """

    fetch: float
    decode: float
    augment: float
    collate: float
    pin: float
    transfer: float
    step: float
    parse: float = 0.5
    packed: float = 10.0
    faster: float = 20.0


def placed(work: Work, place: str) -> Stages:
    """What is left in each stage. Raises ValueError for a place that is not one of ``PLACES``."""
    if place not in PLACES:
        raise ValueError(f"decoding runs in one of {', '.join(PLACES)}, not {place!r}")
    if place == "workers":
        return Stages(work.fetch, work.decode + work.augment, work.collate, work.pin, work.transfer, 0.0, work.step)
    kernels = work.augment / work.faster
    if place == "augment on the GPU":
        return Stages(work.fetch, work.decode, work.collate, work.pin, work.transfer, 0.0, work.step + kernels)
    collate, pin, transfer = (ms / work.packed for ms in (work.collate, work.pin, work.transfer))
    if place == "mixed decode":
        kernels += (1 - work.parse) * work.decode / work.faster
        return Stages(work.fetch, work.parse * work.decode, collate, pin, transfer, 0.0, work.step + kernels)
    return Stages(work.fetch, 0.0, collate, pin, transfer, work.decode / work.faster, work.step + kernels)
