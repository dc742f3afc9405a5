"""What judges of this chapter ask of kernels before they believe a value."""

from collections.abc import Iterable

import torch

from autograder.verdicts.own_work import ZEROS, own_work_problem
from gpulab import Observation
from gpulab.observe.launches import SECTOR_BYTES, Launch


def total(launches: Iterable[Launch], count: str) -> int:
    """One of a launch's counts, over all of them."""
    return sum(launch.total(count) for launch in launches)


def efficiency(launches: Iterable[Launch]) -> float:
    """Bytes that lanes asked for over bytes that moved; 1.0 when none did."""
    asked = total(launches, "read_bytes") + total(launches, "written_bytes")
    moved = SECTOR_BYTES * sum(launch.sectors for launch in launches)
    return asked / moved if moved else 1.0


def not_by_kernels(evidence: dict, seen: Observation, due: torch.Tensor) -> str | None:
    """Why the result is not the work of kernels that ran under the instrument, or None."""
    return own_work_problem(evidence, seen, due.nbytes, ZEROS)


def did_less(launches: Iterable[Launch], operations: int, loads: int, stores: int) -> str | None:
    """Why kernels that did no more than this cannot have made a result that is right.

    operations: of lanes, whatever they compute with. Whole numbers may be added up as integers.
    """
    if total(launches, "active_lanes") >= operations and total(launches, "loads") >= loads and total(launches, "stores") >= stores:
        return None
    return "The kernels did less than the work takes: something else made the result."


def read_bytes(launches: Iterable[Launch]) -> int:
    """Bytes that lanes read; what is read to be written back, as an atomic operation does, left out."""
    return sum(max(0, use.read_bytes - use.written_bytes) for launch in launches for use in launch.arrays)


def kept_bytes(launches: Iterable[Launch], result_bytes: int) -> int:
    """Bytes that kernels wrote beside the result, for kernels after them to read."""
    written = sum(use.distinct_written_bytes for launch in launches for use in launch.arrays)
    return max(0, written - result_bytes)


def fault_problem(launches: Iterable[Launch]) -> str | None:
    """A sentence about the first access outside an array, or the like."""
    for launch in launches:
        for fault in launch.faults:
            where = f"`{fault.array:.20}`, " if fault.array else ""
            return f"A thread went wrong ({fault.kind}, {where}at `{str(fault.line.text):.80}`)."
    return None
