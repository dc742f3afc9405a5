"""The workspace of one submission: its folder, the Jupyter kernel that runs in it, and whether that kernel is sandboxed."""

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from jupyter_core.utils import run_sync

from autograder.sandbox import sandbox
from autograder.sandbox.fresh_processes import FreshProcessPool
from autograder.sandbox.limits import UNCOUNTED, Limits
from autograder.sandbox.manager import ForkedKernelManager
from autograder.sandbox.pool import KernelPool
from autograder.sandbox.server import Address, KernelServerError
from autograder.sandbox.siblings import CpuSnapshot


class SandboxRequired(RuntimeError):
    """This machine offers no sandbox, and the instructor has not said that none is needed."""


@dataclass
class Workspace:
    """``folder`` contains the sockets of kernel and referee, and the folder ``work`` with the submission's files.

    ``unsandboxed_because``, ``cold_because``: why its kernels are not sandboxed, or not forked from a server that has
    imported everything; empty strings where they are.
    """

    pool: KernelPool
    folder: Path
    unsandboxed_because: str
    cold_because: str

    def kernel_manager(self, chapters: list[str]) -> ForkedKernelManager:
        """A manager of a kernel in this workspace. ``chapters``: those whose exercises it will grade."""
        return ForkedKernelManager(self.pool, self.folder, chapters)

    def cause_of_death(self, manager: ForkedKernelManager) -> str:
        """Why the grader killed the kernel, or an empty string when it did not."""
        return manager.provisioner.cause_of_death

    def siblings(self, manager: ForkedKernelManager) -> CpuSnapshot:
        """The processor time that the kernel's other processes have used."""
        provisioner = manager.provisioner
        return (
            self.pool.siblings(provisioner.kernel)
            if provisioner is not None and provisioner.has_process
            else CpuSnapshot()
        )

    def require_server(self, manager: ForkedKernelManager) -> None:
        """Raises KernelServerError where the kernel was lost with its fork server, which is no fault of the submission."""
        if manager.provisioner is not None and manager.provisioner.server_was_lost:
            raise KernelServerError("the kernel server died while the submission ran: grade it again")

    def kill(self, manager: ForkedKernelManager) -> None:
        run_sync(manager.provisioner.send_signal)(signal.SIGKILL)


@contextmanager
def workspace(policy: str, limits: Limits = Limits(), warm: bool = True) -> Iterator[Workspace]:
    """A fresh workspace. ``policy``: ``required`` or ``off``, see :func:`why_unsandboxed`.

    ``warm``: kernels are forked from a server that has imported everything, where that is possible.
    """
    why_not = why_unsandboxed(policy)
    why_cold = _why_cold(warm)
    if why_not:
        # Without namespaces RLIMIT_NPROC counts all processes of the user: on a desktop any bound is exceeded.
        limits = replace(limits, processes=UNCOUNTED)
    pool = _pool(not why_not, limits, not why_cold)
    folder = pool.new_folder()
    try:
        yield Workspace(pool, folder, why_not, why_cold)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def why_unsandboxed(policy: str) -> str:
    """Why kernels get no sandbox, or an empty string where they do.

    Raises SandboxRequired where this machine has none and ``policy`` is not ``off``.
    """
    if policy == "off":
        return "it is switched off in nbgrader_config.py"
    if problem := sandbox.problem():
        raise SandboxRequired(
            f"submissions run in a sandbox, and {problem}. Only where you trust every submission, since each could then "
            'read and write what you can: say c.ExecuteGraded.sandbox = "off" in nbgrader_config.py'
        )
    return ""


_shared: Address | None = None


def share(server: Address) -> None:
    """Kernels of this process are forked from ``server`` from now on, if it is sandboxed as they are to be."""
    global _shared
    _shared = server


def _why_cold(warm: bool) -> str:
    if sys.platform == "win32":
        raise OSError("grading needs Unix sockets: use Linux, macOS or WSL")
    if not warm:
        return "ExecuteGraded.warm_kernels is off"
    return "" if sys.platform == "linux" else f"forking after imports is not safe on {sys.platform}"


@cache
def _pool(sandboxed: bool, limits: Limits, warm: bool) -> KernelPool:
    if not warm:
        return FreshProcessPool(sandboxed, limits)
    shared = _shared if _shared is not None and _shared.sandboxed == sandboxed else None
    return KernelPool(sandboxed, limits, shared)
