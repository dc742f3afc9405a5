"""The grader's side of the kernel server."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

from autograder.kernels import sandbox
from autograder.kernels.folders import fresh_folder
from autograder.kernels.limits import Limits
from autograder.kernels.watch import MemoryWatch
from autograder.kernels.zygote import MAX_PACKET_BYTES, NOBODY


class KernelServerError(RuntimeError):
    """The kernel server could not do what it was asked."""


class Nursery:
    """Starts the kernel server on first use; asks it for kernels. One for each grader process.

    ``sandboxed`` says whether kernels are inside bubblewrap.
    """

    def __init__(self, sandboxed: bool, limits: Limits | None = None) -> None:
        self.sandboxed = sandboxed
        self.limits = limits or Limits()
        folder, self._held = fresh_folder()
        self._folder = str(folder)
        self._lock = threading.Lock()
        self._server: subprocess.Popen | None = None
        self._watch: MemoryWatch | None = None
        self._serial = 0
        self.servers = 0  # how many were started
        atexit.register(self.close)

    def new_folder(self) -> Path:
        """A folder for one kernel: its sockets, and ``work``, where its code runs."""
        self._serial += 1
        folder = Path(self._folder) / f"k{self._serial}"
        (folder / "work").mkdir(parents=True)
        self._give(folder, folder / "work")
        return folder

    def _give(self, *paths: Path) -> None:
        for path in paths:
            os.chmod(path, 0o700)
            if self.sandboxed and os.getuid() == 0:
                os.chown(path, NOBODY, NOBODY)

    def fork(self, argv: list[str], folder: Path, env: dict[str, str]) -> int:
        """A kernel in ``folder``; returns the handle for the other methods."""
        work = folder / "work"
        for path in work.rglob("*"):
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
            if self.sandboxed and os.getuid() == 0:
                os.chown(path, NOBODY, NOBODY)
        kernel = self._ask(
            do="fork", argv=argv, folder=str(folder), cwd=str(work), env=env, limits=self.limits.to_dict(), also=sandbox.in_tmp()
        )["pid"]
        self._watch.add(kernel)
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
        return self._watch.cause_of_death(kernel)

    def lost(self, server: int) -> bool:
        """Whether the ``server``-th kernel server has ended, and its kernels with it."""
        return server != self.servers or self._server is None or self._server.poll() is not None

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._server is not None:
            self._channel.close()
            self._server.kill()
            self._server.wait()
            self._server = None
        shutil.rmtree(self._folder, ignore_errors=True)
        self._held.close()

    def _ask(self, **request) -> dict:
        with self._lock:
            if self._server is None or self._server.poll() is not None:
                self._start()
            try:
                self._channel.send(json.dumps(request).encode())
                answer = self._hear()
            except (OSError, KernelServerError):
                self._server.kill()
                raise KernelServerError("the kernel server died") from None
        if "error" in answer:
            raise KernelServerError(answer["error"])
        return answer

    def _hear(self) -> dict:
        packet = self._channel.recv(MAX_PACKET_BYTES)
        if not packet:
            raise KernelServerError("the kernel server ended")
        return json.loads(packet)

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(120)
        wrap = sandbox.command(self._folder) if self.sandboxed else []
        run = [sys.executable, "-P", "-m", "autograder.kernels.zygote", str(theirs.fileno()), str(int(self.sandboxed))]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": str(sandbox.ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "HOME": "/tmp",
            "MPLCONFIGDIR": "/tmp/matplotlib",
        }
        self._server = subprocess.Popen(
            [*wrap, *run],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the grader alone
        )
        theirs.close()
        try:
            self._hear()
        except (OSError, KernelServerError):
            self._server.kill()
            said = self._server.stderr.read().decode("utf-8", "replace")[-2000:]
            self._server = None
            raise KernelServerError(f"the kernel server did not start:\n{said}") from None
        if self._watch is not None:
            self._watch.close()
        self.servers += 1
        self._watch = MemoryWatch(self._server.pid, int(self.sandboxed), self.limits.memory_bytes)
