"""One launch on the interpreter: batches of blocks, one after another, in lockstep."""

import numpy as np

from gpulab.kernels.errors import MemoryFault
from gpulab.kernels.simt.arguments import Argument, GlobalArray, as_array, histories
from gpulab.kernels.simt.arrays import LocalArray, SharedArray
from gpulab.kernels.simt.batch import Batch, Group, Shape
from gpulab.kernels.simt.counters import Findings, Trace
from gpulab.kernels.simt.limits import check_shared, check_static_shared
from gpulab.kernels.simt.turns import Turns

LANES_AT_ONCE = 8192
"""Blocks run side by side until they fill this many lanes: NumPy's cost of a call is then small."""

MAX_TURNS = 1_000_000


class Run:
    """What all blocks of a launch have in common."""

    def __init__(self, kernel, shape: Shape, shared_bytes: int, capability, tracing: bool, order, steps=None) -> None:
        self.kernel, self.shape, self.places = kernel, shape, kernel.places
        self.capability, self.dynamic_bytes = capability, shared_bytes
        self.findings = Findings(kernel.places)
        self.trace = Trace(kernel.places) if tracing else None
        self.steps, self.order = steps, order
        self.max_turns = MAX_TURNS
        self.raises = not tracing
        self.static_bytes = 0
        self.arrays: list[GlobalArray] = []
        self._shared_offsets: dict = {}

    # ---- what happens in it

    def fault(self, kind, array, index, thread, place, count, shape) -> None:
        """Note a fault; outside ``observe()`` it ends the launch as an error."""
        found = self.findings.fault(kind, array, index, thread, place, count)
        if self.raises:
            raise MemoryFault(found, _in_words(found, shape))

    def count_barrier(self, mask, place: int) -> None:
        if self.trace is not None:
            self.trace.at(place).barriers += mask.warps

    def note_early_return(self, place: int) -> None:
        line = self.places.lines[place]
        self.findings.warn(
            f"line {line.number}: some threads had returned before this barrier. Cards from compute "
            "capability 7.0 on wait for the others only; it is safer to let every thread reach it"
        )

    def shared_array(self, group: Group, name: str, key, shape, dtype) -> SharedArray:
        arrays = group.batch.shared
        if shape == (0,):
            key, shape = ("dynamic", dtype), (self.dynamic_bytes // dtype.itemsize,)
        if key not in arrays:
            base = self._shared_base(key, shape, dtype)
            arrays[key] = SharedArray(name, dtype, shape, len(group.batch.blocks), self.shape.lanes)
            arrays[key].base_bytes = base
        return arrays[key]

    def _shared_base(self, key, shape, dtype) -> int:
        if key not in self._shared_offsets:
            if key[0] == "dynamic":
                self._refuse_second_kind(dtype)
                self._shared_offsets[key] = 0
            else:
                start = -(-self.static_bytes // 16) * 16
                self.static_bytes = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                check_static_shared(self.static_bytes)
                self._shared_offsets[key] = start
            check_shared(self.static_bytes + self.dynamic_bytes, self.capability)
        return self._shared_offsets[key]

    def _refuse_second_kind(self, dtype) -> None:
        others = [key[1] for key in self._shared_offsets if key[0] == "dynamic" and key[1] != dtype]
        if others:
            raise TypeError(
                f"dynamic shared memory as {dtype} and as {others[0]}: both begin at the same byte, and the "
                "interpreter follows one kind of element"
            )

    def local_array(self, group: Group, name: str, key, shape, dtype) -> LocalArray:
        return LocalArray(name, dtype, shape, group.size)

    # ---- running it

    def go(self, values: list) -> None:
        """Run every block with these arguments."""
        arguments = self._bound(values)
        at_once = 1 if self.order is not None else max(1, LANES_AT_ONCE // self.shape.lanes)
        with np.errstate(all="ignore"):
            for first in range(0, self.shape.blocks, at_once):
                blocks = np.arange(first, min(first + at_once, self.shape.blocks))
                self._run_batch(Batch(self.shape, blocks), arguments)

    def _bound(self, values: list) -> list:
        given = [value for value in values if isinstance(value, Argument)]
        uses = self.kernel.usage
        known = histories(given, uses, self.shape.lanes, self.findings.warn)
        made = {a.name: as_array(a, *known.get(a.name, (None, 0)), self.trace is not None) for a in given}
        self.arrays = list(made.values())
        return [made[value.name] if isinstance(value, Argument) else value for value in values]

    def _run_batch(self, batch: Batch, arguments: list) -> None:
        body = self.kernel.body
        if self.order is None:
            group = Group(self, batch)
            body.call(group, group.exists, list(arguments))
            return
        groups = [Group(self, batch, warp) for warp in range(self.shape.warps)]
        Turns(batch, groups, self.order).run(lambda group: body.call(group, group.exists, list(arguments)))


def _in_words(fault, shape) -> str:
    block, thread = fault.thread[:3], fault.thread[3:]
    who = f"thread {thread} of block {block}"
    where = f"\n  {fault.line.function}, line {fault.line.number}: {fault.line.text}"
    if fault.kind == "out of bounds":
        size = tuple(int(n) for n in shape)
        index = fault.index[0] if len(fault.index) == 1 else fault.index
        text = f"{who} uses {fault.array}[{index}], and {fault.array} has shape {size}"
    elif fault.kind == "uninitialised read":
        index = fault.index[0] if len(fault.index) == 1 else fault.index
        text = f"{who} reads {fault.array}[{index}], which nobody has written in this launch"
    elif fault.kind == "barrier not reached by all":
        text = f"{who} does not come to this barrier, and the others of its block wait there for ever"
    else:
        text = f"{who}: {fault.kind}"
    return f"{fault.kind}: {text}.{where}"
