"""A launch on the virtual card: one kernel of the current stream, with its bytes and flops."""

from gpulab.cuda.device import cost, state
from gpulab.cuda.errors import NotModelled
from gpulab.kernels.tiles.interpret import Run, tensors_of


def check_devices(arguments: dict) -> None:
    """Raise ValueError, as Triton does, for a host tensor when the card is on."""
    device = state._on
    if device is None:
        return
    if device.ghost:
        raise NotModelled("a Triton kernel on a ghost card, whose tensors have no values,")
    if device.capture is not None:
        raise NotModelled("a Triton launch inside CUDA graph capture")
    for position, value in enumerate(arguments.values()):
        if not all(tensor.is_cuda for _, tensor in tensors_of({"": value})):
            raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")


def account(name: str, run: Run, threads: int) -> None:
    """Put what ``run`` did into the machine's current stream."""
    device, counts = state.device_on(), run.counts
    uses = [
        (device.memory.of(region.tensor).accesses, region.tensor, counts.use_of(region))
        for region in run.space.regions.values()
    ]
    read, written = sum(use.read_bytes for *_, use in uses), sum(use.written_bytes for *_, use in uses)
    flops = sum(line.flops for line in counts.lines())
    peak = _peak(device.machine.card, counts, flops)
    device.machine.kernel(
        name,
        cost.duration_us(device.machine.card, flops, read + written, peak),
        threads,
        flops,
        [(accesses, tensor) for accesses, tensor, use in uses if use.read_bytes],
        [(accesses, tensor) for accesses, tensor, use in uses if use.written_bytes],
        read,
        written,
    )


def _peak(card, counts, flops: int) -> float:
    """FLOP/s of the units that do most of the work: matrix units for ``tl.dot``."""
    for matrix, count in counts.matrix_flops.items():
        if 2 * count > flops and matrix in card.flops_per_s:
            return card.matrix_flops_per_s(matrix)
    return card.flops_per_s["fp32"]
