"""What judges of this chapter ask of kernels before they believe a value."""

from collections.abc import Iterable

import torch

from autograder.judge.expect import raised_problem, tensor_problem
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


def did_less(launches: Iterable[Launch], operations: int, loads: int, stores: int) -> str | None:
    """Why kernels that did no more than this cannot have made a result that is right.

    operations: of lanes, whatever they compute with. Whole numbers may be added up as integers.
    """
    if (
        total(launches, "active_lanes") >= operations
        and total(launches, "loads") >= loads
        and total(launches, "stores") >= stores
    ):
        return None
    return "The kernels did less than the work takes: something else made the result."


def read_bytes(launches: Iterable[Launch]) -> int:
    """Bytes that lanes read; what is read to be written back, as an atomic operation does, left out."""
    return sum(max(0, use.read_bytes - use.written_bytes) for launch in launches for use in launch.arrays)


def kept_bytes(launches: Iterable[Launch], result_bytes: int) -> int:
    """Bytes that kernels wrote beside the result, for kernels after them to read."""
    written = sum(use.distinct_written_bytes for launch in launches for use in launch.arrays)
    return max(0, written - result_bytes)


def result_problem(evidence: dict, expected: torch.Tensor) -> str | None:
    """Why the result cannot be ``expected``, whoever made it: its type, shape, dtype or device."""
    if problem := tensor_problem(evidence["result"], expected):
        return problem
    return (
        None
        if evidence["device"] == "cuda"
        else f"The result is on {evidence['device']!r}, not on the device of the input."
    )


def again_problem(evidence: dict, expected: torch.Tensor, expected_again: torch.Tensor) -> str | None:
    """What a second call has done to the first one's result, or got wrong itself."""
    if torch.equal(evidence["result"], expected_again) and not torch.equal(evidence["result"], expected):
        return "A second call wrote over the result of the first: each returns a new tensor."
    if tensor_problem(evidence["again"], expected_again) or not torch.equal(evidence["again"], expected_again):
        return "A second call is wrong: something was kept from the first."
    return None


def order_problem(seen: Observation) -> str | None:
    """A kernel that its stream did not put behind what wrote its inputs."""
    if not seen.races:
        return None
    return "A kernel does not wait for its inputs: it is not in the stream that is current, where they are still being written."


def answers_problem(evidence: dict, all_expected: list[torch.Tensor]) -> str | None:
    """Why the results of calls are not these, or None."""
    for answer, expected in zip(evidence["answers"], all_expected, strict=True):
        if "error" in answer:
            return raised_problem(answer["error"])
        if problem := result_problem(answer["returned"], expected):
            return problem
        if not torch.equal(answer["returned"]["result"], expected):
            return "A sum of no element is not 0."
    return None


def fault_problem(launches: Iterable[Launch]) -> str | None:
    """A sentence about the first access outside an array, or the like."""
    for launch in launches:
        for fault in launch.faults:
            where = f"`{fault.array:.20}`, " if fault.array else ""
            return f"A thread went wrong ({fault.kind}, {where}at `{str(fault.line.text):.80}`)."
    return None


def race_problem(launches: Iterable[Launch]) -> str | None:
    """A sentence about the first race."""
    for launch in launches:
        for race in launch.races:
            return (
                f"Two threads race in {race.space} memory ({race.kind}, `{race.array:.20}`, at "
                f"`{str(race.second_line.text):.80}`): a barrier has to stand between them, or an atomic operation has to do both."
            )
    return None
