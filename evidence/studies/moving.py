"""Copies between host and device: by size and kind of memory, offloaded activations, batches of a DataLoader."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from evidence.studies import Figures, Rows, Study
from evidence.timing import device_us, peak_bytes

_MIB = 1 << 20


def _called(copy: Callable[[], object], rounds: int = 11) -> Figures:
    """Medians on the host's clock: until the call returns, and until the bytes are there."""
    copy()
    returned, done = [], []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        copy()
        returned.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        done.append(time.perf_counter() - begin)
    return {"returns_us": 1e6 * statistics.median(returned), "done_us": 1e6 * statistics.median(done)}


def copies() -> Rows:
    for nbytes, size in ((65_536, "64 KiB"), (_MIB, "1 MiB"), (32 * _MIB, "32 MiB")):
        host = torch.ones(nbytes, dtype=torch.uint8)
        pinned = host.pin_memory()
        yield f"{size}, pageable", lambda: _called(lambda: host.cuda())
        yield f"{size}, pageable, non_blocking", lambda: _called(lambda: host.to("cuda", non_blocking=True))
        yield f"{size}, pinned", lambda: _called(lambda: pinned.cuda())
        yield f"{size}, pinned, non_blocking", lambda: _called(lambda: pinned.to("cuda", non_blocking=True))
        yield (
            f"{size}, pin_memory(), non_blocking",
            lambda: _called(lambda: host.pin_memory().to("cuda", non_blocking=True)),
        )


def _offloaded(hooks=nullcontext, recompute: bool = False) -> Figures:
    before = torch.cuda.memory_allocated()
    net = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4))).cuda()
    x = torch.randn(8192, 512, device="cuda")

    def step() -> None:
        h = x
        with hooks():
            for part in net:
                h = checkpoint(part, h, use_reentrant=False) if recompute else part(h)
        h.sum().backward()

    step()
    return {"peak_bytes": peak_bytes(step) - before, "us": device_us(step)}


def offloading() -> Rows:
    yield "kept", lambda: _offloaded()
    yield "save_on_cpu()", lambda: _offloaded(save_on_cpu)
    yield "save_on_cpu(pinned)", lambda: _offloaded(partial(save_on_cpu, pin_memory=True))
    yield "checkpoints", lambda: _offloaded(recompute=True)


class _Frames(Dataset):
    """Images made in no time: what a batch costs is its collation, its pinning and its transfer."""

    def __init__(self, dtype: torch.dtype, count: int) -> None:
        self.image, self.count = torch.ones(3, 224, 224).to(dtype), count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.image


_BATCH, _BATCHES, _SKIPPED = 32, 100, 30


def _moved(batches: Iterator, non_blocking: bool) -> Iterator[torch.Tensor]:
    for batch in batches:
        yield batch.to("cuda", non_blocking=non_blocking).float()


def _one_ahead(batches: Iterator) -> Iterator[torch.Tensor]:
    """The next batch travels in a stream of its own while the step of this one runs."""
    side, before = torch.cuda.Stream(), None
    for batch in batches:
        with torch.cuda.stream(side):
            moved = batch.to("cuda", non_blocking=True).float()
        if before is not None:
            yield before
        torch.cuda.current_stream().wait_stream(side)
        moved.record_stream(torch.cuda.current_stream())
        before = moved
    yield before


def _epoch(dtype: torch.dtype = torch.float32, pin: bool = False, move: Callable = _moved, **how) -> Figures:
    """A step's mean between batch 30 and the last, by the host's clock; the step alone; the batch's bytes."""
    loader = DataLoader(_Frames(dtype, _BATCH * _BATCHES), _BATCH, num_workers=6, pin_memory=pin, prefetch_factor=4)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step(batch: torch.Tensor | None = None) -> None:
        if batch is not None:
            batch.mean()
        for _ in range(60):
            a @ a

    alone = device_us(step)
    for number, batch in enumerate(move(iter(loader), **how)):
        if number == _SKIPPED:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        step(batch)
    torch.cuda.synchronize()
    mean = 1e6 * (time.perf_counter() - begin) / (_BATCHES - _SKIPPED)
    return {"us": mean, "step_us": alone, "batch_bytes": _BATCH * loader.dataset.image.nbytes}


def loading() -> Rows:
    blocking, free = dict(non_blocking=False), dict(non_blocking=True)
    yield "pageable", lambda: _epoch(**blocking)
    yield "pageable, non_blocking", lambda: _epoch(**free)
    yield "pin_memory", lambda: _epoch(pin=True, **blocking)
    yield "pin_memory, non_blocking", lambda: _epoch(pin=True, **free)
    yield "pin_memory, one batch ahead in its own stream", lambda: _epoch(pin=True, move=_one_ahead)
    yield "uint8, pin_memory, one batch ahead", lambda: _epoch(torch.uint8, True, _one_ahead)


STUDIES = {
    "copies to the card": Study(
        copies,
        "Medians of eleven on the host's clock: until the call returns, until the bytes are there.",
        ("device/transfers", "one_gpu/feeding"),
        "virtual",
    ),
    "offloading": Study(
        offloading,
        "Four layers of 512 with GELU, 8192 rows, float32: forward and backward.",
        ("one_gpu/trading",),
        "virtual",
    ),
    "batches of a DataLoader": Study(
        loading,
        "32 images of 3 x 224 x 224, six workers, a step of sixty products of 4096 in bfloat16.",
        ("one_gpu/feeding",),
    ),
}
