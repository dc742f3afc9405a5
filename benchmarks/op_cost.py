"""What one operation costs on the virtual device: against plain CPU and FakeTensorMode.

    python benchmarks/op_cost.py

Runs of the three are interleaved; the table gives the median of each in microseconds of this
thread's CPU time an operation (a neighbour on the machine counts for less than in wall time),
what the virtual device adds, and the ratio to the plain operation.
"""

import statistics
import time

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import gpulab.cuda

ROUNDS, CALLS = 15, 300
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


def training_step(device: str, width: int):
    """One AdamW step of a Transformer layer of ``width``; batch 4, 16 tokens."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    layer = layer.to(device)
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


def interleaved(functions: dict, calls: int, rounds: int = ROUNDS) -> dict:
    """Median microseconds a call of each function, measured in turns."""
    times: dict = {name: [] for name in functions}
    for function in functions.values():
        seconds_a_call(function, max(1, calls // 10))
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(seconds_a_call(function, calls))
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def print_small_operations() -> None:
    print(f"{'operation':<12}{'cpu us':>9}{'virtual us':>12}{'fake us':>9}{'added us':>10}{'ratio':>7}")
    host, card = small_operations("cpu"), small_operations("cuda")
    with FakeTensorMode() as fake:
        shadow = small_operations("cpu")
    for name in host:

        def under_fake(operation=shadow[name]):
            with fake:
                operation()

        us = interleaved({"cpu": host[name], "virtual": card[name], "fake": under_fake}, CALLS)
        added = us["virtual"] - us["cpu"]
        ratio = us["virtual"] / us["cpu"]
        print(f"{name:<12}{us['cpu']:9.1f}{us['virtual']:12.1f}{us['fake']:9.1f}{added:10.1f}{ratio:7.1f}")


def print_training_steps() -> None:
    print(f"\n{'width':<8}{'ops':>6}{'cpu us':>10}{'virtual us':>12}{'added us/op':>13}{'ratio':>7}")
    for width in (32, 128, 512):
        host, card = training_step("cpu", width), training_step("cuda", width)
        card()
        with CountOps() as counter:
            card()
        us = interleaved({"cpu": host, "virtual": card}, 3, 7)
        added = (us["virtual"] - us["cpu"]) / counter.ops
        ratio = us["virtual"] / us["cpu"]
        print(f"{width:<8}{counter.ops:>6}{us['cpu']:10.0f}{us['virtual']:12.0f}{added:13.1f}{ratio:7.1f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, medians of {ROUNDS} rounds")
    with gpulab.cuda.use("virtual:H100"):
        print_small_operations()
        print_training_steps()
