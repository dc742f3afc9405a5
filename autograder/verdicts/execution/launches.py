"""What a judge asks of the launches in an observation before it reads their counts."""

from gpulab import Observation
from gpulab.observe.launches import Launch

SECTOR_BYTES = 32


def own_launch_problem(evidence: dict, seen: Observation, nbytes: int) -> str | None:
    """Why a result of ``nbytes`` bytes is not the work of one launch of the learner's kernel, or None."""
    if not seen.launches:
        return "No launch of a kernel of yours was seen: the work is to be done by your kernel."
    if seen.computing_ops or seen.copies:
        return f"PyTorch did some of the work ({_doer(seen)}): the kernel is to do all of it."
    if len(seen.launches) > 1:
        return "There is more than one launch; one is due."
    if not _is_on_device(seen, seen.launches[0]):
        return "The record of the launch is not that of the kernel which ran on the device."
    if evidence["launch_bytes"] != nbytes:
        return "Not every element of out was written by the kernel."
    return None


def _doer(seen: Observation) -> str:
    return seen.computing_ops[0] if seen.computing_ops else seen.copies[0].op


def _is_on_device(seen: Observation, launch: Launch) -> bool:
    """Whether the device ran this launch and nothing else: it keeps its own count of the sectors."""
    found = [(kernel.name, kernel.bytes_read, kernel.bytes_written) for kernel in seen.kernels]
    sectors = launch.total("read_sectors"), launch.total("written_sectors")
    return found == [(launch.name, *(SECTOR_BYTES * count for count in sectors))]


def bounds_problem(launch: Launch) -> str | None:
    """Which array was touched outside, or None."""
    outside = [fault for fault in launch.faults if fault.kind == "out of bounds"]
    if not outside:
        return None
    return (
        f"Threads touch `{outside[0].array}` outside the array, at `{str(outside[0].line):.80}`: the last blocks have more "
        "threads than there are elements, and those threads must do nothing."
    )


def grid_problem(launch: Launch, grid: tuple[int, ...], block: tuple[int, ...]) -> str | None:
    """Why the launch has not this grid and block, or None."""
    if launch.block != block:
        return "The launch does not have the block that was asked for."
    if launch.grid == grid:
        return None
    if launch.grid == (grid[1], grid[0], grid[2]):
        return "The grid's x and y are the other way round: x is to run over the columns."
    more = launch.grid[0] * launch.grid[1] * launch.grid[2] > grid[0] * grid[1] * grid[2]
    why = "blocks are launched that have no element" if more else "there are fewer blocks than one element a thread takes"
    return f"The grid is not the smallest that gives each element a thread: {why}."
