"""What judges of this chapter ask of kernels before they believe a value."""

from collections.abc import Iterable

import torch

from gpulab import Observation
from gpulab.observe import Launch

_ALLOCATES = {"aten.zeros", "aten.zero_", "aten.zeros_like", "aten.new_zeros"}


def total(launches: Iterable[Launch], count: str) -> int:
    """One of a launch's counts, over all of them."""
    return sum(launch.total(count) for launch in launches)


def efficiency(launches: Iterable[Launch]) -> float:
    """Bytes that lanes asked for over bytes that moved; 1.0 when none did."""
    asked = total(launches, "read_bytes") + total(launches, "written_bytes")
    moved = 32 * sum(launch.sectors for launch in launches)
    return asked / moved if moved else 1.0


def not_by_kernels(evidence: dict, seen: Observation, due: torch.Tensor) -> str | None:
    """Why the result is not the work of kernels that ran under the instrument, or None."""
    if evidence["tampered"]:
        return f"The launches are not believed: {str(evidence['tampered']):.80}. Was gpulab changed in the notebook?"
    if foreign := sorted(set(seen.computing_ops) - _ALLOCATES):
        return f"PyTorch did a part of the work ({foreign[0]}): a kernel of yours is to do it all."
    if seen.copies:
        return f"A tensor was copied ({seen.copies[0].kind}): the data is on the device and stays there."
    if not seen.launches:
        return "No kernel was launched: a kernel of yours is to do the work."
    if evidence["kernel_bytes"] < due.nbytes:
        return "A part of the result was not written by a kernel."
    return None


def did_less(launches: Iterable[Launch], flops: int, loads: int, stores: int) -> str | None:
    """Why kernels that did no more than this cannot have made a result that is right."""
    arithmetic = total(launches, "flops") + total(launches, "atomics")
    if arithmetic >= flops and total(launches, "loads") >= loads and total(launches, "stores") >= stores:
        return None
    return "The kernels did less than the work takes: something else made the result."


def fault_problem(launches: Iterable[Launch]) -> str | None:
    """A sentence about the first access outside an array, or the like."""
    for launch in launches:
        for fault in launch.faults:
            return f"A thread went wrong ({fault.kind}, `{fault.array:.20}`, at `{str(fault.line.text):.80}`)."
    return None
