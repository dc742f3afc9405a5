"""Measures the work of other processes in a Jupyter kernel's PID namespace, from outside of it.

Nothing in the kernel is asked: a helper that was started in an earlier cell shows here whatever the
notebook has replaced.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

IDLE_SECONDS, IDLE_SHARE, MOST_IDLE_SECONDS = 1e-3, 0.01, 20e-3
IDLE_WAKES, IDLE_WAKES_PER_SECOND = 8, 10
"""A process that sleeps on, such as a pool's, wakes now and then; one that answers wakes for each question."""
_TRACKER = b"from multiprocessing.resource_tracker import main;main("
"""What Python starts beside a process that has shared memory. It wakes for each piece: its processor time alone counts, since a
process can take that name."""


@dataclass(frozen=True)
class CpuSnapshot:
    """At one moment: by process id, seconds of processor time and how often it was switched away."""

    work: dict[int, tuple[float, int]] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)

    def worked_until(self, later: "CpuSnapshot") -> bool:
        """Whether a process of the two looks worked between them."""
        seconds = later.at - self.at
        most = min(IDLE_SECONDS + IDLE_SHARE * seconds, MOST_IDLE_SECONDS), IDLE_WAKES + IDLE_WAKES_PER_SECOND * seconds
        for pid, now in later.work.items():
            before = self.work.get(pid, (0.0, 0))
            if any(b - a > bound for a, b, bound in zip(before, now, most)):
                return True
        return False


def cpu_snapshot(supervisor: int, kernels_own: int) -> CpuSnapshot:
    """All below the process ``supervisor`` but the first ``kernels_own``, each the first child of the one before."""
    own, first = set(), supervisor
    for _ in range(kernels_own):
        first = next(iter(sorted(_children(first))), first)
        own.add(first)
    return CpuSnapshot({pid: _work(pid) for pid in _below(supervisor) if pid not in own})


def _below(pid: int) -> set[int]:
    found = _children(pid)
    return found.union(*map(_below, found)) if found else found


def _children(pid: int) -> set[int]:
    return {int(child) for text in _of_each_thread(pid, "children") for child in text.split()}


def _work(pid: int) -> tuple[float, int]:
    nanoseconds = sum(int(text.split()[0]) for text in _of_each_thread(pid, "schedstat"))
    lines = [line for text in _of_each_thread(pid, "status") for line in text.split("\n") if "ctxt_switches:" in line]
    wakes = sum(int(line.split()[1]) for line in lines)
    return nanoseconds / 1e9, 0 if _is_tracker(pid) else wakes


def _is_tracker(pid: int) -> bool:
    try:
        return _TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _of_each_thread(pid: int, name: str) -> list[str]:
    """What /proc says of a process's threads; nothing of one that has ended."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob(f"*/{name}"):
        try:
            found.append(path.read_text())
        except OSError:
            pass
    return found
