"""What a card refuses, what it waits for and what it keeps: the questions of bug reports, each asked of PyTorch and the GPU."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from evidence.studies import Figures, Rows, Study


def _said(call: Callable[[], object]) -> Figures:
    """``refused``: the first line of the error, or None where it ran."""
    try:
        call()
        torch.cuda.synchronize()
    except Exception as why:
        return {"refused": f"{type(why).__name__}: {str(why).splitlines()[0][:200]}"}
    return {"refused": None}


def _deterministic(call: Callable[[], object]) -> Figures:
    torch.use_deterministic_algorithms(True)
    try:
        return _said(call)
    finally:
        torch.use_deterministic_algorithms(False)


def _backward(make: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> Callable[[], object]:
    x = torch.randn(*shape, device="cuda", requires_grad=True)
    return lambda: make(x).sum().backward()


def _without_a_workspace() -> Figures:
    """In a process of its own: cuBLAS reads the variable once."""
    script = "import torch; torch.use_deterministic_algorithms(True); a = torch.ones(64, 64, device='cuda'); a @ a"
    environment = {name: value for name, value in os.environ.items() if name != "CUBLAS_WORKSPACE_CONFIG"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    return {"refused": done.stderr.strip().splitlines()[-1][:200] if done.returncode else None}


def deterministic() -> Rows:
    x, labels = torch.rand(4096, device="cuda"), torch.randint(0, 9, (4096,), device="cuda")
    grid = torch.rand(2, 5, 5, 2, device="cuda") * 2 - 1
    index = torch.randint(0, 9, (64,), device="cuda")
    calls = {
        "grid_sample, backward": _backward(lambda y: F.grid_sample(y, grid, align_corners=False), 2, 3, 8, 8),
        "interpolate trilinear, backward": _backward(
            partial(F.interpolate, scale_factor=2, mode="trilinear"), 1, 2, 4, 4, 4
        ),
        "interpolate bilinear, backward": _backward(
            partial(F.interpolate, scale_factor=2, mode="bilinear"), 1, 2, 4, 4
        ),
        "kthvalue": lambda: x.kthvalue(5),
        "median of a dimension": lambda: x.view(64, 64).median(0),
        "median of all": lambda: x.median(),
        "bincount": lambda: torch.bincount(labels),
        "bincount with weights": lambda: torch.bincount(labels, weights=x),
        "histc": lambda: torch.histc(x),
        "cumsum": lambda: x.cumsum(0),
        "index_add_": lambda: torch.zeros(9, device="cuda").index_add_(0, index, torch.ones(64, device="cuda")),
        "scatter_add_": lambda: torch.zeros(9, device="cuda").scatter_add_(0, index, torch.ones(64, device="cuda")),
        "put_ with accumulate": lambda: torch.zeros(9, device="cuda").put_(index, x[:64], accumulate=True),
        "max_pool3d, backward": _backward(lambda y: F.max_pool3d(y, 2), 1, 2, 4, 4, 4),
        "nll_loss 2d": _backward(
            lambda y: F.nll_loss(y, torch.zeros(1, 4, 4, dtype=torch.long, device="cuda")), 1, 3, 4, 4
        ),
    }
    yield "matrix product without CUBLAS_WORKSPACE_CONFIG", _without_a_workspace
    for name, call in calls.items():
        yield name, lambda call=call: _deterministic(call)


def generators() -> Rows:
    on_card, x, p = torch.Generator("cuda"), torch.empty(8), torch.ones(8)
    calls = {
        "uniform_": lambda: x.uniform_(generator=on_card),
        "normal_": lambda: x.normal_(generator=on_card),
        "random_": lambda: x.random_(generator=on_card),
        "bernoulli_": lambda: x.bernoulli_(generator=on_card),
        "exponential_": lambda: x.exponential_(generator=on_card),
        "multinomial": lambda: torch.multinomial(p, 2, generator=on_card),
        "bernoulli": lambda: torch.bernoulli(p / 2, generator=on_card),
        "randperm": lambda: torch.randperm(8, generator=on_card),
        "rand": lambda: torch.rand(8, generator=on_card),
        "random_split": lambda: torch.utils.data.random_split(range(8), [4, 4], generator=on_card),
        "WeightedRandomSampler": lambda: list(torch.utils.data.WeightedRandomSampler([1.0] * 8, 4, generator=on_card)),
        "a host generator for rand on the card": lambda: torch.rand(8, device="cuda", generator=torch.Generator()),
    }
    for name, call in calls.items():
        yield name, lambda call=call: _said(call)


def _waited(call: Callable[[], object]) -> Figures:
    """Whether PyTorch itself says that the call synchronises."""
    call()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    except RuntimeError as why:
        return {"waits": "synchroniz" in str(why)}
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return {"waits": False}


def waits() -> Rows:
    x, counts = torch.randn(4096, device="cuda"), torch.full((8,), 3, device="cuda")
    mask, one = x > 0, torch.zeros((), device="cuda")
    index, rows = torch.arange(16, device="cuda"), torch.randn(64, 64, device="cuda")
    calls = {
        "x[mask] = 0.0": lambda: x.__setitem__(mask, 0.0),
        "x[mask] = a tensor of one element on the card": lambda: x.__setitem__(mask, one),
        "x[mask] = a tensor of one element on the host": lambda: x.__setitem__(mask, torch.zeros(())),
        "x[mask]": lambda: x[mask],
        "x[index] = 0.0": lambda: x.__setitem__(index, 0.0),
        "masked_fill": lambda: x.masked_fill(mask, 0.0),
        "masked_select": lambda: x.masked_select(mask),
        "torch.where of three": lambda: torch.where(mask, x, one),
        "nonzero": lambda: x.nonzero(),
        "nonzero_static": lambda: x.nonzero_static(size=16),
        "repeat_interleave": lambda: torch.repeat_interleave(counts, counts),
        "repeat_interleave with output_size": lambda: torch.repeat_interleave(counts, counts, output_size=24),
        "unique": lambda: torch.unique(counts),
        "equal": lambda: torch.equal(x, x.clone()),
        "allclose": lambda: torch.allclose(x, x),
        "bincount": lambda: torch.bincount(counts),
        "one_hot with num_classes": lambda: F.one_hot(counts, num_classes=8),
        "item": lambda: one.item(),
        "bool": lambda: bool(one),
        "torch.tensor on the card": lambda: torch.tensor([1.0, 2.0], device="cuda"),
        "full on the card": lambda: torch.full((8,), 2.0, device="cuda"),
        "x[one], an index on the card": lambda: x[counts[0]],
        "clip_grad_norm_": _clip(rows, False),
        "clip_grad_norm_, error_if_nonfinite": _clip(rows, True),
        "multinomial": lambda: torch.multinomial(rows.softmax(-1), 1),
        "randperm": lambda: torch.randperm(4096, device="cuda"),
        "sort": lambda: x.sort(),
        "topk": lambda: x.topk(8),
        "tensor_split by a tensor on the host": lambda: rows.tensor_split(torch.tensor([8, 16])),
        "split by sizes": lambda: rows.split([32, 32]),
        "linalg.inv": lambda: torch.linalg.inv(rows),
        "linalg.inv_ex": lambda: torch.linalg.inv_ex(rows),
        "linalg.cholesky_ex": lambda: torch.linalg.cholesky_ex(rows @ rows.T),
        "embedding": lambda: F.embedding(index, rows),
        "cross_entropy": lambda: F.cross_entropy(rows, index[0].expand(64)),
    }
    for name, call in calls.items():
        yield name, lambda call=call: _waited(call)


def _clip(x: torch.Tensor, strict: bool) -> Callable[[], object]:
    parameter = torch.nn.Parameter(x.clone())
    parameter.grad = x.clone()
    return lambda: torch.nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=strict)


def _tf32(allowed: bool) -> Figures:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        a, b = torch.randn(1024, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
        exact = a.double() @ b.double()
        return {"relative_error": ((a @ b - exact).norm() / exact.norm()).item()}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _statistics(call: Callable[[], tuple]) -> Figures:
    return {"dtypes": ", ".join(str(part.dtype) for part in call())}


def _allocated_once(size: int) -> Figures:
    torch.cuda.empty_cache()
    names = ("allocation.all.allocated", "allocated_bytes.all.allocated", "segment.all.allocated")
    before = torch.cuda.memory_stats()
    x = torch.empty(size, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_stats()
    del x
    return {name: after[name] - before[name] for name in names}


def values() -> Rows:
    x = torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
    ones, image = (
        torch.ones(64, device="cuda", dtype=torch.bfloat16),
        torch.randn(2, 64, 4, 4, device="cuda").bfloat16(),
    )
    yield "float32 product of 1024", lambda: _tf32(False)
    yield "the same in TF32", lambda: _tf32(True)
    yield (
        "layer_norm of bfloat16: output, mean, rstd",
        lambda: _statistics(lambda: torch.ops.aten.native_layer_norm(x, [64], ones, ones, 1e-5)),
    )
    yield (
        "group_norm of bfloat16: output, mean, rstd",
        lambda: _statistics(lambda: torch.ops.aten.native_group_norm(image, ones, ones, 2, 64, 16, 8, 1e-5)),
    )
    yield (
        "batch_norm of bfloat16, float32 weights: output, mean, rstd",
        lambda: _statistics(
            lambda: torch.ops.aten.native_batch_norm(image, ones.float(), ones.float(), None, None, True, 0.1, 1e-5)
        ),
    )
    yield (
        "batch_norm of bfloat16, bfloat16 weights: output, mean, rstd",
        lambda: _statistics(lambda: torch.ops.aten.native_batch_norm(image, ones, ones, None, None, True, 0.1, 1e-5)),
    )
    for mib in (1, 19, 20, 64):
        yield f"one allocation of {mib} MiB", lambda mib=mib: _allocated_once(mib << 20)


def _input_dropped() -> Figures:
    """The bytes that an input of a graph holds once nobody refers to it; and what a replay then reads."""
    x, y = torch.full((1 << 22,), 1.0, device="cuda"), torch.zeros(1 << 22, device="cuda")
    graph = torch.cuda.CUDAGraph()
    y.copy_(x)
    with torch.cuda.graph(graph):
        y.copy_(x)
    before = torch.cuda.memory_allocated()
    del x
    freed = before - torch.cuda.memory_allocated()
    other = torch.full((1 << 22,), 2.0, device="cuda")
    graph.replay()
    return {"freed_bytes": freed, "replay_reads": y.mean().item(), "held": other.numel()}


def _never_joined() -> object:
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x = torch.ones(8, device="cuda")
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)


def _event_from_outside() -> object:
    graph, event = torch.cuda.CUDAGraph(), torch.cuda.Event()
    x = torch.ones(8, device="cuda")
    event.record()
    with torch.cuda.graph(graph):
        torch.cuda.current_stream().wait_event(event)
        x.add_(1)


def _pinned_copy() -> object:
    graph, host = torch.cuda.CUDAGraph(), torch.ones(1 << 20).pin_memory()
    x = torch.zeros(1 << 20, device="cuda")
    with torch.cuda.graph(graph):
        x.copy_(host, non_blocking=True)
    graph.replay()
    torch.cuda.synchronize()
    assert x.mean().item() == 1.0


def _item() -> object:
    x = torch.ones(8, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.sum().item()


def _own_process(name: str) -> Figures:
    """A capture that fails can leave the process unusable: each has one of its own."""
    script = f"from evidence.studies import refusals as r; print(r._said(r.{name})['refused'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    return {"refused": (done.stdout.strip() or done.stderr.strip().splitlines()[-1])[:250]}


def captures() -> Rows:
    yield "an input dropped after capture", _input_dropped
    for name in ("_never_joined", "_event_from_outside", "_pinned_copy", "_item"):
        yield name.strip("_").replace("_", " "), lambda name=name: _own_process(name)


def nccl() -> Rows:
    import torch.distributed as dist

    with tempfile.NamedTemporaryFile() as file:
        dist.init_process_group("nccl", init_method=f"file://{file.name}", rank=0, world_size=1)
        try:
            yield from _collectives(dist)
        finally:
            dist.destroy_process_group()


def _collectives(dist) -> Rows:
    x, flags = torch.ones(8, 8, device="cuda"), torch.ones(8, dtype=torch.bool, device="cuda")
    whole = torch.ones(8, dtype=torch.int32, device="cuda")
    ones = lambda *shape: torch.ones(*shape, device="cuda")
    calls = {
        "all_reduce of columns": lambda: dist.all_reduce(x[:, ::2]),
        "all_reduce of a transposed tensor": lambda: dist.all_reduce(ones(4, 8).t()),
        "broadcast of columns": lambda: dist.broadcast(x[:, ::2], 0),
        "all_reduce BAND": lambda: dist.all_reduce(whole, op=dist.ReduceOp.BAND),
        "all_reduce AVG of bool": lambda: dist.all_reduce(flags, op=dist.ReduceOp.AVG),
        "all_reduce SUM of bool": lambda: dist.all_reduce(flags),
        "all_reduce AVG of int32": lambda: dist.all_reduce(whole, op=dist.ReduceOp.AVG),
        "all_reduce PRODUCT": lambda: dist.all_reduce(whole, op=dist.ReduceOp.PRODUCT),
        "all_reduce on the host": lambda: dist.all_reduce(torch.ones(8)),
        "all_gather_into_tensor of the wrong size": lambda: dist.all_gather_into_tensor(ones(9), ones(8)),
        "reduce_scatter_tensor of the wrong size": lambda: dist.reduce_scatter_tensor(ones(8), ones(9)),
        "all_to_all_single, splits that do not add up": lambda: dist.all_to_all_single(ones(8), ones(8), [4], [4]),
        "float8": lambda: dist.all_reduce(ones(8).to(torch.float8_e4m3fn)),
        "uint16": lambda: dist.all_reduce(torch.ones(8, dtype=torch.uint16, device="cuda")),
        "a barrier": lambda: dist.barrier(),
    }
    for name, call in calls.items():
        yield name, lambda call=call: _said(call)


STUDIES = {
    "what deterministic algorithms refuse": Study(deterministic, "torch.use_deterministic_algorithms(True).", ()),
    "generators on the wrong device": Study(generators, "Draws on the host from a generator of the card.", ()),
    "what waits": Study(waits, "torch.cuda.set_sync_debug_mode('error'), the second call.", ()),
    "formats that a card keeps": Study(
        values, "Errors against float64, dtypes of statistics, the allocator's counts.", ()
    ),
    "what a capture refuses": Study(captures, "CUDA graphs: inputs by address, streams and events.", ()),
    "what NCCL refuses": Study(nccl, "A group of one rank.", ()),
}
