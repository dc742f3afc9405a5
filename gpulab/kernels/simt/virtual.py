"""A launch on the virtual CUDA device: one kernel on the current stream."""

from collections.abc import Iterator

import numpy as np
import torch

from gpulab.cards.constants import KERNEL_FLOOR_US
from gpulab.cuda.device import state
from gpulab.cuda.errors import NotModelled
from gpulab.kernels.errors import LaunchError
from gpulab.observe.launches import SECTOR_BYTES


def capability() -> tuple[int, int] | None:
    """Compute capability of the virtual card; None when none is on."""
    return state.device_on().card.capability if state.is_on() else None


def needs_counts() -> bool:
    """Whether a launch must count its bytes and flops, for the model of its time."""
    return state.is_on()


def check_sides(arguments: dict) -> None:
    """Raises LaunchError for a launch with tensors of the card and arrays of the host together."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    for name, value in arguments.items():
        for array in _arrays_in(value):
            sides[isinstance(array, torch.Tensor) and array.is_cuda].append(name)
    on_card, on_host = sides[True], sides[False]
    if on_host and on_card:
        raise LaunchError(
            f"{on_card[0]} is on the device and {on_host[0]} is not: make it a tensor there (.cuda()) before the launch"
        )


def _arrays_in(value) -> list:
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays_in(part)]
    return [value] if isinstance(value, torch.Tensor | np.ndarray) else []


def launched(configured, run, arguments) -> None:
    """Tell the machine: time by counted flops and sectors, and which tensors were used how."""
    tensors = [(name, t) for name, t in tensors_in(configured.kernel.body.names, arguments) if t.is_cuda]
    if not state.is_on() or not tensors:
        return
    device = state.device_on()
    if device.capture is not None:
        raise NotModelled("a kernel written in Python inside a CUDA graph")
    with device.machine.on(_queue(device, configured.stream)):
        _put(device, configured.kernel, run, tensors)


def tensors_in(names, arguments) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor of a launch, those in tuples too, with the parameter that it came by."""
    for name, value in zip(names, arguments):
        if isinstance(value, tuple):
            yield from tensors_in([name] * len(value), value)
        elif isinstance(value, torch.Tensor):
            yield name, value


def _put(device, kernel, run, tensors: list) -> None:
    lines = run.trace.lines()
    flops, read, written = (sum(getattr(line, name) for line in lines) for name in _COUNTS)
    card = device.card
    seconds = max(flops / card.flops_per_s["fp32"], SECTOR_BYTES * (read + written) / card.sustained_bytes_per_s)
    uses = [(device.memory.of(tensor).accesses, tensor, kernel.usage[name]) for name, tensor in tensors]
    device.machine.kernel(
        kernel.__name__,
        KERNEL_FLOOR_US + seconds * 1e6,
        run.shape.blocks * run.shape.threads,
        flops,
        [(accesses, tensor) for accesses, tensor, kinds in uses if "write" not in kinds and "atomic" not in kinds],
        [(accesses, tensor) for accesses, tensor, kinds in uses if "write" in kinds or "atomic" in kinds],
        SECTOR_BYTES * read,
        SECTOR_BYTES * written,
    )


_COUNTS = ("flops", "read_sectors", "written_sectors")


def _queue(device, stream):
    """The queue of a stream as Numba takes it: 0 or None for the current one, or a torch stream."""
    machine = device.machine
    if stream is None or stream == 0:
        return machine.current
    number = getattr(stream, "stream_id", stream)
    if number not in machine.queues:
        raise NotModelled(f"a launch on the stream {stream!r}")
    return machine.queues[number]
