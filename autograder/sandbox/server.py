"""The kernel server's process, as graders see it: who starts it, and who only uses it."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass

from autograder.sandbox import sandbox
from autograder.sandbox.folders import fresh_folder
from autograder.sandbox.fork_server import MAX_PACKET_BYTES

_START_SECONDS = 120


class KernelServerError(RuntimeError):
    """The kernel server could not do what it was asked."""


@dataclass(frozen=True)
class Address:
    """Where a kernel server listens. ``folder`` is what it shares with graders, ``pid`` its process."""

    folder: str
    pid: int
    sandboxed: bool

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "server")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Address":
        return cls(**json.loads(text))

    def connect(self) -> tuple[socket.socket, int]:
        """A line of one's own to the server, once it is ready, and the process at its other end as the server knows it.

        Raises KernelServerError.
        """
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(_START_SECONDS)
        try:
            line.connect(self.path)
            if not (packet := line.recv(MAX_PACKET_BYTES)):
                raise KernelServerError("the kernel server ended before it was ready")
        except (OSError, KernelServerError) as error:
            line.close()
            raise KernelServerError(str(error)) from None
        return line, json.loads(packet)["pid"]


class KernelServer:
    """Starts the server, without waiting for it, and stops it.

    ``sandboxed`` says whether it, and so every kernel, is inside bubblewrap.
    """

    def __init__(self, sandboxed: bool) -> None:
        folder, self._held = fresh_folder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(folder / "server"))
            os.chmod(folder / "server", 0o600)
            listener.listen(64)
            self._process = _start(listener.fileno(), str(folder), sandboxed)
        self.address = Address(str(folder), self._process.pid, sandboxed)

    def connect(self) -> tuple[socket.socket, int]:
        """As :meth:`Address.connect`; the error says what the server said."""
        try:
            return self.address.connect()
        except KernelServerError:
            self._process.kill()
            said = self._process.stderr.read().decode("utf-8", "replace")[-2000:]
            raise KernelServerError(f"the kernel server did not start:\n{said}") from None

    def close(self) -> None:
        """Ends the server and every kernel forked from it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.address.folder, ignore_errors=True)
        self._held.close()


def _start(listener: int, folder: str, sandboxed: bool) -> subprocess.Popen:
    wrap = sandbox.command(folder) if sandboxed else []
    run = [sys.executable, "-P", "-m", "autograder.sandbox.fork_server", str(listener), str(int(sandboxed))]
    return subprocess.Popen(
        [*wrap, *run],
        pass_fds=[listener],
        env=environment(),
        stdin=subprocess.PIPE,  # its end tells the server that whoever started it is gone
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the grader alone
    )


def environment() -> dict[str, str]:
    """Of a process that kernels come from: nothing of the grader's own but the path to programs."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(sandbox.ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HOME": "/tmp",
        "MPLCONFIGDIR": "/tmp/matplotlib",
    }
