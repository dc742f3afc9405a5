"""The interpreter of ``gpulab.kernels`` against Numba's own CUDA simulator.

    python benchmarks/simt.py

Blocks of 256 threads with barriers: a reduction and a tiled matrix product. The two run in turn,
each in a process of its own; a row gives the fastest of the runs in milliseconds of wall time (the
simulator starts a thread of the host for every CUDA thread, and a busy machine slows it most), with
our interpreter's trace off and on, and how many times longer the simulator takes. Results must
agree. Writes ``benchmarks/results/simt.json``.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIMULATOR = "--simulator" in sys.argv
if SIMULATOR:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    from numba import cuda, float32
else:
    from gpulab.kernels import cuda, float32

ROUNDS = 5
RESULTS = Path(__file__).parent / "results" / "simt.json"
TILE = 16


@cuda.jit
def reduction(out, x):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    n = 128
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def product(c, a, b):
    s = cuda.shared.array((TILE, TILE), float32)
    u = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1] // TILE):
        s[ty, tx] = a[y, k * TILE + tx]
        u[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += s[ty, j] * u[j, tx]
        cuda.syncthreads()
    c[y, x] = total


def workloads() -> dict:
    """name: (kernel, grid, block, arguments); the first argument is the result."""
    random = np.random.default_rng(0)

    def floats(*shape):
        return random.random(shape, dtype=np.float32)

    def squares(n):
        return floats(n, n), floats(n, n), floats(n, n)

    return {
        "reduction, 1 block of 256": (reduction, 1, 256, (floats(1), floats(256))),
        "reduction, 16 blocks of 256": (reduction, 16, 256, (floats(16), floats(16 * 256))),
        "tiled product 16x16, 1 block of 16x16": (product, (1, 1), (16, 16), squares(16)),
        "tiled product 64x64, 16 blocks of 16x16": (product, (4, 4), (16, 16), squares(64)),
    }


def one_run(name: str, traced: bool) -> dict:
    """Milliseconds of one launch, and the sum of its result."""
    kernel, grid, block, arguments = workloads()[name]
    if traced:
        import gpulab

        with gpulab.observe() as seen:
            took = timed(kernel, grid, block, arguments)
        assert len(seen.launches) == 1 and not seen.launches[0].races
    else:
        took = timed(kernel, grid, block, arguments)
    return {"milliseconds": took, "sum": float(arguments[0].astype(np.float64).sum())}


def timed(kernel, grid, block, arguments) -> float:
    begin = time.perf_counter()
    kernel[grid, block](*arguments)
    return 1e3 * (time.perf_counter() - begin)


class Simulator:
    """This file in a process of its own, where ``numba.cuda`` is the simulator."""

    def __init__(self) -> None:
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, __file__, "--simulator"], **pipe)

    def run(self, name: str) -> dict:
        print(name, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(one_run(line.strip(), traced=False)), flush=True)


def measure() -> list[dict]:
    simulator, rows = Simulator(), []
    for name in workloads():
        one_run(name, traced=True)  # compiled once, as a learner's second launch finds it
        simulator.run(name)
        runs = [(one_run(name, False), one_run(name, True), simulator.run(name)) for _ in range(ROUNDS)]
        plain, traced, theirs = ([run[i]["milliseconds"] for run in runs] for i in range(3))
        for run in runs:
            np.testing.assert_allclose([run[0]["sum"], run[1]["sum"]], run[2]["sum"], rtol=1e-5)
        rows.append(
            {
                "workload": name,
                "interpreter_ms": min(plain),
                "traced_ms": min(traced),
                "simulator_ms": min(theirs),
                "medians_ms": [statistics.median(runs) for runs in (plain, traced, theirs)],
            }
        )
    simulator.close()
    return rows


def show(rows: list[dict]) -> None:
    print(f"{'workload':42} {'ours':>9} {'traced':>9} {'simulator':>11} {'times':>7} {'traced':>7}")
    for row in rows:
        ours, traced, theirs = row["interpreter_ms"], row["traced_ms"], row["simulator_ms"]
        print(
            f"{row['workload']:42} {ours:6.2f} ms {traced:6.2f} ms {theirs:8.1f} ms "
            f"{theirs / ours:6.0f}x {theirs / traced:6.0f}x"
        )


def main() -> None:
    import numba

    rows = measure()
    show(rows)
    about = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    about |= {"cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d"), "rounds": ROUNDS, "rows": rows}
    RESULTS.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    serve() if SIMULATOR else main()
