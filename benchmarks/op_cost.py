"""What one operation costs on the virtual device: against plain CPU and FakeTensorMode.

    python benchmarks/op_cost.py [--write]

Runs of the three are interleaved; the tables give the median of each in microseconds of this
thread's CPU time an operation (a neighbour on the machine counts for less than in wall time),
what the virtual device adds (the median of the differences, round by round), and the ratio to the
plain operation. A training step runs for
several widths and depths; the slope of what is added over the number of operations is the
cost of one more. ``--write`` keeps it all in benchmarks/results/op_cost.json.
"""

import argparse
import datetime
import json
import platform
import statistics
import time
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import gpulab.cuda

ROUNDS, CALLS = 15, 300
MODELS = [(32, 1), (128, 1), (512, 1), (64, 1), (64, 2), (64, 4), (64, 8)]
WIDTH_OF_SLOPE = 64
RESULTS = Path(__file__).parent / "results" / "op_cost.json"
clock = time.thread_time


def small_operations(device: str) -> dict:
    """Operations whose arithmetic is next to nothing: what is left is the overhead."""
    x, y = torch.ones(16, 16, device=device), torch.ones(16, 16, device=device)
    return {
        "x + y": lambda: x + y,
        "x.add_(y)": lambda: x.add_(y),
        "x.t()": lambda: x.t(),
        "x @ y": lambda: x @ y,
        "x.sum()": lambda: x.sum(),
        "softmax": lambda: torch.softmax(x, -1),
        "cat": lambda: torch.cat([x, y]),
        "empty": lambda: torch.empty(16, device=device),
    }


def training_step(device: str, width: int, depth: int):
    """One AdamW step of ``depth`` Transformer layers of ``width``; batch 4, 16 tokens."""
    torch.manual_seed(0)
    layers = [
        torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(depth)
    ]
    layer = torch.nn.Sequential(*layers)
    if device != "cpu":
        layer.to(device)
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=True)
    x = torch.randn(4, 16, width, device=device)

    def step():
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()

    return step


class CountOps(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the operations that reach the dispatcher."""

    def __init__(self):
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops += 1
        return func(*args, **(kwargs or {}))


def seconds_a_call(function, calls: int) -> float:
    begin = clock()
    for _ in range(calls):
        function()
    return (clock() - begin) / calls


def interleaved(functions: dict, calls: int) -> dict:
    """Median microseconds a call of ``cpu``, ``virtual`` and ``fake``, measured in turns, and of what ``virtual`` adds."""
    times: dict = {name: [] for name in functions}
    for function in functions.values():
        seconds_a_call(function, max(1, calls // 10))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(seconds_a_call(function, calls))
    times["added"] = [virtual - cpu for cpu, virtual in zip(times["cpu"], times["virtual"])]
    us = {name: statistics.median(values) * 1e6 for name, values in times.items()}
    return us | {"ratio": us["virtual"] / us["cpu"]}


def under(mode, operation):
    """``operation`` with ``mode`` on."""

    def run():
        with mode:
            operation()

    return run


def small_operations_measured() -> list[dict]:
    """A row for each small operation: microseconds of the three, and what the device adds."""
    host, card, fake = small_operations("cpu"), small_operations("cuda"), FakeTensorMode()
    with fake:
        shadow = small_operations("cpu")
    rows = []
    for name in host:
        us = interleaved({"cpu": host[name], "virtual": card[name], "fake": under(fake, shadow[name])}, CALLS)
        rows.append({"operation": name, **us})
    return rows


def training_steps_measured() -> list[dict]:
    """A row for each model: microseconds a step of the three, and what is added for each operation."""
    rows = []
    for width, depth in MODELS:
        host, card, fake = training_step("cpu", width, depth), training_step("cuda", width, depth), FakeTensorMode()
        with fake:
            shadow = training_step("cpu", width, depth)
        card()
        with CountOps() as counter:
            card()
        us = interleaved({"cpu": host, "virtual": card, "fake": under(fake, shadow)}, 3)
        model = {"width": width, "depth": depth, "ops": counter.ops}
        rows.append({**model, **us, "added_an_op": us["added"] / counter.ops})
    return rows


def slope_us_an_op(rows: list[dict]) -> float:
    """Microseconds that one more operation adds on the virtual device: least squares over depths of one width."""
    points = [(row["ops"], row["added"]) for row in rows if row["width"] == WIDTH_OF_SLOPE]
    return statistics.linear_regression(*zip(*points)).slope


def print_table(rows: list[dict]) -> None:
    print("\n" + "".join(f"{name:>13}" for name in rows[0]))
    for row in rows:
        print("".join(f"{v:>13.1f}" if isinstance(v, float) else f"{v:>13}" for v in row.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/op_cost.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of {ROUNDS} rounds, microseconds of CPU time")
    with gpulab.cuda.use("virtual:H100"):
        small, steps = small_operations_measured(), training_steps_measured()
    slope = slope_us_an_op(steps)
    print_table(small)
    print_table(steps)
    print(f"\none more operation of a training step adds {slope:.1f} us (width {WIDTH_OF_SLOPE}, by depth)")
    if options.write:
        machine = {"python": platform.python_version(), "torch": torch.__version__, "processor": platform.machine()}
        record = {"date": datetime.date.today().isoformat(), **machine, "unit": "microseconds of CPU time"}
        results = {"small_operations": small, "training_steps": steps, "slope_us_an_op": slope}
        RESULTS.write_text(json.dumps({**record, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
