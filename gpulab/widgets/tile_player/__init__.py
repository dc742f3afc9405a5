"""One block of a kernel, replayed: the elements that it loads, shares and stores, step by step."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anywidget
import traitlets

from gpulab.widgets._source import module, style

if TYPE_CHECKING:
    from gpulab.kernels.simt.steps import Access, Step, Steps

MAX_FRAMES = 200
MAX_CELLS = 256


class TilePlayer(anywidget.AnyWidget):
    """What :func:`gpulab.kernels.trace` kept of a block, one step at a time, with no kernel.

    Args:
        steps: the trace of one block.
        shapes: (rows, columns) of every array to draw, by its name in the kernel, in order.
        label: what is shown, for the heading. May hold `code` between backticks.
        step: the step to start at, from 1.

    Raises:
        ValueError: when the trace is empty or cut short, too long to step through, or touches an
            array whose shape is not given or too small.
    """

    _esm = module("tile_player")
    _css = style("tile_player")
    trace = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(1).tag(sync=True)

    def __init__(self, steps: "Steps", shapes: Mapping[str, tuple[int, int]], label: str = "One block", step: int = 1):
        frames = _frames(steps, shapes)
        if steps.cut or not 0 < len(frames) <= MAX_FRAMES:
            raise ValueError(f"{len(frames)} steps: trace one small block, 1 to {MAX_FRAMES} steps of it")
        if not 1 <= step <= len(frames):
            raise ValueError(f"step {step} of {len(frames)}: the first is 1")
        spaces = {access.array: access.space for access in steps.accesses}
        arrays = [{"name": name, "space": spaces[name], "shape": list(shape)} for name, shape in shapes.items()]
        threads = int(steps.steps[0].lanes.sum())
        super().__init__(trace={"frames": frames, "arrays": arrays, "threads": threads}, label=label, step=step)


def _frames(steps: "Steps", shapes: Mapping[str, tuple[int, int]]) -> list[dict]:
    if missing := {access.array for access in steps.accesses} ^ set(shapes):
        raise ValueError(f"expected shapes for the arrays that the block uses, and for no other: see {sorted(missing)}")
    bases = _bases(steps.accesses)
    waiting, frames = list(steps.accesses), []
    for step in steps.steps:
        accesses = _of_this_step(step, waiting)
        barrier = "syncthreads" in step.line.text
        if accesses or barrier:
            touches = [_touch(access, bases, shapes[access.array]) for access in accesses]
            frames.append({"line": step.line.text, "barrier": barrier, "touches": touches})
    return frames


def _bases(accesses: list["Access"]) -> dict[str, int]:
    """Where each array begins: arrays of shared memory lie one behind the other."""
    bases: dict[str, int] = {}
    for access in accesses:
        if access.space == "shared":
            bases[access.array] = min(int(access.addresses.min()), bases.get(access.array, 1 << 62))
    return bases


def _of_this_step(step: "Step", waiting: list["Access"]) -> list["Access"]:
    """Take from ``waiting`` what this step did: each array read or written once by its line."""
    taken: list[Access] = []
    while waiting and waiting[0].line == step.line:
        if any((a.array, a.store) == (waiting[0].array, waiting[0].store) for a in taken):
            break
        taken.append(waiting.pop(0))
    return taken


def _touch(access: "Access", bases: dict[str, int], shape: tuple[int, int]) -> dict:
    cells = [int(address - bases.get(access.array, 0)) // access.item_bytes for address in access.addresses]
    if shape[0] * shape[1] > MAX_CELLS or max(cells) >= shape[0] * shape[1]:
        raise ValueError(f"{access.array}: {shape} does not hold element {max(cells)}, or is larger than {MAX_CELLS}")
    return {"array": access.array, "space": access.space, "store": access.store, "cells": cells}
