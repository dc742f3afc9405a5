"""Kernels that run under our interpreter and, in a process of its own, under Numba's simulator.

``python corpus.py simulate out.npz`` writes what Numba's simulator computes;
``python corpus.py types out.json`` what Numba's compiler says of each kernel.
"""

import json
import math
import os
import sys

import numpy as np

if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    from numba import cuda, float32, float64, int32
else:
    from gpulab.kernels import cuda, float32, float64, int32

TILE = 4
FIELD = 3.5
TABLE = np.arange(12.0).reshape(4, 3)


@cuda.jit(device=True)
def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


@cuda.jit(device=True)
def two_sum(a, b):
    s = a + b
    return s, s - a


@cuda.jit
def saxpy(out, x, y, a):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    out[i] = a * x[i] + y[i]


@cuda.jit
def grid_stride(out, x):
    start = cuda.grid(1)
    for i in range(start, x.size, cuda.gridsize(1)):
        out[i] = x[i] * 2 + 1


@cuda.jit
def collatz(out):
    i = cuda.grid(1)
    n, steps = i + 1, 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    out[i] = steps


@cuda.jit
def leave_and_skip(out, x):
    i = cuda.grid(1)
    total = 0.0
    for k in range(20):
        if k == i:
            continue
        if k > 10 and i % 3 == 0:
            break
        for j in range(k):
            if j > i:
                break
            total += x[(i + j) % x.size]
    out[i] = total


@cuda.jit
def short_circuit(out, x):
    i = cuda.grid(1)
    if i > 0 and x[i - 1] < x[i] or i == 0:
        out[i] = 1
    elif not (i < x.size - 1) or x[i + 1] > x[i]:
        out[i] = 2
    else:
        out[i] = 3 if 0.2 < x[i] < 0.8 else 4


@cuda.jit
def whole_numbers(out, a, b):
    i = cuda.grid(1)
    out[i, 0] = a[i] + b[i]
    out[i, 1] = a[i] // b[i]
    out[i, 2] = a[i] % b[i]
    out[i, 3] = (a[i] << 3) ^ (b[i] & 7) | (a[i] >> 1)
    out[i, 4] = -a[i] * b[i]
    out[i, 5] = min(a[i], b[i], 3) + max(a[i], b[i])
    out[i, 6] = abs(a[i]) + int(a[i] / b[i])
    out[i, 7] = ~a[i]


@cuda.jit
def functions(out, x):
    i = cuda.grid(1)
    v = float64(x[i])
    out[i, 0] = math.sqrt(v) + math.exp(-v)
    out[i, 1] = math.sin(v) * math.cos(v) + math.atan2(v, 2.0)
    out[i, 2] = math.floor(v * 10) + math.ceil(v)
    out[i, 3] = math.log(v + 1.0) + math.tanh(v) + math.erf(v)
    out[i, 4] = v**2 + v**0.5
    out[i, 5] = math.hypot(v, 3.0) + math.pi
    out[i, 6] = float(i) / 3 + FIELD


@cuda.jit
def device_functions(out, x):
    i = cuda.grid(1)
    s, back = two_sum(x[i], 0.5)
    out[i] = clamp(s, 0.6, 1.2) + back


@cuda.jit
def three_dimensions(out):
    x, y, z = cuda.grid(3)
    if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]:
        out[x, y, z] = x * 100 + y * 10 + z + cuda.blockDim.z * 1000 + cuda.gridDim.y * 5000


@cuda.jit
def tiled_product(a, b, c):
    s = cuda.shared.array((TILE, TILE), float64)
    t = cuda.shared.array((TILE, TILE), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = 0.0
    for k in range((a.shape[1] + TILE - 1) // TILE):
        s[ty, tx] = 0
        t[ty, tx] = 0
        if y < a.shape[0] and k * TILE + tx < a.shape[1]:
            s[ty, tx] = a[y, k * TILE + tx]
        if x < b.shape[1] and k * TILE + ty < b.shape[0]:
            t[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += s[ty, j] * t[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.jit
def reduction(out, x):
    s = cuda.shared.array(32, float64)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    n = 16
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit
def histogram(bins, x):
    local = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        local[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(local, int(x[i] * 8), 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(bins, t, local[t])


@cuda.jit
def extremes(out, x):
    i = cuda.grid(1)
    cuda.atomic.max(out, 0, x[i])
    cuda.atomic.min(out, 1, x[i])


@cuda.jit
def stack_of_a_thread(out, x):
    own = cuda.local.array(8, float64)
    i = cuda.grid(1)
    for k in range(8):
        own[k] = x[(i * k) % x.size]
    for k in range(7):
        for j in range(7 - k):
            if own[j] > own[j + 1]:
                own[j], own[j + 1] = own[j + 1], own[j]
    out[i] = own[3] + 10 * own[7]


@cuda.jit
def counted_barriers(out, x):
    i = cuda.grid(1)
    out[i, 0] = cuda.syncthreads_count(int(x[i] > 0.5))
    out[i, 1] = cuda.syncthreads_and(int(x[i] >= 0.0))
    out[i, 2] = cuda.syncthreads_or(int(x[i] > 2.0))


@cuda.jit
def dynamic_shared(out, x):
    s = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = s[cuda.blockDim.x - 1 - t]


@cuda.jit
def tuples_and_pairs(out, x):
    i = cuda.grid(1)
    total = 0.0
    for step in (16, 8, 4):
        total += x[(i + step) % x.size]
    for k, step in enumerate((3, 5), 2):
        total += k * x[(i * step) % x.size]
    for k, (a, b) in enumerate(zip((1.5, 2.5, 3.5), range(i, i + 9, 2))):
        if k == i % 3:
            continue
        total += a * x[b % x.size] + k
    for value in x[i % 7 : i % 7 + 5]:
        if value > 0.9:
            break
        total += value
    out[i] = total + (3 if i % 5 in (1, 2) else 4)


@cuda.jit
def rows_and_slices(out, a):
    i = cuda.grid(1)
    row = a[i]
    total = 0.0
    for value in row:
        total += value
    for k, value in enumerate(row[1:-1:2]):
        total += k * value
    for line in a[i : i + 2]:
        total += line[-1] + line.shape[0] * line.size
    out[i, 0] = a[i][2] + a[-1][i % 3] + row[::-1][0]
    tail = out[i][1:]
    tail[0] = total
    out[i][2] = len(a[i:, 1:3]) + a[i:, 1:3].shape[1] + a[1:, 1:][0, 1]


@cuda.jit
def halves_of_shared(out, x):
    s = cuda.shared.array(0, float64)
    n = cuda.blockDim.x
    first, second = s[:n], s[n : 2 * n]
    t = cuda.threadIdx.x
    first[t] = x[cuda.grid(1)]
    second[n - 1 - t] = 2 * first[t]
    cuda.syncthreads()
    out[cuda.grid(1)] = first[n - 1 - t] + second[t]


@cuda.jit(device=True)
def with_defaults(x, factor=3, shift=0.5):
    return x * factor + shift


@cuda.jit
def defaults_and_names(out, x):
    i = cuda.grid(1)
    out[i, 0] = with_defaults(x[i])
    out[i, 1] = with_defaults(x[i], 2)
    out[i, 2] = with_defaults(x[i], 2, i)


@cuda.jit
def rounding(out, x, a):
    i = cuda.grid(1)
    v = (x[i] - 0.5) * 1000
    out[i, 0] = round(v, 1) + round(v, -1)
    out[i, 1] = round(v) + round(v, 12)
    out[i, 2], out[i, 3] = divmod(a[i], 7)
    out[i, 4], out[i, 5] = divmod(v, 3.5)


@cuda.jit
def further_mathematics(out, x):
    i = cuda.grid(1)
    v = (x[i] - 0.5) * 9
    out[i, 0], out[i, 1] = math.frexp(v)
    out[i, 2], out[i, 3] = math.modf(v)
    out[i, 4] = math.ldexp(v, i % 9 - 4)
    out[i, 5] = math.remainder(v, 0.75)
    out[i, 6] = math.gamma(v)


@cuda.jit
def constant_memory(out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[i % 4, 1] + table[1][i % 3]


@cuda.jit
def casts(out, x):
    i = cuda.grid(1)
    out[i, 0] = int32(x[i] * 100)
    out[i, 1] = float32(x[i])
    out[i, 2] = bool(x[i] > 0.5)
    out[i, 3] = round(x[i] * 10)


# ---- warps and names of arguments: Numba's simulator has none of these


@cuda.jit
def warp_sum(out, x):
    i = cuda.grid(1)
    v = x[i]
    offset = 16
    while offset > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
        offset //= 2
    if cuda.laneid == 0:
        out[i // 32] = v


@cuda.jit
def butterfly_and_scan(out, x):
    lane = cuda.laneid
    v = x[cuda.grid(1)]
    for step in range(5):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1 << step)
    out[lane, 0] = v
    w = x[cuda.grid(1)]
    for step in range(5):
        below = cuda.shfl_up_sync(0xFFFFFFFF, w, 1 << step)
        if lane >= 1 << step:
            w += below
    out[lane, 1] = w
    out[lane, 2] = cuda.shfl_sync(0xFFFFFFFF, x[cuda.grid(1)], (lane + 1) % 32)


@cuda.jit
def votes(out):
    lane = cuda.laneid
    ballot = cuda.ballot_sync(0xFFFFFFFF, lane % 3 == 0)
    out[lane, 0] = cuda.popc(ballot)
    out[lane, 1] = cuda.any_sync(0xFFFFFFFF, lane == 40)
    out[lane, 2] = cuda.all_sync(0xFFFFFFFF, lane < 32)
    out[lane, 3] = cuda.popc(cuda.match_any_sync(0xFFFFFFFF, lane // 8))
    out[lane, 4] = cuda.ffs(ballot >> 1)


@cuda.jit
def within_a_warp(out, x):
    s = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[t ^ 1]


@cuda.jit
def names_of_arguments(out, x):
    i = cuda.grid(1)
    out[i] = with_defaults(x[i], shift=i, factor=4)


def warp_cases():
    """As :func:`cases`."""
    x = np.random.default_rng(8).random(64)
    f8 = np.zeros
    return {
        "warp_sum": (warp_sum, 1, 64, 0, (f8(2), x)),
        "butterfly_and_scan": (butterfly_and_scan, 1, 32, 0, (f8((32, 3)), x)),
        "names_of_arguments": (names_of_arguments, 1, 64, 0, (f8(64), x)),
        "votes": (votes, 1, 32, 0, (f8((32, 5)),)),
        "within_a_warp": (within_a_warp, 1, 64, 0, (f8(64), x)),
    }


def cases():
    """name: (kernel, grid, block, shared bytes, arguments); fresh arguments on every call."""
    random = np.random.default_rng(7)
    x, y = random.random(64), random.random(64)
    a = random.integers(-50, 50, 64)
    b = random.integers(1, 9, 64) * random.choice([-1, 1], 64)
    f8 = np.zeros
    return {
        "saxpy": (saxpy, 3, 32, 0, (f8(64), x, y, 2.5)),
        "grid_stride": (grid_stride, 1, 24, 0, (f8(64), x)),
        "collatz": (collatz, 2, 32, 0, (np.zeros(64, np.int64),)),
        "leave_and_skip": (leave_and_skip, 1, 64, 0, (f8(64), x)),
        "short_circuit": (short_circuit, 2, 32, 0, (f8(64), x)),
        "whole_numbers": (whole_numbers, 2, 32, 0, (np.zeros((64, 8), np.int64), a, b)),
        "functions": (functions, 2, 32, 0, (f8((64, 7)), x)),
        "device_functions": (device_functions, 2, 32, 0, (f8(64), x)),
        "three_dimensions": (three_dimensions, (2, 2, 1), (2, 3, 4), 0, (f8((3, 5, 4)),)),
        "tiled_product": (
            tiled_product,
            (2, 2),
            (TILE, TILE),
            0,
            (random.random((7, 9)), random.random((9, 6)), f8((7, 6))),
        ),
        "reduction": (reduction, 2, 32, 0, (f8(1), x)),
        "histogram": (histogram, 2, 32, 0, (np.zeros(8, np.int32), x)),
        "extremes": (extremes, 2, 32, 0, (np.array([0.5, 0.5]), x)),
        "stack_of_a_thread": (stack_of_a_thread, 2, 32, 0, (f8(64), x)),
        "counted_barriers": (counted_barriers, 2, 32, 0, (f8((64, 3)), x)),
        "dynamic_shared": (dynamic_shared, 2, 32, 256, (f8(64), x)),
        "tuples_and_pairs": (tuples_and_pairs, 2, 32, 0, (f8(64), x)),
        "rows_and_slices": (rows_and_slices, 1, 8, 0, (f8((9, 3)), random.random((9, 5)))),
        "halves_of_shared": (halves_of_shared, 2, 32, 512, (f8(64), x)),
        "defaults_and_names": (defaults_and_names, 2, 32, 0, (f8((64, 3)), x)),
        "rounding": (rounding, 2, 32, 0, (f8((64, 6)), x, a)),
        "further_mathematics": (further_mathematics, 2, 32, 0, (f8((64, 7)), x)),
        "constant_memory": (constant_memory, 1, 32, 0, (f8(32),)),
        "casts": (casts, 2, 32, 0, (f8((64, 4)), x)),
    }


def results() -> dict[str, np.ndarray]:
    """Every array of every case after its launch, by ``name/position``."""
    found = {}
    for name, (kernel, grid, block, shared, arguments) in cases().items():
        kernel[grid, block, 0, shared](*arguments)
        found |= {f"{name}/{i}": a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
    return found


def what_numba_says() -> dict[str, str]:
    """For every case ``typed`` when Numba infers all types, else its complaint."""
    from numba import typeof
    from numba.core.errors import NumbaError

    said = {}
    for name, (kernel, _, _, _, arguments) in (cases() | warp_cases()).items():
        try:
            cuda.compile_ptx(kernel.py_func, tuple(typeof(a) for a in arguments))
            said[name] = "typed"
        except NumbaError as error:
            said[name] = str(error)
        except Exception as error:
            # Types stand; what is missing is NVIDIA's compiler.
            missing = any(word in str(error) for word in ("NVVM", "nvvm", "libnvrtc", "libdevice", "driver"))
            said[name] = "typed" if missing else f"{type(error).__name__}: {error}"
    return said


if __name__ == "__main__":
    if sys.argv[1] == "simulate":
        np.savez(sys.argv[2], **results())
    else:
        with open(sys.argv[2], "w") as file:
            json.dump(what_numba_says(), file)
