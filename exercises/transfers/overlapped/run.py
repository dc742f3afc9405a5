"""E5.1 overlapped: what runs beside the learner's function."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.transfers.run import CARD
from gpulab import cuda
from gpulab.cuda.device import state


def run(learner: Learner, case: dict) -> dict:
    """Run the batches through, watched; the caller reads the results at once, as it may.

    When the call comes, the current stream holds work, on memory that is free again. ``pinned_bytes``:
    what each call has page-locked; a case of several calls hands the same batches to each.
    """
    with cuda.use(CARD, quiet=True), _stream(case["side_stream"]):
        step, calls, active = _step(case["weight"].cuda(), _table(case["depth"]))
        batches, pinned = _batches(case), state.device_on().pinned
        torch.cuda.synchronize()
        _leave_work_pending(batches)
        before, ahead, values, pinned_bytes, kinds = _active_bytes(), [0], [], [], []
        torch.cuda.reset_peak_memory_stats()
        with observe() as seen:
            for _ in range(case["calls"]):
                so_far, begun = pinned.bytes_in_all, len(calls)
                given = _read_out(batches, calls, ahead, begun) if case["as_generator"] else list(batches)
                results = learner.overlapped(given, step)
                kinds.append(isinstance(results, list))
                values.append([_read(result) for result in results] if kinds[-1] else results)
                pinned_bytes.append(pinned.bytes_in_all - so_far)
        # The recorded peak can be reset; what was active when a step began cannot.
        peak = max(torch.cuda.memory_stats()["active_bytes.all.peak"], *active, 0) - before
    record = {"rows": calls, "ahead": max(ahead), "peak_bytes": peak, "pinned_bytes": pinned_bytes, "lists": kinds}
    return {"values": values, **record, "seen": seen.to_dict()}


def _stream(side: bool) -> Any:
    """The stream of the call: one of its own, or the one that is current anyway."""
    return torch.cuda.stream(torch.cuda.Stream() if side else torch.cuda.current_stream())


def _batches(case: dict) -> list[torch.Tensor]:
    """Batch i is what was drawn, turned by i rows, and of it as many rows as the batch has."""
    batches = [case["drawn"].roll(i, 0)[:rows].clone() for i, rows in enumerate(case["rows"])]
    return [_with_gaps(batch) for batch in batches] if case["gaps"] else batches


def _table(depth: int) -> torch.Tensor:
    """A product with itself takes this card the longer the deeper it is, and the host next to nothing."""
    table = torch.zeros(64, depth, dtype=torch.float64)
    table[0, 0] = 1
    return table.cuda()


def _with_gaps(batch: torch.Tensor) -> torch.Tensor:
    """The same values, with a gap behind each row, so that the rows do not merge."""
    return torch.cat([batch, batch.flip(0)], -1)[..., : batch.shape[-1]]


def _leave_work_pending(batches: list[torch.Tensor]) -> None:
    """Kernels in the current stream, on memory of three batches that this function gives back."""
    for there in [torch.zeros(batches[0].shape, dtype=batches[0].dtype, device="cuda") for _ in range(3) if batches]:
        there.add_(1)


def _active_bytes() -> int:
    """Bytes in use on the device, and what was let go while another stream may be using it."""
    return torch.cuda.memory_stats_as_nested_dict()["active_bytes"]["all"]["current"]


def _step(weight: torch.Tensor, table: torch.Tensor) -> tuple[Callable, list[int], list[int]]:
    """A step; how many rows each call got, and how many bytes were active then.

    It reads the batch last: whatever takes the batch away while the step runs comes in between.
    """
    calls: list[int] = []
    active: list[int] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x) if isinstance(x, torch.Tensor) and x.is_cuda else -1)
        active.append(_active_bytes())
        one = (table @ table.T)[0, 0].to(x.dtype)
        return (x * weight).sum(1) + one

    return step, calls, active


def _read_out(batches: list[torch.Tensor], calls: list[int], ahead: list[int], begun: int) -> Iterator[torch.Tensor]:
    """The batches; ``ahead``: how many were out at a time without a call of step, of those since ``begun``."""
    for number, batch in enumerate(batches, 1):
        ahead.append(number + begun - len(calls))
        yield batch


def _read(result: Any) -> Any:
    """What the caller reads now. A result that is still on the device is no host tensor."""
    return result.clone() if type(result) is torch.Tensor and not result.is_cuda else result
