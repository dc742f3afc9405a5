"""The pool of kernels on the grader's side: asks the fork server for one, and frees it."""

import atexit
import json
import os
import select
import shutil
import socket
import threading
from pathlib import Path

import psutil

from autograder.sandbox import sandbox
from autograder.sandbox.folders import fresh_folder
from autograder.sandbox.fork_server import MAX_PACKET_BYTES, NOBODY
from autograder.sandbox.limits import Limits
from autograder.sandbox.memory_group import MemoryGroup, memory_group
from autograder.sandbox.server import Address, KernelServer, KernelServerError
from autograder.sandbox.siblings import CpuSnapshot, cpu_snapshot
from autograder.sandbox.watch import MemoryWatch, used_too_much


class KernelPool:
    """Asks a kernel server for kernels. One for each grader process.

    ``server``: a server that others use too; without one, or when that one is gone, the pool
    starts its own. ``sandboxed`` says whether kernels are inside bubblewrap.
    """

    def __init__(self, sandboxed: bool, limits: Limits | None = None, server: Address | None = None) -> None:
        self.sandboxed = sandboxed
        self.limits = limits or Limits()
        self._shared = server
        self._own: KernelServer | None = None
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._watch: MemoryWatch | None = None
        self._group: MemoryGroup | None = None
        self._folder: Path | None = None
        self._serial = self._kills_before = 0
        self.servers = 0  # how many were met
        atexit.register(self.close)

    def new_folder(self) -> Path:
        """A folder for one kernel: its sockets, and ``work``, where its code runs."""
        with self._lock:
            self._require_line()
        self._serial += 1
        folder = self._folder / f"k{self._serial}"
        (folder / "work").mkdir(parents=True)
        self._give(folder, folder / "work")
        return folder

    def _give(self, *paths: Path) -> None:
        for path in paths:
            os.chmod(path, 0o700)
            if self.sandboxed and os.getuid() == 0:
                os.chown(path, NOBODY, NOBODY)

    def fork(self, argv: list[str], folder: Path, env: dict[str, str], chapters: list[str]) -> int:
        """A kernel in ``folder``, for exercises of ``chapters``; returns the handle for the other methods."""
        work = folder / "work"
        for path in work.rglob("*"):
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
            if self.sandboxed and os.getuid() == 0:
                os.chown(path, NOBODY, NOBODY)
        kernel = self._ask(
            do="fork",
            chapters=chapters,
            argv=argv,
            folder=str(folder),
            cwd=str(work),
            env=env,
            limits=self.limits.to_dict(),
            also=sandbox.in_tmp(),
        )["pid"]
        self._watch.add(kernel)
        self._kills_before = self._group.kills() if self._group is not None else 0
        return kernel

    def signal(self, kernel: int, number: int) -> None:
        self._ask(do="signal", pid=kernel, number=number)

    def poll(self, kernel: int) -> int | None:
        """The kernel's exit status, None while it lives."""
        status = self._ask(do="poll", pid=kernel)["exit"]
        if status is not None:
            self._watch.forget(kernel)
        return status

    def cause_of_death(self, kernel: int) -> str:
        """Why the grader itself killed the kernel, or an empty string when it did not."""
        if self._group is not None and self._group.kills() > self._kills_before:
            return used_too_much(self.limits.memory_bytes)
        return self._watch.cause_of_death(kernel)

    def siblings(self, kernel: int) -> CpuSnapshot:
        """The processes beside the kernel, and their work so far."""
        supervisor = self._watch.supervisor_of(kernel)
        # Below the supervisor: the namespace's first process, which starts and reaps, and the kernel.
        return CpuSnapshot() if supervisor is None else cpu_snapshot(supervisor, 1 + int(self.sandboxed))

    def lost(self, server: int) -> bool:
        """Whether the ``server``-th kernel server has ended, and its kernels with it."""
        return server != self.servers or not self._is_open()

    def close(self) -> None:
        self._hang_up()
        if self._own is not None:
            self._own.close()
            self._own = None

    def _ask(self, **request) -> dict:
        with self._lock:
            self._require_line()
            try:
                self._line.send(json.dumps(request).encode())
                packet = self._line.recv(MAX_PACKET_BYTES)
            except OSError:
                packet = b""
            if not packet:
                self._hang_up()
                raise KernelServerError("the kernel server died")
        answer = json.loads(packet)
        if "error" in answer:
            raise KernelServerError(answer["error"])
        return answer

    def _is_open(self) -> bool:
        """The server says nothing unasked: a line with something to read has ended."""
        return self._line is not None and not select.select([self._line], [], [], 0)[0]

    def _hang_up(self) -> None:
        if self._line is None:
            return
        self._line.close()
        self._line = None
        self._watch.close()
        if self._group is not None:
            self._group.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._held.close()

    def _require_line(self) -> None:
        if self._is_open():
            return
        self._hang_up()
        address, (line, fork_server) = self._reach_a_server()
        self._watch = MemoryWatch(address.pid, int(self.sandboxed), self.limits.memory_bytes)
        self._group = self._bounded(fork_server)
        self._folder, self._held = fresh_folder(address.folder)
        self._line = line
        self.servers += 1

    def _bounded(self, fork_server: int) -> MemoryGroup | None:
        """The group that holds what is forked for us, where there is one to be had."""
        if (group := memory_group(self.limits.memory_bytes)) is None:
            return None
        try:
            group.hold(self._watch.process_of(fork_server))
        except (OSError, psutil.Error):
            group.close()
            return None
        return group

    def _reach_a_server(self) -> tuple[Address, tuple[socket.socket, int]]:
        if self._shared is not None:
            shared, self._shared = self._shared, None
            try:
                return shared, shared.connect()
            except KernelServerError:
                pass  # whoever started it is gone, or it failed for them: our own will say why
        if self._own is not None:
            self._own.close()
        self._own = KernelServer(self.sandboxed)
        return self._own.address, self._own.connect()
