"""Kernels started one by one, each importing everything anew: where forking is not to be had.

``python -m autograder.sandbox.fresh_processes <request as JSON> <sandboxed: 0 or 1>``
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import psutil

from autograder.sandbox import fork_server, namespaces, sandbox, syscalls
from autograder.sandbox.folders import fresh_folder
from autograder.sandbox.pool import KernelPool
from autograder.sandbox.server import environment
from autograder.sandbox.siblings import CpuSnapshot
from autograder.sandbox.watch import MemoryWatch


class FreshProcessPool(KernelPool):
    """The same kernels, folders and limits without a server. A kernel's handle is a process id here."""

    _processes: dict[int, subprocess.Popen]

    def siblings(self, kernel: int) -> CpuSnapshot:
        """Not counted: what bubblewrap puts between kernel and grader differs by version."""
        return CpuSnapshot()

    def lost(self, server: int) -> bool:
        return False

    def close(self) -> None:
        if self._folder is None:
            return
        for pid in self._processes:
            self._signal(pid, signal.SIGKILL)
        self._watch.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._held.close()
        self._folder = None

    def _require_line(self) -> None:
        if self._folder is None:
            self._folder, self._held = fresh_folder()
            self._watch = MemoryWatch(os.getpid(), 0, self.limits.memory_bytes)
            self._processes = {}
            self.servers = 1

    def _ask(self, do: str, **request) -> dict:
        return getattr(self, f"_{do}")(**request)

    def _fork(self, **request) -> dict:
        wrap = sandbox.command(request["folder"], request["cwd"], self.limits.scratch_bytes) if self.sandboxed else []
        run = [
            sys.executable,
            "-P",
            "-m",
            "autograder.sandbox.fresh_processes",
            json.dumps(request),
            str(int(self.sandboxed)),
        ]
        process = subprocess.Popen(
            [*wrap, *run],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes[process.pid] = process
        return {"pid": process.pid}

    def _signal(self, pid: int, number: int) -> dict:
        process = self._processes[pid]
        if process.poll() is None:
            os.kill(pid if number == signal.SIGKILL else _kernel_below(pid), number)
        return {}

    def _poll(self, pid: int) -> dict:
        return {"exit": self._processes[pid].poll()}


def _kernel_below(pid: int) -> int:
    """bubblewrap hands no signal on: the first process below that is not bubblewrap."""
    below = [process for process in psutil.Process(pid).children(recursive=True) if process.name() != "bwrap"]
    return below[0].pid if psutil.Process(pid).name() == "bwrap" and below else pid


def main() -> None:
    request, sandboxed = json.loads(sys.argv[1]), sys.argv[2] == "1"
    if sandboxed:
        fork_server.become_nobody()
        namespaces.copy_tree(sandbox.GIVEN, request["cwd"])
        syscalls.refuse()
    fork_server.prepare(request)
    fork_server.launch(request)


if __name__ == "__main__":
    main()
