"""The folder in /tmp that a grader shares with its kernels; those of killed graders are removed."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

_PREFIX, _LOCK = "grading-", "held-by-its-grader"
_SETTLED_SECONDS = 60


def fresh_folder(parent: str = "/tmp") -> tuple[Path, IO]:
    """A new folder, and the file whose lock says that its grader lives: keep it open."""
    _sweep(Path(parent))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    os.chmod(folder, 0o711)
    return folder, _locked(folder)


def _locked(folder: Path) -> IO:
    """Raises BlockingIOError when another process holds the lock."""
    file = open(folder / _LOCK, "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file


def _sweep(parent: Path) -> None:
    """A grader that is killed cannot clean up; its lock goes with it."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            about = folder.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _SETTLED_SECONDS:
                continue
            if (folder / _LOCK).exists():
                with _locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # another grader lives in it, or sweeps too
