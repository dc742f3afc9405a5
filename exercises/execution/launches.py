"""What a judge asks of the launches in an observation before it reads their counts."""

import torch

from autograder.judge.expect import tensor_problem, type_name
from autograder.judge.own_work import own_work_problem
from gpulab import Observation
from gpulab.observe.launches import Launch


def work_problem(evidence: dict, seen: Observation, nbytes: int) -> str | None:
    """Why a result of ``nbytes`` bytes is not the work of one launch of a function that returns nothing, or None."""
    if problem := one_launch_problem(evidence, seen, nbytes):
        return problem
    returned = evidence["returned"]
    return (
        None
        if returned is None
        else f"The function returned {type_name(returned)}; it writes into `out` and returns nothing."
    )


def one_launch_problem(evidence: dict, seen: Observation, nbytes: int) -> str | None:
    """Why a result of ``nbytes`` bytes is not the work of one launch of the learner's kernel, or None."""
    if problem := own_work_problem(evidence, seen, nbytes):
        return problem
    return "There is more than one launch; expected one." if len(seen.launches) > 1 else None


def values_problem(seen: Observation, out: object, expected: torch.Tensor) -> str | None:
    """Why what the one kernel wrote into a tensor of NaN is not ``expected``, or None. A fault of its is named first."""
    if problem := tensor_problem(out, expected):
        return problem
    right = (out == expected) | (out.isnan() & expected.isnan())
    if not right.all() and (fault := _unordered(seen.launches[0])):
        return fault
    if (out.isnan() & ~right).any():
        return "Some elements are never written: how many threads are launched, and which element does each compute?"
    return None if right.all() else "Some elements of the result are wrong."


def faults_problem(launch: Launch) -> str | None:
    """What the launch did that a GPU does not forgive: outside an array first, then the rest; or None."""
    faults = sorted(launch.faults, key=lambda fault: fault.kind != "out of bounds")
    if faults and faults[0].kind == "out of bounds":
        return (
            f"Threads touch `{faults[0].array}` outside the array, at `{str(faults[0].line):.80}`: the last blocks have more "
            "threads than there are elements, and those threads must do nothing."
        )
    return _unordered(launch)


def _unordered(launch: Launch) -> str | None:
    """What of threads that do not wait for one another, as they must, was seen in the launch; or None."""
    for race in launch.races:
        if race.space == "shared":
            return f"Threads of a block race for `{race.array:.30}`, in shared memory: no barrier lies between them."
    for fault in launch.faults:
        if fault.kind != "out of bounds":
            return f"The kernel has a fault, {fault.kind}, at `{str(fault.line):.80}`: on a GPU it may hang or give anything."
    return None


def once_problem(launch: Launch, nbytes: int, reads: int | None) -> str | None:
    """Why not each element of a result of ``nbytes`` bytes is written once and each of its sources read once, or None.

    ``reads``: bytes of all sources of this size; None where other arrays are as large.
    """
    if sum(use.distinct_written_bytes for use in launch.arrays) > nbytes:
        return "The kernel writes into an array other than `out`."
    written = sum(use.written_bytes for use in launch.arrays)
    if written > nbytes:
        return "Elements are written more than once: several threads do the same element, or one thread does all."
    read = sum(use.read_bytes for use in launch.arrays if use.bytes == nbytes)
    if reads is not None and read > reads:
        return "Elements are read more often than needed: each is to be read once."
    if reads is not None and read < reads and written == nbytes:
        return "Some elements are never read, and each is to be read once: what is left out may be NaN."
    if any(race.space == "global" for race in launch.races):
        return "Two threads use the same element, one of them to write it."
    return None


def grid_problem(launch: Launch, grid: tuple[int, ...], block: tuple[int, ...]) -> str | None:
    """Why the launch has not this grid and block, or None."""
    if launch.block != block:
        return "The launch does not have the block that was asked for."
    if launch.grid == grid:
        return None
    if launch.grid == (grid[1], grid[0], grid[2]):
        return "The grid's x and y are the other way round: x is to be the dimension that runs along memory."
    more = launch.grid[0] * launch.grid[1] * launch.grid[2] > grid[0] * grid[1] * grid[2]
    why = (
        "blocks are launched that have no element" if more else "there are fewer blocks than one element a thread takes"
    )
    return f"The grid is not the smallest that gives each element a thread: {why}."
