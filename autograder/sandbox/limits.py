"""What one submission's kernel may use."""

import resource
from dataclasses import asdict, dataclass

UNCOUNTED = 1 << 22
"""As many processes as a system can have."""


@dataclass(frozen=True)
class Limits:
    """Bounds that the operating system holds a kernel and its children to."""

    cpu_seconds: int = 300
    memory_bytes: int = 4 * 1024**3
    processes: int = 128
    file_bytes: int = 64 * 1024**2
    scratch_bytes: int = 256 * 1024**2
    open_files: int = 512

    def apply(self) -> None:
        """Set the limits on the calling process; its children inherit them.

        Memory is RLIMIT_DATA, private writable memory of each process; address space is not
        limited, since torch reserves far more of it than it uses.
        """
        for kind, value in (
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_DATA, self.memory_bytes),
            (resource.RLIMIT_NPROC, self.processes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CORE, 0),
        ):
            _, hard = resource.getrlimit(kind)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))

    def to_dict(self) -> dict[str, int]:
        return asdict(self)
