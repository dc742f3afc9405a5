"""The memory of each kernel's whole tree of processes, bounded from the grader's side.

The operating system's limits hold for one process at a time; a hundred processes below them
can still take a machine down.
"""

import threading
from pathlib import Path

import psutil

INTERVAL_SECONDS = 0.25


class MemoryWatch:
    """Kills kernels whose processes together hold more than ``limit_bytes``.

    ``server`` is the process id of the kernel server (or of the sandbox around it) as the
    grader sees it; ``depth`` is how many process namespaces lie between the two. A kernel is
    known by its supervisor's process id in the server's namespace.
    """

    def __init__(self, server: int, depth: int, limit_bytes: int) -> None:
        self._server, self._depth, self._limit_bytes = psutil.Process(server), depth, limit_bytes
        self._supervisors: dict[int, psutil.Process | None] = {}
        self._causes: dict[int, str] = {}
        self._something_to_watch, self._stop = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="memory watch").start()

    def add(self, kernel: int) -> None:
        self._causes.pop(kernel, None)
        self._supervisors[kernel] = None
        self._something_to_watch.set()

    def forget(self, kernel: int) -> None:
        self._supervisors.pop(kernel, None)

    def process_of(self, pid: int) -> int:
        """As we see it, a process that the kernel server knows under ``pid``. Raises psutil.NoSuchProcess."""
        return self._supervisor(pid).pid

    def cause_of_death(self, kernel: int) -> str:
        """Why the kernel was killed here, or an empty string when it was not."""
        return self._causes.get(kernel, "")

    def supervisor_of(self, kernel: int) -> int | None:
        """The supervisor's process id, None when it has ended."""
        try:
            supervisor = self._supervisors.get(kernel) or self._supervisor(kernel)
        except psutil.Error:
            return None
        if kernel in self._supervisors:
            self._supervisors[kernel] = supervisor
        return supervisor.pid

    def close(self) -> None:
        self._stop.set()
        self._something_to_watch.set()

    def _watch(self) -> None:
        """Sleeps while no kernel runs."""
        while self._something_to_watch.wait() and not self._stop.wait(INTERVAL_SECONDS):
            self._something_to_watch.clear()
            for kernel in list(self._supervisors):
                try:
                    self._look_at(kernel)
                except psutil.Error:
                    self.forget(kernel)  # it has ended meanwhile
            if self._supervisors:
                self._something_to_watch.set()

    def _look_at(self, kernel: int) -> None:
        supervisor = self._supervisors[kernel] = self._supervisors.get(kernel) or self._supervisor(kernel)
        if _tree_bytes(supervisor, self._limit_bytes) <= self._limit_bytes:
            return
        self._causes[kernel] = used_too_much(self._limit_bytes)
        supervisor.kill()
        self.forget(kernel)

    def _supervisor(self, kernel: int) -> psutil.Process:
        depth = len(_ids(psutil.Process())) + self._depth
        for process in self._server.children(recursive=True):
            ids = _ids(process)
            if len(ids) == depth and ids[-1] == kernel:
                return process
        raise psutil.NoSuchProcess(kernel)


def used_too_much(limit_bytes: int) -> str:
    """The sentence for a learner whose kernel was killed for its memory."""
    return (
        f"The code used more than {limit_bytes / 1024**3:g} GiB of memory, all its processes together, and was stopped."
    )


def _ids(process: psutil.Process) -> list[int]:
    """The process's id in each namespace from ours inwards."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return [process.pid]
    return next(
        ([int(n) for n in line.split()[1:]] for line in status.split("\n") if line.startswith("NSpid:")), [process.pid]
    )


def _tree_bytes(supervisor: psutil.Process, limit_bytes: int) -> int:
    """Bytes of memory of the supervisor and all processes below it.

    The cheap sum counts shared pages once for each process; only when it is above the limit
    is every page's share looked up.
    """
    processes = [supervisor, *supervisor.children(recursive=True)]
    roughly = sum(_or_nothing(lambda p=p: p.memory_info().rss) for p in processes)
    if roughly <= limit_bytes:
        return roughly
    return sum(_or_nothing(lambda p=p: _share(p)) for p in processes)


def _share(process: psutil.Process) -> int:
    memory = process.memory_full_info()
    return getattr(memory, "pss", memory.uss)


def _or_nothing(ask) -> int:
    try:
        return ask()
    except psutil.Error:
        return 0
