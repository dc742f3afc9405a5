"""The kernel server: has imported everything once, and forks a kernel for each submission.

Runs inside the sandbox. It forks a fork server of its own for each grader that connects to an inherited
socket; that one reads requests, one JSON document a packet, and answers each. Neither ever runs a learner's
code or touches a GPU.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from autograder.core.preload import preload
from autograder.protocol import referee_address
from autograder.sandbox import namespaces, syscalls
from autograder.sandbox.limits import Limits

MAX_PACKET_BYTES = 1 << 18
NOBODY = 65534
PRELOAD = (
    "numpy", "torch", "gpulab.compat.dispatch", "matplotlib.pyplot", "matplotlib_inline.backend_inline",
    "IPython", "ipykernel.kernelapp", "ipykernel.ipkernel", "ipywidgets", "anywidget",
    # What a kernel imports while it starts, the debugger's 140 modules among it.
    "ipykernel.debugger", "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.oinspect",
    "IPython.extensions.storemagic", "IPython.utils.wildcard", "faulthandler", "sqlite3", "tornado.platform.asyncio",
    "gpulab", "autograder.runner.client",
)  # fmt: skip

TELLS_OF_LEARNERS = "autograder.runner.noticed"
"""Imported by name: it imports PyTorch, and the grader imports this file."""


def serve_graders(listener: socket.socket, isolate: bool) -> None:
    """A fork server for each grader, until whoever started this process is gone (standard input ends)."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        line, _ = listener.accept()
        if os.fork() == 0:
            _be_fork_server(listener, line, isolate)
        line.close()


def _be_fork_server(listener: socket.socket, line: socket.socket, isolate: bool) -> None:
    """In the fork for one grader. Never returns; its kernels die with it."""
    try:
        namespaces.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        line.send(json.dumps({"ready": True, "pid": os.getpid()}).encode())
        ForkServer(line, isolate).serve()
    finally:
        os._exit(0)


class ForkServer:
    """Answers ``fork``, ``signal``, ``poll`` until its socket closes."""

    def __init__(self, channel: socket.socket, isolate: bool) -> None:
        self._channel = channel
        self._isolate = isolate
        self._kernels: dict[int, int | None] = {}  # supervisor's pid -> exit status, None while alive
        self._met: set[str] = set()

    def serve(self) -> None:
        while packet := self._channel.recv(MAX_PACKET_BYTES):
            request = json.loads(packet)
            try:
                answer = getattr(self, f"_{request.pop('do')}")(**request)
            except OSError as error:
                answer = {"error": str(error)}
            self._channel.send(json.dumps(answer).encode())

    def _fork(self, chapters: list[str], **request) -> dict:
        for chapter in sorted(set(chapters) - self._met):
            self._met.add(chapter)
            preload(chapter)
            _share_all()
        ready, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            self._channel.close()
            _supervise(request, report, self._isolate)
        os.close(report)
        problem = _read_all(ready)
        if problem:
            os.waitpid(pid, 0)
            return {"error": problem}
        self._kernels[pid] = None
        return {"pid": pid}

    def _signal(self, pid: int, number: int) -> dict:
        if self._kernels.get(pid, 0) is None:
            os.kill(pid, number)
        return {}

    def _poll(self, pid: int) -> dict:
        if self._kernels.get(pid, 0) is None:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._kernels[pid] = os.waitstatus_to_exitcode(status)
        return {"exit": self._kernels.get(pid, 0)}


def _share_all() -> None:
    """A collection in a kernel would write to, and so copy, every object that it shares with us."""
    importlib.import_module(TELLS_OF_LEARNERS).noticer.remember()
    gc.collect()
    gc.freeze()


def _supervise(request: dict, report: int, isolate: bool) -> None:
    """In the first fork: make the namespaces, fork into them, wait. Never returns.

    This process is the kernel's supervisor: it forwards interrupts, and killing it kills the kernel.
    """
    try:
        os.setsid()
        namespaces.die_with_parent(signal.SIGKILL)
        if isolate:
            namespaces.enter_own_namespaces()
        child = os.fork()
        if child == 0:
            namespaces.die_with_parent(signal.SIGKILL)
            (_first_process if isolate else _kernel)(request, report)
    except BaseException as error:
        _fail(report, error)
    os.close(report)
    _forward_interrupts_to(child)
    _, status = os.waitpid(child, 0)
    os._exit(_as_exit(status))


def _first_process(request: dict, report: int) -> None:
    """Process 1 of the kernel's pid namespace: mounts, starts the kernel, reaps. Never returns."""
    try:
        namespaces.mount_proc()
        scratch_bytes = request["limits"]["scratch_bytes"]
        namespaces.keep_only(request["folder"], request["cwd"], scratch_bytes, request["also"])
        kernel = os.fork()
        if kernel == 0:
            namespaces.drop_capabilities()
            syscalls.refuse()
            _kernel(request, report)
    except BaseException as error:
        _fail(report, error)
    os.close(report)
    _forward_interrupts_to(kernel)
    _seal(request)
    while True:
        pid, status = os.wait()
        if pid == kernel:
            os._exit(_as_exit(status))


def _fail(report: int, error: BaseException) -> None:
    os.write(report, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def _forward_interrupts_to(child: int) -> None:
    signal.signal(signal.SIGINT, lambda *_: os.kill(child, signal.SIGINT))


def _as_exit(status: int) -> int:
    return abs(os.waitstatus_to_exitcode(status)) & 0x7F


def _seal(request: dict) -> None:
    """Once the kernel's sockets are there, nothing more can be written beside them.

    A kernel whose folder cannot be sealed does not run.
    """
    deadline = time.monotonic() + 30
    while len(list(Path(request["folder"]).glob("kernel-*"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    try:
        namespaces.make_read_only(request["folder"])
    except OSError:
        os._exit(1)


def _kernel(request: dict, report: int) -> None:
    """The kernel itself. Never returns."""
    try:
        os.close(report)
        prepare(request)
        launch(request)
    finally:
        os._exit(1)


def launch(request: dict) -> None:
    """Be the kernel until it ends."""
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.zmqshell import ZMQInteractiveShell

    ZMQInteractiveShell.ask_exit = _ask_exit
    IPKernelApp.launch_instance(request["argv"])


def _ask_exit(shell: object) -> None:
    """``exit()`` and ``quit()`` as in a script. A notebook's end their kernel 0.1 s later, at whatever it is doing then."""
    raise SystemExit


def prepare(request: dict) -> None:
    """A fresh process in all that a fork would have carried over."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    referee_address.take_from(os.environ)
    os.chdir(request["cwd"])
    sys.path.append("")
    sys.argv = ["ipykernel_launcher", *request["argv"]]
    _fresh_random_state()
    Limits(**request["limits"]).apply()
    importlib.import_module(TELLS_OF_LEARNERS).begin(referee_address.referee_address())


def _fresh_random_state() -> None:
    import random

    import numpy
    import torch

    random.seed()
    numpy.random.seed()
    torch.seed()


def _read_all(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read().decode("utf-8", "replace")


def _let_nobody_write(folder: str) -> None:
    """The server's own, which no kernel sees: what a chapter imports makes folders there, as torch._dynamo does."""
    if os.getuid() == 0:
        os.chmod(folder, 0o1777)


def become_nobody() -> None:
    """A sandboxed kernel of root's would be exempt from process limits: be someone else."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _warm_up() -> None:
    """Use once what imports more on first use: dispatch modes, autograd, saving, printing."""
    import io

    import torch

    import gpulab
    from autograder.protocol import wire

    with gpulab.observe() as seen:
        x = torch.ones(2, 3, requires_grad=True)
        (x.t().reshape(-1) * 2).sum().backward()
    seen.table()
    torch.save(x, io.BytesIO())
    wire.decode(wire.encode({"x": x}))


def main() -> None:
    """``python -m autograder.sandbox.fork_server <descriptor> <isolate: 0 or 1>``."""
    listener, isolate = socket.socket(fileno=int(sys.argv[1])), sys.argv[2] == "1"
    for module in PRELOAD:
        importlib.import_module(module)
    _warm_up()
    if isolate:
        _let_nobody_write("/tmp")
        become_nobody()
        namespaces.set_dumpable(False)
    _share_all()
    serve_graders(listener, isolate)


if __name__ == "__main__":
    main()
