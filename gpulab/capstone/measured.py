"""A session, run and measured."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gpulab.capstone.registry import Code
from gpulab.capstone.report import Report
from gpulab.capstone.session import REQUESTS, STEPS, Session
from gpulab.cards import constants
from gpulab.observe.device import DeviceLog, logging
from gpulab.observe.records import Copy


class Seen:
    """What the card did in a block."""

    def __init__(self, log: DeviceLog, copies: list[Copy]) -> None:
        self.kernels, self.waits, self.races, self.copies = log.kernels, log.waits, log.races, copies
        self.names = Counter(kernel.name for kernel in log.kernels)

    def named(self, *parts: str) -> int:
        return sum(count for name, count in self.names.items() if any(part in name for part in parts))

    @property
    def flops(self) -> int:
        """0 on a real GPU, whose profiler counts none."""
        return sum(kernel.flops or 0 for kernel in self.kernels)


@contextmanager
def watched() -> Iterator[Seen]:
    """What a block does, read below it."""
    copies: list[Copy] = []
    log, seen = DeviceLog(on_copy=copies.append), Seen.__new__(Seen)
    with logging(log):
        yield seen
    seen.__init__(log, copies)


@dataclass(frozen=True)
class Trained:
    """What a training run left: its figures and losses, what the measured step launched and waited for, and the weights."""

    figures: dict[str, float]
    losses: tuple[float, ...]
    kernels: Counter
    waiting: Counter
    weights: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Served:
    """What serving took, and the token ids by request."""

    figures: dict[str, float]
    answers: tuple[tuple[int, ...], ...]


def train(code: Code) -> Trained:
    """Train and evaluate, on the card that is on."""
    session = Session(code)
    for _ in range(STEPS - 1):
        session.step()
    figures, kernels, waiting = _step(session)
    session("saving", True)
    before = _fresh_peak()
    evaluated = session.evaluate()
    figures["evaluation_bytes"] = torch.cuda.max_memory_allocated() - before
    losses = (*(float(torch.as_tensor(loss).detach()) for loss in session.losses), evaluated)
    weights = {name: tensor.detach().cpu() for name, tensor in session.policy.state_dict().items()}
    return Trained(figures, losses, kernels, waiting, weights)


def serve(code: Code, weights: dict[str, torch.Tensor]) -> Served:
    """Serve what was trained, on the card that is on."""
    session = Session(code)
    session.policy.load_state_dict(weights)
    with watched() as seen:
        first_us, between_us = session.serve()
    return Served(_served(seen, first_us, between_us), _answers(session))


def report(trained: Trained, served: Served) -> Report:
    return Report(trained.figures | served.figures, trained.losses, served.answers, trained.kernels, trained.waiting)


def _step(session: Session) -> tuple[dict[str, float], Counter, Counter]:
    """The figures of one step, its kernels by name and its waits by reason."""
    before = _fresh_peak()
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    updating = _launched_by(session, "update")
    begun.record()
    with watched() as seen:
        session.step()
    ended.record()
    ended.synchronize()
    step_us = 1000 * begun.elapsed_time(ended)
    waited = sum(wait.us for wait in seen.waits)
    launching = constants.LAUNCH_US * (len(seen.kernels) + len(seen.copies))
    drawn = [number for batch in session.drawn for number in batch]
    figures = {
        "step_us": step_us,
        "input_us": session.input_us,
        "late_us": max(0.0, step_us - waited - launching - session.input_us),
        "launches": len(seen.kernels),
        "updates": updating(),
        "softmaxes": seen.named("aten._softmax"),
        "unscalings": seen.named("_amp_", "unscale"),
        "collectives": seen.named("nccl"),
        "flops": seen.flops,
        "other_format_layers": sum(given is not torch.bfloat16 for given in session.formats),
        "waits": len(seen.waits),
        "reads": sum("_local_scalar_dense" in wait.reason for wait in seen.waits),
        "synchronizes": sum("DeviceSynchronize" in wait.reason for wait in seen.waits),
        "pageable_copies": sum(copy.pinned is False for copy in seen.copies),
        "to_host_bytes": sum(copy.bytes for copy in seen.copies if copy.kind == "DtoH"),
        "stale_bytes": session.stale_bytes,
        "growth_bytes": max(0, torch.cuda.memory_allocated() - before),
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "races": len(seen.races),
        "repeated_samples": len(drawn) - len(set(drawn)),
    }
    return figures, seen.names, Counter(wait.reason for wait in seen.waits)


def _served(seen: Seen, first_us: float, between_us: float) -> dict[str, float]:
    return {
        "first_token_us": first_us,
        "between_tokens_us": between_us,
        "served_launches": len(seen.kernels),
        "served_flops": seen.flops,
        "served_waits": len(seen.waits),
        "concatenated_bytes": sum(kernel.bytes_written or 0 for kernel in seen.kernels if kernel.name == "aten.cat"),
    }


def _fresh_peak() -> int:
    """Bytes on the card now, from where the peak is counted anew."""
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _launched_by(session: Session, part: str):
    """How many kernels a part launches from now on, to be asked when it has run."""
    plain, found = session.code[part], []

    def counted(*given):
        with watched() as seen:
            result = plain(*given)
        found.append(len(seen.kernels))
        return result

    session.code = session.code | {part: counted}
    return lambda: sum(found)


def _answers(session: Session) -> tuple[tuple[int, ...], ...]:
    """By request, whatever the batches were and whoever read the tokens."""
    told = [torch.as_tensor(token).flatten().tolist() for token in session.answers]
    each = len(told) * len(told[0]) // REQUESTS
    by_batch = [told[first : first + each] for first in range(0, len(told), each)]
    return tuple(tuple(row) for batch in by_batch for row in zip(*batch, strict=True))
