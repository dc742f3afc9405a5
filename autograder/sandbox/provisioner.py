"""jupyter_client's extension point for starting kernels, served by the kernel server."""

import asyncio
import os
import signal
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerBase, KernelProvisionerFactory

from autograder.sandbox.fork_server import NOBODY
from autograder.sandbox.pool import KernelPool
from autograder.sandbox.server import KernelServerError

NAME = "autograder-forked"


class ForkedKernel(KernelProvisionerBase):
    """A kernel forked by the manager's ``pool``. Its process is only known by a handle."""

    _kernel: int | None = None
    _launched: int | None = None
    _server: int | None = None

    @property
    def has_process(self) -> bool:
        return self._kernel is not None

    @property
    def kernel(self) -> int:
        """The pool's handle of it."""
        return self._kernel

    @property
    def pool(self) -> KernelPool:
        return self.parent.pool

    @property
    def cause_of_death(self) -> str:
        """Why the grader itself killed the kernel, or an empty string when it did not."""
        return "" if self._launched is None else self.pool.cause_of_death(self._launched)

    @property
    def server_was_lost(self) -> bool:
        return self._server is not None and self.pool.lost(self._server)

    async def poll(self) -> int | None:
        if self._kernel is None:
            return 0
        try:
            return self.pool.poll(self._kernel)
        except KernelServerError:
            return 1

    async def wait(self) -> int | None:
        while self._kernel is not None and await self.poll() is None:
            await asyncio.sleep(0.005)
        self._kernel = None
        return 0

    async def send_signal(self, signum: int) -> None:
        if self._kernel is not None:
            try:
                self.pool.signal(self._kernel, signum)
            except KernelServerError:
                self.log.debug("the kernel was gone before signal %s", signum)

    async def kill(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGKILL)

    async def cleanup(self, restart: bool = False) -> None:
        pass

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        manager = self.parent
        manager.write_connection_file()
        if self.pool.sandboxed and os.getuid() == 0:
            os.chown(manager.connection_file, NOBODY, NOBODY)
        self.connection_info = manager.get_connection_info()
        argv = ["-f", manager.connection_file, *kwargs.pop("extra_arguments", [])]
        for key in ("transport_encryption", "curve_publickey", "curve_secretkey"):
            kwargs.pop(key, None)
        return await super().pre_launch(cmd=argv, **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        folder = Path(self.parent.connection_file).parent
        fork = asyncio.to_thread(self.pool.fork, cmd, folder, kwargs["env"], self.parent.chapters)
        self._kernel = self._launched = await fork
        self._server = self.pool.servers
        return self.connection_info


def register() -> None:
    """Make the provisioner known to this process's jupyter_client."""
    value = f"{__name__}:{ForkedKernel.__name__}"
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, value, KernelProvisionerFactory.GROUP_NAME)
