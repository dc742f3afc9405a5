"""Kernel manager and client for forked kernels, without the stock ones' fixed waits."""

import time
from pathlib import Path
from queue import Empty

import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from autograder.sandbox import provisioner
from autograder.sandbox.disconnects import Disconnects
from autograder.sandbox.pool import KernelPool

# A larger message would be held, and decoded, in the grader's memory: its connection is cut.
MAX_MESSAGE_BYTES = 32 * 1024**2
# Messages of a channel that wait to be read: beyond them the kernel's own memory fills.
MAX_WAITING = 4
# The client is there before the kernel's sockets are, and ZeroMQ would try again after 100 ms.
RECONNECT_MS = 5


class PromptClient(AsyncKernelClient):
    """Ready as soon as the kernel says it is; the stock client sleeps 0.2 s to be sure."""

    def start_channels(self, *_, **__) -> None:
        """Those that are read: a channel that is open and unread would hold what a kernel sends there."""
        super().start_channels(shell=True, iopub=True, stdin=False, hb=True, control=False)

    def connect_iopub(self, identity: bytes | None = None) -> zmq.Socket:
        self._iopub = super().connect_iopub(identity)
        self._disconnects = Disconnects(self._iopub)
        return self._iopub

    @property
    def was_cut_off(self) -> bool:
        """Whether the kernel's output was cut off: a message was too large, or the kernel ended."""
        return self._disconnects.any

    def stop_channels(self) -> None:
        self._disconnects.close()
        super().stop_channels()

    def _create_connected_socket(self, channel: str, identity: bytes | None = None) -> zmq.Socket:
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)  # of sockets to come
        self.context.setsockopt(zmq.RCVHWM, MAX_WAITING)
        self.context.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        return super()._create_connected_socket(channel, identity)

    async def _async_wait_for_ready(self, timeout: float | None = None) -> None:
        deadline = time.monotonic() + (timeout or 60)
        await self._answered(deadline)
        await self._heard_idle(deadline)
        for channel in (self.iopub_channel, self.shell_channel):
            await _drain(channel)

    wait_for_ready = _async_wait_for_ready

    async def _answered(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.kernel_info()
            try:
                message = await self.shell_channel.get_msg(timeout=0.5)
            except Empty:
                if not await self._async_is_alive():
                    raise RuntimeError("the kernel died before it was ready") from None
                continue
            if message["msg_type"] == "kernel_info_reply":
                self._handle_kernel_info_reply(message)
                return
        raise RuntimeError("the kernel did not get ready in time")

    async def _heard_idle(self, deadline: float) -> None:
        """Until iopub is subscribed nothing arrives there: ask until something does."""
        while time.monotonic() < deadline:
            self.kernel_info()
            try:
                message = await self.iopub_channel.get_msg(timeout=0.02)
            except Empty:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
        raise RuntimeError("the kernel's output could not be subscribed to in time")


async def _drain(channel) -> None:
    while True:
        try:
            await channel.get_msg(timeout=0.005)
        except Empty:
            return


class ForkedKernelManager(AsyncKernelManager):
    """Kernels from ``pool``, with their sockets and working folder in ``folder``.

    ``chapters``: whose exercises will be graded in them.
    """

    client_class = "autograder.sandbox.manager.PromptClient"
    client_factory = PromptClient

    def __init__(self, pool: KernelPool, folder: Path, chapters: list[str], **kwargs) -> None:
        super().__init__(**kwargs)
        self.pool, self.chapters = pool, chapters
        self.transport, self.ip = "ipc", str(folder / "kernel")
        self.connection_file = str(folder / "connection.json")
        provisioner.register()

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[], language="python", metadata={"kernel_provisioner": {"provisioner_name": provisioner.NAME}}
        )

    @property
    def ipykernel(self) -> bool:
        return True

    async def shutdown_kernel(self, now: bool = False, restart: bool = False) -> None:
        """Kills the kernel: what it had to say has been read."""
        if self.provisioner is not None and self.provisioner.has_process:
            await self.provisioner.kill()
            await self.provisioner.wait()
        await self._async_cleanup_resources(restart=restart)
