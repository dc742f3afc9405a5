"""A traced kernel, replayed a step at a time: its line, its warps, the lanes that take part."""

import inspect
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anywidget
import numpy as np
import traitlets

from gpulab.widgets._source import module, style

if TYPE_CHECKING:
    from gpulab.kernels.simt.steps import Steps

MAX_STEPS = 400


class WarpStepper(anywidget.AnyWidget):
    """Some blocks of a launch, as :func:`gpulab.kernels.trace` kept them, with a quiz on the way.

    Args:
        kernel: what was launched, made with ``cuda.jit``.
        grid, block: as in the launch; one, two or three numbers.
        traces: one for each block to be shown.
        label: what it shows, for the heading. May hold `code` between backticks.
        step: the step to start at, from 1.

    Raises:
        ValueError: when a trace is empty, was cut, is not of this launch, or is so long that no
            reader would step through it.
    """

    _esm = module("warp_stepper")
    _css = style("warp_stepper")
    source = traitlets.List().tag(sync=True)
    first = traitlets.Int().tag(sync=True)
    grid = traitlets.List().tag(sync=True)
    block = traitlets.List().tag(sync=True)
    runs = traitlets.List().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    run = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(1).tag(sync=True)

    def __init__(
        self, kernel, grid, block, traces: "Sequence[Steps]", label: str = "A kernel, step by step", step: int = 1
    ):
        from gpulab.kernels.simt.limits import three

        source, first = _source(kernel.py_func)
        runs = [_run(trace, range(first, first + len(source))) for trace in traces]
        if not runs:
            raise ValueError("no trace: launch the kernel inside a trace() block")
        grid, block = list(three(grid, "grid")), list(three(block, "block"))
        _check(runs, grid, block, step)
        super().__init__(source=source, first=first, grid=grid, block=block, runs=runs, label=label, step=step)


def _source(function) -> tuple[list[str], int]:
    """Its lines from ``def`` on, and the number of the first."""
    lines = textwrap.dedent(inspect.getsource(function)).rstrip().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return lines[start:], function.__code__.co_firstlineno + start


def _run(trace: "Steps", lines: range) -> dict:
    if not trace.steps:
        raise ValueError(f"block {trace.block} has no steps: launch a kernel inside the trace() block")
    if trace.cut or len(trace.steps) > MAX_STEPS:
        raise ValueError(f"more than {MAX_STEPS} steps are too many to step through: trace a smaller launch")
    weights = 1 << np.arange(32, dtype=np.uint64)
    steps = [[step.line.number, (step.lanes @ weights).tolist()] for step in trace.steps if step.line.number in lines]
    return {"block": trace.block, "steps": steps}


def _check(runs: list[dict], grid: list[int], block: list[int], step: int) -> None:
    warps, blocks = -(-block[0] * block[1] * block[2] // 32), grid[0] * grid[1] * grid[2]
    for run in runs:
        if run["block"] >= blocks or not run["steps"] or len(run["steps"][0][1]) != warps:
            raise ValueError(f"the trace of block {run['block']} is not of this kernel with this grid and block")
    if not 1 <= step <= len(runs[0]["steps"]):
        raise ValueError(f"step {step} of {len(runs[0]['steps'])}: the first is 1")
