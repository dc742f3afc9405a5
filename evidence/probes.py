"""Small kernels whose memory traffic the interpreter predicts and a GPU's counters can check.

    ncu --profile-from-start off ... python -m evidence.probes

launches each once on the GPU, in the order of PROBES, with the profiler on for that launch alone.
No two accesses of a probe can be joined or dropped by a compiler: a shared array is read by other
threads than wrote it, behind a barrier, and two branches store to different arrays.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

import gpulab
import gpulab.cuda
from evidence.solutions import solutions
from gpulab.kernels import cuda, float32
from gpulab.observe import Launch

GLOBAL = ("global requests", "sectors read", "sectors written")
SHARED = ("shared requests", "shared passes", "bank conflicts")
PADDED = 32 + 1


@cuda.jit
def read_from(out, x, offset):
    i = cuda.grid(1)
    out[i] = x[i + offset]


@cuda.jit
def read_every(out, x, stride):
    i = cuda.grid(1)
    out[i] = x[i * stride]


@cuda.jit
def write_every(out, x, stride):
    i = cuda.grid(1)
    out[i * stride] = x[i]


@cuda.jit
def read_one_word(out, x):
    out[cuda.grid(1)] = x[cuda.blockIdx.x]


@cuda.jit
def permute(out, x):
    i = cuda.grid(1)
    out[i] = x[i ^ 21]


@cuda.jit
def third_of_the_lanes(out, x):
    i = cuda.grid(1)
    if i % 3 == 0:
        out[i] = x[i]


@cuda.jit
def structures(out, points):
    i = cuda.grid(1)
    out[i] = points[i, 0] + points[i, 1] + points[i, 2]


@cuda.jit
def a_row_a_thread(out, x):
    row = cuda.grid(1)
    total = float32(0)
    for column in range(8):
        total += x[row, column]
    out[row] = total


@cuda.jit
def naive_transpose(out, x):
    column, row = cuda.grid(2)
    out[column, row] = x[row, column]


@cuda.jit
def shared_stride(out, x, stride):
    s = cuda.shared.array(1024, float32)
    lane = cuda.threadIdx.x
    s[lane * stride] = x[lane]
    cuda.syncthreads()
    out[lane] = s[(lane ^ 1) * stride]


@cuda.jit
def shared_broadcast(out, x):
    s = cuda.shared.array(32, float32)
    lane = cuda.threadIdx.x
    s[lane] = x[lane]
    cuda.syncthreads()
    out[lane] = s[5]


@cuda.jit
def transpose_tile(out, x):
    tile = cuda.shared.array((32, 32), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, column] = x[row, column]
    cuda.syncthreads()
    out[row, column] = tile[column, row]


@cuda.jit
def transpose_padded_tile(out, x):
    tile = cuda.shared.array((32, PADDED), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, column] = x[row, column]
    cuda.syncthreads()
    out[row, column] = tile[column, row]


@cuda.jit
def branch_by_lane(even, odd):
    i = cuda.grid(1)
    if i % 2 == 0:
        even[i] = 1
    else:
        odd[i] = 2


@cuda.jit
def branch_by_warp(even, odd):
    i = cuda.grid(1)
    if (i // 32) % 2 == 0:
        even[i] = 1
    else:
        odd[i] = 2


@cuda.jit
def follow(out, following):
    i = cuda.grid(1)
    at, steps = i, 0
    while at >= 0:
        at = following[at]
        steps += 1
    out[i] = steps


@dataclass(frozen=True)
class Probe:
    """A launch: ``run(*tensors)``, with tensors that ``make`` gives on the CPU.

    kernel: the launched function's name. counters: those that the source alone decides; the others
    are recorded, and not compared.
    """

    kernel: str
    run: Callable
    make: Callable[[], tuple[torch.Tensor, ...]]
    counters: tuple[str, ...] = GLOBAL + SHARED

    def predicted(self) -> Launch:
        """What the interpreter saw. Raises ValueError for a kernel with a race or a fault."""
        with gpulab.cuda.use("off", quiet=True), gpulab.observe() as seen:
            self.run(*self.make())
        (launch,) = seen.launches
        if launch.races or launch.faults:
            raise ValueError(f"{self.kernel} is no probe: {[*launch.races, *launch.faults][0]}")
        return launch


def _floats(*shape: int) -> torch.Tensor:
    return torch.rand(*shape)


def _line(kernel, *numbers, needs: int, gives: int = 256, dtype=torch.float32) -> Probe:
    """Two blocks of 128 threads, from ``needs`` elements to ``gives``."""

    def make() -> tuple[torch.Tensor, ...]:
        return torch.zeros(gives, dtype=dtype), torch.arange(needs).to(dtype)

    return Probe(kernel.__name__, lambda out, x: kernel[2, 128](out, x, *numbers), make)


def _warp(kernel, *numbers) -> Probe:
    def run(out, x) -> None:
        kernel[1, 32](out, x, *numbers)

    return Probe(kernel.__name__, run, lambda: (torch.zeros(32), _floats(32)))


def _square(kernel, side: int) -> Probe:
    def run(out, x) -> None:
        kernel[(side // 32, side // 32), (32, 32)](out, x)

    return Probe(kernel.__name__, run, lambda: (torch.zeros(side, side), _floats(side, side)))


def _branch(kernel) -> Probe:
    return Probe(kernel.__name__, lambda a, b: kernel[2, 128](a, b), lambda: (torch.zeros(256), torch.zeros(256)))


def _chains() -> tuple[torch.Tensor, torch.Tensor]:
    """A chain for each of 64 threads: one, two, three or four steps, by its lane."""
    step, thread = torch.arange(4)[:, None], torch.arange(64)[None, :]
    following = torch.where(step < thread % 4, (step + 1) * 64 + thread, -1)
    return torch.zeros(64), following.to(torch.int32).flatten()


def _solution(chapter: str, function: str, kernel: str, make: Callable, *rest, counters=GLOBAL + SHARED) -> Probe:
    return Probe(kernel, lambda *tensors: getattr(solutions(chapter), function)(*tensors, *rest), make, counters)


PROBES: dict[str, Probe] = {
    "neighbours": _line(read_from, 0, needs=256),
    "neighbours, 1 element late": _line(read_from, 1, needs=257),
    "neighbours, 8 elements late": _line(read_from, 8, needs=264),
    "neighbours of 8 bytes": _line(read_from, 0, needs=256, dtype=torch.float64),
    "neighbours of 1 byte": _line(read_from, 0, needs=256, dtype=torch.uint8),
    "neighbours, permuted": _line(permute, needs=256),
    "every 2nd element read": _line(read_every, 2, needs=512),
    "every 8th element read": _line(read_every, 8, needs=2048),
    "every 32nd element read": _line(read_every, 32, needs=8192),
    "every 4th element written": _line(write_every, 4, needs=256, gives=1024),
    "one word for all": _line(read_one_word, needs=2),
    "a third of the lanes": _line(third_of_the_lanes, needs=256),
    "blocks of 33 threads": Probe(
        "read_from", lambda out, x: read_from[3, 33](out, x, 0), lambda: (torch.zeros(99), _floats(99))
    ),
    "array of structures": Probe(
        "structures", lambda out, x: structures[2, 128](out, x), lambda: (torch.zeros(256), _floats(256, 3))
    ),
    "a row a thread": Probe(
        "a_row_a_thread", lambda out, x: a_row_a_thread[1, 64](out, x), lambda: (torch.zeros(64), _floats(64, 64))
    ),
    "naive transpose": _square(naive_transpose, 64),
    "shared memory, stride 1": _warp(shared_stride, 1),
    "shared memory, stride 2": _warp(shared_stride, 2),
    "shared memory, stride 8": _warp(shared_stride, 8),
    "shared memory, stride 32": _warp(shared_stride, 32),
    "shared memory, stride 33": _warp(shared_stride, PADDED),
    "shared memory, one word for all": _warp(shared_broadcast),
    "transposed tile": _square(transpose_tile, 32),
    "transposed tile, padded": _square(transpose_padded_tile, 32),
    "branch by lane": _branch(branch_by_lane),
    "branch by warp": _branch(branch_by_warp),
    "chains of 1 to 4 steps": Probe("follow", lambda out, x: follow[1, 64](out, x), _chains),
    "add_vectors": _solution(
        "execution", "add_vectors", "add_kernel", lambda: (_floats(1000), _floats(1000), torch.zeros(1000)), 128
    ),
    "shade": _solution(
        "execution", "shade", "shade_kernel", lambda: (_floats(48, 100), _floats(100), torch.zeros(48, 100)), (32, 4)
    ),
    "row_sums": _solution("hierarchy", "row_sums", "a_warp_a_row", lambda: (_floats(64, 256),)),
    # A compiler may load several elements of a tile at once: what it asks of shared memory is its choice.
    "tiled_matmul": _solution(
        "hierarchy", "tiled_matmul", "multiply_tiles", lambda: (_floats(32, 48), _floats(48, 64)), counters=GLOBAL
    ),
    # A Triton request is a program's, not a warp's.
    "row_softmax": _solution(
        "kernels", "row_softmax", "softmax_kernel", lambda: (_floats(64, 256),), counters=GLOBAL[1:]
    ),
}


def main(names: list[str]) -> None:
    """Launch these probes on the GPU, all when none is named."""
    with gpulab.cuda.use("real", quiet=True):
        for name in names or PROBES:
            tensors = [tensor.cuda() for tensor in PROBES[name].make()]
            # Once before: what a compiler launches by itself is no part of it.
            PROBES[name].run(*tensors)
            torch.cuda.synchronize()
            with torch.cuda.profiler.profile():
                PROBES[name].run(*tensors)
                torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
