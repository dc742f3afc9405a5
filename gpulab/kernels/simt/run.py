"""One launch on the interpreter: batches of blocks, one after another, in lockstep."""

import numpy as np

from gpulab.kernels.errors import LaunchError, MemoryFault
from gpulab.kernels.simt.arguments import Argument, GlobalArray, arguments_in, as_array, histories
from gpulab.kernels.simt.arrays import LocalArray, SharedArray
from gpulab.kernels.simt.batch import Batch, Group, Shape
from gpulab.kernels.simt.counters import Findings, Trace
from gpulab.kernels.simt.limits import check_shared, check_static_shared
from gpulab.kernels.simt.races import WHO_BITS
from gpulab.kernels.simt.releases import Releases
from gpulab.kernels.simt.spin_wait import SpinWait
from gpulab.kernels.simt.warp_scheduler import WarpScheduler

LANES_AT_ONCE = 8192
"""Blocks run side by side until they fill this many lanes: NumPy's cost of a call is then small."""

MAX_TURNS = 1_000_000
MOST_THREADS = 1 << WHO_BITS


class Run:
    """What all blocks of a launch have in common."""

    def __init__(self, kernel, shape: Shape, shared_bytes: int, capability, tracing: bool, order, steps=None) -> None:
        if shape.blocks * shape.lanes > MOST_THREADS:
            raise LaunchError(f"{shape.blocks} blocks of {shape.threads}: at most {MOST_THREADS} threads run here")
        self.kernel, self.shape, self.places = kernel, shape, kernel.places
        self.capability, self.dynamic_bytes = capability, shared_bytes
        self.steps, self.order = steps, order
        self.max_turns = MAX_TURNS
        self.raises = not tracing
        self.watched = self.places.may_spin
        self._tracing = tracing
        self._begin()

    def _begin(self) -> None:
        """Nothing has run, nothing is known."""
        self.findings = Findings(self.places)
        self.trace = Trace(self.places) if self._tracing else None
        threads = self.shape.blocks * self.shape.lanes
        self.releases = Releases(threads, self.shape.lanes) if self.places.fences else None
        self.result_used = False
        self.progress = 0
        self.static_bytes = 0
        self.arrays: list[GlobalArray] = []
        self._shared_offsets: dict = {}
        if self.steps is not None:
            self.steps.clear()

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
            arrays[key] = SharedArray(name, dtype, shape, len(group.batch.blocks), self.shape.lanes, self.releases)
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
        before = self._written_to(values) if self.watched else []
        with np.errstate(all="ignore"):
            try:
                self._run_all(self._bound(values))
            except SpinWait:
                for memory, was in before:
                    np.copyto(memory, was)
                self.order = 0
                self._begin()
                self._run_all(self._bound(values))

    def _written_to(self, values: list) -> list[tuple[np.ndarray, np.ndarray]]:
        """The memory that the kernel may change, each beside a copy of it."""
        uses = self.kernel.usage
        changed = [a for a in arguments_in(values) if uses[a.parameter] & {"write", "atomic"}]
        return [(a.memory, a.memory.copy()) for a in changed]

    def _run_all(self, arguments: list) -> None:
        if self.order is not None:
            return self._in_turns(arguments)
        at_once = max(1, LANES_AT_ONCE // self.shape.lanes)
        for first in range(0, self.shape.blocks, at_once):
            blocks = np.arange(first, min(first + at_once, self.shape.blocks))
            group = Group(self, Batch(self.shape, blocks, self.releases))
            self.kernel.body.call(group, group.exists, list(arguments))

    def _in_turns(self, arguments: list) -> None:
        def warps_of(block: int):
            batch = Batch(self.shape, np.array([block]), self.releases)
            return batch, [Group(self, batch, warp) for warp in range(self.shape.warps)]

        WarpScheduler(
            map(warps_of, range(self.shape.blocks)),
            self.order,
            lambda group: self.kernel.body.call(group, group.exists, list(arguments)),
            lambda: self.progress,
            lambda: self.findings.warn(
                "a block waits for a later one: CUDA promises no order of blocks, and this ends only when all "
                "of them fit on the card at once"
            ),
        ).run()

    def _bound(self, values: list) -> list:
        given = list(arguments_in(values))
        uses = self.kernel.usage
        known = histories(given, uses, self.shape.lanes, self.findings.warn, self.releases)
        made = {a.name: as_array(a, *known.get(a.name, (None, 0)), self.trace is not None) for a in given}
        self.arrays = list(made.values())
        return [_in_place(value, made) for value in values]


def _in_place(value, made: dict):
    if isinstance(value, tuple):
        parts = [_in_place(part, made) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return made[value.name] if isinstance(value, Argument) else value


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
