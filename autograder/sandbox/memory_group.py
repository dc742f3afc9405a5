"""A control group that bounds the memory of one grader's kernels, all kinds of it, where Linux lets us make one.

The watch (:mod:`autograder.sandbox.watch`) adds up what processes hold and says why it killed one; memory
that belongs to no process escapes it, and so does a burst between two looks. A group escapes neither.
"""

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MARGIN_BYTES = 256 * 1024**2
_numbers = itertools.count()


@dataclass(frozen=True)
class MemoryGroup:
    """``folder`` of the group; empty groups can be removed."""

    folder: Path

    def hold(self, pid: int) -> None:
        """The process and all that it starts from now on."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes of the group Linux has ended because its memory was full."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                counts = dict(line.split() for line in (self.folder / name).read_text().splitlines())
                return int(counts.get("oom_kill", 0))
        return 0

    def close(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()


def memory_group(limit_bytes: int) -> MemoryGroup | None:
    """A new group of ``limit_bytes`` and a margin below the grader's own; None where there is none to be had."""
    for parent, limit in _parents(Path("/proc/self/cgroup").read_text() if os.path.exists("/proc/self/cgroup") else ""):
        folder = parent / f"kernels-{os.getpid()}-{next(_numbers)}"
        try:
            (parent / "cgroup.procs").read_text()  # another file system may lie here
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(limit_bytes + MARGIN_BYTES))
            return MemoryGroup(folder)
        except OSError:  # the memory controller is not handed down to us
            folder.rmdir()
    return None


def _parents(membership: str) -> list[tuple[Path, str]]:
    """Where a group could be made, and the file of its limit: version 2, then version 1.

    In version 2 a group that holds processes hands no controller down, so the one above it is tried too.
    """
    found = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            own = MOUNT / path.lstrip("/")
            found[:0] = [
                (folder, "memory.max") for folder in dict.fromkeys((own, own.parent)) if folder.is_relative_to(MOUNT)
            ]
        elif "memory" in controllers.split(","):
            found.append((MOUNT / "memory" / path.lstrip("/"), "memory.limit_in_bytes"))
    return found
