"""``gpulab.profile``: run a step some times, and say where its time went."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, record_function, schedule
from torch.profiler import profile as torch_profile

from gpulab.traces.diagnosis import Verdict, bottleneck
from gpulab.traces.events import Trace
from gpulab.traces.reader import read

# Kineto writes a line to the terminal whenever a recording begins or ends, unless its level is above all of theirs.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

_ROWS = {
    "compute": "products, convolutions, attention",
    "memory": "other kernels, and copies alone",
    "communication": "collectives alone",
    "input": "nothing ran: the host waited for data",
    "launch": "nothing ran: the host was late",
    "sync": "nothing ran: the host had waited for the device",
    "between": "nothing ran, though work was queued",
    "unknown": "nothing ran; who launched what follows is not recorded",
}
_ROWS_ON_HOST = {
    "compute": "products, convolutions, attention",
    "memory": "other operations",
    "communication": "collectives alone",
    "input": "waited for data",
    "launch": "between operations: Python, autograd, dispatch",
}


class StepProfile:
    """Where the time of some steps went. Shown in a notebook, it is its figure and its table.

    verdict: the kind of bottleneck and the shares (:class:`gpulab.traces.diagnosis.Verdict`).
    trace: the events that it rests on. step_us: a step's mean, in microseconds.
    """

    def __init__(self, document: dict) -> None:
        self._document = document
        self.trace: Trace = read(document)
        self.verdict: Verdict = bottleneck(self.trace)

    @property
    def step_us(self) -> float:
        return self.verdict.rests_on.total / max(1, self.verdict.rests_on.steps)

    @property
    def where(self) -> str:
        """What the times are of: a card, a model of one, or this machine's processor."""
        if not self.verdict.rests_on.device:
            return "measured on the host's processor"
        name = (self.trace.name or "the device").removesuffix(" (virtual)")
        return f"modelled ({name})" if self.trace.modelled else f"measured on {name}"

    def rows(self) -> list[tuple[str, str, float]]:
        """Kind, what it means and its share, the largest first; kinds that the trace has nothing of are left out."""
        words = _ROWS if self.verdict.rests_on.device else _ROWS_ON_HOST
        found = [
            (kind, words[kind], share)
            for kind, share in self.verdict.shares.items()
            if kind in words and share > 0.0005
        ]
        return sorted(found, key=lambda row: -row[2])

    def table(self) -> str:
        """The rows as text, with microseconds a step."""
        head = f"{self.verdict.rests_on.steps} steps, {self.step_us:,.0f} us each, {self.where}"
        lines = [
            f"{kind:14}{share:7.1%}{share * self.step_us:10,.0f} us  {words}" for kind, words, share in self.rows()
        ]
        return "\n".join([head, *lines, f"-> {self.verdict}"])

    def figure(self):
        """A bar of the step's parts, as :class:`gpulab.plots.figure.Figure`."""
        from gpulab.plots.step import step_bar

        return step_bar(self.rows(), self.step_us, self.where)

    def save(self, path: str | os.PathLike) -> None:
        """Write the Chrome trace, for the book's viewer or Perfetto."""
        Path(path).write_text(json.dumps(self._document), encoding="utf-8")

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return f"{self.figure()._repr_html_()}<pre>{self.table()}</pre>"


def profile(step: Callable, inputs: Iterable | None = None, *, steps: int = 5, warmup: int = 3) -> StepProfile:
    """Run ``step`` warmup + steps times under ``torch.profiler`` and divide the time of the last ``steps``.

    Args:
        step: called without arguments; with a batch where ``inputs`` are given.
        inputs: batches, such as a DataLoader: what the host waits for them is the kind ``"input"``. They begin
            anew when they come to their end.
        steps, warmup: how many are recorded, and how many run before, of which the last is the profiler's own warm-up.

    On a GPU the times are CUPTI's. On the virtual card they are modelled, and the host's own work takes no time
    there. Without either, operations of PyTorch on the processor take the place of kernels.
    The profiler costs time itself, most of all for many small operations: the shares of a launch-bound step are
    upper bounds of the host's part.

    Raises ValueError for steps or warmup below 1, and where ``inputs`` are empty.
    """
    if steps < 1 or warmup < 1:
        raise ValueError(f"{steps} steps after {warmup}: both are 1 at least")
    batches = None if inputs is None else _over_and_over(inputs)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    document: dict = {}
    keep = lambda finished: document.update(_exported(finished))
    plan = schedule(wait=warmup - 1, warmup=1, active=steps, repeat=1)
    with torch_profile(activities=activities, schedule=plan, on_trace_ready=keep) as prof:
        for number in range(1, warmup + steps + 1):
            _once(step, batches)
            if number == warmup and torch.cuda.is_available():
                torch.cuda.synchronize()  # else the first recorded step waits for kernels that are not in the trace
            prof.step()
    return StepProfile(document)


def _once(step: Callable, batches: Iterator | None) -> None:
    if batches is None:
        step()
        return
    with record_function("input"):
        batch = next(batches)
    step(batch)


def _over_and_over(inputs: Iterable) -> Iterator:
    while True:
        empty = True
        for batch in inputs:
            empty = False
            yield batch
        if empty:
            raise ValueError("the inputs are empty")


def _exported(finished) -> dict:
    folder = tempfile.mkdtemp()
    try:
        path = os.path.join(folder, "trace.json")
        finished.export_chrome_trace(path)
        return json.loads(Path(path).read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(folder)
