"""The bubblewrap command around the kernel server: what of the machine it may see."""

import functools
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from autograder.core.layout import ROOT, beside_the_learner
from autograder.sandbox import marker

# Of this repository a kernel sees what learners have, and what plays scenarios. No judge,
# no solution, no gradebook, no other submission.
VISIBLE = (
    "gpulab",
    "autograder/__init__.py",
    "autograder/core/__init__.py",
    "autograder/core/layout.py",
    "autograder/core/preload.py",
    "autograder/core/settings.py",
    "autograder/hidden.py",
    "autograder/protocol",
    "autograder/runner",
    "autograder/sandbox",
)
_COVERED = ("autograder", "exercises")
"""Folders of which a kernel sees files, and not all of them."""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/certs",
)
_GPU = ("/dev/nvidia*", "/dev/dxg")


GIVEN = "/mnt/given"


def command(shared: str, work: str = "", scratch_bytes: int = 0) -> list[str]:
    """``bwrap`` and its options; ``shared`` is the one folder that both sides see and write.

    ``work``: the folder below it of a kernel that is alone in its sandbox; it becomes memory of the kernel's own,
    what lay there lies in ``GIVEN``, and ``scratch_bytes`` bound each place that can be written.
    """
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
    options += ["--hostname", "grader", "--dev", "/dev", "--dir", "/mnt"]
    options += [*(["--size", str(scratch_bytes)] if work else []), "--tmpfs", "/tmp"]
    if work:
        options += ["--proc", "/proc"]
    else:
        # The whole of /proc, since the kernel server may only mount each kernel a /proc of its own
        # where none of the outer one is covered. No kernel ever sees the outer one.
        options += ["--bind", "/proc", "/proc"]
    if os.getuid() == 0:
        # The server gives up root for an id that process limits hold for.
        options += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        options += ["--unshare-user"]
    paths = [*_SYSTEM, *_SETTINGS, *_course()]
    options += _folders_of([*paths, shared])
    for path in paths:
        if path == str(ROOT / VISIBLE[0]) and _is_installed():
            options += [option for name in _COVERED for option in ("--tmpfs", str(ROOT / name))]
            options += _folders_of(path for path in paths if path.startswith(_covered()))
        if os.path.lexists(path):
            options += ["--symlink", os.readlink(path), path] if _is_usr_merge(path) else ["--ro-bind", path, path]
    if _is_installed():
        options += [option for name in _COVERED for option in ("--remount-ro", str(ROOT / name))]
    options += [option for path in markers() for kind in ("--tmpfs", "--remount-ro") for option in (kind, path)]
    # Shared memory without a file behind it belongs to no process, and no limit counts it.
    options += ["--dev-bind", "/dev/null", "/dev/zero"]
    for device in (found for pattern in _GPU for found in glob.glob(pattern)):
        options += ["--dev-bind", device, device]
    options += ["--bind", shared, shared]
    if work:
        options += ["--ro-bind", work, GIVEN]
        for place in ("/dev/shm", work):
            options += ["--size", str(scratch_bytes), "--perms", "1777", "--tmpfs", place]
    return ["bwrap", *options]


def _folders_of(paths: Iterable[str]) -> list[str]:
    """bubblewrap makes parents that only root may enter; these are for everyone."""
    folders = sorted({str(parent) for path in paths for parent in Path(path).parents})
    return [option for folder in folders for option in ("--perms", "0755", "--dir", folder)]


def _covered() -> tuple[str, ...]:
    return tuple(f"{ROOT / name}{os.sep}" for name in _COVERED)


def _course() -> list[str]:
    """Python and what kernels may see of this repository."""
    return [*_python(), *(str(ROOT / name) for name in (*VISIBLE, *beside_the_learner()))]


def _is_installed() -> bool:
    """Whether all of the course lies in a folder that kernels see, as a wheel's files do: it is then covered."""
    return any(ROOT.is_relative_to(folder) for folder in (*_SYSTEM, *_python()))


def markers() -> list[str]:
    """Folders of an installed ``gpulab-mark`` that kernels would see."""
    return marker.folders([*_SYSTEM, *_python()])


def in_tmp() -> list[str]:
    """What of it lies in /tmp, which each kernel gets empty but for this."""
    found = [path for path in _course() if path.startswith("/tmp/") and os.path.lexists(path)]
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def _is_usr_merge(path: str) -> bool:
    return path in _SYSTEM and os.path.islink(path)


def _python() -> list[str]:
    """The interpreter's own folders and those of packages that lie elsewhere, as a user's own do; outermost first."""
    folders = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    folders |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    return sorted(folder for folder in folders if not folder.startswith("/usr"))


@functools.cache
def problem() -> str:
    """Why kernels cannot be sandboxed on this machine, or an empty string when they can."""
    if sys.platform != "linux":
        return "sandboxing needs Linux"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (Debian: apt-get install bubblewrap)"
    trial = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    result = subprocess.run(trial, capture_output=True, text=True)
    return f"bubblewrap does not work here: {result.stderr.strip()}" if result.returncode else ""
