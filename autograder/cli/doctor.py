"""``python -m autograder doctor``: what this machine can do, and what to install for the rest."""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.sandbox import sandbox

ENOUGH_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Finding:
    """One line: ``advice`` is empty when nothing is missing; ``needed`` when grading stops without it."""

    subject: str
    says: str
    advice: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """Everything, in the order in which it is printed."""
    return [finding for check in CHECKS for finding in check()]


def report(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        mark = "ok" if not finding.advice else "NEEDED" if finding.needed else "missing"
        lines.append(f"{mark:<8} {finding.subject:<16} {finding.says}")
        lines += [f"{'':25} {finding.advice}"] if finding.advice else []
    works = "Grading works on this machine." if can_grade(findings) else "Grading cannot work on this machine."
    return "\n".join([*lines, "", works])


def can_grade(findings: list[Finding]) -> bool:
    return not any(finding.advice and finding.needed for finding in findings)


def _python() -> Iterator[Finding]:
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    advice = "" if fits else "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12"
    yield Finding("Python", f"{platform.python_version()}, {sys.executable}", advice, needed=True)
    sockets = hasattr(socket, "AF_UNIX") and hasattr(os, "fork")
    advice = "" if sockets else "grading needs Unix sockets: use Linux, macOS or WSL"
    yield Finding("system", f"{platform.system()} {platform.release()}, {os.cpu_count()} cores", advice, needed=True)
    if sys.platform != "linux":
        yield Finding("warm kernels", "", "kernels are forked on Linux alone; here each imports everything anew")


def _packages() -> Iterator[Finding]:
    for package, for_what, needed in (
        ("nbgrader", "the gradebook and its commands", True),
        ("torch", "the exercises", True),
        ("distributed", "autograder grade", False),
        ("triton", "exercises with Triton kernels", False),
        ("psycopg", "a PostgreSQL gradebook", False),
    ):
        version = _version(package)
        extra = {"psycopg": "pip install -e .[postgresql]", "triton": "pip install triton"}
        advice = "" if version else f"{for_what}: {extra.get(package, 'make env')}"
        yield Finding(package, version or "not installed", advice, needed)


def _marker() -> Iterator[Finding]:
    """A sandbox covers it; without one a submission reads the solutions there."""
    if found := sorted({str(Path(path).parent) for path in sandbox.markers()}):
        advice = "it holds every solution, and code that is graded may find it: uninstall it there"
        yield Finding("gpulab-mark", f"is installed in {', '.join(found)}", advice, needed=True)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _gpu() -> Iterator[Finding]:
    driver = _driver()
    try:
        import torch
    except ImportError:
        return
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        yield Finding("GPU", f"{names}; driver {driver or 'unknown'}, torch is {build}")
    elif driver and not torch.version.cuda:
        advice = "TORCH=as-is make env installs the CUDA build"
        yield Finding("GPU", f"driver {driver}, but torch is {build}", advice)
    elif driver:
        yield Finding("GPU", f"driver {driver}, torch is {build}", "torch sees no GPU: is the driver new enough?")
    else:
        yield Finding("GPU", f"none; torch is {build}", "not needed: properties of real hardware are then not gradable")


def _driver() -> str:
    """The version of NVIDIA's driver, empty when there is none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


def _sandbox() -> Iterator[Finding]:
    problem = sandbox.problem()
    yield Finding("sandbox", "does not work" if problem else f"bubblewrap {_bubblewrap()} works", problem, needed=True)
    namespaces = Path("/proc/sys/user/max_user_namespaces")
    most = int(namespaces.read_text()) if namespaces.exists() else 0
    advice = "" if most else "each kernel needs one: sysctl user.max_user_namespaces=10000"
    yield Finding("user namespaces", f"up to {most}" if most else "none", advice)


def _kernel() -> Iterator[Finding]:
    """The whole way to a running kernel, as grading goes it."""
    from autograder.notebooks.environment import kernel_environment
    from autograder.sandbox.workspace import workspace

    async def start(seat) -> None:
        manager = seat.kernel_manager([])
        await manager.start_kernel(env=kernel_environment(), cwd=str(seat.folder / "work"))
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        client.stop_channels()
        await manager.shutdown_kernel(now=True)

    started = time.monotonic()
    try:
        with workspace("off" if sandbox.problem() else "required") as fresh:
            asyncio.run(start(fresh))
    except Exception as error:
        yield Finding("kernel", "does not start", f"{type(error).__name__}: {error}", needed=True)
        return
    yield Finding("kernel", f"the first one is ready after {time.monotonic() - started:.1f} s")


def _bubblewrap() -> str:
    done = subprocess.run(["bwrap", "--version"], capture_output=True, text=True)
    return done.stdout.removeprefix("bubblewrap").strip()


def _disk() -> Iterator[Finding]:
    for what, folder in (("disk, course", Path.cwd()), ("disk, /tmp", Path("/tmp"))):
        free = shutil.disk_usage(folder).free
        too_little = f"less than {ENOUGH_BYTES / 1024**3:g} GiB: make room before grading a class"
        advice = "" if free >= ENOUGH_BYTES else too_little
        yield Finding(what, f"{free / 1024**3:.1f} GiB free", advice)


def chromium() -> str | None:
    """The path of the browser that ``make test`` opens pages in. The headless shell starts one for half the processor time."""
    asked = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [asked] if asked else ["chromium-headless-shell", "chromium"])), None)


def _browser() -> Iterator[Finding]:
    found = chromium()
    advice = "" if found else "only `make test` needs it: apt-get install chromium-headless-shell (or chromium)"
    yield Finding("chromium", found or "not found", advice)


def _postgresql() -> Iterator[Finding]:
    found = shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    advice = "" if found else "only `make test` needs its server: apt-get install postgresql"
    yield Finding("PostgreSQL", str(found or "not found"), advice)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _marker,
    _gpu,
    _sandbox,
    _kernel,
    _disk,
    _browser,
    _postgresql,
)
