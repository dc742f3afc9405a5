"""What a judge asks of the launches in an observation before it reads their counts."""

from autograder.verdicts.own_work import own_work_problem
from gpulab import Observation
from gpulab.observe.launches import Launch


def one_launch_problem(evidence: dict, seen: Observation, nbytes: int) -> str | None:
    """Why a result of ``nbytes`` bytes is not the work of one launch of the learner's kernel, or None."""
    if problem := own_work_problem(evidence, seen, nbytes):
        return problem
    return "There is more than one launch; one is due." if len(seen.launches) > 1 else None


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
        return "The grid's x and y are the other way round: x is to be the dimension that runs along memory."
    more = launch.grid[0] * launch.grid[1] * launch.grid[2] > grid[0] * grid[1] * grid[2]
    why = "blocks are launched that have no element" if more else "there are fewer blocks than one element a thread takes"
    return f"The grid is not the smallest that gives each element a thread: {why}."
